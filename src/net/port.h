/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The ports of a device: number, GID table, P_Key table, and by port_ops what it says of itself and which routes
 * leave it. Those made of network interfaces (netdev_port_ops) are opened by contexts (net.h), or are a snapshot
 * of an interface whose device is not open.
 */
#ifndef VERBATIM_NET_PORT_H
#define VERBATIM_NET_PORT_H

#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/lock.h"
#include "config/config.h"
#include "net/naming.h"
#include "object/route.h"
#include "platform/netdev.h"

#define PORTS_MAX	2u		/* of a device */
#define GID_TABLE_SIZE	256		/* the most that a port has */
#define PKEY_TABLE_SIZE	128		/* the most that a port has */

/* A GID of a port, and the address that carries it. */
struct gid_entry {
	bool valid;
	uint8_t type;		/* PORT_GID_...: how packets from it travel */
	union ibv_gid gid;
	uint8_t address[16];	/* source address of packets; ::ffff:127.0.0.1 or ::1 where the
				 * interface does not have the link-local address of GID 0 */
	bool host_only;		/* such a GID: works inside this host */
};

struct net;
struct port;

/* What a port says of itself. */
struct port_state {
	enum ibv_port_state state;
	uint8_t physical;		/* PortPhysicalState: 3 Disabled, 5 LinkUp */
	enum ibv_mtu mtu, mtu_max;	/* active; that the port can do */
	uint32_t speed_mbps;
	uint8_t width;			/* codes of struct ibv_port_attr; 0: those nearest to speed_mbps */
	uint32_t speed;
	uint8_t vls;			/* code of max_vl_num */
	uint8_t link_layer;		/* IBV_LINK_LAYER_... */
	bool needs_grh;
	uint32_t capabilities;		/* IBV_PORT_... */
	uint16_t capabilities2;
	uint16_t lid, sm_lid;		/* 0: the link has none */
	uint8_t lmc, sm_sl, subnet_timeout, init_type_reply;
	uint32_t pkey_violations, qkey_violations;
};

/* How ports of one kind do it. A port raises events of its own by net->changed(). */
struct port_ops {
	/* Under net->lock. */
	void (*query)(const struct port *port, struct port_state *state);
	/*
	 * The route to @attr's destination, whose port_num is this port's. 0; EINVAL; ENETUNREACH,
	 * EHOSTUNREACH: no route; ETIMEDOUT, after a second: the next hop does not answer. Explained in the
	 * name of @who.
	 */
	int (*resolve)(struct net *net, const struct port *port, const struct ibv_ah_attr *attr, const char *who,
		       struct route *route);
	void (*free)(struct port *port);
};

/* IBV_EVENT_DEVICE_SPEED_CHANGE of rdma-core 63, which our header may lack. */
#define EVENT_SPEED_CHANGE	20

/*
 * netdev, gone and gid[]: of an open port, under net->lock; net_refresh() replaces them. Name, number,
 * interface_index, GUIDs and config are fixed.
 */
struct port {
	struct list node GUARDED;	/* in net->ports, if it is open; by net->lock */
	unsigned references GUARDED;	/* by net->lock, too */
	const struct port_ops *ops;
	uint8_t number;			/* of its device, from 1 */
	char name[DEVICE_NAME_MAX];
	uint32_t interface_index;
	struct netdev netdev;		/* as last seen */
	bool gone;			/* the interface went away */
	bool alone;			/* the only device, when it was opened */
	const struct config *config;
	uint64_t guid;			/* network order, as those of its device */
	uint64_t node_guid, system_guid;
	uint16_t gids;			/* length of the table; fixed */
	/* Of an interface: each address has a GID of these, in this order; fixed. 0: PORT_GID_ROCE_V2 alone. */
	uint8_t gid_types, gid_type[2];
	uint16_t ib_port;		/* struct ib_way's port; 0: RoCE */
	struct gid_entry gid[GID_TABLE_SIZE];
	uint16_t pkeys;			/* fixed */
	/* [pkeys], 0: none. Written under net->lock, before QPs are told; a QP reads it under its own. */
	_Atomic uint16_t pkey[PKEY_TABLE_SIZE];
};

/*
 * Who makes the ports of devices of one kind: those of the device @name, in the order of their numbers, in
 * @ports. 0; ENODEV, unexplained: no device of this kind; errno, explained.
 */
struct net_gid;
struct net_way;
struct net_ib_port;
struct net_service;
struct port_maker {
	int (*make)(void *owner, struct net *net, const char *name, struct port *ports[PORTS_MAX],
		    unsigned *count);
	/* Which of its ports has an address or a GID. 0; EADDRNOTAVAIL: none; errno. */
	int (*find)(void *owner, const uint8_t address[16], struct net_gid *found);
	/* As net_find_ib_way(). */
	int (*find_way)(void *owner, bool alone, struct net_way *way);
	/* What a port is now. False: there is none. */
	bool (*look)(void *owner, uint16_t ib_port, struct net_ib_port *now);
	/* Claims, serves or releases a service ID at its node. 0; EADDRINUSE; errno. */
	int (*serve)(void *owner, const struct net_service *service);
	/* For explanations: its devices and their addresses, as net_describe_devices(). */
	void (*describe)(void *owner, char *text, size_t bytes);
	void *owner;
};

/* IBV_GID_TYPE_IB, _ROCE_V1, _ROCE_V2. */
enum port_gid_type { PORT_GID_IB, PORT_GID_ROCE_V1, PORT_GID_ROCE_V2 };

/* The link of its packets, as a datagram has it. */
static inline uint8_t gid_entry_link(const struct gid_entry *entry)
{
	return entry->type == PORT_GID_ROCE_V1 ? ROUTE_ROCE_V1 : 0;
}

/* Of network interfaces. */
extern const struct port_ops netdev_port_ops;
int netdev_resolve(struct net *net, const struct port *port, const struct ibv_ah_attr *attr, const char *who,
		   struct route *found);	/* route.c */

/* Fills a port from the interface as it is now. */
void port_init(struct port *port, const struct config *config, const struct named_netdev *named);
/* RoCE v1 is wanted on an interface that could have it, and is not permitted: 0, or why not (EPERM). */
int port_lacks_v1(const struct config *config, const struct netdev *netdev);
/* EUI-64 of the interface's MAC address, in network order. */
uint64_t port_guid(const struct netdev *netdev);
/* Up, running, and there. */
bool port_is_active(const struct port *port);
enum ibv_mtu port_active_mtu(const struct port *port);
void port_query(const struct port *port, struct port_state *state);

/* gid_table.c: bring the table in line with the interface's addresses. Has anything changed? */
bool gid_table_update(struct port *port);
/* GID 0: the link-local prefix and the GUID, whether the interface has that address or not. */
void gid_table_default(const struct port *port, uint8_t gid[16]);
/* NULL: no GID at that index. */
const struct gid_entry *gid_table_get(const struct port *port, uint32_t index);
/*
 * The index of that GID, or of the GID that packets from @address have, of @type if there is one, else of another.
 * GID_TABLE_SIZE: there is none.
 */
uint32_t gid_table_find(const struct port *port, enum port_gid_type type, const uint8_t address[16]);

#endif
