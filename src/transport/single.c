/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A request that is one packet, of a QP that has nothing else to send: what a program that waits for each answer
 * posts. requester_transmit() writes the same packet and leaves the QP as this does (single_test.c compares
 * them); it asks for each packet what is false here as a whole: something lost, held, paced, fenced, cut or
 * sent again. Whatever is not plain is left to it, before anything has changed.
 */
#include "base/inline.h"
#include "trace/trace.h"
#include "transport/congestion.h"
#include "transport/credits.h"
#include "transport/early.h"
#include "transport/execute.h"
#include "transport/gather.h"
#include "transport/repair.h"
#include "transport/service.h"

/* It has met a loss, of which nothing is left to do. */
static APART bool single_is_mended(const struct qp *qp) REQUIRES(qp->lock)
{
	return !early_ready(qp) && !repair_asks(qp) && !recovery_of(qp)->repair.active;
}

/* Nothing is under repair or waits, and one request is posted that was not begun. */
static inline bool single_is_next(const struct qp *qp) REQUIRES(qp->lock)
{
	const struct requester *requester = &qp->requester;
	const struct responder *responder = &qp->responder;

	return qp->sq.head - qp->sq.sent == 1 && requester->send_wqe == qp->sq.sent &&
	       qp->state == IBV_QPS_RTS && qp->type == IBV_QPT_RC && qp->path &&
	       !requester->congestion && (!requester->recovery || single_is_mended(qp)) &&
	       requester->send_psn == requester->next_psn &&
	       !(responder->active_count | responder->answer_late | requester->local_messages) &&
	       !(requester->loss.probe_due | requester->loss.hold | requester->direct_waits |
		 (requester->pace.kbps != 0)) &&
	       !requester->rnr_until_ns &&
	       !atomic_load_explicit(&requester->path_turn, memory_order_relaxed) &&
	       !trace_wants(TRACE_PACKETS | TRACE_LOG);
}

/* The code of the only packet of @wqe, if it may leave now, and has no header but BTH, RETH, IMM. 0: not so. */
static inline uint8_t single_code(const struct qp *qp, const struct send_wqe *wqe) REQUIRES(qp->lock)
{
	const struct requester *requester = &qp->requester;
	int32_t ahead = psn_diff(requester->send_psn, requester->una_psn);

	if (wqe->length > qp->mtu || wqe->flags & IBV_SEND_FENCE || ahead >= PSNS_IN_FLIGHT_MAX ||
	    (wqe->sge_count > 1 && !(wqe->flags & IBV_SEND_INLINE)))
		return 0;
	/* It may go without packets, or is counted on the way there. */
	if (!request_needs_packets(qp) && (requester->in_packets < STREAM_BEGINS || requester->prefers_direct))
		return 0;
	if (wqe_needs_receive(wqe) && !credits_allow(&requester->credits, (requester->ssn + 1) & PSN_MASK))
		return 0;
	switch (wqe->opcode) {
	case IBV_WR_SEND:
		return OPCODE_RC_SEND_ONLY;
	case IBV_WR_SEND_WITH_IMM:
		return OPCODE_RC_SEND_ONLY_IMM;
	case IBV_WR_RDMA_WRITE:
		return OPCODE_RC_WRITE_ONLY;
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		return OPCODE_RC_WRITE_ONLY_IMM;
	default:
		return 0;
	}
}

FLAT bool single_transmit(struct transmit *transmit)
{
	struct qp *qp = transmit->call->qp;
	struct requester *requester = &qp->requester;
	struct loss *loss = &requester->loss;
	const uint64_t now_ns = transmit->call->now_ns;
	struct send_wqe *wqe;
	uint32_t psn, cost;
	uint8_t code;

	lock_alias(&qp->lock);
	if (!single_is_next(qp) || !tx_batch_has_room(transmit->batch) || !transmit->budget)
		return false;
	wqe = send_queue_at(&qp->sq, qp->sq.sent);
	code = single_code(qp, wqe);
	if (!code)
		return false;
	struct packet packet = { .op = opcode_get(code), .migrated = true, .pkey = qp->pkey,
				 .dest_qpn = qp->attr.dest_qp_num, .psn = requester->send_psn,
				 .payload_bytes = wqe->length, .imm = wqe->imm, .ack_request = true };
	cost = packet_cost(wqe->length);
	if (!transport_gather_one(qp, wqe, transmit_payload(transmit, packet.op)) ||
	    !path_reserve(qp->path, qp, cost, cost))
		return false;
	/* From here on nothing can fail. */
	gather_ends(&requester->gather, 1);
	qp->sq.sent++;
	psn = requester->send_psn;
	wqe->state = WQE_STARTED;
	wqe->first_psn = wqe->last_psn = psn;
	wqe->ssn = ++requester->ssn & PSN_MASK;
	packet.solicited = wqe->flags & IBV_SEND_SOLICITED && wqe_needs_receive(wqe);
	packet.reth.address = wqe->remote_address;
	packet.reth.rkey = wqe->rkey;
	packet.reth.length = wqe->length;
	transmit_packet(transmit, &packet, &qp->route);
	loss->sent_packets++;
	if (requester->una_psn == psn)
		loss->progress_ns = now_ns;
	loss->sent_ns = now_ns;
	requester->send_wqe++;
	requester->send_psn = requester->next_psn = psn_add(psn, 1);
	requester->flight_bytes += cost;
	if (!requester->timing && !loss->resent_packets) {
		requester->timing = true;
		requester->timing_psn = psn;
		requester->timing_ns = now_ns;
	}
	return true;
}
