/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A wait for completions that cannot end, explained after a second: nothing is posted, the requests
 * are all unsignaled, or the peer of those that only receive has ended. Of the queue pairs of the
 * process all are looked at, by a thread that waits anyway.
 *
 * What is not known is not said: a peer on another host may send, and a receive in a queue pair
 * that has a peer may complete.
 */
#include "base/log.h"
#include "device/internal.h"
#include "engine/qp_table.h"
#include "platform/clock.h"

#define PEERS 16u

/* Why a queue pair completes nothing, the most telling last. */
enum idle_reason { IDLE_NOTHING, IDLE_STATE, IDLE_PEER, IDLE_UNSIGNALED, IDLE_NOT };

struct idle {
	const struct comp_channel *channel; /* CQs of this one, or ... */
	const struct cq *cq;		    /* ... this one are waited at */
	unsigned queue_pairs;		    /* of them */
	enum idle_reason reason;	    /* of the one that tells most */
	uint32_t qpn, peer, requests;
	enum ibv_qp_state state;
	bool elsewhere; /* something else of the process may complete */
	unsigned peers; /* those that receives wait for; more than PEERS: nothing is said */
	uint32_t peer_qpn[PEERS];
};

static bool idle_concerns(const struct idle *idle, const struct cq *cq)
{
	return cq && (idle->cq ? cq == idle->cq : cq->channel == idle->channel);
}

static uint32_t idle_receives(const struct qp *qp) REQUIRES(qp->lock)
{
	if (qp->srq && qp->srq->tags)
		return 1; /* it may receive what is not expected */
	if (qp->responder.recv_taken)
		return 1; /* for a message that was dropped, or has not ended */
	return qp->srq		 ? recv_queue_count(&qp->srq->queue)
	       : qp_receives(qp) ? recv_queue_count(&qp->rq)
				 : 0;
}

static bool idle_sends_complete(const struct qp *qp) REQUIRES(qp->lock)
{
	if (qp->state == IBV_QPS_ERR || qp->state == IBV_QPS_SQE)
		return qp->sq.head != qp->sq.tail;
	for (uint32_t i = qp->sq.tail; i != qp->sq.head; i++)
		if (send_queue_at(&qp->sq, i)->flags & IBV_SEND_SIGNALED)
			return true;
	return false;
}

/* A peer of this host may have ended. One in our own process has, if it is in no table. */
static bool idle_peer_may_send(struct hca *hca, const struct qp *qp, bool *is_here)
	REQUIRES(qp->lock)
{
	uint32_t peer = qp->attr.dest_qp_num;
	unsigned slot = qp_table_slot(&hca->engine.qps, qpn_slot(peer));

	*is_here = qp_is(qp, QP_CONNECTED) && qp->route.loopback && slot == hca->engine.qps.slot_count;
	return !qp_is(qp, QP_CONNECTED) || !qp->route.loopback || slot == hca->engine.qps.slot_count ||
	       hca->engine.qps.table[slot][qpn_index(peer)];
}

static enum idle_reason idle_reason_of(struct hca *hca, struct idle *idle, struct qp *qp,
				       bool sends, bool receives) REQUIRES(qp->lock)
{
	bool is_ready = qp->state == IBV_QPS_RTR || qp->state == IBV_QPS_RTS ||
			qp->state == IBV_QPS_SQD || qp->state == IBV_QPS_SQE;
	bool has_receives = receives && idle_receives(qp), is_here;

	if (sends && idle_sends_complete(qp))
		return IDLE_NOT;
	if (has_receives && !is_ready && qp->state != IBV_QPS_ERR)
		return IDLE_STATE;
	if (has_receives && qp->state != IBV_QPS_ERR) {
		if (!idle_peer_may_send(hca, qp, &is_here))
			return IDLE_PEER;
		if (!is_here || idle->peers == PEERS)
			return IDLE_NOT;
		idle->peer_qpn[idle->peers++] = qp->attr.dest_qp_num;
	}
	if (sends && wqe_slots_used(&qp->sq.slots, qp->sq.head))
		return IDLE_UNSIGNALED;
	return has_receives ? IDLE_PEER : IDLE_NOTHING;
}

static void idle_look_at(struct hca *hca, struct idle *idle, struct qp *qp)
{
	bool sends = idle_concerns(idle, qp->send_cq), receives = idle_concerns(idle, qp->recv_cq);
	enum idle_reason reason;

	lock_acquire(&qp->lock);
	idle->elsewhere |= idle_reason_of(hca, idle, qp, !sends, !receives) == IDLE_NOT;
	if (sends || receives) {
		reason = idle_reason_of(hca, idle, qp, sends, receives);
		if (!idle->queue_pairs++ || reason > idle->reason) {
			idle->reason = reason;
			idle->qpn = qp->number;
			idle->peer = qp->attr.dest_qp_num;
			idle->state = qp->state;
			idle->requests = wqe_slots_used(&qp->sq.slots, qp->sq.head);
		}
	}
	lock_release(&qp->lock);
}

static void idle_look(struct hca *hca, struct idle *idle)
{
	struct list *context_node, *node;

	lock_acquire(&hca->objects);
	list_for_each (context_node, &hca->contexts) {
		struct hca_context *context = list_entry(context_node, struct hca_context, node);

		list_for_each (node, &context->qps)
			idle_look_at(hca, idle, list_entry(node, struct qp, node));
		/* SRQs with a CQ of their own, work queues: what may come to them is not looked into. */
		list_for_each (node, &context->srqs) {
			const struct srq *srq = list_entry(node, struct srq, node);

			if (srq->cq)
				idle->elsewhere = true;
		}
		if (!list_empty(&context->wqs))
			idle->elsewhere = true;
	}
	lock_release(&hca->objects);
	for (unsigned i = 0; i < idle->peers && !idle->elsewhere; i++)
		idle->elsewhere = !engine_has_ended(idle->peer_qpn[i]);
}

/* False: it may end, or another thread may see to that. *of: a QP that the words are about. */
static bool idle_words(const struct idle *idle, char words[IDLE_WORDS], struct explain_object *of)
{
	if (idle->elsewhere || (idle->queue_pairs && idle->reason == IDLE_NOT))
		return false;
	if (idle->reason == IDLE_UNSIGNALED || idle->reason == IDLE_PEER || idle->reason == IDLE_STATE)
		*of = OF(QP, idle->qpn);
	if (!idle->queue_pairs)
		snprintf(words, IDLE_WORDS, "no queue pair has this CQ: give it to ibv_create_qp");
	else if (idle->reason == IDLE_UNSIGNALED)
		snprintf(words, IDLE_WORDS,
			 "what qp 0x%06x has sent since its last completion (requests: %u) is all "
			 "unsignaled: set IBV_SEND_SIGNALED in one of them, or sq_sig_all",
			 idle->qpn, idle->requests);
	else if (idle->reason == IDLE_PEER)
		snprintf(words, IDLE_WORDS,
			 "qp 0x%06x only receives, and its peer, qp 0x%06x of this host, is gone: "
			 "who only receives is not told; post a request, or use rdma_cm, which says "
			 "DISCONNECTED",
			 idle->qpn, idle->peer);
	else if (idle->reason == IDLE_STATE)
		snprintf(words, IDLE_WORDS,
			 "qp 0x%06x has receives and is in %s: ibv_modify_qp to RTR", idle->qpn,
			 qp_state_name(idle->state));
	else
		snprintf(words, IDLE_WORDS,
			 "no request and no receive is posted: ibv_post_send or ibv_post_recv "
			 "before waiting");
	return true;
}

bool channel_cannot_complete(struct comp_channel *channel, char words[IDLE_WORDS],
			     struct explain_object *of)
{
	struct hca_context *context = channel->owner;
	struct idle idle = {.channel = channel};

	idle_look(context->hca, &idle);
	return idle_words(&idle, words, of);
}

void cq_explain_empty(struct cq *cq, bool first)
{
	struct hca_context *context = cq->owner;
	struct idle idle = {.cq = cq};
	struct explain_object of = OF(CQ, cq->number);
	uint64_t now_ns = clock_now_ns();
	char words[IDLE_WORDS];

	if (first)
		atomic_store_explicit(&cq->empty_since_ns, now_ns, memory_order_relaxed);
	if (now_ns - atomic_load_explicit(&cq->empty_since_ns, memory_order_relaxed) <
		    ACK_PATIENCE_NS ||
	    atomic_exchange_explicit(&cq->empty_explained, true, memory_order_relaxed))
		return;
	idle_look(context->hca, &idle);
	/* Without a queue pair: a server that polls while it waits for its first client is right. */
	if (idle.queue_pairs && idle_words(&idle, words, &of))
		explain_of(of, "ibv_poll_cq has found cq %u empty for a second: %s", cq->number, words);
}
