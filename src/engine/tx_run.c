/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Transmits for a QP: one thread at a time, so that its packets leave in order although the system
 * call is made without its lock. Another thread that wants to transmit for it sets tx_again and
 * returns.
 */
#include <stdlib.h>

#include "engine/injection.h"
#include "engine/internal.h"
#include "engine/qp_table.h"
#include "engine/steer.h"
#include "engine/wake.h"
#include "platform/clock.h"
#include "transport/message.h"

#define RUN_QUANTUM	64u	/* packets a QP may send before others get a turn */
#define RUN_ROUNDS	4u	/* quanta a QP may take in a row when no other waits */
#define RUNS_MAX	256u	/* QPs served in one round of progress ... */
#define RUNNABLE_MAX	16u	/* ... so many at a time */

/* One that is there; NULL: none is. */
static struct tx_batch *batch_take(struct engine *engine)
{
	struct tx_batch *batch = NULL;

	lock_acquire(&engine->batches.lock);
	if (engine->batches.count)
		batch = engine->batches.free[--engine->batches.count];
	lock_release(&engine->batches.lock);
	return batch;
}

static void batch_put(struct engine *engine, struct tx_batch *batch)
{
	lock_acquire(&engine->batches.lock);
	if (engine->batches.count < ENGINE_BATCHES) {
		engine->batches.free[engine->batches.count++] = batch;
		batch = NULL;
	}
	lock_release(&engine->batches.lock);
	free(batch);
}

struct tx_batch *tx_batch_new(void)
{
	struct tx_batch *batch = malloc(sizeof(*batch) + TX_BYTES_MAX);

	if (batch) {
		batch->data = (uint8_t *)(batch + 1);
		batch->kept.way = NULL;
		tx_batch_reset(batch);
	}
	return batch;
}

/* What was written, and what the caller has to apply, without the lock of @qp. */
static void packets_leave(struct engine *engine, struct qp *qp, struct tx_batch *batch, struct effects *effects)
	REQUIRES(qp->lock)
{
	lock_release(&qp->lock);
	if (batch->count && qp->ethernet)
		steer_send(engine, qp->ethernet, batch);
	else if (batch->count && engine->injection)
		injection_send(engine, qp, batch);
	else if (batch->count)
		tx_send(engine, batch);
	effects_apply(effects);
	engine_after_unlock(engine);
	lock_acquire(&qp->lock);
}

/*
 * What the link of @qp cannot pass on stays with the QP, whose requests wait as on a port without
 * credits. What goes through memory goes on: tx_release() costs it a run.
 */
static bool tx_is_held(struct engine *engine, struct qp *qp) REQUIRES(qp->lock)
{
	struct link *link = engine->links[ROUTE_IB];

	if (__builtin_expect(!qp->ib_port, 1) || !link || !link->ops->is_full || !link->ops->is_full(link))
		return false;
	atomic_store(&qp->tx_held, true);
	atomic_store(&engine->run_queue_held, true);
	/* H2: pairs with H1 in subnet/link.c: who made room sees the two, or we see the room. */
	if (link->ops->is_full(link))
		return true;
	atomic_store(&qp->tx_held, false);
	return false;
}

void tx_release(struct engine *engine)
{
	if (!atomic_exchange(&engine->run_queue_held, false))
		return;
	for (unsigned slot = 0; slot < engine->qps.slot_count; slot++)
		for (uint32_t i = 0; i < QP_PER_SLOT; i++) {
			struct qp *qp = engine->qps.table[slot] ? engine->qps.table[slot][i] : NULL;

			if (qp && atomic_exchange(&qp->tx_held, false))
				run_queue_add(&engine->run_queue, qp);
		}
}

/*
 * One quantum after another until nothing is left or other QPs should have a turn. @now_ns: when the first begins;
 * 0: the clock says. @effects: what the caller has to apply, too.
 */
static bool run_rounds(struct engine *engine, struct qp *qp, struct tx_batch *batch, uint64_t now_ns,
		       struct effects *effects)
	REQUIRES(qp->lock)
{
	unsigned round = 0;
	bool more;

	do {
		qp->tx_again = false;
		if (tx_is_held(engine, qp) && !tx_is_through_memory(engine, qp)) {
			packets_leave(engine, qp, batch, effects);	/* there are none */
			more = false;		/* who made room meanwhile has set tx_again */
			now_ns = 0;
			continue;
		}
		/*
		 * An ACK that is owed for a packet leaves before a message through memory does: the peer may take
		 * the message for proof that its own has arrived (tgt does), and finds that completed first, as
		 * with an adapter.
		 */
		if (engine->local.direct && transport_answer_is_due(qp) && tx_is_through_memory(engine, qp) &&
		    transport_message_next(qp)) {
			transport_answer(qp, clock_now_ns(), RUN_QUANTUM, batch, effects);
			packets_leave(engine, qp, batch, effects);
		}
		local_run(&engine->local, qp, effects);
		more = transport_transmit(qp, now_ns ? now_ns : clock_now_ns(), RUN_QUANTUM, batch, effects);
		now_ns = 0;
		timers_arm(engine, qp);
		packets_leave(engine, qp, batch, effects);
	} while ((more && ++round < RUN_ROUNDS) || qp->tx_again);
	return more;
}

/* True: the caller transmits for @qp. False: another thread does, and will continue. */
static bool begin_run_locked(struct qp *qp) REQUIRES(qp->lock)
{
	if (qp->tx_running) {
		qp->tx_again = true;
		return false;
	}
	qp->tx_running = true;
	return true;
}

static bool begin_run(struct qp *qp)
{
	bool mine;

	lock_acquire(&qp->lock);
	mine = begin_run_locked(qp);
	lock_release(&qp->lock);
	return mine;
}

/* After begin_run_locked() returned true. */
static void tx_run_locked(struct engine *engine, struct qp *qp, struct tx_batch *batch, uint64_t now_ns,
			  struct effects *effects)
	RELEASES(qp->lock)
{
	bool more = true;

	if (batch)
		more = run_rounds(engine, qp, batch, now_ns, effects);
	qp->tx_running = false;
	/* Without memory for a buffer: later, when another thread has returned one. */
	if (more)
		run_queue_add(&engine->run_queue, qp);
	lock_release(&qp->lock);
	if (batch)
		batch_put(engine, batch);
}

/* The same without any lock. */
static void tx_run_qp(struct engine *engine, struct qp *qp)
{
	struct tx_batch *batch = batch_take(engine);
	struct effects effects;

	if (!batch)
		batch = tx_batch_new();
	effects_init(&effects);
	lock_acquire(&qp->lock);
	tx_run_locked(engine, qp, batch, 0, &effects);
}

bool tx_is_through_memory(const struct engine *engine, const struct qp *qp)
{
	uint32_t slot = qpn_slot(qp->attr.dest_qp_num);

	if (qp->route.link == ROUTE_IB)
		return local_fabric_channel(&engine->local, slot) != LOCAL_NO_CHANNEL;
	return qp->route.loopback &&
	       (engine_has_slot(engine, slot) || local_channel(&engine->local, slot) != LOCAL_NO_CHANNEL);
}

/*
 * What waits is in the run queue, which the next round of progress serves. The application makes it
 * when it polls; if it does not, the worker, when an answer to earlier requests arrives, or at its
 * next look while it stands by: these are gather_look_ns apart (policy.h) once it knows that requests
 * are gathered (worker.c), and before it knows none are.
 */
static bool is_looked_after(struct engine *engine)
{
	if (!atomic_load_explicit(&engine->worker.gather.wanted, memory_order_relaxed))
		atomic_store(&engine->worker.gather.wanted, true);
	return atomic_load(&engine->worker.gather.kept);
}

/*
 * An ACK that waits for a reply: a thread that polls keeps its deadline, or else the worker, at its next look at
 * the latest. No look is made sooner for it: an application that replies polls. With one each 200 us two
 * processes kept the second core so busy that the scheduler left both applications on the first
 * (pair_machine_test.c).
 */
static bool hold_is_kept(struct engine *engine)
{
	return atomic_load_explicit(&engine->worker.state, memory_order_relaxed) != WORKER_RELIEVED;
}

/* True: what was posted waits in the run queue. *now_ns: the time, if it was asked for. */
static bool tx_gathers(struct engine *engine, struct qp *qp, uint64_t *now_ns) REQUIRES(qp->lock)
{
	bool first = !qp->requester.gather.since_ns;

	/* Only a system call is worth sharing. */
	if (tx_is_through_memory(engine, qp))
		return false;
	*now_ns = clock_now_ns();
	if (transport_awaits_reply(qp))
		transport_replied(qp, *now_ns, hold_is_kept(engine));
	if (!transport_may_gather(qp, *now_ns) || !is_looked_after(engine))
		return false;
	/* With one that waits the QP is in the queue, or in the hands of a thread that transmits for it. */
	if (first)
		run_queue_add(&engine->run_queue, qp);
	return true;
}

void tx_posted(struct engine *engine, struct qp *qp, struct effects *effects)
{
	uint64_t now_ns = 0;
	bool gathers = tx_gathers(engine, qp, &now_ns), mine = !gathers && begin_run_locked(qp);
	struct tx_batch *batch = mine && !effects_full(effects) ? batch_take(engine) : NULL;

	/* Once now, and once when the packets have left. */
	if (batch) {
		tx_run_locked(engine, qp, batch, now_ns, effects);
	} else {
		lock_release(&qp->lock);
		effects_apply(effects);
		engine_after_unlock(engine);
		if (mine)	/* a buffer is allocated without locks */
			tx_run_qp(engine, qp);
	}
	if (!gathers && atomic_load_explicit(&engine->run_queue.count, memory_order_relaxed))
		tx_run_queued(engine);
}

void tx_run(struct engine *engine, struct qp *qp)
{
	if (begin_run(qp))
		tx_run_qp(engine, qp);
	if (atomic_load_explicit(&engine->run_queue.count, memory_order_relaxed))
		tx_run_queued(engine);
}

/* Copies and sends are made without the progress lock, so that they delay no other thread. */
bool tx_serve_run_queue(struct engine *engine)
{
	struct qp *runnable[RUNNABLE_MAX];
	unsigned served = 0, count, i;
	struct qp *qp;

	/* A round that finds nothing takes no locks: polling threads make millions of them. */
	while (served < RUNS_MAX &&
	       atomic_load_explicit(&engine->run_queue.count, memory_order_relaxed)) {
		if (!lock_try(&engine->progress))
			return false;
		/* QPs that no thread transmits for. A QP is not destroyed while one does. */
		count = 0;
		while (count < RUNNABLE_MAX && (qp = run_queue_pop(&engine->run_queue)))
			if (begin_run(qp))
				runnable[count++] = qp;
		lock_release(&engine->progress);
		for (i = 0; i < count; i++)
			tx_run_qp(engine, runnable[i]);
		served += count;
		if (!count)
			break;
	}
	return true;
}

static bool work_left(struct engine *engine)
{
	return atomic_load(&engine->run_queue.count) > 0;
}

/*
 * Work was queued by a thread that makes no progress. The thread that does may have checked the
 * queue before: so try again until the queue is empty, or that thread holds the lock and has yet to
 * check.
 */
void tx_run_queued(struct engine *engine)
{
	unsigned tries;

	for (tries = 0; tries < 4 && work_left(engine); tries++)
		if (!tx_serve_run_queue(engine))
			break;
	if (work_left(engine))
		worker_wake_at(engine, 0);
}
