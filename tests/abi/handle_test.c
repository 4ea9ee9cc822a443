/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Handles that are no more, or never were, and objects of two contexts in one call: each call that takes objects
 * refuses them with EINVAL, and looks at none. Those whose structure was overwritten are refused with ENOENT. What
 * inline functions of the header would read is called through the tables.
 */
#include "fixture.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <unistd.h>

struct objects {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_td *td;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_srq *srq;
	struct ibv_qp *qp;
	struct ibv_xrcd *xrcd;
	struct ibv_mr *mr;
	struct ibv_mw *mw;
	struct ibv_dm *dm;
	struct ibv_wq *wq;
	struct ibv_rwq_ind_table *table;
	struct ibv_ah *ah;
	struct ibv_counters *counters;
	char memory[64];
};

static struct ibv_qp_init_attr_ex qp_init(struct objects *of)
{
	return (struct ibv_qp_init_attr_ex){
		.qp_type = IBV_QPT_RC, .send_cq = of->cq, .recv_cq = of->cq, .srq = of->srq, .pd = of->pd,
		.comp_mask = IBV_QP_INIT_ATTR_PD, .cap = { .max_send_wr = 4, .max_send_sge = 1 } };
}

static void make_ah(struct objects *of)
{
	struct ibv_ah_attr attr = { .is_global = 1, .port_num = 1 };

	for (int i = 0; i < 16 && !of->ah; i++) {
		attr.grh.sgid_index = (uint8_t)i;
		if (!ibv_query_gid(of->context, 1, i, &attr.grh.dgid) && IN6_IS_ADDR_V4MAPPED(attr.grh.dgid.raw))
			of->ah = ibv_create_ah(of->pd, &attr);
	}
}

static void make(struct objects *of, struct ibv_device *device)
{
	struct ibv_xrcd_init_attr xrcd = { .comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
					   .fd = -1, .oflags = O_CREAT };
	struct ibv_srq_init_attr srq = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct ibv_alloc_dm_attr dm = { .length = 4096 };
	struct ibv_rwq_ind_table_init_attr table = { .ind_tbl = &of->wq };
	struct ibv_counters_init_attr counters = { 0 };
	struct ibv_td_init_attr td = { 0 };
	struct ibv_wq_init_attr wq = { .wq_type = IBV_WQT_RQ, .max_wr = 4, .max_sge = 1 };
	struct ibv_qp_init_attr_ex init;

	memset(of, 0, sizeof(*of));
	of->context = ibv_open_device(device);
	of->pd = ibv_alloc_pd(of->context);
	of->td = ibv_alloc_td(of->context, &td);
	of->channel = ibv_create_comp_channel(of->context);
	of->cq = ibv_create_cq(of->context, 8, NULL, NULL, 0);
	of->srq = ibv_create_srq(of->pd, &srq);
	init = qp_init(of);
	of->qp = ibv_create_qp_ex(of->context, &init);
	of->xrcd = ibv_open_xrcd(of->context, &xrcd);
	of->mr = ibv_reg_mr(of->pd, of->memory, sizeof(of->memory), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	of->mw = ibv_alloc_mw(of->pd, IBV_MW_TYPE_1);
	of->dm = ibv_alloc_dm(of->context, &dm);
	wq.pd = of->pd;
	wq.cq = of->cq;
	of->wq = ibv_create_wq(of->context, &wq);
	of->table = ibv_create_rwq_ind_table(of->context, &table);
	of->counters = ibv_create_counters(of->context, &counters);
	make_ah(of);
	assert_true(of->pd && of->td && of->channel && of->cq && of->srq && of->qp && of->xrcd &&
		    of->mr && of->mw && of->dm && of->wq && of->table && of->counters && of->ah);
}

/* Each destruction once; in any other order it would be EBUSY. */
static void end(struct objects *of)
{
	assert_int_equal(ibv_destroy_counters(of->counters), 0);
	assert_int_equal(ibv_destroy_ah(of->ah), 0);
	assert_int_equal(ibv_destroy_rwq_ind_table(of->table), 0);
	assert_int_equal(ibv_destroy_wq(of->wq), 0);
	assert_int_equal(ibv_free_dm(of->dm), 0);
	assert_int_equal(ibv_dealloc_mw(of->mw), 0);
	assert_int_equal(ibv_dereg_mr(of->mr), 0);
	assert_int_equal(ibv_close_xrcd(of->xrcd), 0);
	assert_int_equal(ibv_destroy_qp(of->qp), 0);
	assert_int_equal(ibv_destroy_srq(of->srq), 0);
	assert_int_equal(ibv_destroy_cq(of->cq), 0);
	assert_int_equal(ibv_destroy_comp_channel(of->channel), 0);
	assert_int_equal(ibv_dealloc_td(of->td), 0);
	assert_int_equal(ibv_dealloc_pd(of->pd), 0);
}

#define NO(pointer)							\
	do {								\
		errno = 0;						\
		assert_null(pointer);					\
		assert_int_equal(errno, EINVAL);			\
	} while (0)
#define FAILS(answer)							\
	do {								\
		errno = 0;						\
		assert_int_equal(answer, EINVAL);			\
		assert_int_equal(errno, EINVAL);			\
	} while (0)

/*
 * Every create and modify call that takes objects: those of @my context, and one of @other, or one that is no
 * more, at each place in turn.
 */
static void refuse_all(struct objects *my, struct objects *other)
{
	struct verbs_context *verbs = verbs_get_ctx(my->context);
	struct ibv_qp_init_attr_ex good = qp_init(my), qp = good;
	struct ibv_srq_init_attr_ex good_srq = {
		.attr = { .max_wr = 4, .max_sge = 1 }, .srq_type = IBV_SRQT_XRC, .pd = my->pd, .cq = my->cq,
		.xrcd = my->xrcd, .comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
					       IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_XRCD }, srq = good_srq;
	struct ibv_wq_init_attr wq = { .wq_type = IBV_WQT_RQ, .max_wr = 4, .max_sge = 1, .pd = other->pd,
				       .cq = my->cq };
	struct ibv_rwq_ind_table_init_attr table = { .ind_tbl = &other->wq };
	struct ibv_cq_init_attr_ex cq = { .cqe = 4, .channel = other->channel };
	struct ibv_parent_domain_init_attr domain = { .pd = other->pd };
	struct ibv_qp_open_attr open = { .comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD |
						      IBV_QP_OPEN_ATTR_TYPE,
					 .qp_num = 1, .xrcd = other->xrcd, .qp_type = IBV_QPT_XRC_RECV };
	struct ibv_mw_bind bind = {
		.bind_info = {.mr = other->mr, .addr = (uintptr_t)other->memory, .length = 8}};
	struct {
		struct ibv_flow_attr attr;
		struct ibv_flow_spec_counter_action count;
	} flow = { .attr = { .num_of_specs = 1, .size = sizeof(flow), .port = 1 },
		   .count = { IBV_FLOW_SPEC_ACTION_COUNT, sizeof(flow.count), other->counters } };

	qp.send_cq = other->cq;
	NO(ibv_create_qp(my->pd, (struct ibv_qp_init_attr *)&qp));
	NO(verbs->create_qp_ex(my->context, &qp));
	qp = good;
	qp.recv_cq = other->cq;
	NO(ibv_create_qp(my->pd, (struct ibv_qp_init_attr *)&qp));
	NO(verbs->create_qp_ex(my->context, &qp));
	qp = good;
	qp.srq = other->srq;
	NO(ibv_create_qp(my->pd, (struct ibv_qp_init_attr *)&qp));
	NO(verbs->create_qp_ex(my->context, &qp));
	qp = good;
	qp.pd = other->pd;
	NO(verbs->create_qp_ex(my->context, &qp));
	NO(ibv_create_qp(other->pd, (struct ibv_qp_init_attr *)&good));
	qp = good;
	qp.qp_type = IBV_QPT_XRC_RECV;
	qp.comp_mask = IBV_QP_INIT_ATTR_XRCD;
	qp.xrcd = other->xrcd;
	NO(verbs->create_qp_ex(my->context, &qp));
	qp = good;
	qp.qp_type = IBV_QPT_RAW_PACKET;
	qp.comp_mask |= IBV_QP_INIT_ATTR_IND_TABLE;
	qp.rwq_ind_tbl = other->table;
	NO(verbs->create_qp_ex(my->context, &qp));
	srq.pd = other->pd;
	NO(verbs->create_srq_ex(my->context, &srq));
	srq = good_srq;
	srq.cq = other->cq;
	NO(verbs->create_srq_ex(my->context, &srq));
	srq = good_srq;
	srq.xrcd = other->xrcd;
	NO(verbs->create_srq_ex(my->context, &srq));
	NO(verbs->create_wq(my->context, &wq));
	wq.pd = my->pd;
	wq.cq = other->cq;
	NO(verbs->create_wq(my->context, &wq));
	NO(verbs->create_rwq_ind_table(my->context, &table));
	NO(ibv_create_cq(my->context, 4, NULL, other->channel, 0));
	NO(verbs->create_cq_ex(my->context, &cq));
	cq = (struct ibv_cq_init_attr_ex){ .cqe = 4, .comp_mask = IBV_CQ_INIT_ATTR_MASK_PD,
					   .parent_domain = other->pd };
	NO(verbs->create_cq_ex(my->context, &cq));
	NO(verbs->alloc_parent_domain(my->context, &domain));
	domain.pd = my->pd;
	domain.td = other->td;
	NO(verbs->alloc_parent_domain(my->context, &domain));
	NO(verbs->open_qp(my->context, &open));
	NO(verbs->reg_dm_mr(my->pd, other->dm, 0, 64, 0));
	NO(verbs->ibv_create_flow(my->qp, &flow.attr));
	errno = 0;
	assert_int_equal(ibv_rereg_mr(my->mr, IBV_REREG_MR_CHANGE_PD, other->pd, NULL, 0, 0), -1);
	/* pyverbs leaves in it what was there. */
	assert_int_equal(ibv_rereg_mr(my->mr, IBV_REREG_MR_CHANGE_ACCESS, other->pd, NULL, 0,
				      IBV_ACCESS_LOCAL_WRITE), 0);
	assert_int_equal(errno, EINVAL);
	FAILS(my->context->ops.bind_mw(my->qp, other->mw, &bind));
	FAILS(my->context->ops.bind_mw(my->qp, my->mw, &bind));
}

static void objects_of_two_contexts_are_refused(void **state)
{
	struct ibv_device *device = context_of(state)->device;
	struct objects a, b;

	make(&a, device);
	make(&b, device);
	refuse_all(&a, &b);
	refuse_all(&b, &a);
	end(&a);
	end(&b);
	assert_int_equal(ibv_close_device(a.context), 0);
	assert_int_equal(ibv_close_device(b.context), 0);
}

/* Calls on one object: all of its kind. */
static void refuse_dead(struct ibv_context *context, struct objects *dead)
{
	struct verbs_context *verbs = verbs_get_ctx(context);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	struct ibv_ah_attr ah = { .port_num = 1 };
	struct ibv_srq_attr limit = { .srq_limit = 1 };
	struct ibv_modify_cq_attr moderation = { .attr_mask = IBV_CQ_ATTR_MODERATE };
	struct ibv_counter_attach_attr attach = { .counter_desc = IBV_COUNTER_PACKETS };
	struct ibv_srq_init_attr srq = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct ibv_wq_attr wq = { .attr_mask = IBV_WQ_ATTR_STATE, .wq_state = IBV_WQS_RDY };
	struct ibv_qp_init_attr init;
	union ibv_gid gid = { .raw = { 0xff } };
	struct ibv_sge sge = { 0 };
	struct ibv_cq *cq;
	void *cq_context;
	uint64_t value;
	uint32_t number;

	FAILS(ibv_dealloc_pd(dead->pd));
	NO(ibv_reg_mr(dead->pd, dead->memory, 8, 0));
	NO(ibv_reg_mr_iova(dead->pd, dead->memory, 8, 0, 0));
	NO(ibv_create_srq(dead->pd, &srq));
	NO(ibv_create_ah(dead->pd, &ah));
	NO(ibv_import_mr(dead->pd, 1));
	NO(context->ops.alloc_mw(dead->pd, IBV_MW_TYPE_1));
	NO(verbs->alloc_null_mr(dead->pd));
	FAILS(verbs->advise_mr(dead->pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 1));
	FAILS(verbs->dealloc_td(dead->td));
	FAILS(ibv_dereg_mr(dead->mr));
	FAILS(context->ops.dealloc_mw(dead->mw));
	FAILS(verbs->free_dm(dead->dm));
	FAILS(ibv_destroy_comp_channel(dead->channel));
	errno = 0;
	assert_int_equal(ibv_get_cq_event(dead->channel, &cq, &cq_context), -1);
	assert_int_equal(errno, EINVAL);
	FAILS(ibv_destroy_cq(dead->cq));
	FAILS(ibv_resize_cq(dead->cq, 16));
	FAILS(verbs->modify_cq(dead->cq, &moderation));
	FAILS(ibv_destroy_srq(dead->srq));
	FAILS(ibv_modify_srq(dead->srq, &limit, IBV_SRQ_LIMIT));
	FAILS(ibv_query_srq(dead->srq, &limit));
	FAILS(verbs->get_srq_num(dead->srq, &number));
	FAILS(ibv_destroy_qp(dead->qp));
	FAILS(ibv_modify_qp(dead->qp, &attr, IBV_QP_STATE));
	FAILS(ibv_query_qp(dead->qp, &attr, IBV_QP_STATE, &init));
	FAILS(ibv_attach_mcast(dead->qp, &gid, 0));
	FAILS(ibv_detach_mcast(dead->qp, &gid, 0));
	FAILS(ibv_destroy_ah(dead->ah));
	FAILS(verbs->close_xrcd(dead->xrcd));
	FAILS(verbs->modify_wq(dead->wq, &wq));
	FAILS(verbs->destroy_wq(dead->wq));
	FAILS(verbs->destroy_rwq_ind_table(dead->table));
	FAILS(verbs->attach_counters_point_flow(dead->counters, &attach, NULL));
	FAILS(verbs->read_counters(dead->counters, &value, 1, 0));
	FAILS(verbs->destroy_counters(dead->counters));
	FAILS(verbs->ibv_destroy_flow((struct ibv_flow *)dead->qp));
}

static void handles_that_are_no_more_are_refused(void **state)
{
	struct ibv_context *context = context_of(state);
	struct objects live, dead, garbage;
	void **pointer = (void **)&garbage;

	make(&live, context->device);
	make(&dead, context->device);
	end(&dead);
	refuse_dead(live.context, &dead);
	refuse_all(&live, &dead);
	assert_int_equal(ibv_close_device(dead.context), 0);
	for (size_t i = 0; i < offsetof(struct objects, memory) / sizeof(void *); i++)
		pointer[i] = (void *)(0x1000 + i);	/* where nothing is */
	refuse_dead(live.context, &garbage);
	refuse_all(&live, &garbage);
	end(&live);
	assert_int_equal(ibv_close_device(live.context), 0);
}

/* As in Linux, where they end with the file: what is left of a closed context is no more, and is not followed. */
static void what_a_closed_context_leaves_is_refused(void **state)
{
	struct ibv_context *context = context_of(state);
	struct ibv_device_attr attr;
	struct objects left;

	make(&left, context->device);
	assert_int_equal(ibv_close_device(left.context), 0);
	refuse_dead(context, &left);
	errno = 0;
	assert_int_equal(ibv_close_device(left.context), -1);
	assert_int_equal(errno, EINVAL);
	NO(ibv_alloc_pd(left.context));
	FAILS(ibv_query_device(left.context, &attr));
}

/* Contexts of one file share objects, as an adapter's do. */
static void an_imported_context_shares_the_objects(void **state)
{
	struct ibv_context *context = context_of(state), *imported = ibv_import_device(dup(context->cmd_fd));
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_cq *cq;
	struct ibv_qp *qp;

	assert_non_null(imported);
	cq = ibv_create_cq(imported, 4, NULL, NULL, 0);
	assert_true(pd && cq);
	qp = ibv_create_qp(pd, &(struct ibv_qp_init_attr){ .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_UD,
							   .cap = { 4, 4, 1, 1, 0 } });
	assert_non_null(qp);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_cq(cq), 0);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
	assert_int_equal(ibv_close_device(imported), 0);
}

/* What a call fills in may have been anything. */
static void what_a_query_fills_in_is_not_looked_at(void **state)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct objects of;

	make(&of, context_of(state)->device);
	memset(&init, 0x5a, sizeof(init));
	assert_int_equal(ibv_query_qp(of.qp, &attr, IBV_QP_STATE, &init), 0);
	assert_ptr_equal(init.send_cq, of.cq);
	end(&of);
	assert_int_equal(ibv_close_device(of.context), 0);
}

/* XRC_SEND has no receive queue: Linux looks for neither its recv_cq nor its SRQ. */
static void what_a_qp_has_no_use_for_is_not_looked_at(void **state)
{
	struct ibv_qp_init_attr_ex attr;
	struct objects of;
	struct ibv_qp *qp;

	make(&of, context_of(state)->device);
	attr = qp_init(&of);
	attr.qp_type = IBV_QPT_XRC_SEND;
	attr.recv_cq = (void *)of.memory;
	attr.srq = (void *)of.memory;
	qp = ibv_create_qp_ex(of.context, &attr);
	assert_non_null(qp);
	assert_null(qp->srq);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	attr.qp_type = IBV_QPT_RC;
	assert_null(ibv_create_qp_ex(of.context, &attr));
	assert_int_equal(errno, EINVAL);
	end(&of);
	assert_int_equal(ibv_close_device(of.context), 0);
}

/* @member has another value while @call is made. */
#define OVERWRITTEN(member, call)					\
	do {								\
		__typeof__(member) was = member;			\
									\
		memset(&(member), 0x5a, sizeof(member));		\
		errno = 0;						\
		assert_int_equal(call, ENOENT);				\
		assert_int_equal(errno, ENOENT);			\
		member = was;						\
	} while (0)

/* An adapter's kernel finds no object of that number in the file of that context. */
static void an_object_whose_handle_was_overwritten_is_not_found(void **state)
{
	struct ibv_qp_init_attr_ex init;
	struct ibv_qp_init_attr filled;
	struct ibv_qp_attr attr;
	struct ibv_mw_bind bind;
	struct objects of;
	uint32_t number;

	make(&of, context_of(state)->device);
	bind = (struct ibv_mw_bind){ .bind_info = { .mr = of.mr, .addr = (uintptr_t)of.memory, .length = 8 } };
	OVERWRITTEN(of.ah->handle, ibv_destroy_ah(of.ah));
	OVERWRITTEN(of.table->ind_tbl_handle, ibv_destroy_rwq_ind_table(of.table));
	OVERWRITTEN(of.wq->handle, ibv_destroy_wq(of.wq));
	OVERWRITTEN(of.dm->handle, ibv_free_dm(of.dm));
	OVERWRITTEN(of.mw->handle, ibv_dealloc_mw(of.mw));
	OVERWRITTEN(of.mr->handle, ibv_dereg_mr(of.mr));
	OVERWRITTEN(of.qp->handle, ibv_query_qp(of.qp, &attr, IBV_QP_STATE, &filled));
	OVERWRITTEN(of.qp->handle, ibv_modify_qp(of.qp, &attr, 0));
	OVERWRITTEN(of.qp->handle, ibv_destroy_qp(of.qp));
	OVERWRITTEN(of.srq->handle, ibv_destroy_srq(of.srq));
	OVERWRITTEN(of.cq->handle, ibv_destroy_cq(of.cq));
	OVERWRITTEN(of.pd->handle, ibv_dealloc_pd(of.pd));
	OVERWRITTEN(of.pd->context, ibv_dealloc_pd(of.pd));
	OVERWRITTEN(of.channel->context, ibv_destroy_comp_channel(of.channel));
	/* Not this one, which adapters carry out without the kernel: the QP is in RESET. */
	number = of.mr->handle;
	of.mr->handle++;
	assert_int_equal(ibv_bind_mw(of.qp, of.mw, &bind), EINVAL);
	of.mr->handle = number;
	init = qp_init(&of);
	number = of.cq->handle;
	of.cq->handle++;
	errno = 0;
	assert_null(ibv_create_qp_ex(of.context, &init));
	assert_int_equal(errno, ENOENT);
	of.cq->handle = number;
	end(&of);
	assert_int_equal(ibv_close_device(of.context), 0);
}

/* A shared target is good until its last open ends. */
static void a_handle_that_was_opened_twice_is_good_until_both_end(void **state)
{
	struct ibv_context *context = context_of(state);
	struct ibv_xrcd_init_attr xrcd_init = { .comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
						.fd = -1, .oflags = O_CREAT };
	struct ibv_xrcd *xrcd = ibv_open_xrcd(context, &xrcd_init);
	struct ibv_qp_init_attr_ex init = { .qp_type = IBV_QPT_XRC_RECV, .comp_mask = IBV_QP_INIT_ATTR_XRCD,
					    .xrcd = xrcd };
	struct ibv_qp *qp = ibv_create_qp_ex(context, &init), *again;
	struct ibv_qp_open_attr open = { .comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD |
						      IBV_QP_OPEN_ATTR_TYPE,
					 .xrcd = xrcd, .qp_type = IBV_QPT_XRC_RECV };

	assert_non_null(qp);
	open.qp_num = qp->qp_num;
	again = ibv_open_qp(context, &open);
	assert_non_null(again);
	assert_int_equal(ibv_destroy_qp(again), 0);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	FAILS(ibv_destroy_qp(qp));
	assert_int_equal(ibv_close_xrcd(xrcd), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		test_with_device(objects_of_two_contexts_are_refused),
		test_with_device(handles_that_are_no_more_are_refused),
		test_with_device(what_a_closed_context_leaves_is_refused),
		test_with_device(an_imported_context_shares_the_objects),
		test_with_device(what_a_query_fills_in_is_not_looked_at),
		test_with_device(what_a_qp_has_no_use_for_is_not_looked_at),
		test_with_device(an_object_whose_handle_was_overwritten_is_not_found),
		test_with_device(a_handle_that_was_opened_twice_is_good_until_both_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
