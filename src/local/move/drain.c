/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Ends grants (grant.h): marks a grant dead in all channels, then waits until no peer names it in a
 * hazard. The wait is at most one second for each peer that still holds a hazard; a peer that has
 * ended holds none. After that second (the peer is stopped, frozen or lying) its access is revoked:
 * first its guard page, without which its copies stop (a copy checks the guard byte every
 * PROCESS_STRETCH bytes, platform/process_memory.h); the worker closes the channel. If the peer
 * maps the region's block, the block gets new pages (block_make_private).
 *
 * No lock is held during the wait.
 */
#include "local/move/internal.h"

#include <string.h>

#include "base/log.h"
#include "local/block/block.h"
#include "object/mr.h"
#include "platform/clock.h"

#define ACCESS_NS	1000000u	/* most accesses take less */
#define PATIENCE_NS	UINT64_C(1000000000)
#define STEP_NS		1000000u

/* Revoke the peer's access to ordinary memory of this process. */
static void drain_revoke(struct local *local, struct peer *peer, uint32_t life)
{
	struct block *block;
	unsigned at;
	uint32_t key;

	lock_acquire(&local->peers->lock);
	if (atomic_load(&peer->life) == life && !peer->revoked) {
		process_guard_shut(peer->guard);
		peer->revoked = true;
		/* Threads of the peer may still store into its other blocks: nothing waits for them. */
		at = 0;
		while (grant_next_mapped(&peer->grants, &at, &key)) {
			block = mr_block(local->mrs, key);
			if (block)
				block_withdraw(block);
		}
		log_warn("process %d has been accessing our memory for over a second (it may be "
			 "stopped): sharing with it ends", (int)peer->memory.pid);
	}
	lock_release(&local->peers->lock);
	atomic_store(&local->peers_due, true);
	local->ops->notice(local->owner, 0);
}

/* False: the peer may still access the memory that @id names. */
static bool drain_wait_for(struct local *local, struct peer *peer, uint32_t id)
{
	uint32_t life = atomic_load(&peer->life);
	uint64_t begin_ns = 0, waited_ns = 0;

	while (life && atomic_load(&peer->life) == life &&
	       hazard_names(peer->their_hazards, id) && !peer_has_ended(peer)) {
		if (!begin_ns)
			begin_ns = clock_now_ns();
		waited_ns = clock_now_ns() - begin_ns;
		if (waited_ns > PATIENCE_NS) {
			drain_revoke(local, peer, life);
			return false;
		}
		if (waited_ns < ACCESS_NS) {
			thread_yield();
		} else {
			peer_read_socket(peer);	/* shows whether the peer has ended */
			if (peer_took_bell(peer))
				local->ops->notice(local->owner, 0);
			thread_sleep_ns(STEP_NS);
		}
	}
	return true;
}

/* End every peer's grant of @name. False: a peer may still access it. */
static bool end_grants(struct local *local, enum grant_kind kind, uint32_t name)
{
	struct control gone = { .kind = CONTROL_KEY_GONE, .key = name };
	struct peers *peers = local->peers;
	bool ended = true;
	unsigned i;

	for (i = 0; i < CHANNELS_MAX; i++) {
		struct peer *peer = atomic_load(&peers->peer[i]);
		uint32_t id;

		if (!peer)
			continue;
		id = grant_kill(&peer->grants, kind, name);
		if (!id)
			continue;
		atomic_thread_fence(memory_order_seq_cst);	/* F4 */
		ended &= drain_wait_for(local, peer, id);
		grant_free(&peer->grants, id);
		/* Best effort: the peer's mapping would keep the pages of a block. */
		gone.region = id;
		if (kind == GRANT_REGION && atomic_load(&peer->life))
			control_send(local, peer, &gone, 0);
	}
	return ended;
}

/* The block is mapped by a peer that may resume at any time. */
static void leave_block(struct local *local, struct block *block)
{
	int err;
	uint32_t key;
	unsigned i;

	block_withdraw(block);
	/*
	 * End the grants of all regions that are this block: peers ask for their keys again, and
	 * then copy.
	 */
	for (i = 0; i < CHANNELS_MAX; i++) {
		struct peer *peer = atomic_load(&local->peers->peer[i]);
		unsigned at = 0;

		while (peer && grant_next_mapped(&peer->grants, &at, &key))
			if (mr_block(local->mrs, key) == block)
				end_grants(local, GRANT_REGION, key);
	}
	err = block_make_private(block);
	if (err)
		log_warn("%zu bytes at %p cannot be made private, a stuck process may still write "
			 "there: %s", block_bytes(block), (void *)block_memory(block),
			 strerror(err));
}

void drain_region(void *local_, uint32_t key)
{
	struct local *local = local_;
	struct block *block;
	bool ended;

	if (!local->peers || !atomic_load(&local->peers->granted))
		return;
	ended = end_grants(local, GRANT_REGION, key);
	block = mr_block(local->mrs, key);
	if (block && (!ended || block_is_withdrawn(block)))
		leave_block(local, block);
	local_ring_bells(local);
}

void local_drain_qp(struct local *local, uint32_t qpn)
{
	if (!local->peers || !atomic_load(&local->peers->granted))
		return;
	end_grants(local, GRANT_QP, qpn);
	local_ring_bells(local);
}

void local_drain_ended_qps(struct local *local)
{
	unsigned i;

	if (!local->peers || !atomic_load(&local->peers->granted))
		return;
	for (i = 0; i < CHANNELS_MAX; i++) {
		struct peer *peer = atomic_load(&local->peers->peer[i]);
		unsigned at = 0;
		uint32_t number;

		while (peer && grant_next_ended(&peer->grants, &at, &number))
			end_grants(local, GRANT_QP, number);
	}
	local_ring_bells(local);
}
