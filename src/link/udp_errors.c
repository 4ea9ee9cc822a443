/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sockets of datagrams with errors_wanted (management datagrams): ICMP errors come back by the error
 * queue, with as much of the datagram as the other host quoted (Linux: all of it, up to 548 bytes over
 * IPv4).
 *
 * They are unconnected, as the other senders: a connected socket would count IPv4 identifications.
 * An error then also fails the next call on the socket, once (udp_send.c tries again); sockets for data
 * have no error queue.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/errqueue.h>
#include <string.h>
#include <unistd.h>

#include "link/udp_internal.h"
#include "base/ip_addr.h"
#include "platform/fail.h"

static int open_reporting(enum udp_family family, struct udp_sender *sender)
{
	int err, fd = udp_socket(family);

	if (fd < 0)
		return errno;
	sender->hop_limit = UDP_HOP_LIMIT;
	err = udp_set_send_options(fd, family, sender);
	if (!err && family == UDP_IPV4) {
		err = udp_set(fd, IPPROTO_IP, IP_RECVERR, 1);
		(void)udp_set(fd, IPPROTO_IP, IP_PKTINFO, 1);
	} else if (!err) {
		err = udp_set(fd, IPPROTO_IPV6, IPV6_RECVERR, 1);
		(void)udp_set(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, 1);
	}
	memset(sender->source, 0, sizeof(sender->source));
	if (!err)
		err = udp_bind_sender(fd, family, sender);
	if (err)
		close(fd);
	else
		sender->fd = fd;
	return err;
}

void udp_errors_abandon(struct udp_link *udp)
{
	unsigned family;

	for (family = 0; family < UDP_FAMILY_COUNT; family++) {
		if (udp->reporting[family].fd >= 0)
			close(udp->reporting[family].fd);
		udp->reporting[family].fd = -1;
	}
}

int udp_errors_open(struct link *link)
{
	struct udp_link *udp = udp_of(link);
	int err;

	lock_acquire(&udp->lock);
	err = udp->reporting[UDP_IPV4].fd >= 0 ? 0 :
	      open_reporting(UDP_IPV4, &udp->reporting[UDP_IPV4]);
	/* A kernel without IPv6 has no destinations of it either. */
	if (!err && udp->reporting[UDP_IPV6].fd < 0)
		(void)open_reporting(UDP_IPV6, &udp->reporting[UDP_IPV6]);
	lock_release(&udp->lock);
	return err;
}

void udp_errors_close(struct link *link)
{
	struct udp_link *udp = udp_of(link);

	lock_acquire(&udp->lock);
	udp_errors_abandon(udp);
	lock_release(&udp->lock);
}

void udp_error_fds(const struct link *link, int *fd4, int *fd6)
{
	*fd4 = udp_of(link)->reporting[UDP_IPV4].fd;
	*fd6 = udp_of(link)->reporting[UDP_IPV6].fd;
}

/* ---- taking them ---- */

/* Source of the datagram: the ICMP message's destination. */
static void udp_errors_take_control(struct udp_error *error, const struct cmsghdr *control)
{
	struct sock_extended_err extended;
	struct in6_pktinfo info6;
	struct in_pktinfo info;

	if ((control->cmsg_level == IPPROTO_IP && control->cmsg_type == IP_RECVERR) ||
	    (control->cmsg_level == IPPROTO_IPV6 && control->cmsg_type == IPV6_RECVERR)) {
		memcpy(&extended, CMSG_DATA(control), sizeof(extended));
		error->error = (int)extended.ee_errno;
	} else if (control->cmsg_level == IPPROTO_IP && control->cmsg_type == IP_PKTINFO) {
		memcpy(&info, CMSG_DATA(control), sizeof(info));
		ip_addr_map_ipv4(error->source, &info.ipi_addr);
		error->interface = (uint32_t)info.ipi_ifindex;
	} else if (control->cmsg_level == IPPROTO_IPV6 && control->cmsg_type == IPV6_PKTINFO) {
		memcpy(&info6, CMSG_DATA(control), sizeof(info6));
		memcpy(error->source, &info6.ipi6_addr, 16);
		error->interface = info6.ipi6_ifindex;
	}
}

/* 0, EAGAIN: none, or another errno: look again. */
static int take_from(int fd, struct udp_error *error)
{
	union {
		struct cmsghdr align;
		uint8_t bytes[256];
	} control;
	struct sockaddr_in6 name = { .sin6_family = AF_UNSPEC };
	const struct sockaddr_in *ipv4 = (const struct sockaddr_in *)&name;
	struct iovec iov = { .iov_base = error->data, .iov_len = sizeof(error->data) };
	struct msghdr message = { .msg_name = &name, .msg_namelen = sizeof(name), .msg_iov = &iov,
				  .msg_iovlen = 1, .msg_control = control.bytes,
				  .msg_controllen = sizeof(control.bytes) };
	struct cmsghdr *at;
	ssize_t got;

	got = fail_now(FAIL_RECVMSG) ? -1 : recvmsg(fd, &message, MSG_ERRQUEUE | MSG_DONTWAIT);
	if (got < 0)
		return errno == EWOULDBLOCK ? EAGAIN : errno;
	error->error = 0;
	error->interface = 0;
	memset(error->source, 0, 16);
	memset(error->destination, 0, 16);
	error->bytes = (size_t)got;
	if (name.sin6_family == AF_INET)
		ip_addr_map_ipv4(error->destination, &ipv4->sin_addr);
	else if (name.sin6_family == AF_INET6)
		memcpy(error->destination, &name.sin6_addr, 16);
	for (at = CMSG_FIRSTHDR(&message); at; at = CMSG_NXTHDR(&message, at))
		udp_errors_take_control(error, at);
	return 0;
}

int udp_take_error(struct link *link, struct udp_error *error)
{
	struct udp_link *udp = udp_of(link);
	unsigned family;

	for (family = 0; family < UDP_FAMILY_COUNT; family++)
		if (udp->reporting[family].fd >= 0 && !take_from(udp->reporting[family].fd, error))
			return 0;
	return EAGAIN;
}
