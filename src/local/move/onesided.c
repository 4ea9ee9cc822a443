/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * RDMA WRITE, READ and atomics, executed by the requester: a plain copy, load or store where the
 * peer's block is mapped here, else one copy between address spaces. The checks are the
 * responder's, on memory that the owner has granted (pairing.c); the peer's threads take no part.
 *
 *	agreed? key known? rights, bounds -> hazard -> both grants alive -> copy -> hazard ends
 *	-> completion
 *
 * Requests in a row to one region, from one region, keep the hazard and the access to our own region
 * from one to the next (struct onesided_row): the checks are made for each, the locked instructions once.
 *
 * Copies that take a system call, or are longer than a packet, are made without the QP's lock, and
 * never with the progress lock. Our pages are made present before the hazard is published, so that
 * the owner does not wait for our page faults; those of our blocks are taken to be there when no
 * kernel copies them (make_present).
 *
 * On any objection the transport sends the request as packets, and gets the answer (a NAK, an error
 * of the peer's QP) that the specification requires.
 */
#include "local/move/internal.h"

#include <errno.h>
#include <string.h>

#include "base/copy.h"
#include "base/log.h"
#include "object/mr.h"
#include "platform/clock.h"
#include "trace/trace.h"
#include "transport/direct.h"

#define LOCKED_BYTES_MAX 4096u		/* longer copies are made without the QP's lock */
#define SGES_MAX 32u
#define PAGE_BYTES 4096u

/* One request under way. */
struct transfer {
	struct local *local;
	struct qp *qp;
	struct peer *peer;
	uint32_t life;			/* of the channel */
	struct peer_region region;	/* at the peer */
	enum ibv_wr_opcode opcode;
	unsigned need;			/* right at the peer */
	uint8_t *mapped;		/* the peer's memory, here; NULL: not mapped */
	bool asked;			/* the region was asked for, no answer yet */
	uint32_t length, number;
	uint64_t remote;
	uint64_t original;		/* what an atomic has found */
	unsigned accesses, pieces;
	struct mr_access access[SGES_MAX];
	struct iovec piece[SGES_MAX];
	uint32_t theirs;		/* the peer's grant of its QP */
	uint32_t pd;			/* that the request is executed in */
	bool apart;			/* moved without the QP's lock */
	struct onesided_row *row;	/* what it holds may be kept here */
};
_Static_assert(SGES_MAX <= PROCESS_PIECES_MAX, "all pieces of a request in one call");

/* ---- the other end ---- */

static bool has_rights(const struct peer_region *region, const struct pairing *pairing,
		       uint32_t pd, unsigned need, uint64_t remote, uint32_t length)
{
	uint64_t offset = remote - region->start;

	return region->pd == pd && (region->access & need) && (pairing->access & need) &&
	       remote >= region->start && offset <= region->length && length <= region->length - offset;
}

/* The peer's region, if the key is known and gives the right; else it is asked for. */
static bool find_region(struct transfer *transfer, struct qp *qp, const struct send_wqe *wqe)
	REQUIRES(qp->lock)
{
	transfer->region.id = 0;
	transfer->mapped = NULL;
	if (!pairing_find_pd(transfer->local, qp, transfer->peer, wqe, &transfer->pd, &transfer->asked))
		return false;
	if (!transfer->length)
		return true;
	if (!peer_region_find(transfer->peer->regions, wqe->rkey, &transfer->region)) {
		transfer->asked = pairing_ask_key(transfer->local, qp, transfer->peer, wqe);
		return false;
	}
	if (!has_rights(&transfer->region, &qp->pairing, transfer->pd, transfer->need, transfer->remote,
			transfer->length) ||
	    commit_meets(transfer->peer, transfer->region.host + (transfer->remote - transfer->region.start),
			 transfer->length))
		return false;
	if (transfer->region.mapped &&
	    (transfer->region.writable || transfer->need == IBV_ACCESS_REMOTE_READ))
		transfer->mapped = transfer->region.mapped +
				   (transfer->remote - transfer->region.start);
	return true;
}

/* ---- this end ---- */

static void access_local_end(struct transfer *transfer)
{
	while (transfer->accesses)
		mr_access_end(&transfer->access[--transfer->accesses]);
}

static bool access_local_begin(struct transfer *transfer, const struct send_wqe *wqe)
{
	struct mr_accessor accessor = { .pd = qp_send_pd(transfer->qp), .qpn = transfer->qp->number };
	unsigned need = transfer->opcode == IBV_WR_RDMA_WRITE ? 0 : IBV_ACCESS_LOCAL_WRITE, i;

	if (wqe->flags & IBV_SEND_INLINE) {
		transfer->piece[transfer->pieces++] = (struct iovec){
			.iov_base = (void *)wqe->inline_data, .iov_len = wqe->length };
		return true;
	}
	for (i = 0; i < wqe->sge_count; i++) {
		const struct ibv_sge *sge = &wqe->sge[i];
		struct mr_access *access = &transfer->access[transfer->accesses];

		if (!sge->length)
			continue;
		if (mr_access_begin(transfer->local->mrs, &accessor, sge->lkey, need, sge->addr,
				    sge->length, access) != MR_OK) {
			access_local_end(transfer);
			return false;
		}
		transfer->accesses++;
		transfer->piece[transfer->pieces++] = (struct iovec){ .iov_base = access->host,
								      .iov_len = sge->length };
	}
	return true;
}

/* ---- a row of requests ---- */

/*
 * Takes over the hazard and the access, if what the request holds is worth keeping: it was short and mapped,
 * and another one follows.
 */
static bool row_begin(struct onesided_row *row, struct transfer *transfer,
		      const struct send_wqe *wqe, unsigned hazard)
{
	uintptr_t piece = (uintptr_t)transfer->piece[0].iov_base;
	struct qp *qp = transfer->qp;

	if (transfer->apart)
		return false;
	lock_assert_held(&qp->lock);
	if (!transfer->mapped || (wqe->sge_count != 1 && !(wqe->flags & IBV_SEND_INLINE)) ||
	    transfer->need == IBV_ACCESS_REMOTE_ATOMIC || qp->sq.head - qp->sq.tail <= 1)
		return false;
	row->peer = transfer->peer;
	row->region = transfer->region;
	row->life = transfer->life;
	row->theirs = transfer->theirs;
	row->need = transfer->need;
	row->hazard = hazard;
	row->srqn = wqe->remote_srqn;
	row->lkey = 0;
	if (!transfer->accesses)
		return true;
	row->access = transfer->access[0];
	row->lkey = wqe->sge[0].lkey;
	row->present = piece & ~(uintptr_t)(PAGE_BYTES - 1);
	row->present_end = (piece + transfer->length + PAGE_BYTES - 1) & ~(uintptr_t)(PAGE_BYTES - 1);
	transfer->accesses = 0;
	return true;
}

void onesided_row_end(struct onesided_row *row)
{
	if (!row->peer)
		return;
	hazard_end(row->peer->hazards, row->hazard);
	if (row->lkey)
		mr_access_end(&row->access);
	row->peer = NULL;
}

static bool row_fits(const struct onesided_row *row, const struct qp *qp, const struct send_wqe *wqe)
	REQUIRES(qp->lock)
{
	bool is_inline = wqe->flags & IBV_SEND_INLINE;

	return row->peer && !atomic_load_explicit(&row->peer->committed, memory_order_relaxed) &&
	       row->region.key == wqe->rkey && row->srqn == wqe->remote_srqn &&
	       row->need == wr_row(wqe->opcode)->right && row->theirs == qp->pairing.theirs &&
	       wqe->length && wqe->length <= LOCKED_BYTES_MAX &&
	       (is_inline ? !row->lkey : wqe->sge_count == 1 && row->lkey == wqe->sge[0].lkey);
}

/* False: the request needs a look of its own. */
static bool row_move(struct onesided_row *row, const struct qp *qp, const struct send_wqe *wqe)
{
	struct mr_accessor accessor = { .pd = qp_send_pd(qp), .qpn = qp->number };
	unsigned need = row->need == IBV_ACCESS_REMOTE_WRITE ? 0 : IBV_ACCESS_LOCAL_WRITE;
	const struct peer_region *region = &row->region;
	uint64_t offset = wqe->remote_address - region->start;
	uint8_t *piece = (uint8_t *)wqe->inline_data, *at = region->mapped + offset;

	if (wqe->remote_address < region->start || offset > region->length ||
	    wqe->length > region->length - offset)
		return false;
	if (row->lkey) {
		if (mr_access_move(&row->access, &accessor, row->lkey, need, wqe->sge[0].addr, wqe->length) !=
		    MR_OK)
			return false;
		piece = row->access.host;
		if ((uintptr_t)piece < row->present || (uintptr_t)piece + wqe->length > row->present_end)
			return false;
	}
	if (atomic_load(&row->peer->life) != row->life ||
	    !grant_is_alive(row->peer->alive, row->theirs) ||
	    !peer_region_holds(row->peer->regions, region))
		return false;
	return row->need == IBV_ACCESS_REMOTE_READ ? !copy_user_ordered(piece, at, wqe->length) :
						     !copy_user_ordered(at, piece, wqe->length);
}

/* ---- one request ---- */

static int copy_mapped(struct transfer *transfer)
{
	bool in = transfer->opcode == IBV_WR_RDMA_READ;
	uint8_t *at = transfer->mapped;
	unsigned i;
	int err = 0;

	for (i = 0; i < transfer->pieces && !err; i++) {
		const struct iovec *piece = &transfer->piece[i];
		void *to = in ? piece->iov_base : at;
		const void *from = in ? at : piece->iov_base;

		err = i == transfer->pieces - 1 ? copy_user_ordered(to, from, piece->iov_len) :
						  copy_user(to, from, piece->iov_len);
		at += piece->iov_len;
	}
	return err;
}

static int onesided_run_atomic(struct transfer *transfer, const struct send_wqe *wqe)
{
	uint64_t original = 0;
	int err;

	if (!transfer->mapped || (uintptr_t)transfer->mapped & 7 || transfer->pieces != 1)
		return EOPNOTSUPP;
	if (wqe->opcode == IBV_WR_ATOMIC_CMP_AND_SWP)
		err = user_compare_swap(transfer->mapped, wqe->compare_add, wqe->swap, &original);
	else
		err = user_fetch_add(transfer->mapped, wqe->compare_add, &original);
	transfer->original = original;
	/* The atomic is done, even if our own memory for its result is gone. */
	if (!err && copy_user(transfer->piece[0].iov_base, &original, sizeof(original)))
		log_warn("the result of an atomic is lost: its local memory is no longer mapped");
	return err;
}

static bool onesided_move(struct transfer *transfer, const struct send_wqe *wqe)
{
	uint64_t host = transfer->region.host + (transfer->remote - transfer->region.start);
	int err;

	if (!transfer->length)
		return true;
	if (transfer->need == IBV_ACCESS_REMOTE_ATOMIC)
		err = onesided_run_atomic(transfer, wqe);
	else if (transfer->mapped)
		err = copy_mapped(transfer);
	else if (transfer->opcode == IBV_WR_RDMA_WRITE)
		err = process_memory_write(&transfer->peer->memory, transfer->piece, transfer->pieces,
					   host);
	else
		err = process_memory_read(&transfer->peer->memory, transfer->piece, transfer->pieces,
					  host);
	return !err;
}

/*
 * Fault in our own pages beforehand. The transport explains a page that is not mapped. Those of a
 * block, which is never copied on write, are there unless they have never been used: to touch each
 * would take a fifth of the time of a large READ. The kernel's copies find them touched in any case.
 */
static bool make_present(struct transfer *transfer)
{
	bool in = transfer->opcode != IBV_WR_RDMA_WRITE;
	unsigned i;
	int err = 0;

	for (i = 0; i < transfer->pieces && !err; i++) {
		if (transfer->mapped && mr_access_in_block(transfer->local->mrs, &transfer->access[i]))
			continue;
		err = in ? user_touch_write(transfer->piece[i].iov_base, transfer->piece[i].iov_len) :
			   user_touch(transfer->piece[i].iov_base, transfer->piece[i].iov_len);
	}
	return !err;
}

static bool move_with_hazard(struct transfer *transfer, const struct send_wqe *wqe)
{
	const struct peer *peer = transfer->peer;
	unsigned hazard;
	bool moved;

	/* Inline data is in the queue, and always present. */
	if (!(wqe->flags & IBV_SEND_INLINE) && !make_present(transfer))
		return false;
	if (!hazard_begin(peer->hazards, transfer->region.id, transfer->theirs, transfer->number, &hazard))
		return false;
	/* With the hazard published: the channel is the same, and neither grant has ended. */
	moved = atomic_load(&peer->life) == transfer->life &&
		grant_is_alive(peer->alive, transfer->theirs) &&
		(!transfer->length || peer_region_holds(peer->regions, &transfer->region)) &&
		onesided_move(transfer, wqe);
	if (!moved || !row_begin(transfer->row, transfer, wqe, hazard))
		hazard_end(peer->hazards, hazard);
	return moved;
}

static bool carry_out(struct transfer *transfer, struct qp *qp, const struct send_wqe *wqe)
	REQUIRES(qp->lock)
{
	bool done;

	transfer->theirs = qp->pairing.theirs;
	if (!find_region(transfer, qp, wqe))
		return false;
	/* Is the peer's memory accessible at all? */
	if (transfer->length && !transfer->mapped &&
	    (transfer->need == IBV_ACCESS_REMOTE_ATOMIC || !peer_both_copy(transfer->local, transfer->peer)))
		return false;
	if (!access_local_begin(transfer, wqe))
		return false;
	transfer->apart = transfer->length > LOCKED_BYTES_MAX || (transfer->length && !transfer->mapped);
	if (transfer->apart) {
		lock_release(&qp->lock);
		done = move_with_hazard(transfer, wqe);
		lock_acquire(&qp->lock);
	} else {
		done = move_with_hazard(transfer, wqe);
	}
	access_local_end(transfer);
	/* The region may be another one by now (ibv_rereg_mr). */
	if (!done && transfer->length)
		transfer->asked = pairing_ask_key(transfer->local, qp, transfer->peer, wqe);
	return done;
}

/*
 * Note the request's opcode, right, length and target. False: no memory is shared with that peer.
 */
static bool transfer_begin(struct transfer *transfer, struct local *local, struct qp *qp,
			   const struct send_wqe *wqe) REQUIRES(qp->lock)
{
	transfer->local = local;
	transfer->qp = qp;
	transfer->asked = false;
	transfer->peer = peer_of_slot(local, qpn_slot(qp->attr.dest_qp_num));
	if (!transfer->peer)
		return false;
	transfer->life = atomic_load_explicit(&transfer->peer->life, memory_order_acquire);
	transfer->opcode = wqe->opcode;
	transfer->need = wr_row(wqe->opcode)->right;
	transfer->length = wqe->length;
	transfer->remote = wqe->remote_address;
	transfer->number = qp->sq.tail;
	transfer->original = 0;
	transfer->accesses = 0;
	transfer->pieces = 0;
	return true;
}

static bool onesided_complete(struct local *local, struct qp *qp, unsigned need, uint64_t original, bool mapped,
			      struct effects *effects) REQUIRES(qp->lock)
{
	counter_add(local->counters, need == IBV_ACCESS_REMOTE_WRITE  ? COUNTER_LOCAL_WRITE
				     : need == IBV_ACCESS_REMOTE_READ ? COUNTER_LOCAL_READ
								      : COUNTER_LOCAL_ATOMIC, 1);
	if (trace_wants(TRACE_PACKETS | TRACE_LOG))
		trace_direct(qp, send_queue_at(&qp->sq, qp->sq.tail), original, mapped);
	transport_direct_done(qp, NULL, qp->send_cq->stamped ? clock_now_ns() : 0, effects);
	return true;
}

bool onesided_run(struct local *local, struct qp *qp, const struct send_wqe *wqe,
		  struct onesided_row *row, struct effects *effects)
{
	struct transfer transfer;
	bool done;

	if (row_fits(row, qp, wqe) && row_move(row, qp, wqe))
		return onesided_complete(local, qp, row->need, 0, true, effects);
	onesided_row_end(row);
	transfer.row = row;
	done = transfer_begin(&transfer, local, qp, wqe) &&
	       pairing_establish(local, qp, transfer.peer) && carry_out(&transfer, qp, wqe);

	pairing_judge(qp, done ? PAIRING_DONE : transfer.asked ? PAIRING_WAITS : PAIRING_OBJECTS);
	/* Is the request still there? Without the lock the QP may have failed and flushed it. */
	if (!done || qp->state != IBV_QPS_RTS || qp->sq.tail != transfer.number || qp->sq.tail == qp->sq.head)
		return false;
	return onesided_complete(local, qp, transfer.need, transfer.original, transfer.mapped || !transfer.length,
				 effects);
}

/* ---- by a shortcut ---- */

/* What a region has to be for the WRITEs of @qp, whatever bytes of it they name, is asked once. */
static bool target_find(struct qp *qp, const struct peer *peer, uint32_t rkey) REQUIRES(qp->lock)
{
	struct peer_region region;

	if (!peer_region_find(peer->regions, rkey, &region) || !region.mapped || !region.writable ||
	    !has_rights(&region, &qp->pairing, qp->pairing.pd, IBV_ACCESS_REMOTE_WRITE, region.start, 0))
		return false;
	qp_notes(qp)->target = (struct shortcut_target){ .rkey = rkey, .id = region.id, .version = region.version,
					       .start = region.start, .length = region.length,
					       .host = region.host, .mapped = region.mapped };
	return true;
}

/* Such a WRITE: where it goes, and how much of it. */
struct short_write {
	uint64_t remote;
	uint32_t rkey, length;
};

/* With our memory held, and present. */
static bool write_with_hazard(struct local *local, struct qp *qp, const struct peer *peer,
			      const struct short_write *write, const void *from) REQUIRES(qp->lock)
{
	const struct shortcut_target *to = &qp_notes(qp)->target;
	unsigned hazard;
	bool done;

	if (!hazard_begin(peer->hazards, to->id, qp->pairing.theirs, qp->sq.tail, &hazard))
		return false;
	/* Moved behind the end of a channel, before its memory is unmapped: as peer->life. */
	done = atomic_load(&local->epoch) == qp->shortcut && grant_is_alive(peer->alive, qp->pairing.theirs) &&
	       peer_version_holds(peer->regions, to->id, to->version) &&
	       !copy_user_ordered(to->mapped + (write->remote - to->start), from, write->length);
	hazard_end(peer->hazards, hazard);
	return done;
}

/* Is it wholly in the region that the shortcut has as its target? */
static bool target_has(const struct shortcut_target *target, const struct short_write *write)
{
	uint64_t offset = write->remote - target->start;

	return target->rkey == write->rkey && offset <= target->length && write->length <= target->length - offset;
}

static bool target_is_found(struct qp *qp, const struct peer *peer, const struct short_write *write)
	REQUIRES(qp->lock)
{
	const struct shortcut_target *target = &qp_notes(qp)->target;

	return write->length &&
	       (target_has(target, write) || (target_find(qp, peer, write->rkey) && target_has(target, write))) &&
	       !commit_meets(peer, target->host + (write->remote - target->start), write->length);
}

bool onesided_write_inline(struct local *local, struct qp *qp, struct peer *peer, const struct send_wqe *wqe,
			   struct effects *effects)
{
	const struct short_write write = { wqe->remote_address, wqe->rkey, wqe->length };

	return target_is_found(qp, peer, &write) && write_with_hazard(local, qp, peer, &write, wqe->inline_data) &&
	       onesided_complete(local, qp, IBV_ACCESS_REMOTE_WRITE, 0, true, effects);
}

bool onesided_write_at_once(struct local *local, struct qp *qp, struct peer *peer, const struct ibv_send_wr *wr,
			    struct effects *effects)
{
	const struct short_write write = { wr->wr.rdma.remote_addr, wr->wr.rdma.rkey, wr->sg_list->length };
	struct mr_kept *kept = &qp_notes(qp)->source;
	const void *from;
	bool done;

	if (!target_is_found(qp, peer, &write))
		return false;
	from = mr_kept_at(kept, wr->sg_list->lkey, wr->sg_list->addr, write.length);
	if (from) {
		done = (kept->in_block || !user_touch(from, write.length)) &&
		       write_with_hazard(local, qp, peer, &write, from);
	} else {
		const struct mr_accessor accessor = { .pd = qp_send_pd(qp), .qpn = qp->number };
		struct mr_access access;

		if (mr_access_begin(local->mrs, &accessor, wr->sg_list->lkey, 0, wr->sg_list->addr, write.length,
				    &access) != MR_OK)
			return false;
		done = (mr_access_in_block(local->mrs, &access) || !user_touch(access.host, write.length)) &&
		       write_with_hazard(local, qp, peer, &write, access.host);
		mr_keep(local->mrs, &access, qp->number, kept);
		mr_access_end(&access);
	}
	if (!done)
		return false;
	counter_add(local->counters, COUNTER_LOCAL_WRITE, 1);
	transport_direct_done(qp, wr, qp->send_cq->stamped ? clock_now_ns() : 0, effects);
	return true;
}
