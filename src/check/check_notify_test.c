/* SPDX-License-Identifier: BSD-2-Clause */
/* Rules of notification: each finds its mistake, and says nothing of the right order beside it. */
#include "check/check_rule_test.h"

#define POLL(of, asked, took) DO(.what = CHECK_POLLED, .object = of, .count = asked, .got = took)
#define ARM(standing) DO(.what = CHECK_ARM, .object = CQ, .count = standing)
#define WAIT(...) DO(.what = CHECK_WAIT, .object = CHANNEL, __VA_ARGS__)
#define EVENT() DO(.what = CHECK_EVENT, .object = CQ)
#define ACK(events) DO(.what = CHECK_ACK, .object = CQ, .count = events)

/* A server that waits for messages: armed once before, an event has come. */
static void begin_server(void)
{
	begin(IBV_QPT_RC, 16);
	RECEIVE(.wr_id = 1, BUFFER);
	RECEIVE(.wr_id = 2, BUFFER);
	ARM(0);
	WAIT();
	EVENT();
	ACK(1);
}

static void armed_after_the_last_poll_is_found(void **state)
{
	begin_server();
	COMPLETE(.wr_id = 1, .receive = true);
	POLL(CQ, 1, 1);
	POLL(CQ, 1, 0);
	ARM(0);
	WAIT();
	assert_found(RULE_NOTIFY_001, 1);
}

static void polled_again_behind_arming_is_right(void **state)
{
	begin_server();
	ARM(1);
	COMPLETE(.wr_id = 1, .receive = true);
	POLL(CQ, 1, 1);
	POLL(CQ, 1, 0);
	WAIT();
	EVENT();
	ACK(1);
	POLL(CQ, 1, 0);
	ARM(0);
	POLL(CQ, 1, 0);
	WAIT();
	assert_silent();
}

static void armed_before_anything_can_come_is_right(void **state)
{
	begin(IBV_QPT_RC, 16);
	POLL(CQ, 1, 0);
	ARM(0);	/* no request is posted yet */
	SEND(.wr_id = 1, .signaled = true, BUFFER);
	WAIT();
	assert_silent();
	EVENT();
	ACK(1);
	COMPLETE(.wr_id = 1);
	POLL(CQ, 2, 1);
	ARM(0);	/* ping-pong: what is posted now raises the next event */
	SEND(.wr_id = 2, .signaled = true, BUFFER);
	WAIT();
	assert_silent();
}

static void waiting_without_arming_is_found(void **state)
{
	begin(IBV_QPT_RC, 16);
	WAIT();
	assert_found(RULE_NOTIFY_002, 1);
	begin_server();
	COMPLETE(.wr_id = 1, .receive = true);
	POLL(CQ, 1, 1);
	POLL(CQ, 1, 0);
	WAIT();
	assert_found(RULE_NOTIFY_002, 1);
}

static void events_that_are_there_and_other_threads_are_no_wait_for_ever(void **state)
{
	begin_server();
	WAIT(.has_event = true);
	WAIT(.nonblocking = true);
	DO_AS(2, .what = CHECK_POLLED, .object = CQ, .count = 1);	/* that may arm it */
	WAIT();
	assert_silent();
}

static void a_drain_that_ends_early_is_found(void **state)
{
	begin_server();
	ARM(2);
	COMPLETE(.wr_id = 1, .receive = true);
	POLL(CQ, 1, 1);
	WAIT();
	assert_found(RULE_NOTIFY_003, 1);
}

static void a_whole_drain_is_right(void **state)
{
	begin_server();
	ARM(2);
	COMPLETE(.wr_id = 1, .receive = true);
	COMPLETE(.wr_id = 2, .receive = true);
	POLL(CQ, 2, 2);
	WAIT();
	assert_silent();
}

static void events_without_acknowledgement_are_found(void **state)
{
	begin_server();
	ARM(0);
	WAIT();
	EVENT();
	ENDING(CQ);
	assert_found(RULE_EVENTS_001, 1);
}

static void an_acknowledgement_by_another_thread_may_come(void **state)
{
	begin_server();
	ENDING(CQ);
	begin_server();
	ARM(0);
	WAIT();
	EVENT();
	DO_AS(2, .what = CHECK_ENDING, .object = CQ);
	assert_silent();
}

static void too_many_acknowledgements_are_found(void **state)
{
	begin_server();
	ACK(1);
	assert_found(RULE_EVENTS_002, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(armed_after_the_last_poll_is_found),
		cmocka_unit_test(polled_again_behind_arming_is_right),
		cmocka_unit_test(armed_before_anything_can_come_is_right),
		cmocka_unit_test(waiting_without_arming_is_found),
		cmocka_unit_test(events_that_are_there_and_other_threads_are_no_wait_for_ever),
		cmocka_unit_test(a_drain_that_ends_early_is_found),
		cmocka_unit_test(a_whole_drain_is_right),
		cmocka_unit_test(events_without_acknowledgement_are_found),
		cmocka_unit_test(an_acknowledgement_by_another_thread_may_come),
		cmocka_unit_test(too_many_acknowledgements_are_found),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
