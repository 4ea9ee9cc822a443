/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shared by the files of the UDP link: udp.c (sockets, groups), udp_send.c, udp_slot.c, udp_receive.c.
 */
#ifndef VERBATIM_LINK_UDP_INTERNAL_H
#define VERBATIM_LINK_UDP_INTERNAL_H

#include <netinet/in.h>
#include <stdatomic.h>
#include <sys/socket.h>

#include "base/counters.h"
#include "base/ip_addr.h"
#include "base/lock.h"
#include "link/link.h"
#include "link/udp.h"

#ifndef IPV6_FLOWINFO
#define IPV6_FLOWINFO 11
#endif

enum udp_family { UDP_IPV4, UDP_IPV6, UDP_FAMILY_COUNT };

#define UDP_CLASSES		32u	/* sending sockets per family */
#define UDP_SPREADS		1024u	/* values of datagram->spread told apart */
#define UDP_SLOTS		8u	/* of this process: engine/ has no more */
#define UDP_REFUSALS		64u	/* destinations remembered that take no GSO */
#define UDP_RECEIVE_MAX		32u	/* datagrams per receive */
#define UDP_BUFFER_BYTES	65536u	/* the largest datagram, with GRO */
#define UDP_HOP_LIMIT		64	/* where no datagram says which */

struct udp_sender {
	/* -1: not opened yet. Stored (S1, release) behind the others, loaded (S2) by senders. */
	_Atomic int fd;
	uint16_t port;
	uint8_t source[16];	/* the address it is bound to; zero: any */
	_Atomic uint8_t hop_limit;	/* without a control message that says otherwise; 0: not known */
	_Atomic bool unsettled;		/* the first datagram says which */
};

struct udp_membership {
	uint8_t group[16];
	uint32_t interface;
	unsigned count;
	int guard;		/* a socket, or -1 (udp.c) */
};

/* One slot of recvmmsg(); set up once, lengths renewed after use. */
struct udp_slot {
	struct iovec iov;
	struct sockaddr_in6 name;
	union {
		struct cmsghdr align;
		uint8_t bytes[192];
	} control;
};

struct udp_receiver {
	uint8_t *buffers;		/* [UDP_RECEIVE_MAX][UDP_BUFFER_BYTES], touched when used */
	struct mmsghdr message[UDP_RECEIVE_MAX];
	struct udp_slot slot[UDP_RECEIVE_MAX];
	enum udp_family hot;		/* the family of the last datagram: polled in each call */
	unsigned empty;			/* receives in a row that found nothing there */
	bool turned;			/* away from a family that had more */
	unsigned calls;
	unsigned turn;			/* of the sockets of single addresses */
	unsigned mixed;			/* calls left in which the other family is polled often */
};

/* Of a family whose port another program has on some addresses (udp_address.c). Set while nothing is bound. */
#define UDP_ADDRESSES_MAX	16u

struct udp_addresses {
	unsigned count;
	int fd[UDP_ADDRESSES_MAX];
	_Atomic unsigned taken_count;
	uint8_t taken[UDP_ADDRESSES_MAX][16];	/* by other programs */
};

struct udp_link {
	struct link link;
	struct counters *counters;
	struct lock lock;		/* opening senders, bound fds, memberships, refusals */

	_Atomic int bound[UDP_FAMILY_COUNT];
	struct udp_addresses addresses[UDP_FAMILY_COUNT];
	struct udp_membership *membership GUARDED_BY_MEMBER(lock);
	unsigned membership_count GUARDED_BY_MEMBER(lock);
	unsigned membership_capacity GUARDED_BY_MEMBER(lock);

	struct udp_sender sender[UDP_FAMILY_COUNT][UDP_CLASSES];
	_Atomic uint8_t class_of[UDP_SPREADS];	/* by spread: class + 1; 0: none yet */
	/* both publish nothing: a sender is found by its fd */
	_Atomic unsigned next_class;
	struct udp_sender reporting[UDP_FAMILY_COUNT];	/* udp_errors.c */
	struct udp_sender slot_sender[UDP_FAMILY_COUNT][UDP_SLOTS];	/* udp_slot.c */

	bool gso;			/* the kernel knows UDP_SEGMENT */
	_Atomic unsigned refusal_count;
	uint8_t refusal[UDP_REFUSALS][16] GUARDED_BY_MEMBER(lock);

	struct udp_receiver receiver;
};

#define udp_of(l) ((struct udp_link *)(l))	/* link is its first member */

static inline enum udp_family udp_family_of(const uint8_t address[16])
{
	return ip_addr_is_ipv4(address) ? UDP_IPV4 : UDP_IPV6;
}

/* A UDP socket of that family, V6ONLY, non-blocking; -1: errno. */
int udp_socket(enum udp_family family);
/* @address: zero for any. 0 or errno. */
int udp_bind_to(int fd, enum udp_family family, const uint8_t address[16], uint16_t port);
int udp_set(int fd, int level, int option, int value);			/* 0 or errno */

/* Opens a socket that receives at @address, or all of them (zeros); *bound is -1 where there is no such family. */
typedef int udp_opener(enum udp_family family, const uint8_t address[16], int *bound);
/* udp_address.c: EADDRINUSE: not a single address is free. */
int udp_addresses_bind(struct udp_link *udp, enum udp_family family, udp_opener *open);
void udp_addresses_close(struct udp_link *udp);
/* Before ours are bound: which addresses other sockets have. */
void udp_addresses_look(struct udp_link *udp);

/* udp_send.c */
unsigned udp_prepare(struct link *link, struct datagram *datagram);
int udp_send(struct link *link, struct datagram *datagram, unsigned count, unsigned *sent);
int udp_set_send_options(int fd, enum udp_family family, struct udp_sender *sender);
void udp_senders_changed(struct udp_link *udp);	/* opened, closed, or one has learnt something */
int udp_bind_sender(int fd, enum udp_family family, struct udp_sender *sender);
/* udp_errors.c */
void udp_errors_abandon(struct udp_link *udp);
/* udp_receive.c */
int udp_receiver_open(struct udp_receiver *receiver);
void udp_receiver_close(struct udp_receiver *receiver);
int udp_receive(struct link *link, struct datagram *datagram, unsigned max, unsigned *received);

#endif
