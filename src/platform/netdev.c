/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Interfaces, addresses and routes, asked of the kernel by rtnetlink, from any thread.
 */
#include "platform/netdev.h"

#include <errno.h>
#include <linux/ethtool.h>
#include <linux/if_addr.h>
#include <linux/rtnetlink.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/ip_addr.h"
#include "platform/fail.h"

#define MEMBERSHIPS 20		/* Linux's default of igmp_max_memberships */
#define DUMP_TRIES 8		/* the kernel says when a dump was overtaken by a change */

struct netdev_set {
	struct netdev *list;
	int count, capacity;
	int control_fd;			/* for ioctl */
};

/* ---- questions ---- */

static int netdev_dump(struct netlink *netlink, uint16_t type, mnl_cb_t take, void *context)
{
	char buffer[256];
	struct nlmsghdr *message = mnl_nlmsg_put_header(buffer);
	size_t bytes = type == RTM_GETLINK ? sizeof(struct ifinfomsg) : sizeof(struct ifaddrmsg);
	struct rtgenmsg *family;

	message->nlmsg_type = type;
	message->nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
	family = mnl_nlmsg_put_extra_header(message, bytes);
	family->rtgen_family = AF_UNSPEC;
	return netlink_ask(netlink, message, take, context);
}

/* ---- links ---- */

/* Asked of the interface itself, not of /sys, which may show another network namespace. */
static uint32_t read_speed(int control_fd, const char *name)
{
	union {
		struct ethtool_link_settings settings;
		uint8_t bytes[sizeof(struct ethtool_link_settings) + 3 * 127 * 4];
	} request = { .settings.cmd = ETHTOOL_GLINKSETTINGS };
	struct ifreq ifreq = { .ifr_data = (char *)&request };
	int8_t words;

	strncpy(ifreq.ifr_name, name, sizeof(ifreq.ifr_name) - 1);
	if (ioctl(control_fd, SIOCETHTOOL, &ifreq))
		return 0;
	/* The kernel's first answer is the number of words of its masks, negated. */
	words = request.settings.link_mode_masks_nwords;
	if (words >= 0)
		return 0;
	memset(&request, 0, sizeof(request));
	request.settings.cmd = ETHTOOL_GLINKSETTINGS;
	request.settings.link_mode_masks_nwords = (int8_t)-words;
	if (ioctl(control_fd, SIOCETHTOOL, &ifreq) ||
	    request.settings.speed == (uint32_t)SPEED_UNKNOWN)
		return 0;
	return request.settings.speed;
}

static struct netdev *add_netdev(struct netdev_set *set)
{
	struct netdev *grown;
	int capacity = set->capacity ? 2 * set->capacity : 8;

	if (set->count == set->capacity) {
		grown = fail_now(FAIL_ALLOCATE) ? NULL :
			realloc(set->list, (size_t)capacity * sizeof(*grown));
		if (!grown) {
			errno = ENOMEM;
			return NULL;
		}
		set->list = grown;
		set->capacity = capacity;
	}
	memset(&set->list[set->count], 0, sizeof(*grown));
	return &set->list[set->count++];
}

static void take_link_attribute(struct netdev *netdev, const struct nlattr *attribute)
{
	uint16_t bytes = mnl_attr_get_payload_len(attribute);

	switch (mnl_attr_get_type(attribute)) {
	case IFLA_IFNAME:
		strncpy(netdev->name, mnl_attr_get_str(attribute), sizeof(netdev->name) - 1);
		break;
	case IFLA_MTU:
		if (bytes >= sizeof(uint32_t))
			netdev->mtu = mnl_attr_get_u32(attribute);
		break;
	case IFLA_ADDRESS:
		if (bytes == sizeof(netdev->mac))
			memcpy(netdev->mac, mnl_attr_get_payload(attribute), bytes);
		break;
	}
}

static int take_link(const struct nlmsghdr *message, void *context)
{
	const struct ifinfomsg *info = mnl_nlmsg_get_payload(message);
	struct netdev_set *set = context;
	const struct nlattr *attribute;
	struct netdev *netdev;

	if (message->nlmsg_type != RTM_NEWLINK)
		return MNL_CB_OK;
	netdev = add_netdev(set);
	if (!netdev)
		return MNL_CB_ERROR;
	netdev->index = (uint32_t)info->ifi_index;
	netdev->up = info->ifi_flags & IFF_UP;
	netdev->running = info->ifi_flags & IFF_RUNNING;
	netdev->loopback = info->ifi_flags & IFF_LOOPBACK;
	netdev->ethernet = info->ifi_type == ARPHRD_ETHER;
	mnl_attr_for_each(attribute, message, sizeof(*info))
		take_link_attribute(netdev, attribute);
	if (!netdev->loopback && set->control_fd >= 0)
		netdev->speed_mbps = read_speed(set->control_fd, netdev->name);
	return MNL_CB_OK;
}

/* ---- addresses ---- */

struct address_parts {
	const struct nlattr *local, *address;
	uint32_t flags;
};

static void take_address_attribute(struct address_parts *parts, const struct nlattr *attribute)
{
	switch (mnl_attr_get_type(attribute)) {
	case IFA_LOCAL:
		parts->local = attribute;
		break;
	case IFA_ADDRESS:	/* on a point-to-point link with IFA_LOCAL: that of the other end */
		parts->address = attribute;
		break;
	case IFA_FLAGS:
		parts->flags = mnl_attr_get_u32(attribute);
		break;
	}
}

/* Sets *address; false when the message holds none that we understand. */
static bool netdev_parse_address(const struct nlmsghdr *message, struct netdev_address *address)
{
	const struct ifaddrmsg *info = mnl_nlmsg_get_payload(message);
	struct address_parts parts = { .flags = info->ifa_flags };
	size_t bytes = info->ifa_family == AF_INET ? 4 : 16;
	const struct nlattr *attribute;

	if (info->ifa_family != AF_INET && info->ifa_family != AF_INET6)
		return false;
	mnl_attr_for_each(attribute, message, sizeof(*info))
		take_address_attribute(&parts, attribute);
	attribute = parts.local ? parts.local : parts.address;
	if (!attribute || mnl_attr_get_payload_len(attribute) < bytes)
		return false;
	memset(address, 0, sizeof(*address));
	if (info->ifa_family == AF_INET)
		ip_addr_map_ipv4(address->address, mnl_attr_get_payload(attribute));
	else
		memcpy(address->address, mnl_attr_get_payload(attribute), 16);
	address->prefix_bits = info->ifa_prefixlen;
	address->link_local = info->ifa_family == AF_INET6 && ip_addr_is_link_local_ipv6(address->address);
	address->tentative = info->ifa_family == AF_INET6 && !(parts.flags & IFA_F_OPTIMISTIC) &&
			     (parts.flags & (IFA_F_TENTATIVE | IFA_F_DADFAILED));
	return true;
}

/* IPv4 before IPv6, each in the order they come: the dump of AF_UNSPEC has IPv4 first. */
static int take_address(const struct nlmsghdr *message, void *context)
{
	const struct ifaddrmsg *info = mnl_nlmsg_get_payload(message);
	struct netdev_set *set = context;
	struct netdev_address address;
	int i;

	if (message->nlmsg_type != RTM_NEWADDR || !netdev_parse_address(message, &address))
		return MNL_CB_OK;
	for (i = 0; i < set->count; i++) {
		struct netdev *netdev = &set->list[i];

		if (netdev->index == info->ifa_index &&
		    netdev->address_count < NETDEV_ADDRESSES_MAX)
			netdev->address[netdev->address_count++] = address;
	}
	return MNL_CB_OK;
}

static int by_index(const void *a, const void *b)
{
	const struct netdev *left = a, *right = b;

	return left->index < right->index ? -1 : left->index > right->index;
}

static int list_once(struct netdev_set *set)
{
	int err, i;

	set->count = 0;
	err = netdev_dump(NULL, RTM_GETLINK, take_link, set);
	if (err)
		return err;
	for (i = 0; i < set->count; i++)
		set->list[i].address_count = 0;
	return netdev_dump(NULL, RTM_GETADDR, take_address, set);
}

int netdev_list(struct netdev **list, int *count)
{
	struct netdev_set set = { .control_fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0) };
	int err, tries = 0;

	do
		err = list_once(&set);
	while (err == EINTR && ++tries < DUMP_TRIES);
	if (set.control_fd >= 0)
		close(set.control_fd);
	if (err) {
		free(set.list);
		return err;
	}
	if (set.count)
		qsort(set.list, (size_t)set.count, sizeof(*set.list), by_index);
	*list = set.list;
	*count = set.count;
	return 0;
}

/* ---- changes ---- */

#define GROUPS_ADDRESSES (RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR)
#define GROUPS_ROUTES	 (RTMGRP_IPV4_ROUTE | RTMGRP_IPV6_ROUTE | RTMGRP_NEIGH | RTMGRP_IPV4_RULE | \
			  1u << (RTNLGRP_IPV6_RULE - 1))
/* That something changed is all that is asked for: what does not fit into the queue is lost, and said. */
#define MONITOR_BYTES	 8192

static int monitor_open(uint32_t groups, int *fd)
{
	struct sockaddr_nl address = { .nl_family = AF_NETLINK, .nl_groups = groups };
	int made, err, bytes = MONITOR_BYTES;

	made = fail_now(FAIL_NETLINK) ? -1 :
	       socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);
	if (made < 0)
		return errno;
	if (fail_now(FAIL_BIND) || bind(made, (struct sockaddr *)&address, sizeof(address))) {
		err = errno;
		close(made);
		return err;
	}
	(void)setsockopt(made, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
	*fd = made;
	return 0;
}

int netdev_monitor_open(int *fd)
{
	return monitor_open(GROUPS_ADDRESSES, fd);
}

int netdev_monitor_routes(int *fd)
{
	return monitor_open(GROUPS_ADDRESSES | GROUPS_ROUTES, fd);
}

bool netdev_monitor_drain(int fd)
{
	bool any = false;
	char buffer[8192];
	ssize_t got;

	/* ENOBUFS: messages were lost; the monitor only reports that something changed. */
	do {
		got = recv(fd, buffer, sizeof(buffer), MSG_DONTWAIT);
		any |= got > 0 || (got < 0 && errno == ENOBUFS);
	} while (got > 0 || (got < 0 && (errno == ENOBUFS || errno == EINTR)));
	return any;
}

/* ---- is an address ours? ---- */

struct address_search {
	const uint8_t *address;
	uint32_t interface;		/* 0: any */
	bool found;
};

static int take_candidate(const struct nlmsghdr *message, void *context)
{
	const struct ifaddrmsg *info = mnl_nlmsg_get_payload(message);
	struct address_search *search = context;
	struct netdev_address address;

	if (message->nlmsg_type == RTM_NEWADDR && netdev_parse_address(message, &address) &&
	    (!search->interface || search->interface == info->ifa_index) &&
	    !memcmp(address.address, search->address, 16))
		search->found = true;
	return MNL_CB_OK;
}

struct route_search {
	struct netdev_route route;
	uint8_t type;			/* RTN_UNSPEC: no answer */
};

static void take_hop(struct netdev_route *route, const uint8_t *address, size_t bytes)
{
	if (bytes == 4)
		ip_addr_map_ipv4(route->hop, address);
	else if (bytes == 16)
		memcpy(route->hop, address, 16);
}

static int take_route(const struct nlmsghdr *message, void *context)
{
	const struct rtmsg *route = mnl_nlmsg_get_payload(message);
	struct route_search *search = context;
	const struct nlattr *attribute;

	if (message->nlmsg_type != RTM_NEWROUTE)
		return MNL_CB_STOP;
	search->type = route->rtm_type;
	mnl_attr_for_each(attribute, message, sizeof(*route)) {
		uint16_t bytes = mnl_attr_get_payload_len(attribute);

		if (mnl_attr_get_type(attribute) == RTA_OIF && bytes == 4)
			search->route.interface = mnl_attr_get_u32(attribute);
		else if (mnl_attr_get_type(attribute) == RTA_PREFSRC && bytes == 4)
			ip_addr_map_ipv4(search->route.source, mnl_attr_get_payload(attribute));
		else if (mnl_attr_get_type(attribute) == RTA_PREFSRC && bytes == 16)
			memcpy(search->route.source, mnl_attr_get_payload(attribute), 16);
		else if (mnl_attr_get_type(attribute) == RTA_GATEWAY)
			take_hop(&search->route, mnl_attr_get_payload(attribute), bytes);
		else if (mnl_attr_get_type(attribute) == RTA_VIA && bytes > sizeof(struct rtvia))
			take_hop(&search->route,
				 (const uint8_t *)mnl_attr_get_payload(attribute) + sizeof(struct rtvia),
				 bytes - sizeof(struct rtvia));
	}
	return MNL_CB_STOP;
}

int netdev_route(struct netlink *netlink, const uint8_t destination[16], const uint8_t source[16],
		 uint32_t interface, struct netdev_route *found)
{
	static const uint8_t zero[16];
	struct route_search search = { .type = RTN_UNSPEC };
	bool ipv4 = ip_addr_is_ipv4(destination);
	unsigned skip = ipv4 ? 12 : 0;
	char buffer[256];
	struct nlmsghdr *message = mnl_nlmsg_put_header(buffer);
	struct rtmsg *route;
	int err;

	message->nlmsg_type = RTM_GETROUTE;
	message->nlmsg_flags = NLM_F_REQUEST;
	route = mnl_nlmsg_put_extra_header(message, sizeof(*route));
	route->rtm_family = ipv4 ? AF_INET : AF_INET6;
	route->rtm_dst_len = ipv4 ? 32 : 128;
	mnl_attr_put(message, RTA_DST, 16 - skip, destination + skip);
	if (memcmp(source, zero, 16)) {
		route->rtm_src_len = route->rtm_dst_len;
		mnl_attr_put(message, RTA_SRC, 16 - skip, source + skip);
	}
	if (interface)
		mnl_attr_put_u32(message, RTA_OIF, interface);
	memcpy(search.route.hop, destination, 16);
	err = netlink_ask(netlink, message, take_route, &search);
	if (err)
		return err;
	if (search.type != RTN_UNICAST && search.type != RTN_LOCAL && search.type != RTN_MULTICAST &&
	    search.type != RTN_ANYCAST)
		return search.type == RTN_UNREACHABLE ? EHOSTUNREACH : ENETUNREACH;
	*found = search.route;
	found->local = search.type == RTN_LOCAL;
	return 0;
}

bool netdev_is_local(struct netlink *netlink, const uint8_t address[16], uint32_t interface)
{
	struct address_search search = { .address = address, .interface = interface };
	static const uint8_t any[16];
	struct netdev_route route;
	int tries = 0;

	if (!ip_addr_is_link_local_ipv6(address))
		return !netdev_route(netlink, address, any, 0, &route) && route.local;
	while (netdev_dump(netlink, RTM_GETADDR, take_candidate, &search) == EINTR &&
	       ++tries < DUMP_TRIES)
		;
	return search.found;
}

uint32_t netdev_max_memberships(void)
{
	unsigned limit = MEMBERSHIPS;
	FILE *file = fopen("/proc/sys/net/ipv4/igmp_max_memberships", "re");

	if (file && fscanf(file, "%u", &limit) != 1)
		limit = MEMBERSHIPS;
	if (file)
		fclose(file);
	return limit;
}
