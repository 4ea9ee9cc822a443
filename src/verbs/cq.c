/* SPDX-License-Identifier: BSD-2-Clause */
/* Completion queues: ibv_create_cq(3), ibv_poll_cq(3), ibv_resize_cq(3). Extended: cq_ex.c. */
#include "verbs/check.h"
#include "verbs/trace.h"
#include "verbs/verbs.h"

struct cq *cq_create(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr,
		     struct ring_allocator *allocator)
{
	uint64_t began_ns = tracepoint_began_ns();
	struct cq *cq;
	int err;

	if (attr->comp_vector >= (uint32_t)context->num_comp_vectors) {
		explain("ibv_create_cq: invalid comp_vector %d: the device has %d, numbered from 0",
			(int)attr->comp_vector, context->num_comp_vectors);
		return fail(EINVAL);
	}
	err = verbs_asked(.kind = CHECK_CQ, .call = "ibv_create_cq", .count = attr->cqe);
	if (!err)
		err = hca_create_cq_in(to_hca(context), attr, allocator, &cq);
	verbs_traced("ibv_create_cq", began_ns, err, .cq = SOME(err ? 0 : cq->number),
		     .entries = SOME(attr->cqe));
	if (err)
		return fail(err);
	cq->ibv.context = context;
	cq->ibv.channel = attr->channel;
	cq->ibv.cq_context = attr->cq_context;
	verbs_checked(.what = CHECK_MADE, .kind = CHECK_CQ, .call = "ibv_create_cq",
		      .object = CHECK_HANDLE(cq), .number = cq->number,
		      .context = CHECK_HANDLE(context), .channel = CHECK_HANDLE(attr->channel),
		      .count = (uint32_t)cq->ibv.cqe,
		      .domain = allocator ? CHECK_HANDLE(allocator->pd) : 0,
		      .one_thread = attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS &&
				    attr->flags & IBV_CREATE_CQ_ATTR_SINGLE_THREADED);
	tsan_before(cq);
	return cq;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context,
			     struct ibv_comp_channel *channel, int comp_vector)
{
	CALL();
	struct ibv_cq_init_attr_ex attr = {
		.cqe = (uint32_t)cqe,
		.cq_context = cq_context,
		.channel = channel,
		.comp_vector = (uint32_t)comp_vector,
	};
	struct cq *cq;

	if (!context)
		return fail(refuse_null("ibv_create_cq", "context"));
	if (cqe < 1) {
		explain("ibv_create_cq: invalid cqe %d: expected at least 1", cqe);
		return fail(EINVAL);
	}
	cq = cq_create(context, &attr, NULL);
	return cq ? ibv_cq_ex_to_cq(&cq->ibv) : NULL;
}

int ibv_resize_cq(struct ibv_cq *cq, int cqe)
{
	CALL();

	if (!cq)
		return refuse_null("ibv_resize_cq", "cq");
	if (cqe < 1) {
		explain_refused("ibv_resize_cq", EINVAL,
				"ibv_resize_cq: invalid cqe %d: expected at least 1", cqe);
		return EINVAL;
	}
	return hca_resize_cq(to_cq(cq), cqe);
}

/* As Linux: bits that are not known are of a later release, and no bit at all is a mistake. */
int cq_modify_verb(struct ibv_cq *cq, struct ibv_modify_cq_attr *attr)
{
	CALL();

	if (!cq || !attr)
		return refuse_null("ibv_modify_cq", cq ? "cq_attr" : "cq");
	if (!attr->attr_mask) {
		explain_refused("ibv_modify_cq", EINVAL,
				"ibv_modify_cq: attr_mask is 0: expected IBV_CQ_ATTR_MODERATE (1)");
		return EINVAL;
	}
	if (attr->attr_mask & ~(uint32_t)IBV_CQ_ATTR_MODERATE)
		return refuse_verb("ibv_modify_cq", "attr_mask beyond IBV_CQ_ATTR_MODERATE (1)");
	return hca_moderate_cq(to_cq(cq), attr->moderate.cq_count, attr->moderate.cq_period);
}

int ibv_destroy_cq(struct ibv_cq *cq)
{
	CALL();
	uint64_t began_ns = tracepoint_began_ns();
	uint32_t number;
	int err;

	if (!cq)
		return refuse_null("ibv_destroy_cq", "cq");
	number = to_cq(cq)->number;
	verbs_checked_ending(CQ, "ibv_destroy_cq", cq);
	err = hca_destroy_cq(to_hca(cq->context), to_cq(cq));
	verbs_checked_ended(CQ, "ibv_destroy_cq", cq, err);
	verbs_traced("ibv_destroy_cq", began_ns, err, .cq = SOME(number));
	return err;
}

int cq_poll_verb(struct ibv_cq *cq, int count, struct ibv_wc *wc)
{
	CALL_TWIN();

	return hca_poll_cq(to_cq(cq), count, wc);
}

int cq_notify_verb(struct ibv_cq *cq, int solicited_only)
{
	CALL_TWIN();

	return verb_result(hca_req_notify_cq(to_cq(cq), solicited_only != 0));
}
