/* SPDX-License-Identifier: BSD-2-Clause */
/* One thread at a time transmits for a QP; what another wants sent meanwhile is not forgotten. */
#include "engine/fake_link_test.h"
#include "platform/clock.h"
#include "transport/ack_hold.h"
#include "transport/gather.h"

/* ACKs and requests wait for fractions of a millisecond, and a busy machine may take longer from line to line. */
static unsigned clock_reads;

uint64_t __wrap_clock_now_ns(void);

uint64_t __wrap_clock_now_ns(void)
{
	clock_reads++;
	return 1000000000;
}

/* As a thread that transmits for it, and is in the middle of it. */
static void set_running(bool running)
{
	lock_acquire(&station->qp.lock);
	station->qp.tx_running = running;
	station->qp.tx_again = false;
	lock_release(&station->qp.lock);
}

static void what_is_posted_leaves(void **state)
{
	post(station, IBV_WR_RDMA_WRITE, 1, 100);
	tx_run(engine, &station->qp);
	assert_int_equal(fake.sent, 1);
	assert_false(station->qp.tx_running);
	assert_true(is_free(&station->qp.lock));
	assert_int_not_equal(timers_next(engine), TIME_NEVER);	/* for the ACK */
	post(station, IBV_WR_RDMA_WRITE, 2, 100);
	tx_run(engine, &station->qp);
	assert_int_equal(fake.sent, 2);
}

static void a_thread_that_transmits_is_told_to_look_again(void **state)
{
	set_running(true);
	post(station, IBV_WR_RDMA_WRITE, 1, 100);
	tx_run(engine, &station->qp);
	assert_int_equal(fake.sent, 0);
	assert_true(station->qp.tx_running);
	assert_true(station->qp.tx_again);
	set_running(false);
}

static void post_another(void)
{
	fake.when_sending = NULL;
	assert_true(station->qp.tx_running);
	assert_true(is_free(&station->qp.lock));	/* system calls are made without it */
	post(station, IBV_WR_RDMA_WRITE, 2, 100);
	tx_run(engine, &station->qp);
	assert_int_equal(fake.sent, 1);
}

static void who_is_told_looks_again(void **state)
{
	fake.when_sending = post_another;
	post(station, IBV_WR_RDMA_WRITE, 1, 100);
	tx_run(engine, &station->qp);
	assert_int_equal(fake.sent, 2);
	assert_false(station->qp.tx_again);
}

static void the_run_queue_is_served_by_who_finds_it(void **state)
{
	post(station, IBV_WR_RDMA_WRITE, 1, 100);
	run_queue_add(&engine->run_queue, &station->qp);
	tx_run_queued(engine);
	assert_int_equal(fake.sent, 1);
	assert_int_equal(atomic_load(&engine->run_queue.count), 0);
	assert_true(is_free(&engine->progress));
}

static void a_queued_qp_that_has_a_thread_is_left_to_it(void **state)
{
	set_running(true);
	post(station, IBV_WR_RDMA_WRITE, 1, 100);
	run_queue_add(&engine->run_queue, &station->qp);
	tx_run_queued(engine);
	assert_int_equal(fake.sent, 0);
	assert_true(station->qp.tx_again);
	assert_int_equal(atomic_load(&engine->run_queue.count), 0);
	set_running(false);
}

static void what_nobody_can_serve_now_wakes_the_worker(void **state)
{
	atomic_store(&engine->sleep.until_ns, TIME_NEVER);
	post(station, IBV_WR_RDMA_WRITE, 1, 100);
	run_queue_add(&engine->run_queue, &station->qp);
	lock_acquire(&engine->progress);	/* as a thread that receives */
	assert_false(tx_serve_run_queue(engine));
	tx_run_queued(engine);
	lock_release(&engine->progress);
	assert_int_equal(fake.sent, 0);
	assert_int_equal(atomic_load(&engine->run_queue.count), 1);
	assert_true(was_rung());
}

/* As threads that were faster in giving back theirs. */
static void fill_the_pool(void)
{
	while (engine->batches.count < ENGINE_BATCHES)
		engine->batches.free[engine->batches.count++] = tx_batch_new();
}

static void buffers_are_kept_for_the_next_run_up_to_some(void **state)
{
	post(station, IBV_WR_RDMA_WRITE, 1, 100);
	tx_run(engine, &station->qp);
	assert_int_equal(engine->batches.count, 1);
	fake.when_sending = fill_the_pool;
	post(station, IBV_WR_RDMA_WRITE, 2, 100);
	tx_run(engine, &station->qp);
	assert_int_equal(fake.sent, 2);
	assert_int_equal(engine->batches.count, ENGINE_BATCHES);
}

/* ---- a fabric whose process takes nothing ---- */

static bool is_full;

static bool fake_is_full(struct link *link)
{
	return is_full;
}

static void what_its_link_cannot_pass_on_stays_with_the_qp(void **state)
{
	struct link_ops ops = *engine->links[ROUTE_ROCE_V2]->ops;
	struct link link = { .ops = &ops }, *before = engine->links[ROUTE_IB];
	struct qp **table = calloc(QP_PER_SLOT, sizeof(*table));
	struct qp_table qps = engine->qps;

	ops.is_full = fake_is_full;
	engine->links[ROUTE_IB] = &link;
	engine->qps.slot_count = 1;
	engine->qps.table[0] = table;
	table[5] = &station->qp;
	lock_acquire(&station->qp.lock);
	station->qp.ib_port = 1;
	lock_release(&station->qp.lock);
	is_full = true;
	post(station, IBV_WR_RDMA_WRITE, 1, 100);
	tx_run(engine, &station->qp);
	assert_int_equal(fake.sent, 0);
	assert_false(station->qp.tx_running);
	assert_int_equal(atomic_load(&engine->run_queue.count), 0);	/* or it would spin */
	tx_run(engine, &station->qp);
	assert_int_equal(fake.sent, 0);
	is_full = false;
	lock_acquire(&engine->progress);
	tx_release(engine);
	tx_release(engine);
	lock_release(&engine->progress);
	assert_int_equal(atomic_load(&engine->run_queue.count), 1);
	tx_run_queued(engine);
	assert_int_equal(fake.sent, 1);
	engine->links[ROUTE_IB] = before;
	engine->qps = qps;
	free(table);
}

/* ---- requests that leave together ---- */

static void post_of(enum ibv_wr_opcode opcode, uint64_t wr_id)
{
	struct effects effects;

	effects_init(&effects);
	post(station, opcode, wr_id, 8);
	lock_acquire(&station->qp.lock);
	tx_posted(engine, &station->qp, &effects);
}

static void post_now(uint64_t wr_id)
{
	post_of(IBV_WR_RDMA_WRITE, wr_id);
}

/* One request waits. */
static void gather_one(void)
{
	unsigned n;

	atomic_store(&engine->worker.gather.kept, true);
	for (n = 0; n < GATHER_BEHIND; n++)
		post_now(n);
	assert_int_equal(fake.sent, GATHER_BEHIND);
	post_now(n);
}

static void requests_behind_others_leave_as_one_datagram(void **state)
{
	gather_one();
	post_now(20);
	post_now(21);
	assert_int_equal(fake.sent, GATHER_BEHIND);
	assert_int_equal(atomic_load(&engine->run_queue.count), 1);
	tx_run_queued(engine);
	assert_int_equal(fake.sent, GATHER_BEHIND + 1);
	assert_int_equal(counted(COUNTER_TX_PACKETS), GATHER_BEHIND + 3);
	assert_int_equal(atomic_load(&engine->run_queue.count), 0);
}

static void a_full_batch_leaves_in_the_post(void **state)
{
	unsigned n;

	gather_one();
	for (n = 1; n < GATHER_MAX; n++) {
		assert_int_equal(fake.sent, GATHER_BEHIND);
		post_now(20 + n % 30);
	}
	assert_int_equal(fake.sent, GATHER_BEHIND + 1);
	assert_int_equal(counted(COUNTER_TX_PACKETS), GATHER_BEHIND + GATHER_MAX);
}

static void nothing_waits_where_nobody_looks_after_it(void **state)
{
	unsigned n;

	for (n = 0; n < GATHER_BEHIND + 2; n++)
		post_now(n);
	assert_int_equal(fake.sent, GATHER_BEHIND + 2);
	assert_true(atomic_load(&engine->worker.gather.wanted));	/* the worker is to look sooner */
}

static void packets_through_memory_do_not_wait(void **state)
{
	unsigned n;

	atomic_store(&engine->worker.gather.kept, true);
	station->qp.route.loopback = true;
	engine->qps.slot[0].number = qpn_slot(PEER_QPN);
	engine->qps.slot_count = 1;
	for (n = 0; n < GATHER_BEHIND + 2; n++)
		post_now(n);
	assert_int_equal(atomic_load(&engine->run_queue.count), 0);
	assert_false(atomic_load(&engine->worker.gather.wanted));
}

static void a_post_asks_for_the_time_once(void **state)
{
	post_now(1);	/* a buffer is there from now on */
	clock_reads = 0;
	post_now(2);
	assert_int_equal(fake.sent, 2);
	assert_int_equal(clock_reads, 1);
}

/* ---- ACKs that wait for replies ---- */

static void receive_write(uint32_t number)
{
	lock_acquire(&station->qp.lock);
	station->now_ns = clock_now_ns();
	receive_data(station, OPCODE_RC_WRITE_ONLY, PEER_PSN + number, 8);
	timers_arm(engine, &station->qp);
	lock_release(&station->qp.lock);
}

/* Replies follow WRITEs at once, up to now. */
static void reply_to_some(void)
{
	station->qp.responder.hold.replies = HOLD_LEARN;
}

/* The worker is not to look sooner for it. */
static void a_reply_and_its_ack_are_one_datagram(void **state)
{
	reply_to_some();
	receive_write(0);
	assert_int_equal(fake.sent, 0);
	post_now(1);
	assert_int_equal(fake.sent, 1);
	assert_int_equal(counted(COUNTER_TX_PACKETS), 2);
	assert_int_equal(atomic_load(&engine->run_queue.count), 0);
	receive_write(1);
	tx_run_queued(engine);
	assert_int_equal(fake.sent, 1);
	assert_false(atomic_load(&engine->worker.gather.wanted));
}

/* Also where memory is shared, with others. */
static void a_reply_that_is_a_send_goes_with_its_ack_too(void **state)
{
	engine->local.direct = true;
	reply_to_some();
	receive_write(0);
	post_of(IBV_WR_SEND, 1);
	assert_int_equal(fake.sent, 1);
	assert_int_equal(counted(COUNTER_TX_PACKETS), 2);
}

/* A thread waits in the worker's place, which sleeps for long: the next ACK leaves at once. */
static void no_ack_waits_where_nobody_looks_after_it(void **state)
{
	atomic_store(&engine->worker.state, WORKER_RELIEVED);
	reply_to_some();
	receive_write(0);
	post_now(1);
	receive_write(1);
	tx_run_queued(engine);
	assert_int_equal(fake.sent, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		STATION_TEST(what_is_posted_leaves),
		STATION_TEST(a_thread_that_transmits_is_told_to_look_again),
		STATION_TEST(who_is_told_looks_again),
		STATION_TEST(the_run_queue_is_served_by_who_finds_it),
		STATION_TEST(a_queued_qp_that_has_a_thread_is_left_to_it),
		STATION_TEST(what_nobody_can_serve_now_wakes_the_worker),
		STATION_TEST(buffers_are_kept_for_the_next_run_up_to_some),
		STATION_TEST(what_its_link_cannot_pass_on_stays_with_the_qp),
		STATION_TEST(requests_behind_others_leave_as_one_datagram),
		STATION_TEST(a_full_batch_leaves_in_the_post),
		STATION_TEST(nothing_waits_where_nobody_looks_after_it),
		STATION_TEST(packets_through_memory_do_not_wait),
		STATION_TEST(a_post_asks_for_the_time_once),
		STATION_TEST(a_reply_and_its_ack_are_one_datagram),
		STATION_TEST(a_reply_that_is_a_send_goes_with_its_ack_too),
		STATION_TEST(no_ack_waits_where_nobody_looks_after_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
