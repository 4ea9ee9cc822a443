/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The UDP link's sockets: opening, binding port 4791, multicast groups, closing.
 *
 *	bound sockets	0.0.0.0:4791 and [::]:4791, shared by SO_REUSEPORT; they only receive
 *	senders		one per (family, class), any port from 0xC000 on; they only send
 *	slots		one per (family, slot), at ports of their own (udp_slot.c); they only send
 *
 * Port 4791 is not bound on a specific address (that socket would take the address's packets from
 * the whole group), but where another program has it on one (udp_address.c), and never with
 * SO_REUSEADDR (with it another user could bind over us).
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/filter.h>
#include <netinet/udp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "link/udp_internal.h"
#include "platform/fail.h"

#ifndef IPV6_MULTICAST_ALL
#define IPV6_MULTICAST_ALL 29
#endif
#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#define UDP_GRO 104
#endif

/* Requested; the actual size depends on net.core.rmem_max and privileges: it may be 208 KiB. */
#define RECEIVE_BUFFER_BYTES (4 * 1024 * 1024)

int udp_set(int fd, int level, int option, int value)
{
	if (fail_now(FAIL_SETSOCKOPT) || setsockopt(fd, level, option, &value, sizeof(value)))
		return errno;
	return 0;
}

int udp_socket(enum udp_family family)
{
	int fd, domain = family == UDP_IPV4 ? AF_INET : AF_INET6;

	if (fail_now(FAIL_SOCKET))
		return -1;
	fd = socket(domain, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_UDP);
	/* A flow label that nobody asked for is 0, and none of the kernel's. */
	if (fd >= 0 && family == UDP_IPV6)
		(void)udp_set(fd, IPPROTO_IPV6, IPV6_AUTOFLOWLABEL, 0);
	if (fd >= 0 && family == UDP_IPV6 && udp_set(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1)) {
		int err = errno;

		close(fd);
		errno = err;
		return -1;
	}
	return fd;
}

int udp_bind_to(int fd, enum udp_family family, const uint8_t address[16], uint16_t port)
{
	struct sockaddr_in ipv4 = { .sin_family = AF_INET, .sin_port = htons(port) };
	struct sockaddr_in6 ipv6 = { .sin6_family = AF_INET6, .sin6_port = htons(port) };
	const void *name = family == UDP_IPV4 ? (void *)&ipv4 : (void *)&ipv6;
	socklen_t bytes = family == UDP_IPV4 ? sizeof(ipv4) : sizeof(ipv6);

	memcpy(&ipv4.sin_addr, address + 12, 4);
	memcpy(&ipv6.sin6_addr, address, 16);
	return fail_now(FAIL_BIND) || bind(fd, name, bytes) ? errno : 0;
}

/* ---- the bound sockets ---- */

static int set_receive_options(int fd, enum udp_family family)
{
	int err = udp_set(fd, SOL_SOCKET, SO_REUSEPORT, 1);

	if (!err && family == UDP_IPV4) {
		err = udp_set(fd, IPPROTO_IP, IP_PKTINFO, 1);
		(void)udp_set(fd, IPPROTO_IP, IP_RECVTOS, 1);
		(void)udp_set(fd, IPPROTO_IP, IP_RECVTTL, 1);
		(void)udp_set(fd, IPPROTO_IP, IP_MULTICAST_ALL, 0);
	} else if (!err) {
		err = udp_set(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, 1);
		(void)udp_set(fd, IPPROTO_IPV6, IPV6_RECVTCLASS, 1);
		(void)udp_set(fd, IPPROTO_IPV6, IPV6_RECVHOPLIMIT, 1);
		(void)udp_set(fd, IPPROTO_IPV6, IPV6_FLOWINFO, 1);
		(void)udp_set(fd, IPPROTO_IPV6, IPV6_MULTICAST_ALL, 0);
		/* rxe and some NICs send no UDP checksum */
		(void)udp_set(fd, IPPROTO_UDP, UDP_NO_CHECK6_RX, 1);
	}
	(void)udp_set(fd, IPPROTO_UDP, UDP_GRO, 1);
	if (udp_set(fd, SOL_SOCKET, SO_RCVBUFFORCE, RECEIVE_BUFFER_BYTES))
		(void)udp_set(fd, SOL_SOCKET, SO_RCVBUF, RECEIVE_BUFFER_BYTES);
	return err;
}

static int udp_open_bound(enum udp_family family, const uint8_t address[16], int *bound)
{
	int err, fd = udp_socket(family);

	if (fd < 0 && family == UDP_IPV6 && errno != EMFILE && errno != ENFILE && errno != ENOMEM) {
		*bound = -1;
		return 0;
	}
	if (fd < 0)
		return errno;
	err = set_receive_options(fd, family);
	if (!err)
		err = udp_bind_to(fd, family, address, ROCE_UDP_PORT);
	if (!err) {
		*bound = fd;
		return 0;
	}
	close(fd);
	if (family == UDP_IPV6 && err == EADDRNOTAVAIL) {	/* IPv6 is switched off */
		*bound = -1;
		return 0;
	}
	return err;
}

/* *bound is -1, too, if it is bound address by address. */
static int bind_family(struct udp_link *udp, enum udp_family family, int *bound)
{
	static const uint8_t any[16];
	int err = udp_open_bound(family, any, bound);

	if (err != EADDRINUSE)
		return err;
	*bound = -1;
	return udp_addresses_bind(udp, family, udp_open_bound);
}

static bool udp_is_bound(const struct udp_link *udp)
{
	return udp->bound[UDP_IPV4] >= 0 || udp->addresses[UDP_IPV4].count;
}

/* ---- multicast ---- */

static int change_membership(int fd, const struct udp_membership *membership, bool join)
{
	enum udp_family family = udp_family_of(membership->group);
	struct ip_mreqn ipv4 = { .imr_ifindex = (int)membership->interface };
	struct ipv6_mreq ipv6 = { .ipv6mr_interface = membership->interface };
	int result;

	memcpy(&ipv4.imr_multiaddr, membership->group + 12, 4);
	memcpy(&ipv6.ipv6mr_multiaddr, membership->group, 16);
	if (fail_now(FAIL_SETSOCKOPT))
		return errno;
	if (family == UDP_IPV4)
		result = setsockopt(fd, IPPROTO_IP, join ? IP_ADD_MEMBERSHIP : IP_DROP_MEMBERSHIP,
				    &ipv4, sizeof(ipv4));
	else
		result = setsockopt(fd, IPPROTO_IPV6, join ? IPV6_JOIN_GROUP : IPV6_LEAVE_GROUP,
				    &ipv6, sizeof(ipv6));
	return result ? errno : 0;
}

/*
 * Where one socket alone is a member of an IPv4 group, Linux (early demultiplexing) takes its packets
 * for those of a connection, and since 6.6 has the selector choose a socket of port 4791 for them, by
 * a QPN that multicast does not have. So each membership has a second socket, bound to the group:
 * then every member gets its copy. A filter drops all packets to this socket itself.
 */
static int open_guard(const struct udp_membership *membership)
{
	struct sock_filter drop = BPF_STMT(BPF_RET | BPF_K, 0);
	struct sock_fprog program = { .len = 1, .filter = &drop };
	int fd;

	if (udp_family_of(membership->group) != UDP_IPV4)
		return -1;
	fd = udp_socket(UDP_IPV4);
	if (fd < 0)
		return -1;
	if (setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)) ||
	    udp_set(fd, SOL_SOCKET, SO_REUSEPORT, 1) ||
	    udp_bind_to(fd, UDP_IPV4, membership->group, ROCE_UDP_PORT)) {
		log_warn("cannot open a socket of a multicast group, its packets may reach one "
			 "process only: %m");
		close(fd);
		return -1;
	}
	return fd;
}

static void close_guard(struct udp_membership *membership)
{
	if (membership->guard >= 0)
		close(membership->guard);
	membership->guard = -1;
}

/* Joins with @fd, by which the process receives. 0 or errno. */
static int begin_membership(int fd, struct udp_membership *membership)
{
	int err = change_membership(fd, membership, true);

	if (!err)
		membership->guard = open_guard(membership);
	return err;
}

static struct udp_membership *find_membership(struct udp_link *udp, const uint8_t group[16],
					      uint32_t interface) REQUIRES(udp->lock)
{
	unsigned i;

	for (i = 0; i < udp->membership_count; i++) {
		struct udp_membership *membership = &udp->membership[i];

		if (membership->interface == interface && !memcmp(membership->group, group, 16))
			return membership;
	}
	return NULL;
}

static struct udp_membership *add_membership(struct udp_link *udp) REQUIRES(udp->lock)
{
	unsigned capacity = udp->membership_capacity ? 2 * udp->membership_capacity : 4;
	struct udp_membership *grown;

	if (udp->membership_count == udp->membership_capacity) {
		grown = realloc(udp->membership, capacity * sizeof(*grown));
		if (!grown)
			return NULL;
		udp->membership = grown;
		udp->membership_capacity = capacity;
	}
	return &udp->membership[udp->membership_count];
}

static int join_locked(struct udp_link *udp, const uint8_t group[16], uint32_t interface)
	REQUIRES(udp->lock)
{
	struct udp_membership *membership = find_membership(udp, group, interface);
	int err = 0, fd = udp->bound[udp_family_of(group)];

	if (membership) {
		membership->count++;
		return 0;
	}
	membership = add_membership(udp);
	if (!membership)
		return ENOMEM;
	*membership = (struct udp_membership){ .interface = interface, .count = 1, .guard = -1 };
	memcpy(membership->group, group, 16);
	if (fd >= 0)
		err = begin_membership(fd, membership);
	else if (udp->addresses[udp_family_of(group)].count)
		err = EADDRINUSE;	/* groups need the port of all addresses */
	else if (udp_is_bound(udp))
		err = EAFNOSUPPORT;
	if (!err)
		udp->membership_count++;
	return err;
}

int udp_join(struct link *link, const uint8_t group[16], uint32_t interface)
{
	struct udp_link *udp = udp_of(link);
	int err;

	lock_acquire(&udp->lock);
	err = join_locked(udp, group, interface);
	lock_release(&udp->lock);
	return err;
}

void udp_leave(struct link *link, const uint8_t group[16], uint32_t interface)
{
	struct udp_link *udp = udp_of(link);
	struct udp_membership *membership;
	int fd;

	lock_acquire(&udp->lock);
	fd = udp->bound[udp_family_of(group)];
	membership = find_membership(udp, group, interface);
	if (membership && --membership->count == 0) {
		close_guard(membership);
		if (fd >= 0)
			(void)change_membership(fd, membership, false);
		*membership = udp->membership[--udp->membership_count];
	}
	lock_release(&udp->lock);
}

/* ---- the link ---- */

/* Both families, or none. */
static int bind_families(struct udp_link *udp, int fd[UDP_FAMILY_COUNT]) REQUIRES(udp->lock)
{
	int err;

	udp_addresses_look(udp);
	fd[UDP_IPV4] = fd[UDP_IPV6] = -1;
	err = bind_family(udp, UDP_IPV4, &fd[UDP_IPV4]);
	if (!err)
		err = bind_family(udp, UDP_IPV6, &fd[UDP_IPV6]);
	if (err && fd[UDP_IPV4] >= 0)
		close(fd[UDP_IPV4]);
	if (err)
		udp_addresses_close(udp);
	return err;
}

/*
 * The holder of all addresses may leave between the two attempts: all of them together are taken, then
 * each is free. So single addresses are the result only when a second look finds the same.
 */
static int bind_locked(struct udp_link *udp) REQUIRES(udp->lock)
{
	int fd[UDP_FAMILY_COUNT], err;
	unsigned family;

	if (udp_is_bound(udp))
		return 0;
	err = bind_families(udp, fd);
	if (!err && (udp->addresses[UDP_IPV4].count || udp->addresses[UDP_IPV6].count)) {
		for (family = 0; family < UDP_FAMILY_COUNT; family++)
			if (fd[family] >= 0)
				close(fd[family]);
		udp_addresses_close(udp);
		err = bind_families(udp, fd);
	}
	if (err)
		return err;
	for (family = 0; family < UDP_FAMILY_COUNT; family++)
		udp->bound[family] = fd[family];
	/* Groups that were joined while another user had the port. */
	for (unsigned i = 0; i < udp->membership_count; i++) {
		int bound = udp->bound[udp_family_of(udp->membership[i].group)];

		err = bound >= 0 ? begin_membership(bound, &udp->membership[i]) : 0;
		if (err)
			log_warn("cannot join a multicast group: %s", strerror(err));
	}
	return 0;
}

int udp_bind(struct link *link)
{
	struct udp_link *udp = udp_of(link);
	int err;

	lock_acquire(&udp->lock);
	err = bind_locked(udp);
	lock_release(&udp->lock);
	return err;
}

void udp_bound_fds(const struct link *link, int *fd4, int *fd6)
{
	*fd4 = udp_of(link)->bound[UDP_IPV4];
	*fd6 = udp_of(link)->bound[UDP_IPV6];
}

static unsigned udp_event_fds(struct link *link, int *fds, unsigned max)
{
	struct udp_link *udp = udp_of(link);
	unsigned family, count = 0;

	for (family = 0; family < UDP_FAMILY_COUNT; family++)
		if (udp->bound[family] >= 0 && count < max)
			fds[count++] = udp->bound[family];
	for (family = 0; family < UDP_FAMILY_COUNT; family++)
		for (unsigned i = 0; i < udp->addresses[family].count && count < max; i++)
			fds[count++] = udp->addresses[family].fd[i];
	return count;
}

static void close_one(_Atomic int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

void udp_abandon(struct link *link)
{
	struct udp_link *udp = udp_of(link);
	unsigned family, class, i;

	for (family = 0; family < UDP_FAMILY_COUNT; family++) {
		close_one(&udp->bound[family]);
		for (class = 0; class < UDP_CLASSES; class++)
			close_one(&udp->sender[family][class].fd);
		for (i = 0; i < UDP_SLOTS; i++)
			close_one(&udp->slot_sender[family][i].fd);
	}
	udp_addresses_close(udp);
	lock_init(&udp->lock);
	for (i = 0; i < udp->membership_count; i++)
		close_guard(&udp->membership[i]);
	udp_errors_abandon(udp);
}

static void udp_close(struct link *link)
{
	struct udp_link *udp = udp_of(link);

	udp_abandon(link);
	udp_receiver_close(&udp->receiver);
	lock_destroy(&udp->lock);
	free(udp->membership);
	free(udp);
}

/* ---- groups, by both families ---- */

static int udp_join_group(struct link *link, const struct link_group *group)
{
	int err, err6;

	if (group->ib_port)
		return ENODEV;
	err = udp_join(link, group->alias, group->interface);
	if (!memcmp(group->gid, group->alias, sizeof(group->gid)))
		return err;
	/* One family may be missing here: either carries the group. */
	err6 = udp_join(link, group->gid, group->interface);
	return err && err6 ? err : 0;
}

static void udp_leave_group(struct link *link, const struct link_group *group)
{
	if (group->ib_port)
		return;
	udp_leave(link, group->alias, group->interface);
	if (memcmp(group->gid, group->alias, sizeof(group->gid)))
		udp_leave(link, group->gid, group->interface);
}

static const struct link_ops udp_ops = {
	.join = udp_join_group,
	.leave = udp_leave_group,
	.close = udp_close,
	.prepare = udp_prepare,
	.send = udp_send,
	.receive = udp_receive,
	.event_fds = udp_event_fds,
};

/* A kernel that does not know UDP_SEGMENT (before 4.18) would ignore it in a control message. */
static bool kernel_has_gso(void)
{
	int fd = udp_socket(UDP_IPV4);
	bool has = fd >= 0 && !fail_now(FAIL_GSO) && !udp_set(fd, IPPROTO_UDP, UDP_SEGMENT, 0);

	if (fd >= 0)
		close(fd);
	return has;
}

int udp_open(struct link **link, struct counters *counters)
{
	struct udp_link *udp = fail_now(FAIL_ALLOCATE) ? NULL : calloc(1, sizeof(*udp));
	unsigned family, class, i;
	int err;

	if (!udp)
		return ENOMEM;
	err = udp_receiver_open(&udp->receiver);
	if (err) {
		free(udp);
		return err;
	}
	udp->link.ops = &udp_ops;
	udp->counters = counters;
	lock_init(&udp->lock);
	for (family = 0; family < UDP_FAMILY_COUNT; family++) {
		udp->bound[family] = -1;
		udp->reporting[family].fd = -1;
		for (class = 0; class < UDP_CLASSES; class++)
			udp->sender[family][class].fd = -1;
		for (i = 0; i < UDP_SLOTS; i++)
			udp->slot_sender[family][i].fd = -1;
	}
	udp->gso = kernel_has_gso();
	udp_senders_changed(udp);
	*link = &udp->link;
	return 0;
}
