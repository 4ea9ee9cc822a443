/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Fetches the data of large messages: one copy, from a block of the sender that is mapped here or
 * from its address space, to the memory of the receive or of the WRITE's target.
 *
 * The copy is made without locks. References hold the memory: grants hold ours (struct
 * message_fetch), and a hazard holds the sender's: it names the sender's grants of the region and
 * of its QP, which end when the region is deregistered or the QP fails. Meanwhile the message stays
 * the next one of its ring; other channels and other QPs proceed. Then the responder takes the
 * locks and continues, if nothing has changed.
 */
#include "local/move/internal.h"
#include "local/channel/progress.h"

#include <errno.h>
#include <string.h>

#include "base/inline.h"
#include "base/copy.h"
#include "platform/clock.h"

void fetch_start(struct local *local, struct peer *peer, uint32_t qpn, uint32_t sender,
		 const struct local_message *message, const struct message_piece *source)
{
	struct fetch_job *job = &peer->job;

	job->life = atomic_load(&peer->life);
	job->qpn = qpn;
	job->sender = sender;
	job->message = *message;
	job->message.data = NULL;
	memcpy(job->source, source, message->piece_count * sizeof(*source));
	job->fetch.pieces = 0;
	atomic_store(&job->state, JOB_DUE);
	atomic_fetch_add(&local->fetches_due, 1);
}

/* ---- copying ---- */

/* The sender's QP has not given up: its memory still holds the data. */
static bool sender_holds(const struct peer *peer)
{
	return atomic_load(&peer->life) == peer->job.life &&
	       grant_is_alive(peer->alive, peer->job.sender);
}

/* The mapping here of [@at, +@bytes) of the sender's address space; NULL: none. */
static const uint8_t *find_mapped(const struct peer *peer, uint32_t id, uint64_t at, size_t bytes)
{
	struct peer_region region;

	if (!peer_region_by_id(peer->regions, id, &region) || !region.block_mapped ||
	    !peer_region_holds(peer->regions, &region) || at < region.block ||
	    at - region.block > region.block_bytes ||
	    bytes > region.block_bytes - (at - region.block))
		return NULL;
	return region.block_mapped + (at - region.block);
}

static int copy_held(struct peer *peer, uint32_t region, uint64_t at, struct iovec *to, bool last)
{
	const uint8_t *mapped = find_mapped(peer, region, at, to->iov_len);

	if (mapped)
		return last ? copy_user_ordered(to->iov_base, mapped, to->iov_len) :
			      copy_user(to->iov_base, mapped, to->iov_len);
	if (!atomic_load_explicit(&peer->copies, memory_order_relaxed))
		return EOPNOTSUPP;
	return process_memory_read(&peer->memory, to, 1, at);
}

/* Copy one stretch of the sender's memory to ours. @there: its pages need not be touched (onesided.c). */
static int copy_stretch(struct peer *peer, uint32_t region, uint64_t at, uint8_t *to, size_t bytes,
			bool there, bool last)
{
	struct iovec piece = { .iov_base = to, .iov_len = bytes };
	unsigned hazard;
	int err = there && find_mapped(peer, region, at, bytes) ? 0 : user_touch_write(to, bytes);

	if (err)
		return err;
	if (!hazard_begin(peer->hazards, region, peer->job.sender, region, &hazard))
		return EAGAIN;
	err = sender_holds(peer) && grant_is_alive(peer->alive, region) ?
		      copy_held(peer, region, at, &piece, last) : EACCES;
	hazard_end(peer->hazards, hazard);
	return err;
}

/* Fill @to from @offset of the data, which lies in one or more pieces of the sender. */
static int fetch_copy_piece(struct peer *peer, uint64_t offset, const struct iovec *to, bool there,
			    bool last)
{
	const struct fetch_job *job = &peer->job;
	uint8_t *at = to->iov_base;
	size_t left = to->iov_len;
	unsigned i;
	int err = 0;

	for (i = 0; i < job->message.piece_count && left && !err; i++) {
		const struct message_piece *source = &job->source[i];
		size_t part;

		if (offset >= source->length) {
			offset -= source->length;
			continue;
		}
		part = source->length - offset < left ? source->length - offset : left;
		err = copy_stretch(peer, source->region, source->address + offset, at, part, there,
				   last && part == left);
		at += part;
		left -= part;
		offset = 0;
	}
	return err ? err : left ? EPROTO : 0;
}

static bool copy_all(const struct local *local, struct peer *peer)
{
	const struct message_fetch *fetch = &peer->job.fetch;
	uint64_t offset = fetch->offset;
	unsigned i;

	for (i = 0; i < fetch->pieces; i++) {
		if (fetch_copy_piece(peer, offset, &fetch->piece[i],
				     mr_access_in_block(local->mrs, &fetch->access[i]),
				     fetch->last && i == fetch->pieces - 1))
			return false;
		offset += fetch->piece[i].iov_len;
	}
	/* If the sender gave up meanwhile, its application may have overwritten the data. */
	atomic_thread_fence(memory_order_seq_cst);	/* F10 */
	return sender_holds(peer);
}

/* ---- before and after ---- */

/* Is the grant that the message named still the QP's current one? */
static bool is_still_granted(const struct qp *qp, const struct fetch_job *job) REQUIRES(qp->lock)
{
	return qp->pairing.ours == job->message.grant;
}

/* Locate the destination of the next part, and hold its memory. */
static bool fetch_begin(struct local *local, struct peer *peer)
{
	struct fetch_job *job = &peer->job;
	struct qp *qp = NULL;
	bool begun = false;

	progress_take(local);
	if (atomic_load(&peer->life) == job->life)
		qp = local->ops->find_qp(local->owner, job->qpn);
	if (qp) {
		lock_acquire(&qp->lock);
		begun = is_still_granted(qp, job) &&
			transport_fetch_begin(qp, &job->message, &job->fetch);
		lock_release(&qp->lock);
	}
	progress_drop(local);
	return begun;
}

/* Execute what was copied; answer, or go on with the next part, if the channel is still the same. */
static void fetch_finish(struct local *local, struct peer *peer, bool copied)
{
	struct ring_message message = { .channel = peer->channel };
	enum message_fate fate = MESSAGE_REFUSED;
	struct fetch_job *job = &peer->job;
	struct effects effects;
	const struct cq *cq;
	bool granted = false;
	struct qp *qp;

	effects_init(&effects);
	progress_take(local);
	qp = local->ops->find_qp(local->owner, job->qpn);
	if (qp) {
		lock_acquire(&qp->lock);
		granted = is_still_granted(qp, job);
		cq = transport_message_cq(qp, &job->message);
		if (granted)
			fate = transport_fetched(qp, &job->message, &job->fetch, copied,
						 cq && cq->stamped ? clock_now_ns() : 0, &effects);
		lock_release(&qp->lock);
	}
	if (!granted)
		transport_fetch_drop(&job->fetch);
	if (atomic_load(&peer->life) != job->life) {
		atomic_store(&job->state, JOB_NONE);
		ring_unhold(local->channel_link, peer->channel);
	} else if (fate == MESSAGE_FETCH) {
		ring_note_progress(local->channel_link, &message);
		atomic_store(&job->state, JOB_DUE);
		atomic_fetch_add(&local->fetches_due, 1);
	} else {
		atomic_store(&job->state, JOB_NONE);
		ring_finish(local->channel_link, &message, fate == MESSAGE_REFUSED);
		ring_notify_answers(local->channel_link);
	}
	local->ops->defer(local->owner, &effects);
	progress_drop(local);
	/*
	 * The worker may have fallen asleep while the ring was held, and this thread may not come
	 * again.
	 */
	if (local_pending(local))
		local->ops->notice(local->owner, 0);
}

APART bool local_fetch(struct local *local)
{
	unsigned i, count;
	bool any = false;

	if (!atomic_load_explicit(&local->fetches_due, memory_order_relaxed))
		return false;
	count = ring_channels(local->channel_link);
	for (i = 0; i < count; i++) {
		struct peer *peer = atomic_load(&local->peers->peer[i]);
		int due = JOB_DUE;

		any |= peer && commit_run(local, peer);
		if (!peer || !atomic_compare_exchange_strong(&peer->job.state, &due, JOB_RUNNING))
			continue;
		atomic_fetch_sub(&local->fetches_due, 1);
		fetch_finish(local, peer, fetch_begin(local, peer) && copy_all(local, peer));
		any = true;
	}
	return any;
}
