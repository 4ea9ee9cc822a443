/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What links and the host's slot sockets carry: one packet (BTH to ICRC), or of RoCEv2 a run of
 * packets of one size, with its addresses. IPv4 addresses are v4-mapped. Members of one folder are
 * named so.
 */
#ifndef VERBATIM_BASE_DATAGRAM_H
#define VERBATIM_BASE_DATAGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ROCE_UDP_PORT 4791

/* Ways by which packets come. Any other number is the life of a channel (local/). */
#define BY_NETWORK	0u		/* UDP, from whoever sends there, also forwarded by another process */
#define BY_LOOPBACK	UINT32_MAX	/* from this process */
#define BY_LOST_CHANNEL	(UINT32_MAX - 1) /* a channel that has been closed since */
/* Of no datagram: UDP, from the port of the peer's slot (engine/way.c). */
#define BY_SOURCE_PORT	(UINT32_MAX - 2)

/*
 * Where a packet of a virtual InfiniBand fabric leaves a port of this process, or has come to it. Of RoCE
 * all is zero.
 */
struct ib_way {
	uint16_t port;			/* IB_WAY_PORT(HCA of the node, port); 0: RoCE */
	uint16_t lid;			/* of the other end; send, multicast: of the group */
	uint8_t path_bits;		/* of ours */
	uint8_t sl;
	uint8_t static_rate;		/* base/link_rate.h; 0: that of the port */
	bool has_grh;
};

_Static_assert(sizeof(struct ib_way) == 8, "copied with each route");
#define IB_WAY_PORT(hca, number)	((uint16_t)((hca) << 8 | (number)))

/*
 * Addresses are GIDs if there is a GRH; else see ip_addr_of_lid().
 * Large: what any link says of a packet has a member.
 */
struct datagram {
	uint8_t source[16], destination[16];
	uint32_t interface;		/* scope of link-local addresses, egress of multicast; 0: any */
	uint32_t flow_label;		/* IPv6 */
	uint32_t spread;		/* send: datagrams of one value share a source port */
	uint16_t from_slot;		/* send, inside the host: leaves from the port of this slot; 0: any */
	uint16_t to_slot;		/* send, of a request to QP1: who has served such a one; 0: nobody known */
	uint16_t source_port;		/* send: filled in by link_ops.prepare; receive: seen */
	uint8_t traffic_class, hop_limit;
	bool sealed;			/* receive: comes from this process, ICRC not needed */
	bool errors_wanted;		/* link/udp, send: errors come back (udp.h); never a run */
	bool forwarded;			/* host/, receive: came by a slot socket: never forwarded again */
	bool fault_exempt;			/* engine/, receive: faults on purpose were decided */
	bool shared;			/* receive: data may still be written by the sender */
	bool from_channel;		/* local/, receive: by @channel */
	bool checked, bad_icrc;		/* receive: its link has looked at the ICRC; it is wrong */
	uint8_t link;			/* enum route_link; 0: RoCEv2 */
	bool plain;			/* link/udp, send: its socket says all but where it goes (prepare) */
	uint16_t channel;		/* local/: to or from which peer process */
	struct ib_way ib;
	uint16_t pkey_index;		/* mad/: of a MAD, in the table of its port */
	uint16_t dlid;			/* receive, of a fabric: by which LID it has come */
	/* local/, of a fabric: ports of its image + 1 where it arrives, and where it comes from; 0: RoCE */
	uint32_t ib_end, ib_from;
	uint32_t way;			/* engine/, receive: as struct qp has it */
	unsigned segment_number;	/* host/: of the first segment, when forwarded one by one */
	uint32_t sender;		/* link/udp, send: the socket that prepare() found; 0: none */
	uint8_t *data;
	size_t bytes;			/* all segments together */
	size_t segment_bytes;		/* each segment but the last is of this size; 0: one segment */
};

#endif
