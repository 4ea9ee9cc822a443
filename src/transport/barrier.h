/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * UC inside a host: when a WRITE may go without packets (direct.h). RC waits until nothing is
 * unanswered; UC has no answers, and a WRITE into the peer's memory must not pass the packets before
 * it. So after some WRITEs in a row that went as packets the peer is asked something behind them
 * (local/move/pairing.c), and the QP holds its next message until it has answered, or for a millisecond.
 *
 *	packet sent		     packet sent, or until_ns
 *	  +---> NONE <----------------------------+
 *	  |      | barrier_is_due(): asked	  |
 *	  |      +------------------> ASKED ------+
 *	  |			        | answered
 *	  +------- PASSED <-------------+	WRITEs go directly
 *
 * All under the QP's lock.
 */
#ifndef VERBATIM_TRANSPORT_BARRIER_H
#define VERBATIM_TRANSPORT_BARRIER_H

#include "object/qp.h"

#define BARRIER_AFTER	16u		/* WRITEs in a row, as packets */
#define BARRIER_NS	1000000u	/* a peer that sleeps takes 50 to 100 us to answer */

/* Is the next request a WRITE, begun by no packet, that could go directly after an answer? */
static inline bool barrier_is_due(const struct qp *qp) REQUIRES(qp->lock)
{
	return !qp_is(qp, QP_RELIABLE) && qp_is(qp, QP_CONNECTED) && qp->state == IBV_QPS_RTS &&
	       qp->requester.barrier.state == BARRIER_NONE &&
	       qp->requester.in_packets >= BARRIER_AFTER && qp->sq.sent == qp->sq.tail &&
	       qp->sq.tail != qp->sq.head &&
	       send_queue_at(&qp->sq, qp->sq.tail)->opcode == IBV_WR_RDMA_WRITE;
}

static inline void barrier_asked(struct qp *qp, uint64_t now_ns) REQUIRES(qp->lock)
{
	qp->requester.barrier = (struct barrier){ BARRIER_ASKED, now_ns + BARRIER_NS };
}

/* It is not asked now, but after as many WRITEs again. */
static inline void barrier_declined(struct qp *qp) REQUIRES(qp->lock)
{
	qp->requester.in_packets = 0;
}

/* The peer has answered. True: the QP was held, and is to be run. */
static inline bool barrier_answered(struct qp *qp) REQUIRES(qp->lock)
{
	if (qp->requester.barrier.state != BARRIER_ASKED)
		return false;
	qp->requester.barrier.state = BARRIER_PASSED;
	qp->requester.in_packets = BARRIER_AFTER - 1;	/* one that has to be packets is soon made up for */
	return true;
}

/* A message is about to begin as packets: a WRITE, or anything else, which ends the row. */
static inline void barrier_packets(struct qp *qp, bool write) REQUIRES(qp->lock)
{
	struct requester *requester = &qp->requester;

	requester->barrier.state = BARRIER_NONE;
	if (!write)
		requester->in_packets = 0;
	else if (requester->in_packets < BARRIER_AFTER)
		requester->in_packets++;
}

/* No message is begun now. */
static inline bool barrier_holds(const struct qp *qp) REQUIRES(qp->lock)
{
	return qp->requester.barrier.state == BARRIER_ASKED && qp->sq.sent == qp->sq.tail;
}

/* TIME_NEVER: it holds nothing. */
static inline uint64_t barrier_deadline(const struct qp *qp) REQUIRES(qp->lock)
{
	return barrier_holds(qp) ? qp->requester.barrier.until_ns : TIME_NEVER;
}

/* True: it held the QP until now, which is to be run. The next one is as many packets away. */
static inline bool barrier_expire(struct qp *qp, uint64_t now_ns) REQUIRES(qp->lock)
{
	if (barrier_deadline(qp) > now_ns)
		return false;
	qp->requester.barrier.state = BARRIER_NONE;
	qp->requester.in_packets = 0;
	return true;
}

#endif
