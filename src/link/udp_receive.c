/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Receiving: recvmmsg into buffers that hold the largest datagram, since GRO hands over whole
 * runs. The buffers are used from the first on, so a process that receives little touches little.
 *
 * There are two sockets, and polling an empty one costs a system call. So the family of the last
 * datagram is polled in each call, the other one in one of SELDOM_EVERY calls; where both have
 * traffic, in one of OFTEN_EVERY and whenever the first runs dry.
 *
 * One datagram by recvmsg costs less than by recvmmsg, which then looks for a second: a single reply
 * is received so. While datagrams keep coming, many are asked for at a time.
 */
#include <errno.h>
#include <netinet/udp.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "link/udp_internal.h"
#include "base/inline.h"
#include "base/ip_addr.h"
#include "platform/fail.h"

#ifndef UDP_GRO
#define UDP_GRO 104
#endif

#define OFTEN_EVERY	8u
#define SELDOM_EVERY	UDP_LOOKS_MAX
#define MIXED_CALLS	4096u	/* for so many calls after a datagram the other family is polled often */

int udp_receiver_open(struct udp_receiver *receiver)
{
	size_t bytes = (size_t)UDP_RECEIVE_MAX * UDP_BUFFER_BYTES;
	unsigned i;

	receiver->buffers = fail_now(FAIL_MMAP) ? MAP_FAILED :
			    mmap(NULL, bytes, PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (receiver->buffers == MAP_FAILED)
		return errno;
	receiver->mixed = MIXED_CALLS;
	for (i = 0; i < UDP_RECEIVE_MAX; i++) {
		struct udp_slot *slot = &receiver->slot[i];

		slot->iov = (struct iovec){ .iov_base = receiver->buffers + i * UDP_BUFFER_BYTES,
					    .iov_len = UDP_BUFFER_BYTES };
		receiver->message[i].msg_hdr = (struct msghdr){
			.msg_name = &slot->name, .msg_namelen = sizeof(slot->name),
			.msg_iov = &slot->iov, .msg_iovlen = 1,
			.msg_control = slot->control.bytes,
			.msg_controllen = sizeof(slot->control.bytes),
		};
	}
	return 0;
}

void udp_receiver_close(struct udp_receiver *receiver)
{
	munmap(receiver->buffers, (size_t)UDP_RECEIVE_MAX * UDP_BUFFER_BYTES);
}

#define CONTROL(level, type)	((unsigned)(level) << 16 | (unsigned)(type))

/* One control message, of which @value is there whole: the kernel wrote it. */
static void take_control(struct datagram *datagram, unsigned what, const uint8_t *value)
{
	struct in_pktinfo ipv4;
	struct in6_pktinfo ipv6;
	int number;

	switch (what) {
	case CONTROL(IPPROTO_IP, IP_PKTINFO):
		memcpy(&ipv4, value, sizeof(ipv4));
		ip_addr_map_ipv4(datagram->destination, &ipv4.ipi_addr);
		datagram->interface = (uint32_t)ipv4.ipi_ifindex;
		break;
	case CONTROL(IPPROTO_IP, IP_TOS):
		datagram->traffic_class = *value;
		break;
	case CONTROL(IPPROTO_IP, IP_TTL):
		memcpy(&number, value, sizeof(number));
		datagram->hop_limit = (uint8_t)number;
		break;
	case CONTROL(IPPROTO_IPV6, IPV6_PKTINFO):
		memcpy(&ipv6, value, sizeof(ipv6));
		memcpy(datagram->destination, &ipv6.ipi6_addr, 16);
		datagram->interface = ipv6.ipi6_ifindex;
		break;
	case CONTROL(IPPROTO_IPV6, IPV6_TCLASS):
		memcpy(&number, value, sizeof(number));
		datagram->traffic_class = (uint8_t)number;
		break;
	case CONTROL(IPPROTO_IPV6, IPV6_FLOWINFO):
		memcpy(&number, value, sizeof(number));
		datagram->flow_label = ntohl((uint32_t)number) & 0xfffff;
		break;
	case CONTROL(IPPROTO_IPV6, IPV6_HOPLIMIT):
		memcpy(&number, value, sizeof(number));
		datagram->hop_limit = (uint8_t)number;
		break;
	case CONTROL(IPPROTO_UDP, UDP_GRO):
		memcpy(&number, value, sizeof(number));
		if (number > 0 && (size_t)number < datagram->bytes)
			datagram->segment_bytes = (size_t)number;
		break;
	}
}

static APART void udp_take_datagram(struct datagram *datagram, struct mmsghdr *message)
{
	struct msghdr *header = &message->msg_hdr;
	const struct sockaddr_in6 *name = header->msg_name;
	const uint8_t *at = header->msg_control;
	size_t left = header->msg_controllen;

	*datagram = (struct datagram){ .data = header->msg_iov->iov_base,
				       .bytes = message->msg_len };
	datagram->source_port = ntohs(name->sin6_port);		/* both kinds have it there */
	if (name->sin6_family == AF_INET)
		ip_addr_map_ipv4(datagram->source, &((const struct sockaddr_in *)name)->sin_addr);
	else
		memcpy(datagram->source, &name->sin6_addr, 16);
	/* CMSG_NXTHDR() looks at each twice: five of them took longer than a packet to parse. */
	while (left >= sizeof(struct cmsghdr)) {
		const struct cmsghdr *control = (const struct cmsghdr *)at;
		size_t bytes = CMSG_ALIGN(control->cmsg_len);

		if (control->cmsg_len < sizeof(*control) || control->cmsg_len > left)
			break;
		take_control(datagram, CONTROL(control->cmsg_level, control->cmsg_type), at + CMSG_LEN(0));
		if (bytes >= left)
			break;
		at += bytes;
		left -= bytes;
	}
	/* Ready for the next time. */
	header->msg_namelen = sizeof(struct sockaddr_in6);
	header->msg_controllen = sizeof(((struct udp_slot *)0)->control.bytes);
	header->msg_flags = 0;
}

/*
 * recvmmsg, or recvmsg where one is asked for: number of datagrams, or -1. Not by the C library's functions, which
 * are cancellation points: each poll comes here (base/call.h).
 */
static int udp_receive_some(int fd, struct mmsghdr *message, unsigned max)
{
	ssize_t bytes;

	if (fail_now(FAIL_RECVMSG))
		return -1;
	if (max > 1)
		return (int)syscall(SYS_recvmmsg, fd, message, max, MSG_DONTWAIT, NULL);
	bytes = syscall(SYS_recvmsg, fd, &message->msg_hdr, MSG_DONTWAIT);
	message->msg_len = (unsigned)bytes;
	return bytes < 0 ? -1 : 1;
}

/* The sockets of single addresses in turn, until one has something. */
static APART int receive_by_address(struct udp_receiver *receiver, const struct udp_addresses *addresses,
				    unsigned first, unsigned max)
{
	unsigned n;
	int got = 0;

	for (n = 0; got <= 0 && n < addresses->count; n++)
		got = udp_receive_some(addresses->fd[receiver->turn++ % addresses->count],
				       &receiver->message[first], max);
	return got;
}

/* Into the buffers from number @first on; returns how many. Most calls find nothing. */
static inline unsigned receive_family(struct udp_link *udp, enum udp_family family, unsigned first,
				      struct datagram *datagram, unsigned max)
{
	struct udp_receiver *receiver = &udp->receiver;
	int got = 0, fd = udp->bound[family];
	unsigned n;

	if (first >= max)
		return 0;
	if (fd >= 0)
		got = udp_receive_some(fd, &receiver->message[first], max - first);
	else if (udp->addresses[family].count)
		got = receive_by_address(receiver, &udp->addresses[family], first, max - first);
	if (got <= 0)
		return 0;
	for (n = first; n < first + (unsigned)got; n++)
		udp_take_datagram(&datagram[n], &receiver->message[n]);
	return (unsigned)got;
}

static bool other_is_due(struct udp_receiver *receiver)
{
	receiver->calls++;
	if (receiver->turned && receiver->empty == 1) {
		receiver->turned = false;
		return true;
	}
	if (!receiver->mixed)
		return receiver->calls % SELDOM_EVERY == 0;
	receiver->mixed--;
	return receiver->empty == 1 || receiver->calls % OFTEN_EVERY == 0;
}

int udp_receive(struct link *link, struct datagram *datagram, unsigned max, unsigned *received)
{
	struct udp_link *udp = udp_of(link);
	struct udp_receiver *receiver = &udp->receiver;
	enum udp_family other = receiver->hot == UDP_IPV4 ? UDP_IPV6 : UDP_IPV4;
	unsigned count, more = 0;

	if (max > UDP_RECEIVE_MAX)
		max = UDP_RECEIVE_MAX;
	count = receive_family(udp, receiver->hot, 0, datagram, receiver->empty ? 1 : max);
	receiver->empty = count ? 0 : receiver->empty + 1;
	if (other_is_due(receiver))
		more = receive_family(udp, other, count, datagram, max);
	if (more)
		receiver->mixed = MIXED_CALLS;
	/* A full batch: a flood of one family must not starve the other. */
	if (count == max || (more && !count)) {
		receiver->turned = count == max;
		receiver->hot = other;
		receiver->empty = 0;
	}
	*received = count + more;
	return 0;
}
