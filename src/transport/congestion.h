/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Congestion of the network: a switch marks packets (ECN), who receives one tells the sender by a
 * congestion notification (CNP, RoCEv2 annex A17.9), and the sender sends less.
 *
 * As notification point (RC and XRC): marks on requests and READ responses are answered by a CNP,
 * at most one in CONGESTION_CNP_NS for a QP, whoever the peer is. By another link than RoCEv2, or
 * when the pool of recovery.h is used up, the next ACK has BECN instead.
 *
 * As reaction point: a CNP, or BECN, halves the window of the path (path.h), once in a round trip;
 * so does a mark on a READ response, since what the peer may send is what was asked for. Where the
 * window is a packet, and that is still too much, the queue pair gets a rate (rate.h), which a
 * notification cuts once in a round trip, to a packet in CONGESTION_ROUNDS_MAX of them at the
 * least.
 *
 * Packets may be marked (ECT) when the application's traffic class says so, and when the peer is
 * known to be a Verbatim (repair.h), which answers marks. Others may ignore them, as rxe does: to
 * those a lost packet says more.
 */
#ifndef VERBATIM_TRANSPORT_CONGESTION_H
#define VERBATIM_TRANSPORT_CONGESTION_H

#include "transport/internal.h"
#include "transport/pace.h"
#include "transport/recovery.h"

#define CONGESTION_CNP_NS	50000u
#define CONGESTION_ROUNDS_MAX	16u

/* A packet of the peer was marked. */
void congestion_marked(struct qp_call *call) REQUIRES(call->qp->lock);
/* Packets to this peer may be marked, unless the application has an opinion. */
void congestion_answers(struct qp *qp) REQUIRES(qp->lock);

/* Is a CNP to be written? */
static inline bool congestion_ready(const struct qp *qp) REQUIRES(qp->lock)
{
	const struct congestion *congestion = congestion_of(qp);

	return congestion && congestion->notice.due;
}

/* The peer says that packets of ours were marked. */
void congestion_heard(struct qp_call *call) REQUIRES(call->qp->lock);

/* May a request of @bytes leave now, and do path and application let it? If not, the QP is held. */
static inline bool congestion_allows(struct qp_call *call, uint32_t bytes) REQUIRES(call->qp->lock)
{
	struct congestion *congestion = congestion_of(call->qp);

	return pace_allows(&call->qp->requester.pace, call->now_ns) &&
	       (!congestion || rate_allows(&congestion->rate, bytes, call->now_ns));
}

/* Until when it is held: TIME_NEVER: it is not. */
static inline uint64_t congestion_deadline(const struct qp *qp) REQUIRES(qp->lock)
{
	const struct congestion *congestion = congestion_of(qp);

	if (qp->requester.pace.held_until_ns)
		return qp->requester.pace.held_until_ns;
	return congestion && congestion->rate.held_until_ns ? congestion->rate.held_until_ns : TIME_NEVER;
}

/* True: it was, and may go on. */
static inline bool congestion_expire(struct qp *qp, uint64_t now_ns) REQUIRES(qp->lock)
{
	if (congestion_deadline(qp) > now_ns)
		return false;
	if (!pace_expire(&qp->requester.pace, now_ns))
		congestion_of(qp)->rate.held_until_ns = 0;
	return true;
}

void congestion_transmit(struct transmit *transmit) REQUIRES(transmit->call->qp->lock);

#endif
