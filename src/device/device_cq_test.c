/* SPDX-License-Identifier: BSD-2-Clause */
/* CQs and completion channels: sizes, users, polling as progress, events and acknowledgements. */
#include "device/device_test.h"

static struct comp_channel *channel;
static struct cq *filled_at_yield;
static pthread_t poller;

static void channel_make(void)
{
	assert_int_equal(hca_create_comp_channel(context, &channel), 0);
	assert_int_equal(fcntl(channel->ibv.fd, F_SETFL, O_NONBLOCK), 0);
}

static void push(struct cq *to, unsigned count)
{
	struct ibv_wc wc = { .wr_id = 1 };
	struct effects effects;

	effects_init(&effects);
	for (; count; count--)
		assert_true(cq_push(to, &wc, false, 0, &effects));
	effects_apply(&effects);
}

/* In place of the C library's: the core is offered, and what comes meanwhile. */
int sched_yield(void)
{
	struct cq *to = pthread_equal(pthread_self(), poller) ? filled_at_yield : NULL;

	if (to) {
		filled_at_yield = NULL;
		push(to, 1);
	}
	return 0;
}

static void a_cq_has_one_entry_at_least_and_max_cqe_at_most(void **state)
{
	struct ibv_cq_init_attr_ex attr = { .cqe = 0 };
	struct cq *made = NULL;

	hca->config.max_cqe = 200;
	assert_int_equal(hca_create_cq(context, &attr, &made), EINVAL);
	attr.cqe = 201;
	assert_int_equal(hca_create_cq(context, &attr, &made), EINVAL);
	assert_null(made);
	attr.cqe = 200;
	assert_int_equal(hca_create_cq(context, &attr, &made), 0);
	assert_int_equal(made->ibv.cqe, 200);
	assert_int_equal(hca_resize_cq(made, 201), EINVAL);
	assert_int_equal(hca_resize_cq(made, -1), EINVAL);
	assert_int_equal(made->ibv.cqe, 200);
	assert_int_equal(hca_resize_cq(made, 1), 0);
	assert_int_equal(made->ibv.cqe, 1);
	assert_int_equal(hca_destroy_cq(context, made), 0);
}

static void a_cq_in_use_stays(void **state)
{
	struct ibv_qp_init_attr_ex attr = qp_attr(IBV_QPT_RC);
	struct cq *receives;
	struct qp *qp;

	assert_int_equal(cq_make(NULL, &receives), 0);
	attr.recv_cq = (struct ibv_cq *)&receives->ibv;
	assert_int_equal(hca_create_qp(context, &attr, &qp), 0);
	assert_int_equal(hca_destroy_cq(context, receives), EBUSY);
	assert_int_equal(hca_destroy_cq(context, cq), EBUSY);
	assert_int_equal(hca_destroy_qp(context, qp), 0);
	assert_int_equal(hca_destroy_cq(context, receives), 0);
}

static void polling_an_empty_cq_makes_progress(void **state)
{
	uint32_t before = atomic_load(&hca->engine.app.calls);
	struct ibv_wc wc;
	unsigned i;

	/* Now and then the worker is at it. */
	for (i = 0; i < 1000 && atomic_load(&hca->engine.app.calls) == before; i++)
		assert_int_equal(hca_poll_cq(cq, 1, &wc), 0);
	assert_int_not_equal(atomic_load(&hca->engine.app.calls), before);
}

static void polling_leaves_errno_alone(void **state)
{
	uint32_t before = atomic_load(&hca->engine.app.calls);
	struct ibv_wc wc;
	unsigned i;

	errno = EL2HLT;
	for (i = 0; i < 1000 && atomic_load(&hca->engine.app.calls) - before < 10; i++)
		assert_int_equal(hca_poll_cq(cq, 1, &wc), 0);
	assert_int_equal(errno, EL2HLT);
}

static void polling_a_full_cq_makes_some_progress_too(void **state)
{
	uint32_t before = atomic_load(&hca->engine.app.calls), made;
	struct ibv_wc wc;
	unsigned i;

	push(cq, 96);
	for (i = 0; i < 95; i++)
		assert_int_equal(hca_poll_cq(cq, 1, &wc), 1);
	made = atomic_load(&hca->engine.app.calls) - before;
	assert_in_range(made, 1, 6);
}

static void polling_with_a_cursor_is_polling(void **state)
{
	uint32_t before = atomic_load(&hca->engine.app.calls);
	struct completion completion;
	unsigned i;

	push(cq, 2);
	assert_int_equal(hca_poll_cq_one(cq, &completion), 1);
	assert_int_equal(hca_poll_cq_one(cq, &completion), 1);
	for (i = 0; i < 1000 && atomic_load(&hca->engine.app.calls) == before; i++)
		assert_int_equal(hca_poll_cq_one(cq, &completion), 0);
	assert_int_not_equal(atomic_load(&hca->engine.app.calls), before);
}

/* Who finds the CQ empty, and then the connection ended, throws the QP away with its completions. */
static void a_poll_that_offers_the_core_looks_again(void **state)
{
	struct completion completion;
	struct ibv_wc wc;
	int i, got = 0;

	poller = pthread_self();
	filled_at_yield = cq;
	for (i = 0; i < 1000 && filled_at_yield; i++)
		got = hca_poll_cq(cq, 1, &wc);
	assert_null(filled_at_yield);
	assert_int_equal(got, 1);
	filled_at_yield = cq;
	for (i = 0; i < 1000 && filled_at_yield; i++)
		got = hca_poll_cq_one(cq, &completion);
	assert_null(filled_at_yield);
	assert_int_equal(got, 1);
}

static void a_channel_in_use_stays(void **state)
{
	struct cq *made;

	channel_make();
	assert_int_equal(cq_make(&channel->ibv, &made), 0);
	assert_int_equal(hca_destroy_comp_channel(context, channel), EBUSY);
	assert_int_equal(hca_destroy_cq(context, made), 0);
	assert_int_equal(hca_destroy_comp_channel(context, channel), 0);
}

static void a_channel_leaves_no_descriptor(void **state)
{
	unsigned before = fds_open();

	channel_make();
	assert_int_equal(fds_open(), before + 1);
	assert_int_equal(hca_destroy_comp_channel(context, channel), 0);
	assert_int_equal(fds_open(), before);
}

static void who_has_asked_is_woken_once(void **state)
{
	struct cq *made, *got = NULL;

	channel_make();
	assert_int_equal(cq_make(&channel->ibv, &made), 0);
	push(made, 1);
	assert_int_equal(hca_get_cq_event(channel, &got), EAGAIN);
	assert_int_equal(hca_req_notify_cq(made, false), 0);
	push(made, 2);
	assert_int_equal(hca_get_cq_event(channel, &got), 0);
	assert_ptr_equal(got, made);
	assert_int_equal(made->comp_events_got, 1);
	assert_int_equal(hca_get_cq_event(channel, &got), EAGAIN);
	hca_ack_cq_events(made, 1);
	assert_int_equal(hca_destroy_cq(context, made), 0);
}

static void an_event_of_a_cq_that_is_gone_is_not_got(void **state)
{
	struct cq *made, *got;

	channel_make();
	assert_int_equal(cq_make(&channel->ibv, &made), 0);
	assert_int_equal(hca_req_notify_cq(made, false), 0);
	push(made, 1);
	assert_int_equal(hca_destroy_cq(context, made), 0);
	assert_false(event_queue_pending(&channel->queue));
	assert_int_equal(hca_get_cq_event(channel, &got), EAGAIN);
}

static uint64_t await_event(uint64_t from_ns)
{
	struct cq *got;

	while (hca_get_cq_event(channel, &got) == EAGAIN)
		assert_true(clock_now_ns() < from_ns + PATIENCE_NS);
	hca_ack_cq_events(got, 1);
	return clock_now_ns() - from_ns;
}

/* Nobody polls meanwhile: the worker keeps the time. */
static void the_event_of_a_moderated_cq_comes_when_its_period_ends(void **state)
{
	struct ibv_qp_init_attr_ex attr = qp_attr(IBV_QPT_UD);
	struct cq *made, *got;
	unsigned tries = 0;
	uint64_t begin_ns;
	struct qp *qp;
	int err;

	channel_make();
	assert_int_equal(cq_make(&channel->ibv, &made), 0);
	assert_int_equal(hca_moderate_cq(made, 100, 50000), 0);
	assert_int_equal(hca_moderate_cq(made, 2, 50000), 0);
	assert_int_equal(hca->engine.timers.cqs, 1);
	attr.recv_cq = (struct ibv_cq *)&made->ibv;
	assert_int_equal(hca_create_qp(context, &attr, &qp), 0);
	assert_int_equal(to_init(qp), 0);
	assert_int_equal(to_state(qp, IBV_QPS_ERR), 0);
	do {	/* again, if all of the period went by while we had no processor */
		assert_in_range(++tries, 1, SOON_TRIES);
		assert_int_equal(hca_req_notify_cq(made, false), 0);
		begin_ns = clock_now_ns();
		assert_int_equal(post_recv(qp, 1), 0);	/* flushed at once */
		err = hca_get_cq_event(channel, &got);
		if (!err)
			hca_ack_cq_events(got, 1);
	} while (!err && clock_now_ns() - begin_ns >= 50 * MS);
	assert_int_equal(err, EAGAIN);
	assert_true(await_event(begin_ns) >= 50 * MS);
	assert_int_equal(hca_req_notify_cq(made, false), 0);
	assert_int_equal(post_recv(qp, 2), 0);
	assert_int_equal(post_recv(qp, 3), 0);
	assert_int_equal(hca_get_cq_event(channel, &got), 0);	/* the second of two */
	hca_ack_cq_events(got, 1);
	assert_int_equal(hca_req_notify_cq(made, false), 0);
	assert_int_equal(post_recv(qp, 4), 0);
	assert_int_equal(hca_destroy_qp(context, qp), 0);
	assert_int_equal(hca_destroy_cq(context, made), 0);
	assert_int_equal(hca->engine.timers.cqs, 0);
	thread_sleep_ns(60 * MS);
	assert_int_equal(hca_get_cq_event(channel, &got), EAGAIN);
}

static _Atomic bool destroyed;

static void *destroys(void *made)
{
	assert_int_equal(hca_destroy_cq(context, made), 0);
	atomic_store(&destroyed, true);
	return NULL;
}

static void destruction_waits_for_acknowledgements(void **state)
{
	struct cq *made, *got;
	pthread_t thread;

	channel_make();
	assert_int_equal(cq_make(&channel->ibv, &made), 0);
	assert_int_equal(hca_req_notify_cq(made, false), 0);
	push(made, 1);
	assert_int_equal(hca_get_cq_event(channel, &got), 0);
	atomic_store(&destroyed, false);
	assert_int_equal(pthread_create(&thread, NULL, destroys, made), 0);
	thread_sleep_ns(50 * MS);
	assert_false(atomic_load(&destroyed));
	hca_ack_cq_events(made, 1);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_true(atomic_load(&destroyed));
}

static void after_fork_there_is_no_cq(void **state)
{
	struct ibv_cq_init_attr_ex attr = { .cqe = 1 };
	struct cq *made = NULL;
	struct ibv_wc wc;

	push(cq, 1);
	context->abandoned = true;
	assert_int_equal(hca_create_cq(context, &attr, &made), EIO);
	assert_int_equal(hca_resize_cq(cq, 5), EIO);
	assert_int_equal(hca_poll_cq(cq, 1, &wc), -1);
	assert_int_equal(hca_req_notify_cq(cq, false), EIO);
	assert_int_equal(hca_moderate_cq(cq, 1, 1), EIO);
	assert_int_equal(hca_destroy_cq(context, cq), EIO);
	context->abandoned = false;
	assert_int_equal(hca_poll_cq(cq, 1, &wc), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		DEVICE_TEST(a_cq_has_one_entry_at_least_and_max_cqe_at_most),
		DEVICE_TEST(a_cq_in_use_stays),
		DEVICE_TEST(polling_an_empty_cq_makes_progress),
		DEVICE_TEST(polling_leaves_errno_alone),
		DEVICE_TEST(polling_a_full_cq_makes_some_progress_too),
		DEVICE_TEST(polling_with_a_cursor_is_polling),
		DEVICE_TEST(a_poll_that_offers_the_core_looks_again),
		DEVICE_TEST(a_channel_in_use_stays),
		DEVICE_TEST(a_channel_leaves_no_descriptor),
		DEVICE_TEST(who_has_asked_is_woken_once),
		DEVICE_TEST(an_event_of_a_cq_that_is_gone_is_not_got),
		DEVICE_TEST(the_event_of_a_moderated_cq_comes_when_its_period_ends),
		DEVICE_TEST(destruction_waits_for_acknowledgements),
		DEVICE_TEST(after_fork_there_is_no_cq),
	};

	DEVICE_TESTS(tests);
}
