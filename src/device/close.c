/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Closing a context frees every object that the application left in it, users before used:
 * QPs, SRQs, XRC domains, CQs, channels, windows, regions, device memory, address handles, protection domains.
 */
#include "device/internal.h"

/* Nobody will fetch or acknowledge events any more: count them as acknowledged. */
static void acknowledge_qp(struct qp *qp)
{
	qp->ibv.qp_base.events_completed = qp->async_events_got;
}

static void acknowledge_cq(struct cq *cq)
{
	cq->ibv.comp_events_completed = cq->comp_events_got;
	cq->ibv.async_events_completed = cq->async_events_got;
}

static struct list *close_first(struct list *head)
{
	return list_empty(head) ? NULL : head->next;
}

static void destroy_queues(struct hca_context *context)
{
	struct list *node;

	while ((node = close_first(&context->qps))) {
		struct qp *qp = list_entry(node, struct qp, node);

		multicast_detach_all(context->hca, qp);
		acknowledge_qp(qp);
		qp->opens = 1;	/* whoever opened it */
		hca_destroy_qp(context, qp);
	}
	while ((node = close_first(&context->srqs))) {
		struct srq *srq = list_entry(node, struct srq, node);

		srq->ibv.events_completed = srq->async_events_got;
		hca_destroy_srq(context, srq);
	}
	while ((node = close_first(&context->xrcds)))
		hca_close_xrcd(context, list_entry(node, struct xrcd, node));
	while ((node = close_first(&context->cqs))) {
		struct cq *cq = list_entry(node, struct cq, node);

		acknowledge_cq(cq);
		hca_destroy_cq(context, cq);
	}
	while ((node = close_first(&context->channels)))
		hca_destroy_comp_channel(context, list_entry(node, struct comp_channel, node));
}

void context_destroy_objects(struct hca_context *context)
{
	struct list *node;

	destroy_queues(context);
	while ((node = close_first(&context->mws)))
		hca_dealloc_mw(context, list_entry(node, struct mw, node));
	while ((node = close_first(&context->mrs)))
		hca_dereg_mr(context, list_entry(node, struct mr, node));
	while ((node = close_first(&context->dms)))
		hca_free_dm(context, list_entry(node, struct dm, node));
	while ((node = close_first(&context->ahs)))
		hca_destroy_ah(context, list_entry(node, struct ah, node));
	while ((node = close_first(&context->pds))) {
		struct pd *pd = list_entry(node, struct pd, node);

		atomic_store(&pd->users, 0);
		hca_dealloc_pd(context, pd);
	}
}
