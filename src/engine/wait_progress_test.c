/* SPDX-License-Identifier: BSD-2-Clause */
/* A thread that waits for an event does the worker's part, one at a time, and leaves no trace. */
#include "base/call.h"
#include "device/device_test.h"

#include <pthread.h>
#include <signal.h>

static struct comp_channel *channel;
static struct cq *waited;		/* with that channel */
static struct qp *pair[2];

static int begin(void **state)
{
	struct cq *without = cq;
	int err = device_begin(state);

	if (err || hca_create_comp_channel(context, &channel) || cq_make(&channel->ibv, &waited))
		return -1;
	without = cq;
	cq = waited;
	qp_make_pair(pair);
	cq = without;
	return hca_req_notify_cq(waited, false);
}

static struct event_queue *queue(void)
{
	return &channel->queue;
}

static bool is_active(void)
{
	return atomic_load(&hca->engine.wait.active);
}

static void send_something(void)
{
	assert_int_equal(post_recv(pair[1], 1), 0);
	assert_int_equal(post_send(pair[0], 1, 8), 0);
}

/* The completion of the request may come after the receive's: it is not to be the next event. */
static void poll_both(void)
{
	uint64_t end_ns = clock_now_ns() + PATIENCE_NS;
	int polled = 0;

	while (polled < 2 && clock_now_ns() < end_ns)
		polled += hca_poll_cq(waited, 1, &(struct ibv_wc){ 0 });
	assert_int_equal(polled, 2);
}

static void *waits(void *unused)
{
	struct cq *got = NULL;
	int err = hca_get_cq_event(channel, &got);

	if (!err)
		hca_ack_cq_events(got, 1);
	return (void *)(intptr_t)(err ? err : got == waited ? 0 : -1);
}

/* As the public function does: cancellation is off but where the thread sleeps. */
static void *waits_in_a_call(void *unused)
{
	CALL_POINT();

	return waits(NULL);
}

static pthread_t start_as(void *(*run)(void *))
{
	uint64_t end_ns = clock_now_ns() + PATIENCE_NS;
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, run, NULL), 0);
	while (!is_active() && clock_now_ns() < end_ns)
		thread_sleep_ns(MS / 5);
	assert_true(is_active());
	thread_sleep_ns(10 * MS);
	return thread;
}

static pthread_t start(void)
{
	return start_as(waits);
}

static unsigned sleepers(void)
{
	unsigned count;

	lock_acquire(&hca->engine.sleep.lock);
	count = hca->engine.sleep.sleepers;
	lock_release(&hca->engine.sleep.lock);
	return count;
}

/* Nobody sleeps but the worker, if it does. */
static void expect_no_sleeper(void)
{
	thread_sleep_ns(100 * MS);
	assert_false(is_active());
	assert_true(comes_true(sleepers() <= 1));
}

static void the_event_is_got_by_who_waits(void **state)
{
	void *result = (void *)1;
	pthread_t thread;
	unsigned i;

	for (i = 0; i < 3; i++) {
		thread = start();
		send_something();
		assert_int_equal(pthread_join(thread, &result), 0);
		assert_null(result);
		assert_false(is_active());
		/* On a busy machine a waiter may be woken for another reason first, and wait again. */
		assert_true(atomic_load(&hca->engine.wait.vouched) > 0);
		assert_true(atomic_load(&hca->engine.wait.count) > i);
		poll_both();
		assert_int_equal(hca_req_notify_cq(waited, false), 0);
	}
	expect_no_sleeper();
}

/* That it polls is what the worker knows of it. */
static void who_has_waited_has_made_progress(void **state)
{
	uint64_t before_ns = clock_now_ns();
	pthread_t thread = start();

	send_something();
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_true(atomic_load(&hca->engine.app.progress_ns) >= before_ns);
}

static void who_does_not_want_to_sleep_does_not_wait(void **state)
{
	assert_int_equal(fcntl(queue()->fd, F_SETFL, O_NONBLOCK), 0);
	alarm(HANGING_S);
	assert_int_equal(wait_progress(&hca->engine, queue(), TIME_NEVER), 0);
	assert_int_equal(atomic_load(&hca->engine.wait.count), 0);
}

static void where_an_event_waits_nobody_does(void **state)
{
	struct ibv_wc wc = { .wr_id = 1 };
	struct effects effects;

	effects_init(&effects);
	assert_true(cq_push(waited, &wc, false, 0, &effects));
	alarm(HANGING_S);
	assert_int_equal(wait_progress(&hca->engine, queue(), TIME_NEVER), 0);
	effects_apply(&effects);
	assert_int_equal(atomic_load(&hca->engine.wait.count), 0);
}

static void one_thread_stands_in_at_a_time(void **state)
{
	pthread_t thread = start();

	alarm(HANGING_S);
	assert_int_equal(wait_progress(&hca->engine, queue(), TIME_NEVER), 0);
	assert_true(is_active());
	assert_int_equal(atomic_load(&hca->engine.wait.count), 1);
	send_something();
	assert_int_equal(pthread_join(thread, NULL), 0);
}

static void handler(int signal)
{
}

static void a_handler_ends_the_wait(void **state)
{
	struct sigaction action = { .sa_handler = handler };	/* without SA_RESTART */
	void *result = NULL;
	pthread_t thread;

	assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
	thread = start();
	assert_int_equal(pthread_kill(thread, SIGUSR1), 0);
	assert_int_equal(pthread_join(thread, &result), 0);
	assert_int_equal((intptr_t)result, EINTR);
	expect_no_sleeper();
}

static void check_cancelled(void *(*run)(void *))
{
	void *result = NULL;
	pthread_t thread = start_as(run);

	assert_int_equal(pthread_cancel(thread), 0);
	assert_int_equal(pthread_join(thread, &result), 0);
	assert_ptr_equal(result, PTHREAD_CANCELED);
	expect_no_sleeper();
}

static void a_thread_that_is_cancelled_leaves_its_place(void **state)
{
	void *result = NULL;
	pthread_t thread;

	check_cancelled(waits);
	check_cancelled(waits_in_a_call);
	thread = start_as(waits_in_a_call);
	send_something();
	assert_int_equal(pthread_join(thread, &result), 0);
	assert_null(result);
}

int main(void)
{
#define WAIT_TEST(name) cmocka_unit_test_setup_teardown(name, begin, device_end)
	const struct CMUnitTest tests[] = {
		WAIT_TEST(the_event_is_got_by_who_waits),
		WAIT_TEST(who_has_waited_has_made_progress),
		WAIT_TEST(who_does_not_want_to_sleep_does_not_wait),
		WAIT_TEST(where_an_event_waits_nobody_does),
		WAIT_TEST(one_thread_stands_in_at_a_time),
		WAIT_TEST(a_handler_ends_the_wait),
		WAIT_TEST(a_thread_that_is_cancelled_leaves_its_place),
	};

	DEVICE_TESTS(tests);
}
