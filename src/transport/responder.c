/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The responder: the peer's requests (IBTA 9.7.4, 9.7.5). A packet in sequence passes a list of
 * checks, is executed, and may end its message:
 *
 *	order -> target (XRC) -> enabled -> resources -> length -> access -> receive -> execute -> complete
 *
 * The first check that fails returns a fault, and fault.def decides the consequences. UC uses the
 * same list (unreliable.c). Answers are only noted here and written by responder_transmit(), so
 * that one ACK answers a batch of requests.
 */
#include <string.h>

#include "base/copy.h"
#include "transport/ack_hold.h"
#include "transport/drop.h"
#include "object/placement.h"
#include "transport/internal.h"
#include "transport/refusal.h"
#include "wire/aeth.h"

#define STRANGE_PSN_TIMES 3

void responder_reset(struct qp *qp)
{
	struct responder *responder = &qp->responder;
	struct recv_wqe *recv = responder->recv;
	struct resource *resource = responder->resource ? responder->resource : responder->few;
	uint32_t count = responder->resource ? responder->resource_count : RD_ATOMIC_FEW;

	tags_drop(qp);
	if (qp->access)	/* at creation there is none yet */
		atomic_store_explicit(&qp->access->established, 0, memory_order_relaxed);
	*responder = (struct responder){ .recv = recv, .echoes = responder->echoes,
					 .expected_psn = qp->attr.rq_psn & PSN_MASK,
					 .resource = resource,
					 .resource_count = count };
	memset(resource, 0, count * sizeof(*resource));
}

void responder_answer(struct qp *qp, enum answer_kind kind, uint8_t syndrome, uint32_t psn)
{
	struct responder *responder = &qp->responder;

	responder->hold.until_ns = 0;
	if (kind == ANSWER_ACK && responder->answer == ANSWER_ACK &&
	    psn_before(psn, responder->answer_psn))
		return;
	responder->answer = (uint8_t)kind;
	responder->answer_syndrome = syndrome;
	responder->answer_psn = psn;
}

bool responder_take(struct qp_call *call)
{
	struct qp *qp = call->qp;
	struct responder *responder = &qp->responder;
	struct srq *srq = responder_srq(call->qp);

	if (!responder->recv_taken) {
		responder->tagged = 0;
		responder->recv_taken = srq ?
			srq_take(srq, responder->recv, call->effects) :
			recv_queue_take(&qp->rq, responder->recv);
		if (responder->recv_taken)
			responder->recv_bytes = sge_total(responder->recv->sge,
							  responder->recv->sge_count);
	}
	return responder->recv_taken;
}

struct srq *responder_find_target(const struct qp *qp, uint32_t number)
{
	const struct responder *responder = &qp->responder;

	if (responder->target && responder->target->number == number)
		return responder->target;
	return responder->recv_taken ? NULL : xrc_domain_find(qp->xrcd->domain, number);
}

/* ---- checks, in order ---- */

static enum fault check_order(struct qp_call *call, const struct packet *packet)
	REQUIRES(call->qp->lock)
{
	if (opcode_follows(call->qp->responder.previous, packet->op))
		return FAULT_NONE;
	set_reason(call, "%s cannot follow %s", packet->op->name,
		   call->qp->responder.previous ? call->qp->responder.previous->name : "nothing");
	return FAULT_OUT_OF_ORDER;
}

/* XRC: the SRQ that the request names, of the QP's domain, has protection domain and receives (A14). */
static enum fault check_target(struct qp_call *call, const struct packet *packet)
	REQUIRES(call->qp->lock)
{
	struct responder *responder = &call->qp->responder;
	struct srq *target = responder->target;

	if (!(packet->op->headers & HDR_XRC))
		return FAULT_NONE;
	if (opcode_starts(packet->op))
		target = responder_find_target(call->qp, packet->srqn);
	if (target && target->number == packet->srqn) {
		responder->target = target;
		return FAULT_NONE;
	}
	set_reason(call, responder->recv_taken ?
		   "%s names SRQ 0x%06x, but a receive of another one waits for its message" :
		   "%s names SRQ 0x%06x, which is no XRC SRQ of this QP's domain", packet->op->name,
		   packet->srqn);
	return FAULT_NO_TARGET;
}

/* What qp_access_flags have to allow; 0: no FLUSH that there is. */
static unsigned responder_need(const struct packet *packet)
{
	static const unsigned need[] = { [VERB_WRITE] = IBV_ACCESS_REMOTE_WRITE,
					 [VERB_READ] = IBV_ACCESS_REMOTE_READ,
					 [VERB_ATOMIC] = IBV_ACCESS_REMOTE_ATOMIC,
					 [VERB_ATOMIC_WRITE] = IBV_ACCESS_REMOTE_WRITE };

	if (packet->op->verb != VERB_FLUSH)
		return need[packet->op->verb];
	if (packet->feth.level > FLUSH_LEVEL_MR)
		return 0;
	return (packet->feth.type & FLUSH_GLOBAL ? ACCESS_FLUSH_GLOBAL : 0) |
	       (packet->feth.type & FLUSH_PERSISTENT ? ACCESS_FLUSH_PERSISTENT : 0);
}

static const char *need_text(unsigned need)
{
	switch (need) {
	case IBV_ACCESS_REMOTE_WRITE:	return "IBV_ACCESS_REMOTE_WRITE";
	case IBV_ACCESS_REMOTE_READ:	return "IBV_ACCESS_REMOTE_READ";
	case IBV_ACCESS_REMOTE_ATOMIC:	return "IBV_ACCESS_REMOTE_ATOMIC";
	case ACCESS_FLUSH_GLOBAL:	return "IBV_ACCESS_FLUSH_GLOBAL";
	case 0:				return "a placement type and level that are known";
	default:			return "IBV_ACCESS_FLUSH_PERSISTENT, which this device has not";
	}
}

static enum fault check_enabled(struct qp_call *call, const struct packet *packet)
	REQUIRES(call->qp->lock)
{
	unsigned need, lacks;

	if (packet->op->verb == VERB_SEND)
		return FAULT_NONE;
	need = responder_need(packet);
	lacks = need & ~call->qp->attr.qp_access_flags;
	if (need && !lacks)
		return FAULT_NONE;
	set_reason(call, "%s, but %s lack%s %s", packet->op->name, need ? "qp_access_flags of this QP" : "it",
		   need ? "" : "s", need_text(lacks));
	return FAULT_DISABLED;
}

/* Whether @packet needs a responder resource (IBTA 9.7.5.1.8). */
static bool takes_resource(const struct packet *packet)
{
	return packet->op->verb >= VERB_READ && packet->op->verb <= VERB_ATOMIC_WRITE;
}

/* READs and atomics need a responder resource whose previous request is fully answered. */
static enum fault check_resources(struct qp_call *call, const struct packet *packet)
	REQUIRES(call->qp->lock)
{
	if (!takes_resource(packet))
		return FAULT_NONE;
	if (replay_new(call->qp))
		return FAULT_NONE;
	set_reason(call,
		   "more READs and atomics in progress than max_dest_rd_atomic of this QP (%u)",
		   call->qp->attr.max_dest_rd_atomic);
	return FAULT_TOO_MANY;
}

static bool payload_fits(const struct qp *qp, const struct packet *packet) REQUIRES(qp->lock)
{
	switch (packet->op->part) {
	case PART_FIRST:
	case PART_MIDDLE:
		return packet->payload_bytes == qp->mtu;
	case PART_LAST:
		return packet->payload_bytes >= 1 && packet->payload_bytes <= qp->mtu;
	default:
		return packet->payload_bytes <= qp->mtu;
	}
}

/* Compare the bytes that the RETH announced with those received. */
static bool write_fits(const struct responder *responder, const struct packet *packet)
{
	bool starts = opcode_starts(packet->op);
	uint32_t total = starts ? packet->reth.length : responder->write_length;
	uint64_t sum = (starts ? 0 : responder->received) + (uint64_t)packet->payload_bytes;

	return total <= MESSAGE_BYTES_MAX && (opcode_ends(packet->op) ? sum == total : sum < total);
}

static enum fault responder_check_length(struct qp_call *call, const struct packet *packet)
	REQUIRES(call->qp->lock)
{
	bool good = true;

	switch (packet->op->verb) {
	case VERB_WRITE:
		good = payload_fits(call->qp, packet) &&
		       write_fits(&call->qp->responder, packet);
		break;
	case VERB_SEND:
		good = payload_fits(call->qp, packet);
		break;
	case VERB_READ:
		good = packet->payload_bytes == 0 && packet->reth.length <= MESSAGE_BYTES_MAX;
		break;
	case VERB_ATOMIC_WRITE:
		good = packet->payload_bytes == PLACEMENT_WORD && packet->reth.length == PLACEMENT_WORD;
		break;
	default:
		good = packet->payload_bytes == 0;
		break;
	}
	if (good)
		return FAULT_NONE;
	set_reason(call,
		   "%s with %zu bytes: does not match the path MTU (%u) or the length announced",
		   packet->op->name, packet->payload_bytes, call->qp->mtu);
	return FAULT_BAD_LENGTH;
}

static enum fault responder_access_begin(struct qp_call *call, uint32_t rkey, unsigned need,
					 uint64_t address, uint64_t bytes)
	REQUIRES(call->qp->lock)
{
	struct qp *qp = call->qp;
	struct mr_accessor accessor = mr_accessor_of(call->qp);
	enum mr_fault fault;

	if (!bytes)
		return FAULT_NONE;
	fault = mr_access_begin(qp->transport->mrs, &accessor, rkey, need, address, bytes,
				&call->access);
	if (fault == MR_OK) {
		call->accessing = true;
		return FAULT_NONE;
	}
	if (explain_enabled)
		mr_explain(qp->transport->mrs, &accessor, rkey, need, address, bytes, fault,
			   call->why, sizeof(call->why));
	return FAULT_ACCESS;
}

/* All of a region whatever the range says, or the range, which may be empty. */
static enum fault check_flush(struct qp_call *call, const struct packet *packet) REQUIRES(call->qp->lock)
{
	struct mr_table *mrs = call->qp->transport->mrs;
	struct mr_accessor accessor = mr_accessor_of(call->qp);
	enum mr_fault fault;

	if (packet->feth.level == FLUSH_LEVEL_RANGE)
		return responder_access_begin(call, packet->reth.rkey, responder_need(packet),
					      packet->reth.address, packet->reth.length);
	fault = mr_access_whole(mrs, &accessor, packet->reth.rkey, responder_need(packet));
	if (fault == MR_OK)
		return FAULT_NONE;
	if (explain_enabled)
		mr_explain(mrs, &accessor, packet->reth.rkey, responder_need(packet),
			   packet->reth.address, 0, fault, call->why, sizeof(call->why));
	return FAULT_ACCESS;
}

static enum fault responder_check_access(struct qp_call *call, const struct packet *packet)
	REQUIRES(call->qp->lock)
{
	const struct responder *responder = &call->qp->responder;

	switch (packet->op->verb) {
	case VERB_WRITE:
		if (opcode_starts(packet->op))
			return responder_access_begin(call, packet->reth.rkey,
						      IBV_ACCESS_REMOTE_WRITE, packet->reth.address,
						      packet->reth.length);
		return responder_access_begin(call, responder->write_rkey, IBV_ACCESS_REMOTE_WRITE,
					      responder->write_address + responder->received,
					      packet->payload_bytes);
	case VERB_READ:
		return responder_access_begin(call, packet->reth.rkey, IBV_ACCESS_REMOTE_READ,
					      packet->reth.address, packet->reth.length);
	case VERB_FLUSH:
		return check_flush(call, packet);
	case VERB_ATOMIC_WRITE:
		if (packet->reth.address & 7) {
			set_reason(call, "ATOMIC_WRITE at address 0x%llx, which is not a multiple of 8",
				   (unsigned long long)packet->reth.address);
			return FAULT_UNALIGNED;
		}
		return responder_access_begin(call, packet->reth.rkey, IBV_ACCESS_REMOTE_WRITE,
					      packet->reth.address, PLACEMENT_WORD);
	case VERB_ATOMIC:
		if (packet->atomic.address & 7) {
			set_reason(call, "atomic at address 0x%llx, which is not a multiple of 8",
				   (unsigned long long)packet->atomic.address);
			return FAULT_UNALIGNED;
		}
		return responder_access_begin(call, packet->atomic.rkey, IBV_ACCESS_REMOTE_ATOMIC,
					      packet->atomic.address, 8);
	default:
		return FAULT_NONE;
	}
}

static enum fault check_receive(struct qp_call *call, const struct packet *packet)
	REQUIRES(call->qp->lock)
{
	struct responder *responder = &call->qp->responder;
	bool send = packet->op->verb == VERB_SEND;
	uint64_t sum;

	if (!send && !(packet->op->verb == VERB_WRITE && (packet->op->headers & HDR_IMM)))
		return FAULT_NONE;
	if (call->deny_receive ||
	    (send && takes_tags(call->qp) ? !tags_take(call, packet->payload, packet->payload_bytes) :
					    !responder_take(call)))
		return FAULT_NO_RECEIVE;
	sum = (opcode_starts(packet->op) ? 0 : responder->received) + packet->payload_bytes;
	if (!send || sum <= responder->recv_bytes || (responder->tagged && tags_fit(responder, sum)))
		return FAULT_NONE;
	set_reason(call, "the message is longer than the receive posted (wr_id 0x%llx, %llu bytes)",
		   (unsigned long long)responder->recv->wr_id,
		   (unsigned long long)responder->recv_bytes);
	return FAULT_TOO_LONG;
}

/* ---- execution ---- */

static enum fault run_tagged_send(struct qp_call *call, const struct packet *packet) REQUIRES(call->qp->lock)
{
	struct tags_part part = { .data = packet->payload, .bytes = (uint32_t)packet->payload_bytes };
	struct responder *responder = &call->qp->responder;
	struct completion completion;

	if (tags_part(responder, &part) &&
	    sge_scatter(call, responder->recv->sge, responder->recv->sge_count, part.offset, part.data,
			part.bytes, opcode_ends(packet->op)))
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
	if (sge_scatter(call, responder->recv->sge, responder->recv->sge_count,
			responder->received, packet->payload, (uint32_t)packet->payload_bytes,
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
	struct resource *resource = replay_new(call->qp);
	uint32_t psns = packets_for(call->qp, packet->reth.length);

	lock_alias(&qp->lock);
	*resource = (struct resource){ .kind = RESOURCE_READ, .rkey = packet->reth.rkey,
				       .pd = mr_accessor_of(qp).pd,
				       .address = packet->reth.address,
				       .length = packet->reth.length, .first_psn = packet->psn,
				       .position = qp->responder.position,
				       .last_psn = psn_add(packet->psn, psns - 1) };
	qp->responder.resource_next++;
	replay_activate(qp, resource, packet->psn, packet->reth.length);
	return FAULT_NONE;
}

static enum fault responder_run_atomic(struct qp_call *call, const struct packet *packet)
	REQUIRES(call->qp->lock)
{
	struct qp *qp = call->qp;
	struct resource *resource = replay_new(call->qp);
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
	replay_activate(qp, resource, packet->psn, 0);
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
	struct resource *resource = replay_new(call->qp);

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
	replay_activate(qp, resource, packet->psn, 0);
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

static enum fault (*const checks[])(struct qp_call *, const struct packet *) = {
	check_order,
	check_target,
	check_enabled,
	check_resources,
	responder_check_length,
	responder_check_access,
	check_receive,
	responder_run,
};

static void responder_access_end(struct qp_call *call)
{
	if (call->accessing)
		mr_access_end(&call->access);
	call->accessing = false;
}

enum fault responder_message(struct qp_call *call, const struct packet *packet)
{
	struct responder *responder = &call->qp->responder;
	enum fault fault = FAULT_NONE;
	size_t i;

	for (i = 0; i < sizeof(checks) / sizeof(checks[0]) && !fault; i++)
		fault = checks[i](call, packet);
	responder_access_end(call);
	if (fault)
		return fault;
	responder->previous = packet->op;
	if (!opcode_ends(packet->op))
		return FAULT_NONE;
	if (packet->op->verb == VERB_SEND || (packet->op->headers & HDR_IMM))
		fault = responder_complete_receive(call, packet);
	if (!fault)
		responder->msn = psn_add(responder->msn, 1);
	return fault;
}

/* ---- faults ---- */

static const uint8_t nak_of[] = {
	[FAULT_ANSWER_NAK_SEQUENCE] = NAK_SEQUENCE, [FAULT_ANSWER_NAK_INVALID] = NAK_INVALID,
	[FAULT_ANSWER_NAK_ACCESS] = NAK_ACCESS, [FAULT_ANSWER_NAK_OPERATION] = NAK_OPERATION,
};

static void answer_fault(struct qp_call *call, enum fault_answer answer, uint32_t psn)
	REQUIRES(call->qp->lock)
{
	struct qp *qp = call->qp;

	switch (answer) {
	case FAULT_ANSWER_NONE:
		break;
	case FAULT_ANSWER_RNR:
		count(call, COUNTER_TX_RNR_NAK);
		responder_answer(qp, ANSWER_NAK,
				 aeth_syndrome(AETH_RNR, qp->attr.min_rnr_timer), psn);
		break;
	default:
		count(call, answer == FAULT_ANSWER_NAK_SEQUENCE ? COUNTER_TX_SEQ_NAK :
								  COUNTER_TX_NAK);
		responder_answer(qp, ANSWER_NAK, aeth_syndrome(AETH_NAK, nak_of[answer]), psn);
		break;
	}
	qp->responder.nak_sent = true;
}

void responder_fail(struct qp_call *call, enum fault fault)
{
	const struct fault_row *row = fault_row(fault);
	struct qp *qp = call->qp;
	char peer[46];

	if (qp_is(qp, QP_DATAGRAM))
		explain_about(row->about, "qp 0x%06x: a datagram could not be received (%s): %s; this QP "
			      "is now in error", qp->number, row->name, call->why);
	else
		explain_about(row->about, "qp 0x%06x: request of qp 0x%06x at %s refused (%s): %s; this "
			      "QP is now in error%s", qp->number, qp->attr.dest_qp_num,
			      address_text(qp->av.destination, peer), row->name, call->why,
			      qp_is(qp, QP_RELIABLE) ? ", the peer gets a NAK" : "");
	if (qp->responder.recv_taken)
		finish_recv_error(call, row->status);
	else if (row->event >= 0)
		qp_raise(qp, (enum qp_event)row->event, call->effects);
	enter_error(call);
}

void responder_fault(struct qp_call *call, enum fault fault, uint32_t psn)
{
	const struct fault_row *row = fault_row(fault);

	if (row->fate == FAULT_FATE_KEEP)
		count(call, row->counter);
	answer_fault(call, row->answer, psn);
	if (row->fate == FAULT_FATE_ERROR)
		responder_fail(call, fault);
}

/* ---- entry ---- */

/* The packet in sequence was executed, and asks for an ACK. */
static void responder_owe_ack(struct qp_call *call, const struct packet *packet)
	REQUIRES(call->qp->lock)
{
	struct responder *responder = &call->qp->responder;
	bool alone = responder->answer == ANSWER_NONE;

	responder_answer(call->qp, ANSWER_ACK, 0, packet->psn);
	if (opcode_ends(packet->op) && call->qp->state == IBV_QPS_RTS)
		ack_hold_begin(&responder->hold, call->now_ns);
	if (!alone)
		responder->hold.until_ns = 0;
}

/*
 * The first PSN is the wrong one: at once if it is behind the expected one; if it is ahead, the
 * requests before
 * it may have been lost: the requester has begun with it STRANGE_PSN_TIMES times.
 */
static void responder_note_psn(struct qp_call *call, const struct packet *packet, int32_t ahead)
	REQUIRES(call->qp->lock)
{
	struct responder *responder = &call->qp->responder;

	if (responder->position || responder->expected_psn != (call->qp->attr.rq_psn & PSN_MASK))
		return;
	if (!responder->strange_count)
		responder->strange_psn = packet->psn;
	if (packet->psn == responder->strange_psn && responder->strange_count < STRANGE_PSN_TIMES)
		responder->strange_count++;
	if (ahead > 0 && responder->strange_count < STRANGE_PSN_TIMES)
		return;
	if (__builtin_expect(explaining(), 0))
		drop_print_psn(call->qp, packet);
	if (call->refused)
		*call->refused = (struct refusal){ .kind = REFUSAL_PSN, .value = responder->expected_psn,
						   .psn = packet->psn };
}

void responder_is_marked(struct qp_call *call)
{
	count(call, COUNTER_RX_ECN);
	if (!call->qp->responder.echo_congestion)
		count(call, COUNTER_TX_BECN);
	call->qp->responder.echo_congestion = true;
}

void responder_receive(struct qp_call *call, const struct packet *packet)
{
	struct qp *qp = call->qp;
	struct responder *responder = &qp->responder;
	int32_t ahead = psn_diff(packet->psn, responder->expected_psn);
	enum fault fault;
	uint32_t psns;

	lock_alias(&qp->lock);
	if (packet->fecn)
		responder_is_marked(call);
	if (ahead)
		responder_note_psn(call, packet, ahead);
	if (ahead < 0) {
		replay_duplicate(call, packet);
		return;
	}
	if (ahead > 0) {
		if (responder->nak_sent)
			count(call, COUNTER_RX_SEQUENCE);
		else
			responder_fault(call, FAULT_PSN_AHEAD, responder->expected_psn);
		return;
	}
	responder->nak_sent = false;
	if (responder->answer == ANSWER_NAK)
		responder->answer = ANSWER_NONE;
	fault = responder_message(call, packet);
	if (fault) {
		responder_fault(call, fault, packet->psn);
		return;
	}
	psns = packet->op->verb == VERB_READ ? packets_for(qp, packet->reth.length) : 1;
	responder->expected_psn = psn_add(packet->psn, psns);
	responder->position += psns;
	/* READ and atomic responses acknowledge all earlier requests, too. */
	if (takes_resource(packet))
		responder->answer = ANSWER_NONE;
	else if (packet->ack_request)
		responder_owe_ack(call, packet);
}

bool responder_owes(const struct qp *qp)
{
	return qp->responder.active_count || qp->responder.answer != ANSWER_NONE;
}

static bool holds_ack(const struct responder *responder)
{
	return responder->answer == ANSWER_ACK && responder->hold.until_ns;
}

bool responder_ready(const struct qp *qp)
{
	return responder_owes(qp) && (qp->responder.active_count || !holds_ack(&qp->responder));
}

uint64_t responder_deadline(const struct qp *qp)
{
	return holds_ack(&qp->responder) ? qp->responder.hold.until_ns : TIME_NEVER;
}

void responder_timeout(struct qp_call *call)
{
	if (responder_deadline(call->qp) <= call->now_ns)
		ack_hold_miss(&call->qp->responder.hold);
}

uint8_t responder_ack_syndrome(const struct qp *qp)
{
	uint32_t receives;

	if (qp->srq || !qp_receives(qp))
		return aeth_syndrome(AETH_ACK, AETH_CREDITS_INVALID);
	receives = recv_queue_count(&qp->rq) + (qp->responder.recv_taken ? 1 : 0);
	return aeth_syndrome(AETH_ACK, aeth_credit_code(receives));
}

bool responder_transmit(struct transmit *transmit)
{
	struct responder *responder = &transmit->call->qp->responder;

	if (responder->active_count && !replay_transmit(transmit))
		return false;
	if (!responder->answer_late)
		return true;
	responder_acknowledge(transmit);
	return responder->answer == ANSWER_NONE;
}

void responder_acknowledge(struct transmit *transmit)
{
	struct qp *qp = transmit->call->qp;
	struct responder *responder = &qp->responder;
	struct packet packet;

	lock_alias(&qp->lock);
	if (responder->answer == ANSWER_NONE)
		return;
	responder->answer_late = !transmit_has_room(transmit);
	if (responder->answer_late)
		return;
	packet_begin(qp, &packet, OPCODE_RC_ACKNOWLEDGE, responder->answer_psn);
	packet.aeth.syndrome = responder->answer == ANSWER_ACK ?
		responder_ack_syndrome(qp) : responder->answer_syndrome;
	packet.aeth.msn = responder->msn;
	packet.becn = responder->echo_congestion;
	transmit_packet(transmit, &packet, &qp->av);
	if (responder->answer == ANSWER_ACK) {
		responder->acked = true;
		responder->acked_psn = responder->answer_psn;
	}
	responder->answer = ANSWER_NONE;
	responder->hold.until_ns = 0;
	responder->echo_congestion = false;
}

bool responder_repeat_ack(struct qp *qp)
{
	if (!qp->responder.acked || qp->responder.answer != ANSWER_NONE)
		return false;
	responder_answer(qp, ANSWER_ACK, 0, qp->responder.acked_psn);
	return true;
}
