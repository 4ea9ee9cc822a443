/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared receive queues: ibv_create_srq(3), ibv_create_srq_ex(3), ibv_post_srq_ops(3). */
#include "verbs/check.h"
#include "verbs/trace.h"
#include "verbs/verbs.h"

static struct ibv_srq *srq_create(struct ibv_pd *pd, struct ibv_srq_init_attr_ex *attr)
{
	uint64_t began_ns = tracepoint_began_ns();
	struct ring_allocator *allocator = domain_allocator(pd);
	struct ibv_pd *parent = domain_is_parent(pd) ? pd : NULL;
	struct pd *domain;
	struct srq *srq;
	int err;

	err = domain_pd("ibv_create_srq", pd, &domain);
	if (err)
		return fail(err);
	attr->pd = &domain->ibv;
	/* Drivers of adapters do not count SRQs in a parent domain. */
	if (allocator && !allocator->alloc)
		allocator = NULL;
	err = verbs_asked(.kind = CHECK_SRQ, .call = "ibv_create_srq",
			  .max_recv_wr = attr->attr.max_wr, .max_recv_sge = attr->attr.max_sge);
	if (!err)
		err = hca_create_srq_in(to_hca(pd->context), attr, allocator, &srq);
	verbs_traced("ibv_create_srq", began_ns, err, .device = pd->context->device->name);
	if (err)
		return fail(err);
	srq->ibv.context = pd->context;
	srq->ibv.srq_context = attr->srq_context;
	srq->ibv.pd = attr->pd;
	verbs_checked(.what = CHECK_MADE, .kind = CHECK_SRQ, .call = "ibv_create_srq",
		      .object = CHECK_HANDLE(srq), .context = CHECK_HANDLE(pd->context),
		      .pd = CHECK_HANDLE(domain), .domain = CHECK_HANDLE(parent),
		      .max_recv_sge = attr->attr.max_sge);
	return &srq->ibv;
}

struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	CALL();
	struct ibv_srq_init_attr_ex full = { 0 };
	struct ibv_srq *srq;

	if (!pd || !attr)
		return fail(refuse_null("ibv_create_srq", pd ? "srq_init_attr" : "pd"));
	full.srq_context = attr->srq_context;
	full.attr = attr->attr;
	full.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD;
	full.srq_type = IBV_SRQT_BASIC;
	srq = srq_create(pd, &full);
	if (srq)
		attr->attr = full.attr;
	return srq;
}

/* Reached from ibv_create_srq_ex() only with something more than a type and a PD. */
struct ibv_srq *srq_create_ex_verb(struct ibv_context *context, struct ibv_srq_init_attr_ex *attr)
{
	CALL();
	struct ibv_srq_init_attr_ex full;
	struct ibv_srq *srq;

	if (!context || !attr)
		return fail(refuse_null("ibv_create_srq_ex", context ? "attr" : "context"));
	if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_PD) || !attr->pd)
		return fail(refuse_null("ibv_create_srq_ex", "pd (IBV_SRQ_INIT_ATTR_PD)"));
	if (attr->comp_mask >= IBV_SRQ_INIT_ATTR_RESERVED) {
		explain("ibv_create_srq_ex: comp_mask 0x%x has unknown bits",
			attr->comp_mask);
		return fail(EINVAL);
	}
	if (attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE && attr->srq_type == IBV_SRQT_TM &&
	    attr->comp_mask & IBV_SRQ_INIT_ATTR_CQ && attr->cq && !to_cq(attr->cq)->ibv.start_poll) {
		explain("create_srq_ex: a tag-matching SRQ needs a CQ of ibv_create_cq_ex: no other one tells the "
			"tag (ibv_wc_read_tm_info)");
		return fail(EINVAL);
	}
	full = *attr;
	srq = srq_create(attr->pd, &full);
	if (srq)
		attr->attr = full.attr;
	return srq;
}

int ibv_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask)
{
	CALL();

	if (!srq || !attr)
		return refuse_null("ibv_modify_srq", srq ? "srq_attr" : "srq");
	if (mask & IBV_SRQ_MAX_WR)
		tsan_renumber(&to_srq(srq)->queue.slots);
	return hca_modify_srq(to_srq(srq), attr, mask);
}

int ibv_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr)
{
	CALL();

	if (!srq || !attr)
		return refuse_null("ibv_query_srq", srq ? "srq_attr" : "srq");
	return hca_query_srq(to_srq(srq), attr);
}

int ibv_destroy_srq(struct ibv_srq *srq)
{
	CALL();
	uint64_t began_ns = tracepoint_began_ns();
	int err;

	if (!srq)
		return refuse_null("ibv_destroy_srq", "srq");
	tsan_emptied(&to_srq(srq)->queue.slots);
	verbs_checked_ending(SRQ, "ibv_destroy_srq", srq);
	err = hca_destroy_srq(to_hca(srq->context), to_srq(srq));
	verbs_checked_ended(SRQ, "ibv_destroy_srq", srq, err);
	verbs_traced("ibv_destroy_srq", began_ns, err);
	return err;
}

int srq_post_verb(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	CALL_TWIN();

	return verb_result(hca_post_srq_recv(to_srq(srq), wr, bad));
}

int srq_post_ops_verb(struct ibv_srq *srq, struct ibv_ops_wr *wr, struct ibv_ops_wr **bad)
{
	CALL();
	struct ibv_ops_wr *none;

	if (!srq || !wr)
		return refuse_null("post_srq_ops", srq ? "wr" : "srq");
	return (tsan_is_on() ? hca_tsan_post_srq_ops : hca_post_srq_ops)(to_srq(srq), wr, bad ? bad : &none);
}
