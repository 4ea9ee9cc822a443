/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The end of work requests: completions, flushing, and the move to the error state (IBTA 10.3.1,
 * 10.8.5, 11.6.2). The send queue is flushed before the receive queue, each in order.
 *
 * A completion that its CQ has no room for is noted (completion_lost) and turned into the error
 * state by transport.c at the end of the call, so that nothing here recurses.
 */
#include <assert.h>

#include "base/inline.h"
#include "object/placement.h"
#include "transport/execute.h"
#include "transport/early.h"

/* The name without IBV_WC_ is also what `verbatim explain` knows it by. */
static const struct {
	const char *text, *name;
} statuses[] = {
#define STATUS(id, text) [IBV_WC_##id] = { text, #id }
	STATUS(SUCCESS,		"success"),
	STATUS(LOC_LEN_ERR,	"local length error"),
	STATUS(LOC_QP_OP_ERR,	"local QP operation error"),
	STATUS(LOC_PROT_ERR,	"local protection error"),
	STATUS(WR_FLUSH_ERR,	"work request flushed"),
	STATUS(MW_BIND_ERR,	"memory window bind error"),
	STATUS(BAD_RESP_ERR,	"bad response"),
	STATUS(LOC_ACCESS_ERR,	"local access error"),
	STATUS(REM_INV_REQ_ERR,	"remote invalid request"),
	STATUS(REM_ACCESS_ERR,	"remote access error"),
	STATUS(REM_OP_ERR,	"remote operation error"),
	STATUS(RETRY_EXC_ERR,	"transport retry count exceeded"),
	STATUS(RNR_RETRY_EXC_ERR, "receiver-not-ready retry count exceeded"),
#undef STATUS
};

static void finish_pushed(struct qp_call *call, struct cq *cq, bool pushed) REQUIRES(call->qp->lock)
{
	if (pushed) {
		if (cq_period_begins(cq) && call->qp->transport->period_begins)
			call->qp->transport->period_begins(call->qp, cq);
		return;
	}
	count(call, COUNTER_CQ_OVERFLOW);
	call->qp->requester.completion_lost = true;
}

void finish_push(struct qp_call *call, struct cq *cq, const struct completion *completion, bool solicited)
{
	finish_pushed(call, cq, cq_push_full(cq, completion, solicited, call->now_ns, call->effects));
}

static struct ibv_wc finish_wc(const struct qp *qp, const struct send_wqe *wqe, enum ibv_wc_status status)
	REQUIRES(qp->lock)
{
	return (struct ibv_wc){ .wr_id = wqe->wr_id, .status = status,
				.opcode = (enum ibv_wc_opcode)wr_row(wqe->opcode)->completion,
				.byte_len = wqe->length, .qp_num = qp->number };
}

static void __attribute__((noinline, cold)) finish_own_send(struct qp_call *call, const struct send_wqe *wqe,
							    enum ibv_wc_status status)
	REQUIRES(call->qp->lock)
{
	struct completion completion;
	struct ibv_wc wc;

	lock_alias(&call->qp->lock);
	wc = finish_wc(call->qp, wqe, status);
	if (tags_sent(call, &wc, &completion))
		finish_push(call, call->qp->recv_cq, &completion, false);
}

/* Written once, where it is polled. */
static void finish_push_send(struct qp_call *call, const struct send_wqe *wqe, uint32_t number,
			     enum ibv_wc_status status) REQUIRES(call->qp->lock)
{
	struct qp *qp = call->qp;
	struct cq *cq = qp->send_cq;
	struct completion *completion = cq_push_begin(cq, call->effects);
	const struct wqe_slot slot = { &qp->sq.slots, number, false };
	struct ibv_wc *wc;

	lock_alias(&qp->lock);
	if (completion) {
		wc = cq_push_polled(cq, call->effects);
		if (wc) {
			*wc = finish_wc(qp, wqe, status);
			cq_push_given(cq, call->effects->poll, &slot);
			return;
		}
		*completion = (struct completion){ .wc = finish_wc(qp, wqe, status), .timestamp_ns = call->now_ns,
						   .slot = slot };
		cq_push_end(cq, completion, false, call->effects);
	}
	finish_pushed(call, cq, completion);
}

/*
 * The same of a WRITE that is no entry of the queue. One function for both, given a struct ibv_wc, would have it
 * put together before the CQ is locked, and copied.
 */
static void finish_push_write(struct qp_call *call, const struct ibv_send_wr *wr, uint32_t number)
	REQUIRES(call->qp->lock)
{
	struct qp *qp = call->qp;
	struct cq *cq = qp->send_cq;
	struct completion *completion = cq_push_begin(cq, call->effects);

	lock_alias(&qp->lock);
	if (completion) {
		*completion = (struct completion){
			.wc = { .wr_id = wr->wr_id, .status = IBV_WC_SUCCESS, .opcode = IBV_WC_RDMA_WRITE,
				.byte_len = wr->sg_list->length, .qp_num = qp->number },
			.timestamp_ns = call->now_ns, .slot = { &qp->sq.slots, number, false },
		};
		cq_push_end(cq, completion, false, call->effects);
	}
	finish_pushed(call, cq, completion);
}

static void __attribute__((noinline, cold)) finish_count(struct qp *qp, const struct send_wqe *wqe,
							 enum ibv_wc_status status) REQUIRES(qp->lock)
{
	enum comp_operation operation;

	switch ((int)wr_row(wqe->opcode)->completion) {
	case IBV_WC_SEND:
		operation = COMP_SEND;
		break;
	case IBV_WC_RDMA_WRITE:
		operation = COMP_WRITE;
		break;
	case IBV_WC_RDMA_READ:
		operation = COMP_READ;
		break;
	default:	/* it has none in the interface of counters */
		return;
	}
	if (!qp->sends_itself)
		comp_counter_add(qp->counted, operation, status == IBV_WC_SUCCESS, 1, wqe->length);
}

void finish_send(struct qp_call *call, enum ibv_wc_status status)
{
	struct qp *qp = call->qp;
	struct send_queue *queue = &qp->sq;
	const uint32_t number = queue->tail;
	struct send_wqe *wqe = send_queue_at(queue, number);

	lock_alias(&qp->lock);
	assert(queue->tail != queue->head);
	if (__builtin_expect(qp->counted != NULL, 0))
		finish_count(qp, wqe, status);
	if (__builtin_expect(qp->sends_itself, 0))
		finish_own_send(call, wqe, status);
	else if (status != IBV_WC_SUCCESS || (wqe->flags & IBV_SEND_SIGNALED))
		finish_push_send(call, wqe, number, status);
	/*
	 * The ring slot may be reused afterwards: @wqe must not be used any more. Behind the completion: whoever
	 * polls that has to take the QP's lock to post.
	 */
	if (wqe->ah)
		ah_put(wqe->ah);
	wqe->ah = NULL;
	if (queue->sent == queue->tail)
		queue->sent++;
	if (qp->requester.send_wqe == queue->tail)
		qp->requester.send_wqe++;
	queue->tail++;
}

void finish_at_once(struct qp_call *call, const struct ibv_send_wr *wr)
{
	struct qp *qp = call->qp;
	struct send_queue *queue = &qp->sq;
	const uint32_t number = queue->head;
	struct send_wqe *wqe = send_queue_at(queue, number);
	bool signaled = qp->signal_all || wr->send_flags & IBV_SEND_SIGNALED;

	lock_alias(&qp->lock);
	assert(queue->tail == number);
	/* Of a request that is over, its slot still taken, that alone is read: to explain a full queue. */
	wqe->flags = signaled ? IBV_SEND_SIGNALED : 0;
	queue->head++;
	if (signaled)
		finish_push_write(call, wr, number);
	if (qp->requester.send_wqe == number)
		qp->requester.send_wqe++;
	queue->sent++;
	queue->tail++;
}

void finish_recv(struct qp_call *call, struct ibv_wc *wc, bool solicited)
{
	struct responder *responder = &call->qp->responder;
	struct cq *cq = call->qp->recv_cq ? call->qp->recv_cq : responder->target->cq;

	assert(responder->recv_taken);
	wc->wr_id = responder->recv->wr_id;
	wc->qp_num = call->qp->number;
	responder->recv_taken = false;
	qp_count(call->qp, COMP_RECV, wc->status == IBV_WC_SUCCESS, 1, wc->byte_len);
	finish_pushed(call, cq, cq_push_slot(cq, wc, recv_slot(call->qp), solicited, call->now_ns, call->effects));
}

enum fault finish_message(struct qp_call *call, const struct work *work)
{
	struct ibv_wc wc = { .status = IBV_WC_SUCCESS, .byte_len = work->bytes,
			     .opcode = work->is_write ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV,
			     .src_qp = call->qp->attr.dest_qp_num };
	struct completion completion;

	if (work->has_imm) {
		wc.wc_flags |= IBV_WC_WITH_IMM;
		wc.imm_data = __builtin_bswap32(work->imm);
	} else if (work->has_inv) {
		wc.wc_flags |= IBV_WC_WITH_INV;
		wc.invalidated_rkey = work->imm;
		if (execute_invalidate(call, work->imm))
			return FAULT_INVALIDATE;
	}
	if (!call->qp->responder.tagged) {
		finish_recv(call, &wc, work->solicited);
		return FAULT_NONE;
	}
	qp_count(call->qp, COMP_RECV, true, 1, wc.byte_len);
	tags_complete(call->qp, &wc, work->is_single, &completion);
	finish_push(call, call->qp->recv_cq, &completion, work->solicited);
	return FAULT_NONE;
}

/* Flushed requests say nothing of their own. */
static void note_error(struct qp *qp, enum ibv_wc_status status)
{
	atomic_store_explicit(&qp->access->last_error, (uint32_t)status, memory_order_relaxed);
}

void note_failure(struct qp_call *call, enum ibv_wc_status status)
{
	count(call, COUNTER_REQUEST_FAILED);
	note_error(call->qp, status);
}

void finish_recv_error(struct qp_call *call, enum ibv_wc_status status)
{
	struct ibv_wc wc = { .status = status, .opcode = IBV_WC_RECV };

	tags_drop(call->qp);
	count(call, status == IBV_WC_WR_FLUSH_ERR ? COUNTER_RECEIVE_FLUSHED : COUNTER_RECEIVE_FAILED);
	if (status != IBV_WC_WR_FLUSH_ERR)
		note_error(call->qp, status);
	finish_recv(call, &wc, false);
}

void flush_sends(struct qp_call *call)
{
	struct send_queue *queue = &call->qp->sq;

	while (queue->tail != queue->head) {
		count(call, COUNTER_REQUEST_FLUSHED);
		finish_send(call, IBV_WC_WR_FLUSH_ERR);
	}
}

/* The receives of an SRQ belong to other QPs as well: only the one taken is flushed. */
void flush_recvs(struct qp_call *call)
{
	struct responder *responder = &call->qp->responder;

	if (responder->recv_taken)
		finish_recv_error(call, IBV_WC_WR_FLUSH_ERR);
	if (call->qp->srq || !qp_receives(call->qp))
		return;
	while (recv_queue_take(&call->qp->rq, responder->recv)) {
		responder->recv_taken = true;
		finish_recv_error(call, IBV_WC_WR_FLUSH_ERR);
	}
}

APART void enter_error(struct qp_call *call)
{
	struct qp *qp = call->qp;

	lock_alias(&call->qp->lock);
	lock_assert_held(&qp->lock);
	if (qp->state == IBV_QPS_ERR)
		return;
	requester_stop(call);
	early_drop(qp);
	qp_move_state(qp, IBV_QPS_ERR, "a request or a received packet failed");
	flush_sends(call);
	flush_recvs(call);
	if (qp->srq)
		qp_raise(qp, QP_EVENT_LAST_WQE, call->effects);
}

void explain_request(struct qp_call *call, const struct send_wqe *wqe, enum ibv_wc_status status,
		     const char *advice)
{
	char peer[46];

	assert(status < sizeof(statuses) / sizeof(statuses[0]) && statuses[status].name);
	explain_about(
		statuses[status].name, OF_WR(QP, call->qp->number, wqe->wr_id),
		"qp 0x%06x: %s of %u bytes (wr_id 0x%llx) to qp 0x%06x at %s failed: %s; %s%s%s",
		call->qp->number, wqe_name(wqe), wqe->length, (unsigned long long)wqe->wr_id,
		wqe->ah ? wqe->remote_qpn : call->qp->attr.dest_qp_num,
		address_text(wqe->ah ? wqe->ah->route.destination : call->qp->route.destination, peer),
		statuses[status].text, call->why, call->why[0] ? "; " : "", advice);
}

void fail_request(struct qp_call *call, enum ibv_wc_status status, const char *advice)
{
	struct qp *qp = call->qp;

	explain_request(call, send_queue_at(&qp->sq, qp->sq.tail), status, advice);
	note_failure(call, status);
	finish_send(call, status);
	enter_error(call);
	if (status == IBV_WC_RETRY_EXC_ERR && qp->transport->peer_lost)
		qp->transport->peer_lost(qp);
}
