/* SPDX-License-Identifier: BSD-2-Clause */
/* The worker of a whole HCA: does what nobody polls for, stands by while somebody does, leaves. */
#include "device/device_test.h"

/* Does it come to be in that state, in time? While we do @meanwhile, over and over. */
static bool becomes(enum worker_state wanted, void (*meanwhile)(void))
{
	uint64_t end_ns = clock_now_ns() + PATIENCE_NS;
	bool is;

	while (!(is = atomic_load(&hca->engine.worker.state) == wanted) && clock_now_ns() < end_ns)
		meanwhile();
	return is;
}

static bool has_completion(void)
{
	uint64_t end_ns = clock_now_ns() + PATIENCE_NS;

	while (cq_is_empty(cq) && clock_now_ns() < end_ns)
		thread_sleep_ns(MS / 5);
	return !cq_is_empty(cq);
}

static void what_nobody_polls_for_comes_nevertheless(void **state)
{
	struct qp *pair[2];
	struct ibv_wc wc;
	unsigned i;

	qp_make_pair(pair);
	for (i = 0; i < 5; i++) {
		assert_int_equal(post_recv(pair[1], 1), 0);
		assert_int_equal(post_send(pair[0], 1, 8), 0);
		assert_true(has_completion());
		assert_int_equal(cq_take(cq, 1, &wc), 1);
		assert_true(has_completion());
		assert_int_equal(cq_take(cq, 1, &wc), 1);
		thread_sleep_ns(3 * MS);
	}
}

static bool wait_is_over(struct qp *qp)
{
	bool over;

	lock_acquire(&qp->lock);
	over = !qp->requester.rnr_until_ns;
	lock_release(&qp->lock);
	return over;
}

static void timers_expire_although_nobody_polls(void **state)
{
	struct qp *qp = qp_rts(IBV_QPT_RC);
	uint64_t end_ns = clock_now_ns() + PATIENCE_NS;

	lock_acquire(&qp->lock);
	qp->requester.rnr_until_ns = clock_now_ns() + 30 * MS;
	timers_arm(&hca->engine, qp);
	lock_release(&qp->lock);
	engine_after_unlock(&hca->engine);
	assert_false(wait_is_over(qp));
	while (!wait_is_over(qp) && clock_now_ns() < end_ns)
		thread_sleep_ns(MS);
	assert_true(wait_is_over(qp));
}

static struct qp *busy[2];

/* Packets of ours to ourselves ring for the worker, for nothing: we poll. */
static void send_and_poll(void)
{
	assert_int_equal(post_recv(busy[1], 1), 0);
	assert_int_equal(post_send(busy[0], 1, 8), 0);
	expect_wc(1, IBV_WC_SUCCESS);
	expect_wc(1, IBV_WC_SUCCESS);
}

static void rest(void)
{
	thread_sleep_ns(MS);
}

static void it_stands_by_while_somebody_polls_and_no_longer(void **state)
{
	qp_make_pair(busy);
	assert_int_equal(atomic_load(&hca->engine.worker.state), WORKER_ACTIVE);
	assert_true(becomes(WORKER_STANDBY, send_and_poll));
	assert_true(becomes(WORKER_ACTIVE, rest));
	assert_int_equal(post_recv(busy[1], 1), 0);
	assert_int_equal(post_send(busy[0], 1, 8), 0);
	assert_true(has_completion());
}

/* Polls until requests are gathered, or are not, while the worker stands by: it does while somebody polls. */
static bool becomes_kept(bool kept, bool wanted)
{
	bool is = false;
	uint64_t end_ns = clock_now_ns() + PATIENCE_NS;

	while (!is && clock_now_ns() < end_ns) {
		if (wanted)
			atomic_store(&hca->engine.worker.gather.wanted, true);
		send_and_poll();
		is = atomic_load(&hca->engine.worker.gather.kept) == kept &&
		     atomic_load(&hca->engine.worker.state) == WORKER_STANDBY;
	}
	return is;
}

/* They wait for its looks, which are long while nobody wants to gather any. */
static void while_it_stands_by_requests_are_gathered_if_it_looks_often(void **state)
{
	qp_make_pair(busy);
	assert_true(atomic_load(&hca->engine.worker.gather.kept));
	assert_true(becomes_kept(false, false));
	assert_true(becomes_kept(true, true));
	assert_true(becomes(WORKER_ACTIVE, rest));
	assert_true(atomic_load(&hca->engine.worker.gather.kept));
	assert_true(becomes_kept(false, false));
	assert_true(becomes(WORKER_ACTIVE, rest));	/* nobody gathers, and an answer wakes it */
	assert_true(atomic_load(&hca->engine.worker.gather.kept));
}

static void it_is_active_at_once_when_somebody_asks_to_be_woken(void **state)
{
	uint64_t before_ns = clock_now_ns();

	worker_expect_sleepers(&hca->engine);
	assert_in_range(atomic_load(&hca->engine.app.event_mode_ns), before_ns, clock_now_ns());
}

static void it_says_when_it_has_left(void **state)
{
	uint64_t before_ns = clock_now_ns();

	worker_leave(&hca->engine, PATIENCE_NS, PATIENCE_NS);
	assert_int_equal(atomic_load(&hca->engine.worker.leaving), HAS_LEFT);
	assert_true(clock_now_ns() - before_ns < PATIENCE_NS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		DEVICE_TEST(what_nobody_polls_for_comes_nevertheless),
		DEVICE_TEST(timers_expire_although_nobody_polls),
		DEVICE_TEST(it_stands_by_while_somebody_polls_and_no_longer),
		DEVICE_TEST(while_it_stands_by_requests_are_gathered_if_it_looks_often),
		DEVICE_TEST(it_is_active_at_once_when_somebody_asks_to_be_woken),
		DEVICE_TEST(it_says_when_it_has_left),
	};

	DEVICE_TESTS(tests);
}
