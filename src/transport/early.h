/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests of the peer that came behind a gap, the responder's half of selective repeat (repair.h
 * is the requester's). IBTA's responder drops them, and the requester sends all of them again. A
 * Verbatim that has asked (wire/gaps.h) is told which ones are held instead, and sends the others.
 * Nothing of a held request is looked at before its turn: when the gap is filled they are executed
 * in their order, as if they came only now. So order, rights and completions are those of the
 * specification.
 *
 *	expected_psn		     report: . x x . x
 *	     | gap | held | held | gap | held |
 *
 * The NAK of the gap is sent nevertheless: a peer that has asked by mistake, or for which another
 * one has asked, loses nothing. What is held is bounded: by GAPS_REACH for a QP, by EARLY_PLACES
 * for the process, and in time by EARLY_NS. What finds no place is dropped, as it always was.
 */
#ifndef VERBATIM_TRANSPORT_EARLY_H
#define VERBATIM_TRANSPORT_EARLY_H

#include "transport/internal.h"
#include "transport/recovery.h"

#define EARLY_NS	500000000u	/* an older gap is not going to be filled by one packet */

/* The peer asks whether we hold. */
void early_asked(struct qp *qp, uint32_t psn) REQUIRES(qp->lock);
/* @packet is @ahead of the expected one: is it held now? */
bool early_keep(struct qp_call *call, const struct packet *packet, int32_t ahead) REQUIRES(call->qp->lock);
/* The one that is next in sequence, until early_pop(); NULL: it is not held. */
const struct packet *early_next(struct qp *qp) REQUIRES(qp->lock);
/* It was executed. */
void early_pop(struct qp_call *call) REQUIRES(call->qp->lock);
void early_drop(struct qp *qp) REQUIRES(qp->lock);
/* The same, and they are counted: but for the packet with @psn, which is dropped for a reason of its own. */
void early_give_up(struct qp_call *call, uint32_t psn) REQUIRES(call->qp->lock);

static inline bool early_holds(const struct qp *qp) REQUIRES(qp->lock)
{
	const struct recovery *recovery = recovery_of(qp);

	return recovery && recovery->early.count;
}

/*
 * What the peer knows of it is old: it is told again, if there is something; or that all gaps are
 * filled, since with the one ACK that says so all would be silent.
 */
static inline void early_repeat(struct qp *qp) REQUIRES(qp->lock)
{
	if (early_holds(qp))
		recovery_of(qp)->early.report_due = true;
}

/* Is something to be written, or the next request held? */
bool early_ready(const struct qp *qp) REQUIRES(qp->lock);
void early_transmit(struct transmit *transmit) REQUIRES(transmit->call->qp->lock);
uint64_t early_deadline(const struct qp *qp) REQUIRES(qp->lock);
void early_timeout(struct qp_call *call) REQUIRES(call->qp->lock);

#endif
