/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a traced process shares with `verbatim trace`: a memfd with a header and a ring of records, made by
 * the tracer. The process writes, the tracer reads; neither believes what the other can change.
 *
 *	| struct trace_share, TRACE_SHARE_BYTES | ring: records back to back, from tail to head |
 *
 * head and tail count bytes since the beginning; a record that does not fit before the end of the ring goes
 * on at its beginning. Records are written by one thread at a time, and are nearly in the order of time: what
 * takes long has the time at which it began.
 */
#ifndef VERBATIM_TRACE_RECORD_H
#define VERBATIM_TRACE_RECORD_H

#include <stdatomic.h>
#include <stdint.h>

#include "tracepoint/tracepoint.h"

#define TRACE_MAGIC		0x56625472u
#define TRACE_VERSION		4u	/* of all that is in this file, and of tracepoint/ */
#define TRACE_SHARE_BYTES	4096u
#define TRACE_RING_MAX		(256u << 20)
#define TRACE_RECORD_MAX	8192u
#define TRACE_TEXT_MAX		TRACEPOINT_BYTES
#define TRACE_ROUTE_MAX		256u	/* with its 0 */

#define TRACE_DROP_FAULT 0xffffu	/* lost on purpose */

/* TRACE_IS_EVENT: the tracer's own, whose members are text already. */
enum trace_kind { TRACE_IS_PACKET = 1, TRACE_IS_OPERATION, TRACE_IS_POINT, TRACE_IS_EVENT };
enum trace_path { TRACE_UDP, TRACE_LOOPBACK, TRACE_RING, TRACE_DIRECT, TRACE_FABRIC, TRACE_ETHERNET,
		  TRACE_WAYS };
/* How a process got at the memory of another one: mapped, or through the kernel. */
enum trace_manner { TRACE_MANNER_NONE, TRACE_STORED, TRACE_COPIED };

enum trace_flags {
	TRACE_OUTBOUND		= 1 << 0,
	TRACE_HAS_WR_ID		= 1 << 1,
	TRACE_HAS_ICRC		= 1 << 2,	/* the packet has one on this way */
	TRACE_HAS_MESSAGE	= 1 << 3,
	TRACE_FAILURE		= 1 << 4,	/* an event after which a ring of records is kept */
	TRACE_DONT_FRAGMENT	= 1 << 5,
};

/*
 * Large: one header for all kinds, so that a reader checks lengths in one place.
 * Behind it: of a packet its first bytes, from the BTH, and the words of its route; of an operation a struct
 * trace_operation; of a point the bytes of tracepoint_encode().
 */
struct trace_record {
	uint32_t bytes;			/* of all, a multiple of 8 */
	uint8_t kind, path;
	uint8_t state;			/* of the QP: enum ibv_qp_state + 1; 0: not known */
	uint8_t flags;
	uint64_t time_ns;		/* since 1970 */
	uint64_t wr_id;
	uint32_t qpn;			/* of this process; 0: not known */
	uint32_t thread;
	uint32_t length;		/* of a packet, BTH to ICRC */
	uint32_t captured;		/* bytes behind this header, without the route */
	uint32_t message;		/* number of a message in memory */
	uint32_t flow_label;
	uint16_t source_port, ip_id;
	uint16_t retransmission;
	uint16_t drop;			/* enum drop; TRACE_DROP_FAULT */
	uint32_t want;			/* enum trace_want: which kind of event */
	uint8_t traffic_class, hop_limit;
	uint8_t manner, reserved;	/* of an operation through memory: enum trace_manner */
	/* By LID, through a virtual fabric; else 0. route: characters. */
	uint16_t slid, dlid, route;
	uint8_t sl, has_grh;
	uint8_t source[16], destination[16];
};

#define TRACE_PACKET_MAX (TRACE_RECORD_MAX - sizeof(struct trace_record) - TRACE_ROUTE_MAX)

_Static_assert(sizeof(struct trace_record) == 104, "process and tracer agree on it");

/* A request that went without packets, or a message: its packets are made by the tracer (expand.h). */
struct trace_operation {
	uint8_t verb;			/* enum verb; VERB_ACK: of a message */
	uint8_t service;		/* enum service */
	uint8_t has_imm, invalidates, solicited, swaps;
	uint8_t acknowledged, reserved;	/* an ACK of the WRITE is one of its packets */
	uint32_t psn, mtu, bytes, dest_qpn;
	uint32_t rkey, imm;
	uint64_t address, compare_add, swap, original;
};

_Static_assert(sizeof(struct trace_operation) == 64, "process and tracer agree on it");

struct trace_share {
	uint32_t magic, version;
	uint32_t ring_bytes;		/* a power of two */
	uint32_t wanted;		/* enum trace_want */
	uint32_t payload_bytes;		/* of each packet; management datagrams are whole */
	uint32_t record_bytes;		/* sizeof(struct trace_record) */
	char program[64];		/* written by the process when it begins */
	uint32_t parent;
	/* R1: the process stores head when a record stands; the tracer loads it before it reads */
	_Alignas(64) _Atomic uint64_t head;
	_Atomic uint64_t lost;		/* records that found no room */
	/* R2: the tracer stores tail when it has read; the process loads it before it writes there */
	_Alignas(64) _Atomic uint64_t tail;
};

_Static_assert(sizeof(struct trace_share) <= TRACE_SHARE_BYTES, "the ring begins behind it");

#endif
