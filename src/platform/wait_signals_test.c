/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Waiting for several descriptors as read() waits for one: signals with and without SA_RESTART, blocked
 * ones, cancellation, where no signalfd is to be had.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "platform/clock.h"
#include "platform/fail.h"
#include "platform/wait.h"

#define MS 1000000ull
#define LONG (20000 * MS)

static struct waiter waiter;
static int event_fd;
static _Atomic unsigned handled;

static void handle(int signal)
{
	atomic_fetch_add(&handled, 1);
}

static void install(int flags)
{
	struct sigaction action = { .sa_handler = handle, .sa_flags = flags };

	assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
	handled = 0;
}

static int setup(void **state)
{
	event_fd = event_fd_open();
	return event_fd < 0 || waiter_open(&waiter);
}

static int teardown(void **state)
{
	signal(SIGUSR1, SIG_DFL);
	close(event_fd);
	waiter_close(&waiter);
	fail_clear();
	return 0;
}

static int stand(uint64_t timeout_ns, uint32_t *ready)
{
	return waiter_wait_progress(&waiter, event_fd, timeout_ns, PTHREAD_CANCEL_ENABLE, ready);
}

struct later {
	pthread_t target;
	void (*act)(pthread_t target);
	pthread_t thread;
};

static void *act_later(void *argument)
{
	struct later *later = argument;

	thread_sleep_ns(20 * MS);
	later->act(later->target);
	return NULL;
}

static void start(struct later *later, void (*act)(pthread_t))
{
	sigset_t all, before;

	*later = (struct later){ .target = pthread_self(), .act = act };
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	assert_int_equal(pthread_create(&later->thread, NULL, act_later, later), 0);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void send_signal(pthread_t target)
{
	pthread_kill(target, SIGUSR1);
}

static void signal_and_event(pthread_t target)
{
	pthread_kill(target, SIGUSR1);
	thread_sleep_ns(20 * MS);
	event_fd_raise(event_fd);
}

static void ring(pthread_t target)
{
	waiter_ring(&waiter);
}

static void descriptors_end_the_wait_and_are_named(void **state)
{
	struct later later;
	uint32_t ready;

	assert_int_equal(stand(5 * MS, &ready), 0);
	assert_int_equal(ready, 0);
	event_fd_raise(event_fd);
	assert_int_equal(stand(LONG, &ready), 0);
	assert_int_equal(ready, WAIT_FD);
	assert_int_equal(event_fd_take(event_fd), 0);
	start(&later, ring);
	assert_int_equal(stand(LONG, &ready), 0);
	pthread_join(later.thread, NULL);
	assert_int_equal(ready, WAIT_DOORBELL);
	assert_int_equal(stand(0, &ready), 0);
	assert_int_equal(ready, 0);		/* silenced */
}

/* As read(): a handler without SA_RESTART ends it, one with it does not. */
static void handlers_end_the_wait_as_they_end_read(void **state)
{
	struct later later;
	uint32_t ready;

	install(0);
	start(&later, send_signal);
	assert_int_equal(stand(LONG, &ready), EINTR);
	pthread_join(later.thread, NULL);
	assert_int_equal(handled, 1);
	install(SA_RESTART);
	start(&later, signal_and_event);
	do
		assert_int_equal(stand(LONG, &ready), 0);
	while (!ready);
	pthread_join(later.thread, NULL);
	assert_int_equal(handled, 1);
	assert_int_equal(ready, WAIT_FD);
}

/* What the caller blocks stays blocked, pending, and wakes nobody. */
static void blocked_signals_stay_blocked(void **state)
{
	sigset_t blocked, before, after;
	uint64_t begin_ns;
	uint32_t ready;

	install(0);
	sigemptyset(&blocked);
	sigaddset(&blocked, SIGUSR1);
	pthread_sigmask(SIG_BLOCK, &blocked, &before);
	pthread_kill(pthread_self(), SIGUSR1);
	begin_ns = clock_now_ns();
	assert_int_equal(stand(30 * MS, &ready), 0);
	assert_true(clock_now_ns() - begin_ns >= 30 * MS);
	assert_int_equal(handled, 0);
	pthread_sigmask(SIG_SETMASK, &before, &after);
	assert_int_equal(sigismember(&after, SIGUSR1), 1);
	assert_int_equal(sigismember(&after, SIGTERM), 0);
	assert_int_equal(handled, 1);
}

static _Atomic bool cleaned;
static sigset_t mask_at_cleanup;

static void clean(void *argument)
{
	pthread_sigmask(SIG_SETMASK, NULL, &mask_at_cleanup);
	cleaned = true;
}

static void *wait_for_ever(void *argument)
{
	uint32_t ready;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	pthread_cleanup_push(clean, NULL);
	stand(UINT64_MAX, &ready);
	pthread_cleanup_pop(0);
	return NULL;
}

static void a_thread_that_waits_can_be_cancelled(void **state)
{
	pthread_t thread;
	void *result;

	cleaned = false;
	assert_int_equal(pthread_create(&thread, NULL, wait_for_ever, NULL), 0);
	thread_sleep_ns(20 * MS);
	pthread_cancel(thread);
	pthread_join(thread, &result);
	assert_ptr_equal(result, PTHREAD_CANCELED);
	assert_true(cleaned);
	assert_int_equal(sigismember(&mask_at_cleanup, SIGUSR1), 0);
}

static void without_signalfd_the_caller_reads(void **state)
{
	uint32_t ready;

	fail_set(FAIL_EVENTFD, 1, EMFILE);
	assert_int_equal(stand(LONG, &ready), 0);
	assert_int_equal(ready, WAIT_FD);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(descriptors_end_the_wait_and_are_named, setup, teardown),
		cmocka_unit_test_setup_teardown(handlers_end_the_wait_as_they_end_read, setup, teardown),
		cmocka_unit_test_setup_teardown(blocked_signals_stay_blocked, setup, teardown),
		cmocka_unit_test_setup_teardown(a_thread_that_waits_can_be_cancelled, setup, teardown),
		cmocka_unit_test_setup_teardown(without_signalfd_the_caller_reads, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
