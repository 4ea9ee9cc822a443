/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Execution of requests (execute.h): copies between packets or messages and the memory of SGE
 * lists, or that of keys which the peer names. The keys are checked for each packet, so a region
 * that is deregistered in the middle of a message is noticed; a retransmission reads the memory
 * again (IBTA allows both).
 */
#include "transport/execute.h"

#include <errno.h>
#include <string.h>

#include "base/copy.h"

/* Other end of a copy: memory, a message to fetch, or none (check only). */
struct copy_end {
	struct mr_accessor accessor;	/* of the list */
	uint8_t *data;			/* or NULL */
	uint64_t done;			/* bytes of it */
	struct message_fetch *fetch;	/* or NULL */
};

static int sge_copy_end(void *host, struct copy_end *end, uint32_t bytes, unsigned need, bool last)
{
	if (!end->data)
		return 0;
	if (!need)
		return copy_user(end->data + end->done, host, bytes);
	if (last)
		return copy_user_ordered(host, end->data + end->done, bytes);
	return copy_user(host, end->data + end->done, bytes);
}

void fetch_release(struct message_fetch *fetch)
{
	while (fetch->pieces)
		mr_access_end(&fetch->access[--fetch->pieces]);
}

/* One piece of one SGE, to the other end (@need 0) or from it. */
static enum sge_result sge_copy_piece(struct qp_call *call, const struct ibv_sge *sge,
				      uint32_t skip, struct copy_end *end, uint32_t bytes,
				      unsigned need, bool last)
{
	struct mr_table *mrs = call->qp->transport->mrs;
	struct message_fetch *fetch = end->fetch;
	uint64_t address = sge->addr + skip;
	struct mr_access access;
	enum mr_fault fault;
	int err;

	fault = mr_access_begin(mrs, &end->accessor, sge->lkey, need, address, bytes, &access);
	if (fault != MR_OK) {
		if (explain_enabled)
			mr_explain(mrs, &end->accessor, sge->lkey, need, address, bytes, fault,
				   call->why, sizeof(call->why));
		return SGE_PROTECTION;
	}
	if (fetch) {
		if (fetch->pieces == MESSAGE_PIECES_MAX) {	/* more than any list has */
			mr_access_end(&access);
			return SGE_PROTECTION;
		}
		fetch->piece[fetch->pieces] = (struct iovec){ .iov_base = access.host, .iov_len = bytes };
		fetch->access[fetch->pieces++] = access;
		return SGE_OK;
	}
	err = sge_copy_end(access.host, end, bytes, need, last);
	mr_access_end(&access);
	if (!err)
		return SGE_OK;
	set_reason(call,
		   "memory at 0x%llx (%u bytes, lkey 0x%08x) is registered but no longer mapped",
		   (unsigned long long)address, bytes, sge->lkey);
	return SGE_PROTECTION;
}

static enum sge_result sge_walk(struct qp_call *call, const struct ibv_sge *sge, uint32_t sge_count,
				uint64_t offset, struct copy_end *end, uint32_t bytes,
				unsigned need, bool last)
{
	uint32_t i;

	for (i = 0; bytes && i < sge_count; i++) {
		uint32_t piece;

		if (offset >= sge[i].length) {
			offset -= sge[i].length;
			continue;
		}
		piece = sge[i].length - (uint32_t)offset;
		if (piece > bytes)
			piece = bytes;
		if (sge_copy_piece(call, &sge[i], (uint32_t)offset, end, piece, need,
				   last && piece == bytes))
			return SGE_PROTECTION;
		end->done += piece;
		bytes -= piece;
		offset = 0;
	}
	return SGE_OK;
}

/* The list of a request of our own. */
static enum sge_result sge_walk_request(struct qp_call *call, const struct send_wqe *wqe,
					uint64_t offset,
					uint8_t *data, uint32_t bytes, unsigned need, bool last)
{
	struct copy_end end = { .data = data };

	lock_alias(&call->qp->lock);
	end.accessor = send_accessor_of(call->qp);
	return sge_walk(call, wqe->sge, wqe->sge_count, offset, &end, bytes, need, last);
}

enum sge_result sge_gather(struct qp_call *call, const struct send_wqe *wqe, uint64_t offset,
			   uint8_t *out, uint32_t bytes)
{
	if (!bytes)
		return SGE_OK;
	if (wqe->flags & IBV_SEND_INLINE) {
		memcpy(out, wqe->inline_data + offset, bytes);
		return SGE_OK;
	}
	return sge_walk_request(call, wqe, offset, out, bytes, 0, false);
}

bool transport_gather_one(struct qp *qp, const struct send_wqe *wqe, uint8_t *out)
{
	const struct mr_accessor accessor = { .pd = qp->pd->number, .qpn = qp->number };
	struct mr_access access;
	const void *from;
	bool copied;

	if (wqe->flags & IBV_SEND_INLINE)
		memcpy(out, wqe->inline_data, wqe->length);
	if (!wqe->length || wqe->flags & IBV_SEND_INLINE)
		return true;
	from = mr_kept_at(&qp_notes(qp)->source, wqe->sge[0].lkey, wqe->sge[0].addr, wqe->length);
	if (from)
		return !copy_user(out, from, wqe->length);
	if (mr_access_begin(qp->transport->mrs, &accessor, wqe->sge[0].lkey, 0, wqe->sge[0].addr, wqe->length,
			    &access) != MR_OK)
		return false;
	copied = !copy_user(out, access.host, wqe->length);
	mr_keep(qp->transport->mrs, &access, qp->number, &qp_notes(qp)->source);
	mr_access_end(&access);
	return copied;
}

enum sge_result sge_scatter(struct qp_call *call, const struct send_wqe *wqe, uint64_t offset,
			    const uint8_t *data, uint32_t bytes, bool last)
{
	return sge_walk_request(call, wqe, offset, (uint8_t *)(uintptr_t)data, bytes,
				IBV_ACCESS_LOCAL_WRITE, last);
}

enum sge_result sge_check(struct qp_call *call, const struct send_wqe *wqe)
{
	return sge_walk_request(call, wqe, 0, NULL, wqe->length, IBV_ACCESS_LOCAL_WRITE, false);
}

enum sge_result recv_scatter_for(struct qp_call *call, const struct mr_accessor *accessor,
				 const struct recv_wqe *recv, uint64_t offset, const uint8_t *data,
				 uint32_t bytes, bool last)
{
	struct copy_end end = { .accessor = *accessor, .data = (uint8_t *)(uintptr_t)data };

	return sge_walk(call, recv->sge, recv->sge_count, offset, &end, bytes,
			IBV_ACCESS_LOCAL_WRITE, last);
}

enum sge_result recv_scatter(struct qp_call *call, uint64_t offset, const uint8_t *data,
			     uint32_t bytes, bool last)
{
	struct mr_accessor accessor = recv_accessor_of(call->qp);

	return recv_scatter_for(call, &accessor, call->qp->responder.recv, offset, data, bytes,
				last);
}

enum sge_result recv_locate(struct qp_call *call, uint64_t offset, uint32_t bytes,
			    struct message_fetch *fetch)
{
	const struct recv_wqe *recv = call->qp->responder.recv;
	struct copy_end end = { .accessor = recv_accessor_of(call->qp), .fetch = fetch };

	return sge_walk(call, recv->sge, recv->sge_count, offset, &end, bytes,
			IBV_ACCESS_LOCAL_WRITE, false);
}

/* ---- what the peer names by key ---- */

static void execute_explain(struct qp_call *call, const struct mr_accessor *accessor,
			    const struct target *target, enum mr_fault fault)
{
	if (explain_enabled)
		mr_explain(call->qp->transport->mrs, accessor, target->rkey, target->need,
			   target->address, target->bytes, fault, call->why, sizeof(call->why));
}

enum fault execute_begin(struct qp_call *call, const struct target *target)
{
	struct mr_accessor accessor = mr_accessor_of(call->qp);
	enum mr_fault fault;

	if (!target->bytes)
		return FAULT_NONE;
	fault = mr_access_begin(call->qp->transport->mrs, &accessor, target->rkey, target->need,
				target->address, target->bytes, &call->access);
	if (fault != MR_OK) {
		execute_explain(call, &accessor, target, fault);
		return FAULT_ACCESS;
	}
	call->accessing = true;
	return FAULT_NONE;
}

enum fault execute_may(struct qp_call *call, const struct target *target)
{
	struct mr_accessor accessor = mr_accessor_of(call->qp);
	enum mr_fault fault = mr_access_whole(call->qp->transport->mrs, &accessor, target->rkey,
					      target->need);

	if (fault == MR_OK)
		return FAULT_NONE;
	execute_explain(call, &accessor, target, fault);
	return FAULT_ACCESS;
}

void execute_end(struct qp_call *call)
{
	if (call->accessing)
		mr_access_end(&call->access);
	call->accessing = false;
}

enum fault execute_fetch(struct qp_call *call, const struct mr_accessor *accessor,
			 const struct target *target, uint8_t *out)
{
	struct mr_access access;
	enum mr_fault fault;
	int err;

	fault = mr_access_begin(call->qp->transport->mrs, accessor, target->rkey, target->need,
				target->address, target->bytes, &access);
	if (fault != MR_OK) {
		execute_explain(call, accessor, target, fault);
		return FAULT_ACCESS;
	}
	err = copy_user(out, access.host, target->bytes);
	mr_access_end(&access);
	if (!err)
		return FAULT_NONE;
	set_reason(call, "the memory at 0x%llx that the RDMA READ names is no longer mapped",
		   (unsigned long long)target->address);
	return FAULT_MEMORY;
}

/* ---- data of the peer ---- */

enum fault execute_send(struct qp_call *call, const struct payload *payload)
{
	struct responder *responder = &call->qp->responder;

	if (responder->tagged) {
		struct tags_part part = { .data = payload->data, .bytes = payload->bytes };

		if (tags_part(responder, &part) &&
		    recv_scatter(call, part.offset, part.data, part.bytes, payload->last))
			return FAULT_LOCAL_PROTECTION;
		return FAULT_NONE;
	}
	if (recv_scatter(call, responder->received, payload->data, payload->bytes, payload->last))
		return FAULT_LOCAL_PROTECTION;
	responder->received += payload->bytes;
	return FAULT_NONE;
}

void execute_end_row(struct message_row *row)
{
	if (row->lkey)
		mr_access_end(&row->access);
	row->lkey = 0;
}

bool execute_send_in_row(struct message_row *row, const struct recv_wqe *recv, const uint8_t *data,
			 uint32_t bytes)
{
	const struct ibv_sge *sge = recv->sge;
	struct mr_accessor accessor;
	struct qp *qp = row->qp;
	enum mr_fault fault;
	void *to;

	lock_alias(&qp->lock);
	if (!bytes)
		return true;
	if (recv->sge_count != 1 || sge->length < bytes)
		return false;
	to = mr_kept_at(&qp_notes(qp)->receive, sge->lkey, sge->addr, bytes);
	if (to)
		return !copy_user_ordered(to, data, bytes);
	accessor = recv_accessor_of(qp);
	if (row->lkey && row->lkey == sge->lkey) {
		fault = mr_access_move(&row->access, &accessor, sge->lkey, IBV_ACCESS_LOCAL_WRITE,
				       sge->addr, bytes);
	} else {
		execute_end_row(row);
		fault = mr_access_begin(qp->transport->mrs, &accessor, sge->lkey,
					IBV_ACCESS_LOCAL_WRITE, sge->addr, bytes, &row->access);
		row->lkey = fault == MR_OK ? sge->lkey : 0;
		if (fault == MR_OK)
			mr_keep(qp->transport->mrs, &row->access, qp->number, &qp_notes(qp)->receive);
	}
	return fault == MR_OK && !copy_user_ordered(row->access.host, data, bytes);
}

enum fault execute_write(struct qp_call *call, const struct payload *payload)
{
	struct responder *responder = &call->qp->responder;
	int err = 0;

	if (payload->bytes && payload->last)
		err = copy_user_ordered(call->access.host, payload->data, payload->bytes);
	else if (payload->bytes)
		err = copy_user(call->access.host, payload->data, payload->bytes);
	if (err) {
		set_reason(call,
			   "the memory at 0x%llx that the RDMA WRITE names is no longer mapped",
			   (unsigned long long)(responder->write_address + responder->received));
		return FAULT_MEMORY;
	}
	responder->received += payload->bytes;
	return FAULT_NONE;
}

bool execute_locate(struct qp_call *call, const struct target *target, struct message_fetch *fetch)
{
	if (!target)
		return !recv_locate(call, fetch->offset, fetch->bytes, fetch);
	if (execute_begin(call, target))
		return false;
	fetch->access[0] = call->access;
	call->accessing = false;	/* held by the fetch */
	fetch->piece[0] = (struct iovec){
		.iov_base = (uint8_t *)fetch->access[0].host + fetch->offset,
		.iov_len = fetch->bytes };
	fetch->pieces = 1;
	return true;
}

/* ---- atomics, and words that are stored at once ---- */

enum fault execute_atomic(struct qp_call *call, const struct packet *packet, uint64_t *original)
{
	int err;

	if ((uintptr_t)call->access.host & 7) {
		set_reason(call, "atomic on memory at %p, which is not a multiple of 8",
			call->access.host);
		return FAULT_UNALIGNED;
	}
	if ((packet->op->code & OPCODE_OPERATION) == OPCODE_RC_COMPARE_SWAP)
		err = user_compare_swap(call->access.host, packet->atomic.compare,
					packet->atomic.swap_add, original);
	else
		err = user_fetch_add(call->access.host, packet->atomic.swap_add, original);
	if (!err)
		return FAULT_NONE;
	set_reason(call, "the memory of an atomic at 0x%llx is no longer mapped",
		   (unsigned long long)packet->atomic.address);
	return FAULT_MEMORY;
}

/* All eight bytes at once, for whoever reads or changes them meanwhile. */
enum fault execute_word(struct qp_call *call, const struct packet *packet)
{
	uint64_t value, expected, found = 0;
	int err;

	if ((uintptr_t)call->access.host & 7) {
		set_reason(call, "ATOMIC_WRITE to memory at %p, which is not a multiple of 8",
			   call->access.host);
		return FAULT_UNALIGNED;
	}
	memcpy(&value, packet->payload, sizeof(value));
	do {
		expected = found;
		err = user_compare_swap(call->access.host, expected, value, &found);
	} while (!err && found != expected);
	if (!err)
		return FAULT_NONE;
	set_reason(call, "the memory of an ATOMIC_WRITE at 0x%llx is no longer mapped",
		   (unsigned long long)packet->reth.address);
	return FAULT_MEMORY;
}

enum fault execute_invalidate(struct qp_call *call, uint32_t rkey)
{
	struct mr_accessor accessor = mr_accessor_of(call->qp);

	if (mr_invalidate(call->qp->transport->mrs, &accessor, rkey) == MR_OK)
		return FAULT_NONE;
	set_reason(call,
		   "SEND_WITH_INV names rkey 0x%08x, which is not of a type 2 window bound on "
		   "this QP", rkey);
	return FAULT_INVALIDATE;
}
