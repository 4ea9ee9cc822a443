/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * UC and UD (IBTA 9.8). There are no answers: a request is complete when its last packet is
 * written, and a receiver drops and counts packets that it cannot accept. Errors of our own send
 * queue lead to SQE; only the receive's own memory can fail the QP as a whole. flow.h limits how
 * much is sent at once: a fabric of NICs loses nothing, a socket buffer does.
 */
#include <string.h>

#include "base/bytes.h"
#include "object/guesses.h"
#include "transport/barrier.h"
#include "transport/echo.h"
#include "transport/pace.h"
#include "transport/drop.h"
#include "transport/execute.h"
#include "transport/service.h"
#include "transport/stream.h"

#define QKEY_PRIVILEGED 0x80000000u	/* the sender's own Q_Key is meant (IBTA 10.2.5) */

/* ---- waiting and time ---- */

/* The QP waits for room, and has not got its turn. */
static bool is_blocked(const struct qp *qp) REQUIRES(qp->lock)
{
	return qp->requester.blocked &&
	       !atomic_load_explicit(&qp->requester.path_turn, memory_order_relaxed);
}

void unreliable_stop(struct qp *qp)
{
	flow_leave(qp->transport->run_queue, qp);
	echo_reset(qp);
}

static uint64_t unreliable_deadline(const struct qp *qp) REQUIRES(qp->lock)
{
	uint64_t due_ns = echo_deadline(qp), barrier_ns = barrier_deadline(qp);
	uint64_t pace_ns = pace_deadline(&qp->requester.pace);

	if (pace_ns < due_ns)
		due_ns = pace_ns;
	if (barrier_ns < due_ns)
		due_ns = barrier_ns;
	if (!qp->requester.blocked || due_ns < qp->requester.blocked_until_ns)
		return due_ns;
	return qp->requester.blocked_until_ns;
}

static void unreliable_timeout(struct qp_call *call) REQUIRES(call->qp->lock)
{
	struct qp *qp = call->qp;

	lock_alias(&qp->lock);
	if (echo_deadline(qp) <= call->now_ns)
		echo_look_again(qp);
	if (barrier_expire(qp, call->now_ns))
		run_queue_add(qp->transport->run_queue, qp);
	if (pace_expire(&qp->requester.pace, call->now_ns))
		run_queue_add(qp->transport->run_queue, qp);
	if (qp->requester.blocked && qp->requester.blocked_until_ns <= call->now_ns &&
	    flow_expire(qp->transport->run_queue, qp, call->now_ns))
		count(call, COUNTER_FLOW_TIMEOUT);
}

/* ---- sending ---- */

/* The oldest request fails and the others are flushed; the receive queue stays in use. */
static void send_error(struct qp_call *call, enum ibv_wc_status status, const char *advice)
{
	struct qp *qp = call->qp;

	lock_alias(&call->qp->lock);
	lock_assert_held(&qp->lock);
	if (explain_enabled)
		explain_request(call, send_queue_at(&qp->sq, qp->sq.tail), status, advice);
	note_failure(call, status);
	finish_send(call, status);
	qp_move_state(qp, IBV_QPS_SQE, "a request failed");
	flush_sends(call);
}

static bool unreliable_gather(struct transmit *transmit, const struct send_wqe *wqe,
			      uint64_t offset, const struct packet *packet)
{
	if (!sge_gather(transmit->call, wqe, offset, transmit_payload(transmit, packet->op),
			(uint32_t)packet->payload_bytes))
		return true;
	send_error(transmit->call, IBV_WC_LOC_PROT_ERR,
		   "check lkey and bounds of the scatter/gather list");
	return false;
}

static bool send_datagram(struct transmit *transmit, const struct send_wqe *wqe, bool mark)
	REQUIRES(transmit->call->qp->lock)
{
	struct qp *qp = transmit->call->qp;
	struct requester *requester = &qp->requester;
	uint32_t limit = qp->mtu ? qp->mtu : PATH_MTU_MAX;
	bool imm = wr_is(wqe->opcode, WR_HAS_IMM);
	struct packet packet;

	lock_alias(&qp->lock);
	if (wqe->length > limit) {
		set_reason(transmit->call, "a datagram has at most %u bytes on this path", limit);
		send_error(transmit->call, IBV_WC_LOC_LEN_ERR,
			   "send no more than the path MTU on UD");
		return false;
	}
	packet_begin(qp, &packet, imm ? OPCODE_UD_SEND_ONLY_IMM : OPCODE_UD_SEND_ONLY,
		     requester->send_psn);
	packet.dest_qpn = wqe->remote_qpn & QPN_MASK;
	packet.solicited = wqe->flags & IBV_SEND_SOLICITED;
	packet.echo_request = mark;
	packet.default_gid = wqe->ah->route.default_gid;
	packet.deth.qkey = wqe->remote_qkey & QKEY_PRIVILEGED ? qp->attr.qkey : wqe->remote_qkey;
	packet.deth.source_qpn = qp->number;
	packet.imm = wqe->imm;
	packet.payload_bytes = wqe->length;
	if (!unreliable_gather(transmit, wqe, 0, &packet))
		return false;
	transmit->wqe = wqe;
	transmit_packet(transmit, &packet, &wqe->ah->route);
	transmit->wqe = NULL;
	requester->send_psn = psn_add(requester->send_psn, 1);
	finish_send(transmit->call, IBV_WC_SUCCESS);
	return true;
}

static bool send_connected(struct transmit *transmit, struct send_wqe *wqe, bool mark)
	REQUIRES(transmit->call->qp->lock)
{
	struct qp *qp = transmit->call->qp;
	struct requester *requester = &qp->requester;
	uint32_t psn = requester->send_psn;
	struct packet packet;

	lock_alias(&qp->lock);
	wqe_packet(qp, wqe, psn, &packet);
	packet.echo_request = mark;
	if (!unreliable_gather(transmit, wqe, offset_of(qp, psn, wqe->first_psn), &packet))
		return false;
	transmit->wqe = wqe;
	transmit_packet(transmit, &packet, &qp->route);
	transmit->wqe = NULL;
	requester->send_psn = psn_add(psn, 1);
	if (psn == wqe->last_psn)
		finish_send(transmit->call, IBV_WC_SUCCESS);
	return true;
}

static void unreliable_begin(struct qp_call *call, struct send_wqe *wqe) REQUIRES(call->qp->lock)
{
	struct qp *qp = call->qp;

	lock_alias(&qp->lock);
	qp->sq.sent++;
	wqe->state = WQE_STARTED;
	barrier_packets(qp, wqe->opcode == IBV_WR_RDMA_WRITE);
	if (wqe_is_local(wqe)) {
		requester_local(call, wqe);
		return;
	}
	wqe->first_psn = qp->requester.send_psn;
	wqe->last_psn = psn_add(wqe->first_psn, wqe_psns(qp, wqe) - 1);
}

/* In SQD a request that was begun is still finished. */
static bool unreliable_sends(const struct qp *qp) REQUIRES(qp->lock)
{
	if (qp->requester.pace.held_until_ns)
		return false;
	if (qp->state == IBV_QPS_RTS)
		return qp->sq.tail != qp->sq.head && !is_blocked(qp) && !barrier_holds(qp);
	return qp->state == IBV_QPS_SQD && qp->sq.tail != qp->sq.sent && !is_blocked(qp);
}

static bool unreliable_send_next(struct stream *stream, struct send_wqe *wqe)
	REQUIRES(stream->transmit->call->qp->lock)
{
	struct transmit *transmit = stream->transmit;
	bool mark;

	lock_alias(&transmit->call->qp->lock);
	if (wqe_is_local(wqe) && wqe->state == WQE_FAILED) {
		transmit->call->why[0] = '\0';
		send_error(transmit->call, (enum ibv_wc_status)wqe->status, "see above");
		return false;
	}
	if (wqe_is_local(wqe)) {
		finish_send(transmit->call, IBV_WC_SUCCESS);
		return true;
	}
	if (qp_is(transmit->call->qp, QP_DATAGRAM))
		pace_route(&transmit->call->qp->requester.pace, &wqe->ah->route);
	if (!pace_allows(&transmit->call->qp->requester.pace, transmit->call->now_ns) ||
	    !stream_admits(stream, wqe, &mark))
		return false;
	if (qp_is(transmit->call->qp, QP_DATAGRAM))
		return send_datagram(transmit, wqe, mark);
	return send_connected(transmit, wqe, mark);
}

static bool unreliable_ready(const struct qp *qp) REQUIRES(qp->lock)
{
	return echo_ready(qp) || unreliable_sends(qp);
}

static void unreliable_transmit(struct transmit *transmit) REQUIRES(transmit->call->qp->lock)
{
	struct qp *qp = transmit->call->qp;
	struct stream stream = { .transmit = transmit };
	bool good = true;

	echo_transmit(transmit);
	lock_alias(&qp->lock);
	lock_alias(&stream.transmit->call->qp->lock);
	while (good && unreliable_sends(qp)) {
		struct send_wqe *wqe = send_queue_at(&qp->sq, qp->sq.tail);

		/* The caller asks, or has just decided not to; or there are more that need no packets. */
		if (qp->requester.direct_waits || (barrier_is_due(qp) && transmit->batch->count)) {
			transmit->cut = true;
			break;
		}
		if (qp->sq.tail == qp->sq.sent)
			unreliable_begin(transmit->call, wqe);
		good = unreliable_send_next(&stream, wqe);
	}
	stream_end(&stream);
	/* The QP has its turn but nothing to send: the next waiter gets it. */
	if (qp->requester.blocked && !unreliable_sends(qp) && !is_blocked(qp))
		flow_leave(qp->transport->run_queue, qp);
	requester_check_drained(transmit->call);
}

/* ---- receiving: UC ---- */

/*
 * The receive that the message had taken waits for the next one. One of an SRQ cannot, since others may need it:
 * it ends in error, and the QP goes on (fault.def, class E).
 */
static void drop_message(struct qp_call *call, enum fault fault) REQUIRES(call->qp->lock)
{
	struct responder *responder = &call->qp->responder;
	const struct fault_row *row = fault_row(fault);

	responder->previous = NULL;
	responder->received = 0;
	if (!responder->recv_taken || !call->qp->srq || row->status == IBV_WC_SUCCESS)
		return;
	explain_about(drop_row(row->drop)->key, OF(QP, call->qp->number),
		"qp 0x%06x: a message of qp 0x%06x had taken a receive of srq %u "
		      "and has no end (%s): the receive fails, the queue pair goes on", call->qp->number,
		      call->qp->attr.dest_qp_num, call->qp->srq->number, row->name);
	finish_recv_error(call, row->status);
}

static enum drop drop_fault(struct qp_call *call, enum fault fault) REQUIRES(call->qp->lock)
{
	const struct fault_row *row = fault_row(fault);

	if (fault == FAULT_ACCESS && guesses_add(&call->qp->responder.wrong_keys, call->now_ns)) {
		explain_of(OF(QP, call->qp->number),
			"qp 0x%06x: %u RDMA WRITEs within a second named memory they may not "
			"access: a peer may be guessing keys", call->qp->number,
			GUESSES_MAX + 1);
		responder_fail(call, fault);
		return DROP_KEY;
	}
	if (fault == FAULT_ACCESS)
		count_drop(call, DROP_KEY);
	if (explaining())
		explain_print(&(const struct explanation){ .rule = row->name, .remote = true,
							   .of = OF(QP, call->qp->number) },
			      "qp 0x%06x: message of qp 0x%06x dropped (%s)%s%s", call->qp->number,
			      call->qp->attr.dest_qp_num, row->name, call->why[0] ? ": " : "",
			      call->why[0] ? call->why : fault == FAULT_NO_RECEIVE ?
			      ": no receive is posted: ibv_post_recv before the peer sends" : "");
	drop_message(call, fault);
	return row->drop;
}

static enum drop uc_receive(struct qp_call *call, const struct packet *packet,
			    const struct rx_info *info)
	REQUIRES(call->qp->lock)
{
	struct responder *responder = &call->qp->responder;
	enum drop why = DROP_NONE;
	enum fault fault;

	echo_note(call, packet, info);
	if (packet->psn != responder->expected_psn) {
		why = DROP_PSN_AHEAD;	/* of those before it; a packet that begins a message is executed */
		drop_message(call, FAULT_OUT_OF_ORDER);
	}
	responder->expected_psn = psn_add(packet->psn, 1);
	/* The start of a message abandons an incomplete one. */
	if (opcode_starts(packet->op) && responder->previous)
		drop_message(call, FAULT_OUT_OF_ORDER);
	fault = responder_message(call, packet);
	if (!fault)
		return why;
	if (fault_row(fault)->uc == FAULT_UC_FAIL) {
		responder_fail(call, fault);
		return why;
	}
	if (!why)
		return drop_fault(call, fault);
	count_drop(call, drop_fault(call, fault));	/* both count, and the gap is the reason */
	return why;
}

/* ---- receiving: UD ---- */

/* By GID 0 that is no address of the interface: the GRH has the GIDs, and not what the packets carried. */
static const struct route *route_of_gids(const struct qp *qp, const struct packet *packet,
					 const struct route *came, struct route *room)
{
	if (!packet->default_gid || !qp->transport->default_gid)
		return came;
	*room = *came;
	qp->transport->default_gid(qp, room->source);
	memcpy(room->destination, room->source, 16);
	return room;
}

static enum drop ud_receive(struct qp_call *call, const struct packet *packet,
			    const struct rx_info *info)
	REQUIRES(call->qp->lock)
{
	struct route room;
	const struct route *came = route_of_gids(call->qp, packet, &info->route, &room);
	struct ibv_wc wc = { .status = IBV_WC_SUCCESS, .opcode = IBV_WC_RECV,
			     .byte_len = (uint32_t)(GRH_BYTES + packet->payload_bytes),
			     .src_qp = packet->deth.source_qpn, .wc_flags = route_has_grh(came) ? IBV_WC_GRH : 0,
			     .sl = route_header_type(came), .slid = route_lid(came),
			     .dlid_path_bits = route_path_bits(came),
			     .pkey_index = call->qp->attr.pkey_index };
	uint8_t grh[GRH_BYTES];

	if (packet->deth.qkey != call->qp->attr.qkey)
		return DROP_QKEY;	/* and no answer */
	echo_note(call, packet, info);
	if (call->deny_receive || !responder_take(call))
		return DROP_UD_NO_RECEIVE;
	if (GRH_BYTES + packet->payload_bytes > call->qp->responder.recv_bytes)
		return DROP_UD_TOO_LONG;
	route_write_grh(came, packet_bytes(packet->op, packet->payload_bytes), grh);
	if (recv_scatter(call, 0, grh, GRH_BYTES, false) ||
	    recv_scatter(call, GRH_BYTES, packet->payload, (uint32_t)packet->payload_bytes, true)) {
		responder_fail(call, FAULT_LOCAL_PROTECTION);
		return DROP_NONE;
	}
	if (packet->op->headers & HDR_IMM) {
		wc.wc_flags |= IBV_WC_WITH_IMM;
		wc.imm_data = __builtin_bswap32(packet->imm);
	}
	finish_recv(call, &wc, packet->solicited);
	return DROP_NONE;
}

#define UNRELIABLE .transmit = unreliable_transmit, .ready = unreliable_ready, \
	.deadline = unreliable_deadline, .timeout = unreliable_timeout, \
	.init = echo_init, .fini = echo_fini

const struct transport_service service_uc = { .receive = uc_receive, UNRELIABLE };
const struct transport_service service_ud = { .receive = ud_receive, UNRELIABLE };
