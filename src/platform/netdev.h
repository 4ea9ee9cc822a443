/* SPDX-License-Identifier: BSD-2-Clause */
/* The machine's network interfaces, by rtnetlink (libmnl). */
#ifndef VERBATIM_PLATFORM_NETDEV_H
#define VERBATIM_PLATFORM_NETDEV_H

#include <stdbool.h>
#include <stdint.h>

#include "platform/netlink.h"

#define NETDEV_ADDRESSES_MAX 64

struct netdev_address {
	uint8_t address[16];		/* v4-mapped or IPv6 */
	uint8_t prefix_bits;		/* IPv4: 0..32 */
	bool link_local;
	bool tentative;			/* duplicate address detection: not to be used yet */
};

struct netdev {
	char name[16];
	uint32_t index;
	bool up, running, loopback;	/* IFF_UP, IFF_RUNNING (carrier), IFF_LOOPBACK */
	bool ethernet;			/* ARPHRD_ETHER: what leaves it is an Ethernet frame */
	uint32_t mtu;			/* bytes, of IP */
	uint8_t mac[6];			/* zero where the interface has none */
	uint32_t speed_mbps;		/* /sys/class/net speed, 0: unknown */
	unsigned address_count;
	/* IPv4 first, in the kernel's order */
	struct netdev_address address[NETDEV_ADDRESSES_MAX];
};

/* All interfaces, in index order; *list is malloc'ed. 0 or errno. */
int netdev_list(struct netdev **list, int *count);

/* An fd that is readable when links or addresses changed; netdev_monitor_drain() empties it. */
int netdev_monitor_open(int *fd);
/* The same of all that a route depends on: routes, rules and neighbours, too. */
int netdev_monitor_routes(int *fd);
bool netdev_monitor_drain(int fd);	/* was there anything? */

struct netdev_route {
	uint32_t interface;		/* by which it leaves; that of lo when it is local */
	uint8_t source[16];		/* of packets there; zero: the kernel names none */
	uint8_t hop[16];		/* the neighbour that takes them: a gateway, or @destination */
	bool local;			/* @destination is an address of this host */
};

/*
 * The way to @destination as the kernel routes, asked by @netlink (or NULL). @source: all zero: any;
 * @interface 0: any.
 * 0; ENETUNREACH, EHOSTUNREACH; EINVAL or ENETUNREACH, by the kernel's version, also where
 * @source is no address of this host or not for there.
 */
int netdev_route(struct netlink *netlink, const uint8_t destination[16], const uint8_t source[16],
		 uint32_t interface, struct netdev_route *route);

/* Is @address one of this host's own (would be delivered locally)? @interface scopes fe80::. */
bool netdev_is_local(struct netlink *netlink, const uint8_t address[16], uint32_t interface);

/* Multicast groups that a socket of this network namespace may join: igmp_max_memberships. */
uint32_t netdev_max_memberships(void);

#endif
