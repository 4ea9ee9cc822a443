/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests behind a gap: a list of places of the process's pool, in the order of their PSNs. See
 * early.h.
 */
#include "transport/early.h"

#include <string.h>

#include "wire/gaps.h"

static struct early_place *early_place_of(const struct qp *qp, uint16_t number)
{
	return number ? &qp->transport->recoveries->place[number - 1] : NULL;
}

/* ---- holding ---- */

void early_asked(struct qp *qp, uint32_t psn)
{
	struct recovery *recovery = recovery_need(qp);

	if (!recovery)
		return;
	recovery->early.wanted = recovery->early.answer_due = true;
	recovery->early.ask_psn = psn;
}

/*
 * The number of the last one with a PSN before @psn, 0: it would be the first. *same: @psn is held
 * already. Most come in order.
 */
static uint16_t early_before(const struct qp *qp, const struct early *early, uint32_t psn,
			     bool *same)
{
	uint16_t before = 0, number = early->first;

	if (early->last && psn_before(early_place_of(qp, early->last)->packet.psn, psn)) {
		before = early->last;
		number = 0;
	}
	while (number && psn_before(early_place_of(qp, number)->packet.psn, psn)) {
		before = number;
		number = early_place_of(qp, number)->next;
	}
	*same = number && early_place_of(qp, number)->packet.psn == psn;
	return before;
}

static void early_insert(const struct qp *qp, struct early *early, uint16_t number, uint16_t before)
{
	struct early_place *place = early_place_of(qp, number), *earlier = early_place_of(qp, before);

	place->next = earlier ? earlier->next : early->first;
	if (earlier)
		earlier->next = number;
	else
		early->first = number;
	if (!place->next)
		early->last = number;
	early->count++;
}

/* Does a gap end right before @psn, which belongs behind @before? */
static bool early_ends_gap(const struct qp *qp, uint32_t psn, uint16_t before)
{
	const struct early_place *earlier = early_place_of(qp, before);

	return !earlier || psn_add(earlier->packet.psn, 1) != psn;
}

bool early_keep(struct qp_call *call, const struct packet *packet, int32_t ahead)
{
	struct qp *qp = call->qp;
	struct recovery *recovery;
	struct early *early;
	struct early_place *place;
	uint16_t before, number;
	bool same;

	lock_alias(&qp->lock);
	recovery = recovery_of(qp);
	if (!recovery || !recovery->early.wanted || ahead > (int32_t)GAPS_REACH)
		return false;
	early = &recovery->early;
	/* After any other NAK the requester begins anew with the packet that it names. */
	if ((qp->responder.nak_sent && !early->count) || packet->payload_bytes > sizeof(place->data))
		return false;
	before = early_before(qp, early, packet->psn, &same);
	early->report_due |= packet->ack_request || early_ends_gap(qp, packet->psn, before);
	if (same)
		return true;
	number = recovery_take_place(qp->transport->recoveries);
	if (!number)
		return false;
	if (!early->count)
		early->since_ns = call->now_ns;
	place = early_place_of(qp, number);
	place->packet = *packet;
	if (packet->payload_bytes)
		memcpy(place->data, packet->payload, packet->payload_bytes);
	place->packet.payload = place->data;
	early_insert(qp, early, number, before);
	qp->responder.hold.until_ns = 0;	/* the ACK of what came before the gap */
	count(call, COUNTER_RX_HELD);
	return true;
}

static void early_remove(const struct qp *qp, struct early *early)
{
	uint16_t number = early->first;

	early->first = early_place_of(qp, number)->next;
	if (!early->first)
		early->last = 0;
	early->count--;
	recovery_give_places(qp->transport->recoveries, number, number);
}

void early_pop(struct qp_call *call)
{
	struct early *early = &recovery_of(call->qp)->early;

	early_remove(call->qp, early);
	early->since_ns = call->now_ns;
}

const struct packet *early_next(struct qp *qp)
{
	struct recovery *recovery = recovery_of(qp);

	while (recovery && recovery->early.first) {
		const struct packet *packet = &early_place_of(qp, recovery->early.first)->packet;

		if (packet->psn == qp->responder.expected_psn)
			return packet;
		if (!psn_before(packet->psn, qp->responder.expected_psn))
			return NULL;
		early_remove(qp, &recovery->early);
	}
	return NULL;
}

void early_drop(struct qp *qp)
{
	struct recovery *recovery = recovery_of(qp);
	struct early *early;

	if (!recovery)
		return;
	early = &recovery->early;
	if (early->count)
		recovery_give_places(qp->transport->recoveries, early->first, early->last);
	early->first = early->last = early->count = 0;
	early->report_due = false;
}

void early_give_up(struct qp_call *call, uint32_t psn)
{
	struct qp *qp = call->qp;
	const struct recovery *recovery;
	uint16_t number;

	lock_alias(&qp->lock);
	recovery = recovery_of(qp);
	for (number = recovery ? recovery->early.first : 0; number; number = early_place_of(qp, number)->next)
		if (early_place_of(qp, number)->packet.psn != psn)
			count_drop(call, DROP_PSN_AHEAD);
	early_drop(qp);
}

/* ---- telling the peer ---- */

bool early_ready(const struct qp *qp)
{
	const struct recovery *recovery = recovery_of(qp);

	if (!recovery)
		return false;
	return recovery->early.answer_due || recovery->early.report_due ||
	       (recovery->early.first &&
		early_place_of(qp, recovery->early.first)->packet.psn == qp->responder.expected_psn);
}

static void early_report(struct transmit *transmit, const struct early *early)
	REQUIRES(transmit->call->qp->lock)
{
	struct qp *qp = transmit->call->qp;
	uint32_t expected = qp->responder.expected_psn;
	struct gaps gaps = { .kind = GAPS_REPORT };
	uint16_t number;

	lock_alias(&qp->lock);
	for (number = early->first; number; number = early_place_of(qp, number)->next)
		gaps_set(&gaps, ((early_place_of(qp, number)->packet.psn - expected) & PSN_MASK) - 1);
	count(transmit->call, COUNTER_TX_GAPS);
	transmit_gaps(transmit, gaps, expected);
}

void early_transmit(struct transmit *transmit)
{
	struct qp *qp = transmit->call->qp;
	struct recovery *recovery;
	struct early *early;

	lock_alias(&qp->lock);
	recovery = recovery_of(qp);
	if (!recovery)
		return;
	early = &recovery->early;
	if (early->answer_due && transmit_has_room(transmit)) {
		early->answer_due = false;
		transmit_gaps(transmit, (struct gaps){ .kind = GAPS_YES }, early->ask_psn);
	}
	/* Not in the middle of executing what is held: the next one says more. */
	if (early->report_due && !early_next(qp) && transmit_has_room(transmit)) {
		early->report_due = false;
		early_report(transmit, early);
	}
}

/* ---- time ---- */

uint64_t early_deadline(const struct qp *qp)
{
	return early_holds(qp) ? recovery_of(qp)->early.since_ns + EARLY_NS : TIME_NEVER;
}

void early_timeout(struct qp_call *call)
{
	if (early_deadline(call->qp) <= call->now_ns)
		early_give_up(call, call->qp->responder.expected_psn);
}
