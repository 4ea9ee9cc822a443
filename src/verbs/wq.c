/* SPDX-License-Identifier: BSD-2-Clause */
/* Work queues: ibv_create_wq(3), ibv_modify_wq(3), ibv_post_wq_recv(3), ibv_create_rwq_ind_table(3). */
#include "verbs/check.h"
#include "verbs/verbs.h"

static int wq_post_verb(struct ibv_wq *wq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	CALL_TWIN();

	return hca_post_wq_recv(to_wq(wq), wr, bad);
}

/* The header's inline function fills in wq_context, and what counts events. */
struct ibv_wq *wq_create_verb(struct ibv_context *context, struct ibv_wq_init_attr *attr)
{
	CALL();
	struct ibv_wq_init_attr full;
	struct pd *pd;
	struct wq *wq;
	int err;

	if (!context || !attr || !attr->pd)
		return fail(refuse_null("ibv_create_wq",
				!context ? "context" : attr ? "pd" : "wq_init_attr"));
	if (attr->comp_mask >= IBV_WQ_INIT_ATTR_RESERVED) {
		explain("ibv_create_wq: comp_mask 0x%x has unknown bits", attr->comp_mask);
		return fail(EINVAL);
	}
	full = *attr;
	err = domain_pd("ibv_create_wq", attr->pd, &pd);
	if (err)
		return fail(err);
	full.pd = &pd->ibv;
	err = hca_create_wq(to_hca(context), &full, &wq);
	if (err)
		return fail(err);
	wq->ibv.context = context;
	wq->ibv.post_recv = tsan_is_on() ? wq_post_recv_tsan : wq_post_verb;
	attr->max_wr = full.max_wr;
	attr->max_sge = full.max_sge;
	verbs_checked_made(WQ, "ibv_create_wq", wq, .context = CHECK_HANDLE(context),
			   .pd = CHECK_HANDLE(pd), .recv_cq = CHECK_HANDLE(attr->cq));
	return &wq->ibv;
}

int wq_modify_verb(struct ibv_wq *wq, struct ibv_wq_attr *attr)
{
	CALL();
	int err;

	if (!wq || !attr)
		return refuse_null("ibv_modify_wq", wq ? "wq_attr" : "wq");
	err = hca_modify_wq(to_wq(wq), attr);
	if (!err && attr->attr_mask & IBV_WQ_ATTR_STATE && attr->wq_state == IBV_WQS_RESET)
		tsan_emptied(&to_wq(wq)->queue.slots);
	return err;
}

int wq_destroy_verb(struct ibv_wq *wq)
{
	CALL();
	int err;

	if (!wq)
		return refuse_null("ibv_destroy_wq", "wq");
	tsan_emptied(&to_wq(wq)->queue.slots);
	verbs_checked_ending(WQ, "ibv_destroy_wq", wq);
	err = hca_destroy_wq(to_hca(wq->context), to_wq(wq));
	verbs_checked_ended(WQ, "ibv_destroy_wq", wq, err);
	return err;
}

struct ibv_rwq_ind_table *rwq_table_create_verb(struct ibv_context *context,
						struct ibv_rwq_ind_table_init_attr *attr)
{
	CALL();
	struct rwq_table *table;
	int err;

	if (!context || !attr)
		return fail(refuse_null("ibv_create_rwq_ind_table", context ? "init_attr" : "context"));
	err = hca_create_rwq_table(to_hca(context), attr, &table);
	if (err)
		return fail(err);
	table->ibv.context = context;
	verbs_checked_made(TABLE, "ibv_create_rwq_ind_table", table,
			   .context = CHECK_HANDLE(context), .other = CHECK_HANDLE(attr->ind_tbl[0]));
	return &table->ibv;
}

int rwq_table_destroy_verb(struct ibv_rwq_ind_table *table)
{
	CALL();
	int err;

	if (!table)
		return refuse_null("ibv_destroy_rwq_ind_table", "rwq_ind_table");
	verbs_checked_ending(TABLE, "ibv_destroy_rwq_ind_table", table);
	err = hca_destroy_rwq_table(to_hca(table->context), to_rwq_table(table));
	verbs_checked_ended(TABLE, "ibv_destroy_rwq_ind_table", table, err);
	return err;
}
