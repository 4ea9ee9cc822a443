/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * SENDs to a tag-matching SRQ (ibv_create_srq_ex(3), ibv_post_srq_ops(3)). The header that begins the
 * message says which receive it takes: the oldest buffer of its tag, or one of the SRQ's queue. The data of an
 * eager message goes to the buffer without the header; for a request for rendezvous the device reads the data
 * from the sender's memory, and then tells the sender so (FIN), by the QP's own send queue. What is not matched
 * is delivered whole.
 *
 * Matched eager messages of several packets and rendezvous complete twice: when they match, and with their
 * data.
 */
#include <string.h>

#include "object/tag_list.h"
#include "transport/internal.h"
#include "wire/tag_header.h"

#define SYNC_BEHIND_MAX	0x3fffu		/* unexpected messages that are not reported */

/* How the message in progress was received. */
enum tagged {
	TAGGED_NOT,			/* not by tag matching */
	TAGGED_NO_TAG,			/* for software: NO_TAG, FIN, or malformed */
	TAGGED_UNEXPECTED,
	TAGGED_EAGER,			/* matched */
	TAGGED_RENDEZVOUS,		/* matched; READ and FIN are written to the send queue, not posted */
	TAGGED_INCOMPLETE,		/* matched, but software has to fetch the data: it gets the headers */
};

/* Bytes of the message that are not for the receive. */
static uint32_t tags_skip(const struct responder *responder)
{
	return responder->tagged == TAGGED_EAGER ? TAG_HEADER_BYTES : 0;
}

struct wqe_slot tags_slot(const struct qp *qp)
{
	return (struct wqe_slot){qp->responder.tagged >= TAGGED_EAGER ? &qp->srq->tags->slots
								      : &qp->srq->queue.slots,
				 0, true};
}

/* ---- rendezvous ---- */

/* The entry's SGEs, cut to @bytes. */
static void tags_fill_read(struct send_wqe *wqe, const struct recv_wqe *recv, const struct tag_header *header)
{
	uint32_t left = header->length;

	memset(wqe, 0, sizeof(*wqe));
	wqe->wr_id = recv->wr_id;
	wqe->opcode = IBV_WR_RDMA_READ;
	wqe->flags = IBV_SEND_SIGNALED;
	wqe->length = header->length;
	wqe->remote_address = header->address;
	wqe->rkey = header->rkey;
	for (uint32_t i = 0; i < recv->sge_count && left; i++) {
		struct ibv_sge *sge = &wqe->sge[wqe->sge_count++];

		*sge = recv->sge[i];
		if (sge->length > left)
			sge->length = left;
		left -= sge->length;
	}
}

/* Behind the READ: the fence keeps the sender's memory until all is read. */
static void tags_fill_fin(struct send_wqe *wqe, const uint8_t *data)
{
	memset(wqe, 0, sizeof(*wqe));
	wqe->opcode = IBV_WR_SEND;
	wqe->flags = IBV_SEND_INLINE | IBV_SEND_FENCE;
	wqe->length = TAG_RENDEZVOUS_BYTES;
	memcpy(wqe->inline_data, data, TAG_RENDEZVOUS_BYTES);
	wqe->inline_data[0] = TAG_FIN;
}

/* ---- taking a receive ---- */

static enum tagged tags_kind(const struct qp *qp, const struct tag_entry *entry, const struct tag_header *header)
	REQUIRES(qp->lock)
{
	if (header->operation == TAG_NO_TAG || header->operation == TAG_FIN)
		return TAGGED_NO_TAG;
	if (!entry)
		return TAGGED_UNEXPECTED;
	if (header->operation == TAG_EAGER)
		return TAGGED_EAGER;
	/* Can the device read so much, into that buffer? */
	if (qp->sends_itself && qp->attr.max_rd_atomic && header->length <= MESSAGE_BYTES_MAX &&
	    header->length <= sge_total(entry->sge, entry->sge_count))
		return TAGGED_RENDEZVOUS;
	return TAGGED_INCOMPLETE;
}

/* False, and nothing has changed: there is no receive, or no place to read from now. */
static bool tags_take_locked(struct qp_call *call, const struct tag_header *header)
	REQUIRES(call->qp->lock, call->qp->srq->queue.lock)
{
	struct qp *qp = call->qp;
	struct responder *responder = &call->qp->responder;
	struct srq *srq = call->qp->srq;
	struct tag_entry *entry;
	enum tagged kind;

	lock_alias(&srq->queue.lock);
	lock_alias(&qp->lock);
	entry = header->operation == TAG_EAGER || header->operation == TAG_RENDEZVOUS ?
		tag_list_find(srq->tags, header->tag) : NULL;
	kind = tags_kind(call->qp, entry, header);
	if (kind == TAGGED_RENDEZVOUS && ((qp->state != IBV_QPS_RTS && qp->state != IBV_QPS_SQD) ||
					  qp->sq.size - (qp->sq.head - qp->sq.tail) < 2))
		return false;
	if (kind >= TAGGED_EAGER)
		tag_list_consume(srq->tags, entry, responder->recv);
	else if (!srq_take_locked(srq, responder->recv, call->effects))
		return false;
	if (kind == TAGGED_UNEXPECTED)
		tag_list_unexpected(srq->tags);
	responder->tagged = (uint8_t)kind;
	return true;
}

bool tags_take(struct qp_call *call, const uint8_t *data, size_t bytes)
{
	struct tag_header header = tag_header_parse(data, bytes);
	struct responder *responder = &call->qp->responder;
	struct send_queue *sq = &call->qp->sq;

	if (responder->recv_taken)	/* by a message that goes on as packets */
		return true;
	lock_acquire(&call->qp->srq->queue.lock);
	responder->recv_taken = tags_take_locked(call, &header);
	lock_release(&call->qp->srq->queue.lock);
	if (!responder->recv_taken)
		return false;
	responder->recv_bytes = sge_total(responder->recv->sge, responder->recv->sge_count);
	responder->tag = header.tag;
	responder->tag_context = header.context;
	if (responder->tagged == TAGGED_RENDEZVOUS) {
		tags_fill_read(send_queue_at(sq, sq->head), responder->recv, &header);
		tags_fill_fin(send_queue_at(sq, sq->head + 1), data);
	}
	return true;
}

bool tags_fit(const struct responder *responder, uint64_t bytes)
{
	return responder->tagged == TAGGED_RENDEZVOUS || bytes <= responder->recv_bytes + tags_skip(responder);
}

/* ---- data ---- */

bool tags_part(struct responder *responder, struct tags_part *part)
{
	uint32_t skip = tags_skip(responder), at = responder->received;

	responder->received += part->bytes;
	part->offset = at - skip;
	if (!at) {
		part->data += skip;
		part->bytes -= skip;
		part->offset = 0;
	}
	return responder->tagged != TAGGED_RENDEZVOUS;
}

/* ---- completions ---- */

bool tags_matched(const struct qp *qp, struct completion *completion)
{
	const struct responder *responder = &qp->responder;

	*completion = (struct completion){ .wc = { .wr_id = responder->recv->wr_id, .opcode = IBV_WC_TM_RECV,
						   .wc_flags = IBV_WC_TM_MATCH, .qp_num = qp->number,
						   .src_qp = responder->tag_context },
					   .tag = responder->tag };
	return responder->tagged == TAGGED_EAGER;
}

/* What the end of the message says: flags, and how much there is. */
static void tags_describe(const struct qp *qp, struct ibv_wc *wc, bool single) REQUIRES(qp->lock)
{
	const struct responder *responder = &qp->responder;
	struct srq *srq = qp->srq;

	wc->opcode = responder->tagged == TAGGED_NO_TAG ? IBV_WC_TM_NO_TAG : IBV_WC_TM_RECV;
	wc->byte_len -= tags_skip(responder);
	switch (responder->tagged) {
	case TAGGED_UNEXPECTED:
		lock_acquire(&srq->queue.lock);
		wc->wc_flags |= tag_list_behind(srq->tags) > SYNC_BEHIND_MAX ? IBV_WC_TM_SYNC_REQ : 0;
		lock_release(&srq->queue.lock);
		break;
	case TAGGED_EAGER:
		wc->wc_flags |= IBV_WC_TM_DATA_VALID | (single ? IBV_WC_TM_MATCH : 0);
		break;
	case TAGGED_RENDEZVOUS:
		wc->wc_flags |= IBV_WC_TM_MATCH;
		wc->byte_len = send_queue_at(&qp->sq, qp->sq.head)->length;
		break;
	case TAGGED_INCOMPLETE:
		wc->wc_flags |= IBV_WC_TM_MATCH | IBV_WC_TM_DATA_VALID;
		wc->status = IBV_WC_TM_RNDV_INCOMPLETE;
		break;
	default:
		break;
	}
}

void tags_complete(struct qp *qp, const struct ibv_wc *wc, bool single, struct completion *completion)
{
	struct responder *responder = &qp->responder;

	*completion = (struct completion){ .wc = *wc };
	tags_describe(qp, &completion->wc, single);
	completion->wc.wr_id = responder->recv->wr_id;
	completion->wc.qp_num = qp->number;
	if (completion->wc.wc_flags & IBV_WC_TM_MATCH) {
		completion->tag = responder->tag;
		completion->wc.src_qp = responder->tag_context;
	}
	if (responder->tagged == TAGGED_INCOMPLETE && explain_enabled)
		explain_about("TM_RNDV_INCOMPLETE", OF_WR(QP, qp->number, responder->recv->wr_id),
			"qp 0x%06x: a request for rendezvous matched the tagged buffer wr_id "
			      "0x%llx, whose data is left to the application (the buffer has the headers): %s",
			      qp->number, (unsigned long long)responder->recv->wr_id,
			      !qp->sends_itself ? "the qp was created with max_send_wr other than 0, so that its "
						  "sends are the application's" :
			      !qp->attr.max_rd_atomic ? "max_rd_atomic of the qp is 0" :
							"the buffer is smaller than the data");
	if (responder->tagged != TAGGED_RENDEZVOUS)	/* else when its data was read */
		completion->slot = tags_slot(qp);
	responder->recv_taken = false;
	if (responder->tagged == TAGGED_RENDEZVOUS)
		qp->sq.head += 2;
}

bool tags_sent(struct qp_call *call, const struct ibv_wc *sent, struct completion *completion)
{
	*completion = (struct completion){ .wc = *sent };
	completion->wc.opcode = IBV_WC_TM_RECV;
	if (sent->status == IBV_WC_SUCCESS)
		completion->wc.wc_flags = IBV_WC_TM_DATA_VALID;
	if (sent->opcode == IBV_WC_RDMA_READ) {
		completion->slot = (struct wqe_slot){ &call->qp->srq->tags->slots, 0, true };
		return true;
	}
	if (sent->status != IBV_WC_SUCCESS && sent->status != IBV_WC_WR_FLUSH_ERR)
		qp_raise(call->qp, QP_EVENT_FATAL, call->effects);	/* the sender may never hear of the end */
	return false;
}

void tags_drop(struct qp *qp)
{
	struct srq *srq = qp->srq;

	if (!qp->responder.recv_taken || !srq || !srq->tags || qp->responder.tagged != TAGGED_UNEXPECTED)
		return;
	lock_acquire(&srq->queue.lock);
	tag_list_forget(srq->tags);
	lock_release(&srq->queue.lock);
}
