/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Peers whose process does not run: as long as the engine says so nothing fails and nothing is sent again;
 * a process that goes on has all its time, one that ends fails the request at once. In virtual time.
 */
#include "transport/loss.h"
#include "transport/message_test_support.h"

static uint64_t timeout_of(const struct station *s)
{
	return ack_timeout_ns(s->qp.attr.timeout);
}

/* As the engine does it at each deadline. */
static void pass_time_with(struct station *s, enum presence presence, uint64_t ns) UNCHECKED_LOCKS
{
	uint64_t until_ns = s->now_ns + ns, deadline_ns;

	while ((deadline_ns = transport_deadline(&s->qp)) <= until_ns) {
		if (deadline_ns > s->now_ns)
			s->now_ns = deadline_ns;
		if (transport_awaits_presence(&s->qp, s->now_ns))
			transport_presence(&s->qp, presence, "stopped by a test", s->now_ns, &s->effects);
		if (transport_deadline(&s->qp) <= s->now_ns)
			transport_timeout(&s->qp, s->now_ns, &s->effects);
		effects_init(&s->effects);
		transmit(s);
	}
	s->now_ns = until_ns;
}

static struct station *station_of_host(void)
{
	struct station *s = station_rts(IBV_QPT_RC);

	s->qp.route.loopback = true;
	return s;
}

static void a_stopped_peer_is_waited_for(void **state)
{
	struct station *s = station_of_host();
	uint64_t sent;

	s->qp.attr.retry_cnt = 0;
	post(s, IBV_WR_SEND, 1, 8);
	assert_int_equal(transmit(s), 1);
	pass_time_with(s, PRESENCE_STOPPED, timeout_of(s));
	assert_int_equal(station_counter(s, COUNTER_PEER_STOPPED), 1);
	sent = s->qp.requester.loss.sent_packets;
	pass_time_with(s, PRESENCE_STOPPED, 3600 * 1000 * MILLISECOND);
	assert_int_equal(s->qp.state, IBV_QPS_RTS);
	assert_int_equal(s->qp.requester.loss.sent_packets, sent);
	assert_int_equal(station_counter(s, COUNTER_PEER_STOPPED), 1);
	assert_int_equal(station_counter(s, COUNTER_TIMEOUT), 0);
	receive_ack(s, OUR_PSN);
	expect_wc(&s->send_cq, 1, IBV_WC_SUCCESS);
	assert_true(deadline_of(s) == TIME_NEVER);
	station_free(s);
}

static void one_that_goes_on_has_all_its_time(void **state)
{
	struct station *s = station_of_host();

	post(s, IBV_WR_SEND, 1, 8);
	transmit(s);
	/* Two of its three timeouts are over before it is stopped. */
	pass_time_with(s, PRESENCE_RUNS, 6 * timeout_of(s));
	assert_int_equal(station_counter(s, COUNTER_TIMEOUT), 2);
	pass_time_with(s, PRESENCE_STOPPED, 10 * timeout_of(s));
	pass_time_with(s, PRESENCE_RUNS, LOSS_LOOK_NS);
	assert_false(s->qp.requester.loss.stopped);
	pass_time_with(s, PRESENCE_RUNS, 6 * timeout_of(s));
	assert_int_equal(s->qp.state, IBV_QPS_RTS);
	pass_time_with(s, PRESENCE_RUNS, 6 * timeout_of(s));
	assert_int_equal(s->qp.state, IBV_QPS_ERR);
	expect_wc(&s->send_cq, 1, IBV_WC_RETRY_EXC_ERR);
	station_free(s);
}

static void one_that_ends_while_it_is_stopped_fails_the_request_at_once(void **state)
{
	struct station *s = station_of_host();
	struct listening explanation;
	const char *text;

	s->qp.attr.timeout = 22;	/* 17 s */
	post(s, IBV_WR_SEND, 1, 8);
	transmit(s);
	pass_time_with(s, PRESENCE_STOPPED, timeout_of(s));
	explanation_begin(&explanation);
	pass_time_with(s, PRESENCE_ENDED, LOSS_LOOK_NS);
	text = explanation_end(&explanation);
	assert_int_equal(s->qp.state, IBV_QPS_ERR);
	expect_wc(&s->send_cq, 1, IBV_WC_RETRY_EXC_ERR);
	assert_mentions(text, "which was stopped, has ended");
	station_free(s);
}

/* Alive, it may have had no processor: a timeout is three times as long, unless it said why it is silent. */
static void one_that_runs_has_three_times_the_timeout(void **state) UNCHECKED_LOCKS
{
	const struct refusal refusal = { .why = DROP_QP_STATE, .value = IBV_QPS_INIT, .psn = OUR_PSN };
	struct station *s = station_of_host();

	post(s, IBV_WR_SEND, 1, 8);
	transmit(s);
	pass_time_with(s, PRESENCE_RUNS, 3 * timeout_of(s) - 1);
	assert_int_equal(station_counter(s, COUNTER_TIMEOUT), 0);
	pass_time_with(s, PRESENCE_RUNS, 1);
	assert_int_equal(station_counter(s, COUNTER_TIMEOUT), 1);
	pass_time_with(s, PRESENCE_RUNS, 3 * timeout_of(s));
	assert_int_equal(station_counter(s, COUNTER_TIMEOUT), 2);
	transport_refused(&s->qp, &refusal);
	pass_time_with(s, PRESENCE_RUNS, timeout_of(s));
	assert_int_equal(s->qp.state, IBV_QPS_ERR);
	station_free(s);
}

/* A slow timeout is no longer than asked for: all tries together would take longer than 4 s. */
static void a_long_timeout_is_what_it_is(void **state)
{
	struct station *s = station_of_host();

	s->qp.attr.timeout = 20;	/* 4.3 s */
	post(s, IBV_WR_SEND, 1, 8);
	transmit(s);
	pass_time_with(s, PRESENCE_RUNS, timeout_of(s));
	assert_int_equal(station_counter(s, COUNTER_TIMEOUT), 1);
	station_free(s);
}

/* Who ends without having been stopped is silent, for as long as the QP says. */
static void one_that_has_ended_before_has_its_retries(void **state)
{
	struct station *s = station_of_host();

	post(s, IBV_WR_SEND, 1, 8);
	transmit(s);
	pass_time_with(s, PRESENCE_ENDED, 2 * timeout_of(s));
	assert_int_equal(s->qp.state, IBV_QPS_RTS);
	pass_time_with(s, PRESENCE_ENDED, 2 * timeout_of(s));
	assert_int_equal(s->qp.state, IBV_QPS_ERR);
	station_free(s);
}

static void messages_wait_as_packets_do(void **state)
{
	struct station *s = station_inside();
	struct listening explanation;
	const char *text;

	post_and_send(s, IBV_WR_SEND, 1, 8, 1);
	explanation_begin(&explanation);
	pass_time_with(s, PRESENCE_STOPPED, 1000 * 1000 * MILLISECOND);
	text = explanation_end(&explanation);
	assert_mentions(text, "takes nothing (it is stopped by a test)");
	assert_null(strstr(strstr(text, "takes nothing") + 1, "takes nothing"));
	assert_int_equal(s->qp.state, IBV_QPS_RTS);
	answer_message(s, 1, false);
	expect_wc(&s->send_cq, 1, IBV_WC_SUCCESS);
	assert_false(s->qp.requester.loss.stopped);
	station_free(s);
}

static void commit(struct station *s) UNCHECKED_LOCKS
{
	effects_init(&s->effects);
	transport_message_commit(&s->qp, false, s->now_ns, &s->effects);
}

/* One is completed, the other waits on; what is sent then is looked at soon. */
static void a_message_may_be_completed_before_it_is_taken(void **state)
{
	struct station *s = station_inside();

	post_and_send(s, IBV_WR_SEND, 1, 8, 1);
	post_and_send(s, IBV_WR_SEND, 2, 8, 2);
	pass_time_with(s, PRESENCE_STOPPED, timeout_of(s));
	commit(s);
	expect_wc(&s->send_cq, 1, IBV_WC_SUCCESS);
	expect_no_wc(&s->send_cq);
	assert_int_equal(s->qp.requester.local_messages, 1);
	pass_time_with(s, PRESENCE_STOPPED, 100 * timeout_of(s));
	assert_int_equal(s->qp.state, IBV_QPS_RTS);
	commit(s);
	expect_wc(&s->send_cq, 2, IBV_WC_SUCCESS);
	assert_true(deadline_of(s) == TIME_NEVER);
	post_and_send(s, IBV_WR_SEND, 3, 8, 3);
	assert_true(deadline_of(s) <= s->now_ns + 10 * MILLISECOND);
	answer_message(s, 3, false);
	expect_wc(&s->send_cq, 3, IBV_WC_SUCCESS);
	assert_int_equal(station_counter(s, COUNTER_MESSAGE_EARLY), 2);
	station_free(s);
}

/* The application was told that it had arrived: nothing may be sent as if it had. */
static void one_that_is_refused_after_all_ends_the_qp(void **state) UNCHECKED_LOCKS
{
	struct station *s = station_inside();

	post_and_send(s, IBV_WR_SEND, 1, 8, 1);
	post_and_send(s, IBV_WR_SEND, 2, 8, 2);
	commit(s);
	expect_wc(&s->send_cq, 1, IBV_WC_SUCCESS);
	effects_init(&s->effects);
	transport_message_unmade(&s->qp, s->now_ns, &s->effects);
	assert_int_equal(s->qp.state, IBV_QPS_ERR);
	assert_false(s->qp.pairing.agreed);
	expect_wc(&s->send_cq, 2, IBV_WC_WR_FLUSH_ERR);
	station_free(s);
}

static bool awaits_presence(struct station *s, uint64_t after_ns) UNCHECKED_LOCKS
{
	return transport_awaits_presence(&s->qp, s->now_ns + after_ns);
}

/* Of the peer's host nothing is known; UC waits for nobody; nor does a QP without timeout ever end. */
static void who_is_not_asked_for(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);

	post(s, IBV_WR_SEND, 1, 8);
	transmit(s);
	assert_false(awaits_presence(s, 10 * timeout_of(s)));
	s->qp.route.loopback = true;
	assert_false(awaits_presence(s, timeout_of(s) - 1));
	assert_true(awaits_presence(s, timeout_of(s)));
	s->qp.requester.rnr_until_ns = s->now_ns + 1;	/* it said when to come again */
	assert_false(awaits_presence(s, timeout_of(s)));
	s->qp.requester.rnr_until_ns = 0;
	s->qp.attr.timeout = 0;
	assert_false(awaits_presence(s, 3600 * 1000 * MILLISECOND));
	station_free(s);
}

static bool is_here;

static bool fake_is_here(const struct qp *qp)
{
	return is_here;
}

/* Where a LID leads to, others know; and who has been found stopped is looked at until it goes on or ends. */
static void by_lid_one_of_this_host_is_waited_for(void **state) UNCHECKED_LOCKS
{
	struct station *s = station_rts(IBV_QPT_RC);

	s->qp.attr.retry_cnt = 0;
	s->transport.is_here = fake_is_here;
	is_here = true;
	post(s, IBV_WR_SEND, 1, 8);
	transmit(s);
	assert_false(awaits_presence(s, timeout_of(s)));	/* by IP the address tells */
	s->qp.route.link = ROUTE_IB;
	is_here = false;
	assert_false(awaits_presence(s, timeout_of(s)));
	is_here = true;
	assert_true(awaits_presence(s, timeout_of(s)));
	pass_time_with(s, PRESENCE_STOPPED, 3600 * 1000 * MILLISECOND);
	assert_int_equal(s->qp.state, IBV_QPS_RTS);
	is_here = false;
	pass_time_with(s, PRESENCE_STOPPED, 3600 * 1000 * MILLISECOND);
	assert_int_equal(s->qp.state, IBV_QPS_RTS);
	pass_time_with(s, PRESENCE_ENDED, LOSS_LOOK_NS);
	assert_int_equal(s->qp.state, IBV_QPS_ERR);
	expect_wc(&s->send_cq, 1, IBV_WC_RETRY_EXC_ERR);
	station_free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_stopped_peer_is_waited_for),
		TEST(one_that_goes_on_has_all_its_time),
		TEST(one_that_ends_while_it_is_stopped_fails_the_request_at_once),
		TEST(one_that_runs_has_three_times_the_timeout),
		TEST(a_long_timeout_is_what_it_is),
		TEST(one_that_has_ended_before_has_its_retries),
		TEST(messages_wait_as_packets_do),
		TEST(a_message_may_be_completed_before_it_is_taken),
		TEST(one_that_is_refused_after_all_ends_the_qp),
		TEST(who_is_not_asked_for),
		TEST(by_lid_one_of_this_host_is_waited_for),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
