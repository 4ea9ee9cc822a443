/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The extended ways of posting and polling, ibv_wr_*() and struct ibv_cq_ex: on a UD QP that
 * sends to itself over the loopback device.
 */
#include "fixture.h"

#include <stdbool.h>
#include <time.h>
#include <unistd.h>

#define QKEY	0x1234u
#define SLOTS	8u		/* of each queue */

struct bench {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_cq_ex *cq;
	struct ibv_qp *qp;
	struct ibv_qp_ex *qpx;
	struct ibv_ah *ah;
	struct ibv_mr *mr;
	uint8_t memory[SLOTS * 128];
};

/* IPv4 GID of lo, or whatever stands at index 1 or else 0. */
static void make_ah(struct bench *bench)
{
	struct ibv_ah_attr attr = { .is_global = 1, .port_num = 1, .grh.hop_limit = 1 };
	struct ibv_gid_entry entry;

	attr.grh.sgid_index = ibv_query_gid_ex(bench->context, 1, 1, &entry, 0) ? 0 : 1;
	assert_int_equal(ibv_query_gid(bench->context, 1, attr.grh.sgid_index, &attr.grh.dgid), 0);
	bench->ah = ibv_create_ah(bench->pd, &attr);
	assert_non_null(bench->ah);
}

static void to_rts(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY };

	assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PORT | IBV_QP_QKEY |
				       IBV_QP_PKEY_INDEX), 0);
	attr.qp_state = IBV_QPS_RTR;
	assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
	attr.qp_state = IBV_QPS_RTS;
	assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
}

static void bench_open(struct bench *bench, struct ibv_context *context, uint64_t cq_flags)
{
	struct ibv_cq_init_attr_ex cq = {
		.cqe = 4 * SLOTS, .wc_flags = IBV_WC_STANDARD_FLAGS |
		IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK,
		.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS, .flags = (uint32_t)cq_flags,
	};
	struct ibv_qp_init_attr_ex qp = {
		.qp_type = IBV_QPT_UD, .cap = { SLOTS, SLOTS, 2, 2, 32 },
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM,
	};

	memset(bench, 0, sizeof(*bench));
	bench->context = context;
	bench->pd = qp.pd = ibv_alloc_pd(context);
	bench->cq = ibv_create_cq_ex(context, &cq);
	assert_non_null(bench->cq);
	qp.send_cq = qp.recv_cq = ibv_cq_ex_to_cq(bench->cq);
	bench->qp = ibv_create_qp_ex(context, &qp);
	assert_non_null(bench->qp);
	bench->qpx = ibv_qp_to_qp_ex(bench->qp);
	assert_non_null(bench->qpx);
	bench->mr = ibv_reg_mr(bench->pd, bench->memory, sizeof(bench->memory),
			       IBV_ACCESS_LOCAL_WRITE);
	assert_non_null(bench->mr);
	make_ah(bench);
	to_rts(bench->qp);
}

static void bench_close(struct bench *bench)
{
	assert_int_equal(ibv_destroy_ah(bench->ah), 0);
	assert_int_equal(ibv_destroy_qp(bench->qp), 0);
	assert_int_equal(ibv_destroy_cq(ibv_cq_ex_to_cq(bench->cq)), 0);
	assert_int_equal(ibv_dereg_mr(bench->mr), 0);
	assert_int_equal(ibv_dealloc_pd(bench->pd), 0);
}

static void post_recv(struct bench *bench, unsigned slot)
{
	struct ibv_sge sge = { (uintptr_t)bench->memory + 128 * slot, 128, bench->mr->lkey };
	struct ibv_recv_wr *bad, wr = { .wr_id = 100 + slot, .sg_list = &sge, .num_sge = 1 };

	assert_int_equal(ibv_post_recv(bench->qp, &wr, &bad), 0);
}

static void send_inline(struct bench *bench, uint64_t wr_id, const char *text)
{
	bench->qpx->wr_id = wr_id;
	bench->qpx->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_send_imm(bench->qpx, htobe32(0xabcd0000u | (uint32_t)wr_id));
	ibv_wr_set_ud_addr(bench->qpx, bench->ah, bench->qp->qp_num, QKEY);
	ibv_wr_set_inline_data(bench->qpx, (void *)(uintptr_t)text, strlen(text));
}

/* Waits up to a second for the next completion. */
static int start_poll(struct ibv_cq_ex *cq)
{
	struct ibv_poll_cq_attr attr = { 0 };
	struct timespec begin, now;
	int err;

	clock_gettime(CLOCK_MONOTONIC, &begin);
	do {
		err = ibv_start_poll(cq, &attr);
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while (err == ENOENT && now.tv_sec - begin.tv_sec < 2);
	return err;
}

/* Counts completions until nothing comes for a while. */
static unsigned drain(struct ibv_cq_ex *cq, unsigned wanted)
{
	struct ibv_poll_cq_attr attr = { 0 };
	unsigned count = 0;

	while (count < wanted && !start_poll(cq)) {
		count++;
		ibv_end_poll(cq);
	}
	for (int i = 0; i < 100; i++)
		if (!ibv_start_poll(cq, &attr)) {
			count++;
			ibv_end_poll(cq);
		}
	return count;
}

static void completions_can_be_read_field_by_field(struct bench *bench)
{
	bool sent = false, received = false;
	struct timespec now;
	uint64_t now_ns, stamp_ns, last_ns = 0;

	post_recv(bench, 0);
	ibv_wr_start(bench->qpx);
	send_inline(bench, 7, "hello");
	assert_int_equal(ibv_wr_complete(bench->qpx), 0);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(start_poll(bench->cq), 0);
		assert_int_equal(bench->cq->status, IBV_WC_SUCCESS);
		assert_int_equal(ibv_wc_read_qp_num(bench->cq), bench->qp->qp_num);
		clock_gettime(CLOCK_REALTIME, &now);
		now_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
		assert_in_range(ibv_wc_read_completion_wallclock_ns(bench->cq),
				now_ns - 10000000000u, now_ns + 1000000);
		/* One time, however often it is read, and none before that of the last one. */
		stamp_ns = ibv_wc_read_completion_wallclock_ns(bench->cq);
		for (int again = 0; again < 100; again++)
			assert_int_equal(ibv_wc_read_completion_wallclock_ns(bench->cq), stamp_ns);
		assert_true(stamp_ns >= last_ns);
		last_ns = stamp_ns;
		if (bench->cq->wr_id == 7) {
			sent = true;
			assert_int_equal(ibv_wc_read_opcode(bench->cq), IBV_WC_SEND);
		} else {
			received = true;
			assert_int_equal(bench->cq->wr_id, 100);
			assert_int_equal(ibv_wc_read_opcode(bench->cq), IBV_WC_RECV);
			assert_int_equal(ibv_wc_read_byte_len(bench->cq), 40 + 5);
			assert_int_equal(ibv_wc_read_src_qp(bench->cq), bench->qp->qp_num);
			assert_int_equal(ibv_wc_read_imm_data(bench->cq), htobe32(0xabcd0007));
			assert_int_equal(ibv_wc_read_wc_flags(bench->cq),
					 IBV_WC_GRH | IBV_WC_WITH_IMM);
			assert_int_equal(ibv_wc_read_vendor_err(bench->cq), 0);
		}
		ibv_end_poll(bench->cq);
	}
	assert_true(sent && received);
	assert_memory_equal(bench->memory + 40, "hello", 5);
}

static void a_message_arrives_as_the_setters_made_it(void **state)
{
	struct bench bench;

	bench_open(&bench, context_of(state), 0);
	completions_can_be_read_field_by_field(&bench);
	bench_close(&bench);
}

static void a_cq_for_one_thread_polls_alike(void **state)
{
	struct bench bench;

	bench_open(&bench, context_of(state), IBV_CREATE_CQ_ATTR_SINGLE_THREADED);
	completions_can_be_read_field_by_field(&bench);
	bench_close(&bench);
}

static void a_failed_start_poll_leaves_the_cq_free(void **state)
{
	struct ibv_poll_cq_attr good = { 0 }, bad = { .comp_mask = 1 };
	struct bench bench;

	bench_open(&bench, context_of(state), 0);
	assert_int_equal(ibv_start_poll(bench.cq, &good), ENOENT);
	assert_int_equal(ibv_start_poll(bench.cq, &bad), EINVAL);
	assert_int_equal(ibv_start_poll(bench.cq, &good), ENOENT);
	bench_close(&bench);
}

static void a_batch_arrives_whole_and_in_order(void **state)
{
	struct bench bench;
	char text[2] = "a";

	bench_open(&bench, context_of(state), 0);
	for (unsigned i = 0; i < SLOTS; i++)
		post_recv(&bench, i);
	ibv_wr_start(bench.qpx);
	for (unsigned i = 0; i < SLOTS; i++) {
		text[0] = (char)('a' + i);	/* inline data is copied by the setter */
		send_inline(&bench, i, text);
	}
	assert_int_equal(ibv_wr_complete(bench.qpx), 0);
	assert_int_equal(drain(bench.cq, 2 * SLOTS), 2 * SLOTS);
	for (unsigned i = 0; i < SLOTS; i++)
		assert_int_equal(bench.memory[128 * i + 40], 'a' + i);
	bench_close(&bench);
}

static void an_aborted_batch_sends_nothing(void **state)
{
	struct bench bench;

	bench_open(&bench, context_of(state), 0);
	ibv_wr_start(bench.qpx);
	send_inline(&bench, 1, "x");
	ibv_wr_abort(bench.qpx);
	ibv_wr_start(bench.qpx);
	assert_int_equal(ibv_wr_complete(bench.qpx), 0);
	assert_int_equal(drain(bench.cq, 0), 0);
	bench_close(&bench);
}

/* A batch with something wrong in its middle: @err, nothing sent, and the QP goes on working. */
static void check_all_or_nothing(struct bench *bench, int err)
{
	send_inline(bench, 3, "z");
	assert_int_equal(ibv_wr_complete(bench->qpx), err);
	assert_int_equal(drain(bench->cq, 0), 0);
	post_recv(bench, 0);
	ibv_wr_start(bench->qpx);
	send_inline(bench, 4, "ok");
	assert_int_equal(ibv_wr_complete(bench->qpx), 0);
	assert_int_equal(drain(bench->cq, 2), 2);
}

static void too_much_inline_data_fails_the_whole_batch(void **state)
{
	struct bench bench;
	static const char long_text[] = "0123456789012345678901234567890123456789012345678901234567890123"
					"0123456789012345678901234567890123456789012345678901234567890123";

	bench_open(&bench, context_of(state), 0);
	ibv_wr_start(bench.qpx);
	send_inline(&bench, 1, "x");
	send_inline(&bench, 2, long_text);
	check_all_or_nothing(&bench, EINVAL);
	bench_close(&bench);
}

static void an_operation_that_was_not_declared_fails_the_whole_batch(void **state)
{
	struct bench bench;

	bench_open(&bench, context_of(state), 0);
	ibv_wr_start(bench.qpx);
	send_inline(&bench, 1, "x");
	ibv_wr_rdma_write(bench.qpx, 1, 0);
	ibv_wr_set_sge(bench.qpx, bench.mr->lkey, (uintptr_t)bench.memory, 1);
	check_all_or_nothing(&bench, EINVAL);
	bench_close(&bench);
}

/* Refused by post_send and not by the builder: a UD message that leads nowhere. */
static void a_request_that_post_send_refuses_takes_back_those_before_it(void **state)
{
	struct bench bench;

	bench_open(&bench, context_of(state), 0);
	ibv_wr_start(bench.qpx);
	send_inline(&bench, 1, "x");
	ibv_wr_send(bench.qpx);
	ibv_wr_set_ud_addr(bench.qpx, NULL, bench.qp->qp_num, QKEY);
	ibv_wr_set_sge(bench.qpx, bench.mr->lkey, (uintptr_t)bench.memory, 1);
	check_all_or_nothing(&bench, EINVAL);
	bench_close(&bench);
}

static void a_setter_without_a_request_fails_the_batch(void **state)
{
	struct bench bench;

	bench_open(&bench, context_of(state), 0);
	ibv_wr_start(bench.qpx);
	ibv_wr_set_sge(bench.qpx, bench.mr->lkey, (uintptr_t)bench.memory, 1);
	check_all_or_nothing(&bench, EINVAL);
	bench_close(&bench);
}

static void more_requests_than_the_queue_holds_are_refused(void **state)
{
	struct bench bench;
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;

	bench_open(&bench, context_of(state), 0);
	assert_int_equal(ibv_query_qp(bench.qp, &attr, IBV_QP_CAP, &init), 0);
	ibv_wr_start(bench.qpx);
	for (unsigned i = 0; i < init.cap.max_send_wr; i++)
		send_inline(&bench, i, "x");
	check_all_or_nothing(&bench, ENOMEM);
	bench_close(&bench);
}

/* Where a mutex is larger than on x86-64 all behind it stands further back. */
#define MUTEX	(sizeof(pthread_mutex_t) - 40)

/* wr_flush() of rdma-core 46 stands at 352, behind the structure of our headers or in it. */
static void calls_of_headers_to_come_are_refused(void **state)
{
	struct bench bench;
	void (*flush)(struct ibv_qp_ex *, uint32_t, uint64_t, size_t, uint8_t, uint8_t);

	bench_open(&bench, context_of(state), 0);
	for (size_t at = 352 + MUTEX; at < 448; at += sizeof(void *)) {
		memcpy(&flush, (char *)bench.qpx + at, sizeof(flush));
		ibv_wr_start(bench.qpx);
		flush(bench.qpx, 1, 2, 3, 4, 5);
		if (at == 352 + MUTEX)
			check_all_or_nothing(&bench, EINVAL);	/* was not declared */
		else
			assert_int_equal(ibv_wr_complete(bench.qpx), EOPNOTSUPP);
	}
	for (size_t at = 288 + MUTEX; at < 384; at += sizeof(void *)) {
		memcpy(&flush, (char *)bench.cq + at, sizeof(flush));
		assert_null(flush);
	}
	bench_close(&bench);
}

static void operations_that_the_type_lacks_are_refused_at_creation(void **state)
{
	static const uint64_t lacking[] = {
		IBV_QP_EX_WITH_RDMA_WRITE, IBV_QP_EX_WITH_RDMA_READ, IBV_QP_EX_WITH_LOCAL_INV,
		IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP, IBV_QP_EX_WITH_TSO, IBV_QP_EX_WITH_ATOMIC_WRITE,
		1 << 11,	/* IBV_QP_EX_WITH_FLUSH of rdma-core 45 */
	};
	struct ibv_context *context = context_of(state);
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = IBV_QPT_UD, .cap = { 1, 1, 1, 1, 0 }, .pd = ibv_alloc_pd(context),
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
	};
	struct ibv_qp *plain;

	attr.send_cq = attr.recv_cq = ibv_create_cq(context, 4, NULL, NULL, 0);
	for (size_t i = 0; i < sizeof(lacking) / sizeof(lacking[0]); i++) {
		attr.send_ops_flags = IBV_QP_EX_WITH_SEND | lacking[i];
		assert_refused(ibv_create_qp_ex(context, &attr), EOPNOTSUPP);
	}
	attr.comp_mask = IBV_QP_INIT_ATTR_PD;
	plain = ibv_create_qp_ex(context, &attr);
	assert_non_null(plain);
	assert_null(ibv_qp_to_qp_ex(plain));	/* it was not created for it */
	assert_int_equal(ibv_destroy_qp(plain), 0);
	assert_int_equal(ibv_destroy_cq(attr.send_cq), 0);
	assert_int_equal(ibv_dealloc_pd(attr.pd), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		test_with_device(a_message_arrives_as_the_setters_made_it),
		test_with_device(a_cq_for_one_thread_polls_alike),
		test_with_device(a_failed_start_poll_leaves_the_cq_free),
		test_with_device(a_batch_arrives_whole_and_in_order),
		test_with_device(an_aborted_batch_sends_nothing),
		test_with_device(too_much_inline_data_fails_the_whole_batch),
		test_with_device(an_operation_that_was_not_declared_fails_the_whole_batch),
		test_with_device(a_request_that_post_send_refuses_takes_back_those_before_it),
		test_with_device(a_setter_without_a_request_fails_the_batch),
		test_with_device(more_requests_than_the_queue_holds_are_refused),
		test_with_device(calls_of_headers_to_come_are_refused),
		test_with_device(operations_that_the_type_lacks_are_refused_at_creation),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
