/* SPDX-License-Identifier: BSD-2-Clause */
/* SENDs without packets (message.h): both ends' rules. */
#include "transport/message.h"

#include "transport/internal.h"

#define PULL_BYTES_MAX	(512u << 10)	/* copied in one call: others wait meanwhile */
#define FLAGS_SHIFT	24

/* ---- requester ---- */

static bool is_told_alone(const struct qp *qp)
{
	const struct requester *requester = &qp->requester;

	return qp->sq.sent - qp->sq.tail == requester->told && !requester->refused &&
	       requester->una_psn == requester->next_psn && !requester->rnr_until_ns;
}

struct send_wqe *transport_tell_next(struct qp *qp)
{
	struct send_wqe *wqe;

	if (qp->type != IBV_QPT_RC || qp->state != IBV_QPS_RTS || qp->sq.sent == qp->sq.head ||
	    !is_told_alone(qp) || (int32_t)(qp->requester.packets_until - qp->sq.sent) > 0)
		return NULL;
	wqe = send_queue_at(&qp->sq, qp->sq.sent);
	switch (wqe->opcode) {
	case IBV_WR_SEND:
	case IBV_WR_SEND_WITH_IMM:
	case IBV_WR_SEND_WITH_INV:
		return wqe;
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		return qp->requester.told ? NULL : wqe;
	default:
		return NULL;
	}
}

void transport_message_head(const struct qp *qp, const struct send_wqe *wqe, unsigned flags,
			    uint32_t head[MESSAGE_WORDS])
{
	uint32_t generation = atomic_load_explicit(&qp->access->generation, memory_order_relaxed);

	if (wqe->opcode == IBV_WR_SEND_WITH_IMM || wqe->opcode == IBV_WR_RDMA_WRITE_WITH_IMM)
		flags |= MESSAGE_IMM;
	else if (wqe->opcode == IBV_WR_SEND_WITH_INV)
		flags |= MESSAGE_INVALIDATE;
	if (wqe->flags & IBV_SEND_SOLICITED)
		flags |= MESSAGE_SOLICITED;
	head[0] = qp->attr.dest_qp_num | flags << FLAGS_SHIFT;
	head[1] = qp->number | wqe->sge_count << FLAGS_SHIFT;
	head[2] = qp->requester.message_sequence | generation << FLAGS_SHIFT;
	head[3] = wqe->imm;
	head[4] = wqe->length;
}

bool transport_gather(struct qp *qp, const struct send_wqe *wqe, uint8_t *out)
{
	struct effects none;
	struct call call;

	call_init(&call, qp, 0, &none);
	return sge_gather(&call, wqe, 0, out, wqe->length) == SGE_OK;
}

static void note_progress(struct qp *qp, uint64_t now_ns)
{
	qp->requester.progress_ns = now_ns;
	qp->requester.retry_left = qp->attr.retry_cnt;
}

void transport_told(struct qp *qp, uint64_t token, uint64_t now_ns)
{
	struct requester *requester = &qp->requester;
	struct send_wqe *wqe = send_queue_at(&qp->sq, qp->sq.sent);

	wqe->token = token;
	wqe->state = WQE_TOLD;
	if (!requester->told)
		note_progress(qp, now_ns);
	requester->told++;
	requester->message_sequence = psn_add(requester->message_sequence, 1);
	requester->send_wqe = requester->packets_until = ++qp->sq.sent;
}

/* All are answered, and the rest of them refused: they are to be sent as packets. */
static void take_back(struct qp *qp)
{
	struct requester *requester = &qp->requester;
	uint32_t number;

	for (number = qp->sq.tail; number != qp->sq.sent; number++)
		send_queue_at(&qp->sq, number)->state = WQE_POSTED;
	requester->message_sequence = psn_add(requester->message_sequence, -requester->refused);
	requester->told = requester->refused = 0;
	requester->in_packets = 0;
	requester->send_wqe = qp->sq.sent = qp->sq.tail;
	requester->packets_until = qp->sq.tail + 1;
}

void transport_settle(struct qp *qp, uint64_t token, bool refused, uint64_t now_ns,
		      struct effects *effects)
{
	struct requester *requester = &qp->requester;
	struct send_wqe *wqe = send_queue_at(&qp->sq, qp->sq.tail + requester->refused);
	struct call call;

	if (!requester->told || wqe->token != token)
		return;
	call_init(&call, qp, now_ns, effects);
	note_progress(qp, now_ns);
	if (refused || requester->refused) {
		requester->refused++;
	} else {
		requester->told--;
		finish_send(&call, IBV_WC_SUCCESS);
	}
	if (requester->told && requester->refused == requester->told)
		take_back(qp);
	requester_check_drained(&call);
	call_end(&call);
}

uint64_t message_deadline(const struct qp *qp)
{
	uint64_t timeout_ns = requester_ack_timeout(qp);

	return timeout_ns == UINT64_MAX ? TIME_NEVER : qp->requester.progress_ns + timeout_ns;
}

void transport_told_progress(struct qp *qp, uint32_t progress)
{
	qp->requester.told_moved = qp->requester.told_progress != progress;
	qp->requester.told_progress = progress;
}

/* Nothing is sent again: it is in memory, and stays there. But silence is counted as of packets. */
void message_timeout(struct call *call)
{
	struct requester *requester = &call->qp->requester;

	if (requester->told_moved) {
		requester->told_moved = false;
		note_progress(call->qp, call->now_ns);
		return;
	}
	count(call, COUNTER_TIMEOUT);
	if (requester->retry_left) {
		requester->retry_left--;
		requester->progress_ns = call->now_ns;
		return;
	}
	/* Who comes to copy now must not take the application's next content for this. */
	atomic_fetch_add_explicit(&call->qp->access->generation, 1, memory_order_seq_cst);
	because(call, "the peer did not take %u messages out of shared memory (it may be stopped)",
		requester->told);
	requester_exceeded(call);
}

/* ---- responder ---- */

void message_parse(const uint32_t head[MESSAGE_WORDS], struct message *message)
{
	message->dest_qpn = head[0] & QPN_MASK;
	message->flags = (uint8_t)(head[0] >> FLAGS_SHIFT);
	message->source_qpn = head[1] & QPN_MASK;
	message->sge_count = (uint8_t)(head[1] >> FLAGS_SHIFT);
	message->sequence = head[2] & PSN_MASK;
	message->generation = (uint8_t)(head[2] >> FLAGS_SHIFT);
	message->imm = head[3];
	message->length = head[4];
}

/* Where a packet would be in order too, and no other is under way. */
static bool is_next(const struct qp *qp, const struct message *message)
{
	const struct responder *responder = &qp->responder;

	return qp->type == IBV_QPT_RC && qp->av.loopback &&
	       (qp->state == IBV_QPS_RTR || qp->state == IBV_QPS_RTS || qp->state == IBV_QPS_SQD) &&
	       qp->attr.dest_qp_num == message->source_qpn &&
	       responder->message_sequence == message->sequence &&
	       (!responder->previous || opcode_ends(responder->previous));
}

/* Data of a SEND, up to some bytes. False: memory of one of both ends is not what it should be. */
static bool copy_some(struct call *call, const struct message *message)
{
	struct responder *responder = &call->qp->responder;
	const struct recv_wqe *recv = responder->recv;
	uint32_t bytes;

	if (!(message->flags & MESSAGE_PULL)) {
		responder->message_done = message->length;
		return !sge_scatter(call, recv->sge, recv->sge_count, 0, message->data,
				    message->length, true);
	}
	if (responder->message_generation != message->generation ||
	    responder->message_length != message->length)
		responder->message_done = 0;	/* another one was under way, and was dropped */
	responder->message_generation = message->generation;
	responder->message_length = message->length;
	bytes = message->length - responder->message_done;
	if (bytes > PULL_BYTES_MAX)
		bytes = PULL_BYTES_MAX;
	if (sge_pull(call, recv->sge, recv->sge_count, responder->message_done, message, bytes,
		     responder->message_done + bytes == message->length))
		return false;
	responder->message_done += bytes;
	return true;
}

static bool end_message(struct call *call, const struct message *message)
{
	struct responder *responder = &call->qp->responder;
	struct ibv_wc wc = { .byte_len = message->length };

	wc.opcode = message->flags & MESSAGE_WRITTEN ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV;
	if (message->flags & MESSAGE_IMM) {
		wc.wc_flags |= IBV_WC_WITH_IMM;
		wc.imm_data = __builtin_bswap32(message->imm);
	} else if (message->flags & MESSAGE_INVALIDATE) {
		wc.wc_flags |= IBV_WC_WITH_INV;
		wc.invalidated_rkey = message->imm;
	}
	if (responder_complete(call, &wc, message->flags & MESSAGE_SOLICITED))
		return false;
	responder->message_sequence = psn_add(responder->message_sequence, 1);
	return true;
}

static enum message_fate execute(struct call *call, const struct message *message)
{
	struct responder *responder = &call->qp->responder;
	bool written = message->flags & MESSAGE_WRITTEN;

	if (!responder_take(call))
		return MESSAGE_REFUSED;
	if (!written && message->length) {
		if (message->length > responder->recv_bytes || !copy_some(call, message))
			return MESSAGE_REFUSED;
		if (responder->message_done < message->length)
			return MESSAGE_UNFINISHED;
	}
	return end_message(call, message) ? MESSAGE_EXECUTED : MESSAGE_REFUSED;
}

enum message_fate transport_hear(struct qp *qp, const struct message *message, uint64_t now_ns,
				 struct effects *effects)
{
	enum message_fate fate;
	struct call call;

	if (!is_next(qp, message))
		return MESSAGE_REFUSED;
	call_init(&call, qp, now_ns, effects);
	note_established(&call);
	fate = execute(&call, message);
	if (fate != MESSAGE_UNFINISHED)
		qp->responder.message_done = 0;
	call_end(&call);
	return fate;
}
