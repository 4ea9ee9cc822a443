/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Deadlines of QPs, one timer of each in a heap; and those of CQs whose events wait (ibv_modify_cq),
 * in a heap of their own.
 */
#include <errno.h>

#include "engine/injection.h"
#include "base/call.h"
#include "base/inline.h"
#include "engine/internal.h"
#include "engine/wake.h"
#include "platform/clock.h"
#include "wire/qpn.h"

#define SIGHT_NS	100000000u	/* a process is looked at so often at most */

#define TIMERS_MAX	1024u	/* timers expired in one round */

/* Readable without the lock; too early after a timer was disarmed, which costs one check. */
static uint64_t next_of_all(struct engine *engine) REQUIRES(engine->timers.lock)
{
	uint64_t qp_ns = timer_heap_next(&engine->timers.heap);
	uint64_t cq_ns = timer_heap_next(&engine->timers.cq_heap);

	return qp_ns < cq_ns ? qp_ns : cq_ns;
}

static void note_next_timer(struct engine *engine) REQUIRES(engine->timers.lock)
{
	atomic_store_explicit(&engine->timers.next_ns, next_of_all(engine), memory_order_relaxed);
}

/*
 * The QP's timer is kept at or before its deadline: moved forward only, so that a connection
 * whose deadline recedes with each answer touches the heap once per expiry and not per packet.
 */
void timers_arm(struct engine *engine, struct qp *qp)
{
	uint64_t armed_ns = atomic_load_explicit(&qp->timer_at_ns, memory_order_relaxed), deadline_ns;

	if (transport_deadline_is_behind(qp, armed_ns))
		return;
	deadline_ns = transport_deadline(qp);
	if (deadline_ns >= armed_ns)
		return;
	lock_acquire(&engine->timers.lock);
	timer_set(&engine->timers.heap, &qp->timer, deadline_ns);
	atomic_store_explicit(&qp->timer_at_ns, deadline_ns, memory_order_relaxed);
	note_next_timer(engine);
	lock_release(&engine->timers.lock);
	worker_wake_after_unlock(engine, deadline_ns);
}

void timers_disarm(struct engine *engine, struct qp *qp)
{
	lock_acquire(&engine->timers.lock);
	timer_set(&engine->timers.heap, &qp->timer, TIME_NEVER);
	atomic_store_explicit(&qp->timer_at_ns, TIME_NEVER, memory_order_relaxed);
	lock_release(&engine->timers.lock);
}

int timers_add_cq(struct engine *engine)
{
	struct engine_timers *timers = &engine->timers;
	int err;

	lock_acquire(&timers->lock);
	err = timer_heap_reserve(&timers->cq_heap, timers->cqs + 1);
	if (!err)
		timers->cqs++;
	lock_release(&timers->lock);
	return err;
}

void timers_remove_cq(struct engine *engine, struct cq *cq)
{
	lock_acquire(&engine->timers.lock);
	timer_set(&engine->timers.cq_heap, &cq->timer, TIME_NEVER);
	engine->timers.cqs--;
	lock_release(&engine->timers.lock);
}

void timers_arm_cq(struct engine *engine, struct cq *cq)
{
	uint64_t deadline_ns = clock_now_ns() + cq_period_ns(cq);

	lock_acquire(&engine->timers.lock);
	timer_set(&engine->timers.cq_heap, &cq->timer, deadline_ns);
	note_next_timer(engine);
	lock_release(&engine->timers.lock);
	worker_wake_after_unlock(engine, deadline_ns);
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

static struct cq *expire_one_cq(struct engine *engine, uint64_t now_ns)
{
	struct timer *timer;

	lock_acquire(&engine->timers.lock);
	timer = timer_heap_expire(&engine->timers.cq_heap, now_ns);
	note_next_timer(engine);
	lock_release(&engine->timers.lock);
	return timer ? container_of(timer, struct cq, timer) : NULL;
}

/*
 * The process that holds @slot of this host, of whatever user. Some system calls, ten times a second for each
 * slot at most, however many QPs have their peer there: with the progress lock, and no QP's.
 */
static enum process_state timers_sight(struct engine *engine, uint32_t slot, uint64_t now_ns)
	REQUIRES(engine->progress)
{
	struct sight *sight = &engine->timers.sight[slot];
	pid_t pid = 0;
	int err;

	if (now_ns < sight->until_ns)
		return sight->state;
	err = engine->watch ? slot_watch_pid(engine->watch, slot, &pid) : ENOENT;
	*sight = (struct sight){ .until_ns = now_ns + SIGHT_NS };
	sight->state = err == ESRCH ? PROCESS_ENDED : err ? PROCESS_UNKNOWN : process_state(pid);
	return sight->state;
}

static enum presence presence_of(enum process_state state)
{
	switch (state) {
	case PROCESS_STOPPED:
	case PROCESS_FROZEN:
	case PROCESS_PARTLY:
	case PROCESS_BLOCKED:
		return PRESENCE_STOPPED;
	case PROCESS_ENDED:
		return PRESENCE_ENDED;
	case PROCESS_RUNS:
		return PRESENCE_RUNS;
	case PROCESS_UNKNOWN:
		break;
	}
	return PRESENCE_UNKNOWN;
}

/* The ACK timeout of @qp is over: is the process of its peer, on this host, alive and stopped? */
static void timers_look(struct engine *engine, struct qp *qp, uint64_t now_ns, struct effects *effects)
	REQUIRES(engine->progress, qp->lock)
{
	uint32_t slot = qpn_slot(qp->attr.dest_qp_num);
	enum process_state state;
	enum presence presence, taken;

	/* System calls: without its lock. It stays in the table, and its state is looked at anew. */
	lock_release(&qp->lock);
	state = timers_sight(engine, slot, now_ns);
	lock_acquire(&qp->lock);
	presence = presence_of(state);
	taken = local_presence(&engine->local, qp);
	if (taken != PRESENCE_UNKNOWN && presence != PRESENCE_ENDED && presence != PRESENCE_STOPPED)
		presence = taken;
	if (qpn_slot(qp->attr.dest_qp_num) == slot && qp->requester.local_messages &&
	    (state == PROCESS_STOPPED || state == PROCESS_FROZEN))
		local_commit(&engine->local, qp);
	if (qpn_slot(qp->attr.dest_qp_num) == slot)
		transport_presence(qp, presence, process_state_name(state), now_ns, effects);
}

static APART void timers_expire_due(struct engine *engine, uint64_t now_ns) REQUIRES(engine->progress)
{
	struct effects effects;
	struct qp *qp;
	struct cq *cq;
	unsigned n;

	call_shield();			/* what is due may look at /proc, or report */
	for (n = 0; n < TIMERS_MAX && (qp = expire_one(engine, now_ns)); n++) {
		effects_init(&effects);
		lock_acquire(&qp->lock);
		if (qp->requester.local_messages && transport_deadline(qp) <= now_ns)
			local_check_progress(&engine->local, qp, now_ns);
		if (transport_awaits_presence(qp, now_ns))
			timers_look(engine, qp, now_ns, &effects);
		if (transport_deadline(qp) <= now_ns)
			transport_timeout(qp, now_ns, &effects);
		timers_arm(engine, qp);
		lock_release(&qp->lock);
		effects_defer(engine, &effects);
	}
	for (n = 0; n < TIMERS_MAX && (cq = expire_one_cq(engine, now_ns)); n++) {
		effects_init(&effects);
		cq_period_ended(cq, &effects);
		effects_defer(engine, &effects);
	}
}

void timers_expire(struct engine *engine, uint64_t now_ns)
{
	if (now_ns >= atomic_load_explicit(&engine->timers.next_ns, memory_order_relaxed))
		timers_expire_due(engine, now_ns);
}

uint64_t timers_next(struct engine *engine)
{
	uint64_t deadline_ns;

	lock_acquire(&engine->timers.lock);
	deadline_ns = next_of_all(engine);
	lock_release(&engine->timers.lock);
	if (engine->injection && injection_next(engine) < deadline_ns)
		return injection_next(engine);
	return deadline_ns;
}
