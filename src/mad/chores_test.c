/* SPDX-License-Identifier: BSD-2-Clause */
/* What the worker does for the consumer of QP1, with an engine that has no thread. */
#include "engine/fake_link_test.h"

#include "mad/qp1.h"

static struct qp1 qp1;
static bool rung_under_lock;

static void note_peer_lost(struct qp *qp) REQUIRES(qp->lock)
{
	qp1_peer_lost(&qp1, qp);
	rung_under_lock = was_rung();
}

/* Expire its timer until it has no retry left, as a thread that makes progress. */
static void let_retries_be_exceeded(void) REQUIRES(engine->progress)
{
	uint64_t next_ns;

	while ((next_ns = timers_next(engine)) != TIME_NEVER)
		timers_expire(engine, next_ns);
}

static void a_lost_peer_wakes_the_worker_once_the_locks_are_dropped(void **state)
{
	qp1_init(&qp1, engine, NULL);
	station->transport.peer_lost = note_peer_lost;
	post(station, IBV_WR_RDMA_WRITE, 1, 100);
	tx_run(engine, &station->qp);
	waiter_wait(&engine->waiter, 0);
	atomic_store(&engine->sleep.until_ns, TIME_NEVER);	/* the worker sleeps */
	lock_acquire(&engine->progress);
	let_retries_be_exceeded();
	assert_true(sources_are_due(&engine->source.all));
	assert_true(atomic_load(&station->qp.peer_lost));
	assert_int_equal(atomic_load(&engine->worker.notice_ns), 0);
	assert_false(rung_under_lock || was_rung());	/* which is a system call */
	progress_unlock(engine);
	assert_true(was_rung());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		STATION_TEST(a_lost_peer_wakes_the_worker_once_the_locks_are_dropped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
