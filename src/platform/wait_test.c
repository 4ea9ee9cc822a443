/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Clock, randomness, sleeping and waking, event fds, the worker thread.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/call.h"
#include "platform/clock.h"
#include "platform/fail.h"
#include "platform/wait.h"

/* ThreadSanitizer delivers them when it likes. */
#define SIGNALS_COME_AT_ONCE	true
#if defined(__SANITIZE_THREAD__)
#undef SIGNALS_COME_AT_ONCE
#define SIGNALS_COME_AT_ONCE	false
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#undef SIGNALS_COME_AT_ONCE
#define SIGNALS_COME_AT_ONCE	false
#endif
#endif

#define MS 1000000ull
#define TAG 0x10u

static struct waiter waiter;

static int setup(void **state)
{
	return waiter_open(&waiter);
}

static int teardown(void **state)
{
	waiter_close(&waiter);
	fail_clear();
	return 0;
}

static void clocks_go_forward(void **state)
{
	uint64_t last = clock_now_ns(), now;
	unsigned i;

	for (i = 0; i < 1000; i++, last = now) {
		now = clock_now_ns();
		assert_true(now >= last);
	}
	assert_true(clock_wall_ns() / 1000000000u - (uint64_t)time(NULL) + 2 < 5);
}

static void random_numbers_differ_even_without_getrandom(void **state)
{
	uint64_t seen[200];
	unsigned i, j;

	for (i = 0; i < 200; i++) {
		if (i >= 100)
			fail_set(FAIL_RANDOM, 1, ENOSYS);
		seen[i] = random_u64();
		for (j = 0; j < i; j++)
			assert_true(seen[i] != seen[j]);
	}
}

/* Each byte takes another value within some tries, and none behind the last does. */
static void random_bytes_fill_what_they_shall(void **state)
{
	uint8_t bytes[64 + 1], or[64 + 1] = { 0 };
	unsigned try, i, length;

	for (length = 1; length <= 64; length += 21)
		for (try = 0; try < 40; try++) {
			if (try >= 20)
				fail_set(FAIL_RANDOM, 1, ENOSYS);
			memset(bytes, 0, sizeof(bytes));
			random_fill(bytes, length);
			for (i = 0; i <= 64; i++)
				or[i] = (uint8_t)((try % 20 ? or[i] : 0) | bytes[i]);
			for (i = 0; try % 20 == 19 && i <= 64; i++)
				assert_int_equal(!!or[i], i < length);
		}
}

static void a_wait_ends_at_its_timeout(void **state)
{
	static const uint64_t timeout[] = { 0, 50000, 3 * MS };
	uint64_t start;
	unsigned i;

	for (i = 0; i < 3; i++) {
		start = clock_now_ns();
		assert_int_equal(waiter_wait(&waiter, timeout[i]), 0);
		assert_true(clock_now_ns() - start >= timeout[i]);
		start = clock_now_ns();
		assert_false(waiter_idle_wait(&waiter, true, timeout[i]));
		assert_true(clock_now_ns() - start >= timeout[i]);
	}
}

static void the_doorbell_rings_once_however_often_it_is_rung(void **state)
{
	waiter_ring(&waiter);
	waiter_ring(&waiter);
	assert_int_equal(waiter_wait(&waiter, UINT64_MAX), WAIT_DOORBELL);
	assert_int_equal(waiter_wait(&waiter, 0), 0);
	waiter_ring(&waiter);
	assert_true(waiter_idle_wait(&waiter, true, UINT64_MAX));
	assert_false(waiter_idle_wait(&waiter, true, 0));
	assert_int_equal(waiter_wait(&waiter, 0), 0);
}

static void readable_fds_are_told_by_tag_until_read(void **state)
{
	int fds[2];
	char byte;

	assert_int_equal(pipe(fds), 0);
	assert_int_equal(waiter_add(&waiter, fds[0], TAG), 0);
	assert_int_equal(waiter_add(&waiter, fds[0], TAG), EEXIST);
	assert_int_equal(waiter_wait(&waiter, 0), 0);
	assert_int_equal(write(fds[1], "x", 1), 1);
	waiter_ring(&waiter);
	assert_int_equal(waiter_wait(&waiter, UINT64_MAX), TAG | WAIT_DOORBELL);
	assert_int_equal(waiter_wait(&waiter, UINT64_MAX), TAG);
	assert_false(waiter_idle_wait(&waiter, true, 0));	/* the doorbell alone */
	assert_int_equal(read(fds[0], &byte, 1), 1);
	assert_int_equal(waiter_wait(&waiter, 0), 0);
	close(fds[1]);					/* hang-up is readable too */
	assert_int_equal(waiter_wait(&waiter, UINT64_MAX), TAG);
	waiter_remove(&waiter, fds[0]);
	assert_int_equal(waiter_wait(&waiter, 0), 0);
	close(fds[0]);
}

static void each_failure_of_opening_leaves_nothing_behind(void **state)
{
	static const enum fail_point point[] = { FAIL_EPOLL, FAIL_EVENTFD, FAIL_EPOLL_ADD };
	struct waiter other;
	int before = dup(0), after;
	unsigned i;

	close(before);
	for (i = 0; i < 3; i++) {
		fail_set(point[i], 1, EMFILE);
		assert_int_equal(waiter_open(&other), EMFILE);
		after = dup(0);
		close(after);
		assert_int_equal(before, after);
	}
	fail_set(FAIL_EPOLL_WAIT, 1, EINTR);		/* a wake-up for nothing */
	assert_int_equal(waiter_wait(&waiter, UINT64_MAX), 0);
}

static void event_fds_count(void **state)
{
	int fd = event_fd_open();

	assert_true(fd >= 0);
	event_fd_raise(fd);
	event_fd_raise(fd);
	assert_int_equal(event_fd_take(fd), 0);
	assert_int_equal(event_fd_take(fd), 0);
	fcntl(fd, F_SETFL, O_NONBLOCK);
	assert_int_equal(event_fd_take(fd), EAGAIN);
	close(fd);
	fail_set(FAIL_EVENTFD, 1, EMFILE);
	assert_int_equal(event_fd_open(), -1);
}

static void *raise_later(void *fd)
{
	thread_sleep_ns(2 * MS);
	event_fd_raise(*(int *)fd);
	return NULL;
}

static void taking_an_event_waits_for_it(void **state)
{
	int fd = event_fd_open();
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, raise_later, &fd), 0);
	assert_int_equal(event_fd_take(fd), 0);
	pthread_join(thread, NULL);
	close(fd);
}

/* ---- the worker thread ---- */

struct look {
	sigset_t mask;
	char name[16];
	_Atomic int caught;
};

static struct look seen;
static _Atomic int caught_by_worker;
static pthread_t main_thread;

static volatile sig_atomic_t put_off, ran;

static void on_alarm(int number, siginfo_t *info, void *context)
{
	if (call_offered.put_off(number, info, context, SA_RESTART | SA_SIGINFO))
		put_off++;
	else
		ran++;
}

static int setup_calls(void **state)
{
	struct sigaction action = { .sa_sigaction = on_alarm, .sa_flags = SA_RESTART | SA_SIGINFO };

	call_guarded = true;
	sigaction(SIGALRM, &action, NULL);
	return setup(state);
}

static int teardown_calls(void **state)
{
	call_guarded = false;
	return teardown(state);
}

/* With RWF_NOWAIT, and as before Linux 5.8. */
static void a_call_waits_for_an_event(void **state)
{
	int fd = event_fd_open(), old;
	pthread_t thread;
	CALL();

	for (old = 0; old < 2; old++) {
		fail_set(FAIL_NOWAIT, (unsigned)old, EOPNOTSUPP);
		assert_int_equal(pthread_create(&thread, NULL, raise_later, &fd), 0);
		while (event_fd_wait(fd) == ERESTART)	/* at the end of its sleep */
			fail_set(FAIL_NOWAIT, (unsigned)old, EOPNOTSUPP);
		pthread_join(thread, NULL);
		event_fd_raise(fd);
		event_fd_raise(fd);
		fail_set(FAIL_NOWAIT, (unsigned)old, EOPNOTSUPP);
		assert_int_equal(event_fd_wait(fd), 0);
		assert_int_equal(event_fd_wait(fd), 0);
	}
	close(fd);
}

static void a_handler_ends_the_wait_for_an_event(void **state)
{
	struct itimerval soon = { .it_value.tv_usec = 20000 };
	int fd, old;
	CALL();

	if (!SIGNALS_COME_AT_ONCE)
		skip();
	fd = event_fd_open();
	for (old = 0; old < 2; old++) {
		put_off = ran = 0;
		fail_set(FAIL_NOWAIT, (unsigned)old, EOPNOTSUPP);
		raise(SIGALRM);
		assert_int_equal(put_off, 1);
		assert_int_equal(event_fd_wait(fd), ERESTART);
		assert_int_equal(ran, 1);
		fail_set(FAIL_NOWAIT, (unsigned)old, EOPNOTSUPP);
		setitimer(ITIMER_REAL, &soon, NULL);
		assert_int_equal(event_fd_wait(fd), ERESTART);
		assert_int_equal(ran, 2);	/* put off before: it came in the call */
	}
	close(fd);
}

static void on_usr1(int signal)
{
	caught_by_worker = !pthread_equal(pthread_self(), main_thread);
	seen.caught++;
}

static void look_around(void *argument)
{
	struct look *look = argument;

	pthread_sigmask(SIG_BLOCK, NULL, &look->mask);
	pthread_getname_np(pthread_self(), look->name, sizeof(look->name));
	waiter_wait(&waiter, UINT64_MAX);
}

static void the_worker_takes_no_signals_of_the_application(void **state)
{
	struct worker_thread *thread;
	sigset_t before, after;
	unsigned i;

	main_thread = pthread_self();
	signal(SIGUSR1, on_usr1);
	pthread_sigmask(SIG_BLOCK, NULL, &before);
	assert_int_equal(worker_thread_start(&thread, "a-name-that-is-too-long", look_around,
					     &seen), 0);
	pthread_sigmask(SIG_BLOCK, NULL, &after);
	assert_int_equal(sigismember(&before, SIGUSR1), sigismember(&after, SIGUSR1));
	for (i = 0; i < 20; i++) {
		kill(getpid(), SIGUSR1);
		assert_false(caught_by_worker);
	}
	assert_int_equal(seen.caught, 20);
	waiter_ring(&waiter);
	worker_thread_join(thread);
	assert_string_equal(seen.name, "a-name-that-is-");
	assert_true(sigismember(&seen.mask, SIGTERM) && sigismember(&seen.mask, SIGUSR1) &&
		    sigismember(&seen.mask, SIGCHLD));
	/* blocked, these would kill the process in place of reaching their handler */
	assert_false(sigismember(&seen.mask, SIGSEGV) || sigismember(&seen.mask, SIGBUS));
}

static void nothing(void *argument)
{
}

static void a_worker_without_a_short_slice_is_a_worker(void **state)
{
	struct worker_thread *thread;

	fail_set(FAIL_SLICE, 1, EPERM);
	assert_int_equal(worker_thread_start(&thread, "worker", nothing, NULL), 0);
	worker_thread_join(thread);
	fail_set(FAIL_THREAD, 1, EAGAIN);
	assert_int_equal(worker_thread_start(&thread, "worker", nothing, NULL), EAGAIN);
	fail_set(FAIL_THREAD, 1, EINVAL);		/* stack too small: the default size then */
	assert_int_equal(worker_thread_start(&thread, "worker", nothing, NULL), 0);
	worker_thread_join(thread);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(clocks_go_forward),
		TEST(random_numbers_differ_even_without_getrandom),
		TEST(random_bytes_fill_what_they_shall),
		TEST(a_wait_ends_at_its_timeout),
		TEST(the_doorbell_rings_once_however_often_it_is_rung),
		TEST(readable_fds_are_told_by_tag_until_read),
		TEST(each_failure_of_opening_leaves_nothing_behind),
		TEST(event_fds_count),
		TEST(taking_an_event_waits_for_it),
		cmocka_unit_test_setup_teardown(a_call_waits_for_an_event, setup_calls, teardown_calls),
		cmocka_unit_test_setup_teardown(a_handler_ends_the_wait_for_an_event, setup_calls, teardown_calls),
		TEST(the_worker_takes_no_signals_of_the_application),
		TEST(a_worker_without_a_short_slice_is_a_worker),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
