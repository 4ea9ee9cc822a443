/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Flow control of UC and UD towards one peer process (docs/decisions/0007). These packets get no
 * answer, so the sender asks for one: now and then it marks a packet (BTH, echo request), and a
 * Verbatim peer echoes the mark (a CNP) when it has received the packet. Bytes sent up to the mark
 * are no longer in flight then.
 *
 *	released_bytes          marked_bytes     taken_bytes
 *	     |  in flight, marked    |   not marked   |
 *	     ^ newest mark echoed    ^ newest mark
 *
 * The limit is that of a socket's buffer; through memory that of a channel, which is larger.
 *
 * Other peers ignore the mark, and a peer may stop or die: a QP waits at most patience_ns from the
 * last sign of life; then everything counts as received and the patience doubles. At its end the
 * peer counts as deaf, and no QP waits for it any more. An echo ends that.
 *
 * These bytes are not those of the path's window, which is RC's: RC repairs loss, and learns from
 * it; here a fixed limit fits the default socket buffer.
 *
 * All of struct flow is under path->lock; the fields of a QP named here under its own lock.
 */
#ifndef VERBATIM_TRANSPORT_FLOW_H
#define VERBATIM_TRANSPORT_FLOW_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "object/qp.h"

struct path;
struct run_queue;

/*
 * Limits of the bytes in flight, by flow_cost(). The default buffer has 416 KiB, a quarter
 * of which the kernel may still count as full after it was emptied.
 */
#define FLOW_LIMIT		(160u * 1024u)
#define FLOW_LIMIT_UNHEARD	(40u * 1024u)	/* until the first echo */
#define FLOW_LIMIT_MIN		(64u * 1024u)	/* beside RC's bytes in flight */
/* Through memory: half of a channel's data (CHANNEL_DATA_BYTES), by flow_cost_memory(). */
#define FLOW_LIMIT_MEMORY	(512u * 1024u)
/*
 * A mark is made every limit / FLOW_CHUNKS bytes, and no more than that is taken at once: the bytes
 * not marked yet stay below the least limit, so a waiting QP always waits for an echo.
 */
#define FLOW_CHUNKS		8u
#define FLOW_MARKS		16u		/* remembered; more than can be awaited */

#define FLOW_PATIENCE_UNHEARD_NS	500000u
#define FLOW_PATIENCE_NS		64000000u
#define FLOW_PATIENCE_MAX_NS		128000000u

struct flow_mark {
	uint32_t qpn, psn;		/* of the marked packet; 0: none */
	uint64_t upto;			/* taken_bytes, that packet included */
};

struct flow {
	struct list waiting;		/* QPs, by wait_node */
	uint64_t taken_bytes, marked_bytes, released_bytes;	/* ever */
	uint64_t stalled_ns;		/* last sign of life, or since when a QP waits */
	uint64_t patience_ns;
	bool heard;			/* the peer has echoed */
	bool deaf;			/* it does not, or does no longer */
	/*
	 * Packets go through memory, as the last echo did. Stored under path->lock; loaded without it as a hint
	 * what a packet costs: a wrong cost is off by some bytes until the next echo.
	 */
	_Atomic bool memory;
	uint32_t marks;			/* made so far; newest: mark[(marks - 1) % FLOW_MARKS] */
	struct flow_mark mark[FLOW_MARKS];
};

struct flow_ask {
	uint32_t psn;			/* of the packet about to be written */
	uint32_t least, wanted;		/* bytes that it needs; with the packets behind it */
	uint32_t alone;			/* its cost when sent later, as the first of a batch */
	uint64_t now_ns;
};

/* A packet's share of a socket buffer: the first of a batch, and another like it. */
uint32_t flow_cost(uint32_t payload_bytes);
uint32_t flow_cost_joined(uint32_t payload_bytes);
/* Of any packet through memory, where the limit is to be of few small packets, too. */
uint32_t flow_cost_memory(uint32_t payload_bytes);

void flow_init(struct flow *flow);

/*
 * Take at least ask->least, up to ask->wanted; returns how much. *mark: this packet must ask for
 * an echo. 0: @qp now waits in the flow's list (requester.blocked), with a deadline; it is put in
 * the run queue when it is its turn.
 */
uint32_t flow_take(struct path *path, struct qp *qp, const struct flow_ask *ask, bool *mark)
	REQUIRES(qp->lock);
/* @qp has transmitted: give back the unused bytes, pass its turn on. */
void flow_done(struct path *path, struct run_queue *queue, struct qp *qp, uint32_t unused_bytes)
	REQUIRES(qp->lock);
/* @qp stops, or is destroyed: it no longer waits. */
void flow_leave(struct run_queue *queue, struct qp *qp) REQUIRES(qp->lock);

/* An echo of the mark came. @memory: packets go through memory. False: no mark of ours, or an old one. */
bool flow_echoed(struct path *path, struct run_queue *queue, uint32_t qpn, uint32_t psn, bool memory,
		 uint64_t now_ns);
/*
 * The deadline of the waiting @qp has passed. True: so has the patience with the peer.
 */
bool flow_expire(struct run_queue *queue, struct qp *qp, uint64_t now_ns) REQUIRES(qp->lock);

#endif
