/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The requester's half of selective repeat between two Verbatims (early.h is the responder's): what
 * the peer lacks is sent again, and nothing else.
 *
 * At the first sign of a loss the peer is asked whether it holds what comes behind a gap
 * (wire/gaps.h), and the loss is repaired as ever, by going back. Who does not know the question
 * drops it; after REPAIR_ASKS of them it is not asked again. Nothing on the wire changes before.
 *
 *	UNKNOWN -- sign of loss: ask --> ASKED -- YES --> YES
 *	   ^                               | unanswered      | ACK timeout
 *	   |                               +--> NO           |
 *	   +-------------------------------------------------+
 *
 * A report is believed in two things: what not to send again for now, and that it has left the
 * network, so its share of the window is free. It is not answered: it stays in the send queue, and
 * the timers run. A peer that lies about it, or holds no more, is the slower for it: an ACK timeout
 * goes back to the oldest packet as without all this. Beyond a gap GAPS_REACH packets are sent at
 * the most, with any window: more finds no place.
 *
 * One round sends each gap once. Gaps of a round are sent again when the peer holds something that
 * was sent after them.
 */
#ifndef VERBATIM_TRANSPORT_REPAIR_H
#define VERBATIM_TRANSPORT_REPAIR_H

#include "transport/internal.h"
#include "transport/recovery.h"
#include "wire/gaps.h"

#define REPAIR_ASKS	4u

/* A sign of loss: ask the peer, unless that is settled. */
void repair_sign(struct qp *qp) REQUIRES(qp->lock);
/* It was silent for the ACK timeout: it may have changed its mind. */
void repair_doubt(struct qp *qp) REQUIRES(qp->lock);
/* YES, to the question at @psn. */
enum drop repair_answered(struct qp *qp, uint32_t psn) REQUIRES(qp->lock);
/* A report of the peer, which waits for una_psn. Reports are of use after a YES. */
static inline bool repair_listens(const struct qp *qp) REQUIRES(qp->lock)
{
	const struct recovery *recovery = recovery_of(qp);

	return recovery && recovery->repair.state == REPAIR_YES;
}

void repair_learn(struct qp *qp, const struct gaps *gaps) REQUIRES(qp->lock);

/* Are gaps known that are not filled yet? Then a sign of loss is one of them. */
static inline bool repair_is_on(const struct qp *qp) REQUIRES(qp->lock)
{
	const struct recovery *recovery = recovery_of(qp);

	return recovery && recovery->repair.active &&
	       psn_before(qp->requester.una_psn, recovery->repair.end_psn);
}

/* Is something to be written? */
static inline bool repair_asks(const struct qp *qp) REQUIRES(qp->lock)
{
	const struct recovery *recovery = recovery_of(qp);

	return recovery && recovery->repair.ask_due;
}

/* All is sent again, from una_psn on. */
static inline void repair_stop(struct qp *qp) REQUIRES(qp->lock)
{
	struct recovery *recovery = recovery_of(qp);

	if (recovery)
		recovery->repair.active = false;
}

/* All is answered, or begins anew: nothing has left the window before its time. */
static inline void repair_ends(struct qp *qp) REQUIRES(qp->lock)
{
	struct recovery *recovery = recovery_of(qp);

	if (recovery) {
		recovery->repair.active = false;
		recovery->repair.freed_bytes = 0;
	}
}

/* Of @bytes that are answered so many have no share of the window any more. */
static inline uint32_t repair_answered_bytes(struct qp *qp, uint32_t bytes) REQUIRES(qp->lock)
{
	struct recovery *recovery = recovery_of(qp);
	uint32_t freed;

	if (!recovery)
		return 0;
	freed = recovery->repair.freed_bytes < bytes ? recovery->repair.freed_bytes : bytes;
	recovery->repair.freed_bytes -= freed;
	return freed;
}

/* *psn: the next one to look at in this round. False: there is none. */
bool repair_next_gap(const struct qp *qp, uint32_t *psn) REQUIRES(qp->lock);
/* Does the peer hold it? */
bool repair_is_held(const struct qp *qp, uint32_t psn) REQUIRES(qp->lock);
/* It was sent again, or is held: go on at @end. */
void repair_passed(struct qp *qp, uint32_t end) REQUIRES(qp->lock);
void repair_ask(struct transmit *transmit) REQUIRES(transmit->call->qp->lock);

#endif
