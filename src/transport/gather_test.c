/* SPDX-License-Identifier: BSD-2-Clause */
/* Which requests wait for others, and which leave at once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "transport/gather.h"
#include "transport/test_support.h"

#define NOW 1000000u

static void a_lone_request_never_waits(void **state)
{
	struct gather gather = { .streak = GATHER_STREAK };

	assert_false(gather_waits(&gather, 0, 1, 8, NOW));
	assert_false(gather_waits(&gather, 0, 2, 8, NOW));
}

static void few_unanswered_do_not_hold_up_the_next(void **state)
{
	struct gather gather = { 0 };

	assert_false(gather_waits(&gather, GATHER_BEHIND - 1, 1, 8, NOW));
	assert_true(gather_waits(&gather, GATHER_BEHIND, 1, 8, NOW));
}

static void a_large_request_never_waits(void **state)
{
	struct gather gather = { 0 };

	assert_true(gather_waits(&gather, GATHER_BEHIND, 1, GATHER_BYTES, NOW));
	assert_false(gather_waits(&gather, GATHER_BEHIND, 2, GATHER_BYTES + 1, NOW));
}

static void a_full_batch_leaves(void **state)
{
	struct gather gather = { 0 };
	unsigned n;

	for (n = 1; n < GATHER_MAX; n++)
		assert_true(gather_waits(&gather, GATHER_BEHIND, n, 8, NOW));
	assert_false(gather_waits(&gather, GATHER_BEHIND, GATHER_MAX, 8, NOW));
}

static void the_age_of_the_oldest_counts(void **state)
{
	struct gather gather = { 0 };

	assert_true(gather_waits(&gather, GATHER_BEHIND, 1, 8, NOW));
	assert_true(gather_waits(&gather, GATHER_BEHIND, 2, 8, NOW + GATHER_NS - 1));
	assert_false(gather_waits(&gather, GATHER_BEHIND, 3, 8, NOW + GATHER_NS));
	gather_ends(&gather, 3);
	assert_true(gather_waits(&gather, GATHER_BEHIND, 1, 8, NOW + GATHER_NS));
}

static void a_stream_waits_behind_one_until_its_batches_stay_small(void **state)
{
	struct gather gather = { 0 };
	unsigned n;

	assert_false(gather_waits(&gather, GATHER_BEHIND, GATHER_MAX, 8, NOW));
	gather_ends(&gather, GATHER_MAX);
	for (n = 0; n < GATHER_STREAK; n++) {
		assert_true(gather_waits(&gather, 1, 1, 8, NOW));
		gather_ends(&gather, 1);
	}
	assert_false(gather_waits(&gather, 1, 1, 8, NOW));
}

/* ---- of a QP ---- */

static bool may_gather(struct station *s) UNCHECKED_LOCKS
{
	return transport_may_gather(&s->qp, s->now_ns);
}

/* So many requests in flight, and one more posted. */
static struct station *station_behind(unsigned unanswered)
{
	struct station *s = station_rts(IBV_QPT_RC);
	unsigned n;

	for (n = 0; n < unanswered; n++)
		post(s, IBV_WR_RDMA_WRITE, n, 8);
	assert_int_equal(transmit(s), unanswered);
	post(s, IBV_WR_RDMA_WRITE, n, 8);
	return s;
}

static void a_request_waits_behind_many_until_they_are_answered(void **state)
{
	struct station *s = station_behind(GATHER_BEHIND);

	assert_true(may_gather(s));
	receive_ack(s, OUR_PSN);
	assert_false(may_gather(s));
	assert_int_equal(transmit(s), 1);
	station_free(s);
}

static void all_that_waited_leave_in_order(void **state)
{
	struct station *s = station_behind(GATHER_BEHIND);
	unsigned n;

	post(s, IBV_WR_SEND, 20, 8);
	post(s, IBV_WR_RDMA_WRITE, 21, 8);
	assert_true(may_gather(s));
	assert_int_equal(transmit(s), 3);
	for (n = 0; n < 3; n++)
		assert_int_equal(sent(s, n).psn, OUR_PSN + GATHER_BEHIND + n);
	assert_int_equal(s->qp.requester.gather.since_ns, 0);
	station_free(s);
}

/* A READ, a fence and what is done at this end go as ever, and take along what waits. */
static void other_requests_do_not_wait(void **state)
{
	struct station *s = station_behind(GATHER_BEHIND);
	struct ibv_send_wr wr;
	struct ibv_sge sge;

	assert_true(may_gather(s));
	post(s, IBV_WR_RDMA_READ, 30, 8);
	assert_false(may_gather(s));
	assert_int_equal(transmit(s), 2);
	request_init(&wr, &sge, s, IBV_WR_RDMA_WRITE, 31, 8);
	wr.send_flags |= IBV_SEND_FENCE;
	post_wr(s, &wr);
	assert_false(may_gather(s));
	station_free(s);
}

static void a_reply_leaves_with_the_ack_that_is_due(void **state)
{
	struct station *s = station_behind(GATHER_BEHIND);

	receive_data(s, OPCODE_RC_WRITE_ONLY, PEER_PSN, 8);
	assert_false(may_gather(s));
	assert_int_equal(transmit(s), 2);
	station_free(s);
}

static void nothing_waits_while_packets_are_repeated(void **state)
{
	struct station *s = station_behind(GATHER_BEHIND);

	receive_nak(s, OUR_PSN + 1, AETH_NAK, NAK_SEQUENCE);
	assert_false(may_gather(s));
	station_free(s);
}

static void datagrams_and_uc_do_not_wait(void **state)
{
	struct station *s = station_rts(IBV_QPT_UC);

	post(s, IBV_WR_RDMA_WRITE, 1, 8);
	assert_false(may_gather(s));
	station_free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_lone_request_never_waits),
		TEST(few_unanswered_do_not_hold_up_the_next),
		TEST(a_large_request_never_waits),
		TEST(a_full_batch_leaves),
		TEST(the_age_of_the_oldest_counts),
		TEST(a_stream_waits_behind_one_until_its_batches_stay_small),
		TEST(a_request_waits_behind_many_until_they_are_answered),
		TEST(all_that_waited_leave_in_order),
		TEST(other_requests_do_not_wait),
		TEST(a_reply_leaves_with_the_ack_that_is_due),
		TEST(nothing_waits_while_packets_are_repeated),
		TEST(datagrams_and_uc_do_not_wait),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
