/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Meeting peer processes later (peers.h). Where a thread had no success, QPs work over UDP, and the
 * worker takes over:
 *
 *	it did not answer	its answer is waited for: the connection becomes readable
 *	it does not listen yet,	further tries, ever more seldom, as long as a QP is connected to it; then
 *	or had no room		none, until the next QP is connected
 *
 * The worker never blocks for a peer: two of them could wait for each other. It is woken by
 * answers, and for a bounded number of tries.
 *
 * Packets of a QP may overtake those it sent by UDP before. RC repairs that as it would a
 * reordering network (the gap is answered by a NAK, the late ones are duplicates); for the others'
 * sake what UDP has is received first for a while (hca_receive).
 */
#include "hca/peers_internal.h"

#include <errno.h>
#include <unistd.h>

#include "base/log.h"
#include "platform/clock.h"

#define SURE_TRIES 3u		/* made even if no QP is connected to it (any more) */

/* Before each try, since the last. */
static const uint64_t delay_ns[] = {
	10000000, 100000000, 1000000000, 3000000000, 3000000000, 3000000000, 3000000000, 3000000000,
};
#define TRIES_MAX (sizeof(delay_ns) / sizeof(delay_ns[0]))

/* Another user's, or another version: it stays so. */
static bool may_change(int err)
{
	return err != EPERM && err != EPROTO;
}

static bool is_connected_to(struct qp *qp, uint32_t slot)
{
	bool connected;

	lock_acquire(&qp->lock);
	connected = qp->type != IBV_QPT_UD && qp->av.loopback &&
		    (qp->state == IBV_QPS_RTR || qp->state == IBV_QPS_RTS || qp->state == IBV_QPS_SQD ||
		     qp->state == IBV_QPS_SQE) && SLOT_OF_QPN(qp->attr.dest_qp_num) == slot;
	lock_release(&qp->lock);
	return connected;
}

static bool is_used(struct hca *hca, uint32_t slot)
{
	struct list *context_node, *node;
	bool used = false;

	lock_acquire(&hca->objects);
	list_for_each(context_node, &hca->contexts) {
		struct hca_context *context = list_entry(context_node, struct hca_context, node);

		list_for_each(node, &context->qps)
			used = used || is_connected_to(list_entry(node, struct qp, node), slot);
	}
	lock_release(&hca->objects);
	return used;
}

/* ---- when ---- */

uint64_t peers_deadline(const struct hca *hca)
{
	return hca->peers ? atomic_load(&hca->peers->later_ns) : TIME_NEVER;
}

static void arrange(struct peers *peers, uint32_t slot, uint64_t due_ns) REQUIRES(peers->lock)
{
	peers->later[slot].due_ns = due_ns;
	if (due_ns < atomic_load(&peers->later_ns))
		atomic_store(&peers->later_ns, due_ns);
}

void meet_later(struct hca *hca, uint32_t slot, int err)
{
	struct peers *peers = hca->peers;
	uint64_t due_ns = clock_now_ns() + delay_ns[0];

	lock_acquire(&hca->peers->lock);
	peers->missed[slot] = true;
	peers->later[slot] = (struct later){ 0 };
	if (may_change(err) && !peers->meeting[slot])
		arrange(hca->peers, slot, due_ns);
	lock_release(&hca->peers->lock);
	worker_notice(hca, due_ns);
}

void meet_soon(struct hca *hca, uint32_t slot)
{
	struct peers *peers = hca->peers;
	uint64_t due_ns = clock_now_ns();

	lock_acquire(&hca->peers->lock);
	if (!peers->later[slot].due_ns && !peers->meeting[slot]) {
		peers->later[slot] = (struct later){ .once = true };
		arrange(hca->peers, slot, due_ns);
	}
	lock_release(&hca->peers->lock);
	worker_notice(hca, due_ns);
}

/* One whose time has come, which is his no longer; finds the next time. */
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

static void came_to_nothing(struct hca *hca, uint32_t slot, int err)
{
	struct later *later = &hca->peers->later[slot];

	lock_acquire(&hca->peers->lock);
	log_debug("slot %u: still no memory is shared with its process: error %d", slot, err);
	if (may_change(err) && !later->once && ++later->tries < TRIES_MAX)
		arrange(hca->peers, slot, clock_now_ns() + delay_ns[later->tries]);
	lock_release(&hca->peers->lock);
}

static bool is_worthwhile(struct hca *hca, uint32_t slot)
{
	struct later later;

	lock_acquire(&hca->peers->lock);
	later = hca->peers->later[slot];
	lock_release(&hca->peers->lock);
	return peers_channel(hca, slot) == PEER_NO_CHANNEL &&
	       (later.once || later.tries < SURE_TRIES || is_used(hca, slot));
}

void peers_meet_again(struct hca *hca, uint64_t now_ns)
{
	struct meeting meeting;
	uint32_t slot = 0;
	int err;

	if (peers_deadline(hca) > now_ns)
		return;
	while (take_due(hca->peers, now_ns, &slot)) {
		if (!is_worthwhile(hca, slot))
			continue;
		err = meeting_begin(hca, slot, &meeting);
		if (!err)
			err = meeting_leave(hca, &meeting);
		if (err != EAGAIN && err != EALREADY)
			came_to_nothing(hca, slot, err);
	}
}

/* ---- waiting for answers ---- */

int meeting_leave(struct hca *hca, struct meeting *meeting)
{
	struct peers *peers = hca->peers;
	bool left = false;
	unsigned i;

	meeting->used = true;
	lock_acquire(&hca->peers->lock);
	peers->missed[meeting->slot] = true;
	for (i = 0; i < MEETINGS_MAX && peers->unanswered[i].used; i++)
		;
	if (i < MEETINGS_MAX && !waiter_add(&hca->waiter, meeting->process.fd, WAIT_MEMORY)) {
		peers->unanswered[i] = *meeting;
		left = true;
	}
	lock_release(&hca->peers->lock);
	if (left)
		return EAGAIN;
	meeting_give_up(hca, meeting);
	return ENOSPC;
}

/* The next one from number *@at on that has been answered. */
static bool take_answered(struct hca *hca, unsigned *at, struct meeting *meeting)
{
	struct peers *peers = hca->peers;
	bool found = false;

	lock_acquire(&hca->peers->lock);
	for (; *at < MEETINGS_MAX && !found; ++*at) {
		struct meeting *each = &peers->unanswered[*at];

		if (!each->used || !rendezvous_is_answered(&each->process))
			continue;
		waiter_remove(&hca->waiter, each->process.fd);
		*meeting = *each;
		each->used = false;
		found = true;
	}
	lock_release(&hca->peers->lock);
	return found;
}

void meetings_take_answers(struct hca *hca)
{
	struct meeting meeting;
	unsigned at = 0;
	int err;

	while (take_answered(hca, &at, &meeting)) {
		err = meeting_end(hca, &meeting, 0);
		if (err == EAGAIN)	/* it was no answer after all */
			err = meeting_leave(hca, &meeting);
		if (!err)
			log_info("slot %u: memory is shared with its process after all",
				 meeting.slot);
		else if (err != EAGAIN)
			came_to_nothing(hca, meeting.slot, err);
	}
}

void meetings_abandon(struct peers *peers)
{
	unsigned i;

	for (i = 0; i < MEETINGS_MAX; i++)
		if (peers->unanswered[i].used) {
			close(peers->unanswered[i].channel_fd);
			rendezvous_part(&peers->unanswered[i].process);
		}
}
