/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Timers of QPs: at or before their deadlines, moved forward only, and expired once. The deadline
 * of a QP is here the end of a wait after an RNR NAK, which a timeout ends.
 */
#include "engine/fake_link_test.h"
#include "host/slot_watch.h"
#include "platform/clock.h"
#include "platform/fail.h"
#include "transport/ack_hold.h"

static void arm(uint64_t deadline_ns)
{
	lock_acquire(&station->qp.lock);
	station->qp.requester.rnr_until_ns = deadline_ns;
	timers_arm(engine, &station->qp);
	lock_release(&station->qp.lock);
}

static void expire(uint64_t now_ns)
{
	lock_acquire(&engine->progress);
	timers_expire(engine, now_ns);
	lock_release(&engine->progress);
	assert_true(is_free(&station->qp.lock));
	assert_true(is_free(&engine->timers.lock));
}

static bool has_expired(void)
{
	return !station->qp.requester.rnr_until_ns;
}

static void expect_next(uint64_t next_ns)
{
	assert_int_equal(timers_next(engine), next_ns);
	assert_int_equal(atomic_load(&engine->timers.next_ns), next_ns);
}

static void a_timer_expires_at_its_deadline_once(void **state)
{
	arm(300);
	expect_next(300);
	expire(299);
	assert_false(has_expired());
	expire(300);
	assert_true(has_expired());
	expect_next(TIME_NEVER);
	assert_int_equal(atomic_load(&station->qp.timer_at_ns), TIME_NEVER);
}

static void a_deadline_that_recedes_leaves_the_timer_where_it_is(void **state)
{
	arm(300);
	arm(500);
	expect_next(300);
	expire(300);
	assert_false(has_expired());
	expect_next(500);		/* armed anew, for what it is now */
	expire(500);
	assert_true(has_expired());
}

static void a_deadline_that_comes_nearer_moves_the_timer(void **state)
{
	arm(500);
	arm(300);
	expect_next(300);
	expire(300);
	assert_true(has_expired());
}

static void the_worker_is_told_of_an_earlier_deadline(void **state)
{
	arm(500);
	assert_int_equal(atomic_load(&engine->worker.notice_ns), 500);
	arm(300);
	assert_int_equal(atomic_load(&engine->worker.notice_ns), 300);
}

static void a_disarmed_timer_does_not_expire_and_can_be_armed(void **state)
{
	arm(300);
	timers_disarm(engine, &station->qp);
	expire(400);
	assert_false(has_expired());
	assert_int_equal(timers_next(engine), TIME_NEVER);
	arm(500);
	expect_next(500);
}

static void of_two_timers_the_earlier_is_next(void **state)
{
	struct station *other = station_here(IBV_QPT_RC);

	arm(500);
	lock_acquire(&other->qp.lock);
	other->qp.requester.rnr_until_ns = 300;
	timers_arm(engine, &other->qp);
	lock_release(&other->qp.lock);
	expect_next(300);
	expire(400);
	assert_int_equal(other->qp.requester.rnr_until_ns, 0);
	assert_false(has_expired());
	expect_next(500);
	station_leave(other);
}

/* Whoever received the WRITE: the worker sleeps no longer than until then. */
static void an_ack_that_waits_for_a_reply_leaves_at_its_deadline(void **state)
{
	struct responder *responder = &station->qp.responder;

	lock_acquire(&station->qp.lock);
	responder->hold.replies = HOLD_LEARN;
	receive_data(station, OPCODE_RC_WRITE_ONLY, PEER_PSN, 8);
	timers_arm(engine, &station->qp);
	lock_release(&station->qp.lock);
	assert_int_equal(atomic_load(&engine->run_queue.count), 0);
	expect_next(station->now_ns + HOLD_NS);
	assert_int_equal(atomic_load(&engine->worker.notice_ns), station->now_ns + HOLD_NS);
	expire(station->now_ns + HOLD_NS);
	assert_int_equal(atomic_load(&engine->run_queue.count), 1);
	tx_run_queued(engine);
	assert_int_equal(fake.sent, 1);
}

#define PEERS	3u
#define ROUNDS	4u
#define NEVER	1000000u

/* Each look connects to the name of the slot: nobody has it. */
static void the_process_of_each_peer_is_looked_at_ten_times_a_second(void **state)
{
	struct station *to[PEERS] = { station, station_here(IBV_QPT_RC), station_here(IBV_QPT_RC) };
	uint64_t now_ns = station->now_ns;
	unsigned i, round;

	assert_int_equal(slot_watch_open(&engine->watch), 0);
	fail_set(FAIL_SOCKET, NEVER, EMFILE);
	for (i = 0; i < PEERS; i++) {
		struct qp *qp = &to[i]->qp;

		qp->route.loopback = true;
		qp->attr.dest_qp_num = (16 * i + 3) << QP_INDEX_BITS | 7;
		qp->attr.timeout = 6;		/* 0.26 ms */
		qp->attr.retry_cnt = 7;
		post(to[i], IBV_WR_SEND, 1, 8);
		transmit(to[i]);
	}
	/* Four ACK timeouts in less than a tenth of a second. */
	for (round = 0; round < ROUNDS; round++) {
		now_ns += 20 * MILLISECOND;
		for (i = 0; i < PEERS; i++) {
			lock_acquire(&to[i]->qp.lock);
			timers_arm(engine, &to[i]->qp);
			lock_release(&to[i]->qp.lock);
		}
		expire(now_ns);
		for (i = 0; i < PEERS; i++) {
			to[i]->now_ns = now_ns;
			transmit(to[i]);
		}
	}
	for (i = 0; i < PEERS; i++)
		assert_in_range(station_counter(to[i], COUNTER_TIMEOUT), 2, ROUNDS);
	assert_int_equal(NEVER - atomic_load(&fail_table[FAIL_SOCKET].countdown), PEERS);
	fail_clear();
	slot_watch_close(engine->watch);
	engine->watch = NULL;
	station_leave(to[1]);
	station_leave(to[2]);
}

static struct cq moderated;

static void moderated_begin(uint64_t period_ns)
{
	const struct cq_moderation moderation = { .period_ns = period_ns };
	struct ibv_wc wc = { .wr_id = 1 };
	struct effects effects;

	memset(&moderated, 0, sizeof(moderated));
	assert_int_equal(cq_init(&moderated, 16), 0);
	assert_int_equal(timers_add_cq(engine), 0);
	effects_init(&effects);
	cq_moderate(&moderated, &moderation, &effects);
	cq_arm(&moderated, false, &effects);
	assert_true(cq_push(&moderated, &wc, false, 0, &effects));
	assert_true(cq_period_begins(&moderated));
	timers_arm_cq(engine, &moderated);
}

static void moderated_end(void)
{
	lock_acquire(&engine->progress);
	timers_remove_cq(engine, &moderated);
	lock_release(&engine->progress);
	assert_int_equal(engine->timers.cqs, 0);
	cq_fini(&moderated);
}

static void the_event_of_a_moderated_cq_waits_for_its_timer(void **state)
{
	uint64_t begin_ns = clock_now_ns(), end_ns;

	moderated_begin(1000000);
	end_ns = timers_next(engine);
	assert_true(end_ns >= begin_ns + 1000000 && end_ns <= clock_now_ns() + 1000000);
	expect_next(end_ns);
	assert_int_equal(atomic_load(&engine->worker.notice_ns), end_ns);
	expire(end_ns - 1);
	assert_true(cq_is_armed(&moderated));
	expire(end_ns);
	assert_false(cq_is_armed(&moderated));
	expect_next(TIME_NEVER);
	moderated_end();
}

static void the_timer_of_a_qp_and_that_of_a_cq_do_not_hide_each_other(void **state)
{
	uint64_t cq_ns;

	moderated_begin(1000000);
	cq_ns = timers_next(engine);
	arm(cq_ns - 10);
	expect_next(cq_ns - 10);
	expire(cq_ns - 10);
	assert_true(has_expired());
	expect_next(cq_ns);
	arm(cq_ns + 10);
	expire(cq_ns);
	assert_false(cq_is_armed(&moderated));
	expect_next(cq_ns + 10);
	moderated_end();
}

static void a_cq_that_goes_takes_its_timer_along(void **state)
{
	moderated_begin(1000000);
	moderated_end();
	assert_int_equal(timers_next(engine), TIME_NEVER);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		STATION_TEST(a_timer_expires_at_its_deadline_once),
		STATION_TEST(a_deadline_that_recedes_leaves_the_timer_where_it_is),
		STATION_TEST(a_deadline_that_comes_nearer_moves_the_timer),
		STATION_TEST(the_worker_is_told_of_an_earlier_deadline),
		STATION_TEST(a_disarmed_timer_does_not_expire_and_can_be_armed),
		STATION_TEST(of_two_timers_the_earlier_is_next),
		STATION_TEST(an_ack_that_waits_for_a_reply_leaves_at_its_deadline),
		STATION_TEST(the_process_of_each_peer_is_looked_at_ten_times_a_second),
		STATION_TEST(the_event_of_a_moderated_cq_waits_for_its_timer),
		STATION_TEST(the_timer_of_a_qp_and_that_of_a_cq_do_not_hide_each_other),
		STATION_TEST(a_cq_that_goes_takes_its_timer_along),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
