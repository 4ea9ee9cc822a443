/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Wake-ups of the worker and of peers. A thread that adds work or an earlier deadline does so
 * first, then reads the deadline that sleepers have published, with a full fence between (sleep.h).
 */
#ifndef VERBATIM_ENGINE_WAKE_H
#define VERBATIM_ENGINE_WAKE_H

#include "engine/engine.h"

/*
 * Something is due at @deadline_ns, or an application thread goes to sleep (0): wake the worker if
 * need be.
 */
void worker_wake_at(struct engine *engine, uint64_t deadline_ns);
/* The same under a QP's lock: done by engine_after_unlock(), which is due then. */
static inline void worker_wake_after_unlock(struct engine *engine, uint64_t deadline_ns)
{
	uint64_t noted_ns = atomic_load_explicit(&engine->worker.notice_ns, memory_order_relaxed);

	if (deadline_ns >= noted_ns) {
		/*
		 * An earlier note stands. Is it still to be taken? Only then its taker, whose
		 * worker_wake_at() has a fence too, makes sure that what our caller stored is seen.
		 */
		atomic_thread_fence(memory_order_seq_cst);
		noted_ns = atomic_load_explicit(&engine->worker.notice_ns, memory_order_relaxed);
	}
	while (deadline_ns < noted_ns &&
	       !atomic_compare_exchange_weak(&engine->worker.notice_ns, &noted_ns, deadline_ns))
		;
}

/* System calls deferred while a QP's lock was held: bells of peers, the worker's doorbell. */
static inline void engine_after_unlock(struct engine *engine)
{
	local_ring_bells(&engine->local);
	if (atomic_load_explicit(&engine->worker.notice_ns, memory_order_relaxed) != TIME_NEVER)
		worker_wake_at(engine, atomic_exchange(&engine->worker.notice_ns, TIME_NEVER));
}

#endif
