/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Posting all of a list of work requests or none, as ibv_wr_complete(3) has it. (ibv_post_send(3)
 * leaves those before the first refused one in the queue.)
 */
#include <errno.h>

#include "hca/internal.h"

/* Take back what was posted from @head on; nobody saw it, the lock was never dropped. */
static void rewind_to(struct send_queue *queue, uint32_t head)
{
	while (queue->head != head) {
		struct send_wqe *wqe = send_queue_at(queue, --queue->head);

		if (wqe->ah)
			ah_put(wqe->ah);
	}
}

int hca_post_send_all(struct qp *qp, struct ibv_send_wr *wr)
{
	struct hca_context *context = qp->owner;
	struct effects effects;
	struct ibv_send_wr *bad;
	bool ready = false;
	uint32_t head;
	int err;

	if (context->abandoned)
		return EIO;
	effects_init(&effects);
	if (qp->type == IBV_QPT_UD)
		hca_prepare_datagrams(context->hca, qp, wr);
	lock_acquire(&qp->lock);
	head = qp->sq.head;
	err = qp_post_send(qp, wr, &bad);
	if (err)
		rewind_to(&qp->sq, head);
	else
		ready = transport_posted_send(qp, hca_flush_time(qp), &effects) &&
			hca_posted(context->hca, qp, &effects);
	lock_release(&qp->lock);
	effects_apply(&effects);
	hca_after_unlock(context->hca);
	if (ready)
		hca_pump(context->hca, qp);
	return err;
}
