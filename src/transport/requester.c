/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The requester of an RC QP: puts requests on the wire as far as the state, the fence, credits, the
 * peer's READ limit and the path's window allow, and puts them there again when they are lost
 * (go-back-N: from una_psn on; selectively between Verbatims: repair.h).
 *
 * Loss is detected in three ways. A sequence NAK, or an answer beyond an unanswered READ: go back
 * at once. Silence for a round trip and some: a probe, the oldest packet once more, out of turn and
 * outside of the window; an answer to this packet alone means that those after it are lost, too.
 * Silence for the local ACK timeout: this counts as a retry, and nothing but probes is sent until
 * the peer answers. So retry_cnt keeps the meaning that programs give it (how soon a dead peer is
 * noticed) although loss is repaired within milliseconds.
 *
 * single.c does for a lone request what this does for all: what is changed here may have to be changed there, and
 * single_test.c compares the two.
 */
#include <assert.h>

#include "base/inline.h"
#include "transport/congestion.h"
#include "transport/credits.h"
#include "transport/execute.h"
#include "transport/gather.h"
#include "transport/loss.h"
#include "transport/repair.h"

#define ACK_EVERY_BYTES		32768u
#define PROBE_MEASURED		4u	/* earlier by this where the round trip is known */

void requester_reset(struct qp *qp)
{
	struct requester *requester = &qp->requester;

	unreliable_stop(qp);
	if (qp->path) {
		path_leave(qp->path, qp->transport->run_queue, qp);
		if (requester->flight_bytes)
			path_release(qp->path, qp->transport->run_queue, requester->flight_bytes);
	}
	recovery_end(qp);
	*requester = (struct requester){ 0 };
	qp->refusal.why = DROP_NONE;
}

void requester_start(struct qp *qp)
{
	struct requester *requester = &qp->requester;
	uint32_t psn = qp->attr.sq_psn & PSN_MASK;

	requester->una_psn = requester->send_psn = requester->next_psn = psn;
	requester->send_wqe = requester->packets_until = qp->sq.tail;
	loss_start(&requester->loss, qp->attr.retry_cnt, qp->transport->probe_min_ns);
	requester->rnr_left = qp->attr.rnr_retry;
}

/* Give back all that this QP holds of the path's window. */
static void give_all(struct qp_call *call) REQUIRES(call->qp->lock)
{
	struct requester *requester = &call->qp->requester;

	if (requester->flight_bytes && call->qp->path)
		path_release(call->qp->path, call->qp->transport->run_queue,
			     requester->flight_bytes);
	requester->flight_bytes = requester->acked_bytes = 0;
	requester->rd_outstanding = 0;
	repair_ends(call->qp);
}

void requester_stop(struct qp_call *call)
{
	struct requester *requester = &call->qp->requester;

	unreliable_stop(call->qp);
	give_all(call);
	if (call->qp->path)
		path_leave(call->qp->path, call->qp->transport->run_queue, call->qp);
	requester->una_psn = requester->send_psn = requester->next_psn;
	requester->rnr_until_ns = 0;
	loss_stop(&requester->loss);
	requester->timing = false;
	requester->local_messages = requester->refused = 0;
}

void requester_give_acked(struct qp_call *call, uint64_t rtt_ns)
{
	struct requester *requester = &call->qp->requester;
	uint32_t bytes = requester->acked_bytes;
	uint64_t rto_ns, least_ns;

	if (!call->qp->path || (!bytes && !rtt_ns))
		return;
	bytes -= repair_answered_bytes(call->qp, bytes);
	assert(bytes <= requester->flight_bytes);
	requester->flight_bytes -= bytes;
	requester->acked_bytes = 0;
	rto_ns = path_answered(call->qp->path, call->qp->transport->run_queue, bytes, rtt_ns);
	least_ns = call->qp->transport->probe_min_ns;
	if (rto_ns)
		least_ns /= PROBE_MEASURED;
	requester->loss.rto_ns = rto_ns < least_ns ? least_ns : rto_ns;
}

void requester_go_back(struct qp_call *call)
{
	struct requester *requester = &call->qp->requester;

	give_all(call);
	requester->send_psn = requester->una_psn;
	requester->send_wqe = call->qp->sq.tail;
	requester->timing = requester->loss.probing = false;
	count(call, COUNTER_RETRANSMIT);
}

APART void requester_lost(struct qp_call *call)
{
	struct requester *requester = &call->qp->requester;

	if (requester->una_psn == requester->send_psn || !loss_is_new(&requester->loss, requester->una_psn))
		return;
	repair_sign(call->qp);
	if (call->qp->path)
		path_reduce(call->qp->path, PATH_LOSS, call->now_ns);
	requester_go_back(call);
}

void requester_way_changed(struct qp_call *call)
{
	struct requester *requester = &call->qp->requester;

	if (call->qp->state != IBV_QPS_RTS && call->qp->state != IBV_QPS_SQD)
		return;
	requester->loss.hold = requester->loss.guarded = false;
	if (requester->una_psn != requester->send_psn)
		requester_go_back(call);
}

/* ---- which request is next ---- */

static void fail_later(struct send_wqe *wqe, enum ibv_wc_status status)
{
	wqe->state = WQE_FAILED;
	wqe->status = status;
}

void requester_local(struct qp_call *call, struct send_wqe *wqe)
{
	struct mr_table *mrs = call->qp->transport->mrs;
	struct mr_accessor accessor = mr_accessor_of(call->qp);
	enum mr_fault fault;

	if (wqe->opcode == WR_FAULTY) {	/* explained by the post */
		fail_later(wqe, (enum ibv_wc_status)wqe->status);
		return;
	}
	if (wqe->opcode == IBV_WR_LOCAL_INV) {
		fault = mr_invalidate(mrs, &accessor, wqe->imm);
		set_reason(call, "rkey 0x%08x is not of a type 2 window bound on this QP", wqe->imm);
	} else {
		fault = mw_bind(mrs, &accessor, wqe->mw, wqe->rkey, &wqe->bind);
		set_reason(call, "the window cannot be bound to the region: protection domain, access "
			"flags, bounds, or no IBV_ACCESS_MW_BIND");
	}
	if (fault == MR_OK) {
		wqe->state = WQE_DONE;
		return;
	}
	explain_request(call, wqe, IBV_WC_MW_BIND_ERR, "check the key and its state");
	fail_later(wqe, IBV_WC_MW_BIND_ERR);
}

/* Fence: earlier READs and atomics first; a fenced LOCAL_INV waits for everything. */
static bool is_fenced(const struct qp *qp, const struct send_wqe *wqe) REQUIRES(qp->lock)
{
	if (!(wqe->flags & IBV_SEND_FENCE))
		return false;
	if (wqe->opcode == IBV_WR_LOCAL_INV)
		return qp->sq.tail != qp->sq.sent;
	return qp->requester.rd_outstanding > 0;
}

/* Pieces of a READ follow the window, so that a small window is not overrun by one piece. */
static uint32_t read_chunk(const struct qp *qp) REQUIRES(qp->lock)
{
	uint32_t chunk = READ_CHUNK_MAX;

	if (!qp->path)
		return chunk;
	while (chunk > qp->mtu && chunk > 8192 && chunk > qp->path->window_bytes / 4)
		chunk /= 2;
	return chunk;
}

/*
 * Find local errors before asking the peer, as with a WRITE. The specification does not order the
 * checks of the two ends (IBTA 9.9.2, 9.9.3), but at the response ours would be too late: where a
 * READ is cut into pieces would decide which end reports first, and an atomic would be executed
 * without a result.
 */
static void check_read_or_atomic(struct qp_call *call, struct send_wqe *wqe)
	REQUIRES(call->qp->lock)
{
	if (!call->qp->attr.max_rd_atomic) {
		set_reason(call, "max_rd_atomic of this QP is 0");
		explain_request(call, wqe, IBV_WC_LOC_QP_OP_ERR,
				"set IBV_QP_MAX_QP_RD_ATOMIC in the move to RTS; with rdma_cm, initiator_depth of "
				"rdma_conn_param");
		fail_later(wqe, IBV_WC_LOC_QP_OP_ERR);
	} else if (wqe_is_read_or_atomic(wqe) && sge_check(call, wqe)) {
		explain_request(call, wqe, IBV_WC_LOC_PROT_ERR,
				"check lkey, bounds and IBV_ACCESS_LOCAL_WRITE of the scatter/gather list");
		fail_later(wqe, IBV_WC_LOC_PROT_ERR);
	}
}

/* Should @wqe wait until nothing is in flight, and then go without packets (direct.h)? */
static bool direct_is_due(struct qp *qp, const struct send_wqe *wqe) REQUIRES(qp->lock)
{
	struct requester *requester = &qp->requester;

	if (wqe_is_local(wqe)) {
		requester->in_packets = 0;
		return false;
	}
	if (request_needs_packets(qp))
		return false;
	if (requester->in_packets < STREAM_BEGINS) {
		requester->in_packets++;
		return false;
	}
	return requester->prefers_direct && qp->sq.sent != qp->sq.tail;
}

/* Give the next posted request its PSNs; local ones are done here. False: not yet, or none. */
static bool begin_next(struct qp_call *call) REQUIRES(call->qp->lock)
{
	struct qp *qp = call->qp;
	struct requester *requester = &qp->requester;
	struct send_wqe *wqe;

	lock_alias(&qp->lock);
	if (qp->sq.sent == qp->sq.head || qp->state != IBV_QPS_RTS || requester->local_messages)
		return false;
	wqe = send_queue_at(&qp->sq, qp->sq.sent);
	if (is_fenced(qp, wqe) || direct_is_due(qp, wqe))
		return false;
	qp->sq.sent++;
	wqe->state = WQE_STARTED;
	if (wqe_is_local(wqe)) {
		requester_local(call, wqe);
		return true;
	}
	wqe->first_psn = requester->send_psn;
	wqe->last_psn = psn_add(wqe->first_psn, wqe_psns(qp, wqe) - 1);
	wqe->ssn = ++requester->ssn & PSN_MASK;
	wqe->chunk_bytes = read_chunk(qp);
	if (wqe_takes_resource(wqe))
		check_read_or_atomic(call, wqe);
	return true;
}

/* The request that send_psn belongs to, begun if need be; NULL: nothing to send now. */
static struct send_wqe *current_request(struct qp_call *call) REQUIRES(call->qp->lock)
{
	struct qp *qp = call->qp;
	struct requester *requester = &qp->requester;

	for (;;) {
		struct send_wqe *wqe;

		if (requester->send_wqe == qp->sq.sent && !begin_next(call))
			return NULL;
		wqe = send_queue_at(&qp->sq, requester->send_wqe);
		if (wqe->state == WQE_FAILED)
			return NULL;
		if (!wqe_is_local(wqe) && psn_diff(requester->send_psn, wqe->last_psn) <= 0)
			return wqe;
		requester->send_wqe++;
	}
}

static bool may_send(const struct qp *qp, const struct send_wqe *wqe) REQUIRES(qp->lock)
{
	const struct requester *requester = &qp->requester;
	int32_t ahead = psn_diff(requester->send_psn, requester->una_psn);

	if (ahead >= PSNS_IN_FLIGHT_MAX || (ahead > (int32_t)GAPS_REACH && repair_is_on(qp)))
		return false;
	if (wqe_takes_resource(wqe))
		return requester->rd_outstanding < qp->attr.max_rd_atomic;
	/* Without credits: one packet, to hear of new ones (IBTA 9.7.7.2.5). */
	if (requester->send_psn == wqe->first_psn && wqe_needs_receive(wqe) &&
	    !credits_allow(&requester->credits, wqe->ssn))
		return requester->una_psn == requester->send_psn;
	return true;
}

/* ---- writing packets ---- */

static bool wants_ack(const struct qp *qp, const struct send_wqe *wqe, uint32_t psn)
	REQUIRES(qp->lock)
{
	uint32_t every = ACK_EVERY_BYTES >> mtu_shift(qp);

	if (every > 32)
		every = 32;
	return (((psn - wqe->first_psn) & PSN_MASK) + 1) % every == 0;
}

/*
 * Write the packet at @psn; *end: one past the PSNs that it takes. False: its memory is not ours.
 */
static bool requester_write_packet(struct transmit *transmit, struct send_wqe *wqe, uint32_t psn,
				   bool ack_request, uint32_t *end)
	REQUIRES(transmit->call->qp->lock)
{
	struct qp *qp = transmit->call->qp;
	struct packet *packet = &transmit->request;

	lock_alias(&qp->lock);
	transmit->request_index = -1;
	*end = wqe_packet(qp, wqe, psn, packet);
	packet->ack_request |= ack_request;
	if (sge_gather(transmit->call, wqe, offset_of(qp, psn, wqe->first_psn),
		       transmit_payload(transmit, packet->op), (uint32_t)packet->payload_bytes)) {
		explain_request(transmit->call, wqe, IBV_WC_LOC_PROT_ERR,
				"check lkey and bounds of the scatter/gather list");
		fail_later(wqe, IBV_WC_LOC_PROT_ERR);
		return false;
	}
	transmit->request_index = (int)transmit->batch->count;
	transmit->wqe = wqe;
	transmit_packet(transmit, packet, &qp->route);
	transmit->wqe = NULL;
	return true;
}

/* Reserve room for the rest of this message, or of the queue when messages are small. */
static uint32_t requester_reserve(struct transmit *transmit, const struct send_wqe *wqe,
				  uint32_t cost) REQUIRES(transmit->call->qp->lock)
{
	struct qp *qp = transmit->call->qp;
	uint32_t packets = ((wqe->last_psn - qp->requester.send_psn) & PSN_MASK) + 1;
	uint32_t least = cost;

	if (!qp->path)
		return cost;
	if (wqe_takes_resource(wqe))
		packets = 1;
	else if (packets > 1)
		least = path_piece(qp->path);
	else
		packets = qp->sq.head - qp->requester.send_wqe;
	if (packets > transmit->budget)
		packets = transmit->budget;
	if (least > cost * packets)
		least = cost * packets;
	return path_reserve(qp->path, qp, least > cost ? least : cost, cost * packets);
}

static bool requester_send_next(struct transmit *transmit, struct send_wqe *wqe, uint32_t *granted)
	REQUIRES(transmit->call->qp->lock)
{
	struct qp *qp = transmit->call->qp;
	struct requester *requester = &qp->requester;
	uint32_t psn = requester->send_psn, end, cost;

	lock_alias(&qp->lock);
	end = wqe_chunk_end(qp, wqe, psn);
	cost = wqe_cost(qp, wqe, psn, end);
	if (*granted < cost) {
		uint32_t more = requester_reserve(transmit, wqe, cost - *granted);

		if (!more)
			return false;
		*granted += more;
	}
	if (!congestion_allows(transmit->call, cost))
		return false;
	if (!requester_write_packet(transmit, wqe, psn, wants_ack(qp, wqe, psn), &end))
		return false;
	requester->loss.sent_packets++;
	if (psn_before(psn, requester->next_psn))
		requester->loss.resent_packets++;
	if (requester->una_psn == requester->next_psn)
		requester->loss.progress_ns = transmit->call->now_ns;
	requester->send_psn = end;
	if (psn_before(requester->next_psn, end))
		requester->next_psn = end;
	*granted -= cost;
	requester->flight_bytes += cost;
	if (wqe_takes_resource(wqe))
		requester->rd_outstanding++;
	if (psn_diff(end, wqe->last_psn) > 0)
		requester->send_wqe++;
	return true;
}

/* The last packet asks for an answer: without one only the timers make progress. */
static void close_run(struct transmit *transmit)
{
	struct requester *requester = &transmit->call->qp->requester;
	struct packet *packet = &transmit->request;

	if (transmit->request_index < 0)
		return;
	if (!packet->ack_request) {
		packet->ack_request = true;
		packet_write_headers(
			packet, transmit->batch->data +
					transmit->batch->packet[transmit->request_index].offset);
	}
	requester->loss.sent_ns = transmit->call->now_ns;
	if (!requester->timing && requester->send_psn == requester->next_psn &&
	    !requester->loss.resent_packets) {
		requester->timing = true;
		requester->timing_psn = psn_add(requester->send_psn, PSN_MASK);
		requester->timing_ns = transmit->call->now_ns;
	}
}

static void send_requests(struct transmit *transmit) REQUIRES(transmit->call->qp->lock)
{
	struct qp_call *call = transmit->call;
	struct qp *qp = call->qp;
	uint32_t granted = 0;
	struct send_wqe *wqe;

	lock_alias(&call->qp->lock);
	lock_alias(&qp->lock);
	while ((wqe = current_request(call)) && may_send(qp, wqe) && transmit_has_room(transmit))
		if (!requester_send_next(transmit, wqe, &granted))
			break;
	close_run(transmit);
	if (granted && qp->path)
		path_release(qp->path, qp->transport->run_queue, granted);
}

/* The oldest packet once more, beside the window: its first copy may be in flight still. */
static void requester_send_probe(struct transmit *transmit) REQUIRES(transmit->call->qp->lock)
{
	struct qp_call *call = transmit->call;
	struct requester *requester = &call->qp->requester;
	struct send_wqe *wqe;
	uint32_t end;

	if (!transmit_has_room(transmit))
		return;
	requester->loss.probe_due = false;
	if (requester->una_psn == requester->next_psn)
		return;
	wqe = send_queue_at(&call->qp->sq, call->qp->sq.tail);
	if (wqe->state != WQE_STARTED || wqe_is_local(wqe))
		return;
	if (!requester_write_packet(transmit, wqe, requester->una_psn, true, &end))
		return;
	loss_probe_sent(&requester->loss, end, call->now_ns);
	requester->timing = false;
	transmit->request_index = -1;
}

/* What the peer lacks, beside the window: what was lost has its share of it still. */
static void requester_resend(struct transmit *transmit) REQUIRES(transmit->call->qp->lock)
{
	struct qp_call *call = transmit->call;
	struct qp *qp = call->qp;
	struct loss *loss = &qp->requester.loss;
	uint32_t number = qp->sq.tail, psn, end, bytes = 0;

	lock_alias(&call->qp->lock);
	lock_alias(&qp->lock);
	/* What is filled is forgotten: PSNs come round again. */
	if (!repair_is_on(qp)) {
		repair_stop(qp);
		return;
	}
	while (repair_next_gap(qp, &psn) && transmit_has_room(transmit)) {
		struct send_wqe *wqe = request_at(qp, &number, psn);

		if (!wqe) {
			repair_stop(qp);
			break;
		}
		end = wqe_chunk_end(qp, wqe, psn);
		if (!repair_is_held(qp, psn)) {
			if (!requester_write_packet(transmit, wqe, psn, true, &end))
				break;
			bytes += wqe_cost(qp, wqe, psn, end);
			loss->sent_ns = call->now_ns;
			loss->sent_packets++;
			loss->resent_packets++;
			count(call, COUNTER_REPAIR);
		}
		repair_passed(qp, end);
	}
	if (bytes && qp->path)
		path_lost(qp->path, bytes, call->now_ns);
	transmit->request_index = -1;
}

void requester_transmit(struct transmit *transmit)
{
	struct qp_call *call = transmit->call;
	struct requester *requester = &call->qp->requester;

	lock_alias(&call->qp->lock);
	gather_ends(&requester->gather, call->qp->sq.head - call->qp->sq.sent);
	if (call->qp->state != IBV_QPS_RTS && call->qp->state != IBV_QPS_SQD)
		return;
	transmit->request_index = -1;
	/* Requests that need no packets go on where they stopped. */
	if (requester->direct_waits)
		transmit->cut = true;
	else if (!requester->rnr_until_ns) {
		if (repair_asks(call->qp))
			repair_ask(transmit);
		if (requester->loss.probe_due)
			requester_send_probe(transmit);
		if (!requester->loss.hold) {
			requester_resend(transmit);
			send_requests(transmit);
		}
	}
	if (call->qp->path)
		path_served(call->qp->path, call->qp->transport->run_queue, call->qp);
	completer_retire(call);
	requester_check_drained(call);
}

bool requester_ready(const struct qp *qp)
{
	const struct requester *requester = &qp->requester;
	uint32_t gap;

	if (qp->state != IBV_QPS_RTS && qp->state != IBV_QPS_SQD)
		return false;
	if (requester->rnr_until_ns || requester->local_messages)
		return false;
	if (requester->loss.probe_due || repair_asks(qp))
		return true;
	if (requester->loss.hold || congestion_deadline(qp) != TIME_NEVER)
		return false;
	return requester->send_wqe != qp->sq.head || repair_next_gap(qp, &gap);
}

bool requester_may_gather(struct qp *qp, uint64_t now_ns)
{
	struct requester *requester = &qp->requester;
	const struct send_wqe *newest = send_queue_at(&qp->sq, qp->sq.head - 1);

	return qp->state == IBV_QPS_RTS && requester->send_psn == requester->next_psn &&
	       !requester->loss.probe_due && !requester->loss.hold &&
	       !(newest->flags & IBV_SEND_FENCE) && !wqe_is_local(newest) &&
	       !wqe_takes_resource(newest) &&
	       gather_waits(&requester->gather, qp->sq.sent - qp->sq.tail, qp->sq.head - qp->sq.sent,
			    newest->length, now_ns);
}

/* SQD has drained once every request begun is answered (IBTA 10.3.1.6). */
void requester_check_drained(struct qp_call *call)
{
	struct qp *qp = call->qp;

	if (qp->state != IBV_QPS_SQD || qp->requester.drain_reported || qp->sq.tail != qp->sq.sent)
		return;
	qp->requester.drain_reported = true;
	qp->attr.sq_draining = 0;
	if (qp->attr.en_sqd_async_notify)
		qp_raise(qp, QP_EVENT_SQ_DRAINED, call->effects);
}
