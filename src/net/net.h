/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * RDMA ports of this process, above all those of network interfaces: devices and their names, GID tables and port
 * states, and the way to an address. The kernel is asked each time: addresses come and go.
 */
#ifndef VERBATIM_NET_NET_H
#define VERBATIM_NET_NET_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "base/lock.h"
#include "config/config.h"
#include "net/port.h"
#include "net/route_cache.h"
#include "object/route.h"
#include "platform/netdev.h"

struct net {
	const struct config *config;
	struct lock lock;		/* the list of open ports, and their contents (port.h) */
	struct list ports;
	struct netlink netlink;		/* for routes; has a lock of its own */
	struct route_cache routes;	/* of address handles; has one, too */
	/* Beside interfaces, and asked before them; make NULL: there are none. */
	struct port_maker maker;
	/* An open port has changed: an event of ibv_get_async_event(3) for its contexts. Under lock. */
	void (*changed)(void *owner, struct port *port, enum ibv_event_type type);
	void *owner;
};

void net_init(struct net *net, const struct config *config);
void net_fini(struct net *net);
void net_abandon(struct net *net);	/* in a fork()ed child */

/* Open the ports of the device @name, or take another reference. 0, ENODEV (explained), ENOMEM. */
int net_get_ports(struct net *net, const char *name, struct port *ports[PORTS_MAX], unsigned *count);
void net_put_port(struct net *net, struct port *port);
/* The active MTU of an open port; *interface_mtu (or NULL): of the interface, which it follows from. */
enum ibv_mtu net_active_mtu(struct net *net, const struct port *port, uint32_t *interface_mtu);
/* An event of an open port, for those who keep it: changed() is told. */
void net_raise(struct net *net, struct port *port, enum ibv_event_type type) REQUIRES(net->lock);
/* What has become of an interface that a port is open on, or of a port of a fabric. */
struct net_change {
	uint32_t interface;		/* its index */
	bool gone;			/* else: its MAC address is another one */
	uint16_t ib_port;		/* CLIENT_REREGISTER there; 0: of an interface */
};

/*
 * Interfaces have changed: reads all of them anew, and reports differences by changed(); those of
 * the other kind are put into @changes. Returns how many: if there are @max, the rest is lost.
 */
unsigned net_refresh(struct net *net, struct net_change *changes, unsigned max);

/* ---- the way to an address ---- */

/* The IPv4 group under which an IPv6 group travels when it is sent to from an IPv4 GID. */
void net_multicast_alias(const uint8_t gid[16], uint8_t alias[16]);
/* Is @gid the link-local GID 0 of an interface of this host? */
bool net_is_default_gid(const uint8_t gid[16]);

/* A GID of this host: where it is. */
struct net_gid {
	char device[IBV_SYSFS_NAME_MAX];
	char interface[16];
	uint32_t interface_index;
	uint64_t guid;			/* of the device, network order */
	uint8_t port;			/* 1 */
	uint32_t gid_index;
	union ibv_gid gid;
	uint8_t address[16];		/* source of packets from that GID */
	enum ibv_mtu active_mtu;
	uint16_t pkey;
	uint8_t link;			/* of packets from that GID, as in a datagram; 0: UDP */
	uint16_t ib_port;		/* struct ib_way's, of a virtual fabric; 0: RoCE */
};

/*
 * The GID of @address (v4-mapped or IPv6; also 127.x on lo; of 127.0.0.1 and ::1, where lo is no device, that of
 * another one); @interface scopes fe80:: (0: any). 0; ENODEV: the address is of this host but of no device;
 * EADDRNOTAVAIL: it is not an address of this host.
 */
int net_find_gid(struct net *net, const uint8_t address[16], uint32_t interface, struct net_gid *found);
/* The same; of several GIDs of one address that whose packets go by @link. */
int net_find_gid_of(struct net *net, uint8_t link, const uint8_t address[16], uint32_t interface,
		    struct net_gid *found);
/* The MGID of an IP group for packets from @gid: by RoCE v2 its address, by v1 of IPv4 ff0e::ffff:a.b.c.d. */
void net_group_gid(const struct net_gid *gid, const uint8_t group[16], uint8_t mgid[16]);

/* ---- ports of a virtual InfiniBand fabric ---- */

bool net_has_ib(const struct net *net);
/* What one is now. */
struct net_ib_port {
	uint16_t lid, sm_lid;
	uint8_t lmc, sm_sl, subnet_timeout;
	enum ibv_port_state state;
	enum ibv_mtu active_mtu;
	union ibv_gid gid;
	uint16_t pkeys;
	uint16_t pkey[PKEY_TABLE_SIZE];
};
/* False: no such port. */
bool net_ib_port(struct net *net, uint16_t ib_port, struct net_ib_port *now);
/* The row of the port's table that is of the same partition; PKEY_TABLE_SIZE: none. */
unsigned net_ib_pkey_index(const struct net_ib_port *now, uint16_t pkey);
/*
 * The table of a port now; @ib_port 0: of an interface, where RoCE has the default partition alone.
 * net_pkey(): the key of row @index, 0: none; net_find_pkey(): as net_ib_pkey_index(), PKEY_TABLE_SIZE
 * also when there is no such port.
 */
uint16_t net_pkey(struct net *net, uint16_t ib_port, unsigned index);
unsigned net_find_pkey(struct net *net, uint16_t ib_port, uint16_t pkey);

/*
 * To @destination, an IP address, a GID or a multicast address, from @source, or all zero: chosen. Then
 * @port is where it leaves, @source its IP address or GID, and @gid that of the destination (not of
 * multicast). 0; ENOENT: that way is not by a fabric; EADDRNOTAVAIL, EHOSTUNREACH; errno.
 */
struct net_way {
	uint8_t source[16], destination[16], gid[16];
	bool by_gid;			/* both are GIDs, and not of RoCE, whoever knows them */
	struct net_gid port;
};
int net_find_ib_way(struct net *net, struct net_way *way);

/* A service ID at the ports of the fabric (ib/protocol.h). ENOENT: there are none. */
enum net_serve { NET_RELEASE, NET_CLAIM, NET_SERVE };
struct net_service {
	enum net_serve what;
	uint64_t id;
	uint8_t address[16];		/* zero: any, of @family: AF_INET, AF_INET6, AF_UNSPEC */
	int family;
};
int net_serve_ib(struct net *net, const struct net_service *service);
/* Are there devices of interfaces? */
bool net_has_interfaces(void);

/*
 * The GID to reach @destination from, as the kernel routes. @source: all zero: chosen; else it is bound to.
 * Multicast destinations too. 0; ENETUNREACH, EHOSTUNREACH; ENODEV: routed over an interface without a
 * device; EADDRNOTAVAIL.
 */
int net_find_route(struct net *net, const uint8_t source[16], const uint8_t destination[16], uint32_t interface,
		   struct net_gid *found);
/*
 * Does the next hop on the way from @source to @destination, an address of another host, answer to
 * ARP or neighbour discovery? If not, it is asked, and a later call finds the answer. True where
 * nothing can be known.
 */
bool net_neighbour_answers(struct net *net, const struct net_gid *source, const uint8_t destination[16]);
/* An address of this host, or the GID 0 of a device here that is no address (made from the MAC)? */
bool net_is_local(struct net *net, const uint8_t address[16], uint32_t interface);
/* GIDs of this host that no packet can carry; *gids is malloc'ed. Returns how many. */
unsigned net_host_only_gids(uint8_t (**gids)[16]);
/*
 * For explanations: "vb_eth0 (10.0.0.2, fe80::1), vb_lo (127.0.0.1, ::1)", or why there is none. @net: or NULL.
 * Returns @text.
 */
const char *net_describe_devices(struct net *net, char *text, size_t bytes);

#endif
