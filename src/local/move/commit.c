/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages to a process that is stopped. An adapter places a SEND in the posted receive of a
 * process that does not run, and completes it; likewise a WRITE. Here the message lies in the ring,
 * in memory that the peer maps: whatever becomes of this process, the peer takes it when it goes on,
 * before anything else. So the request can be completed at once, if it is certain that the peer will
 * not refuse it. That is read in the peer's own memory, as a debugger does it, where the kernel
 * allows it (process_vm_readv): its QP is ready for the next message, has a receive for it, which is
 * long enough, and whose keys are valid; a WRITE has the right to its target.
 *
 * Not completed: messages whose data the peer fetches; WRITEs by a window; those for an SRQ, which
 * others take from, too. And nothing while the QP or its receive queue is locked: a call of the peer
 * may be changing it.
 *
 * Nothing that is read there is trusted with more than this: a peer that lies gets messages that it
 * refuses.
 *
 * Until the peer takes them, requests to the memory of those receives go behind them, as packets
 * (commit_meets). Behind a WRITE all requests do: who looks at memory instead of completions must
 * see them in order.
 */
#include "local/move/internal.h"
#include "local/channel/progress.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "object/arena.h"
#include "platform/clock.h"
#include "platform/process_state.h"
#include "transport/local.h"
#include "wire/opcode.h"

#define COMMITS_MAX 16u			/* in one go */
#define AHEAD_MAX 4096u			/* completed before and not taken yet */
#define SLOT_BYTES (sizeof(struct recv_wqe) + RECV_SGE_MAX * sizeof(struct ibv_sge))

/* Our end of the question, copied under the QP's lock; and what is read of the peer's. */
struct commit {
	struct peer *peer;
	uint32_t life, theirs, pd, qpn, peer_qpn;
	uint64_t place;
	uint32_t sequence;		/* of the oldest message that is not completed */
	uint16_t early_receives;	/* of those completed before: struct requester */
	uint8_t early_write_age;
	uint32_t before;		/* those that the peer has not taken yet */
	unsigned count;
	struct commit_message {
		uint64_t token, target;	/* of a WRITE: where to, and ... */
		uint32_t rkey;		/* ... by which key */
		uint32_t length;
		bool writes, takes_receive;
	} message[COMMITS_MAX];

	struct qp qp;
	struct transport transport;
	struct mr_table mrs;
	struct opcode previous;
	_Alignas(8) uint8_t slot[SLOT_BYTES];
	uint64_t from, to;		/* the receives of those that can be completed */
};

uint64_t commit_layout(void)
{
	/* Sizes and places of all that is read there: other builds have others. */
	uint64_t layout = sizeof(struct qp);

	layout = layout * 31 + sizeof(struct owned_lock);
	layout = layout * 31 + offsetof(struct qp, state);
	layout = layout * 31 + offsetof(struct qp, attr);
	layout = layout * 31 + offsetof(struct qp, rq);
	layout = layout * 31 + offsetof(struct qp, responder);
	layout = layout * 31 + offsetof(struct qp, pairing);
	layout = layout * 31 + offsetof(struct responder, message_sequence);
	layout = layout * 31 + offsetof(struct responder, recv_taken);
	layout = layout * 31 + offsetof(struct recv_queue, head);
	layout = layout * 31 + offsetof(struct mr_table, entry);
	layout = layout * 31 + offsetof(struct transport, mrs);
	layout = layout * 31 + sizeof(struct recv_wqe);
	return layout * 31 + sizeof(struct opcode);
}

void local_commit(struct local *local, struct qp *qp)
{
	struct peer *peer = peer_of_slot(local, qpn_slot(qp->attr.dest_qp_num));
	uint32_t none = 0;

	if (!peer || !qp->pairing.place || !peer_both_copy(local, peer))
		return;
	if (atomic_compare_exchange_strong(&peer->commit_qpn, &none, qp->number))
		atomic_fetch_add(&local->fetches_due, 1);
}

void commit_answered(struct local *local, unsigned channel)
{
	struct peer *peer = peer_at(local, channel);

	if (peer && atomic_load(&peer->committed))
		atomic_fetch_sub(&peer->committed, 1);
}

/* ---- reading ---- */

static bool commit_read(const struct commit *commit, const void *place, void *to, size_t bytes)
{
	struct iovec piece = { .iov_base = to, .iov_len = bytes };

	return place && !process_memory_read(&commit->peer->memory, &piece, 1, (uintptr_t)place);
}

static bool is_unlocked(const struct owned_lock *lock)
{
#ifdef CHECK_HELD_LOCKS
	return false;			/* of another library: nothing is known of it */
#else
	uint32_t word = atomic_load_explicit(&lock->word, memory_order_relaxed);

	return word == LOCK_FREE ||
	       (word == LOCK_BIASED && !atomic_load_explicit(&lock->inside, memory_order_relaxed));
#endif
}

/* Is its QP ready for our next message? It is a copy: nobody else knows it. */
static bool commit_read_qp(struct commit *commit)
{
	struct qp *qp = &commit->qp;

	lock_alias(&qp->lock);
	lock_alias(&qp->rq.lock);
	if (!commit_read(commit, (void *)(uintptr_t)commit->place, qp, sizeof(*qp)))
		return false;
	return qp->number == commit->peer_qpn && qp->type == IBV_QPT_RC && !qp->srq && !qp->xrcd && !qp->hash &&
	       is_unlocked(&qp->lock) && is_unlocked(&qp->rq.lock) &&
	       (qp->state == IBV_QPS_RTR || qp->state == IBV_QPS_RTS || qp->state == IBV_QPS_SQD) &&
	       qp->attr.dest_qp_num == commit->qpn && qp->pairing.ours == commit->theirs &&
	       !qp->responder.recv_taken && qp->rq.stride <= SLOT_BYTES && qp->rq.max_sge <= RECV_SGE_MAX &&
	       (!qp->responder.previous ||
		(commit_read(commit, qp->responder.previous, &commit->previous, sizeof(commit->previous)) &&
		 opcode_ends(&commit->previous)));
}

static void commit_note_place(struct commit *commit, uint64_t host, uint64_t bytes)
{
	if (host < commit->from)
		commit->from = host;
	if (host + bytes > commit->to)
		commit->to = host + bytes;
}

/* Can @bytes be scattered to the receive in commit->slot? As execute.c does it. */
static bool commit_takes(struct commit *commit, uint32_t bytes)
{
	const struct mr_accessor accessor = { .pd = commit->pd, .qpn = commit->peer_qpn };
	const struct recv_wqe *wqe = (const struct recv_wqe *)commit->slot;
	struct mr_entry entry;
	uint32_t i;

	for (i = 0; bytes && i < wqe->sge_count && i < RECV_SGE_MAX; i++) {
		const struct ibv_sge *sge = &wqe->sge[i];
		uint32_t piece = sge->length < bytes ? sge->length : bytes;
		uint64_t host;

		if (!piece)
			continue;
		if (!commit_read(commit, commit->mrs.entry + mr_entry_index(sge->lkey), &entry, sizeof(entry)) ||
		    mr_entry_judge(&entry, &accessor, sge->lkey, IBV_ACCESS_LOCAL_WRITE, sge->addr, piece,
				   &host) != MR_OK)
			return false;
		commit_note_place(commit, host, piece);
		bytes -= piece;
	}
	return !bytes;
}

/*
 * May it write there? As transport/message_receive.c looks. A window can end without a call: its
 * WRITEs wait.
 */
static bool commit_may_write(struct commit *commit, const struct commit_message *message)
	REQUIRES(commit->qp.lock)
{
	const struct mr_accessor accessor = { .pd = commit->pd, .qpn = commit->peer_qpn };
	const struct mr_entry *place = commit->mrs.entry + mr_entry_index(message->rkey);
	struct mr_entry entry;
	uint64_t host;

	if (!(commit->qp.attr.qp_access_flags & IBV_ACCESS_REMOTE_WRITE))
		return false;
	if (message->length &&
	    (!commit_read(commit, place, &entry, sizeof(entry)) || entry.kind != MR_REGION ||
	     mr_entry_judge(&entry, &accessor, message->rkey, IBV_ACCESS_REMOTE_WRITE,
			    message->target, message->length, &host) != MR_OK))
		return false;
	commit_note_place(commit, 0, UINT64_MAX);
	return true;
}

/* How many of the messages the peer cannot refuse. Receives are taken in order. */
static unsigned commit_count(struct commit *commit)
{
	struct recv_queue *rq = &commit->qp.rq;
	uint32_t before, taken, tail, posted, i;

	lock_alias(&commit->qp.lock);	/* of the copy */
	lock_alias(&rq->lock);
	if (!commit_read_qp(commit) ||
	    !commit_read(commit, commit->qp.transport, &commit->transport, sizeof(commit->transport)) ||
	    !commit_read(commit, commit->transport.mrs, &commit->mrs, sizeof(commit->mrs)))
		return 0;
	tail = atomic_load_explicit(&rq->tail, memory_order_relaxed);
	posted = atomic_load_explicit(&rq->head, memory_order_relaxed) - tail;
	before = (commit->sequence - commit->qp.responder.message_sequence) & PSN_MASK;
	if (before > AHEAD_MAX || posted > rq->size)
		return 0;
	commit->before = before;
	/* The receives that messages take which were completed and not taken yet. UINT32_MAX: not known. */
	taken = before;
	if (commit->early_write_age && before >= commit->early_write_age)
		taken = before > 16 ? UINT32_MAX :
			(uint32_t)__builtin_popcount(commit->early_receives & ((1u << before) - 1));
	for (i = 0; i < commit->count; i++) {
		const struct commit_message *message = &commit->message[i];
		const uint8_t *slot = rq->ring + (size_t)((tail + taken) & rq->mask) * rq->stride;

		if (message->takes_receive && taken >= posted)
			break;
		if (message->writes && !commit_may_write(commit, message))
			break;
		if (!message->writes &&
		    (!commit_read(commit, slot, commit->slot, rq->stride) ||
		     !commit_takes(commit, message->length)))
			break;
		taken += message->takes_receive;
	}
	return i;
}

/* ---- before and after ---- */

/* The oldest messages of the QP, as far as they might be completed. */
static void commit_begin(struct local *local, struct commit *commit, struct qp *qp) REQUIRES(qp->lock)
{
	const struct pairing *pairing = &qp->pairing;
	struct unanswered waiting;

	transport_unanswered(qp, &waiting);
	commit->life = atomic_load(&commit->peer->life);
	commit->theirs = pairing->theirs;
	commit->place = pairing->place;
	commit->pd = pairing->pd;
	commit->qpn = qp->number;
	commit->peer_qpn = qp->attr.dest_qp_num;
	commit->sequence = waiting.first;
	commit->from = UINT64_MAX;
	commit->early_receives = waiting.early_receives;
	commit->early_write_age = waiting.early_write_age;
	if (qp->state != IBV_QPS_RTS || qp->type != IBV_QPT_RC || !pairing->agreed || !pairing->place ||
	    pairing->life != commit->life)
		return;
	while (commit->count < COMMITS_MAX && commit->count < waiting.count) {
		const struct send_wqe *wqe = send_queue_at(&qp->sq, qp->sq.tail + commit->count);

		/* Not SENDs with invalidate: what becomes of the key is the peer's to say. */
		if (!wr_is(wqe->opcode, WR_WRITES | WR_IS_SEND) || wr_is(wqe->opcode, WR_HAS_INV) ||
		    !ring_is_eager(local->channel_link, commit->peer->channel, (uint32_t)wqe->token))
			break;
		commit->message[commit->count++] = (struct commit_message){
			.token = wqe->token, .length = wqe->length, .target = wqe->remote_address,
			.rkey = wqe->rkey, .writes = wr_is(wqe->opcode, WR_WRITES),
			.takes_receive = wr_is(wqe->opcode, WR_TAKES_RECEIVE) };
	}
}

/* What is completed counts from here on, whoever ends first. */
static void commit_complete(struct local *local, struct commit *commit, unsigned count, struct qp *qp,
			    struct effects *effects) REQUIRES(qp->lock)
{
	struct peer *peer = commit->peer;
	uint64_t now_ns = qp->send_cq->stamped ? clock_now_ns() : clock_coarse_ns();
	struct unanswered waiting;
	unsigned i;

	if (atomic_load(&peer->life) != commit->life || qp->pairing.theirs != commit->theirs)
		return;
	if (!atomic_load(&peer->committed)) {
		atomic_store(&peer->committed_from, UINT64_MAX);
		atomic_store(&peer->committed_to, 0);
	}
	if (commit->from < atomic_load(&peer->committed_from))
		atomic_store(&peer->committed_from, commit->from);
	if (commit->to > atomic_load(&peer->committed_to))
		atomic_store(&peer->committed_to, commit->to);
	transport_unanswered(qp, &waiting);
	for (i = 0; i < count && i < waiting.count && !effects_full(effects); i++) {
		const struct send_wqe *wqe = send_queue_at(&qp->sq, qp->sq.tail);

		if (wqe->token != commit->message[i].token)
			break;
		atomic_fetch_add(&peer->committed, 1);
		ring_commit(local->channel_link, peer->channel, (uint32_t)wqe->token);
		transport_message_commit(qp, !i && !commit->before, now_ns, effects);
	}
}

static bool commit_peer_stands(const struct peer *peer)
{
	enum process_state state = process_state(peer->memory.pid);

	return state == PROCESS_STOPPED || state == PROCESS_FROZEN;
}

bool commit_run(struct local *local, struct peer *peer)
{
	uint32_t qpn = atomic_load_explicit(&peer->commit_qpn, memory_order_relaxed) ?
			       atomic_exchange(&peer->commit_qpn, 0) : 0;
	struct effects effects;
	struct commit *commit;
	struct qp *qp;
	unsigned count;

	if (!qpn)
		return false;
	atomic_fetch_sub(&local->fetches_due, 1);
	commit = calloc(1, sizeof(*commit));
	if (!commit)
		return true;
	commit->peer = peer;
	progress_take(local);
	qp = peer_at(local, peer->channel) == peer ? local->ops->find_qp(local->owner, qpn) : NULL;
	if (qp) {
		lock_acquire(&qp->lock);
		commit_begin(local, commit, qp);
		lock_release(&qp->lock);
	}
	progress_drop(local);
	/* Before and after: what was read is of a process that did not run meanwhile. */
	count = commit->count && commit_peer_stands(peer) ? commit_count(commit) : 0;
	if (count && commit_peer_stands(peer)) {
		effects_init(&effects);
		progress_take(local);
		qp = local->ops->find_qp(local->owner, qpn);
		if (qp) {
			lock_acquire(&qp->lock);
			commit_complete(local, commit, count, qp, &effects);
			lock_release(&qp->lock);
		}
		local->ops->defer(local->owner, &effects);
		progress_drop(local);
	}
	free(commit);
	return true;
}
