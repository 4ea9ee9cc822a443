/* SPDX-License-Identifier: BSD-2-Clause */
/* Sleep of the threads that serve the engine (sleep.h): published by one or two sleepers. */

#include "engine/internal.h"
#include "engine/sleep.h"
#include "local/channel/ring.h"
#include "platform/clock.h"

static bool work_waits(struct engine *engine)
{
	return atomic_load(&engine->run_queue.count) > 0 || sources_are_pending(&engine->source.all) ||
	       atomic_load(&engine->worker.stopping) ||
	       atomic_load(&engine->worker.leaving) == LEAVING;
}

uint64_t sleep_begin(struct engine *engine, uint64_t deadline_ns)
{
	uint64_t now_ns;

	/* Of two sleepers the one that wakes first counts. */
	lock_acquire(&engine->sleep.lock);
	if (engine->sleep.sleepers++ == 0 || deadline_ns < atomic_load(&engine->sleep.until_ns))
		atomic_store(&engine->sleep.until_ns, deadline_ns);
	if (engine->local.channel_link)
		ring_sleep(engine->local.channel_link);
	lock_release(&engine->sleep.lock);
	atomic_thread_fence(memory_order_seq_cst);
	now_ns = clock_now_ns();
	if (work_waits(engine) || timers_next(engine) < deadline_ns || deadline_ns <= now_ns)
		return 0;
	return deadline_ns == TIME_NEVER ? UINT64_MAX : deadline_ns - now_ns;
}

void sleep_end(struct engine *engine)
{
	bool ring = false;

	lock_acquire(&engine->sleep.lock);
	if (--engine->sleep.sleepers == 0) {
		atomic_store(&engine->sleep.until_ns, 0);
		if (engine->local.channel_link)
			ring_awake(engine->local.channel_link);
	} else {
		/* The other sleeper's deadline is not known here, and peers may count it awake. */
		atomic_store(&engine->sleep.until_ns, TIME_NEVER);
		if (engine->local.channel_link)
			ring_sleep(engine->local.channel_link);
		ring = local_pending(&engine->local);
	}
	lock_release(&engine->sleep.lock);
	if (ring)
		waiter_ring(&engine->waiter);
}
