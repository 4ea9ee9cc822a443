/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * SENDs that are received in a row (message.h): of one CQ lock, and one access to their region. Messages, and
 * packets that are a whole SEND, as rows of one (responder.c).
 */
#include "transport/execute.h"

bool transport_row_begin(struct message_row *row, struct qp *qp, struct cq_poll *poll)
{
	if (qp->counted || !cq_row_begin(qp->recv_cq))
		return false;
	row->qp = qp;
	row->poll = poll && poll->cq == qp->recv_cq ? poll : NULL;
	row->lkey = 0;
	return true;
}

void transport_row_end(struct message_row *row)
{
	execute_end_row(row);
	cq_row_end(row->qp->recv_cq);
	row->qp = NULL;
}

static bool row_receive(struct message_row *row, struct recv_queue *queue, const uint8_t *data,
			uint32_t bytes, bool solicited)
	REQUIRES(row->qp->lock, row->qp->recv_cq->lock, queue->lock)
{
	const struct recv_wqe *recv = recv_queue_next(queue);
	struct ibv_wc *wc = cq_row_next(row->qp->recv_cq, row->poll);
	struct qp *qp = row->qp;
	struct wqe_slot slot;

	lock_alias(&qp->lock);
	if (!recv || !wc || !execute_send_in_row(row, recv, data, bytes))
		return false;
	slot = (struct wqe_slot){ &queue->slots, recv_queue_next_number(queue), qp->srq };
	*wc = (struct ibv_wc){ .wr_id = recv->wr_id, .status = IBV_WC_SUCCESS, .opcode = IBV_WC_RECV,
			       .byte_len = bytes, .qp_num = qp->number, .src_qp = qp->attr.dest_qp_num };
	recv_queue_remove_next(queue);
	cq_row_push(row->qp->recv_cq, row->poll, wc, &slot, solicited);
	return true;
}

bool transport_row_take(struct message_row *row, const uint8_t *data, uint32_t bytes, bool solicited)
{
	struct qp *qp = row->qp;
	bool done;

	lock_alias(&qp->lock);
	if (qp->srq) {
		lock_acquire(&qp->srq->queue.lock);
		/* Limits of an SRQ are looked at elsewhere. */
		done = !qp->srq->limit && row_receive(row, &qp->srq->queue, data, bytes, solicited);
		lock_release(&qp->srq->queue.lock);
		return done;
	}
	/* Of the QP's own queue, which needs no lock for that. */
	lock_alias(&qp->rq.lock);
	return row_receive(row, &qp->rq, data, bytes, solicited);
}

bool transport_row_receive(struct message_row *row, const uint32_t head[MESSAGE_WORDS],
			   const uint8_t *data, uint32_t bytes)
{
	struct qp *qp = row->qp;
	bool solicited = head[2] >> MESSAGE_FLAGS_SHIFT & MESSAGE_SOLICITED;

	lock_alias(&qp->lock);
	if (head[0] != qp->pairing.ours || (head[1] & QPN_MASK) != qp->attr.dest_qp_num ||
	    (head[2] & ~((uint32_t)MESSAGE_SOLICITED << MESSAGE_FLAGS_SHIFT)) !=
		    qp->responder.message_sequence ||
	    head[4] != bytes || bytes > MESSAGE_SHORT_MAX)
		return false;
	if (!transport_row_take(row, data, bytes, solicited))
		return false;
	qp->responder.message_sequence = psn_add(qp->responder.message_sequence, 1);
	return true;
}
