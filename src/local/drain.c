/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Ending grants (grant.h): each is marked dead in all channels, then we wait until no peer names it in a
 * hazard. A peer that has ended uses nothing. One that still names it after a second, be it stopped,
 * frozen or lying, loses its channel: first its guard page, without which it can begin no copy (each
 * copy of 64 KiB begins with a byte of it, platform/process_memory.h), then the rest, by the worker.
 *
 * No lock is held while we wait.
 */
#include "local/peer.h"

#include "base/log.h"
#include "platform/clock.h"

#define ACCESS_NS	1000000u	/* most accesses take less */
#define PATIENCE_NS	UINT64_C(1000000000)
#define STEP_NS		1000000u

/* The peer will not get at ordinary memory of ours any more, whatever it does later. */
static void sever(struct local *local, struct peer *peer, uint32_t life)
{
	lock_acquire(&local->peers->lock);
	if (atomic_load(&peer->life) == life && !peer->severed) {
		process_guard_shut(peer->guard);
		peer->severed = true;
		log_warn("process %d has been accessing our memory for over a second (it may be "
			 "stopped): no memory is shared with it any more", (int)peer->memory.pid);
	}
	lock_release(&local->peers->lock);
	atomic_store(&local->serve_due, true);
	local->ops->notice(local->device, 0);
}

static void wait_for(struct local *local, struct peer *peer, uint32_t id)
{
	uint32_t life = atomic_load(&peer->life);
	uint64_t begin_ns = 0, waited_ns = 0;

	while (life && atomic_load(&peer->life) == life &&
	       hazard_names(peer->their_hazards, id) && !peer_has_ended(peer)) {
		if (!begin_ns)
			begin_ns = clock_now_ns();
		waited_ns = clock_now_ns() - begin_ns;
		if (waited_ns > PATIENCE_NS) {
			sever(local, peer, life);
			return;
		}
		if (waited_ns < ACCESS_NS) {
			thread_yield();
		} else {
			peer_read_socket(peer);	/* a peer that ends says so there */
			if (peer_took_bell(peer))
				local->ops->notice(local->device, 0);
			thread_sleep_ns(STEP_NS);
		}
	}
}

/* Best effort: its mapping of a block would keep the pages of it. */
static void say_gone(struct local *local, struct peer *peer, uint32_t key, uint32_t id)
{
	struct control control = { .kind = CONTROL_KEY_GONE, .key = key, .region = id };

	if (atomic_load(&peer->life))
		control_send(local, peer, &control, 0);
}

static void end_grants(struct local *local, enum grant_kind kind, uint32_t name)
{
	struct peers *peers = local->peers;
	unsigned i;

	if (!peers || !atomic_load(&peers->granted))
		return;
	for (i = 0; i < CHANNELS_MAX; i++) {
		struct peer *peer = atomic_load(&peers->peer[i]);
		uint32_t id;

		if (!peer)
			continue;
		id = grant_kill(&peer->grants, kind, name);
		if (!id)
			continue;
		atomic_thread_fence(memory_order_seq_cst);	/* F4 */
		wait_for(local, peer, id);
		grant_free(&peer->grants, id);
		if (kind == GRANT_REGION)
			say_gone(local, peer, name, id);
	}
	local_ring_bells(local);
}

void drain_region(void *local, uint32_t key)
{
	end_grants(local, GRANT_REGION, key);
}

void local_drain_qp(struct local *local, uint32_t qpn)
{
	end_grants(local, GRANT_QP, qpn);
}
