/* SPDX-License-Identifier: BSD-2-Clause */
/* Selective repeat: the peer asked, its reports, and what is sent again. See repair.h. */
#include "transport/repair.h"

#include <string.h>

#include "transport/congestion.h"

/* ---- asking ---- */

/* Slot 0 is never a Verbatim process. Through memory nothing is lost. */
static bool repair_is_worth_it(const struct qp *qp) REQUIRES(qp->lock)
{
	const struct transport *transport = qp->transport;

	return transport->recoveries && qp->route.link == ROUTE_ROCE_V2 &&
	       qpn_slot(qp->attr.dest_qp_num) &&
	       !(transport->loses_nothing && transport->loses_nothing(qp));
}

void repair_sign(struct qp *qp)
{
	struct recovery *recovery = repair_is_worth_it(qp) ? recovery_need(qp) : NULL;
	struct repair *repair;

	if (!recovery)
		return;
	repair = &recovery->repair;
	if (repair->state == REPAIR_YES || repair->state == REPAIR_NO)
		return;
	if (repair->asks == REPAIR_ASKS) {
		repair->state = REPAIR_NO;
		return;
	}
	repair->state = REPAIR_ASKED;
	repair->asks++;
	repair->ask_due = true;
}

void repair_doubt(struct qp *qp)
{
	struct recovery *recovery = recovery_of(qp);

	if (recovery && recovery->repair.state == REPAIR_YES)
		recovery->repair.state = REPAIR_UNKNOWN;
}

void repair_ask(struct transmit *transmit)
{
	struct qp *qp = transmit->call->qp;
	struct repair *repair;

	lock_alias(&qp->lock);
	repair = &recovery_of(qp)->repair;
	if (!transmit_has_room(transmit))
		return;
	repair->ask_due = false;
	repair->ask_psn = qp->requester.una_psn;
	transmit_gaps(transmit, (struct gaps){ .kind = GAPS_ASK }, repair->ask_psn);
}

enum drop repair_answered(struct qp *qp, uint32_t psn)
{
	struct recovery *recovery = recovery_of(qp);
	struct repair *repair = recovery ? &recovery->repair : NULL;

	if (!repair || repair->state != REPAIR_ASKED || repair->ask_due || psn != repair->ask_psn)
		return DROP_RESPONSE;
	repair->state = REPAIR_YES;
	repair->asks = 0;
	congestion_answers(qp);
	/* Responses to READs are asked for again from the first that is missing, whoever the peer is. */
	if (qp->path && qp->sq.tail != qp->sq.sent &&
	    !wqe_takes_resource(send_queue_at(&qp->sq, qp->sq.tail)))
		path_forgives(qp->path);
	return DROP_NONE;
}

/* ---- reports ---- */

/* Each gap is sent again once. */
static void repair_begin_round(struct requester *requester, struct repair *repair)
{
	repair->active = true;
	repair->from_psn = requester->una_psn;
	repair->mark_psn = requester->send_psn;
	requester->timing = requester->loss.probing = false;
}

/*
 * What the peer holds has left the network and its socket's buffer. Not so a READ: its responses are yet to come.
 */
static void repair_free_held(struct qp *qp, struct repair *repair) REQUIRES(qp->lock)
{
	struct requester *requester = &qp->requester;
	uint32_t number = qp->sq.tail, bytes = 0, psn, end;
	const struct send_wqe *wqe;

	if (!repair->freed_bytes || psn_before(repair->freed_psn, requester->una_psn))
		repair->freed_psn = requester->una_psn;
	for (psn = repair->freed_psn; psn_before(psn, repair->end_psn); psn = end) {
		wqe = request_at(qp, &number, psn);
		if (!wqe)
			break;
		end = wqe_chunk_end(qp, wqe, psn);
		if (repair_is_held(qp, psn) && !wqe_takes_resource(wqe))
			bytes += wqe_cost(qp, wqe, psn, end);
	}
	repair->freed_psn = psn;
	if (!bytes || !qp->path)
		return;
	repair->freed_bytes += bytes;
	requester->flight_bytes -= bytes;
	(void)path_answered(qp->path, qp->transport->run_queue, bytes, 0);
}

void repair_learn(struct qp *qp, const struct gaps *gaps)
{
	struct requester *requester = &qp->requester;
	struct repair *repair = &recovery_of(qp)->repair;
	uint32_t end = psn_add(requester->una_psn, 1 + gaps_end(gaps->held));
	bool on;

	/* Nothing is held that was not sent, and nothing lost that was not since we went back. */
	if (psn_before(requester->send_psn, end))
		end = requester->send_psn;
	on = repair_is_on(qp);
	repair->base_psn = requester->una_psn;
	memcpy(repair->held, gaps->held, sizeof(repair->held));
	if (!on || psn_before(repair->end_psn, end))
		repair->end_psn = end;
	if (!on || (psn_before(requester->una_psn, repair->from_psn) &&
		    psn_before(repair->mark_psn, end)))
		repair_begin_round(requester, repair);
	repair_free_held(qp, repair);
}

/* ---- sending again ---- */

bool repair_next_gap(const struct qp *qp, uint32_t *psn)
{
	const struct repair *repair;

	if (!repair_is_on(qp))
		return false;
	repair = &recovery_of(qp)->repair;
	*psn = repair->from_psn;
	if (psn_before(*psn, qp->requester.una_psn))
		*psn = qp->requester.una_psn;
	return psn_before(*psn, repair->end_psn);
}

bool repair_is_held(const struct qp *qp, uint32_t psn)
{
	const struct repair *repair = &recovery_of(qp)->repair;

	return gaps_has(repair->held, ((psn - repair->base_psn) & PSN_MASK) - 1);
}

void repair_passed(struct qp *qp, uint32_t end)
{
	recovery_of(qp)->repair.from_psn = end;
}
