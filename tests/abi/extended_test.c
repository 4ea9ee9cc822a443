/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Verbs beyond the first release of the ABI, as programs call them: what they accept, the errors of
 * their man pages, and what ibv_query_device_ex(3) promises of them.
 */
#include "fixture.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "object/placement.h"

static struct ibv_device_attr_ex attributes_of(struct ibv_context *context)
{
	struct ibv_device_attr_ex attr;

	assert_int_equal(ibv_query_device_ex(context, NULL, &attr), 0);
	return attr;
}

static void cq_moderation_is_within_the_promised_limits(void **state)
{
	struct ibv_context *context = context_of(state);
	struct ibv_device_attr_ex device = attributes_of(context);
	struct ibv_cq *cq = ibv_create_cq(context, 16, NULL, NULL, 0);
	struct ibv_modify_cq_attr attr = { .attr_mask = IBV_CQ_ATTR_MODERATE };

	assert_non_null(cq);
	assert_int_equal(device.cq_mod_caps.max_cq_count, UINT16_MAX);
	assert_int_equal(device.cq_mod_caps.max_cq_period, UINT16_MAX);
	attr.moderate.cq_count = device.cq_mod_caps.max_cq_count;
	attr.moderate.cq_period = device.cq_mod_caps.max_cq_period;
	assert_int_equal(ibv_modify_cq(cq, &attr), 0);
	attr.moderate.cq_count = attr.moderate.cq_period = 0;
	assert_int_equal(ibv_modify_cq(cq, &attr), 0);
	assert_int_equal(ibv_modify_cq(cq, NULL), EINVAL);
	attr.attr_mask = 0;
	assert_int_equal(ibv_modify_cq(cq, &attr), EINVAL);
	attr.attr_mask = IBV_CQ_ATTR_MODERATE | IBV_CQ_ATTR_RESERVED;
	assert_int_equal(ibv_modify_cq(cq, &attr), EOPNOTSUPP);
	assert_int_equal(ibv_destroy_cq(cq), 0);
}

/* ---- a queue pair that is connected to itself ---- */

struct loop {
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct ibv_qp *qp;
	uint64_t words[8];
};

static void loop_connect(struct ibv_context *context, struct ibv_qp *qp, unsigned access)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = access };

	assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				       IBV_QP_ACCESS_FLAGS), 0);
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = qp->qp_num,
				     .max_dest_rd_atomic = 4, .min_rnr_timer = 1,
				     .ah_attr = { .is_global = 1, .port_num = 1, .grh.hop_limit = 1 } };
	assert_int_equal(ibv_query_gid(context, 1, 0, &attr.ah_attr.grh.dgid), 0);
	assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				       IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER), 0);
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7,
				     .max_rd_atomic = 4 };
	assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT |
				       IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				       IBV_QP_MAX_QP_RD_ATOMIC), 0);
}

static void loop_open(struct loop *loop, struct ibv_context *context, uint64_t operations)
{
	const unsigned access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
				ACCESS_FLUSH_GLOBAL;
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = IBV_QPT_RC, .cap = { 8, 8, 1, 1, 0 }, .send_ops_flags = operations,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
	};

	memset(loop, 0, sizeof(*loop));
	loop->pd = attr.pd = ibv_alloc_pd(context);
	loop->cq = attr.send_cq = attr.recv_cq = ibv_create_cq(context, 16, NULL, NULL, 0);
	loop->mr = ibv_reg_mr(loop->pd, loop->words, sizeof(loop->words), (int)access);
	loop->qp = ibv_create_qp_ex(context, &attr);
	assert_non_null(loop->mr);
	assert_non_null(loop->qp);
	loop_connect(context, loop->qp, access);
}

static void loop_close(struct loop *loop)
{
	assert_int_equal(ibv_destroy_qp(loop->qp), 0);
	assert_int_equal(ibv_dereg_mr(loop->mr), 0);
	assert_int_equal(ibv_destroy_cq(loop->cq), 0);
	assert_int_equal(ibv_dealloc_pd(loop->pd), 0);
}

static struct ibv_wc loop_completion(struct loop *loop)
{
	struct timespec begin, now;
	struct ibv_wc wc = { .status = IBV_WC_GENERAL_ERR };

	clock_gettime(CLOCK_MONOTONIC, &begin);
	do
		clock_gettime(CLOCK_MONOTONIC, &now);
	while (!ibv_poll_cq(loop->cq, 1, &wc) && now.tv_sec - begin.tv_sec < 5);
	return wc;
}

/* ---- FLUSH and ATOMIC_WRITE ---- */

typedef void wr_flush_fn(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t address, size_t bytes, uint8_t type,
			 uint8_t level);

/* As headers since rdma-core 45 have it: the call behind wr_atomic_write. */
static void flush(struct loop *loop, uint8_t type)
{
	struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(loop->qp);
	wr_flush_fn *call = *(wr_flush_fn **)(&qp->wr_atomic_write + 1);

	qp->wr_flags = IBV_SEND_SIGNALED;
	call(qp, loop->mr->rkey, (uintptr_t)loop->words, sizeof(loop->words), type, FLUSH_LEVEL_RANGE);
}

static void a_word_is_written_and_flushed(void **state)
{
	struct ibv_context *context = context_of(state);
	struct ibv_device_attr_ex device = attributes_of(context);
	const uint64_t word = 0x0123456789abcdef;
	struct loop loop;
	struct ibv_qp_ex *qp;
	struct ibv_wc wc;

	assert_true(device.device_cap_flags_ex & DEVICE_FLUSH_GLOBAL);
	assert_true(device.device_cap_flags_ex & DEVICE_ATOMIC_WRITE);
	loop_open(&loop, context, QP_EX_WITH_FLUSH | QP_EX_WITH_ATOMIC_WRITE);
	qp = ibv_qp_to_qp_ex(loop.qp);
	ibv_wr_start(qp);
	qp->wr_id = 1;
	qp->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_atomic_write(qp, loop.mr->rkey, (uintptr_t)&loop.words[3], (void *)(uintptr_t)&word);
	qp->wr_id = 2;
	flush(&loop, FLUSH_GLOBAL);
	assert_int_equal(ibv_wr_complete(qp), 0);
	wc = loop_completion(&loop);
	assert_int_equal(wc.wr_id, 1);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.opcode, WC_ATOMIC_WRITE);
	assert_true(loop.words[3] == word && !loop.words[2] && !loop.words[4]);
	wc = loop_completion(&loop);
	assert_int_equal(wc.wr_id, 2);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.opcode, WC_FLUSH);

	ibv_wr_start(qp);
	flush(&loop, 0);
	assert_int_equal(ibv_wr_complete(qp), EINVAL);
	loop_close(&loop);
}

/* ibv_post_send() takes the word from an SGE; it has no place for what a FLUSH needs. */
static void a_word_can_be_posted_and_a_flush_cannot(void **state)
{
	struct loop loop;
	struct ibv_sge sge = { .length = 8 };
	struct ibv_send_wr wr = { .opcode = (enum ibv_wr_opcode)WR_ATOMIC_WRITE, .send_flags = IBV_SEND_SIGNALED,
				  .sg_list = &sge, .num_sge = 1 }, *bad;

	loop_open(&loop, context_of(state), QP_EX_WITH_FLUSH);
	loop.words[0] = 77;
	sge.addr = (uintptr_t)loop.words;
	sge.lkey = loop.mr->lkey;
	wr.wr.rdma.remote_addr = (uintptr_t)&loop.words[1];
	wr.wr.rdma.rkey = loop.mr->rkey;
	assert_int_equal(ibv_post_send(loop.qp, &wr, &bad), 0);
	assert_int_equal(loop_completion(&loop).status, IBV_WC_SUCCESS);
	assert_true(loop.words[1] == 77);
	sge.length = 4;
	assert_int_equal(ibv_post_send(loop.qp, &wr, &bad), EINVAL);
	sge.length = 8;
	wr.opcode = (enum ibv_wr_opcode)WR_FLUSH;
	assert_int_equal(ibv_post_send(loop.qp, &wr, &bad), EINVAL);
	loop_close(&loop);
}

/* Of a software device persistence cannot be had: said when memory is registered for it. */
static void persistence_is_refused_at_registration(void **state)
{
	struct ibv_context *context = context_of(state);
	struct ibv_pd *pd = ibv_alloc_pd(context);
	char memory[64];

	assert_refused(ibv_reg_mr(pd, memory, sizeof(memory), (int)ACCESS_FLUSH_PERSISTENT), EOPNOTSUPP);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
}

/* ---- null regions, advice, ECE ---- */

static void a_read_into_a_null_region_goes_nowhere(void **state)
{
	struct ibv_context *context = context_of(state);
	struct ibv_sge sge = { .addr = 0x1000, .length = 32 };
	struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_READ, .send_flags = IBV_SEND_SIGNALED,
				  .sg_list = &sge, .num_sge = 1 }, *bad;
	struct ibv_mr *null;
	struct loop loop;

	loop_open(&loop, context, IBV_QP_EX_WITH_RDMA_READ);
	null = ibv_alloc_null_mr(loop.pd);
	assert_non_null(null);
	assert_ptr_equal(null->pd, loop.pd);
	assert_ptr_equal(null->context, context);
	sge.lkey = null->lkey;
	wr.wr.rdma.remote_addr = (uintptr_t)loop.words;
	wr.wr.rdma.rkey = loop.mr->rkey;
	assert_int_equal(ibv_post_send(loop.qp, &wr, &bad), 0);
	assert_int_equal(loop_completion(&loop).status, IBV_WC_SUCCESS);
	wr.opcode = IBV_WR_RDMA_WRITE;
	memset(loop.words, 0xff, sizeof(loop.words));
	assert_int_equal(ibv_post_send(loop.qp, &wr, &bad), 0);
	assert_int_equal(loop_completion(&loop).status, IBV_WC_SUCCESS);
	assert_true(!loop.words[0] && !loop.words[3] && loop.words[4] == UINT64_MAX);
	assert_int_equal(ibv_dereg_mr(null), 0);
	loop_close(&loop);
}

/* As with libibverbs: of an error a program hears by completions, events and queries, not by its structure. */
static void the_state_in_the_structure_is_that_of_the_last_modify_or_query(void **state)
{
	struct ibv_context *context = context_of(state);
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct ibv_sge sge;
	struct ibv_send_wr *bad, wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND };
	struct loop loop;

	loop_open(&loop, context, IBV_QP_EX_WITH_SEND);
	assert_int_equal(loop.qp->state, IBV_QPS_RTS);
	sge = (struct ibv_sge){ (uintptr_t)loop.words, 8, loop.mr->lkey ^ 1 };
	assert_int_equal(ibv_post_send(loop.qp, &wr, &bad), 0);
	assert_int_equal(loop_completion(&loop).status, IBV_WC_LOC_PROT_ERR);
	assert_int_equal(loop.qp->state, IBV_QPS_RTS);
	assert_int_equal(ibv_query_qp(loop.qp, &attr, IBV_QP_AV | IBV_QP_DEST_QPN, &init), 0);
	assert_int_equal(loop.qp->state, IBV_QPS_RTS);
	assert_int_equal(ibv_query_qp(loop.qp, &attr, IBV_QP_STATE, &init), 0);
	assert_int_equal(attr.qp_state, IBV_QPS_ERR);
	assert_int_equal(loop.qp->state, IBV_QPS_ERR);
	loop_close(&loop);
}

static void advice_is_taken(void **state)
{
	struct ibv_context *context = context_of(state);
	struct ibv_pd *pd = ibv_alloc_pd(context);
	char memory[64];
	struct ibv_mr *mr = ibv_reg_mr(pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND);
	struct ibv_sge sge = { (uintptr_t)memory, sizeof(memory), mr->lkey };

	assert_int_equal(ibv_advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH, IBV_ADVISE_MR_FLAG_FLUSH, &sge, 1), 0);
	assert_int_equal(ibv_advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, 0, &sge, 1), 0);
	sge.lkey ^= 1;
	assert_int_equal(ibv_advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 1), EFAULT);
	assert_int_equal(ibv_advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, NULL, 1), EINVAL);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
}

/* All memory is paged in on demand, also the whole address space as one region. */
static void odp_is_what_the_device_says(void **state)
{
	struct ibv_context *context = context_of(state);
	struct ibv_device_attr_ex device = attributes_of(context);
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_mr *mr;

	assert_int_equal(device.odp_caps.general_caps, IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT);
	assert_true(device.odp_caps.per_transport_caps.rc_odp_caps & IBV_ODP_SUPPORT_ATOMIC);
	assert_false(device.odp_caps.per_transport_caps.ud_odp_caps & IBV_ODP_SUPPORT_WRITE);
	mr = ibv_reg_mr(pd, NULL, SIZE_MAX, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND);
	assert_non_null(mr);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
}

static void ece_is_agreed_before_rtr(void **state)
{
	struct ibv_context *context = context_of(state);
	struct ibv_device_attr_ex device = attributes_of(context);
	struct ibv_ece ece = { .options = 1, .comp_mask = 1 }, other;
	struct loop loop;
	struct ibv_qp_init_attr attr = { .qp_type = IBV_QPT_RC, .cap = { 1, 1, 1, 1, 0 } };
	struct ibv_qp *qp;

	loop_open(&loop, context, IBV_QP_EX_WITH_RDMA_READ);
	attr.send_cq = attr.recv_cq = loop.cq;
	qp = ibv_create_qp(loop.pd, &attr);
	assert_int_equal(ibv_query_ece(qp, &ece), 0);
	assert_int_equal(ece.vendor_id, device.orig_attr.vendor_id);
	assert_int_equal(ece.options | ece.comp_mask, 0);
	ece.options = 0x80000001;
	assert_int_equal(ibv_set_ece(qp, &ece), 0);
	assert_int_equal(ece.options, 0);
	other = (struct ibv_ece){ .vendor_id = 0x15b3 };
	assert_int_equal(ibv_set_ece(qp, &other), EINVAL);
	other = (struct ibv_ece){ .vendor_id = ece.vendor_id, .comp_mask = 1 };
	assert_int_equal(ibv_set_ece(qp, &other), EINVAL);
	assert_int_equal(ibv_set_ece(loop.qp, &ece), EINVAL);
	assert_int_equal(ibv_set_ece(NULL, &ece), EINVAL);
	assert_int_equal(ibv_query_ece(qp, NULL), EINVAL);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	loop_close(&loop);
}

static void no_datagram_comes_back_to_its_sender(void **state)
{
	struct ibv_context *context = context_of(state);
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_cq *cq = ibv_create_cq(context, 4, NULL, NULL, 0);
	struct ibv_qp_init_attr_ex attr = {.qp_type = IBV_QPT_UD,
					   .send_cq = cq,
					   .recv_cq = cq,
					   .cap = {4, 4, 1, 1, 0},
					   .comp_mask = IBV_QP_INIT_ATTR_PD |
							IBV_QP_INIT_ATTR_CREATE_FLAGS,
					   .pd = pd,
					   .create_flags = IBV_QP_CREATE_BLOCK_SELF_MCAST_LB};
	struct ibv_qp *qp = ibv_create_qp_ex(context, &attr);

	assert_non_null(qp);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	attr.qp_type = IBV_QPT_RC;
	assert_refused(ibv_create_qp_ex(context, &attr), EOPNOTSUPP);
	assert_int_equal(ibv_destroy_cq(cq), 0);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
}

/* ---- parent domains ---- */

/* What the allocator of a domain was asked for. */
struct given {
	struct ibv_pd *pd;
	int alive, total, by_default;
	size_t bytes;
	bool refuses, declines;
};

static void *give(struct ibv_pd *pd, void *context, size_t size, size_t alignment, uint64_t type)
{
	struct given *given = context;

	assert_ptr_equal(pd, given->pd);
	assert_int_not_equal(type, 0);
	if (given->refuses)
		return NULL;
	given->by_default += given->declines;
	if (given->declines)
		return IBV_ALLOCATOR_USE_DEFAULT;
	given->alive++;
	given->total++;
	given->bytes += size;
	return memset(aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment), 0xa5, size);
}

static void take_back(struct ibv_pd *pd, void *context, void *memory, uint64_t type)
{
	struct given *given = context;

	assert_ptr_equal(pd, given->pd);
	given->alive--;
	free(memory);
}

static struct ibv_pd *domain_with(struct ibv_context *context, struct ibv_pd *pd, struct given *given)
{
	struct ibv_parent_domain_init_attr attr = {
		.pd = pd, .alloc = give, .free = take_back, .pd_context = given,
		.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT };

	*given = (struct given){ .pd = NULL };
	given->pd = ibv_alloc_parent_domain(context, &attr);
	assert_non_null(given->pd);
	return given->pd;
}

static struct ibv_qp *qp_in(struct ibv_pd *pd, struct ibv_cq *cq)
{
	struct ibv_qp_init_attr attr = { .qp_type = IBV_QPT_RC, .send_cq = cq, .recv_cq = cq,
					 .cap = { 4, 4, 1, 1, 0 } };

	return ibv_create_qp(pd, &attr);
}

static void rings_are_in_memory_of_the_applications_allocator(void **state)
{
	struct ibv_context *context = context_of(state);
	struct ibv_pd *pd = ibv_alloc_pd(context), *domain;
	struct ibv_srq_init_attr srq_attr = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct ibv_srq_attr larger = { .max_wr = 100 };
	struct ibv_cq_init_attr_ex cq_attr = { .cqe = 16, .comp_mask = IBV_CQ_INIT_ATTR_MASK_PD };
	struct given given;
	struct ibv_cq *cq;
	struct ibv_srq *srq;
	struct ibv_qp *qp;

	domain = domain_with(context, pd, &given);
	cq_attr.parent_domain = domain;
	cq = ibv_cq_ex_to_cq(ibv_create_cq_ex(context, &cq_attr));
	assert_non_null(cq);
	assert_int_equal(given.alive, 1);
	qp = qp_in(domain, cq);
	assert_int_equal(given.alive, 3);	/* two queues */
	srq = ibv_create_srq(domain, &srq_attr);
	assert_int_equal(given.alive, 4);
	assert_int_equal(ibv_modify_srq(srq, &larger, IBV_SRQ_MAX_WR), 0);
	assert_int_equal(ibv_resize_cq(cq, 200), 0);
	assert_int_equal(given.alive, 4);
	assert_int_equal(given.total, 6);
	assert_true(given.bytes > 200 * sizeof(struct ibv_wc));
	assert_int_equal(ibv_dealloc_pd(domain), EBUSY);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_srq(srq), 0);
	assert_int_equal(ibv_destroy_cq(cq), 0);
	assert_int_equal(given.alive, 0);
	assert_int_equal(ibv_dealloc_pd(domain), 0);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
}

static void an_allocator_may_refuse_or_leave_it_to_us(void **state)
{
	struct ibv_context *context = context_of(state);
	struct ibv_pd *pd = ibv_alloc_pd(context), *domain;
	struct ibv_parent_domain_init_attr half = { .pd = pd, .alloc = give,
						    .comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS };
	struct ibv_cq *cq = ibv_create_cq(context, 4, NULL, NULL, 0);
	struct given given;
	struct ibv_qp *qp;

	assert_refused(ibv_alloc_parent_domain(context, &half), EINVAL);
	domain = domain_with(context, pd, &given);
	given.refuses = true;
	assert_refused(qp_in(domain, cq), ENOMEM);
	given.refuses = false;
	given.declines = true;
	qp = qp_in(domain, cq);
	assert_non_null(qp);
	assert_int_equal(given.by_default, 2);
	assert_int_equal(given.alive, 0);
	assert_int_equal(ibv_dealloc_pd(domain), EBUSY);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_dealloc_pd(domain), 0);
	assert_int_equal(ibv_destroy_cq(cq), 0);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
}

/* What a program leaves behind goes back to its allocator when the device is closed. */
static void closing_gives_the_memory_back(void **state)
{
	struct ibv_context *context = context_of(state);
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_cq *cq = ibv_create_cq(context, 4, NULL, NULL, 0);
	struct given given;

	assert_non_null(qp_in(domain_with(context, pd, &given), cq));
	assert_int_equal(given.alive, 2);
	assert_int_equal(ibv_close_device(context), 0);
	*state = NULL;
	assert_int_equal(given.alive, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		test_with_device(cq_moderation_is_within_the_promised_limits),
		test_with_device(a_word_is_written_and_flushed),
		test_with_device(a_word_can_be_posted_and_a_flush_cannot),
		test_with_device(persistence_is_refused_at_registration),
		test_with_device(a_read_into_a_null_region_goes_nowhere),
		test_with_device(the_state_in_the_structure_is_that_of_the_last_modify_or_query),
		test_with_device(advice_is_taken),
		test_with_device(odp_is_what_the_device_says),
		test_with_device(ece_is_agreed_before_rtr),
		test_with_device(no_datagram_comes_back_to_its_sender),
		test_with_device(rings_are_in_memory_of_the_applications_allocator),
		test_with_device(an_allocator_may_refuse_or_leave_it_to_us),
		test_with_device(closing_gives_the_memory_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
