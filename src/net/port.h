/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The port of a device: a network interface with its GID table, as last seen. It is opened by contexts
 * (net.h), or a snapshot of an interface whose device is not open.
 */
#ifndef VERBATIM_NET_PORT_H
#define VERBATIM_NET_PORT_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/lock.h"
#include "config/config.h"
#include "net/naming.h"
#include "platform/netdev.h"

#define PORT_NUMBER	1u		/* every device has one port */
#define GID_TABLE_SIZE	256

/* A GID of a port, and the address that carries it. */
struct gid_entry {
	bool valid;
	union ibv_gid gid;
	uint8_t address[16];	/* source address of packets; ::ffff:127.0.0.1 or ::1 where the
				 * interface does not have the link-local address of GID 0 */
	bool host_only;		/* such a GID: works inside this host */
};

/* IBV_EVENT_DEVICE_SPEED_CHANGE of rdma-core 63, which our header may lack. */
#define EVENT_SPEED_CHANGE	20

/*
 * netdev, gone and gid[]: of an open port, under net->lock; net_refresh() replaces them. Name, interface_index,
 * guid and config are fixed.
 */
struct port {
	struct list node GUARDED;	/* in net->ports, if it is open; by net->lock */
	unsigned references GUARDED;	/* by net->lock, too */
	char name[DEVICE_NAME_MAX];
	uint32_t interface_index;
	struct netdev netdev;		/* as last seen */
	bool gone;			/* the interface went away */
	bool alone;			/* the only device, when it was opened */
	const struct config *config;
	uint64_t guid;			/* network order */
	struct gid_entry gid[GID_TABLE_SIZE];
};

/* Fills a port from the interface as it is now. */
void port_init(struct port *port, const struct config *config, const struct named_netdev *named);
/* EUI-64 of the interface's MAC address, in network order. */
uint64_t port_guid(const struct netdev *netdev);
/* Up, running, and there. */
bool port_is_active(const struct port *port);
enum ibv_mtu port_active_mtu(const struct port *port);

/* gid_table.c: bring the table in line with the interface's addresses. Has anything changed? */
bool gid_table_update(struct port *port);
/* GID 0: the link-local prefix and the GUID, whether the interface has that address or not. */
void gid_table_default(const struct port *port, uint8_t gid[16]);
/* NULL: no GID at that index. */
const struct gid_entry *gid_table_get(const struct port *port, uint32_t index);
/* The index of that GID, or of the GID that packets from @address have; GID_TABLE_SIZE: there is none. */
uint32_t gid_table_find(const struct port *port, const uint8_t address[16]);

#endif
