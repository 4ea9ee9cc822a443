/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The responder: the peer's requests (IBTA 9.7.4, 9.7.5). A packet in sequence passes a list of
 * checks (responder_check.c), is executed, and may end its message (responder_run.c). What fails returns a
 * fault, and fault.def decides the consequences. UC uses the same checks (unreliable.c). Answers are only noted
 * here and written by responder_transmit(), so that one ACK answers a batch of requests.
 */
#include <string.h>

#include "base/inline.h"
#include "transport/ack_hold.h"
#include "transport/congestion.h"
#include "transport/early.h"
#include "transport/internal.h"
#include "wire/aeth.h"

#define STRANGE_PSN_TIMES 3
#define EFFECTS_OF_EARLY	3	/* and those of one more packet: below EFFECTS_PER_CALL */

/* The receive of a message that will have no end: an SRQ has its slot back. */
void responder_drop_recv(struct qp *qp)
{
	struct responder *responder = &qp->responder;

	struct wqe_slot slot;

	tags_drop(qp);
	if (!responder->recv_taken)
		return;
	slot = recv_slot(qp);
	if (slot.shared)
		wqe_slot_free(&slot);
	responder->recv_taken = false;
}

void responder_reset(struct qp *qp)
{
	struct responder *responder = &qp->responder;
	struct recv_wqe *recv = responder->recv;
	struct resource *resource = responder->resource ? responder->resource : responder->few;
	uint32_t count = responder->resource ? responder->resource_count : RD_ATOMIC_FEW;

	responder_drop_recv(qp);
	early_drop(qp);
	if (qp->access)	/* at creation there is none yet */
		atomic_store_explicit(&qp->access->established, 0, memory_order_relaxed);
	*responder = (struct responder){ .recv = recv, .echoes = responder->echoes,
					 .expected_psn = qp->attr.rq_psn & PSN_MASK,
					 .resource = resource,
					 .resource_count = count };
	memset(resource, 0, count * sizeof(*resource));
}

void responder_answer(struct qp *qp, enum answer_kind kind, uint8_t syndrome, uint32_t psn)
{
	struct responder *responder = &qp->responder;

	responder->hold.until_ns = 0;
	if (kind == ANSWER_ACK && responder->answer == ANSWER_ACK &&
	    psn_before(psn, responder->answer_psn))
		return;
	responder->answer = (uint8_t)kind;
	responder->answer_syndrome = syndrome;
	responder->answer_psn = psn;
}

/* ---- faults ---- */

static const uint8_t nak_of[] = {
	[FAULT_ANSWER_NAK_SEQUENCE] = NAK_SEQUENCE, [FAULT_ANSWER_NAK_INVALID] = NAK_INVALID,
	[FAULT_ANSWER_NAK_ACCESS] = NAK_ACCESS, [FAULT_ANSWER_NAK_OPERATION] = NAK_OPERATION,
};

static void answer_fault(struct qp_call *call, enum fault_answer answer, uint32_t psn)
	REQUIRES(call->qp->lock)
{
	struct qp *qp = call->qp;

	switch (answer) {
	case FAULT_ANSWER_NONE:
		return;
	case FAULT_ANSWER_RNR:
		count(call, COUNTER_TX_RNR_NAK);
		responder_answer(qp, ANSWER_NAK,
				 aeth_syndrome(AETH_RNR, qp->attr.min_rnr_timer), psn);
		break;
	default:
		count(call, answer == FAULT_ANSWER_NAK_SEQUENCE ? COUNTER_TX_SEQ_NAK :
								  COUNTER_TX_NAK);
		responder_answer(qp, ANSWER_NAK, aeth_syndrome(AETH_NAK, nak_of[answer]), psn);
		break;
	}
	qp->responder.nak_sent = true;
}

void responder_fail(struct qp_call *call, enum fault fault)
{
	const struct fault_row *row = fault_row(fault);
	const char *about = drop_row(row->drop)->key;
	struct qp *qp = call->qp;
	char peer[46];

	if (qp_is(qp, QP_DATAGRAM))
		explain_about(about, OF(QP, qp->number),
			"qp 0x%06x: a datagram could not be received (%s): %s; this QP "
			      "is now in error", qp->number, row->name, call->why);
	else
		explain_about(about, OF(QP, qp->number),
			"qp 0x%06x: request of qp 0x%06x at %s refused (%s): %s; this "
			      "QP is now in error%s", qp->number, qp->attr.dest_qp_num,
			      address_text(qp->route.destination, peer), row->name, call->why,
			      !qp_is(qp, QP_RELIABLE) ? "" :
			      row->answer != FAULT_ANSWER_NONE ? ", the peer gets a NAK" :
			      ", the peer gets no answer (IBTA 9.9.6.3, class J)");
	if (qp->responder.recv_taken)
		finish_recv_error(call, row->status);
	else if (row->event >= 0)
		qp_raise(qp, (enum qp_event)row->event, call->effects);
	enter_error(call);
}

enum drop responder_fault(struct qp_call *call, enum fault fault, uint32_t psn)
{
	const struct fault_row *row = fault_row(fault);

	answer_fault(call, row->answer, psn);
	if (row->fate == FAULT_FATE_KEEP)
		return row->drop;
	responder_fail(call, fault);
	return DROP_NONE;
}

/* ---- entry ---- */

/*
 * The first PSN is the wrong one: at once if it is behind the expected one; if it is ahead, the
 * requests before
 * it may have been lost: the requester has begun with it STRANGE_PSN_TIMES times.
 */
static bool responder_first_is_wrong(struct qp_call *call, const struct packet *packet, int32_t ahead)
	REQUIRES(call->qp->lock)
{
	struct responder *responder = &call->qp->responder;

	if (responder->position || responder->expected_psn != (call->qp->attr.rq_psn & PSN_MASK))
		return false;
	if (!responder->strange_count)
		responder->unexpected_psn = packet->psn;
	if (packet->psn == responder->unexpected_psn && responder->strange_count < STRANGE_PSN_TIMES)
		responder->strange_count++;
	return ahead < 0 || responder->strange_count == STRANGE_PSN_TIMES;
}

/*
 * What most requests are, a SEND of one packet for a receive of one SGE: as a row of one message, with those
 * checks of responder_check.c that can fail for it. False: nothing was done, for whatever reason, and
 * responder_message() says which.
 */
static FLAT bool responder_send_at_once(struct qp_call *call, const struct packet *packet) REQUIRES(call->qp->lock)
{
	struct qp *qp = call->qp;
	struct responder *responder = &qp->responder;
	struct message_row row = { .qp = qp };
	bool done;

	lock_alias(&qp->lock);
	lock_alias(&row.qp->lock);
	if (packet->op->code != OPCODE_RC_SEND_ONLY || !qp_is_between_messages(qp) ||
	    packet->payload_bytes > qp->mtu || call->deny_receive || responder->recv_taken || takes_tags(qp))
		return false;
	if (!transport_row_begin(&row, row.qp, call->effects->poll))
		return false;
	done = transport_row_take(&row, packet->payload, (uint32_t)packet->payload_bytes, packet->solicited);
	transport_row_end(&row);
	if (!done)
		return false;
	responder->previous = packet->op;
	responder->msn = psn_add(responder->msn, 1);
	return true;
}

/* The packet in sequence. */
static enum drop responder_execute(struct qp_call *call, const struct packet *packet)
	REQUIRES(call->qp->lock)
{
	struct responder *responder = &call->qp->responder;
	enum fault fault = responder_send_at_once(call, packet) ? FAULT_NONE : responder_message(call, packet);
	uint32_t psns, psn = packet->psn;
	bool alone;

	if (fault) {
		early_give_up(call, psn);	/* this one perhaps, too */
		return responder_fault(call, fault, psn);
	}
	psns = packet->op->verb == VERB_READ ? packets_for(call->qp, packet->reth.length) : 1;
	responder->expected_psn = psn_add(packet->psn, psns);
	responder->position += psns;
	/* READ and atomic responses acknowledge all earlier requests, too. */
	if (responder_takes_resource(packet)) {
		responder->answer = ANSWER_NONE;
		return DROP_NONE;
	}
	if (!packet->ack_request)
		return DROP_NONE;
	alone = responder->answer == ANSWER_NONE;
	responder_answer(call->qp, ANSWER_ACK, 0, psn);
	if (opcode_ends(packet->op) && call->qp->state == IBV_QPS_RTS)
		ack_hold_begin(&responder->hold, call->now_ns);
	if (!alone)
		responder->hold.until_ns = 0;
	return DROP_NONE;
}

/* What is next in sequence. What finds the effects of this call used up waits for the next one. */
static void responder_run_early(struct qp_call *call) REQUIRES(call->qp->lock)
{
	struct qp *qp = call->qp;
	unsigned most = call->effects->count + EFFECTS_OF_EARLY;
	const struct packet *packet;
	enum drop why;

	lock_alias(&qp->lock);
	call->deny_receive = false;
	while (call->effects->count <= most && (packet = early_next(qp))) {
		why = responder_execute(call, packet);
		if (why)
			count_drop(call, why);
		if (why || !early_holds(qp))	/* a fault has dropped them */
			return;
		early_pop(call);
	}
}

enum drop responder_receive(struct qp_call *call, const struct packet *packet)
{
	struct qp *qp = call->qp;
	struct responder *responder = &qp->responder;
	int32_t ahead = psn_diff(packet->psn, responder->expected_psn);
	bool first_is_wrong = false, kept;
	enum drop why;

	lock_alias(&qp->lock);
	if (packet->fecn)
		congestion_marked(call);
	if (ahead)
		first_is_wrong = responder_first_is_wrong(call, packet, ahead);
	if (ahead < 0) {
		replay_duplicate(call, packet);
		early_repeat(qp);
		return first_is_wrong ? DROP_FIRST_PSN_BEHIND : DROP_DUPLICATE;
	}
	if (ahead > 0) {	/* some PSNs are missing before it */
		kept = early_keep(call, packet, ahead);
		why = responder->nak_sent ? DROP_PSN_AHEAD :
					    responder_fault(call, FAULT_PSN_AHEAD, responder->expected_psn);
		return first_is_wrong ? DROP_FIRST_PSN_AHEAD : kept ? DROP_NONE : why;
	}
	responder->nak_sent = false;
	if (responder->answer == ANSWER_NAK)
		responder->answer = ANSWER_NONE;
	why = responder_execute(call, packet);
	if (why || !early_holds(qp))
		return why;
	early_repeat(qp);
	responder_run_early(call);
	return DROP_NONE;
}

bool responder_owes(const struct qp *qp)
{
	return qp->responder.active_count || qp->responder.answer != ANSWER_NONE;
}

static bool holds_ack(const struct responder *responder)
{
	return responder->answer == ANSWER_ACK && responder->hold.until_ns;
}

/* Until when what it owes waits: an ACK for company, responses for the pace of their path. 0: for nothing. */
static uint64_t held_until_ns(const struct qp *qp) REQUIRES(qp->lock)
{
	if (qp->responder.active_count)
		return qp->requester.pace.held_until_ns;
	return holds_ack(&qp->responder) ? qp->responder.hold.until_ns : 0;
}

bool responder_ready(const struct qp *qp)
{
	return early_ready(qp) || congestion_ready(qp) || (responder_owes(qp) && !held_until_ns(qp));
}

uint64_t responder_deadline(const struct qp *qp)
{
	uint64_t early_ns = early_deadline(qp), hold_ns = held_until_ns(qp);

	return hold_ns && hold_ns < early_ns ? hold_ns : early_ns;
}

void responder_timeout(struct qp_call *call)
{
	struct qp *qp = call->qp;

	lock_alias(&qp->lock);
	if (qp->responder.active_count)
		pace_expire(&qp->requester.pace, call->now_ns);
	if (holds_ack(&call->qp->responder) && call->qp->responder.hold.until_ns <= call->now_ns)
		ack_hold_miss(&call->qp->responder.hold);
	early_timeout(call);
}

uint8_t responder_ack_syndrome(const struct qp *qp)
{
	uint32_t receives;

	if (qp->srq || !qp_receives(qp))
		return aeth_syndrome(AETH_ACK, AETH_CREDITS_INVALID);
	receives = recv_queue_count(&qp->rq) + (qp->responder.recv_taken ? 1 : 0);
	return aeth_syndrome(AETH_ACK, aeth_credit_code(receives));
}

bool responder_transmit(struct transmit *transmit)
{
	struct responder *responder = &transmit->call->qp->responder;

	if (early_holds(transmit->call->qp))
		responder_run_early(transmit->call);
	if (responder->active_count && !replay_transmit(transmit))
		return false;
	if (!responder->answer_late)
		return true;
	responder_acknowledge(transmit);
	return responder->answer == ANSWER_NONE;
}

FLAT void responder_acknowledge(struct transmit *transmit)
{
	struct qp *qp = transmit->call->qp;
	struct responder *responder = &qp->responder;
	struct packet packet;

	lock_alias(&qp->lock);
	if (responder->answer == ANSWER_NONE)
		return;
	responder->answer_late = !transmit_has_room(transmit);
	if (responder->answer_late)
		return;
	packet_begin(qp, &packet, OPCODE_RC_ACKNOWLEDGE, responder->answer_psn);
	packet.aeth.syndrome = responder->answer == ANSWER_ACK ?
		responder_ack_syndrome(qp) : responder->answer_syndrome;
	packet.aeth.msn = responder->msn;
	packet.becn = responder->echo_congestion;
	transmit_packet(transmit, &packet, &qp->route);
	if (responder->answer == ANSWER_ACK) {
		responder->acked = true;
		responder->acked_psn = responder->answer_psn;
	}
	responder->answer = ANSWER_NONE;
	responder->hold.until_ns = 0;
	responder->echo_congestion = false;
}

bool responder_repeat_ack(struct qp *qp)
{
	if (!qp->responder.acked || qp->responder.answer != ANSWER_NONE)
		return false;
	responder_answer(qp, ANSWER_ACK, 0, qp->responder.acked_psn);
	return true;
}
