/* SPDX-License-Identifier: BSD-2-Clause */
/* Tests of putting handlers off (call.h), on handlers that ask as the preloaded library's do. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/call.h"

static volatile sig_atomic_t ran, ran_with_value;
static volatile bool leaves;
static sigjmp_buf outside;

static void handler(int number, siginfo_t *info, void *context)
{
	struct sigaction action;

	sigaction(number, NULL, &action);
	if (call_offered.put_off(number, info, context, action.sa_flags))
		return;
	assert_int_equal(call_thread.depth, 0);
	ran++;
	ran_with_value = info->si_value.sival_int;
	errno = EBUSY;
	if (leaves)
		siglongjmp(outside, 1);
}

static void install(int number, int flags, int also_blocked)
{
	struct sigaction action = { .sa_sigaction = handler, .sa_flags = flags | SA_SIGINFO };

	sigemptyset(&action.sa_mask);
	if (also_blocked)
		sigaddset(&action.sa_mask, also_blocked);
	sigaction(number, &action, NULL);
}

static int setup(void **state)
{
	sigset_t none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	call_guarded = true;
	ran = 0;
	leaves = false;
	install(SIGUSR1, SA_RESTART, 0);
	install(SIGUSR2, 0, 0);
	memset(&call_thread, 0, sizeof(call_thread));
	return 0;
}

static bool nothing_is_blocked(void)
{
	sigset_t now;

	sigprocmask(SIG_SETMASK, NULL, &now);
	for (int number = 1; number < NSIG; number++)
		if (sigismember(&now, number) == 1)
			return false;
	return true;
}

static void outside_of_calls_handlers_run_at_once(void **state)
{
	raise(SIGUSR1);
	assert_int_equal(ran, 1);
	assert_true(nothing_is_blocked());
}

static void in_call(int number)
{
	CALL();
	int before = ran;

	raise(number);
	assert_int_equal(ran, before);
	assert_true(call_is_owed());
}

static void in_a_call_they_run_when_it_ends(void **state)
{
	in_call(SIGUSR1);
	assert_int_equal(ran, 1);
	assert_false(call_is_owed());
	assert_true(nothing_is_blocked());
}

static int call_that_fails(void)
{
	CALL();

	raise(SIGUSR1);
	errno = ENOENT;
	return -1;
}

static void what_a_handler_does_to_errno_is_not_the_calls(void **state)
{
	errno = 0;
	assert_int_equal(call_that_fails(), -1);
	assert_int_equal(errno, ENOENT);
}

static void outer_call(void)
{
	CALL();

	in_call(SIGUSR1);
	assert_int_equal(ran, 0);
}

static void the_outermost_call_pays(void **state)
{
	outer_call();
	assert_int_equal(ran, 1);
}

static void a_handler_that_leaves_leaves_nothing(void **state)
{
	leaves = true;
	if (!sigsetjmp(outside, 1)) {
		in_call(SIGUSR1);
		fail();
	}
	assert_int_equal(call_thread.depth, 0);
	assert_false(call_is_owed());
	assert_true(nothing_is_blocked());
	leaves = false;
	in_call(SIGUSR2);
	assert_int_equal(ran, 2);
}

static void what_was_queued_comes_with_its_value(void **state)
{
	union sigval value = { .sival_int = 4711 };

	install(SIGRTMIN, 0, 0);
	call_enter(1);
	sigqueue(getpid(), SIGRTMIN, value);
	assert_int_equal(ran, 0);
	call_leave(1);
	assert_int_equal(ran, 1);
	assert_int_equal(ran_with_value, 4711);
}

static void handlers_that_do_not_block_themselves_are_put_off_once(void **state)
{
	install(SIGUSR1, SA_NODEFER, 0);
	in_call(SIGUSR1);
	assert_int_equal(ran, 1);
}

/* Both are delivered when the mask opens, one on top of the other. */
static void the_mask_of_the_outermost_handler_is_the_applications(void **state)
{
	sigset_t both;

	install(SIGUSR1, 0, SIGINT);
	install(SIGUSR2, 0, SIGTERM);
	sigemptyset(&both);
	sigaddset(&both, SIGUSR1);
	sigaddset(&both, SIGUSR2);
	call_enter(1);
	sigprocmask(SIG_BLOCK, &both, NULL);
	raise(SIGUSR1);
	raise(SIGUSR2);
	sigprocmask(SIG_UNBLOCK, &both, NULL);
	assert_int_equal(ran, 0);
	call_leave(1);
	assert_int_equal(ran, 2);
	assert_true(nothing_is_blocked());
}

static void a_pause_pays_and_says_what_for(void **state)
{
	call_enter(1);
	assert_false(call_pause());
	raise(SIGUSR1);
	assert_false(call_pause());
	assert_int_equal(ran, 1);
	raise(SIGUSR2);
	assert_true(call_pause());
	assert_int_equal(ran, 2);
	assert_int_equal(call_thread.depth, 1);
	call_leave(1);
}

static void calls_that_hold_something_do_not_pause(void **state)
{
	call_enter(CALL_CLOSED);
	call_enter(1);
	raise(SIGUSR1);
	assert_false(call_pause());
	assert_int_equal(ran, 0);
	call_leave(1);
	assert_int_equal(ran, 0);
	call_leave(CALL_CLOSED);
	assert_int_equal(ran, 1);
}

/* Before the sleep, and in it: either way it ends. */
static void a_sleep_ends_when_a_handler_is_put_off(void **state)
{
	struct itimerval soon = { .it_value.tv_usec = 20000 };

	install(SIGALRM, SA_RESTART, 0);
	call_enter(1);
	raise(SIGUSR1);
	assert_int_equal(call_poll(NULL, 0, 10000), -1);
	assert_int_equal(errno, EINTR);
	assert_int_equal(ran, 0);
	call_leave(1);
	assert_int_equal(ran, 1);
	call_enter(1);
	setitimer(ITIMER_REAL, &soon, NULL);
	assert_int_equal(call_poll(NULL, 0, 10000), -1);
	assert_int_equal(ran, 1);
	/* And again, until it is paid. */
	assert_int_equal(call_poll(NULL, 0, 10000), -1);
	call_leave(1);
	assert_int_equal(ran, 2);
	assert_true(nothing_is_blocked());
}

static void a_wait_for_a_condition_comes_back(void **state)
{
	pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	pthread_cond_t cond = PTHREAD_COND_INITIALIZER;

	call_enter(1);
	pthread_mutex_lock(&mutex);
	call_cond_wait(&cond, &mutex);
	pthread_mutex_unlock(&mutex);
	call_leave(1);
}

static void *sleep_in_a_call(void *unused)
{
	CALL();

	call_poll(NULL, 0, 10000);
	return unused;
}

static void check_depth(void *depth)
{
	*(unsigned *)depth = call_thread.depth;
}

static void *be_cancelled(void *depth)
{
	pthread_cleanup_push(check_depth, depth);
	sleep_in_a_call(NULL);
	pthread_cleanup_pop(0);
	return NULL;
}

static void a_thread_that_is_cancelled_is_in_no_call(void **state)
{
	unsigned depth = 99;
	pthread_t thread;

	pthread_create(&thread, NULL, be_cancelled, &depth);
	usleep(20000);
	pthread_cancel(thread);
	pthread_join(thread, NULL);
	assert_int_equal(depth, 0);
}

static unsigned passed;

static void sleep_holding(void)
{
	CALL();
	CALL_HOLDING();

	usleep(1);
	call_nap(1);
}

static void *call_what_sleeps(void *kind)
{
	unsigned i;

	pthread_cancel(pthread_self());
	if (!strcmp(kind, "point")) {
		CALL_POINT();

		passed++;
	} else if (!strcmp(kind, "lazy")) {
		call_enter(1);
		call_shield();
		call_shield();
		usleep(1);
		passed++;
		call_leave(1);
	} else {
		CALL();

		for (i = 0; i < 2; i++)
			sleep_holding();
		usleep(1);
		passed++;
	}
	pthread_testcancel();
	passed++;
	return NULL;
}

static unsigned passed_when_cancelled(const char *kind)
{
	pthread_t thread;
	void *result;

	passed = 0;
	assert_int_equal(pthread_create(&thread, NULL, call_what_sleeps, (void *)kind), 0);
	assert_int_equal(pthread_join(thread, &result), 0);
	assert_ptr_equal(result, PTHREAD_CANCELED);
	return passed;
}

/* Whatever it asks the kernel for, holding locks. */
static void a_call_is_cancelled_when_it_has_ended(void **state)
{
	assert_int_equal(passed_when_cancelled("call"), 1);
	assert_int_equal(passed_when_cancelled("lazy"), 1);
	assert_int_equal(passed_when_cancelled("point"), 0);
}

static void who_has_switched_cancellation_off_finds_it_off(void **state)
{
	int was;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &was);
	{
		CALL();
	}
	pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &was);
	assert_int_equal(was, PTHREAD_CANCEL_DISABLE);
	{
		CALL();
	}
	pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &was);
	assert_int_equal(was, PTHREAD_CANCEL_ENABLE);
}

/* A timer at random instants, and calls that each find their state as they left it. */
static void at_any_instant_a_call_is_whole(void **state)
{
	volatile unsigned left = 0, whole = 0, half = 0;
	struct itimerval once = { { 0, 0 }, { 0, 0 } };

	install(SIGALRM, SA_RESTART, 0);
	leaves = true;
	if (sigsetjmp(outside, 1))
		left++;
	/* One tick at a time: those that come while a handler leaves would nest, down to the end of the stack. */
	once.it_value.tv_usec = 20 + left % 61;
	setitimer(ITIMER_REAL, &once, NULL);
	while (left < 2000) {
		CALL();

		assert_int_equal(half, 0);
		half = 1;
		for (volatile int i = 0; i < 100; i++)
			;
		half = 0;
		whole++;
	}
	once.it_value.tv_usec = 0;
	setitimer(ITIMER_REAL, &once, NULL);
	assert_true(whole > 0);
}

/* ThreadSanitizer delivers signals late by itself: it is not asked to put handlers off, either. */
#if defined(__SANITIZE_THREAD__)
#define HANDLERS_CAN_WAIT false
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define HANDLERS_CAN_WAIT false
#endif
#endif
#ifndef HANDLERS_CAN_WAIT
#define HANDLERS_CAN_WAIT true
#endif


int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(outside_of_calls_handlers_run_at_once, setup),
		cmocka_unit_test_setup(in_a_call_they_run_when_it_ends, setup),
		cmocka_unit_test_setup(what_a_handler_does_to_errno_is_not_the_calls, setup),
		cmocka_unit_test_setup(the_outermost_call_pays, setup),
		cmocka_unit_test_setup(a_handler_that_leaves_leaves_nothing, setup),
		cmocka_unit_test_setup(what_was_queued_comes_with_its_value, setup),
		cmocka_unit_test_setup(handlers_that_do_not_block_themselves_are_put_off_once, setup),
		cmocka_unit_test_setup(the_mask_of_the_outermost_handler_is_the_applications, setup),
		cmocka_unit_test_setup(a_pause_pays_and_says_what_for, setup),
		cmocka_unit_test_setup(calls_that_hold_something_do_not_pause, setup),
		cmocka_unit_test_setup(a_sleep_ends_when_a_handler_is_put_off, setup),
		cmocka_unit_test_setup(a_wait_for_a_condition_comes_back, setup),
		cmocka_unit_test_setup(a_thread_that_is_cancelled_is_in_no_call, setup),
		cmocka_unit_test_setup(a_call_is_cancelled_when_it_has_ended, setup),
		cmocka_unit_test_setup(who_has_switched_cancellation_off_finds_it_off, setup),
		cmocka_unit_test_setup(at_any_instant_a_call_is_whole, setup),
	};

	if (!HANDLERS_CAN_WAIT) {
		print_message("skipped: ThreadSanitizer delivers signals itself\n");
		return 77;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
