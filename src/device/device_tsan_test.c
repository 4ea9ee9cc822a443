/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Posts and polls in a program with ThreadSanitizer: which accesses of the adapter are told, by a
 * sanitizer of our own that notes them, and that completions pick up what their posts left. What
 * follows from it: tsan_adapter_test.c.
 */
#include "device/device_test.h"
#include "device/tsan_adapter.h"

#define NOTED	16u
#define KEYS	16u

static struct {
	uintptr_t start;
	unsigned long bytes;
	bool writes, by_adapter;
} noted[NOTED];
static unsigned noted_count;
static void *released[KEYS];		/* in fibers, of late */
static unsigned released_count, picked_up;
static char thread, fiber;
static char *now = &thread;

static void note_range(void *start, unsigned long bytes, bool writes)
{
	assert_true(noted_count < NOTED);
	noted[noted_count].start = (uintptr_t)start;
	noted[noted_count].bytes = bytes;
	noted[noted_count].writes = writes;
	noted[noted_count++].by_adapter = now == &fiber;
}

static void note_read(void *start, unsigned long bytes)
{
	note_range(start, bytes, false);
}

static void note_write(void *start, unsigned long bytes)
{
	note_range(start, bytes, true);
}

static void note_release(void *key)
{
	if (now == &fiber)
		released[released_count++ % KEYS] = key;
}

/* By a thread, of what a fiber left. The worker does neither. */
static void note_acquire(void *key)
{
	for (unsigned i = 0; now == &thread && i < KEYS; i++)
		picked_up += released[i] == key;
}

static void note_ignored(const char *file, int line)
{
}

static void note_entry(void *caller)
{
}

static void note_exit(void)
{
}

static void *note_current(void)
{
	return now;
}

static void *note_create(unsigned flags)
{
	return &fiber;
}

static void note_switch(void *to, unsigned flags)
{
	now = to;
}

static void note_name(void *named, const char *name)
{
}

static const struct tsan_runtime notes = {
	note_ignored, note_ignored, note_acquire, note_release, note_read, note_write,
	note_entry, note_exit, note_current, note_create, note_switch, note_name,
};

static int begin(void **state)
{
	int err = device_begin(state);

	noted_count = released_count = picked_up = 0;
	memset(released, 0, sizeof(released));
	tsan_attach(&notes);
	return err;
}

static int end(void **state)
{
	tsan_attach(NULL);
	return device_end(state);
}

static void expect_noted(unsigned at, const void *start, unsigned long bytes, bool writes)
{
	assert_true(at < noted_count);
	assert_int_equal(noted[at].start, (uintptr_t)start);
	assert_int_equal(noted[at].bytes, bytes);
	assert_int_equal(noted[at].writes, writes);
	assert_true(noted[at].by_adapter);
}

static int post_two(struct qp *qp, enum ibv_wr_opcode opcode, unsigned flags, uint32_t bytes)
{
	struct ibv_sge sge[2] = { { (uintptr_t)memory, bytes, mr->ibv.lkey },
				  { (uintptr_t)memory + 4096, bytes, mr->ibv.lkey } };
	struct ibv_send_wr *bad, wr = { .wr_id = 1, .sg_list = sge, .num_sge = 2, .opcode = opcode,
					.send_flags = flags,
					.wr.rdma = { (uintptr_t)memory + 8192, mr->ibv.rkey } };

	return hca_tsan_post_send(qp, &wr, &bad);
}

static void take_one(uint64_t wr_id)
{
	uint64_t end_ns = clock_now_ns() + PATIENCE_NS;
	struct ibv_wc wc[2];

	picked_up = 0;
	while (!hca_tsan_poll_cq(cq, 1, wc))
		assert_true(clock_now_ns() < end_ns);
	assert_int_equal(wc[0].wr_id, wr_id);
	assert_int_equal(wc[0].status, IBV_WC_SUCCESS);
	assert_true(picked_up);
}

static void requests_tell_what_they_read_and_write(void **state)
{
	struct qp *pair[2];

	qp_make_pair(pair);
	assert_int_equal(post_two(pair[0], IBV_WR_RDMA_WRITE, 0, 64), 0);
	expect_noted(0, memory, 64, false);
	expect_noted(1, memory + 4096, 64, false);
	take_one(1);
	assert_int_equal(post_two(pair[0], IBV_WR_RDMA_READ, 0, 32), 0);
	expect_noted(2, memory, 32, true);
	expect_noted(3, memory + 4096, 32, true);
	take_one(1);
	assert_int_equal(noted_count, 4);
}

static void inline_data_is_not_the_adapters(void **state)
{
	struct ibv_sge sge = { (uintptr_t)memory, 64, 0 };
	struct ibv_send_wr *bad, wr = { .wr_id = 5, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
					.send_flags = IBV_SEND_INLINE,
					.wr.rdma = { (uintptr_t)memory + 8192, mr->ibv.rkey } };
	struct qp *pair[2];

	qp_make_pair(pair);
	hca_tsan_read_inline(pair[0], &wr);
	assert_int_equal(noted_count, 1);
	assert_false(noted[0].by_adapter || noted[0].writes);
	assert_int_equal(hca_tsan_post_send(pair[0], &wr, &bad), 0);
	assert_int_equal(noted_count, 1);
	take_one(5);		/* who handed over what its poster did */
	sge.addr = 64;		/* not mapped: nobody looks */
	hca_tsan_read_inline(pair[0], &wr);
	assert_int_equal(noted_count, 1);
}

static void a_refused_request_tells_nothing(void **state)
{
	struct ibv_sge sge[3] = { { (uintptr_t)memory, 64, mr->ibv.lkey },
				  { (uintptr_t)memory, 64, mr->ibv.lkey } };
	struct ibv_send_wr *bad, wr[2] = {
		{ .next = &wr[1], .sg_list = sge, .num_sge = 1, .opcode = IBV_WR_SEND },
		{ .sg_list = sge, .num_sge = 3, .opcode = IBV_WR_SEND } };
	struct qp *pair[2];

	qp_make_pair(pair);
	assert_int_not_equal(hca_tsan_post_send(pair[0], wr, &bad), 0);
	assert_ptr_equal(bad, &wr[1]);
	assert_int_equal(noted_count, 1);
	assert_int_not_equal(hca_tsan_post_send_all(pair[1], wr), 0);
	assert_int_equal(noted_count, 1);
}

/* Of a region that begins at 0, and of one that there is not. */
static void addresses_are_those_of_memory(void **state)
{
	struct qp *qp = qp_rts(IBV_QPT_RC);
	struct ibv_sge sge = { 16, 100, 0 };
	struct ibv_recv_wr *bad, wr = { .sg_list = &sge, .num_sge = 1 };
	struct mr *zero;

	assert_int_equal(hca_reg_mr(context, pd, memory + 4096, 4096, 0,
				    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ZERO_BASED, &zero), 0);
	sge.lkey = zero->ibv.lkey;
	assert_int_equal(hca_tsan_post_recv(qp, &wr, &bad), 0);
	expect_noted(0, memory + 4096 + 16, 100, true);
	sge.addr = 4096 - 99;
	assert_int_equal(hca_tsan_post_recv(qp, &wr, &bad), 0);
	sge = (struct ibv_sge){ (uintptr_t)memory, 100, mr->ibv.lkey ^ 1 };
	assert_int_equal(hca_tsan_post_recv(qp, &wr, &bad), 0);
	assert_int_equal(noted_count, 1);
	assert_int_equal(hca_dereg_mr(context, zero), 0);
}

static void polling_takes_as_many_as_are_asked_for(void **state)
{
	struct ibv_wc wc[4];
	struct qp *qp = qp_rts(IBV_QPT_RC);

	assert_int_equal(to_state(qp, IBV_QPS_ERR), 0);
	for (uint64_t i = 0; i < 5; i++)
		assert_int_equal(post_recv(qp, i), 0);
	assert_int_equal(hca_tsan_poll_cq(cq, 0, wc), 0);
	assert_int_equal(hca_tsan_poll_cq(cq, 3, wc), 3);
	assert_int_equal(wc[2].wr_id, 2);
	assert_int_equal(hca_tsan_poll_cq(cq, 4, wc), 2);
	assert_int_equal(wc[1].wr_id, 4);
	context->abandoned = true;
	assert_int_equal(hca_tsan_poll_cq(cq, 1, wc), -1);
	context->abandoned = false;
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
	const struct CMUnitTest tests[] = {
		TEST(requests_tell_what_they_read_and_write),
		TEST(inline_data_is_not_the_adapters),
		TEST(a_refused_request_tells_nothing),
		TEST(addresses_are_those_of_memory),
		TEST(polling_takes_as_many_as_are_asked_for),
	};

#ifdef CHECK_HELD_LOCKS
	return 77;		/* the sanitizer's own is there, and sees all */
#endif
	DEVICE_TESTS(tests);
}
