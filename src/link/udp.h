/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * RoCEv2 over UDP sockets. Receives on port 4791 of 0.0.0.0 and of [::] (V6ONLY), shared with
 * the other processes of the same user by SO_REUSEPORT (host/port_group.c distributes the packets);
 * sends from unconnected sockets of their own, source port 0xC000 and above, one per
 * (family, spread), opened when first needed. GSO and GRO where the kernel has them.
 *
 * To peers on this host datagrams leave from the port of the sender's slot. It is bound for all addresses of both
 * families, without SO_REUSEPORT: nobody else can send from it, from any address.
 */
#ifndef VERBATIM_LINK_UDP_H
#define VERBATIM_LINK_UDP_H

#include "base/counters.h"
#include "link/link.h"

/* A datagram is found in at most so many receives: not each of them looks at both sockets. */
#define UDP_LOOKS_MAX 64u

/* Opens the sending side; receiving starts with udp_bind(). */
int udp_open(struct link **link, struct counters *counters);
/*
 * Bind port 4791, of all addresses, else of those that are free. 0; EADDRINUSE: another user (or
 * rdma_rxe) has it; the link can still send, and udp_bind() may be tried again. Also 0 when it was bound already.
 */
int udp_bind(struct link *link);
/* Where the port is bound address by address: has another program that of @address, of this host? */
bool udp_address_is_taken(const struct link *link, const uint8_t address[16]);
/* One that is taken; NULL: none. */
const uint8_t *udp_first_taken(const struct link *link);
/* The two bound sockets, or -1. */
void udp_bound_fds(const struct link *link, int *fd4, int *fd6);
/* Receive the multicast group @group (v4-mapped or IPv6) on @interface; counted per group. */
int udp_join(struct link *link, const uint8_t group[16], uint32_t interface);
void udp_leave(struct link *link, const uint8_t group[16], uint32_t interface);

/*
 * Datagrams with errors_wanted leave by sockets of their own, one per family: their ICMP errors are
 * reported here and disturb no other datagrams. After udp_errors_open(), the fds (or -1) are to be
 * waited on for errors.
 */
int udp_errors_open(struct link *link);
void udp_errors_close(struct link *link);
void udp_error_fds(const struct link *link, int *fd4, int *fd6);

#define UDP_ERROR_BYTES 512u

struct udp_error {
	int error;			/* ECONNREFUSED: the port is closed there; EHOSTUNREACH ... */
	uint8_t source[16], destination[16];	/* of the datagram; source zero: not known */
	uint32_t interface;
	size_t bytes;			/* what came back of its data, perhaps not all */
	uint8_t data[UDP_ERROR_BYTES];
};
/* 0; EAGAIN: none. One thread at a time. */
int udp_take_error(struct link *link, struct udp_error *error);

/*
 * Opens the socket by which datagrams like @datagram (addresses, hop limit, spread) leave, if it is not open. 0 or
 * errno; with EMFILE and ENFILE they leave by any socket of the family, and are lost if there is none.
 */
int udp_open_sender(struct link *link, const struct datagram *datagram);

/* The port of @slot: above those that Linux gives out by itself, and within 0xC000 to 0xFFFF. */
#define UDP_SLOT_PORTS		0xf000u

static inline uint16_t udp_slot_port(uint32_t slot)
{
	return (uint16_t)(UDP_SLOT_PORTS + slot);
}

/*
 * Binds the port of @slot, number @index of this process's, for datagrams with from_slot. 0; EADDRINUSE: another
 * program has it; EMFILE, ENFILE, ENOMEM. Also 0 where the kernel gives us no such sockets: nothing leaves then.
 */
int udp_open_slot(struct link *link, unsigned index, uint32_t slot);
void udp_close_slot(struct link *link, unsigned index);

/* In a fork()ed child: close every descriptor, touch nothing else. Async-signal-safe. */
void udp_abandon(struct link *link);

#endif
