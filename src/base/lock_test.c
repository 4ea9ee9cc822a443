/* SPDX-License-Identifier: BSD-2-Clause */
/* Locks and conditions: exclusion, sleeping and waking, deadlines. */
#include "base/lock_test.h"

#define ROUNDS	50000

static struct lock lock = LOCK_INITIALIZER;
static struct condition condition = CONDITION_INITIALIZER;
static uint64_t guarded[2];
static unsigned turns, waiting;

static void run_threads(void *(*body)(void *))
{
	pthread_t thread[THREADS];
	unsigned i;

	for (i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, body, NULL), 0);
	for (i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
}

/* Both numbers agree whenever the lock is held; now and then a holder sleeps with it. */
static void *count_up(void *unused)
{
	unsigned i, bad = 0;

	for (i = 0; i < ROUNDS; i++) {
		if (i % 16)
			lock_acquire(&lock);
		else
			while (!lock_try(&lock))
				;
		bad += guarded[0] != guarded[1];
		guarded[0]++;
		if (i % 8192 == 8191)
			usleep(200);
		guarded[1]++;
		lock_release(&lock);
	}
	return (void *)(uintptr_t)bad;
}

static void one_thread_at_a_time(void **state)
{
	guarded[0] = guarded[1] = 0;
	run_threads(count_up);
	assert_int_equal(guarded[0], THREADS * ROUNDS);
	assert_int_equal(guarded[1], THREADS * ROUNDS);
	assert_null(count_up(NULL));
}

static bool can_be_had(struct lock *wanted)
{
	if (!lock_try(wanted))
		return false;
	lock_release(wanted);
	return true;
}

static void a_held_lock_cannot_be_had(void **state)
{
	struct lock other = LOCK_INITIALIZER;

	assert_true(can_be_had(&other));
	lock_acquire(&other);
	assert_false(can_be_had(&other));
	lock_release(&other);
	assert_true(can_be_had(&other));
}

/* Waits for the lock; its result is the processor time that this took, or too much if errno changed. */
static void *wait_for_lock(void *unused)
{
	uint64_t spent_ns = now_ns(CLOCK_THREAD_CPUTIME_ID);

	errno = EPROTO;
	lock_acquire(&lock);
	lock_release(&lock);
	spent_ns = now_ns(CLOCK_THREAD_CPUTIME_ID) - spent_ns;
	return (void *)(uintptr_t)(errno == EPROTO ? spent_ns : UINT64_MAX);
}

static void who_waits_sleeps_and_keeps_errno(void **state)
{
	pthread_t thread[THREADS];
	void *spent_ns;
	unsigned i;

	lock_acquire(&lock);
	for (i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, wait_for_lock, NULL), 0);
	usleep(100000);
	lock_release(&lock);
	for (i = 0; i < THREADS; i++) {
		pthread_join(thread[i], &spent_ns);
		assert_true((uintptr_t)spent_ns < 20 * MS);
	}
}

/* Each waits for its turn: a wake-up that is lost would hang them all. */
static void *take_turns(void *unused)
{
	unsigned i;

	lock_acquire(&lock);
	for (i = 0; i < 500; i++) {
		unsigned mine = turns + waiting++;

		while (turns != mine)
			condition_wait(&condition, &lock, UINT64_MAX);
		waiting--;
		turns++;
		condition_say(&condition);
	}
	lock_release(&lock);
	return NULL;
}

static void all_hear_what_is_said(void **state)
{
	turns = waiting = 0;
	run_threads(take_turns);
	assert_int_equal(turns, THREADS * 500);
}

#ifndef CHECK_HELD_LOCKS
static void nobody_is_thought_to_sleep_when_all_have_had_the_lock(void **state)
{
	assert_false(somebody_sleeps());
	who_waits_sleeps_and_keeps_errno(state);
	one_thread_at_a_time(state);
	assert_false(somebody_sleeps());
}

static void releasing_costs_no_system_call(void **state)
{
	unsigned before = futex_calls;

	for (unsigned i = 0; i < 1000; i++) {
		lock_acquire(&lock);
		lock_release(&lock);
	}
	assert_int_equal(futex_calls, before);
}

/* And does not have to look by itself. In some tries it has not come into the kernel yet. */
static void who_sleeps_is_waked_when_the_lock_is_released(void **state)
{
	unsigned tries, before = waked;
	pthread_t thread;

	for (tries = 0; waked == before; tries++) {
		assert_in_range(tries, 0, 99);
		lock_acquire(&lock);
		assert_int_equal(pthread_create(&thread, NULL, wait_for_lock, NULL), 0);
		while (!somebody_sleeps())
			sched_yield();
		usleep(5000);
		lock_release(&lock);
		pthread_join(thread, NULL);
	}
}

/* Locks that nobody sleeps for share what says that somebody does. */
static void a_sleeper_does_not_disturb_other_locks(void **state)
{
	struct lock others[256] = { 0 };
	pthread_t thread;

	unsigned before = barriers;

	lock_acquire(&lock);
	assert_int_equal(pthread_create(&thread, NULL, wait_for_lock, NULL), 0);
	while (!somebody_sleeps() || (barriers == before && !getenv(WITHOUT)))
		sched_yield();
	for (unsigned i = 0; i < 256; i++) {
		lock_acquire(&others[i]);
		assert_false(can_be_had(&others[i]));
		lock_release(&others[i]);
		assert_true(can_be_had(&others[i]));
	}
	lock_release(&lock);
	pthread_join(thread, NULL);
}

static void *free_what_is_released(void *argument)
{
	struct lock *lone = argument;

	lock_acquire(lone);
	lock_release(lone);
	lock_destroy(lone);
	free(lone);
	return NULL;
}

/* Its next holder may free a lock at once (the address sanitizer would see a touch). */
static void who_has_released_a_lock_does_not_touch_it(void **state)
{
	for (unsigned i = 0; i < 300; i++) {
		struct lock *lone = calloc(1, sizeof(*lone));
		pthread_t thread;

		lock_acquire(lone);
		assert_int_equal(pthread_create(&thread, NULL, free_what_is_released, lone), 0);
		if (i % 3 == 0)
			while (!somebody_sleeps())
				sched_yield();
		else if (i % 3 == 1)
			sched_yield();
		lock_release(lone);
		pthread_join(thread, NULL);
	}
}

/* Threads that slept are not in the child, whose own sleep and wake each other. */
static void a_child_has_no_sleepers_of_its_parent(void **state)
{
	pthread_t thread;
	int status;
	pid_t child;

	lock_acquire(&lock);
	assert_int_equal(pthread_create(&thread, NULL, wait_for_lock, NULL), 0);
	while (!somebody_sleeps())
		sched_yield();
	child = fork();
	if (!child) {
		bool slept = somebody_sleeps();

		lock_release(&lock);
		one_thread_at_a_time(state);
		who_waits_sleeps_and_keeps_errno(state);
		_exit(slept || somebody_sleeps());
	}
	lock_release(&lock);
	pthread_join(thread, NULL);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

/* A program may filter system calls once it has the library. Afterwards each sleeper looks by itself. */
static void what_is_forbidden_later_loses_no_wake_up(void **state)
{
	is_forbidden = true;
	one_thread_at_a_time(state);
	who_waits_sleeps_and_keeps_errno(state);
	all_hear_what_is_said(state);
	assert_false(somebody_sleeps());
}

static void *wait_once(void *unused)
{
	lock_acquire(&lock);
	waiting++;
	condition_wait(&condition, &lock, UINT64_MAX);
	waiting--;
	lock_release(&lock);
	return NULL;
}

static bool somebody_waits(void)
{
	bool waits;

	lock_acquire(&lock);
	waits = waiting;
	lock_release(&lock);
	return waits;
}

static void what_nobody_waits_for_costs_no_system_call(void **state)
{
	pthread_t thread;
	unsigned before;

	turns = waiting = 0;
	before = futex_calls;
	lock_acquire(&lock);
	condition_say(&condition);
	lock_release(&lock);
	assert_int_equal(futex_calls, before);
	assert_int_equal(pthread_create(&thread, NULL, wait_once, NULL), 0);
	while (!somebody_waits())
		sched_yield();
	lock_acquire(&lock);
	condition_say(&condition);
	lock_release(&lock);
	pthread_join(thread, NULL);
	before = futex_calls;
	lock_acquire(&lock);
	condition_say(&condition);	/* who waited does so no longer */
	lock_release(&lock);
	assert_int_equal(futex_calls, before);
}
#endif

static void a_wait_ends_at_its_deadline(void **state)
{
	struct condition silent;
	uint64_t begun_ns = now_ns(CLOCK_MONOTONIC), until_ns = begun_ns + 30 * MS;

	condition_init(&silent);
	errno = EPROTO;
	lock_acquire(&lock);
	while (now_ns(CLOCK_MONOTONIC) < until_ns)
		condition_wait(&silent, &lock, until_ns);
	assert_false(can_be_had(&lock));
	lock_release(&lock);
	assert_int_equal(errno, EPROTO);
	assert_true(now_ns(CLOCK_MONOTONIC) - begun_ns < 10000000000u);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_thread_at_a_time),
		cmocka_unit_test(a_held_lock_cannot_be_had),
		cmocka_unit_test(who_waits_sleeps_and_keeps_errno),
		cmocka_unit_test(all_hear_what_is_said),
#ifndef CHECK_HELD_LOCKS
		cmocka_unit_test(what_nobody_waits_for_costs_no_system_call),
		cmocka_unit_test(nobody_is_thought_to_sleep_when_all_have_had_the_lock),
		cmocka_unit_test(releasing_costs_no_system_call),
		cmocka_unit_test(who_sleeps_is_waked_when_the_lock_is_released),
		cmocka_unit_test(a_sleeper_does_not_disturb_other_locks),
		cmocka_unit_test(who_has_released_a_lock_does_not_touch_it),
		cmocka_unit_test(a_child_has_no_sleepers_of_its_parent),
		cmocka_unit_test(without_membarrier_it_is_the_same),
		cmocka_unit_test(what_is_forbidden_later_loses_no_wake_up),
#endif
		cmocka_unit_test(a_wait_ends_at_its_deadline),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
