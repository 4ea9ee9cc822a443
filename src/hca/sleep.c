/* SPDX-License-Identifier: BSD-2-Clause */
/* Sleeping for the device (sleep.h): what is published, by one or two sleepers. */
#include "hca/sleep.h"

#include "hca/gsi_internal.h"
#include "local/ring.h"
#include "platform/clock.h"

uint64_t sleep_next_timer(struct hca *hca)
{
	uint64_t deadline_ns;

	lock_acquire(&hca->timers_lock);
	deadline_ns = timer_heap_next(&hca->timers);
	lock_release(&hca->timers_lock);
	return deadline_ns;
}

uint64_t sleep_asked_for(struct hca *hca)
{
	uint64_t gsi_ns = gsi_deadline(hca), local_ns = local_deadline(&hca->local);

	return gsi_ns < local_ns ? gsi_ns : local_ns;
}

static bool work_waits(struct hca *hca)
{
	return atomic_load(&hca->run_queue.count) > 0 || loopback_pending(hca->loopback_inner) ||
	       local_pending(&hca->local) || atomic_load(&hca->stopping) ||
	       atomic_load(&hca->leaving) == LEAVING;
}

/* Of two sleepers the one that wakes first counts. */
static void publish(struct hca *hca, uint64_t deadline_ns)
{
	lock_acquire(&hca->sleep_lock);
	if (hca->sleepers++ == 0 || deadline_ns < atomic_load(&hca->sleep_until_ns))
		atomic_store(&hca->sleep_until_ns, deadline_ns);
	if (hca->local.ring)
		ring_sleep(hca->local.ring);
	lock_release(&hca->sleep_lock);
	atomic_thread_fence(memory_order_seq_cst);
}

uint64_t sleep_begin(struct hca *hca, uint64_t deadline_ns)
{
	uint64_t now_ns;

	publish(hca, deadline_ns);
	now_ns = clock_now_ns();
	if (work_waits(hca) || sleep_next_timer(hca) < deadline_ns || deadline_ns <= now_ns)
		return 0;
	return deadline_ns == TIME_NEVER ? UINT64_MAX : deadline_ns - now_ns;
}

void sleep_end(struct hca *hca)
{
	bool ring = false;

	lock_acquire(&hca->sleep_lock);
	if (--hca->sleepers == 0) {
		atomic_store(&hca->sleep_until_ns, 0);
		if (hca->local.ring)
			ring_awake(hca->local.ring);
	} else {
		/* The other one has its own deadline, and may have been counted awake by peers. */
		atomic_store(&hca->sleep_until_ns, TIME_NEVER);
		if (hca->local.ring)
			ring_sleep(hca->local.ring);
		ring = local_pending(&hca->local);
	}
	lock_release(&hca->sleep_lock);
	if (ring)
		waiter_ring(&hca->waiter);
}
