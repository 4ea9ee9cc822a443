/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Who makes progress, and what is known of it afterwards: one thread at a time; the application's
 * polling; whether it is used to replying at once, so that an ACK waits for the reply.
 */
#include "engine/fake_link_test.h"

#include <pthread.h>
#include <stdatomic.h>

#include "platform/clock.h"
#include "platform/thread_cpu.h"
#include "platform/wait.h"

/* What came through memory. */
static bool answers;

unsigned __wrap_local_receive(struct local *local, struct cq_poll *poll);

unsigned __wrap_local_receive(struct local *local, struct cq_poll *poll)
{
	local->was_answered = answers;
	return 0;
}

static bool make_progress(struct cq *polled)
{
	struct cq_poll poll = { .cq = polled };
	unsigned packets = 99;
	bool done = engine_progress(engine, polled ? &poll : NULL, &packets);

	assert_int_equal(packets, 0);
	return done;
}

static void look_inside(void)
{
	assert_true(atomic_load(&engine->app.inside));
	assert_false(is_free(&engine->progress));
}

static void what_an_application_does_is_known(void **state)
{
	uint64_t before_ns = clock_now_ns();

	fake.when_receiving = look_inside;
	assert_true(make_progress(&station->recv_cq));
	assert_false(atomic_load(&engine->app.inside));
	assert_int_equal(atomic_load(&engine->app.calls), 1);
	assert_int_equal(atomic_load(&engine->app.thread), thread_id());
	assert_in_range(atomic_load(&engine->app.progress_ns), before_ns, clock_now_ns());
	assert_true(is_free(&engine->progress));
}

static void the_worker_is_no_application(void **state)
{
	assert_true(make_progress(NULL));
	assert_int_equal(atomic_load(&engine->app.calls), 0);
	assert_int_equal(atomic_load(&engine->app.progress_ns), 0);
}

static struct {
	atomic_bool held, asked, finished;
} holder;

/* As one that is in the middle of the last message. */
static void *holds_progress(void *argument)
{
	lock_acquire(&engine->progress);
	atomic_store(&holder.held, true);
	while (!atomic_load(&holder.asked))
		thread_yield();
	thread_sleep_ns(1000000);
	atomic_store(&holder.finished, true);
	lock_release(&engine->progress);
	return argument;
}

static void who_catches_up_waits_for_the_thread_that_is_at_it(void **state)
{
	pthread_t thread;

	holder.held = holder.asked = holder.finished = false;
	assert_int_equal(pthread_create(&thread, NULL, holds_progress, NULL), 0);
	while (!atomic_load(&holder.held))
		thread_yield();
	atomic_store(&holder.asked, true);
	engine_catch_up(engine, true);
	assert_true(atomic_load(&holder.finished));
	assert_true(is_free(&engine->progress));
	assert_int_equal(pthread_join(thread, NULL), 0);
}

static void who_finds_another_thread_at_it_goes_and_is_known_to_poll(void **state)
{
	bool done;

	lock_acquire(&engine->progress);
	done = make_progress(NULL);
	assert_false(done);
	assert_int_equal(atomic_load(&engine->app.progress_ns), 0);
	done = make_progress(&station->recv_cq);
	lock_release(&engine->progress);
	assert_false(done);
	assert_int_not_equal(atomic_load(&engine->app.progress_ns), 0);
	assert_int_equal(atomic_load(&engine->app.calls), 0);
}

static void a_poll_that_finds_answers_is_brief(void **state)
{
	unsigned i, whole;

	answers = true;
	for (i = 0, whole = engine->rx.rounds; i < 160; i++)
		assert_true(make_progress(&station->recv_cq));
	assert_int_equal(engine->rx.rounds - whole, 10);
	/* Not that of the worker, nor one behind which something is to be sent. */
	assert_true(make_progress(NULL));
	assert_int_equal(engine->rx.rounds - whole, 11);
	post(station, IBV_WR_RDMA_WRITE, 1, 100);
	run_queue_add(&engine->run_queue, &station->qp);
	assert_true(make_progress(&station->recv_cq));
	assert_int_equal(engine->rx.rounds - whole, 12);
	assert_int_equal(fake.sent, 1);
	answers = false;
	assert_true(make_progress(&station->recv_cq));
	assert_int_equal(engine->rx.rounds - whole, 13);
}

static void timers_expire_and_the_run_queue_is_served(void **state)
{
	lock_acquire(&station->qp.lock);
	station->qp.requester.rnr_until_ns = 1;
	timers_arm(engine, &station->qp);
	lock_release(&station->qp.lock);
	post(station, IBV_WR_RDMA_WRITE, 1, 100);
	run_queue_add(&engine->run_queue, &station->qp);
	assert_true(make_progress(NULL));
	assert_int_equal(station->qp.requester.rnr_until_ns, 0);
	assert_int_equal(fake.sent, 1);
}

static int score(void)
{
	return atomic_load(&engine->reply.score);
}

static void replies_count_for_and_polls_without_one_twice_against(void **state)
{
	unsigned i;

	for (i = 0; i < 20; i++)
		progress_replied(engine);
	assert_int_equal(score(), 8);
	for (i = 0; i < 5; i++) {
		assert_true(make_progress(&station->recv_cq));	/* none was awaited */
		assert_int_equal(score(), 8);
	}
	for (i = 0; i < 5; i++) {
		atomic_store(&engine->reply.awaited, true);
		assert_true(make_progress(&station->recv_cq));
		assert_int_equal(score(), i < 3 ? 6 - 2 * (int)i : 0);
	}
}

static void have_a_completion(struct cq *cq)
{
	struct ibv_wc wc = { .wr_id = 1 };

	effects_init(&station->effects);
	assert_true(cq_push(cq, &wc, false, 0, &station->effects));
}

/* Something to transmit, and a poll of @cq: has it left? */
static bool leaves(struct cq *cq)
{
	unsigned before = fake.sent;
	bool sent_now;

	post(station, IBV_WR_RDMA_WRITE, 1, 100);
	run_queue_add(&engine->run_queue, &station->qp);
	assert_true(make_progress(cq));
	sent_now = fake.sent != before;
	tx_run_queued(engine);
	assert_int_equal(fake.sent, before + 1);
	return sent_now;
}

static void an_ack_waits_for_a_reply_where_one_is_expected(void **state)
{
	engine->rx.rounds = 1;	/* not one of those in which it is tried anyway */
	atomic_store(&engine->worker.state, WORKER_STANDBY);
	have_a_completion(&station->recv_cq);
	assert_true(leaves(&station->recv_cq));
	progress_replied(engine);
	assert_false(leaves(&station->recv_cq));
	assert_true(atomic_load(&engine->reply.awaited));
	progress_replied(engine);
	assert_false(atomic_load(&engine->reply.awaited));
	assert_true(leaves(NULL));			/* the worker hands over nothing */
	assert_true(leaves(&station->send_cq));		/* which is empty */
	atomic_store(&engine->worker.state, WORKER_ACTIVE);
	assert_true(leaves(&station->recv_cq));		/* nobody would come to look after it */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		STATION_TEST(what_an_application_does_is_known),
		STATION_TEST(the_worker_is_no_application),
		STATION_TEST(who_finds_another_thread_at_it_goes_and_is_known_to_poll),
		STATION_TEST(who_catches_up_waits_for_the_thread_that_is_at_it),
		STATION_TEST(a_poll_that_finds_answers_is_brief),
		STATION_TEST(timers_expire_and_the_run_queue_is_served),
		STATION_TEST(replies_count_for_and_polls_without_one_twice_against),
		STATION_TEST(an_ack_waits_for_a_reply_where_one_is_expected),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
