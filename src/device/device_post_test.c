/* SPDX-License-Identifier: BSD-2-Clause */
/* Posting to a QP in each state, and what is still sent before a QP stops answering. */
#include "device/device_test.h"

static void nothing_is_sent_before_rts(void **state)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND }, *bad = NULL;
	struct qp *qp = qp_make(IBV_QPT_RC);

	assert_int_equal(to_init(qp), 0);
	assert_int_equal(hca_post_send(qp, &wr, &bad), EINVAL);
	assert_ptr_equal(bad, &wr);
	assert_true(is_free(&qp->lock));
}

static void what_is_posted_in_err_is_flushed_at_once(void **state)
{
	struct qp *qp = qp_rts(IBV_QPT_RC);
	struct ibv_wc wc;

	assert_int_equal(to_state(qp, IBV_QPS_ERR), 0);
	assert_int_equal(post_send(qp, 1, 8), 0);
	assert_int_equal(cq_take(cq, 1, &wc), 1);	/* no poll, which would make progress */
	assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(post_recv(qp, 2), 0);
	assert_int_equal(cq_take(cq, 1, &wc), 1);
	assert_int_equal(wc.wr_id, 2);
	assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
}

static void a_list_is_posted_as_a_whole_or_not_at_all(void **state)
{
	struct ibv_send_wr wr[2] = { { .next = &wr[1], .opcode = IBV_WR_SEND },
				     { .opcode = (enum ibv_wr_opcode)99 } };
	struct qp *pair[2];

	qp_make_pair(pair);
	assert_int_not_equal(hca_post_send_all(pair[0], wr), 0);
	assert_true(is_free(&pair[0]->lock));
	assert_int_equal(pair[0]->sq.head, 0);
	wr[1].opcode = IBV_WR_SEND;
	assert_int_equal(hca_post_send_all(pair[0], wr), 0);
	assert_true(is_free(&pair[0]->lock));
	assert_int_equal(pair[0]->sq.head, 2);
}

static void a_reply_is_noted_where_one_was_awaited(void **state)
{
	struct qp *pair[2];

	qp_make_pair(pair);
	assert_int_equal(post_recv(pair[1], 1), 0);
	lock_acquire(&hca->engine.progress);	/* the worker's rounds judge, too */
	atomic_store(&hca->engine.reply.score, 1);
	atomic_store(&hca->engine.reply.awaited, true);
	assert_int_equal(post_send(pair[0], 1, 8), 0);
	assert_false(atomic_load(&hca->engine.reply.awaited));
	assert_int_equal(atomic_load(&hca->engine.reply.score), 2);
	lock_release(&hca->engine.progress);
}

/* ---- how often the lock is taken ---- */

/* In their place (src/meson.build): of the lock that is watched, how often this thread has taken it. */
static _Thread_local struct owned_lock *watched;
static _Thread_local bool watched_held;
static _Thread_local unsigned watched_taken;
void __real_log_hold(void);
void __real_log_let_go(void);
void __wrap_log_hold(void);
void __wrap_log_let_go(void);

static void watch_lock(void) UNCHECKED_LOCKS
{
	struct owned_lock *lock = watched;
	bool held;

	watched = NULL;		/* it is taken and released here, too */
	held = lock && !is_free(lock);
	watched = lock;
	watched_taken += held && !watched_held;
	watched_held = held;
}

void __wrap_log_hold(void)
{
	__real_log_hold();
	if (watched)
		watch_lock();
}

void __wrap_log_let_go(void)
{
	__real_log_let_go();
	if (watched)
		watch_lock();
}

#ifndef CHECK_HELD_LOCKS
/* They count for themselves, and may be in one object with what counts. */
void __real_owned_acquire_slowly(struct owned_lock *lock);
void __real_owned_released(struct owned_lock *lock);
void __wrap_owned_acquire_slowly(struct owned_lock *lock);
void __wrap_owned_released(struct owned_lock *lock);

void __wrap_owned_acquire_slowly(struct owned_lock *lock)
{
	__real_owned_acquire_slowly(lock);
	if (watched)
		watch_lock();
}

void __wrap_owned_released(struct owned_lock *lock)
{
	__real_owned_released(lock);
	if (watched)
		watch_lock();
}
#endif

static unsigned taken_by_a_post(struct qp *qp, uint64_t wr_id)
{
	bool before = lock_is_counted();

	lock_set_counted(true);
	watched_taken = 0;
	watched = &qp->lock;
	if (post_send(qp, wr_id, 8))
		watched_taken = 0;
	watched = NULL;
	lock_set_counted(before);
	return watched_taken;
}

static void a_posted_packet_takes_the_lock_of_its_qp_twice(void **state)
{
	struct qp *pair[2];
	unsigned taken;
	uint64_t packets;

	qp_make_pair(pair);
	assert_int_equal(post_recv(pair[1], 1), 0);
	assert_int_equal(post_recv(pair[1], 2), 0);
	assert_int_equal(post_send(pair[0], 1, 8), 0);		/* there is a buffer from now on */
	lock_acquire(&hca->engine.progress);			/* nobody else transmits, or acknowledges */
	packets = counter_get(hca->engine.counters, COUNTER_TX_PACKETS);
	taken = taken_by_a_post(pair[0], 2);
	packets = counter_get(hca->engine.counters, COUNTER_TX_PACKETS) - packets;
	lock_release(&hca->engine.progress);
	assert_int_equal(taken, 2);
	assert_int_equal(packets, 1);
}

static void after_fork_nothing_is_posted(void **state)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND }, *bad = NULL;
	struct qp *qp = qp_rts(IBV_QPT_RC);

	context->abandoned = true;
	assert_int_equal(hca_post_send(qp, &wr, &bad), EIO);
	assert_ptr_equal(bad, &wr);
	assert_int_equal(hca_post_send_all(qp, &wr), EIO);
	context->abandoned = false;
	assert_int_equal(qp->sq.head, 0);
}

/* ---- slots: free when the completion was polled ---- */

static unsigned posts_until_full(struct qp *qp, uint64_t wr_id)
{
	unsigned count = 0;
	int err;

	while (!(err = post_send(qp, wr_id, 8)))
		count++;
	assert_int_equal(err, ENOMEM);
	return count;
}

/* Without polling: until the peer has answered all of them. */
static void wait_until_executed(struct qp *qp)
{
	uint64_t end_ns = clock_now_ns() + 10 * SECOND;
	uint32_t tail;

	do {
		lock_acquire(&qp->lock);
		tail = qp->sq.tail;
		lock_release(&qp->lock);
		assert_true(clock_now_ns() < end_ns);
		thread_sleep_ns(MS);
	} while (tail != qp->sq.head);
}

static void a_send_queue_that_nobody_polls_is_full_at_its_size(void **state)
{
	struct qp *pair[2];
	unsigned i;

	qp_make_pair(pair);
	for (i = 0; i < 16; i++)
		assert_int_equal(post_recv(pair[1], 50), 0);
	assert_int_equal(posts_until_full(pair[0], 50), 16);
	wait_until_executed(pair[0]);
	assert_int_equal(post_send(pair[0], 50, 8), ENOMEM);
	assert_int_equal(post_recv(pair[1], 50), ENOMEM);
	for (i = 0; i < 32; i++)
		expect_wc(50, IBV_WC_SUCCESS);
	assert_int_equal(post_recv(pair[1], 50), 0);
	assert_int_equal(posts_until_full(pair[0], 50), 16);
}

static void unsignaled_requests_leave_when_a_later_signaled_one_is_polled(void **state)
{
	struct ibv_send_wr wr = { .wr_id = 9, .opcode = IBV_WR_RDMA_WRITE }, *bad;
	struct qp *pair[2];
	unsigned i;

	qp_make_pair(pair);
	pair[0]->signal_all = false;
	for (i = 0; i < 16; i++)
		assert_int_equal(hca_post_send(pair[0], &wr, &bad), 0);
	wait_until_executed(pair[0]);
	assert_int_equal(hca_post_send(pair[0], &wr, &bad), ENOMEM);
	assert_int_equal(to_state(pair[0], IBV_QPS_RESET), 0);
	assert_int_equal(to_init(pair[0]), 0);
	assert_int_equal(to_rtr(pair[0], pair[1]->number, IBV_MTU_1024), 0);
	assert_int_equal(to_rts(pair[0]), 0);
	for (i = 0; i < 16; i++) {
		wr.send_flags = i == 9 ? IBV_SEND_SIGNALED : 0;
		assert_int_equal(hca_post_send(pair[0], &wr, &bad), 0);
	}
	assert_int_equal(hca_post_send(pair[0], &wr, &bad), ENOMEM);
	expect_wc(9, IBV_WC_SUCCESS);
	for (i = 0; i < 10; i++)
		assert_int_equal(hca_post_send(pair[0], &wr, &bad), 0);
	assert_int_equal(hca_post_send(pair[0], &wr, &bad), ENOMEM);
}

static void flushed_requests_are_outstanding_until_polled(void **state)
{
	struct qp *qp = qp_rts(IBV_QPT_RC);
	unsigned i;

	assert_int_equal(to_state(qp, IBV_QPS_ERR), 0);
	assert_int_equal(posts_until_full(qp, 3), 16);
	for (i = 0; i < 16; i++)
		assert_int_equal(post_recv(qp, 3), 0);
	assert_int_equal(post_recv(qp, 3), ENOMEM);
	for (i = 0; i < 32; i++)
		expect_wc(3, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(posts_until_full(qp, 3), 16);
	assert_int_equal(to_state(qp, IBV_QPS_RESET), 0);
	assert_int_equal(to_init(qp), 0);
	for (i = 0; i < 16; i++)
		assert_int_equal(post_recv(qp, 3), 0);
	assert_int_equal(post_recv(qp, 3), ENOMEM);
}

static void destroying_a_qp_frees_what_it_took_of_an_srq(void **state)
{
	struct ibv_srq_init_attr_ex srq_attr = { .attr = { .max_wr = 4, .max_sge = 1 }, .pd = &pd->ibv };
	struct ibv_qp_init_attr_ex attr = qp_attr(IBV_QPT_RC);
	struct ibv_recv_wr wr = { .wr_id = 1 }, *bad;
	struct ibv_wc wc;
	struct qp *pair[2];
	struct srq *srq;
	unsigned i;

	assert_int_equal(hca_create_srq(context, &srq_attr, &srq), 0);
	attr.srq = &srq->ibv;
	pair[0] = qp_make(IBV_QPT_RC);
	assert_int_equal(hca_create_qp(context, &attr, &pair[1]), 0);
	for (i = 0; i < 2; i++) {
		assert_int_equal(to_init(pair[i]), 0);
		assert_int_equal(to_rtr(pair[i], pair[!i]->number, IBV_MTU_1024), 0);
		assert_int_equal(to_rts(pair[i]), 0);
	}
	for (i = 0; i < 4; i++)
		assert_int_equal(hca_post_srq_recv(srq, &wr, &bad), 0);
	for (i = 0; i < 3; i++)
		assert_int_equal(post_send(pair[0], 1, 0), 0);
	wait_until_executed(pair[0]);
	assert_int_equal(hca_post_srq_recv(srq, &wr, &bad), ENOMEM);
	assert_int_equal(hca_destroy_qp(context, pair[1]), 0);
	for (i = 0; i < 3; i++)
		assert_int_equal(hca_post_srq_recv(srq, &wr, &bad), 0);
	assert_int_equal(hca_post_srq_recv(srq, &wr, &bad), ENOMEM);
	assert_int_equal(hca_destroy_qp(context, pair[0]), 0);
	assert_int_equal(hca_destroy_srq(context, srq), 0);
	assert_int_equal(cq_take(cq, 1, &wc), 0);	/* with the QP its completions have left */
}

/* ---- the last packets ---- */

/*
 * A message has come, its ACK has gone: what is sent when the QP goes? Beside other work the sender may have asked
 * twice already, which is a sign of loss, too.
 */
static uint64_t packets_at_the_end(struct qp *pair[2], bool *is_lossy)
{
	uint64_t before;

	assert_int_equal(post_recv(pair[1], 1), 0);
	assert_int_equal(post_send(pair[0], 1, 8), 0);
	expect_wc(1, IBV_WC_SUCCESS);
	expect_wc(1, IBV_WC_SUCCESS);
	*is_lossy = hca_loses_packets(hca);
	before = counted(COUNTER_TX_PACKETS);
	qp_send_final_ack(hca, pair[1]);
	return counted(COUNTER_TX_PACKETS) - before;
}

static void the_last_ack_is_said_thrice_where_packets_are_lost(void **state)
{
	struct qp *pair[2];
	uint64_t packets;
	bool is_lossy;

	qp_make_pair(pair);
	packets = packets_at_the_end(pair, &is_lossy);
	assert_int_equal(packets, is_lossy ? 2 : 0);
	counter_add(hca->engine.counters, COUNTER_RX_DUPLICATE, 1);
	packets = packets_at_the_end(pair, &is_lossy);
	assert_true(is_lossy);
	assert_int_equal(packets, 2);
	assert_true(is_free(&pair[1]->lock));
}

static void set_running(struct qp *qp, bool running)
{
	lock_acquire(&qp->lock);
	qp->tx_running = running;
	lock_release(&qp->lock);
}

static _Atomic bool waited;

static void *waits_for_tx(void *qp)
{
	qp_wait_for_tx(qp);
	atomic_store(&waited, true);
	return NULL;
}

static void a_thread_that_transmits_is_waited_for(void **state)
{
	struct qp *qp = qp_rts(IBV_QPT_RC);
	pthread_t thread;

	atomic_store(&waited, false);
	set_running(qp, true);
	assert_int_equal(pthread_create(&thread, NULL, waits_for_tx, qp), 0);
	thread_sleep_ns(20 * MS);
	assert_false(atomic_load(&waited));
	set_running(qp, false);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_true(atomic_load(&waited));
}

static void *stops_running(void *qp)
{
	thread_sleep_ns(20 * MS);
	set_running(qp, false);
	return NULL;
}

/* Something holds it back for a moment. */
static void a_datagram_leaves_before_its_qp_goes(void **state)
{
	struct ibv_sge sge = { (uintptr_t)memory, 8, mr->ibv.lkey };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND }, *bad;
	struct ibv_ah_attr attr = here();
	struct qp *qp = qp_rts(IBV_QPT_UD);
	pthread_t thread;
	struct ah *ah;

	assert_int_equal(hca_create_ah(context, pd, &attr, &ah), 0);
	wr.wr.ud.ah = &ah->ibv;
	wr.wr.ud.remote_qpn = qp->number;
	wr.wr.ud.remote_qkey = QKEY;
	set_running(qp, true);
	assert_int_equal(hca_post_send(qp, &wr, &bad), 0);
	assert_int_not_equal(qp->sq.sent, qp->sq.head);
	assert_int_equal(pthread_create(&thread, NULL, stops_running, qp), 0);
	qp_let_datagrams_leave(hca, qp);
	assert_int_equal(qp->sq.sent, qp->sq.head);
	assert_int_equal(pthread_join(thread, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		DEVICE_TEST(nothing_is_sent_before_rts),
		DEVICE_TEST(what_is_posted_in_err_is_flushed_at_once),
		DEVICE_TEST(a_list_is_posted_as_a_whole_or_not_at_all),
		DEVICE_TEST(a_reply_is_noted_where_one_was_awaited),
		DEVICE_TEST(a_posted_packet_takes_the_lock_of_its_qp_twice),
		DEVICE_TEST(after_fork_nothing_is_posted),
		DEVICE_TEST(a_send_queue_that_nobody_polls_is_full_at_its_size),
		DEVICE_TEST(unsignaled_requests_leave_when_a_later_signaled_one_is_polled),
		DEVICE_TEST(flushed_requests_are_outstanding_until_polled),
		DEVICE_TEST(destroying_a_qp_frees_what_it_took_of_an_srq),
		DEVICE_TEST(the_last_ack_is_said_thrice_where_packets_are_lost),
		DEVICE_TEST(a_thread_that_transmits_is_waited_for),
		DEVICE_TEST(a_datagram_leaves_before_its_qp_goes),
	};

	DEVICE_TESTS(tests);
}
