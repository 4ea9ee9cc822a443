/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Executes a request that has passed its checks (responder_check.c): its payload to memory, or a responder
 * resource that answers it later (replay.c); behind the last packet of a message its completion. UC does the
 * same (unreliable.c).
 */
#include "transport/execute.h"

static struct payload payload_of(const struct packet *packet)
{
	return (struct payload){ .data = packet->payload, .bytes = (uint32_t)packet->payload_bytes,
				 .last = opcode_ends(packet->op) };
}

static enum fault run_send(struct qp_call *call, const struct packet *packet) REQUIRES(call->qp->lock)
{
	const struct payload payload = payload_of(packet);
	enum fault fault = execute_send(call, &payload);
	struct completion completion;

	if (!fault && call->qp->responder.tagged && opcode_starts(packet->op) && !payload.last &&
	    tags_matched(call->qp, &completion))
		finish_push(call, call->qp->recv_cq, &completion, false);
	return fault;
}

static enum fault run_write(struct qp_call *call, const struct packet *packet)
	REQUIRES(call->qp->lock)
{
	const struct payload payload = payload_of(packet);
	struct responder *responder = &call->qp->responder;

	if (opcode_starts(packet->op)) {
		responder->write_address = packet->reth.address;
		responder->write_rkey = packet->reth.rkey;
		responder->write_length = packet->reth.length;
	}
	return execute_write(call, &payload);
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
	enum fault fault;

	lock_alias(&qp->lock);
	fault = execute_atomic(call, packet, &original);
	if (fault)
		return fault;
	*resource = (struct resource){ .kind = RESOURCE_ATOMIC, .first_psn = packet->psn,
				       .last_psn = packet->psn, .original = original,
				       .position = qp->responder.position };
	qp->responder.resource_next++;
	resource_activate(qp, resource, packet->psn, 0);
	return FAULT_NONE;
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
		enum fault fault = execute_word(call, packet);

		if (fault)
			return fault;
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
	execute_end(call);
	if (fault) {
		responder_count_failed(call, packet, fault);
		responder_take_failed(call, packet, fault);
		return fault;
	}
	responder->previous = packet->op;
	if (!opcode_ends(packet->op))
		return FAULT_NONE;
	if (packet->op->verb == VERB_SEND || (packet->op->headers & HDR_IMM)) {
		const struct work work = {
			.bytes = responder->received,
			.imm = packet->op->headers & HDR_IMM ? packet->imm : packet->invalidate_rkey,
			.is_write = packet->op->verb != VERB_SEND,
			.has_imm = packet->op->headers & HDR_IMM,
			.has_inv = packet->op->headers & HDR_IETH,
			.solicited = packet->solicited,
			.is_single = opcode_starts(packet->op),
		};

		fault = finish_message(call, &work);
		if (fault)
			return fault;
	}
	if (packet->op->verb == VERB_WRITE)
		qp_count(call->qp, COMP_REMOTE_WRITE, true, 1, responder->write_length);
	responder->msn = psn_add(responder->msn, 1);
	return FAULT_NONE;
}
