/* SPDX-License-Identifier: BSD-2-Clause */
/* When WRITEs of UC may go without packets (barrier.h). */
#include "transport/barrier.h"

#include "transport/direct.h"
#include "transport/test_support.h"

static void write_in_packets(struct station *s, unsigned count)
{
	struct ibv_wc wc;

	while (count--) {
		post(s, IBV_WR_RDMA_WRITE, 1, 8);
		assert_int_equal(transmit(s), 1);
		assert_int_equal(cq_take(&s->send_cq, 1, &wc), 1);
	}
}

/* A row of WRITEs, the next one posted, and the question asked. */
static struct station *station_asked(void)
{
	struct station *s = station_rts(IBV_QPT_UC);

	lock_assert_held(&s->qp.lock);
	write_in_packets(s, BARRIER_AFTER);
	post(s, IBV_WR_RDMA_WRITE, 1, 8);
	assert_true(barrier_is_due(&s->qp));
	barrier_asked(&s->qp, s->now_ns);
	return s;
}

static void a_row_of_writes_is_followed_by_a_question(void **state)
{
	struct station *s = station_rts(IBV_QPT_UC);

	lock_assert_held(&s->qp.lock);
	write_in_packets(s, BARRIER_AFTER - 1);
	post(s, IBV_WR_RDMA_WRITE, 1, 8);
	assert_false(barrier_is_due(&s->qp));
	assert_null(transport_direct_next(&s->qp));
	assert_int_equal(transmit(s), 1);
	assert_false(barrier_is_due(&s->qp));	/* nothing is posted */
	post(s, IBV_WR_RDMA_WRITE, 1, 8);
	assert_true(barrier_is_due(&s->qp));
	assert_null(transport_direct_next(&s->qp));
	station_free(s);
}

/* Before the row's end is passed within one call, the caller has its chance to ask. */
static void the_row_ends_the_transmission(void **state)
{
	struct station *s = station_rts(IBV_QPT_UC);
	unsigned i;

	lock_assert_held(&s->qp.lock);
	for (i = 0; i < BARRIER_AFTER + 4; i++)
		post(s, IBV_WR_RDMA_WRITE, 1, 8);
	assert_int_equal(transmit(s), BARRIER_AFTER);
	assert_true(barrier_is_due(&s->qp));
	/* It did not ask. */
	barrier_declined(&s->qp);
	assert_int_equal(transmit(s), 4);
	station_free(s);
}

static void another_request_ends_the_row(void **state)
{
	struct station *s = station_rts(IBV_QPT_UC);

	lock_assert_held(&s->qp.lock);
	write_in_packets(s, BARRIER_AFTER - 1);
	post(s, IBV_WR_SEND, 1, 8);
	assert_int_equal(transmit(s), 1);
	write_in_packets(s, BARRIER_AFTER - 1);
	post(s, IBV_WR_RDMA_WRITE, 1, 8);
	assert_false(barrier_is_due(&s->qp));
	station_free(s);
}

static void who_has_asked_sends_nothing_until_the_answer(void **state)
{
	struct station *s = station_asked();

	lock_assert_held(&s->qp.lock);
	assert_false(barrier_is_due(&s->qp));
	assert_false(transport_ready(&s->qp));
	assert_int_equal(transmit(s), 0);
	assert_null(transport_direct_next(&s->qp));
	assert_true(barrier_answered(&s->qp));
	assert_non_null(transport_direct_next(&s->qp));
	/* If it has to be packets, the next one has to wait again. */
	assert_int_equal(transmit(s), 1);
	post(s, IBV_WR_RDMA_WRITE, 1, 8);
	assert_null(transport_direct_next(&s->qp));
	station_free(s);
}

static void only_writes_go_directly(void **state)
{
	struct station *s = station_asked();

	lock_assert_held(&s->qp.lock);
	assert_true(barrier_answered(&s->qp));
	transport_direct_done(&s->qp, NULL, 0, &s->effects);
	post(s, IBV_WR_RDMA_WRITE_WITH_IMM, 1, 8);
	assert_null(transport_direct_next(&s->qp));
	assert_int_equal(transmit(s), 1);
	post(s, IBV_WR_RDMA_WRITE, 1, 8);
	assert_null(transport_direct_next(&s->qp));
	station_free(s);
}

static void nobody_waits_for_a_peer_that_does_not_answer(void **state)
{
	struct station *s = station_asked();

	lock_assert_held(&s->qp.lock);
	assert_int_equal(transport_deadline(&s->qp), s->now_ns + BARRIER_NS);
	pass_time(s, BARRIER_NS - 1);
	assert_int_equal(transmit(s), 0);
	pass_time(s, 1);
	assert_ptr_equal(run_queue_pop(&s->run_queue), &s->qp);
	assert_int_equal(transmit(s), 1);
	/* Its answer, late: packets are under way. */
	assert_false(barrier_answered(&s->qp));
	post(s, IBV_WR_RDMA_WRITE, 1, 8);
	assert_null(transport_direct_next(&s->qp));
	station_free(s);
}

/* Stopped for others, not for want of a way: they are not sent as packets. */
static void requests_that_go_on_directly_are_no_packets(void **state)
{
	static const enum ibv_qp_type types[] = { IBV_QPT_RC, IBV_QPT_UC };
	unsigned i;

	for (i = 0; i < 2; i++) {
		struct station *s = station_rts(types[i]);

		post(s, IBV_WR_RDMA_WRITE, 1, 8);
		s->qp.requester.direct_waits = true;
		assert_int_equal(transmit(s), 0);
		assert_true(s->cut);
		s->qp.requester.direct_waits = false;
		assert_int_equal(transmit(s), 1);
		assert_false(s->cut);
		station_move(s, IBV_QPS_ERR);
		station_free(s);
	}
}

static void a_reset_forgets_the_question(void **state)
{
	struct station *s = station_asked();

	lock_assert_held(&s->qp.lock);
	station_move(s, IBV_QPS_RESET);
	assert_false(barrier_answered(&s->qp));
	assert_int_equal(transport_deadline(&s->qp), TIME_NEVER);
	station_free(s);
}

static void other_types_do_without(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);

	lock_assert_held(&s->qp.lock);
	s->qp.requester.in_packets = BARRIER_AFTER;
	post(s, IBV_WR_RDMA_WRITE, 1, 8);
	assert_false(barrier_is_due(&s->qp));
	assert_non_null(transport_direct_next(&s->qp));
	station_move(s, IBV_QPS_ERR);
	station_free(s);
}

int main(void)
{
#define TEST(name) cmocka_unit_test(name)
	const struct CMUnitTest tests[] = {
		TEST(a_row_of_writes_is_followed_by_a_question),
		TEST(the_row_ends_the_transmission),
		TEST(another_request_ends_the_row),
		TEST(who_has_asked_sends_nothing_until_the_answer),
		TEST(only_writes_go_directly),
		TEST(nobody_waits_for_a_peer_that_does_not_answer),
		TEST(requests_that_go_on_directly_are_no_packets),
		TEST(a_reset_forgets_the_question),
		TEST(other_types_do_without),
	};

	return cmocka_run_group_tests_name("barrier", tests, NULL, NULL);
}
