/* SPDX-License-Identifier: BSD-2-Clause */
/* The table and the numbers of the policy of progress: each event, what follows, what is learnt. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "engine/policy.h"

#define US		1000ull
#define MS		1000000ull
#define NOW_NS		(1000 * MS)
#define NEVER		UINT64_MAX

static struct policy policy;
static struct policy_view view;

static int begin(void **state)
{
	policy_init(&policy);
	view = (struct policy_view){ .now_ns = NOW_NS };
	return 0;
}

/* Polled @ns ago. */
static enum policy_event woken(uint64_t ns)
{
	view.progress_ns = NOW_NS - ns;
	return policy_woken(&policy, &view);
}

static void expect(enum policy_event event, enum policy_action action, enum worker_state next)
{
	assert_int_equal(policy_decide(&policy, event), action);
	assert_int_equal(policy.state, next);
}

static void stand_by(void)
{
	policy.state = WORKER_ACTIVE;
	policy_decide(&policy, EVENT_LEARNT);
	assert_int_equal(policy.state, WORKER_STANDBY);
}

static struct policy_rest rest(void)
{
	return policy_rest(&policy, &view, NEVER, NEVER);
}

/* ---- the table ---- */

static enum policy_action follow(enum policy_event event)
{
	enum policy_action action = policy_decide(&policy, event);

	assert_int_not_equal(action, ACTION_IMPOSSIBLE);
	assert_true(policy.state < WORKER_STATES);
	return action;
}

static void follow_all(struct policy_view *seen)
{
	struct policy_view later = *seen;
	struct policy start;
	enum policy_action action = follow(policy_woken(&policy, seen));
	unsigned i;

	start = policy;
	for (i = 0; i < 8; i++, policy = start) {
		later.inside = i & 1;
		later.calls = seen->calls + (i >> 1 & 1);
		if (action == ACTION_DOUBT)
			assert_int_not_equal(follow(policy_doubted(&policy, seen, &later, i & 4)), ACTION_DOUBT);
		if (action == ACTION_PROGRESS)
			assert_int_equal(follow(policy_busy(&policy, seen, &later)), ACTION_REST);
		if (action == ACTION_ASK)
			assert_int_equal(follow(i & 4 ? EVENT_PREEMPTED : EVENT_GONE), ACTION_REST);
	}
}

static void whatever_is_seen_has_a_row(void **state)
{
	static const uint64_t ago_ns[] = { 0, 20001, 100000, 5000001, NOW_NS };
	static const int scores[] = { 1, 2, 4, 32 };
	unsigned worker, i, j, bits;

	for (worker = 0; worker < WORKER_STATES; worker++)
		for (i = 0; i < 5; i++)
			for (j = 0; j < 4; j++)
				for (bits = 0; bits < 64; bits++) {
					policy.state = worker;
					policy.score = scores[j];
					policy.look_ns = policy_numbers.look_min_ns;
					view.progress_ns = NOW_NS - ago_ns[i];
					view.events_ns = bits & 1 ? NOW_NS : 0;
					view.inside = bits & 2;
					view.waiting = bits & 4;
					view.work_left = bits & 8;
					view.rung = bits & 16;
					view.waits = bits >> 5;
					follow_all(&view);
				}
}

/* ---- ACTIVE ---- */

static void a_wake_up_right_after_a_poll_is_doubted(void **state)
{
	assert_int_equal(woken(20 * US), EVENT_RECENT);
	assert_int_equal(woken(20 * US + 1), EVENT_ALONE);
	expect(EVENT_RECENT, ACTION_DOUBT, WORKER_ACTIVE);
	expect(EVENT_ALONE, ACTION_PROGRESS, WORKER_ACTIVE);
	view.waiting = true;
	assert_int_equal(woken(0), EVENT_WAITER);
	expect(EVENT_WAITER, ACTION_STAND_IN, WORKER_RELIEVED);
}

static void who_asks_for_events_is_not_doubted(void **state)
{
	view.events_ns = NOW_NS - MS + 1;
	assert_int_equal(woken(0), EVENT_ALONE);
	view.events_ns = NOW_NS - MS;
	assert_int_equal(woken(0), EVENT_RECENT);
}

static void another_thread_may_have_read_the_clock_later(void **state)
{
	view.events_ns = NOW_NS + US;
	assert_int_equal(woken(0), EVENT_ALONE);
	view.events_ns = 0;
	view.progress_ns = NOW_NS + US;
	assert_int_equal(policy_woken(&policy, &view), EVENT_RECENT);
	stand_by();
	assert_int_equal(policy_woken(&policy, &view), EVENT_POLLED);
}

static void after_some_useless_wake_ups_it_stands_by(void **state)
{
	struct policy_view later = view;
	int i;

	later.calls++;
	for (i = 1; i < policy_numbers.score_start; i++)
		expect(policy_doubted(&policy, &view, &later, false), ACTION_REST, WORKER_ACTIVE);
	assert_int_equal(policy_doubted(&policy, &view, &later, false), EVENT_LEARNT);
	expect(EVENT_LEARNT, ACTION_REST, WORKER_STANDBY);
	assert_int_equal(policy.look_ns, 50 * US);
}

static void who_copies_or_was_preempted_makes_a_wake_up_useless_too(void **state)
{
	struct policy_view later = view;

	assert_int_equal(policy_doubted(&policy, &view, &later, false), EVENT_NEEDED);
	assert_int_equal(policy_doubted(&policy, &view, &later, true), EVENT_USELESS);
	later.inside = true;
	assert_int_equal(policy_doubted(&policy, &view, &later, false), EVENT_USELESS);
	assert_int_equal(policy_busy(&policy, &view, &later), EVENT_BUSY);	/* it came just now */
	assert_int_equal(policy_busy(&policy, &later, &later), EVENT_USELESS);
	assert_int_equal(policy_busy(&policy, &later, &view), EVENT_BUSY);
	later.events_ns = NOW_NS;
	assert_int_equal(policy_busy(&policy, &later, &later), EVENT_BUSY);
	expect(EVENT_BUSY, ACTION_REST, WORKER_ACTIVE);
	assert_int_equal(policy.score, policy_numbers.score_start);
}

static void who_is_sure_seldom_doubts(void **state)
{
	unsigned i, doubted = 0;

	for (i = 0; i < 40; i++)
		expect(EVENT_NEEDED, ACTION_PROGRESS, WORKER_ACTIVE);
	assert_int_equal(policy.score, policy_numbers.score_max);
	for (i = 0; i < 320; i++)
		doubted += woken(0) == EVENT_RECENT;
	assert_int_equal(doubted, 10);
	expect(EVENT_USELESS, ACTION_REST, WORKER_ACTIVE);
	assert_int_equal(woken(0), EVENT_RECENT);
	expect(EVENT_NEEDED, ACTION_PROGRESS, WORKER_ACTIVE);
	assert_int_equal(policy.score, policy_numbers.score_max);
}

static void it_sleeps_until_the_first_deadline(void **state)
{
	assert_int_equal(policy_rest(&policy, &view, 7, 9).until_ns, 7);
	assert_int_equal(policy_rest(&policy, &view, 9, 8).until_ns, 8);
	assert_int_equal(rest().on, SLEEP_ON_ALL);
}

/* ---- STANDBY ---- */

static void it_looks_less_and_less_often(void **state)
{
	uint64_t expected_ns = 50 * US;
	unsigned i;

	stand_by();
	for (i = 0; i < 10; i++) {
		assert_int_equal(rest().on, SLEEP_ON_DOORBELL);
		assert_int_equal(rest().until_ns, NOW_NS + expected_ns);
		expect(i & 1 ? EVENT_POLLED : EVENT_PREEMPTED, ACTION_REST, WORKER_STANDBY);
		if (expected_ns < 2 * MS)
			expected_ns *= 2;
	}
	assert_int_equal(expected_ns, 3200 * US);
}

static void who_polls_now_is_told_from_who_does_not(void **state)
{
	stand_by();
	rest();
	assert_int_equal(woken(100 * US - 1), EVENT_POLLED);
	assert_int_equal(woken(100 * US), EVENT_QUIET);
	assert_int_equal(woken(5 * MS), EVENT_QUIET);
	assert_int_equal(woken(5 * MS + 1), EVENT_GONE);
	view.work_left = true;
	assert_int_equal(woken(100 * US), EVENT_GONE);
	view.inside = true;
	assert_int_equal(woken(6 * MS), EVENT_POLLED);
	view.rung = true;
	assert_int_equal(woken(0), EVENT_RUNG);
	view.waits++;
	assert_int_equal(woken(0), EVENT_WAITED);
	view.waiting = true;
	assert_int_equal(woken(0), EVENT_WAITER);
	expect(EVENT_QUIET, ACTION_ASK, WORKER_STANDBY);
	expect(EVENT_WAITED, ACTION_REST, WORKER_STANDBY);
	expect(EVENT_WAITER, ACTION_PASS, WORKER_RELIEVED);
}

static void it_takes_over_and_learns_anew(void **state)
{
	static const enum policy_event events[] = { EVENT_GONE, EVENT_RUNG };
	unsigned i;

	for (i = 0; i < 2; i++) {
		policy.score = 1;
		stand_by();
		expect(events[i], ACTION_REST, WORKER_ACTIVE);
		assert_int_equal(policy.score, policy_numbers.score_start);
	}
}

/* ---- RELIEVED ---- */

static void who_waits_in_its_place_lets_it_sleep(void **state)
{
	stand_by();
	view.waiting = true;
	view.waits = 1;
	assert_int_equal(rest().on, SLEEP_ON_NAP);
	assert_int_equal(policy.state, WORKER_RELIEVED);
	expect(woken(0), ACTION_ASSIST, WORKER_RELIEVED);
	view.waits = 2;
	assert_false(rest().deep);		/* another wait than at the last look */
	assert_int_equal(rest().until_ns, NOW_NS + 2 * MS);
	assert_true(rest().deep);
	assert_int_equal(policy_rest(&policy, &view, NOW_NS + 9 * MS, 0).until_deep_ns, NOW_NS + 9 * MS);
	assert_int_equal(policy_rest(&policy, &view, NOW_NS + MS, 0).until_ns, NOW_NS + MS);
	view.waiting = false;
	expect(woken(0), ACTION_ASSIST, WORKER_STANDBY);
	assert_int_equal(rest().until_ns, NOW_NS + 2 * MS);
}

static void a_wait_vouches_for_the_next_ones(void **state)
{
	int waits = policy_waited(), i;

	for (i = 0; i < policy_numbers.waits_max; i++)
		assert_false(policy_wakes_for_events(WORKER_STANDBY, &waits));
	assert_true(policy_wakes_for_events(WORKER_STANDBY, &waits));
	assert_true(policy_wakes_for_events(WORKER_RELIEVED, &waits));
	assert_false(policy_wakes_for_events(WORKER_ACTIVE, &waits));
	assert_int_equal(waits, 0);
}

/* ---- threads that poll, and lingering ---- */

static void polls_make_progress_now_and_then(void **state)
{
	unsigned n, skipped = 0, rounds = 0, yields = 0;

	for (n = 0; n < 4000; n++) {
		skipped += policy_may_skip(n);
		rounds += policy_progress_is_due(n);
		yields += policy_yield_is_due(n, policy_numbers.yield_every);
	}
	assert_int_equal(skipped, 3500);
	assert_int_equal(rounds, 250);
	assert_int_equal(yields, 80);
	assert_false(policy_may_skip(0));
}

/* Soon again where another thread had a turn; not for a hog, which keeps the core; seldom where nobody runs. */
static void yields_come_soon_where_others_take_turns(void **state)
{
	const struct policy_numbers *numbers = &policy_numbers;
	uint32_t every = numbers->yield_every;
	unsigned n;

	assert_int_equal(policy_yielded(every, 300), numbers->yield_every);
	assert_int_equal(policy_yielded(every, numbers->turn_max_ns), numbers->yield_every);
	every = policy_yielded(every, 10000);
	assert_int_equal(every, numbers->yield_soon);
	assert_int_equal(policy_yielded(every, 10000), numbers->yield_soon);
	assert_int_equal(policy_yielded(every, 3000000), 2 * numbers->yield_soon);
	for (n = 0; n < 4; n++)
		every = policy_yielded(every, 300);
	assert_int_equal(every, numbers->yield_every);
	/* A hog's slice is no turn, but what arrived in it is looked for as well. */
	assert_false(policy_core_was_taken(300));
	assert_true(policy_core_was_taken(10000));
	assert_true(policy_core_was_taken(3000000));
}

static void rounds_leave_out_what_can_wait(void **state)
{
	unsigned n, brief = 0, timers = 0;

	for (n = 0; n < 64; n++) {
		brief += policy_is_brief(n, 1000);
		assert_false(policy_is_brief(n, 1 << 20));
		timers += policy_timers_are_due(n, 3);
		assert_true(policy_timers_are_due(n, 0));
	}
	assert_int_equal(brief, 60);
	assert_int_equal(timers, 16);
	assert_false(policy_clock_is_old(16));
	assert_true(policy_clock_is_old(17));
	assert_false(policy_note_is_due(6000, 1000));
	assert_true(policy_note_is_due(6001, 1000));
}

static void replies_are_learnt(void **state)
{
	assert_int_equal(policy_reply_came(0), 1);
	assert_int_equal(policy_reply_came(8), 8);
	assert_int_equal(policy_reply_missed(8), 6);
	assert_int_equal(policy_reply_missed(2), 0);
	assert_int_equal(policy_reply_missed(1), 0);
	assert_true(policy_awaits_reply(WORKER_STANDBY, 1, 1));
	assert_true(policy_awaits_reply(WORKER_RELIEVED, 1, 1));
	assert_false(policy_awaits_reply(WORKER_ACTIVE, 8, 64));
	assert_false(policy_awaits_reply(WORKER_STANDBY, 0, 63));
	assert_true(policy_awaits_reply(WORKER_STANDBY, 0, 64));
}

static void who_lingers_stops_in_the_end(void **state)
{
	assert_int_equal(policy_linger(1, 0, 30 * US, false), LINGER_ON);
	assert_int_equal(policy_linger(1, 0, 30 * US + 1, false), LINGER_END);
	assert_int_equal(policy_linger(1, 0, 0, true), LINGER_END);
	assert_int_equal(policy_linger(4096, 0, 0, false), LINGER_END);
	assert_int_equal(policy_linger(20, 15, 0, false), LINGER_ON);
	assert_int_equal(policy_linger(20, 16, 0, false), LINGER_YIELD);
}

int main(void)
{
#define POLICY_TEST(name) cmocka_unit_test_setup(name, begin)
	const struct CMUnitTest tests[] = {
		POLICY_TEST(whatever_is_seen_has_a_row),
		POLICY_TEST(a_wake_up_right_after_a_poll_is_doubted),
		POLICY_TEST(who_asks_for_events_is_not_doubted),
		POLICY_TEST(another_thread_may_have_read_the_clock_later),
		POLICY_TEST(after_some_useless_wake_ups_it_stands_by),
		POLICY_TEST(who_copies_or_was_preempted_makes_a_wake_up_useless_too),
		POLICY_TEST(who_is_sure_seldom_doubts),
		POLICY_TEST(it_sleeps_until_the_first_deadline),
		POLICY_TEST(it_looks_less_and_less_often),
		POLICY_TEST(who_polls_now_is_told_from_who_does_not),
		POLICY_TEST(it_takes_over_and_learns_anew),
		POLICY_TEST(who_waits_in_its_place_lets_it_sleep),
		POLICY_TEST(a_wait_vouches_for_the_next_ones),
		POLICY_TEST(polls_make_progress_now_and_then),
		POLICY_TEST(yields_come_soon_where_others_take_turns),
		POLICY_TEST(rounds_leave_out_what_can_wait),
		POLICY_TEST(replies_are_learnt),
		POLICY_TEST(who_lingers_stops_in_the_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
