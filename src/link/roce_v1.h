/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * RoCE v1 (IBTA annex A16): Ethernet frames of type 0x8915 by packet sockets, on the interfaces whose ports
 * have such GIDs. Inside the host there are shorter ways (net/route.c); a group's packets come back to this host.
 *
 *	| destination, source 12 | 0x8915 2 | GRH 40 | BTH ... pad | ICRC 4 |
 *
 * The destination's MAC address is the one that the kernel knows the neighbour by, or that its packets come from.
 * Each process has the frames that are for its QPs; management datagrams come to one of the host's processes,
 * whichever, as they do by UDP.
 */
#ifndef VERBATIM_LINK_ROCE_V1_H
#define VERBATIM_LINK_ROCE_V1_H

#include <stdint.h>

#include "base/counters.h"
#include "link/link.h"

/* An interface, and the GIDs that packets to it may be for. */
struct roce_v1_port {
	uint32_t interface;
	uint8_t mac[6];
	unsigned gids;
	const uint8_t (*gid)[16];
};

/* @tag: what its datagrams are marked with (struct datagram's link). 0; EPERM: needs CAP_NET_RAW; errno. */
int roce_v1_open(struct link **link, struct counters *counters, uint8_t tag);
/*
 * These are the interfaces from now on; those of others are closed. Nobody receives meanwhile. 0 or errno of one
 * that could not be opened. Descriptors are event_fds()' then.
 */
int roce_v1_set_ports(struct link *link, const struct roce_v1_port *ports, unsigned count);
/* ---- pure: frames ---- */

#define ROCE_V1_HEADERS	54u	/* Ethernet and GRH */

/* Writes the headers for @datagram, and its ICRC, for which its data has room. */
void roce_v1_write(struct datagram *datagram, const uint8_t source[6], const uint8_t destination[6],
		   uint8_t headers[ROCE_V1_HEADERS]);
/*
 * Reads a frame of @bytes: addresses, length and ICRC into *datagram, whose data points into it. False: it is
 * none. The Ethernet header does not survive it.
 */
bool roce_v1_read(uint8_t *frame, size_t bytes, struct datagram *datagram);

#endif
