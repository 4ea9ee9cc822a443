/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * RoCEv2 over UDP sockets. Receives on port 4791 of 0.0.0.0 and of [::] (V6ONLY), shared with
 * the other processes of the same user by SO_REUSEPORT (who gets which packet: host/port_group.c);
 * sends from unconnected sockets of their own, source port 0xC000 and above, one per
 * (family, spread), opened when first needed. GSO and GRO where the kernel has them.
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
 * Bind port 4791. 0; EADDRINUSE: another user (or rdma_rxe) has it; the link can still send, and
 * udp_bind() may be tried again. Also 0 when it was bound already.
 */
int udp_bind(struct link *link);
/* The two bound sockets, or -1. */
void udp_bound_fds(const struct link *link, int *fd4, int *fd6);
/* Receive the multicast group @group (v4-mapped or IPv6) on @interface; counted per group. */
int udp_join(struct link *link, const uint8_t group[16], uint32_t interface);
void udp_leave(struct link *link, const uint8_t group[16], uint32_t interface);

/* In a fork()ed child: close every descriptor, touch nothing else. Async-signal-safe. */
void udp_abandon(struct link *link);

#endif
