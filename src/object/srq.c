/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shared receive queues: a recv_queue that reports running low once per arming (IBTA 10.2.9.3,
 * ibv_modify_srq(3)).
 */
#include "object/srq.h"

#include <errno.h>

#include "base/log.h"

int srq_post(struct srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	return recv_queue_post_for(&srq->queue, wr, bad, EXPLAIN_SRQ, srq->number);
}

/* Raise the limit event if the queue is below an armed limit, and disarm. */
static void check_limit(struct srq *srq, struct effects *effects) REQUIRES(srq->queue.lock)
{
	if (!srq->limit || recv_queue_count(&srq->queue) >= srq->limit)
		return;
	srq->limit = 0;
	if (!srq->async)
		return;
	/* Written once: the taker of the event reads it without our lock. */
	if (!srq->limit_event.ibv.element.srq) {
		srq->limit_event.ibv.event_type = IBV_EVENT_SRQ_LIMIT_REACHED;
		srq->limit_event.ibv.element.srq = &srq->ibv;
	}
	event_queue_add(srq->async, &srq->limit_event.node, effects);
}

bool srq_take_locked(struct srq *srq, struct recv_wqe *wqe, struct effects *effects)
{
	if (!recv_queue_take_locked(&srq->queue, wqe))
		return false;
	check_limit(srq, effects);
	return true;
}

bool srq_take(struct srq *srq, struct recv_wqe *wqe, struct effects *effects)
{
	bool taken;

	lock_acquire(&srq->queue.lock);
	taken = srq_take_locked(srq, wqe, effects);
	lock_release(&srq->queue.lock);
	return taken;
}

int srq_modify(struct srq *srq, const struct ibv_srq_attr *attr, int mask,
	       struct effects *effects)
{
	uint32_t size = mask & IBV_SRQ_MAX_WR ? attr->max_wr : srq->queue.size;
	int err;

	if (mask & ~(IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT)) {
		explain_refused_of("ibv_modify_srq", EINVAL, OF(SRQ, srq->number),
				"ibv_modify_srq: srq 0x%06x: mask 0x%x has bits other than "
				"IBV_SRQ_MAX_WR and IBV_SRQ_LIMIT", srq->number, mask);
		return EINVAL;
	}
	if (mask & IBV_SRQ_MAX_WR && !attr->max_wr) {
		explain_refused_of("ibv_modify_srq", EINVAL, OF(SRQ, srq->number),
				"ibv_modify_srq: srq 0x%06x: max_wr 0: it must hold at least one "
				"receive",
			srq->number);
		return EINVAL;
	}
	if (mask & IBV_SRQ_LIMIT && attr->srq_limit > size) {
		explain_refused_of("ibv_modify_srq", EINVAL, OF(SRQ, srq->number),
				"ibv_modify_srq: srq 0x%06x: srq_limit %u exceeds max_wr %u",
			srq->number, attr->srq_limit, size);
		return EINVAL;
	}
	if (mask & IBV_SRQ_MAX_WR) {
		err = recv_queue_resize(&srq->queue, attr->max_wr);
		if (err)
			return err;
	}
	if (mask & IBV_SRQ_LIMIT) {
		lock_acquire(&srq->queue.lock);
		srq->limit = attr->srq_limit;
		check_limit(srq, effects);
		lock_release(&srq->queue.lock);
	}
	return 0;
}
