/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Retries connections to peer processes (peer.h). After a thread's attempt failed, QPs work over
 * UDP and the worker takes over:
 *
 *	it did not answer	its answer is awaited: the connection becomes readable
 *	it does not listen yet,	further tries, at growing intervals, as long as a QP is connected
 *	or had no room		to it; then none, until the next QP is connected
 *
 * The worker never blocks for a peer: two workers could wait for each other. Answers wake it, and a
 * bounded number of tries.
 *
 * Packets of a QP may overtake those it sent by UDP before. RC repairs that like a reordering
 * network (the gap gets a NAK, late packets are duplicates); for UC and UD, packets of UDP are
 * received first for a while (channels_receive(), engine/receive.c).
 */
#include "local/channel/peer.h"

#include <errno.h>
#include <unistd.h>

#include "base/log.h"
#include "platform/clock.h"

#define SURE_TRIES 3u		/* made even if no QP is connected to it (any more) */
#define QUEUED_TRIES 1u		/* tries counted at most while its queue is full */

/* The delay before each try, since the last one. */
static const uint64_t delay_ns[] = {
	10000000, 100000000, 1000000000, 3000000000, 3000000000, 3000000000, 3000000000, 3000000000,
};
#define TRIES_MAX (sizeof(delay_ns) / sizeof(delay_ns[0]))

/* Another user or another version is permanent. */
static bool may_change(int err)
{
	return err != EPERM && err != EPROTO;
}

/* ---- when ---- */

uint64_t local_deadline(const struct local *local)
{
	return local->peers ? atomic_load(&local->peers->later_ns) : TIME_NEVER;
}

static void reconnect_schedule(struct peers *peers, uint32_t slot, uint64_t due_ns)
	REQUIRES(peers->lock)
{
	peers->later[slot].due_ns = due_ns;
	if (due_ns < atomic_load(&peers->later_ns))
		atomic_store(&peers->later_ns, due_ns);
}

void reconnect_later(struct local *local, uint32_t slot, int err)
{
	struct peers *peers = local->peers;
	uint64_t due_ns = clock_now_ns() + delay_ns[0];

	lock_acquire(&local->peers->lock);
	peers->missed[slot] = true;
	peers->later[slot] = (struct later){ 0 };
	if (may_change(err) && !peers->connecting[slot])
		reconnect_schedule(local->peers, slot, due_ns);
	lock_release(&local->peers->lock);
	local->ops->notice(local->owner, due_ns);
}

void reconnect_soon(struct local *local, uint32_t slot)
{
	struct peers *peers = local->peers;
	uint64_t due_ns = clock_now_ns();

	lock_acquire(&local->peers->lock);
	if (!peers->later[slot].due_ns && !peers->connecting[slot]) {
		peers->later[slot] = (struct later){ .once = true };
		reconnect_schedule(local->peers, slot, due_ns);
	}
	lock_release(&local->peers->lock);
	local->ops->notice(local->owner, due_ns);
}

/* Take a slot whose try is due, and find the time of the next one. */
static bool take_due(struct peers *peers, uint64_t now_ns, uint32_t *slot)
{
	uint64_t earliest_ns = TIME_NEVER;
	bool found = false;
	uint32_t i;

	lock_acquire(&peers->lock);
	for (i = 0; i < SLOT_COUNT; i++) {
		struct later *later = &peers->later[i];

		if (!later->due_ns)
			continue;
		if (!found && later->due_ns <= now_ns) {
			later->due_ns = 0;
			*slot = i;
			found = true;
		} else if (later->due_ns < earliest_ns) {
			earliest_ns = later->due_ns;
		}
	}
	atomic_store(&peers->later_ns, earliest_ns);
	lock_release(&peers->lock);
	return found;
}

/* ---- trying ---- */

/* A full queue at the peer does not count as a try: there are more, as long as they are useful. */
static void note_failure(struct local *local, uint32_t slot, int err)
{
	struct later *later = &local->peers->later[slot];
	bool queued = err == ENOBUFS && local->ops->is_connected_to(local->owner, slot);

	lock_acquire(&local->peers->lock);
	log_debug("slot %u: still no shared memory with its process: error %d", slot, err);
	if (queued && later->tries > QUEUED_TRIES)
		later->tries = QUEUED_TRIES;
	if (may_change(err) && !later->once && ++later->tries < TRIES_MAX)
		reconnect_schedule(local->peers, slot, clock_now_ns() + delay_ns[later->tries]);
	lock_release(&local->peers->lock);
}

void local_reconnect(struct local *local, uint64_t now_ns)
{
	struct attempt attempt;
	struct later later;
	uint32_t slot = 0;
	int err;

	if (local_deadline(local) > now_ns)
		return;
	while (take_due(local->peers, now_ns, &slot)) {
		lock_acquire(&local->peers->lock);
		later = local->peers->later[slot];
		lock_release(&local->peers->lock);
		if (local_channel(local, slot) != LOCAL_NO_CHANNEL ||
		    (!later.once && later.tries >= SURE_TRIES &&
		     !local->ops->is_connected_to(local->owner, slot)))
			continue;
		err = attempt_begin(local, slot, &attempt);
		if (!err)
			err = attempt_leave(local, &attempt);
		if (err != EAGAIN && err != EALREADY)
			note_failure(local, slot, err);
	}
}

/* ---- waiting for answers ---- */

int attempt_leave(struct local *local, struct attempt *attempt)
{
	struct peers *peers = local->peers;
	bool left = false;
	unsigned i;

	attempt->used = true;
	lock_acquire(&local->peers->lock);
	peers->missed[attempt->slot] = true;
	for (i = 0; i < ATTEMPTS_MAX && peers->unanswered[i].used; i++)
		;
	if (i < ATTEMPTS_MAX && !waiter_add(local->waiter, attempt->process.fd,
					       local->connect_tag)) {
		peers->unanswered[i] = *attempt;
		left = true;
	}
	lock_release(&local->peers->lock);
	if (left)
		return EAGAIN;
	attempt_give_up(local, attempt);
	return ENOSPC;
}

/* The next one from number *@at on that has been answered. */
static bool take_answered(struct local *local, unsigned *at, struct attempt *attempt)
{
	struct peers *peers = local->peers;
	bool found = false;

	lock_acquire(&local->peers->lock);
	for (; *at < ATTEMPTS_MAX && !found; ++*at) {
		struct attempt *each = &peers->unanswered[*at];

		if (!each->used || !handshake_is_answered(&each->process))
			continue;
		waiter_remove(local->waiter, each->process.fd);
		*attempt = *each;
		each->used = false;
		found = true;
	}
	lock_release(&local->peers->lock);
	return found;
}

void attempts_take_answers(struct local *local)
{
	struct attempt attempt;
	unsigned at = 0;
	int err;

	while (take_answered(local, &at, &attempt)) {
		err = attempt_end(local, &attempt, 0);
		if (err == EAGAIN)	/* it was no answer after all */
			err = attempt_leave(local, &attempt);
		if (!err)
			log_info("slot %u: a retry succeeded, memory is shared with its process",
				 attempt.slot);
		else if (err != EAGAIN)
			note_failure(local, attempt.slot, err);
	}
}

void attempts_abandon(struct peers *peers)
{
	unsigned i;

	lock_init(&peers->lock);
	for (i = 0; i < ATTEMPTS_MAX; i++)
		if (peers->unanswered[i].used)
			handshake_abandon(&peers->unanswered[i].process);
}
