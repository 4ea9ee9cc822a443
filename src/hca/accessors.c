/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Waiting until no peer process accesses a region or a QP of ours any more. Each says in memory that
 * we share what it is about to use (host/hazard.h); one that has ended uses nothing, and one that
 * says so for seconds without being stopped is not believed.
 */
#include "hca/peers_internal.h"

#include "base/log.h"
#include "platform/clock.h"

#define ACCESS_NS	1000000u	/* most accesses take less */
#define LIAR_NS		UINT64_C(5000000000)	/* no access takes so long, unless its process is stopped */
#define LIAR_LOOK_NS	100000000u

/* A peer that ended does not access anything any more, whatever it said last. */
static bool uses(struct peer *peer, uint32_t rkey, uint32_t qpn)
{
	return peer->used && !peer->liar && hazard_names(peer->their_hazards, rkey, qpn) &&
	       !peer_has_ended(peer);
}

static bool any_uses(struct peers *peers, uint32_t rkey, uint32_t qpn)
{
	bool found = false;
	unsigned i;

	lock_acquire(&peers->lock);
	for (i = 0; i < CHANNELS_MAX && !found; i++)
		found = uses(&peers->peer[i], rkey, qpn);
	lock_release(&peers->lock);
	return found;
}

/*
 * Whoever is not stopped and names what it uses for that long does not use it: what it says is not
 * worth waiting for any more.
 */
static void find_liars(struct peers *peers, uint32_t rkey, uint32_t qpn)
{
	unsigned i;

	lock_acquire(&peers->lock);
	for (i = 0; i < CHANNELS_MAX; i++) {
		struct peer *peer = &peers->peer[i];

		if (!uses(peer, rkey, qpn) || process_is_stopped(peer->process.pid))
			continue;
		peer->liar = true;
		log_warn("process %d says for %u s that it is accessing our memory: it is not "
			 "waited for any more", (int)peer->process.pid,
			 (unsigned)(LIAR_NS / 1000000000u));
	}
	lock_release(&peers->lock);
}

void peers_drain(struct hca *hca, uint32_t rkey, uint32_t qpn)
{
	uint64_t begin_ns = 0, waited_ns;

	if (!hca->peers)
		return;
	atomic_thread_fence(memory_order_seq_cst);	/* F4 */
	while (memory_has_channels(hca->peers->link) && any_uses(hca->peers, rkey, qpn)) {
		if (!begin_ns)
			begin_ns = clock_now_ns();
		waited_ns = clock_now_ns() - begin_ns;
		if (waited_ns < ACCESS_NS) {
			thread_yield();
		} else if (waited_ns < LIAR_NS) {
			thread_sleep_ns(ACCESS_NS);
		} else {
			find_liars(hca->peers, rkey, qpn);
			thread_sleep_ns(LIAR_LOOK_NS);
		}
	}
}
