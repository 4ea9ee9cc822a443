/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The completer of an RC QP: takes the peer's answers (ACK, NAK, READ responses, atomic
 * results), moves una_psn, and completes requests in order (IBTA 9.7.5.1, 9.7.6, 9.7.7).
 *
 * An answer at PSN p answers everything before p too, but never a READ or atomic, which is
 * answered by its data alone: an answer beyond one says that its response was lost (implied NAK).
 */
#include "base/inline.h"
#include "transport/congestion.h"
#include "transport/credits.h"
#include "transport/early.h"
#include "transport/execute.h"
#include "transport/loss.h"
#include "transport/repair.h"
#include "wire/aeth.h"

void completer_retire(struct qp_call *call)
{
	struct qp *qp = call->qp;

	while (qp->sq.tail != qp->sq.sent) {
		struct send_wqe *wqe = send_queue_at(&qp->sq, qp->sq.tail);

		if (wqe->state == WQE_FAILED) {
			finish_send(call, (enum ibv_wc_status)wqe->status);
			enter_error(call);
			return;
		}
		if (wqe->state == WQE_IN_CHANNEL)
			return;
		if (!wqe_is_local(wqe) && psn_diff(qp->requester.una_psn, wqe->last_psn) <= 0)
			return;
		finish_send(call, IBV_WC_SUCCESS);
	}
}

static void completer_note_progress(struct qp_call *call) REQUIRES(call->qp->lock)
{
	struct requester *requester = &call->qp->requester;

	loss_progress(&requester->loss, call->qp->attr.retry_cnt, call->now_ns);
	requester->rnr_left = call->qp->attr.rnr_retry;
	requester->rnr_until_ns = 0;
}

/* PSNs of @wqe up to @end are answered: their share of the path's window is free. */
static void completer_settle(struct qp *qp, const struct send_wqe *wqe, uint32_t end)
	REQUIRES(qp->lock)
{
	struct requester *requester = &qp->requester;
	uint32_t from = requester->una_psn, to = end;

	if (psn_before(requester->send_psn, to))
		to = requester->send_psn;
	if (psn_before(from, to)) {
		requester->acked_bytes += wqe_cost(qp, wqe, from, to);
		if (wqe_takes_resource(wqe) && to == wqe_chunk_end(qp, wqe, psn_add(to, PSN_MASK)) &&
		    requester->rd_outstanding)
			requester->rd_outstanding--;
	}
	requester->una_psn = end;
	if (psn_before(requester->send_psn, end))
		requester->send_psn = end;
}

static void completer_after_progress(struct qp_call *call) REQUIRES(call->qp->lock)
{
	struct requester *requester = &call->qp->requester;
	uint64_t rtt_ns = 0;
	enum probe_says says;

	completer_note_progress(call);
	if (requester->timing && psn_before(requester->timing_psn, requester->una_psn)) {
		requester->timing = false;
		requester->loss.probe_backoff = 0;
		rtt_ns = call->now_ns - requester->timing_ns;
	}
	if (requester->una_psn == requester->send_psn) {
		requester->acked_bytes = requester->flight_bytes;
		repair_ends(call->qp);
	}
	completer_retire(call);
	if (call->qp->state == IBV_QPS_ERR)
		return;
	requester_give_acked(call, rtt_ns);
	says = loss_probe_answered(&requester->loss, requester->una_psn, requester->send_psn,
				   call->qp->path ? path_shortest(call->qp->path) : 0, call->now_ns);
	if (repair_is_on(call->qp))
		return;
	if (says == PROBE_LOST) {
		requester_lost(call);
	} else if (says == PROBE_AGAIN) {
		count(call, COUNTER_PROBE);
		requester->loss.probe_due = true;
	}
}

/*
 * Everything before @end is answered, except READs and atomics. Returns false if one of those
 * precedes @end.
 */
static FLAT bool answered_until(struct qp_call *call, uint32_t end) REQUIRES(call->qp->lock)
{
	struct qp *qp = call->qp;
	struct requester *requester = &qp->requester;
	uint32_t before = requester->una_psn, number;
	bool whole = true;

	lock_alias(&qp->lock);
	for (number = qp->sq.tail; number != qp->sq.sent; number++) {
		struct send_wqe *wqe = send_queue_at(&qp->sq, number);
		uint32_t stop;

		if (wqe_is_local(wqe))
			continue;
		if (psn_diff(end, requester->una_psn) <= 0)
			break;
		if (wqe_takes_resource(wqe)) {
			whole = false;
			break;
		}
		stop = psn_diff(end, wqe->last_psn) > 0 ? psn_add(wqe->last_psn, 1) : end;
		completer_settle(qp, wqe, stop);
	}
	if (requester->una_psn != before)
		completer_after_progress(call);
	return whole;
}

static void learn_credits(struct requester *requester, const struct packet *packet)
{
	if (aeth_kind(packet->aeth.syndrome) == AETH_ACK)
		credits_learn(&requester->credits, packet->aeth.msn, aeth_value(packet->aeth.syndrome));
}

/* ---- NAKs ---- */

/* rnr_retry 7 waits for ever: say so after a while. */
static void rnr_is_patient(struct qp_call *call, uint32_t psn) REQUIRES(call->qp->lock)
{
	struct requester *requester = &call->qp->requester;
	const struct send_wqe *wqe = send_queue_at(&call->qp->sq, call->qp->sq.tail);

	if (!requester->rnr_since_ns || requester->rnr_psn != psn) {
		requester->rnr_psn = psn;
		requester->rnr_since_ns = call->now_ns;
	} else if (requester->rnr_since_ns != TIME_NEVER &&
		   call->now_ns - requester->rnr_since_ns >= PATIENCE_NS) {
		requester->rnr_since_ns = TIME_NEVER;	/* said */
		explain_about("RNR", OF_WR(QP, call->qp->number, wqe->wr_id),
			"qp 0x%06x: %s (wr_id 0x%llx) has waited for more than a second: qp 0x%06x "
				    "has no receive posted, and rnr_retry 7 waits for ever: the "
				    "peer has to ibv_post_recv", call->qp->number, wqe_name(wqe),
				    (unsigned long long)wqe->wr_id, call->qp->attr.dest_qp_num);
	}
}

static void receive_rnr(struct qp_call *call, const struct packet *packet) REQUIRES(call->qp->lock)
{
	struct requester *requester = &call->qp->requester;

	count(call, COUNTER_RX_RNR_NAK);
	if (requester->rnr_until_ns)
		return;
	if (!requester->rnr_left) {
		count(call, COUNTER_RNR_EXCEEDED);
		set_reason(call, "the peer had no receive posted, even after %u retries",
			   call->qp->attr.rnr_retry);
		fail_request(call, IBV_WC_RNR_RETRY_EXC_ERR,
			     "post receives before the peer sends, or raise rnr_retry (7: forever)");
		return;
	}
	if (call->qp->attr.rnr_retry < 7)
		requester->rnr_left--;
	else if (explaining())
		rnr_is_patient(call, packet->psn);
	/* An RNR NAK proves the peer alive, so retry_cnt is restored. */
	loss_answered(&requester->loss, call->qp->attr.retry_cnt);
	requester_go_back(call);
	requester->rnr_until_ns = call->now_ns + rnr_timer_ns(aeth_value(packet->aeth.syndrome));
	credits_none(&requester->credits, packet->aeth.msn);
	requester->loss.guarded = false;
}

static void receive_fatal_nak(struct qp_call *call, enum nak_code code) REQUIRES(call->qp->lock)
{
	count(call, COUNTER_RX_NAK);
	switch (code) {
	case NAK_ACCESS:
		count(call, COUNTER_RX_NAK_ACCESS);
		set_reason(
			call,
			"the peer refused access to address and rkey (its explanation says which "
			"check failed)");
		fail_request(call, IBV_WC_REM_ACCESS_ERR,
			     "check rkey, remote address and length, and the remote access flags of its region");
		return;
	case NAK_OPERATION:
		set_reason(call, "the peer could not execute the request on its own memory");
		fail_request(call, IBV_WC_REM_OP_ERR, "see the peer's completions and explanation");
		return;
	default:
		count(call, COUNTER_RX_NAK_INVALID);
		set_reason(
			call,
			"the peer found the request invalid: not enabled in its QP's access flags, "
			"longer than its receive, or more READs than its max_dest_rd_atomic (of rdma_cm: "
			"responder_resources there, initiator_depth here)");
		fail_request(call, IBV_WC_REM_INV_REQ_ERR, "see the peer's completions and explanation");
		return;
	}
}

static void receive_nak(struct qp_call *call, const struct packet *packet) REQUIRES(call->qp->lock)
{
	bool rnr = aeth_kind(packet->aeth.syndrome) == AETH_RNR;
	enum nak_code code = (enum nak_code)aeth_value(packet->aeth.syndrome);

	/* A READ before it is not answered yet: the NAK comes again when the READ is repeated. */
	if (!answered_until(call, packet->psn)) {
		requester_lost(call);
		return;
	}
	if (call->qp->state == IBV_QPS_ERR)
		return;
	if (rnr) {
		receive_rnr(call, packet);
	} else if (code == NAK_SEQUENCE) {
		count(call, COUNTER_RX_SEQ_NAK);
		if (!repair_is_on(call->qp))
			requester_lost(call);
	} else {
		receive_fatal_nak(call, code);
	}
}

static enum drop receive_acknowledge(struct qp_call *call, const struct packet *packet)
	REQUIRES(call->qp->lock)
{
	switch (aeth_kind(packet->aeth.syndrome)) {
	case AETH_ACK:
		learn_credits(&call->qp->requester, packet);
		if (!answered_until(call, psn_add(packet->psn, 1)))
			requester_lost(call);
		return DROP_NONE;
	case AETH_RNR:
	case AETH_NAK:
		receive_nak(call, packet);
		return DROP_NONE;
	default:
		return DROP_RESPONSE;
	}
}

/* ---- data ---- */

/* The oldest request, if it is a READ (or atomic) whose next response has @psn. */
static struct send_wqe *awaiting_data(struct qp_call *call, uint32_t psn) REQUIRES(call->qp->lock)
{
	struct qp *qp = call->qp;
	struct send_wqe *wqe;

	if (!answered_until(call, psn) || (qp->state != IBV_QPS_ERR && qp->requester.una_psn != psn)) {
		requester_lost(call);
		return NULL;
	}
	if (qp->state == IBV_QPS_ERR || qp->sq.tail == qp->sq.sent)
		return NULL;
	wqe = send_queue_at(&qp->sq, qp->sq.tail);
	return wqe_is_local(wqe) || !wqe_takes_resource(wqe) ? NULL : wqe;
}

static void answered_data(struct qp_call *call, struct send_wqe *wqe) REQUIRES(call->qp->lock)
{
	struct qp *qp = call->qp;
	struct requester *requester = &qp->requester;
	uint32_t end = psn_add(requester->una_psn, 1);
	bool pause = end == wqe_chunk_end(call->qp, wqe, requester->una_psn);

	lock_alias(&qp->lock);
	completer_settle(qp, wqe, end);
	/* Within a piece do the minimum: this runs for every packet. */
	if (pause || (requester->timing && requester->timing_psn == psn_add(end, PSN_MASK)) ||
	    requester->rnr_until_ns)
		completer_after_progress(call);
	else
		completer_note_progress(call);
}

static void bad_response(struct qp_call *call, enum ibv_wc_status status) REQUIRES(call->qp->lock)
{
	fail_request(call, status, "the peer violates the protocol");
}

static bool response_fits(struct qp_call *call, const struct packet *packet,
			  const struct send_wqe *wqe, uint64_t offset) REQUIRES(call->qp->lock)
{
	bool last = psn_add(packet->psn, 1) == wqe_chunk_end(call->qp, wqe, packet->psn);
	uint64_t left = wqe->length - offset;
	uint64_t expected = wqe_is_placement(wqe) ? 0 : left < call->qp->mtu ? left : call->qp->mtu;

	if (wqe_is_atomic(wqe) || opcode_ends(packet->op) != last) {
		set_reason(call, "received %s where another response was expected",
			   packet->op->name);
		bad_response(call, IBV_WC_BAD_RESP_ERR);
		return false;
	}
	if (packet->payload_bytes != expected) {
		set_reason(call, "received a READ response of %zu bytes, expected %llu",
			   packet->payload_bytes, (unsigned long long)expected);
		bad_response(call, IBV_WC_LOC_LEN_ERR);
		return false;
	}
	return true;
}

static void receive_read_response(struct qp_call *call, const struct packet *packet)
	REQUIRES(call->qp->lock)
{
	struct send_wqe *wqe = awaiting_data(call, packet->psn);
	uint64_t offset;
	bool last;

	if (!wqe)
		return;
	offset = offset_of(call->qp, packet->psn, wqe->first_psn);
	if (!response_fits(call, packet, wqe, offset))
		return;
	last = packet->psn == wqe->last_psn;
	if (packet->payload_bytes && sge_scatter(call, wqe, offset, packet->payload,
						 (uint32_t)packet->payload_bytes, last)) {
		fail_request(call, IBV_WC_LOC_PROT_ERR,
			     "check lkey, bounds and IBV_ACCESS_LOCAL_WRITE of the scatter/gather list");
		return;
	}
	if (packet->op->headers & HDR_AETH)
		learn_credits(&call->qp->requester, packet);
	answered_data(call, wqe);
}

static void receive_atomic(struct qp_call *call, const struct packet *packet)
	REQUIRES(call->qp->lock)
{
	struct send_wqe *wqe = awaiting_data(call, packet->psn);
	uint64_t original = packet->atomic_original;

	if (!wqe)
		return;
	if (!wqe_is_atomic(wqe)) {
		set_reason(call, "received an atomic response, expected a READ response");
		bad_response(call, IBV_WC_BAD_RESP_ERR);
		return;
	}
	if (sge_scatter(call, wqe, 0, (const uint8_t *)&original, sizeof(original), true)) {
		fail_request(call, IBV_WC_LOC_PROT_ERR,
			     "check lkey, bounds and IBV_ACCESS_LOCAL_WRITE of the scatter/gather list");
		return;
	}
	learn_credits(&call->qp->requester, packet);
	answered_data(call, wqe);
}

/* ---- entry ---- */

/* As a NAK, but it says more. */
static enum drop completer_reported(struct qp_call *call, uint32_t psn, const struct gaps *gaps)
	REQUIRES(call->qp->lock)
{
	struct qp *qp = call->qp;
	struct requester *requester = &qp->requester;
	uint32_t in_flight = (requester->next_psn - requester->una_psn) & PSN_MASK;

	lock_alias(&qp->lock);
	if (!repair_listens(qp) || requester->rnr_until_ns || requester->local_messages ||
	    !psn_in(psn, requester->una_psn, in_flight + 1))
		return DROP_RESPONSE;
	count(call, COUNTER_RX_GAPS);
	requester->loss.hold = requester->loss.probing = false;
	/* A READ before it has no answer, which was lost. */
	if (!answered_until(call, psn)) {
		requester_lost(call);
		return DROP_NONE;
	}
	if (qp->state != IBV_QPS_ERR && requester->una_psn == psn && requester->send_psn != psn &&
	    gaps_end(gaps->held))
		repair_learn(qp, gaps);
	requester_check_drained(call);
	return DROP_NONE;
}

enum drop completer_receive_gaps(struct qp_call *call, const struct packet *packet)
{
	struct qp *qp = call->qp;
	struct gaps gaps;

	lock_alias(&qp->lock);
	if (!qp_is(qp, QP_RELIABLE))
		return DROP_QP_TYPE;
	if (!gaps_read(packet->payload, packet->payload_bytes, &gaps) ||
	    gaps.qpn != qp->attr.dest_qp_num)
		return DROP_RESPONSE;
	if (gaps.kind == GAPS_ASK) {
		early_asked(qp, packet->psn);
		return DROP_NONE;
	}
	if (qp->state != IBV_QPS_RTS && qp->state != IBV_QPS_SQD)
		return DROP_QP_STATE;
	return gaps.kind == GAPS_YES ? repair_answered(qp, packet->psn) :
				       completer_reported(call, packet->psn, &gaps);
}

enum drop completer_receive(struct qp_call *call, const struct packet *packet)
{
	struct requester *requester = &call->qp->requester;
	enum drop why = DROP_NONE;

	if (call->qp->state != IBV_QPS_RTS && call->qp->state != IBV_QPS_SQD)
		return DROP_QP_STATE;
	/* Answers to requests that are not outstanding any more are late copies. */
	if (!psn_in(packet->psn, requester->una_psn, (requester->next_psn - requester->una_psn) & PSN_MASK)) {
		/* A repetition of the last answer may bring new credits. */
		if (packet->op->verb == VERB_ACK && psn_add(packet->psn, 1) == requester->una_psn)
			learn_credits(requester, packet);
		return DROP_RESPONSE;
	}
	if (packet->becn)
		congestion_heard(call);
	requester->loss.hold = false;
	if (packet->op->verb == VERB_ACK)
		why = receive_acknowledge(call, packet);
	else if (packet->op->verb == VERB_RESPONSE)
		receive_read_response(call, packet);
	else
		receive_atomic(call, packet);
	requester_check_drained(call);
	return why;
}
