/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages at the requester (message.h): what becomes of those that were sent in other states of
 * the QP, and with time.
 */
#include "transport/message_test_support.h"

static void sqd_waits_for_messages_sent(void **state)
{
	struct station *s = station_inside();

	s->qp.attr.en_sqd_async_notify = 1;
	post_and_send(s, IBV_WR_SEND, 1, 8, 1);
	post_and_send(s, IBV_WR_SEND, 2, 8, 2);
	post(s, IBV_WR_SEND, 3, 8);
	station_move(s, IBV_QPS_SQD);
	assert_false(may_send_message(s));
	answer_message(s, 1, false);
	assert_int_equal(s->qp.attr.sq_draining, 1);
	assert_false(event_pending(s, QP_EVENT_SQ_DRAINED));
	answer_message(s, 2, false);
	assert_int_equal(s->qp.attr.sq_draining, 0);
	assert_true(event_pending(s, QP_EVENT_SQ_DRAINED));
	expect_wc(&s->send_cq, 1, IBV_WC_SUCCESS);
	expect_wc(&s->send_cq, 2, IBV_WC_SUCCESS);
	expect_silence(s);
	station_move(s, IBV_QPS_RTS);
	assert_true(may_send_message(s));
	station_free(s);
}

/* Then it was not begun: the queue is drained, and it goes when the queue goes on. */
static void what_is_refused_in_sqd_goes_in_rts(void **state)
{
	struct station *s = station_inside();

	post_and_send(s, IBV_WR_SEND, 1, 8, 1);
	station_move(s, IBV_QPS_SQD);
	answer_message(s, 1, true);
	assert_int_equal(s->qp.attr.sq_draining, 0);
	expect_silence(s);
	expect_no_wc(&s->send_cq);
	station_move(s, IBV_QPS_RTS);
	assert_false(may_send_message(s));
	assert_int_equal(transmit(s), 1);
	expect_sent(s, 0, OPCODE_RC_SEND_ONLY, OUR_PSN);
	receive_ack(s, OUR_PSN);
	expect_wc(&s->send_cq, 1, IBV_WC_SUCCESS);
	station_free(s);
}

static void err_flushes_messages_sent(void **state)
{
	struct station *s = station_inside();
	uint32_t size = s->qp.sq.size, i;

	for (i = 1; i <= size; i++)
		post_and_send(s, IBV_WR_SEND, i, 8, i);
	answer_message(s, 1, false);
	expect_wc(&s->send_cq, 1, IBV_WC_SUCCESS);
	post(s, IBV_WR_RDMA_READ, size + 1, 8);
	station_move(s, IBV_QPS_ERR);
	for (i = 2; i <= size + 1; i++)
		expect_wc(&s->send_cq, i, IBV_WC_WR_FLUSH_ERR);
	assert_true(deadline_of(s) == TIME_NEVER);
	for (i = 1; i <= size; i++)
		answer_message(s, i, false);
	expect_no_wc(&s->send_cq);
	expect_silence(s);
	station_free(s);
}

static void begin_anew(bool by_error)
{
	_Atomic uint32_t alive = OUR_GRANT;
	struct station *s = station_inside();
	struct carried carried;
	uint32_t i;

	s->qp.pairing.alive = &alive;

	for (i = 0; i < 3; i++)
		post_and_send(s, IBV_WR_SEND, i, 8, 20 + i);
	assert_int_equal(alive, OUR_GRANT);
	answer_message(s, 20, true);
	if (by_error)
		station_move(s, IBV_QPS_ERR);
	for (i = 0; i < 3 && by_error; i++)
		expect_wc(&s->send_cq, i, IBV_WC_WR_FLUSH_ERR);
	station_move(s, IBV_QPS_RESET);
	/* Earlier messages are stale: the peer may no longer fetch their data from our memory. */
	assert_int_equal(alive, 0);
	assert_false(s->qp.pairing.agreed);
	expect_no_wc(&s->send_cq);
	station_move(s, IBV_QPS_INIT);
	station_move(s, IBV_QPS_RTR);
	station_move(s, IBV_QPS_RTS);
	assert_int_equal(s->qp.requester.message_sequence, 0);
	agree(s);
	post(s, IBV_WR_SEND, 9, 8);
	send_message(s, 23, &carried);
	assert_int_equal(carried.head[2] & PSN_MASK, 0);
	answer_message(s, 21, false);
	answer_message(s, 22, true);
	expect_no_wc(&s->send_cq);
	answer_message(s, 23, false);
	expect_wc(&s->send_cq, 9, IBV_WC_SUCCESS);
	expect_no_wc(&s->send_cq);
	station_free(s);
}

static void answers_of_a_former_life_are_ignored(void **state)
{
	begin_anew(false);
	begin_anew(true);
}

/* ---- time ---- */

/* 67 ms, and as many times more as a packet would be tried again. */
static uint64_t timeout_of(const struct station *s)
{
	return 4096ull << s->qp.attr.timeout;
}

static uint64_t patience(const struct station *s)
{
	return timeout_of(s) * (s->qp.attr.retry_cnt + 1u);
}

static void a_peer_that_does_not_answer_is_given_up(void **state)
{
	_Atomic uint32_t alive = OUR_GRANT;
	struct station *s = station_inside();

	s->qp.pairing.alive = &alive;
	assert_true(deadline_of(s) == TIME_NEVER);
	post_and_send(s, IBV_WR_SEND, 1, 8, 1);
	assert_int_equal(deadline_of(s), s->now_ns + timeout_of(s));
	pass_time(s, patience(s) / 2);
	expect_silence(s);	/* nothing is sent again meanwhile */
	post_and_send(s, IBV_WR_SEND, 2, 8, 2);
	post(s, IBV_WR_RDMA_READ, 3, 8);
	pass_time(s, patience(s) / 2 - 1);
	assert_int_equal(s->qp.state, IBV_QPS_RTS);
	assert_int_equal(alive, OUR_GRANT);
	pass_time(s, 1);
	assert_int_equal(s->qp.state, IBV_QPS_ERR);
	/* A peer that takes the first one out of memory now finds that it is no longer valid. */
	assert_int_equal(alive, 0);
	assert_false(s->qp.pairing.agreed);
	expect_wc(&s->send_cq, 1, IBV_WC_RETRY_EXC_ERR);
	expect_wc(&s->send_cq, 2, IBV_WC_WR_FLUSH_ERR);
	expect_wc(&s->send_cq, 3, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(station_counter(s, COUNTER_RETRY_EXCEEDED), 1);
	assert_true(deadline_of(s) == TIME_NEVER);
	station_free(s);
}

static void each_answer_gives_the_peer_all_its_time_again(void **state)
{
	struct station *s = station_inside();
	uint32_t i;

	for (i = 0; i < 5; i++)
		post_and_send(s, IBV_WR_SEND, i, 8, i);
	for (i = 0; i < 5; i++) {
		pass_time(s, patience(s) - 1);
		assert_int_equal(s->qp.state, IBV_QPS_RTS);
		answer_message(s, i, false);
		expect_wc(&s->send_cq, i, IBV_WC_SUCCESS);
	}
	assert_true(deadline_of(s) == TIME_NEVER);
	pass_time(s, 10 * patience(s));
	assert_int_equal(s->qp.state, IBV_QPS_RTS);
	/* An old answer does not count for the message sent now. */
	post_and_send(s, IBV_WR_SEND, 9, 8, 9);
	assert_int_equal(deadline_of(s), s->now_ns + timeout_of(s));
	answer_message(s, 9, false);
	station_free(s);
}

/* It is at a long one, or at those of other QPs before ours: it is not silent then. */
/* As the driving thread does it: the deadline passes, the peer is found at @progress. */
static void expire_at(struct station *s, uint32_t progress) UNCHECKED_LOCKS
{
	s->now_ns += timeout_of(s);
	transport_message_progress(&s->qp, progress, s->now_ns);
	if (transport_deadline(&s->qp) <= s->now_ns)
		transport_timeout(&s->qp, s->now_ns, &s->effects);
}

static void a_peer_that_gets_on_has_all_the_time_it_needs(void **state) UNCHECKED_LOCKS
{
	struct station *s = station_inside();
	uint32_t i;

	post_and_send(s, IBV_WR_SEND, 1, 8, 1);
	for (i = 0; i < 50; i++) {
		expire_at(s, UINT32_MAX - 20 + i / 2);	/* farther every second time */
		assert_int_equal(s->qp.state, IBV_QPS_RTS);
	}
	/* And once it does not, all the time that it has. */
	expire_at(s, 1000);
	assert_int_equal(station_counter(s, COUNTER_TIMEOUT), 25);
	pass_time(s, patience(s) - 1);
	assert_int_equal(s->qp.state, IBV_QPS_RTS);
	pass_time(s, 1);
	assert_int_equal(s->qp.state, IBV_QPS_ERR);
	assert_int_equal(station_counter(s, COUNTER_TIMEOUT), 25 + 3);
	expect_wc(&s->send_cq, 1, IBV_WC_RETRY_EXC_ERR);
	station_free(s);
}

static void timeout_zero_waits_for_ever(void **state)
{
	struct station *s = station_inside();

	s->qp.attr.timeout = 0;
	post_and_send(s, IBV_WR_SEND, 1, 8, 1);
	assert_true(deadline_of(s) == TIME_NEVER);
	pass_time(s, 1000000 * MILLISECOND);
	assert_int_equal(s->qp.state, IBV_QPS_RTS);
	answer_message(s, 1, false);
	expect_wc(&s->send_cq, 1, IBV_WC_SUCCESS);
	station_free(s);
}

/* What was refused has the time of packets: retries, each after its timeout. */
static void what_is_refused_has_its_own_time(void **state)
{
	struct station *s = station_inside();

	post_and_send(s, IBV_WR_SEND, 1, 8, 1);
	pass_time(s, patience(s) - 1);
	answer_message(s, 1, true);
	assert_int_equal(transmit(s), 1);
	pass_time(s, patience(s) / 2);
	assert_int_equal(s->qp.state, IBV_QPS_RTS);
	pass_time(s, patience(s));
	assert_int_equal(s->qp.state, IBV_QPS_ERR);
	expect_wc(&s->send_cq, 1, IBV_WC_RETRY_EXC_ERR);
	station_free(s);
}

static void a_peer_that_was_given_up_is_explained(void **state)
{
	struct station *s = station_inside();
	struct listening explanation;
	const char *text;

	post_and_send(s, IBV_WR_SEND, 1, 8, 1);
	post_and_send(s, IBV_WR_SEND, 2, 8, 2);
	explanation_begin(&explanation);
	pass_time(s, patience(s));
	text = explanation_end(&explanation);
	assert_mentions(text, "SEND of 8 bytes (wr_id 0x1) to qp 0x008022 at 192.0.2.2 failed");
	assert_mentions(text, "did not take 2 messages out of shared memory");
	station_free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(sqd_waits_for_messages_sent),
		TEST(what_is_refused_in_sqd_goes_in_rts),
		TEST(err_flushes_messages_sent),
		TEST(answers_of_a_former_life_are_ignored),
		TEST(a_peer_that_does_not_answer_is_given_up),
		TEST(each_answer_gives_the_peer_all_its_time_again),
		TEST(a_peer_that_gets_on_has_all_the_time_it_needs),
		TEST(timeout_zero_waits_for_ever),
		TEST(what_is_refused_has_its_own_time),
		TEST(a_peer_that_was_given_up_is_explained),
	};

	return cmocka_run_group_tests_name("message, state", tests, NULL, NULL);
}
