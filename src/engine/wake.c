/* SPDX-License-Identifier: BSD-2-Clause */
/* Wake-up of the worker (wake.h). */
#include "base/inline.h"
#include "engine/wake.h"

APART void worker_wake_at(struct engine *engine, uint64_t deadline_ns)
{
	atomic_thread_fence(memory_order_seq_cst);
	if (deadline_ns < atomic_load_explicit(&engine->sleep.until_ns, memory_order_relaxed))
		waiter_ring(&engine->waiter);
}
