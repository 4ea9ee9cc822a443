/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Interfaces and addresses by rtnetlink, through libmnl. Each call opens a socket of its own:
 * they are rare (opening a device, a change, connecting a QP), and a fork()ed child must not
 * share one.
 */
#include "platform/netdev.h"

#include <errno.h>
#include <fcntl.h>
#include <libmnl/libmnl.h>
#include <linux/if.h>
#include <linux/if_addr.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define REPLY_BYTES 32768

struct listing {
	struct netdev *list;
	int count, capacity;
	int err;
};

static bool is_link_local(const uint8_t address[16])
{
	return address[0] == 0xfe && (address[1] & 0xc0) == 0x80;
}

static uint32_t read_speed(const char *name)
{
	char path[64];
	FILE *file;
	int mbps = 0;

	snprintf(path, sizeof(path), "/sys/class/net/%s/speed", name);
	file = fopen(path, "re");
	if (!file)
		return 0;
	if (fscanf(file, "%d", &mbps) != 1 || mbps < 0)
		mbps = 0;
	fclose(file);
	return (uint32_t)mbps;
}

static struct netdev *next_netdev(struct listing *listing)
{
	if (listing->count == listing->capacity) {
		int capacity = listing->capacity ? 2 * listing->capacity : 8;
		struct netdev *list = realloc(listing->list, (size_t)capacity * sizeof(*list));

		if (!list) {
			listing->err = ENOMEM;
			return NULL;
		}
		listing->list = list;
		listing->capacity = capacity;
	}
	memset(&listing->list[listing->count], 0, sizeof(*listing->list));
	return &listing->list[listing->count++];
}

static void read_link_attribute(struct netdev *netdev, const struct nlattr *attribute)
{
	switch (mnl_attr_get_type(attribute)) {
	case IFLA_IFNAME:
		snprintf(netdev->name, sizeof(netdev->name), "%s", mnl_attr_get_str(attribute));
		break;
	case IFLA_MTU:
		netdev->mtu = mnl_attr_get_u32(attribute);
		break;
	case IFLA_ADDRESS:
		if (mnl_attr_get_payload_len(attribute) == sizeof(netdev->mac))
			memcpy(netdev->mac, mnl_attr_get_payload(attribute), sizeof(netdev->mac));
		break;
	default:
		break;
	}
}

static int on_link(const struct nlmsghdr *message, void *data)
{
	const struct ifinfomsg *info = mnl_nlmsg_get_payload(message);
	struct nlattr *attribute;
	struct netdev *netdev;

	if (message->nlmsg_type != RTM_NEWLINK)
		return MNL_CB_OK;
	netdev = next_netdev(data);
	if (!netdev)
		return MNL_CB_STOP;
	netdev->index = (uint32_t)info->ifi_index;
	netdev->up = info->ifi_flags & IFF_UP;
	netdev->running = info->ifi_flags & IFF_RUNNING;
	netdev->loopback = info->ifi_flags & IFF_LOOPBACK;
	mnl_attr_for_each(attribute, message, sizeof(*info))
		read_link_attribute(netdev, attribute);
	return MNL_CB_OK;
}

static struct netdev *find(struct listing *listing, uint32_t index)
{
	int i;

	for (i = 0; i < listing->count; i++)
		if (listing->list[i].index == index)
			return &listing->list[i];
	return NULL;
}

struct address_message {
	const struct ifaddrmsg *info;
	const uint8_t *address, *local;
	uint32_t flags;
};

static void read_address_message(const struct nlmsghdr *message, struct address_message *read)
{
	size_t bytes;
	struct nlattr *attribute;

	memset(read, 0, sizeof(*read));
	read->info = mnl_nlmsg_get_payload(message);
	read->flags = read->info->ifa_flags;
	bytes = read->info->ifa_family == AF_INET ? 4 : 16;
	mnl_attr_for_each(attribute, message, sizeof(*read->info)) {
		int type = mnl_attr_get_type(attribute);

		if (type == IFA_FLAGS)
			read->flags = mnl_attr_get_u32(attribute);
		else if (mnl_attr_get_payload_len(attribute) != bytes)
			continue;
		else if (type == IFA_ADDRESS)
			read->address = mnl_attr_get_payload(attribute);
		else if (type == IFA_LOCAL)
			read->local = mnl_attr_get_payload(attribute);
	}
}

static void set_address(struct netdev_address *address, const uint8_t *bytes, bool ipv4)
{
	memset(address, 0, sizeof(*address));
	if (ipv4) {
		address->address[10] = address->address[11] = 0xff;
		memcpy(address->address + 12, bytes, 4);
	} else {
		memcpy(address->address, bytes, 16);
		address->link_local = is_link_local(address->address);
	}
}

static int on_address(const struct nlmsghdr *message, void *data)
{
	struct address_message read;
	struct netdev *netdev;
	struct netdev_address *address;
	const uint8_t *bytes;

	if (message->nlmsg_type != RTM_NEWADDR)
		return MNL_CB_OK;
	read_address_message(message, &read);
	/* Point-to-point interfaces: IFA_ADDRESS is the peer's, IFA_LOCAL ours. */
	bytes = read.local ? read.local : read.address;
	netdev = find(data, read.info->ifa_index);
	if (!netdev || !bytes || netdev->address_count == NETDEV_ADDRESSES_MAX ||
	    (read.info->ifa_family != AF_INET && read.info->ifa_family != AF_INET6))
		return MNL_CB_OK;
	address = &netdev->address[netdev->address_count++];
	set_address(address, bytes, read.info->ifa_family == AF_INET);
	address->prefix_bits = read.info->ifa_prefixlen;
	address->tentative = (read.flags & IFA_F_TENTATIVE) && !(read.flags & IFA_F_OPTIMISTIC);
	return MNL_CB_OK;
}

static int run(struct mnl_socket *socket, unsigned sequence, mnl_cb_t callback, void *data)
{
	char *buffer = malloc(REPLY_BYTES);
	int result = MNL_CB_OK;

	if (!buffer)
		return ENOMEM;
	while (result == MNL_CB_OK) {
		ssize_t bytes = mnl_socket_recvfrom(socket, buffer, REPLY_BYTES);

		if (bytes < 0) {
			result = MNL_CB_ERROR;
			break;
		}
		result = mnl_cb_run(buffer, (size_t)bytes, sequence, mnl_socket_get_portid(socket),
				    callback, data);
	}
	free(buffer);
	return result == MNL_CB_ERROR ? errno : 0;
}

static int dump(struct mnl_socket *socket, uint16_t type, uint8_t family, mnl_cb_t callback,
		void *data)
{
	char buffer[256];
	struct nlmsghdr *message = mnl_nlmsg_put_header(buffer);
	struct rtgenmsg *general;
	unsigned sequence = (unsigned)time(NULL) + type + family;

	message->nlmsg_type = type;
	message->nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
	message->nlmsg_seq = sequence;
	general = mnl_nlmsg_put_extra_header(message, sizeof(*general));
	general->rtgen_family = family;
	if (mnl_socket_sendto(socket, message, message->nlmsg_len) < 0)
		return errno;
	return run(socket, sequence, callback, data);
}

static int open_socket(struct mnl_socket **opened)
{
	struct mnl_socket *socket = mnl_socket_open2(NETLINK_ROUTE, SOCK_CLOEXEC);

	if (!socket)
		return errno;
	if (mnl_socket_bind(socket, 0, MNL_SOCKET_AUTOPID) < 0) {
		int err = errno;

		mnl_socket_close(socket);
		return err;
	}
	*opened = socket;
	return 0;
}

static int by_index(const void *a, const void *b)
{
	uint32_t x = ((const struct netdev *)a)->index, y = ((const struct netdev *)b)->index;

	return (x > y) - (x < y);
}

int netdev_list(struct netdev **list, int *count)
{
	struct listing listing = { 0 };
	struct mnl_socket *socket;
	int i, err = open_socket(&socket);

	if (err)
		return err;
	err = dump(socket, RTM_GETLINK, AF_UNSPEC, on_link, &listing);
	if (!err)
		err = dump(socket, RTM_GETADDR, AF_INET, on_address, &listing);
	if (!err) {
		/* No IPv6 in the kernel: no addresses of it. */
		int err6 = dump(socket, RTM_GETADDR, AF_INET6, on_address, &listing);

		err = err6 == EOPNOTSUPP || err6 == EAFNOSUPPORT ? 0 : err6;
	}
	mnl_socket_close(socket);
	if (!err)
		err = listing.err;
	if (err) {
		free(listing.list);
		return err;
	}
	for (i = 0; i < listing.count; i++)
		listing.list[i].speed_mbps = read_speed(listing.list[i].name);
	if (listing.count)
		qsort(listing.list, (size_t)listing.count, sizeof(*listing.list), by_index);
	*list = listing.list;
	*count = listing.count;
	return 0;
}

int netdev_monitor_open(int *fd)
{
	struct sockaddr_nl address = { .nl_family = AF_NETLINK,
				       .nl_groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR |
						    RTMGRP_IPV6_IFADDR };
	int opened = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);

	if (opened < 0)
		return errno;
	if (bind(opened, (struct sockaddr *)&address, sizeof(address))) {
		int err = errno;

		close(opened);
		return err;
	}
	*fd = opened;
	return 0;
}

void netdev_monitor_drain(int fd)
{
	char buffer[8192];
	ssize_t bytes;

	/* What changed does not matter, everything is read anew; nor does an overrun (ENOBUFS). */
	do {
		bytes = recv(fd, buffer, sizeof(buffer), 0);
	} while (bytes > 0 || (bytes < 0 && (errno == ENOBUFS || errno == EINTR)));
}

/* The kernel's own answer: what type of route leads to @address. */
static int on_route(const struct nlmsghdr *message, void *data)
{
	const struct rtmsg *route = mnl_nlmsg_get_payload(message);

	if (message->nlmsg_type == RTM_NEWROUTE)
		*(bool *)data = route->rtm_type == RTN_LOCAL;
	return MNL_CB_STOP;
}

bool netdev_is_local(const uint8_t address[16], uint32_t interface)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
	bool ipv4 = !memcmp(address, mapped, sizeof(mapped)), local = false;
	char buffer[256];
	struct nlmsghdr *message = mnl_nlmsg_put_header(buffer);
	struct mnl_socket *socket;
	struct rtmsg *route;

	message->nlmsg_type = RTM_GETROUTE;
	message->nlmsg_flags = NLM_F_REQUEST;
	message->nlmsg_seq = 1;
	route = mnl_nlmsg_put_extra_header(message, sizeof(*route));
	route->rtm_family = ipv4 ? AF_INET : AF_INET6;
	route->rtm_dst_len = ipv4 ? 32 : 128;
	mnl_attr_put(message, RTA_DST, ipv4 ? 4 : 16, address + (ipv4 ? 12 : 0));
	if (!ipv4 && is_link_local(address) && interface)
		mnl_attr_put_u32(message, RTA_OIF, interface);
	if (open_socket(&socket))
		return false;
	if (mnl_socket_sendto(socket, message, message->nlmsg_len) >= 0)
		run(socket, 1, on_route, &local);
	mnl_socket_close(socket);
	return local;
}
