/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * RAW_PACKET: Ethernet frames, as the application wrote them and as they come. There are no packets
 * of the transport, no answers and no repetition: a send is complete when its frame is in the
 * batch, and a frame for which there is no receive, or none that is long enough, is dropped and
 * counted. ibv_modify_qp_rate_limit(3) spaces them.
 */
#include <string.h>

#include "base/bytes.h"
#include "ethernet/frame.h"
#include "transport/execute.h"
#include "transport/pace.h"
#include "transport/service.h"

/* ---- pace ---- */

static uint64_t raw_deadline(const struct qp *qp) REQUIRES(qp->lock)
{
	return pace_deadline(&qp->requester.pace);
}

static void raw_timeout(struct qp_call *call) REQUIRES(call->qp->lock)
{
	pace_expire(&call->qp->requester.pace, call->now_ns);
}

void transport_pace(struct qp *qp, uint32_t kbps, uint32_t burst_bytes)
{
	qp->requester.pace = (struct pace){ .kbps = kbps, .burst_bytes = burst_bytes };
}

void transport_pace_route(struct qp *qp)
{
	pace_route(&qp->requester.pace, &qp->route);
}

/* ---- sending ---- */

static bool raw_ready(const struct qp *qp) REQUIRES(qp->lock)
{
	return qp->state == IBV_QPS_RTS && qp->sq.tail != qp->sq.head && !qp->requester.pace.held_until_ns;
}

static void raw_send_error(struct qp_call *call, enum ibv_wc_status status) REQUIRES(call->qp->lock)
{
	const struct send_wqe *wqe = send_queue_at(&call->qp->sq, call->qp->sq.tail);

	if (status == IBV_WC_LOC_PROT_ERR)	/* others are explained by the post */
		explain_about(
		"LOC_PROT_ERR", OF_WR(QP, call->qp->number, wqe->wr_id),
		"qp 0x%06x: frame of %u bytes (wr_id 0x%llx) failed: local protection error; %s%s"
		"check lkey and bounds of the scatter/gather list",
		call->qp->number, wqe->length, (unsigned long long)wqe->wr_id, call->why,
		call->why[0] ? "; " : "");
	note_failure(call, status);
	finish_send(call, status);
	qp_move_state(call->qp, IBV_QPS_SQE, "a request failed");
	flush_sends(call);
}

static void write_frame(struct transmit *transmit, const struct send_wqe *wqe)
{
	struct tx_batch *batch = transmit->batch;
	struct tx_packet *entry = &batch->packet[batch->count];
	uint8_t *data = batch->data + batch->used;
	struct frame frame;

	if (wqe->flags & IBV_SEND_IP_CSUM) {
		frame_dissect(data, wqe->length, &frame);
		frame_write_checksums(&frame, data);
	}
	entry->offset = (uint32_t)batch->used;
	entry->bytes = wqe->length;
	batch->used += wqe->length;
	batch->count++;
	transmit->budget--;
}

static void raw_transmit(struct transmit *transmit) REQUIRES(transmit->call->qp->lock)
{
	struct qp_call *call = transmit->call;
	struct tx_batch *batch = transmit->batch;
	struct qp *qp = call->qp;

	lock_alias(&qp->lock);
	lock_alias(&call->qp->lock);
	while (raw_ready(qp)) {
		const struct send_wqe *wqe = send_queue_at(&qp->sq, qp->sq.tail);

		if (wqe->opcode == WR_FAULTY) {
			raw_send_error(call, (enum ibv_wc_status)wqe->status);
			break;
		}
		if (!transmit->budget || batch->count == TX_PACKETS_MAX ||
		    TX_BYTES_MAX - batch->used < wqe->length) {
			transmit->cut = true;
			break;
		}
		if (!pace_allows(&qp->requester.pace, call->now_ns))
			break;
		if (sge_gather(call, wqe, 0, batch->data + batch->used, wqe->length)) {
			raw_send_error(call, IBV_WC_LOC_PROT_ERR);
			break;
		}
		pace_sent(&qp->requester.pace, wqe->length, call->now_ns);
		write_frame(transmit, wqe);
		finish_send(call, IBV_WC_SUCCESS);
	}
	requester_check_drained(call);
}

/* ---- receiving ---- */

/* The frame without its VLAN tag, if the queue strips it: two pieces then. */
struct raw_piece {
	const uint8_t *data;
	uint32_t bytes;
};

#define ADDRESS_BYTES	12u		/* of a frame, in front of a tag */
#define CUSTOMER_TAG	0x8100u		/* its type; those of a service provider stay */

static uint32_t cut_pieces(const struct raw_frame *raw, bool strip, struct raw_piece piece[2])
{
	const uint32_t bytes = (uint32_t)raw->frame->bytes;

	if (!strip) {
		piece[0] = (struct raw_piece){ raw->frame->data, bytes };
		piece[1] = (struct raw_piece){ NULL, 0 };
		return bytes;
	}
	piece[0] = (struct raw_piece){ raw->frame->data, ADDRESS_BYTES };
	piece[1] = (struct raw_piece){ raw->frame->data + ADDRESS_BYTES + FRAME_VLAN_BYTES,
				       bytes - ADDRESS_BYTES - FRAME_VLAN_BYTES };
	return bytes - FRAME_VLAN_BYTES;
}

static bool strip_is_due(const struct raw_frame *raw, bool strips)
{
	const struct frame *frame = raw->frame;

	return strips && frame->bytes >= FRAME_HEADER_BYTES + FRAME_VLAN_BYTES &&
	       get_be16(frame->data + ADDRESS_BYTES) == CUSTOMER_TAG;
}

static struct completion raw_completion(const struct raw_frame *raw, bool strip, uint32_t bytes)
{
	const bool good = raw->vouched_for || frame_checksums_are_good(raw->frame);
	struct completion completion = { .wc = { .status = IBV_WC_SUCCESS, .opcode = IBV_WC_RECV,
						 .byte_len = bytes,
						 .wc_flags = good ? IBV_WC_IP_CSUM_OK : 0 } };

	completion.frame.flow_tag = raw->flow_tag;
	completion.frame.cvlan = strip ? get_be16(raw->frame->data + ADDRESS_BYTES + 2) : 0;
	return completion;
}

static bool scatter_pieces(struct qp_call *call, const struct mr_accessor *accessor, const struct recv_wqe *recv,
			   const struct raw_piece piece[2])
{
	return !recv_scatter_for(call, accessor, recv, 0, piece[0].data, piece[0].bytes, !piece[1].bytes) &&
	       !recv_scatter_for(call, accessor, recv, piece[0].bytes, piece[1].data, piece[1].bytes, true);
}

static enum drop receive_here(struct qp_call *call, const struct raw_frame *raw) REQUIRES(call->qp->lock)
{
	const struct mr_accessor accessor = recv_accessor_of(call->qp);
	struct responder *responder = &call->qp->responder;
	const bool strip = strip_is_due(raw, call->qp->strips_vlan);
	struct completion completion;
	struct raw_piece piece[2];
	uint32_t bytes = cut_pieces(raw, strip, piece);

	if (!responder_take(call))
		return DROP_NO_RECEIVE;
	if (bytes > responder->recv_bytes)
		return DROP_TOO_LONG;
	if (!scatter_pieces(call, &accessor, responder->recv, piece)) {
		responder_fail(call, FAULT_LOCAL_PROTECTION);
		return DROP_NONE;
	}
	completion = raw_completion(raw, strip, bytes);
	completion.wc.wr_id = responder->recv->wr_id;
	completion.wc.qp_num = call->qp->number;
	completion.slot = recv_slot(call->qp);
	responder->recv_taken = false;
	qp_count(call->qp, COMP_RECV, true, 1, bytes);
	finish_push(call, call->qp->recv_cq, &completion, false);
	return DROP_NONE;
}

/* ---- work queues ---- */

static void wq_push_error(struct qp_call *call, struct wq *wq, enum ibv_wc_status status)
	REQUIRES(call->qp->lock, wq->lock)
{
	const struct completion completion = { .wc = { .wr_id = wq->recv->wr_id, .status = status,
						       .opcode = IBV_WC_RECV, .qp_num = wq->number },
					       .slot = { &wq->queue.slots, wq->recv->number, false } };

	wq->recv_taken = false;
	if (!cq_push_full(wq->cq, &completion, true, call->now_ns, call->effects))
		count(call, COUNTER_CQ_OVERFLOW);
}

static void wq_fail(struct qp_call *call, struct wq *wq) REQUIRES(call->qp->lock, wq->lock)
{
	explain_about("WQ_FATAL", OF_WR(WQ, wq->number, wq->recv->wr_id),
		      "wq 0x%06x: a receive (wr_id 0x%llx) failed: local protection error; "
		      "%s%scheck lkey and bounds of its scatter/gather list",
		      wq->number, (unsigned long long)wq->recv->wr_id, call->why,
		      call->why[0] ? "; " : "");
	wq_push_error(call, wq, IBV_WC_LOC_PROT_ERR);
	wq->state = wq->ibv.state = IBV_WQS_ERR;
	event_queue_add(wq->async, &wq->fatal_event.node, call->effects);
	while (recv_queue_take(&wq->queue, wq->recv))
		wq_push_error(call, wq, IBV_WC_WR_FLUSH_ERR);
}

static enum drop receive_in(struct qp_call *call, struct wq *wq, const struct raw_frame *raw)
	REQUIRES(call->qp->lock, wq->lock)
{
	const struct mr_accessor accessor = { .pd = wq->pd->number, .qpn = call->qp->number,
					      .domain = MR_DOMAIN_WQ };
	const bool strip = strip_is_due(raw, atomic_load_explicit(&wq->strips_vlan, memory_order_relaxed));
	struct completion completion;
	struct raw_piece piece[2];
	uint32_t bytes = cut_pieces(raw, strip, piece);

	if (wq->state != IBV_WQS_RDY)
		return DROP_QP_STATE;
	if (!wq->recv_taken)
		wq->recv_taken = recv_queue_take(&wq->queue, wq->recv);
	if (!wq->recv_taken)
		return DROP_NO_RECEIVE;
	if (bytes > sge_total(wq->recv->sge, wq->recv->sge_count))
		return DROP_TOO_LONG;
	if (!scatter_pieces(call, &accessor, wq->recv, piece)) {
		wq_fail(call, wq);
		return DROP_NONE;
	}
	completion = raw_completion(raw, strip, bytes);
	completion.wc.wr_id = wq->recv->wr_id;
	completion.wc.qp_num = wq->number;
	completion.slot = (struct wqe_slot){ &wq->queue.slots, wq->recv->number, false };
	wq->recv_taken = false;
	if (!cq_push_full(wq->cq, &completion, false, call->now_ns, call->effects))
		count(call, COUNTER_CQ_OVERFLOW);
	else if (cq_period_begins(wq->cq) && call->qp->transport->period_begins)
		call->qp->transport->period_begins(call->qp, wq->cq);
	return DROP_NONE;
}

enum drop transport_receive_frame(struct qp *qp, const struct raw_frame *raw, uint64_t now_ns,
				  struct effects *effects)
{
	const struct receive_hash *hash = qp->hash;
	enum drop why = DROP_QP_STATE;
	struct qp_call call;
	struct wq *wq;

	qp_call_init(&call, qp, now_ns, effects);
	/* Its work queues have the states that matter, as with mlx5. */
	if (hash && qp->state != IBV_QPS_ERR) {
		wq = hash->table->wq[hash_frame(hash->key, hash->fields, raw->frame) & hash->table->mask];
		lock_acquire(&wq->lock);
		why = receive_in(&call, wq, raw);
		lock_release(&wq->lock);
	} else if (transport_takes_packets(qp->state)) {
		why = receive_here(&call, raw);
	}
	if (why)
		count_drop(&call, why);
	qp_call_end(&call);
	return why;
}

/* No packet names a QP of this type: frames come by transport_receive_frame(). */
static enum drop raw_receive(struct qp_call *call, const struct packet *packet,
			     const struct rx_info *info)
	REQUIRES(call->qp->lock)
{
	(void)call, (void)packet, (void)info;
	return DROP_QP_TYPE;
}

const struct transport_service service_raw = {
	.receive = raw_receive,
	.transmit = raw_transmit,
	.ready = raw_ready,
	.deadline = raw_deadline,
	.timeout = raw_timeout,
};
