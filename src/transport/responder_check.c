/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Whether a request in sequence may be executed (IBTA 9.7.4.1). A list of checks:
 *
 *	order -> target (XRC) -> enabled -> resources -> length -> access -> receive
 *
 * The first one that fails returns a fault. Those of access and receive also take hold of what the execution
 * uses: the region (call->access) and the receive.
 */
#include "object/placement.h"
#include "transport/execute.h"

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

/* READs and atomics need a responder resource whose previous request is fully answered. */
static enum fault check_resources(struct qp_call *call, const struct packet *packet)
	REQUIRES(call->qp->lock)
{
	if (!responder_takes_resource(packet))
		return FAULT_NONE;
	if (resource_new(call->qp))
		return FAULT_NONE;
	set_reason(call,
		   "more READs and atomics in progress than max_dest_rd_atomic of this QP (%u; with rdma_cm it is "
		   "responder_resources of rdma_conn_param)",
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

/* The memory that the packet names, held from here to its execution. */
static enum fault responder_check_access(struct qp_call *call, const struct packet *packet)
	REQUIRES(call->qp->lock)
{
	const struct responder *responder = &call->qp->responder;
	struct target target;

	if (packet->op->verb == VERB_SEND)
		return FAULT_NONE;
	target = (struct target){ .rkey = packet->reth.rkey, .need = responder_need(packet),
				  .address = packet->reth.address, .bytes = packet->reth.length };
	switch (packet->op->verb) {
	case VERB_WRITE:
		if (opcode_starts(packet->op))
			break;
		target.rkey = responder->write_rkey;
		target.address = responder->write_address + responder->received;
		target.bytes = packet->payload_bytes;
		break;
	case VERB_FLUSH:	/* the range, which may be empty; or all of a region whatever it says */
		if (packet->feth.level != FLUSH_LEVEL_RANGE) {
			target.bytes = 0;
			return execute_may(call, &target);
		}
		break;
	case VERB_ATOMIC_WRITE:
		if (packet->reth.address & 7) {
			set_reason(call, "ATOMIC_WRITE at address 0x%llx, which is not a multiple of 8",
				   (unsigned long long)packet->reth.address);
			return FAULT_UNALIGNED;
		}
		target.bytes = PLACEMENT_WORD;
		break;
	case VERB_ATOMIC:
		if (packet->atomic.address & 7) {
			set_reason(call, "atomic at address 0x%llx, which is not a multiple of 8",
				   (unsigned long long)packet->atomic.address);
			return FAULT_UNALIGNED;
		}
		target.rkey = packet->atomic.rkey;
		target.address = packet->atomic.address;
		target.bytes = 8;
		break;
	default:	/* a READ */
		break;
	}
	return execute_begin(call, &target);
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

static enum fault (*const checks[])(struct qp_call *, const struct packet *) = {
	check_order,
	check_target,
	check_enabled,
	check_resources,
	responder_check_length,
	responder_check_access,
	check_receive,
};

enum fault responder_check(struct qp_call *call, const struct packet *packet)
{
	enum fault fault = FAULT_NONE;
	size_t i;

	for (i = 0; i < sizeof(checks) / sizeof(checks[0]) && !fault; i++)
		fault = checks[i](call, packet);
	return fault;
}
