/* SPDX-License-Identifier: BSD-2-Clause */
/* Sleepers and who wakes them: nobody sleeps past work, or past a deadline (sleep.h, wake.h). */
#include "engine/fake_link_test.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include "engine/sleep.h"
#include "platform/clock.h"

#define SECOND 1000000000ull

static uint64_t until_ns(void)
{
	return atomic_load(&engine->sleep.until_ns);
}

static void what_is_due_before_a_sleep_ends_rings(void **state)
{
	atomic_store(&engine->sleep.until_ns, 1000);
	worker_wake_at(engine, 1000);
	assert_false(was_rung());
	worker_wake_at(engine, 999);
	assert_true(was_rung());
}

static void nobody_is_rung_who_is_awake(void **state)
{
	worker_wake_at(engine, 0);
	assert_false(was_rung());
}

static void what_is_noted_under_a_lock_is_said_afterwards(void **state)
{
	atomic_store(&engine->sleep.until_ns, 10);
	worker_wake_after_unlock(engine, 20);
	engine_after_unlock(engine);
	assert_false(was_rung());
	worker_wake_after_unlock(engine, 5);
	worker_wake_after_unlock(engine, 20);	/* the earliest counts */
	assert_false(was_rung());
	engine_after_unlock(engine);
	assert_true(was_rung());
	assert_int_equal(atomic_load(&engine->worker.notice_ns), TIME_NEVER);
}

static void who_sleeps_says_until_when(void **state)
{
	uint64_t deadline_ns = clock_now_ns() + 10 * SECOND;

	assert_in_range(sleep_begin(engine, deadline_ns), 9 * SECOND, 10 * SECOND);
	assert_int_equal(until_ns(), deadline_ns);
	sleep_end(engine);
	assert_int_equal(until_ns(), 0);
	assert_int_equal(sleep_begin(engine, TIME_NEVER), UINT64_MAX);
	assert_int_equal(until_ns(), TIME_NEVER);
	sleep_end(engine);
	assert_int_equal(sleep_begin(engine, clock_now_ns()), 0);
	sleep_end(engine);
	assert_int_equal(engine->sleep.sleepers, 0);
}

static void expect_sleep(bool sleeps)
{
	assert_int_equal(sleep_begin(engine, TIME_NEVER), sleeps ? UINT64_MAX : 0);
	sleep_end(engine);
}

static void nobody_sleeps_where_work_waits(void **state)
{
	station = station_here(IBV_QPT_RC);
	expect_sleep(true);
	run_queue_add(&engine->run_queue, &station->qp);
	expect_sleep(false);
	run_queue_remove(&engine->run_queue, &station->qp);
	expect_sleep(true);
	atomic_store(&engine->worker.stopping, true);
	expect_sleep(false);
	atomic_store(&engine->worker.stopping, false);
	atomic_store(&engine->worker.leaving, LEAVING);
	expect_sleep(false);
	atomic_store(&engine->worker.leaving, HAS_LEFT);
	expect_sleep(true);
	station_leave(station);
}

static void nobody_sleeps_past_a_timer(void **state)
{
	uint64_t now_ns = clock_now_ns();

	station = station_here(IBV_QPT_RC);
	lock_acquire(&station->qp.lock);
	station->qp.requester.rnr_until_ns = now_ns + 10 * SECOND;
	timers_arm(engine, &station->qp);
	lock_release(&station->qp.lock);
	assert_int_equal(sleep_begin(engine, now_ns + 20 * SECOND), 0);
	sleep_end(engine);
	assert_int_not_equal(sleep_begin(engine, now_ns + 10 * SECOND), 0);
	sleep_end(engine);
	station_leave(station);
}

static void of_two_sleepers_the_first_to_wake_counts(void **state)
{
	uint64_t now_ns = clock_now_ns();

	sleep_begin(engine, now_ns + 10 * SECOND);
	sleep_begin(engine, now_ns + 5 * SECOND);
	assert_int_equal(until_ns(), now_ns + 5 * SECOND);
	sleep_end(engine);
	sleep_end(engine);
	sleep_begin(engine, now_ns + 5 * SECOND);
	sleep_begin(engine, now_ns + 10 * SECOND);
	assert_int_equal(until_ns(), now_ns + 5 * SECOND);
	sleep_end(engine);
	sleep_end(engine);
}

/* Whose deadline it was is not known: so it is rung for all that is due. */
static void who_sleeps_on_is_rung_for_anything(void **state)
{
	uint64_t now_ns = clock_now_ns();

	sleep_begin(engine, now_ns + 10 * SECOND);
	sleep_begin(engine, now_ns + 5 * SECOND);
	sleep_end(engine);
	worker_wake_at(engine, now_ns + 9 * SECOND);
	assert_true(was_rung());
	sleep_end(engine);
	worker_wake_at(engine, 0);
	assert_false(was_rung());
}

/* It is expected to wait again, and to make progress itself. */
static void who_has_waited_wakes_no_worker_for_the_next_events(void **state)
{
	atomic_store(&engine->worker.state, WORKER_STANDBY);
	atomic_store(&engine->wait.vouched, 2);
	worker_expect_sleepers(engine);
	worker_expect_sleepers(engine);
	assert_false(was_rung());
	assert_int_equal(atomic_load(&engine->wait.vouched), 0);
	worker_expect_sleepers(engine);
	assert_true(was_rung());
	atomic_store(&engine->worker.state, WORKER_ACTIVE);
	worker_expect_sleepers(engine);
	assert_false(was_rung());
}

static void the_earliest_of_what_others_asked_for_is_known(void **state)
{
	assert_int_equal(sources_asked(&engine->source.all), TIME_NEVER);
	fake.chore_ns = 700;
	assert_int_equal(sources_asked(&engine->source.all), 700);
}

/* Who asked while the thread that waits was awake rang nobody, and the worker does not look by itself. */
static void who_stands_in_wakes_the_worker_for_what_was_asked_before_it_slept(void **state)
{
	struct event_queue queue;

	event_queue_init(&queue, eventfd(1, EFD_CLOEXEC), NULL);	/* readable: it does not sleep for long */
	assert_true(queue.fd >= 0);
	atomic_store(&engine->wait.worker_until_ns, TIME_NEVER);
	assert_int_equal(wait_progress(engine, &queue, TIME_NEVER), 0);
	assert_false(waiter_idle_wait(&engine->waiter, false, 0));
	fake.chore_ns = 700;
	worker_wake_at(engine, 700);
	assert_false(was_rung());
	assert_int_equal(wait_progress(engine, &queue, TIME_NEVER), 0);
	assert_true(waiter_idle_wait(&engine->waiter, false, 0));
	fake.chore_ns = TIME_NEVER;
	fake.has_chores = true;
	assert_int_equal(wait_progress(engine, &queue, TIME_NEVER), 0);
	assert_true(waiter_idle_wait(&engine->waiter, false, 0));
	close(queue.fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ENGINE_TEST(what_is_due_before_a_sleep_ends_rings),
		ENGINE_TEST(nobody_is_rung_who_is_awake),
		ENGINE_TEST(what_is_noted_under_a_lock_is_said_afterwards),
		ENGINE_TEST(who_sleeps_says_until_when),
		ENGINE_TEST(nobody_sleeps_where_work_waits),
		ENGINE_TEST(nobody_sleeps_past_a_timer),
		ENGINE_TEST(of_two_sleepers_the_first_to_wake_counts),
		ENGINE_TEST(who_sleeps_on_is_rung_for_anything),
		ENGINE_TEST(who_has_waited_wakes_no_worker_for_the_next_events),
		ENGINE_TEST(the_earliest_of_what_others_asked_for_is_known),
		ENGINE_TEST(who_stands_in_wakes_the_worker_for_what_was_asked_before_it_slept),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
