/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * SRQs of a context: basic, XRC, tag matching; destruction waits until the application has acknowledged events
 * (ibv_destroy_srq(3)).
 */
#include <errno.h>
#include <stdlib.h>

#include "base/log.h"
#include "device/internal.h"
#include "device/limits.h"
#include "engine/wake.h"
#include "object/tag_list.h"
#include "platform/clock.h"

static enum ibv_srq_type srq_type_of(const struct ibv_srq_init_attr_ex *attr)
{
	return attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE ? attr->srq_type : IBV_SRQT_BASIC;
}

static int check_tag_matching(const struct ibv_srq_init_attr_ex *attr)
{
	const struct ibv_tm_cap *cap = &attr->tm_cap;

	if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_CQ) || !attr->cq) {
		explain("ibv_create_srq: a tag-matching SRQ needs a CQ for its completions: cq and "
			"IBV_SRQ_INIT_ATTR_CQ");
		return EINVAL;
	}
	if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_TM)) {
		explain("ibv_create_srq: a tag-matching SRQ needs tm_cap and IBV_SRQ_INIT_ATTR_TM");
		return EINVAL;
	}
	if (cap->max_num_tags < 1 || cap->max_num_tags > LIMIT_TAGS || cap->max_ops < 1 ||
	    cap->max_ops > LIMIT_TAG_OPS) {
		explain("ibv_create_srq: invalid tm_cap.max_num_tags %u or max_ops %u: expected "
			"1 to %u and 1 to %u",
			cap->max_num_tags, cap->max_ops, LIMIT_TAGS, LIMIT_TAG_OPS);
		return EINVAL;
	}
	return 0;
}

static int check_srq_type(const struct ibv_srq_init_attr_ex *attr)
{
	enum ibv_srq_type type = srq_type_of(attr);

	if (type == IBV_SRQT_TM)
		return check_tag_matching(attr);
	if (type != IBV_SRQT_BASIC && type != IBV_SRQT_XRC) {
		explain_refused("ibv_create_srq", EOPNOTSUPP,
				"ibv_create_srq: srq_type %d is not supported: use IBV_SRQT_BASIC, "
				"IBV_SRQT_XRC or IBV_SRQT_TM", type);
		return EOPNOTSUPP;
	}
	if (type == IBV_SRQT_BASIC)
		return 0;
	if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_XRCD) || !attr->xrcd) {
		explain_refused("ibv_create_srq", EINVAL,
				"ibv_create_srq: an XRC SRQ needs an XRC domain: xrcd and "
				"IBV_SRQ_INIT_ATTR_XRCD");
		return EINVAL;
	}
	if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_CQ) || !attr->cq) {
		explain_refused("ibv_create_srq", EINVAL,
				"ibv_create_srq: an XRC SRQ needs a CQ for its receives: cq and "
				"IBV_SRQ_INIT_ATTR_CQ");
		return EINVAL;
	}
	return 0;
}

/* ---- XRC ---- */

static void xrc_enter(struct hca *hca, struct srq *srq, const struct ibv_srq_init_attr_ex *attr)
{
	srq->xrcd = to_xrcd(attr->xrcd);
	srq->cq = to_cq(attr->cq);
	do	/* of 24 bits, as it goes on the wire, and no other one's in the domain */
		srq->number = object_number(hca) & QPN_MASK;
	while (!srq->number || xrc_domain_find(srq->xrcd->domain, srq->number));
	atomic_fetch_add(&srq->xrcd->users, 1);
	atomic_fetch_add(&srq->cq->users, 1);
	xrc_domain_add(srq->xrcd->domain, srq);
}

/*
 * A message in progress to it is given up: its next packet finds no SRQ. Peers inside the host have to ask
 * again whose memory their requests reach.
 */
static void xrc_forget_at(struct qp *qp, const struct srq *srq)
{
	if (qp->type != IBV_QPT_XRC_RECV || qp->xrcd->domain != srq->xrcd->domain)
		return;
	lock_acquire(&qp->lock);
	qp_end_pairing(qp);
	if (qp->responder.target == srq) {
		qp->responder.target = NULL;
		qp->responder.recv_taken = false;
	}
	lock_release(&qp->lock);
}

static void xrc_leave(struct hca *hca, struct srq *srq)
{
	struct list *context_node, *node;

	xrc_domain_remove(srq->xrcd->domain, srq);
	lock_acquire(&hca->objects);
	list_for_each(context_node, &hca->contexts) {
		struct hca_context *context = list_entry(context_node, struct hca_context, node);

		list_for_each(node, &context->qps)
			xrc_forget_at(list_entry(node, struct qp, node), srq);
	}
	lock_release(&hca->objects);
	local_drain_ended_qps(&hca->engine.local);
	cq_clean_slots(srq->cq, &srq->queue.slots);
	atomic_fetch_sub(&srq->xrcd->users, 1);
	atomic_fetch_sub(&srq->cq->users, 1);
}

/* ---- any ---- */

static int srq_init_parts(struct srq *srq, const struct ibv_srq_init_attr_ex *attr)
{
	int err = recv_queue_init(&srq->queue, attr->attr.max_wr, attr->attr.max_sge ? attr->attr.max_sge : 1);

	if (err || srq_type_of(attr) != IBV_SRQT_TM)
		return err;
	srq->tags = tag_list_new(attr->tm_cap.max_num_tags, attr->tm_cap.max_ops);
	if (!srq->tags) {
		recv_queue_fini(&srq->queue);
		return ENOMEM;
	}
	srq->cq = to_cq(attr->cq);
	atomic_fetch_add(&srq->cq->users, 1);
	return 0;
}

int hca_create_srq_in(struct hca_context *context, const struct ibv_srq_init_attr_ex *attr,
		      struct ring_allocator *allocator, struct srq **created)
{
	struct srq *srq;
	int err;

	if (context_is_dead(context, "ibv_create_srq"))
		return EIO;
	if (attr->attr.max_wr < 1 || attr->attr.max_wr > LIMIT_SRQ_WR || attr->attr.max_sge > LIMIT_SGE) {
		explain_refused("ibv_create_srq", EINVAL,
				"ibv_create_srq: invalid max_wr %u or max_sge %u: expected 1 to %d and 0 to %d",
				attr->attr.max_wr, attr->attr.max_sge, LIMIT_SRQ_WR, LIMIT_SGE);
		return EINVAL;
	}
	err = check_srq_type(attr);
	if (err)
		return err;
	err = object_reserve(context->hca, OBJECT_SRQ, "ibv_create_srq");
	if (err)
		return err;
	srq = calloc(1, sizeof(*srq));
	if (srq)
		srq->queue.memory = (struct ring_memory){ .allocator = allocator, .use = RING_OF_SRQ };
	err = !srq ? ENOMEM : srq_init_parts(srq, attr);
	if (err) {
		object_unreserve(context->hca, OBJECT_SRQ);
		free(srq);
		return err;
	}
	pthread_mutex_init(&srq->ibv.mutex, NULL);
	pthread_cond_init(&srq->ibv.cond, NULL);
	srq->pd = to_pd(attr->pd)->number;
	srq->ibv.pd = attr->pd;
	atomic_fetch_add(&to_pd(attr->pd)->users, 1);
	srq->async = context->async;
	list_init(&srq->limit_event.node);
	srq->limit_event.ibv.event_type = IBV_EVENT_SRQ_LIMIT_REACHED;
	srq->limit_event.ibv.element.srq = &srq->ibv;
	srq->owner = context;
	if (srq_type_of(attr) == IBV_SRQT_XRC)
		xrc_enter(context->hca, srq, attr);
	else
		srq->number = object_number(context->hca);
	srq->ibv.handle = srq->number;
	lock_acquire(&context->hca->objects);
	list_add_tail(&context->srqs, &srq->node);
	lock_release(&context->hca->objects);
	*created = srq;
	return 0;
}

int hca_modify_srq(struct srq *srq, const struct ibv_srq_attr *attr, int mask)
{
	struct effects effects;
	int err;

	if (context_is_dead(srq->owner, "ibv_modify_srq"))
		return EIO;
	if ((mask & IBV_SRQ_MAX_WR) && (attr->max_wr < 1 || attr->max_wr > LIMIT_SRQ_WR)) {
		explain_refused("ibv_modify_srq", EINVAL,
				"ibv_modify_srq: invalid max_wr %u: expected 1 to %d",
				attr->max_wr, LIMIT_SRQ_WR);
		return EINVAL;
	}
	effects_init(&effects);
	err = srq_modify(srq, attr, mask, &effects);
	effects_apply(&effects);
	return err;
}

int hca_query_srq(struct srq *srq, struct ibv_srq_attr *attr)
{
	lock_acquire(&srq->queue.lock);
	attr->max_wr = srq->queue.size;
	attr->max_sge = srq->queue.max_sge;
	attr->srq_limit = srq->limit;
	lock_release(&srq->queue.lock);
	return 0;
}

int hca_destroy_srq(struct hca_context *context, struct srq *srq)
{
	uint32_t users = atomic_load(&srq->users);

	if (context_is_dead(context, "ibv_destroy_srq"))
		return EIO;
	if (users) {
		explain_refused_of("ibv_destroy_srq", EBUSY, OF(SRQ, srq->number),
				"ibv_destroy_srq: srq %u is in use by %u QPs: destroy them first", srq->number,
			users);
		return EBUSY;
	}
	if (srq->xrcd && !srq->is_down) {	/* a handler may have left for good while the last call waited */
		xrc_leave(context->hca, srq);
		srq->is_down = true;
	}
	event_withdraw(srq->async, &srq->limit_event.node);
	object_wait_for_acks(&srq->ibv.mutex, &srq->ibv.cond, &srq->ibv.events_completed,
			  &srq->async_events_got,
			     &(struct ack_names){ "ibv_destroy_srq", "ibv_ack_async_event",
						  &srq->limit_event, 1 });
	lock_acquire(&context->hca->objects);
	list_remove(&srq->node);
	lock_release(&context->hca->objects);
	atomic_fetch_sub(&to_pd(srq->ibv.pd)->users, 1);
	pthread_mutex_destroy(&srq->ibv.mutex);
	pthread_cond_destroy(&srq->ibv.cond);
	if (srq->tags) {
		cq_clean_slots(srq->cq, &srq->tags->ops);
		atomic_fetch_sub(&srq->cq->users, 1);
	}
	free(srq->tags);
	recv_queue_fini(&srq->queue);
	free(srq);
	object_unreserve(context->hca, OBJECT_SRQ);
	return 0;
}

int hca_post_srq_recv(struct srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	return srq_post(srq, wr, bad);
}

int hca_post_srq_ops(struct srq *srq, struct ibv_ops_wr *wr, struct ibv_ops_wr **bad)
{
	struct hca_context *context = srq->owner;
	struct effects effects;
	int err;

	*bad = wr;
	if (context_is_dead(context, "post_srq_ops"))
		return EIO;
	if (!srq->tags) {
		explain_of(OF(SRQ, srq->number),
			"ibv_post_srq_ops: srq %u has no tags: create it by ibv_create_srq_ex "
			"with IBV_SRQT_TM",
			srq->number);
		return EINVAL;
	}
	effects_init(&effects);
	err = srq_post_ops(srq, wr, bad, clock_now_ns(), &effects);
	if (cq_period_begins(srq->cq))
		timers_arm_cq(&context->hca->engine, srq->cq);
	effects_apply(&effects);
	engine_after_unlock(&context->hca->engine);
	return err;
}
