/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Executes a request that has passed its checks (responder_check.c): its payload to memory, or a responder
 * resource that answers it later (replay.c); behind the last packet of a message its completion. UC does the
 * same (unreliable.c).
 */
#include <string.h>

#include "base/copy.h"
#include "transport/internal.h"

static enum fault run_tagged_send(struct qp_call *call, const struct packet *packet) REQUIRES(call->qp->lock)
{
	struct tags_part part = { .data = packet->payload, .bytes = (uint32_t)packet->payload_bytes };
	struct responder *responder = &call->qp->responder;
	struct completion completion;

	if (tags_part(responder, &part) &&
	    recv_scatter(call, part.offset, part.data, part.bytes, opcode_ends(packet->op)))
		return FAULT_LOCAL_PROTECTION;
	if (opcode_starts(packet->op) && !opcode_ends(packet->op) && tags_matched(call->qp, &completion))
		finish_push(call, call->qp->recv_cq, &completion, false);
	return FAULT_NONE;
}

static enum fault run_send(struct qp_call *call, const struct packet *packet) REQUIRES(call->qp->lock)
{
	struct responder *responder = &call->qp->responder;

	if (responder->tagged)
		return run_tagged_send(call, packet);
	if (recv_scatter(call, responder->received, packet->payload, (uint32_t)packet->payload_bytes,
			 opcode_ends(packet->op)))
		return FAULT_LOCAL_PROTECTION;
	responder->received += (uint32_t)packet->payload_bytes;
	return FAULT_NONE;
}

static enum fault run_write(struct qp_call *call, const struct packet *packet)
{
	struct responder *responder = &call->qp->responder;
	size_t bytes = packet->payload_bytes;
	int err = 0;

	if (opcode_starts(packet->op)) {
		responder->write_address = packet->reth.address;
		responder->write_rkey = packet->reth.rkey;
		responder->write_length = packet->reth.length;
	}
	if (bytes && opcode_ends(packet->op))
		err = copy_user_ordered(call->access.host, packet->payload, bytes);
	else if (bytes)
		err = copy_user(call->access.host, packet->payload, bytes);
	if (err) {
		set_reason(call,
			   "the memory at 0x%llx that the RDMA WRITE names is no longer mapped",
			   (unsigned long long)(responder->write_address + responder->received));
		return FAULT_MEMORY;
	}
	responder->received += (uint32_t)bytes;
	return FAULT_NONE;
}

/* The data is read when the responses are written; here only the right to it is checked. */
static enum fault run_read(struct qp_call *call, const struct packet *packet)
	REQUIRES(call->qp->lock)
{
	struct qp *qp = call->qp;
	struct resource *resource = resource_new(call->qp);
	uint32_t psns = packets_for(call->qp, packet->reth.length);

	lock_alias(&qp->lock);
	*resource = (struct resource){ .kind = RESOURCE_READ, .rkey = packet->reth.rkey,
				       .pd = mr_accessor_of(qp).pd,
				       .address = packet->reth.address,
				       .length = packet->reth.length, .first_psn = packet->psn,
				       .piece = packet->imm_follows,
				       .position = qp->responder.position,
				       .last_psn = psn_add(packet->psn, psns - 1) };
	qp->responder.resource_next++;
	resource_activate(qp, resource, packet->psn, packet->reth.length);
	return FAULT_NONE;
}

static enum fault responder_run_atomic(struct qp_call *call, const struct packet *packet)
	REQUIRES(call->qp->lock)
{
	struct qp *qp = call->qp;
	struct resource *resource = resource_new(call->qp);
	uint64_t original = 0;
	int err;

	lock_alias(&qp->lock);
	if ((uintptr_t)call->access.host & 7) {
		set_reason(call, "atomic on memory at %p, which is not a multiple of 8",
			call->access.host);
		return FAULT_UNALIGNED;
	}
	if ((packet->op->code & OPCODE_OPERATION) == OPCODE_RC_COMPARE_SWAP)
		err = user_compare_swap(call->access.host, packet->atomic.compare,
					packet->atomic.swap_add, &original);
	else
		err = user_fetch_add(call->access.host, packet->atomic.swap_add, &original);
	if (err) {
		set_reason(call, "the memory of an atomic at 0x%llx is no longer mapped",
			   (unsigned long long)packet->atomic.address);
		return FAULT_MEMORY;
	}
	*resource = (struct resource){ .kind = RESOURCE_ATOMIC, .first_psn = packet->psn,
				       .last_psn = packet->psn, .original = original,
				       .position = qp->responder.position };
	qp->responder.resource_next++;
	resource_activate(qp, resource, packet->psn, 0);
	return FAULT_NONE;
}

/* All eight bytes at once, for whoever reads or changes them meanwhile. 0 or EFAULT. */
static int store_word(void *host, const uint8_t *payload)
{
	uint64_t value, expected, found = 0;
	int err;

	memcpy(&value, payload, sizeof(value));
	do {
		expected = found;
		err = user_compare_swap(host, expected, value, &found);
	} while (!err && found != expected);
	return err;
}

/*
 * What came before is visible to all once it is stored: a FLUSH finds nothing left to do. Duplicates find the
 * resource, and are answered without a second store.
 */
static enum fault run_placement(struct qp_call *call, const struct packet *packet) REQUIRES(call->qp->lock)
{
	struct qp *qp = call->qp;
	struct resource *resource = resource_new(call->qp);

	lock_alias(&qp->lock);
	if (packet->op->verb == VERB_ATOMIC_WRITE) {
		if ((uintptr_t)call->access.host & 7) {
			set_reason(call, "ATOMIC_WRITE to memory at %p, which is not a multiple of 8",
				   call->access.host);
			return FAULT_UNALIGNED;
		}
		if (store_word(call->access.host, packet->payload)) {
			set_reason(call, "the memory of an ATOMIC_WRITE at 0x%llx is no longer mapped",
				   (unsigned long long)packet->reth.address);
			return FAULT_MEMORY;
		}
	}
	*resource = (struct resource){ .kind = RESOURCE_PLACEMENT, .first_psn = packet->psn,
				       .last_psn = packet->psn,
				       .position = qp->responder.position };
	qp->responder.resource_next++;
	resource_activate(qp, resource, packet->psn, 0);
	return FAULT_NONE;
}

static enum fault responder_run(struct qp_call *call, const struct packet *packet)
	REQUIRES(call->qp->lock)
{
	struct responder *responder = &call->qp->responder;

	if (opcode_starts(packet->op))
		responder->received = 0;
	switch (packet->op->verb) {
	case VERB_SEND:
		return run_send(call, packet);
	case VERB_WRITE:
		return run_write(call, packet);
	case VERB_READ:
		return run_read(call, packet);
	case VERB_FLUSH:
	case VERB_ATOMIC_WRITE:
		return run_placement(call, packet);
	default:
		return responder_run_atomic(call, packet);
	}
}

static enum fault responder_invalidate(struct qp_call *call, uint32_t rkey)
	REQUIRES(call->qp->lock)
{
	struct mr_accessor accessor = mr_accessor_of(call->qp);

	if (mr_invalidate(call->qp->transport->mrs, &accessor, rkey) == MR_OK)
		return FAULT_NONE;
	set_reason(call,
		   "SEND_WITH_INV names rkey 0x%08x, which is not of a type 2 window bound on "
		   "this QP",
		   rkey);
	return FAULT_INVALIDATE;
}

enum fault responder_complete(struct qp_call *call, struct ibv_wc *wc, bool solicited, bool single)
{
	struct completion completion;

	wc->status = IBV_WC_SUCCESS;
	wc->src_qp = call->qp->attr.dest_qp_num;
	if ((wc->wc_flags & IBV_WC_WITH_INV) && responder_invalidate(call, wc->invalidated_rkey))
		return FAULT_INVALIDATE;
	if (!call->qp->responder.tagged) {
		finish_recv(call, wc, solicited);
		return FAULT_NONE;
	}
	qp_count(call->qp, COMP_RECV, true, 1, wc->byte_len);
	tags_complete(call->qp, wc, single, &completion);
	finish_push(call, call->qp->recv_cq, &completion, solicited);
	return FAULT_NONE;
}

static enum fault responder_complete_receive(struct qp_call *call, const struct packet *packet)
	REQUIRES(call->qp->lock)
{
	struct ibv_wc wc = { .byte_len = call->qp->responder.received };

	wc.opcode = packet->op->verb == VERB_SEND ? IBV_WC_RECV : IBV_WC_RECV_RDMA_WITH_IMM;
	if (packet->op->headers & HDR_IMM) {
		wc.wc_flags |= IBV_WC_WITH_IMM;
		wc.imm_data = __builtin_bswap32(packet->imm);
	} else if (packet->op->headers & HDR_IETH) {
		wc.wc_flags |= IBV_WC_WITH_INV;
		wc.invalidated_rkey = packet->invalidate_rkey;
	}
	return responder_complete(call, &wc, packet->solicited, opcode_starts(packet->op));
}

static void responder_access_end(struct qp_call *call)
{
	if (call->accessing)
		mr_access_end(&call->access);
	call->accessing = false;
}

/* RC: the receive that the message would have taken fails with it, whichever packet is the wrong one. */
static void responder_take_failed(struct qp_call *call, const struct packet *packet, enum fault fault)
	REQUIRES(call->qp->lock)
{
	bool send = packet->op->verb == VERB_SEND;
	bool takes = send || (packet->op->verb == VERB_WRITE &&
			      ((packet->op->headers & HDR_IMM) || packet->imm_follows));

	if (takes && fault_row(fault)->receive == FAULT_TAKES && qp_is(call->qp, QP_RELIABLE) &&
	    !(send && takes_tags(call->qp)))
		(void)responder_take(call);
}

/* A READ or WRITE of the peer that ends the QP. What is repeated, or dropped, does not complete. */
static void responder_count_failed(struct qp_call *call, const struct packet *packet, enum fault fault)
	REQUIRES(call->qp->lock)
{
	const struct fault_row *row = fault_row(fault);

	if (qp_is(call->qp, QP_RELIABLE) ? row->fate != FAULT_FATE_ERROR : row->uc != FAULT_UC_FAIL)
		return;
	if (packet->op->verb == VERB_WRITE)
		qp_count(call->qp, COMP_REMOTE_WRITE, false, 1, 0);
	else if (packet->op->verb == VERB_READ)
		qp_count(call->qp, COMP_REMOTE_READ, false, 1, 0);
}

enum fault responder_message(struct qp_call *call, const struct packet *packet)
{
	struct responder *responder = &call->qp->responder;
	enum fault fault = responder_check(call, packet);

	if (!fault)
		fault = responder_run(call, packet);
	responder_access_end(call);
	if (fault) {
		responder_count_failed(call, packet, fault);
		responder_take_failed(call, packet, fault);
		return fault;
	}
	responder->previous = packet->op;
	if (!opcode_ends(packet->op))
		return FAULT_NONE;
	if (packet->op->verb == VERB_SEND || (packet->op->headers & HDR_IMM))
		fault = responder_complete_receive(call, packet);
	if (fault)
		return fault;
	if (packet->op->verb == VERB_WRITE)
		qp_count(call->qp, COMP_REMOTE_WRITE, true, 1, responder->write_length);
	responder->msn = psn_add(responder->msn, 1);
	return FAULT_NONE;
}
