/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * RDMA WRITE and READ by one copy: a plain one where the peer's region is mapped here (mapping.h), else
 * one between address spaces; and atomics on mapped regions. The checks are the responder's, on the
 * region table and QP states in the peer's arena, made by us; the target's threads take no part.
 *
 *	hazard published -> QP state, key, bounds, rights -> copy -> hazard withdrawn -> completion
 *
 * Any objection leaves the request to the transport, which sends it as packets and gets the
 * answer (a NAK, an error of the peer's QP) that the specification names.
 */
#include "hca/direct.h"

#include <errno.h>
#include <string.h>

#include "base/copy.h"
#include "base/log.h"
#include "hca/foreign.h"
#include "hca/limits.h"
#include "hca/message.h"
#include "object/mr_internal.h"
#include "platform/clock.h"
#include "transport/direct.h"
#include "transport/message.h"

#define LOCKED_BYTES_MAX 16384u		/* longer copies are made without the QP's lock */
#define RUN_MAX 64u			/* requests in a row, before others have a turn */

/* One request under way. */
struct transfer {
	struct hca *hca;
	struct qp *qp;
	struct peer *peer;
	enum ibv_wr_opcode opcode;
	unsigned need;			/* right at the peer */
	bool soon;			/* not yet, but after the first packet */
	uint8_t *mapped;		/* the peer's memory, here; NULL: not mapped */
	uint32_t length, remote_qpn, rkey, number;
	uint64_t remote, host;
	unsigned grants, pieces;
	struct mr_grant grant[LIMIT_SGE];
	struct iovec piece[LIMIT_SGE + 1];	/* the first is for the guard */
};
_Static_assert(LIMIT_SGE + 1 <= PROCESS_PIECES_MAX, "all pieces of a request in one call");

/* ---- the other end ---- */

/* Their QP is connected to ours, in a state to answer, and lets requests of this kind in. */
static bool is_ready(const struct transfer *transfer, const struct qp_access *access)
{
	uint32_t state = atomic_load_explicit(&access->state, memory_order_seq_cst);

	return atomic_load_explicit(&access->qpn, memory_order_seq_cst) == transfer->remote_qpn &&
	       (state == IBV_QPS_RTS || state == IBV_QPS_SQD || state == IBV_QPS_RTR) &&
	       access->dest_qpn == transfer->qp->number && access->type == IBV_QPT_RC &&
	       (!transfer->length ||
		(atomic_load_explicit(&access->access, memory_order_relaxed) & transfer->need));
}

static bool is_allowed(struct transfer *transfer)
{
	const struct qp_access *access = foreign_qp(transfer->peer, transfer->remote_qpn);
	struct mr_asker asker = { .qpn = transfer->remote_qpn };

	if (!access || !is_ready(transfer, access))
		return false;
	/* In RTR the first packet raises an event (COMM_EST): so the first request is one. */
	if (atomic_load_explicit(&access->state, memory_order_relaxed) == IBV_QPS_RTR &&
	    !atomic_load_explicit(&access->established, memory_order_acquire)) {
		transfer->soon = true;
		return false;
	}
	asker.pd = access->pd;
	return !transfer->length ||
	       mr_check_foreign(transfer->peer->mr, &asker, transfer->rkey,
				transfer->need, transfer->remote, transfer->length, &transfer->host) == MR_OK;
}

/* ---- this end ---- */

static void release_local(struct transfer *transfer)
{
	while (transfer->grants)
		mr_release(&transfer->grant[--transfer->grants]);
}

static bool grant_local(struct transfer *transfer, const struct send_wqe *wqe)
{
	struct mr_asker asker = { .pd = transfer->qp->pd->number, .qpn = transfer->qp->number };
	unsigned need = transfer->opcode == IBV_WR_RDMA_WRITE ? 0 : IBV_ACCESS_LOCAL_WRITE, i;

	if (wqe->flags & IBV_SEND_INLINE) {
		transfer->piece[transfer->pieces++] = (struct iovec){
			.iov_base = (void *)wqe->inline_data, .iov_len = wqe->length };
		return true;
	}
	for (i = 0; i < wqe->sge_count; i++) {
		const struct ibv_sge *sge = &wqe->sge[i];
		struct mr_grant *grant = &transfer->grant[transfer->grants];

		if (!sge->length)
			continue;
		if (mr_grant(&transfer->hca->mrs, &asker, sge->lkey, need, sge->addr, sge->length,
			     grant) != MR_OK) {
			release_local(transfer);
			return false;
		}
		transfer->grants++;
		transfer->piece[transfer->pieces++] = (struct iovec){ .iov_base = grant->host,
								      .iov_len = sge->length };
	}
	return true;
}

/* ---- one request ---- */

static int copy_mapped(struct transfer *transfer)
{
	uint8_t *at = transfer->mapped;
	unsigned i;
	int err = 0;

	for (i = 1; i < transfer->pieces && !err; i++) {
		const struct iovec *piece = &transfer->piece[i];

		bool in = transfer->opcode == IBV_WR_RDMA_READ;
		void *to = in ? piece->iov_base : at;
		const void *from = in ? at : piece->iov_base;

		err = i == transfer->pieces - 1 ? copy_user_ordered(to, from, piece->iov_len) :
						  copy_user(to, from, piece->iov_len);
		at += piece->iov_len;
	}
	return err;
}

static int run_atomic(struct transfer *transfer, const struct send_wqe *wqe)
{
	uint64_t original;
	int err;

	if (!transfer->mapped || (uintptr_t)transfer->mapped & 7 || transfer->pieces != 2)
		return EOPNOTSUPP;
	if (wqe->opcode == IBV_WR_ATOMIC_CMP_AND_SWP)
		err = user_compare_swap(transfer->mapped, wqe->compare_add, wqe->swap, &original);
	else
		err = user_fetch_add(transfer->mapped, wqe->compare_add, &original);
	/* Done is done: memory of our own that is gone cannot make it undone. */
	if (!err && copy_user(transfer->piece[1].iov_base, &original, sizeof(original)))
		log_warn("the result of an atomic has no place to go: unmapped memory");
	return err;
}

static bool move(struct transfer *transfer, const struct send_wqe *wqe)
{
	int err;

	if (!transfer->length)
		return true;
	transfer->mapped = foreign_find(transfer->peer, transfer->rkey, transfer->host,
					transfer->length);
	if (transfer->need == IBV_ACCESS_REMOTE_ATOMIC)
		err = run_atomic(transfer, wqe);
	else if (transfer->mapped)
		err = copy_mapped(transfer);
	else if (!transfer->peer->direct)
		err = EOPNOTSUPP;
	else if (transfer->opcode == IBV_WR_RDMA_WRITE)
		err = process_memory_write(&transfer->peer->memory, transfer->piece, transfer->pieces,
					   transfer->host);
	else
		err = process_memory_read(&transfer->peer->memory, transfer->piece, transfer->pieces,
					  transfer->host);
	return !err;
}

/* Small ones keep the lock: giving it back and taking it again costs as much as the copy. */
static bool move_unlocked(struct transfer *transfer, const struct send_wqe *wqe) UNCHECKED_LOCKS
{
	bool apart = transfer->length > LOCKED_BYTES_MAX, moved;

	if (apart)
		lock_release(&transfer->qp->lock);
	moved = move(transfer, wqe);
	if (apart)
		lock_acquire(&transfer->qp->lock);
	return moved;
}

static bool carry_out(struct transfer *transfer, const struct send_wqe *wqe)
{
	struct peer_use use;
	bool done = false;

	transfer->peer = peer_enter(transfer->hca, SLOT_OF_QPN(transfer->remote_qpn), transfer->rkey,
				    transfer->remote_qpn, &use);
	if (!transfer->peer)
		return false;
	if (is_allowed(transfer) && grant_local(transfer, wqe)) {
		done = move_unlocked(transfer, wqe);
		release_local(transfer);
	}
	peer_leave(&use);
	return done;
}

/* Is the request still there? Without the lock the QP may have failed and flushed it. */
static bool is_current(const struct transfer *transfer)
{
	const struct qp *qp = transfer->qp;

	return qp->state == IBV_QPS_RTS && qp->sq.tail == transfer->number &&
	       qp->sq.tail != qp->sq.head;
}

static enum counter counter_of(unsigned need)
{
	return need == IBV_ACCESS_REMOTE_WRITE ? COUNTER_DIRECT_WRITE :
	       need == IBV_ACCESS_REMOTE_READ  ? COUNTER_DIRECT_READ : COUNTER_DIRECT_ATOMIC;
}

/* What it moves, and where to. */
static void begin(struct transfer *transfer, struct hca *hca, struct qp *qp,
		  const struct send_wqe *wqe) REQUIRES(qp->lock)
{
	transfer->hca = hca;
	transfer->qp = qp;
	transfer->opcode = wqe->opcode;
	transfer->need = transfer->opcode == IBV_WR_RDMA_WRITE ? IBV_ACCESS_REMOTE_WRITE :
			 transfer->opcode == IBV_WR_RDMA_READ  ? IBV_ACCESS_REMOTE_READ :
								 IBV_ACCESS_REMOTE_ATOMIC;
	transfer->length = wqe->length;
	transfer->remote_qpn = qp->attr.dest_qp_num;
	transfer->rkey = wqe->rkey;
	transfer->remote = wqe->remote_address;
	transfer->number = qp->sq.tail;
	transfer->soon = false;
	transfer->grants = 0;
	transfer->pieces = 1;
}

static bool run_one(struct hca *hca, struct qp *qp, const struct send_wqe *wqe,
		    struct effects *effects) REQUIRES(qp->lock)
{
	struct transfer transfer;
	bool done;

	begin(&transfer, hca, qp, wqe);
	done = carry_out(&transfer, wqe);
	transport_direct_prefer(qp, done || transfer.soon);
	if (!done || !is_current(&transfer))
		return false;
	counter_add(hca->counters, counter_of(transfer.need), 1);
	transport_direct_done(qp, qp->send_cq->stamped ? clock_now_ns() : 0, effects);
	return true;
}

/* One request without packets, of either kind. False: none, or it has to wait, or needs packets. */
static bool run_next(struct hca *hca, struct qp *qp, struct effects *effects) REQUIRES(qp->lock)
{
	const struct send_wqe *wqe = transport_tell_next(qp);

	if (wqe)
		return message_tell(hca, qp, wqe);
	wqe = transport_direct_next(qp);
	return wqe && run_one(hca, qp, wqe, effects);
}

void direct_run(struct hca *hca, struct qp *qp, struct effects *effects)
{
	unsigned n;

	if (!hca->direct || !qp->av.loopback)
		return;
	for (n = 0; n < RUN_MAX && !effects_full(effects); n++)
		if (!run_next(hca, qp, effects))
			break;
	if (qp->requester.told)
		message_await(hca, qp);
}

bool direct_posted(struct hca *hca, struct qp *qp, struct effects *effects)
{
	bool again;

	if (!hca->direct || !qp->av.loopback || qp->pumping)
		return true;
	qp->pumping = true;
	direct_run(hca, qp, effects);
	qp->pumping = false;
	again = qp->pump_again;
	qp->pump_again = false;
	return again || transport_ready(qp);
}
