/* SPDX-License-Identifier: BSD-2-Clause */
/* Locks that belong to the thread that takes them alone (base/lock.h): who has them, who gets them, and when. */
#include "base/lock_test.h"

#include <semaphore.h>
#include <signal.h>

#ifndef CHECK_HELD_LOCKS
static struct owned_lock mine;
static uint64_t guarded[2];
static _Atomic unsigned stage;
static _Atomic bool ended;

static bool is_owned(const struct owned_lock *owned)
{
	return atomic_load(&owned->word) == LOCK_BIASED;
}

/* How often this thread has to take the lock until it is its own; @most: not so soon. */
static unsigned take_until_owned(struct owned_lock *owned, unsigned most)
{
	unsigned times = 0;

	while (times < most && !is_owned(owned)) {
		lock_acquire(owned);
		lock_release(owned);
		times++;
	}
	return times;
}

static void *take_once(void *owned)
{
	int before = errno = EPROTO;

	lock_acquire((struct owned_lock *)owned);
	lock_release((struct owned_lock *)owned);
	return (void *)(uintptr_t)(errno != before);
}

static void have_another_thread(void *(*body)(void *), void *argument)
{
	pthread_t thread;
	void *failed;

	assert_int_equal(pthread_create(&thread, NULL, body, argument), 0);
	pthread_join(thread, &failed);
	assert_null(failed);
}

static void *fails_to_get(void *owned)
{
	return (void *)(uintptr_t)lock_try((struct owned_lock *)owned);
}

static void *gets(void *owned)
{
	if (!lock_try((struct owned_lock *)owned))
		return owned;
	lock_release((struct owned_lock *)owned);
	return NULL;
}

static bool can_be_owned(void)
{
	mine = (struct owned_lock){ 0 };
	return !getenv(WITHOUT);
}

static void who_takes_a_lock_alone_owns_it(void **state) UNCHECKED_LOCKS
{
	unsigned before;

	if (!can_be_owned())
		return;
	assert_int_equal(take_until_owned(&mine, 100000), 1024);
	before = barriers;
	lock_acquire(&mine);
	assert_true(is_owned(&mine));
	assert_false(lock_try(&mine));
	have_another_thread(fails_to_get, &mine);
	lock_release(&mine);
	assert_true(lock_try(&mine));
	have_another_thread(fails_to_get, &mine);
	lock_release(&mine);
	lock_set_counted(true);			/* it has more to do then */
	lock_acquire(&mine);
	assert_false(lock_try(&mine));
	have_another_thread(fails_to_get, &mine);
	lock_release(&mine);
	lock_set_counted(false);
	assert_true(is_owned(&mine));
	assert_int_equal(barriers, before);
}

static void another_thread_takes_it_by_one_barrier(void **state)
{
	unsigned i;

	if (!can_be_owned())
		return;
	/* Twice as many times in a row each time, up to a limit. */
	for (i = 0; i < 8; i++) {
		unsigned before = barriers;

		assert_int_equal(take_until_owned(&mine, 100000), 1024u << (i < 5 ? i : 5));
		have_another_thread(i % 2 ? take_once : gets, &mine);
		assert_int_equal(barriers, before + 1);
		assert_false(is_owned(&mine));
		have_another_thread(gets, &mine);
		assert_int_equal(barriers, before + 1);
	}
	assert_false(somebody_sleeps());
}

static void *wait_for_owned(void *unused)
{
	uint64_t spent_ns = now_ns(CLOCK_THREAD_CPUTIME_ID);
	void *failed = take_once(&mine);

	spent_ns = now_ns(CLOCK_THREAD_CPUTIME_ID) - spent_ns;
	return failed || spent_ns > 20 * MS ? &mine : NULL;
}

static void who_waits_for_its_owner_sleeps(void **state)
{
	pthread_t thread[THREADS];
	void *failed;
	unsigned i;

	if (!can_be_owned())
		return;
	take_until_owned(&mine, 100000);
	lock_acquire(&mine);
	for (i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, wait_for_owned, NULL), 0);
	while (atomic_load(&mine.word) != LOCK_CLAIMED)
		sched_yield();
	assert_false(lock_try(&mine));		/* it is refused to its owner, who has it */
	usleep(100000);
	lock_release(&mine);
	lock_acquire(&mine);
	lock_release(&mine);
	for (i = 0; i < THREADS; i++) {
		pthread_join(thread[i], &failed);
		assert_null(failed);
	}
	assert_false(somebody_sleeps());
}

/* Takes its turn while @stage is odd, and says at the next even one that it has taken the lock. */
static void *take_when_told(void *unused)
{
	while (!ended) {
		if (atomic_load(&stage) % 2) {
			take_once(&mine);
			atomic_fetch_add(&stage, 1);
		}
		sched_yield();
	}
	return NULL;
}

static pthread_t begin(void *(*start)(void *))
{
	pthread_t thread;

	ended = false;
	stage = 0;
	assert_int_equal(pthread_create(&thread, NULL, start, NULL), 0);
	return thread;
}

/* Another one may own it only when who did has found that it does not any more. */
static void an_owner_gives_the_lock_up_by_itself(void **state)
{
	pthread_t thread;

	if (!can_be_owned())
		return;
	thread = begin(take_when_told);
	take_until_owned(&mine, 100000);
	atomic_fetch_add(&stage, 1);
	while (atomic_load(&stage) % 2)
		sched_yield();
	take_until_owned(&mine, 100000);	/* ours again */
	ended = true;
	pthread_join(thread, NULL);
	assert_true(is_owned(&mine));
	ended = false;
	have_another_thread(gets, &mine);
	take_once(&mine);			/* and now nobody's */
	assert_int_equal(atomic_load(&mine.owner), 0);
}

static void *own_and_come_back(void *unused)
{
	take_until_owned(&mine, 100000);
	atomic_store(&stage, 1);
	while (atomic_load(&stage) != 2)
		sched_yield();
	take_once(&mine);
	atomic_store(&stage, 3);
	while (!ended)
		sched_yield();
	return NULL;
}

static void what_its_owner_has_not_given_up_is_nobody_elses(void **state)
{
	pthread_t thread;

	if (!can_be_owned())
		return;
	thread = begin(own_and_come_back);
	while (atomic_load(&stage) != 1)
		sched_yield();
	assert_int_equal(take_until_owned(&mine, 1), 0);
	take_once(&mine);
	assert_int_equal(take_until_owned(&mine, 20000), 20000);
	atomic_store(&stage, 2);
	while (atomic_load(&stage) != 3)
		sched_yield();
	assert_int_equal(take_until_owned(&mine, 100000), 2048);
	ended = true;
	pthread_join(thread, NULL);
}

/* A thread that has ended leaves its locks behind. */
static void *own(void *unused)
{
	take_until_owned(&mine, 100000);
	return NULL;
}

static void the_lock_of_a_thread_that_has_ended_can_be_had(void **state)
{
	if (!can_be_owned())
		return;
	for (unsigned i = 0; i < 4; i++) {
		have_another_thread(own, NULL);
		have_another_thread(gets, &mine);
		take_once(&mine);
	}
}

static unsigned noise(unsigned *seed)
{
	*seed = *seed * 1664525u + 1013904223u;
	return *seed >> 16;
}

static bool agrees(void)
{
	bool good = guarded[0] == guarded[1];

	guarded[0]++;
	atomic_signal_fence(memory_order_seq_cst);
	guarded[1]++;
	return good;
}

/* Takes the lock until the other one has said that it had it. */
static void *take_and_take(void *unused)
{
	unsigned bad = 0;

	while (!ended) {
		lock_acquire(&mine);
		bad += !agrees();
		lock_release(&mine);
	}
	return (void *)(uintptr_t)bad;
}

static void nobody_meets_the_owner_inside(void **state)
{
	unsigned seed = 17, round;

	if (!can_be_owned())
		return;
	for (round = 0; round < 200; round++) {
		pthread_t thread;
		void *bad;

		mine = (struct owned_lock){ 0 };
		guarded[0] = guarded[1] = 0;
		ended = false;
		assert_int_equal(pthread_create(&thread, NULL, take_and_take, NULL), 0);
		while (!is_owned(&mine))
			sched_yield();
		for (unsigned i = noise(&seed) % 64; i; i--)
			atomic_signal_fence(memory_order_seq_cst);
		for (unsigned i = 0; i < 3; i++) {
			if (round % 2)
				lock_acquire(&mine);
			else
				while (!lock_try(&mine))
					;
			assert_true(agrees());
			if (round % 4 < 2)
				sched_yield();
			for (unsigned n = noise(&seed) % 256; n; n--)
				atomic_signal_fence(memory_order_seq_cst);
			assert_int_equal(guarded[0], guarded[1]);
			lock_release(&mine);
		}
		ended = true;
		pthread_join(thread, &bad);
		assert_null(bad);
		assert_int_equal(guarded[0], guarded[1]);
	}
}

#if defined(__x86_64__)
#define TRAP_FLAG 0x100u

static enum { PREPARE, TRY, GIVE_BACK, END } asked_for;
static sem_t question, answer;
static bool other_has_it;
static unsigned steps, asked_at;
static void (*prepare)(void);

static void *do_what_is_asked(void *unused) UNCHECKED_LOCKS
{
	for (;;) {
		while (sem_wait(&question))
			;
		if (asked_for == PREPARE)
			prepare();
		else if (asked_for == TRY)
			other_has_it = lock_try(&mine);
		else if (asked_for == GIVE_BACK)
			lock_release(&mine);
		sem_post(&answer);
		if (asked_for == END)
			return NULL;
	}
}

static void ask_for(unsigned what)
{
	asked_for = what;
	sem_post(&question);
	while (sem_wait(&answer))
		;
}

/* Behind each instruction of the thread that is stepped. */
static void take_step(int unused)
{
	if (steps++ == asked_at)
		ask_for(TRY);
}

static void owned_before(void)
{
	take_until_owned(&mine, 100000);
}

static void owned_next_time(void)
{
	for (unsigned i = 1; i < 1024; i++)
		take_once(&mine);
}

static void lost(void)
{
	take_until_owned(&mine, 100000);
	have_another_thread(gets, &mine);
}

/* One thread tries to take the lock, and another one in the middle: one of them has it then, not both. */
static unsigned try_step_by_step(bool other_owns)
{
	bool taken;

	for (asked_at = 1;; asked_at++) {
		mine = (struct owned_lock){ 0 };
		steps = 0;
		if (other_owns)
			ask_for(PREPARE);
		else
			prepare();
		__builtin_ia32_writeeflags_u64(__builtin_ia32_readeflags_u64() | TRAP_FLAG);
		taken = lock_try(&mine);
		__builtin_ia32_writeeflags_u64(__builtin_ia32_readeflags_u64() & ~(uint64_t)TRAP_FLAG);
		if (steps <= asked_at)
			break;
		assert_int_equal(taken, !other_has_it);
		if (taken)
			lock_release(&mine);
		else
			ask_for(GIVE_BACK);
	}
	assert_true(taken);
	return asked_at;
}

static void between_any_two_instructions_one_has_the_lock(void **state)
{
	void (*const prepares[])(void) = { owned_before, owned_next_time, lost };
	struct sigaction trap = { .sa_handler = take_step }, before;
	pthread_t thread;

	if (!can_be_owned())
		return;
	sem_init(&question, 0, 0);
	sem_init(&answer, 0, 0);
	assert_int_equal(pthread_create(&thread, NULL, do_what_is_asked, NULL), 0);
	sigaction(SIGTRAP, &trap, &before);
	for (unsigned i = 0; i < 3; i++) {
		prepare = prepares[i];
		assert_true(try_step_by_step(false) > 10);
		assert_true(try_step_by_step(true) > 10);
	}
	sigaction(SIGTRAP, &before, NULL);
	ask_for(END);
	pthread_join(thread, NULL);
}
#endif

static _Atomic unsigned work, served;

/* Who finds the lock held leaves its work to the holder, who looks again behind a fence. */
static void serve(void)
{
	while (atomic_load_explicit(&work, memory_order_relaxed)) {
		if (!lock_try(&mine))
			return;
		served += atomic_exchange(&work, 0);
		lock_release(&mine);
		atomic_thread_fence(memory_order_seq_cst);
	}
}

static void *work_and_serve(void *often)
{
	for (unsigned i = 0; i < 4000; i++) {
		if (!often && i % 64)
			continue;
		atomic_fetch_add(&work, 1);
		serve();
	}
	return NULL;
}

static void work_that_is_left_is_served(void **state)
{
	for (unsigned round = 0; round < 50; round++) {
		pthread_t thread;

		mine = (struct owned_lock){ 0 };
		work = served = 0;
		take_until_owned(&mine, 1024);
		assert_int_equal(pthread_create(&thread, NULL, work_and_serve, NULL), 0);
		work_and_serve(&mine);
		pthread_join(thread, NULL);
		assert_int_equal(work, 0);
		assert_int_equal(served, 4000 + 63);
	}
}

static void a_child_has_the_locks_of_its_parent(void **state) UNCHECKED_LOCKS
{
	struct owned_lock others = { 0 };
	pthread_t thread;
	int status;
	pid_t child;

	if (!can_be_owned())
		return;
	thread = begin(own_and_come_back);
	while (atomic_load(&stage) != 1)
		sched_yield();
	take_until_owned(&others, 100000);
	lock_acquire(&others);
	child = fork();
	if (!child) {
		bool good = is_owned(&others) && is_owned(&mine) && !lock_try(&others);

		lock_release(&others);
		have_another_thread(gets, &others);
		have_another_thread(gets, &mine);
		take_once(&mine);
		take_once(&others);
		_exit(!good || somebody_sleeps());
	}
	lock_release(&others);
	atomic_store(&stage, 2);
	ended = true;
	pthread_join(thread, NULL);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

/* Who wants a lock that became somebody's before waits; none becomes anybody's any more. */
static void what_is_forbidden_later_makes_no_lock_anybodys(void **state)
{
	if (!can_be_owned())
		return;
	is_forbidden = false;
	take_until_owned(&mine, 100000);
	is_forbidden = true;
	have_another_thread(take_once, &mine);
	assert_false(is_owned(&mine));
	assert_int_equal(take_until_owned(&mine, 20000), 20000);
	assert_false(somebody_sleeps());
}

static void without_membarrier_no_lock_is_anybodys(void **state)
{
	if (can_be_owned())
		return;
	assert_int_equal(take_until_owned(&mine, 20000), 20000);
	have_another_thread(gets, &mine);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_takes_a_lock_alone_owns_it),
		cmocka_unit_test(another_thread_takes_it_by_one_barrier),
		cmocka_unit_test(who_waits_for_its_owner_sleeps),
		cmocka_unit_test(an_owner_gives_the_lock_up_by_itself),
		cmocka_unit_test(what_its_owner_has_not_given_up_is_nobody_elses),
		cmocka_unit_test(the_lock_of_a_thread_that_has_ended_can_be_had),
		cmocka_unit_test(nobody_meets_the_owner_inside),
#if defined(__x86_64__)
		cmocka_unit_test(between_any_two_instructions_one_has_the_lock),
#endif
		cmocka_unit_test(work_that_is_left_is_served),
		cmocka_unit_test(a_child_has_the_locks_of_its_parent),
		cmocka_unit_test(without_membarrier_no_lock_is_anybodys),
		cmocka_unit_test(without_membarrier_it_is_the_same),
		cmocka_unit_test(what_is_forbidden_later_makes_no_lock_anybodys),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
#else
int main(void)		/* there they are the C library's */
{
	return 77;
}
#endif
