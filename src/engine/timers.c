/* SPDX-License-Identifier: BSD-2-Clause */
/* Deadlines of QPs: one timer of each in a heap. */
#include "engine/internal.h"
#include "engine/wake.h"

#define TIMERS_MAX	1024u	/* timers expired in one round */

/* Readable without the lock; too early after a timer was disarmed, which costs one check. */
static void note_next_timer(struct engine *engine) REQUIRES(engine->timers.lock)
{
	atomic_store_explicit(&engine->timers.next_ns, timer_heap_next(&engine->timers.heap),
			      memory_order_relaxed);
}

/*
 * The QP's timer is kept at or before its deadline: moved forward only, so that a connection
 * whose deadline recedes with each answer touches the heap once per expiry and not per packet.
 */
void timers_arm(struct engine *engine, struct qp *qp)
{
	uint64_t deadline_ns = transport_deadline(qp);

	if (deadline_ns >= atomic_load_explicit(&qp->timer_at_ns, memory_order_relaxed))
		return;
	lock_acquire(&engine->timers.lock);
	timer_set(&engine->timers.heap, &qp->timer, deadline_ns);
	atomic_store_explicit(&qp->timer_at_ns, deadline_ns, memory_order_relaxed);
	note_next_timer(engine);
	lock_release(&engine->timers.lock);
	worker_note(engine, deadline_ns);
}

void timers_disarm(struct engine *engine, struct qp *qp)
{
	lock_acquire(&engine->timers.lock);
	timer_set(&engine->timers.heap, &qp->timer, TIME_NEVER);
	atomic_store_explicit(&qp->timer_at_ns, TIME_NEVER, memory_order_relaxed);
	lock_release(&engine->timers.lock);
}

static struct qp *expire_one(struct engine *engine, uint64_t now_ns)
{
	struct timer *timer;
	struct qp *qp = NULL;

	lock_acquire(&engine->timers.lock);
	timer = timer_heap_expire(&engine->timers.heap, now_ns);
	if (timer) {
		qp = container_of(timer, struct qp, timer);
		atomic_store_explicit(&qp->timer_at_ns, TIME_NEVER, memory_order_relaxed);
	}
	note_next_timer(engine);
	lock_release(&engine->timers.lock);
	return qp;
}

void timers_expire(struct engine *engine, uint64_t now_ns)
{
	struct effects effects;
	struct qp *qp;
	unsigned n;

	if (now_ns < atomic_load_explicit(&engine->timers.next_ns, memory_order_relaxed))
		return;
	for (n = 0; n < TIMERS_MAX && (qp = expire_one(engine, now_ns)); n++) {
		effects_init(&effects);
		lock_acquire(&qp->lock);
		if (qp->requester.local_messages && transport_deadline(qp) <= now_ns)
			local_check_progress(&engine->local, qp, now_ns);
		if (transport_deadline(qp) <= now_ns)
			transport_timeout(qp, now_ns, &effects);
		timers_arm(engine, qp);
		lock_release(&qp->lock);
		effects_defer(engine, &effects);
	}
}

uint64_t timers_next(struct engine *engine)
{
	uint64_t deadline_ns;

	lock_acquire(&engine->timers.lock);
	deadline_ns = timer_heap_next(&engine->timers.heap);
	lock_release(&engine->timers.lock);
	return deadline_ns;
}
