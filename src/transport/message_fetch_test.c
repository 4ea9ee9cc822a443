/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Large messages at the responder (message.h), whose data is fetched a piece after the other: to
 * the end, not to the end, and with changes meanwhile.
 */
#include <errno.h>

#include "transport/message_test_support.h"

#define LARGE (3u << 20)
#define MIB (1u << 20)

struct source {
	const uint8_t *data;
	uint64_t next;			/* offset that is due */
	unsigned calls, lasts, fail_at;
	size_t most;			/* bytes in one call */
	struct station *s;
};

static int copy(void *context, void *to, uint64_t offset, size_t bytes, bool last)
{
	struct source *source = context;

	source->calls++;
	source->lasts += last;
	if (source->fail_at == source->calls)
		return EFAULT;
	assert_int_equal(offset, source->next);
	source->next += bytes;
	if (bytes > source->most)
		source->most = bytes;
	memcpy(to, source->data + offset, bytes);
	return 0;
}

struct large {
	struct station *s;
	struct mr mr;
	uint8_t *data, *memory;
	struct source source;
	struct local_message message;
};

/* Memory for a large receive, and what is to come there. */
static void large_begin(struct large *large, uint32_t bytes)
{
	uint32_t i;

	memset(large, 0, sizeof(*large));
	large->s = station_inside();
	large->data = malloc(LARGE);
	large->memory = calloc(1, LARGE);
	assert_true(large->data && large->memory);
	for (i = 0; i < LARGE; i++)
		large->data[i] = (uint8_t)(i * 7 + (i >> 8) * 3 + (i >> 16));
	assert_int_equal(mr_register(&large->s->mrs, &large->s->pd, large->memory, LARGE,
				     (uintptr_t)large->memory, IBV_ACCESS_LOCAL_WRITE,
				     &large->mr), 0);
	large->source = (struct source){ .data = large->data, .s = large->s };
	large->message = next_message(large->s, bytes);
	large->message.flags = MESSAGE_RENDEZVOUS;
	large->message.data = NULL;
}

static void large_end(struct large *large)
{
	station_free(large->s);
	free(large->data);
	free(large->memory);
}

/* Two SGEs, one behind the other, cut at an odd place. */
static void large_receive(struct large *large, uint64_t wr_id, uint32_t bytes)
{
	uint32_t cut = bytes / 3 + 1;
	struct ibv_sge sge[2] = {
		{ .addr = (uintptr_t)large->memory, .length = cut, .lkey = large->mr.ibv.lkey },
		{ .addr = (uintptr_t)large->memory + cut, .length = bytes - cut,
		  .lkey = large->mr.ibv.lkey } };
	struct ibv_recv_wr wr = { .wr_id = wr_id, .sg_list = sge, .num_sge = 2 }, *bad;

	assert_int_equal(qp_post_recv(&large->s->qp, &wr, &bad), 0);
}

/* It comes, and one part of its data is fetched. */
static enum message_fate hear_first(struct large *large)
{
	enum message_fate fate = receive_message(large->s, &large->message);

	expect_no_wc(&large->s->recv_cq);
	return fate == MESSAGE_FETCH ? fetch_part(large->s, &large->message, copy, &large->source)
				     : fate;
}

static enum message_fate fetch_next(struct large *large)
{
	return fetch_part(large->s, &large->message, copy, &large->source);
}

/* Until it is done; returns how often it was not. */
static unsigned hear_to_the_end(struct large *large, enum message_fate expected)
{
	enum message_fate fate = hear_first(large);
	unsigned n = 0;

	while (fate == MESSAGE_FETCH) {
		assert_true(++n < 100);
		expect_no_wc(&large->s->recv_cq);
		fate = fetch_next(large);
	}
	assert_int_equal(fate, expected);
	return n;
}

static void data_is_fetched_piece_by_piece(void **state)
{
	static const uint32_t sizes[] = { 1, 5000, MIB - 1, MIB, MIB + 1, 2 * MIB, LARGE };
	unsigned i;

	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct large large;
		struct ibv_wc wc;
		unsigned n;

		large_begin(&large, sizes[i]);
		large_receive(&large, 9, sizes[i] < 2 ? 2 : sizes[i]);
		n = hear_to_the_end(&large, MESSAGE_EXECUTED);
		wc = expect_wc(&large.s->recv_cq, 9, IBV_WC_SUCCESS);
		assert_int_equal(wc.byte_len, sizes[i]);
		assert_int_equal(large.source.next, sizes[i]);
		assert_memory_equal(large.memory, large.data, sizes[i]);
		/* Others have their turn in between. */
		assert_true(large.source.most <= MIB);
		assert_true(sizes[i] <= MIB || n >= 1);
		/* Its last bytes are visible last, and only those. */
		assert_int_equal(large.source.lasts, 1);
		large_end(&large);
	}
}

static void a_fetch_that_fails_refuses_all_of_the_message(void **state)
{
	unsigned fail_at;

	for (fail_at = 1; fail_at <= 4; fail_at++) {
		struct large large;

		large_begin(&large, LARGE);
		large_receive(&large, 1, LARGE);
		large.source.fail_at = fail_at;
		hear_to_the_end(&large, MESSAGE_REFUSED);
		expect_no_wc(&large.s->recv_cq);
		assert_int_equal(large.s->qp.state, IBV_QPS_RTS);
		/* The next one begins at its begin. */
		memset(large.memory, 0, LARGE);
		large.source = (struct source){ .data = large.data, .s = large.s };
		hear_to_the_end(&large, MESSAGE_EXECUTED);
		assert_memory_equal(large.memory, large.data, LARGE);
		expect_wc(&large.s->recv_cq, 1, IBV_WC_SUCCESS);
		large_end(&large);
	}
}

static void begin_anew(struct large *large)
{
	struct station *s = large->s;

	station_move(s, IBV_QPS_RESET);
	station_move(s, IBV_QPS_INIT);
	large_receive(large, 2, LARGE);
	station_move(s, IBV_QPS_RTR);
	station_move(s, IBV_QPS_RTS);
}

/* A QP that is reset in the middle of it forgets how far it was. */
static void a_reset_in_the_middle_of_a_fetch_begins_anew(void **state)
{
	struct large large;

	large_begin(&large, LARGE);
	large_receive(&large, 1, LARGE);
	assert_int_equal(hear_first(&large), MESSAGE_FETCH);
	begin_anew(&large);
	large.source = (struct source){ .data = large.data, .s = large.s };
	hear_to_the_end(&large, MESSAGE_EXECUTED);
	assert_memory_equal(large.memory, large.data, LARGE);
	expect_wc(&large.s->recv_cq, 2, IBV_WC_SUCCESS);
	expect_no_wc(&large.s->recv_cq);
	large_end(&large);
}

static void an_error_in_the_middle_of_a_fetch_ends_it(void **state)
{
	struct large large;

	large_begin(&large, LARGE);
	large_receive(&large, 1, LARGE);
	assert_int_equal(hear_first(&large), MESSAGE_FETCH);
	station_move(large.s, IBV_QPS_ERR);
	expect_wc(&large.s->recv_cq, 1, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(fetch_next(&large), MESSAGE_REFUSED);
	expect_no_wc(&large.s->recv_cq);
	large_end(&large);
}

static void a_large_message_is_refused_for_what_a_small_one_is(void **state)
{
	struct large large;

	large_begin(&large, LARGE);
	assert_int_equal(receive_message(large.s, &large.message), MESSAGE_REFUSED);
	large_receive(&large, 1, LARGE - 1);
	assert_int_equal(receive_message(large.s, &large.message), MESSAGE_REFUSED);
	assert_int_equal(large.source.calls, 0);
	large.message.length = LARGE - 1;
	hear_to_the_end(&large, MESSAGE_EXECUTED);
	assert_int_equal(large.memory[LARGE - 1], 0);
	large_end(&large);
}

/* Of the receive's region, between two pieces. */
static void a_region_that_dies_within_a_fetch_is_noticed(void **state)
{
	struct large large;

	large_begin(&large, LARGE);
	large_receive(&large, 1, LARGE);
	assert_int_equal(hear_first(&large), MESSAGE_FETCH);
	assert_int_equal(mr_deregister(&large.s->mrs, &large.mr), 0);
	memset(large.memory, 0, LARGE);
	assert_int_equal(fetch_next(&large), MESSAGE_REFUSED);
	assert_int_equal(large.memory[LARGE - 1], 0);
	expect_no_wc(&large.s->recv_cq);
	large_end(&large);
}

/* It goes where the key allows, all of it; and takes no receive, unless with immediate data. */
static void a_large_write_is_fetched_to_its_target(void **state)
{
	unsigned with_imm;

	for (with_imm = 0; with_imm < 2; with_imm++) {
		struct large large;

		large_begin(&large, LARGE - 100);
		assert_int_equal(mr_reregister(&large.s->mrs, &large.mr, IBV_REREG_MR_CHANGE_ACCESS,
					       NULL, NULL, 0, IBV_ACCESS_LOCAL_WRITE |
					       IBV_ACCESS_REMOTE_WRITE), 0);
		large.message.flags |= MESSAGE_WRITE | (with_imm ? MESSAGE_IMM : 0);
		large.message.rkey = large.mr.ibv.rkey;
		large.message.target = (uintptr_t)large.memory + 101;	/* one byte too far */
		post_recv(large.s, 1, 0);
		assert_int_equal(receive_message(large.s, &large.message), MESSAGE_REFUSED);
		assert_int_equal(large.source.calls, 0);
		large.message.target--;
		assert_true(hear_to_the_end(&large, MESSAGE_EXECUTED) > 1);
		assert_memory_equal(large.memory + 100, large.data, LARGE - 100);
		assert_int_equal(large.memory[99], 0);
		assert_int_equal(large.source.lasts, 1);
		if (with_imm)
			expect_wc(&large.s->recv_cq, 1, IBV_WC_SUCCESS);
		else
			assert_int_equal(recv_queue_count(&large.s->qp.rq), 1);
		expect_no_wc(&large.s->recv_cq);
		large_end(&large);
	}
}

/* The right to it is taken away between two pieces. */
static void a_target_that_dies_within_a_fetch_is_noticed(void **state)
{
	struct large large;

	large_begin(&large, LARGE);
	assert_int_equal(mr_reregister(&large.s->mrs, &large.mr, IBV_REREG_MR_CHANGE_ACCESS,
				       NULL, NULL, 0, IBV_ACCESS_LOCAL_WRITE |
				       IBV_ACCESS_REMOTE_WRITE), 0);
	large.message.flags |= MESSAGE_WRITE;
	large.message.rkey = large.mr.ibv.rkey;
	large.message.target = (uintptr_t)large.memory;
	assert_int_equal(hear_first(&large), MESSAGE_FETCH);
	assert_int_equal(mr_deregister(&large.s->mrs, &large.mr), 0);
	memset(large.memory, 0, LARGE);
	assert_int_equal(fetch_next(&large), MESSAGE_REFUSED);
	assert_int_equal(large.memory[LARGE - 1], 0);
	assert_int_equal(large.s->qp.state, IBV_QPS_RTS);
	large_end(&large);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(data_is_fetched_piece_by_piece),
		TEST(a_fetch_that_fails_refuses_all_of_the_message),
		TEST(a_reset_in_the_middle_of_a_fetch_begins_anew),
		TEST(an_error_in_the_middle_of_a_fetch_ends_it),
		TEST(a_large_message_is_refused_for_what_a_small_one_is),
		TEST(a_region_that_dies_within_a_fetch_is_noticed),
		TEST(a_large_write_is_fetched_to_its_target),
		TEST(a_target_that_dies_within_a_fetch_is_noticed),
	};

	return cmocka_run_group_tests_name("message, receiving, fetch", tests, NULL, NULL);
}
