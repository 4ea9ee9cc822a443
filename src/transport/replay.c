/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Answers to READs and atomics from their responder resources (IBTA 9.7.6.1.3; resource.c), piece by piece as
 * there is room, and again for duplicates. A
 * duplicate READ reads the memory again, from the PSN that it names; a duplicate atomic is answered
 * with the value stored when it was executed, and is never executed again, nor is an ATOMIC_WRITE.
 *
 * Other duplicates are answered by an ACK, up to the first READ or atomic that follows: an ACK
 * beyond would tell the requester that it lost that one's response.
 */
#include <assert.h>

#include "transport/execute.h"
#include "transport/pace.h"
#include "wire/aeth.h"

/* Further back a PSN is no duplicate's: it may name another packet by now. */
#define POSITIONS_KNOWN (1u << 23)

static bool replay_is_known(const struct responder *responder, const struct resource *resource)
{
	return resource->kind != RESOURCE_NONE &&
	       responder->position - resource->position < POSITIONS_KNOWN;
}

static struct resource *resource_find(struct qp *qp, uint32_t psn)
{
	struct responder *responder = &qp->responder;
	uint32_t i;

	for (i = 0; i < responder->resource_count; i++) {
		struct resource *resource = &responder->resource[i];

		if (replay_is_known(responder, resource) &&
		    psn_in(psn, resource->first_psn,
			   ((resource->last_psn - resource->first_psn) & PSN_MASK) + 1))
			return resource;
	}
	return NULL;
}

static void repeat_read(struct qp_call *call, const struct packet *packet) REQUIRES(call->qp->lock)
{
	struct qp *qp = call->qp;
	struct resource *resource = resource_find(qp, packet->psn);
	uint64_t offset;

	lock_alias(&qp->lock);
	if (!resource || resource->kind != RESOURCE_READ)
		return;
	offset = offset_of(qp, packet->psn, resource->first_psn);
	/* The rest of the original request or a part of it, nothing else. */
	if (packet->reth.address != resource->address + offset ||
	    packet->reth.length > resource->length - offset)
		return;
	resource->rkey = packet->reth.rkey;
	resource_activate(qp, resource, packet->psn, (uint32_t)offset + packet->reth.length);
}

static void repeat_executed(struct qp_call *call, const struct packet *packet, enum resource_kind kind)
{
	struct resource *resource = resource_find(call->qp, packet->psn);

	if (resource && resource->kind == kind)
		resource_activate(call->qp, resource, packet->psn, 0);
}

/* The last PSN from @psn on that may be acknowledged without claiming a READ or atomic. */
static uint32_t ack_limit(const struct qp *qp, uint32_t psn) REQUIRES(qp->lock)
{
	uint32_t limit = psn_add(qp->responder.expected_psn, PSN_MASK), i;

	for (i = 0; i < qp->responder.resource_count; i++) {
		const struct resource *resource = &qp->responder.resource[i];

		if (replay_is_known(&qp->responder, resource) &&
		    psn_before(psn, resource->first_psn) &&
		    psn_diff(resource->first_psn, limit) <= 0)
			limit = psn_add(resource->first_psn, PSN_MASK);
	}
	return limit;
}

void replay_duplicate(struct qp_call *call, const struct packet *packet)
{
	switch (packet->op->verb) {
	case VERB_READ:
		repeat_read(call, packet);
		break;
	case VERB_ATOMIC:
		repeat_executed(call, packet, RESOURCE_ATOMIC);
		break;
	case VERB_FLUSH:
	case VERB_ATOMIC_WRITE:
		repeat_executed(call, packet, RESOURCE_PLACEMENT);
		break;
	default:
		if (call->qp->responder.answer != ANSWER_NAK)
			responder_answer(call->qp, ANSWER_ACK, 0, ack_limit(call->qp, packet->psn));
		break;
	}
}

/* ---- writing responses ---- */

static void response_done(struct responder *responder, struct resource *resource)
{
	responder->unanswered_count -= !resource->answered;
	resource->active = false;
	resource->answered = true;
	responder->active_count--;
}

static void begin_response(struct transmit *transmit, struct packet *packet, uint8_t code,
			   const struct resource *resource) REQUIRES(transmit->call->qp->lock)
{
	packet_begin(transmit->call->qp, packet, code, resource->send_psn);
	packet->aeth.syndrome = responder_ack_syndrome(transmit->call->qp);
	packet->aeth.msn = transmit->call->qp->responder.msn;
}

/* FLUSH, ATOMIC_WRITE: a READ response without data (annex A19). */
static bool send_executed(struct transmit *transmit, struct resource *resource)
	REQUIRES(transmit->call->qp->lock)
{
	struct packet packet;

	begin_response(transmit, &packet, resource->kind == RESOURCE_ATOMIC ? OPCODE_RC_ATOMIC_ACKNOWLEDGE :
									      OPCODE_RC_READ_RESPONSE_ONLY,
		       resource);
	packet.atomic_original = resource->original;
	transmit_packet(transmit, &packet, &transmit->call->qp->route);
	response_done(&transmit->call->qp->responder, resource);
	return true;
}

static uint8_t read_code(bool first, bool last)
{
	if (first)
		return last ? OPCODE_RC_READ_RESPONSE_ONLY : OPCODE_RC_READ_RESPONSE_FIRST;
	return last ? OPCODE_RC_READ_RESPONSE_LAST : OPCODE_RC_READ_RESPONSE_MIDDLE;
}

void replay_drop(struct responder *responder)
{
	uint32_t i;

	for (i = 0; i < responder->resource_count; i++)
		responder->resource[i].active = false;
	responder->active_count = responder->unanswered_count = 0;
}

/*
 * The region has gone since the READ was answered. A requester that has the answer ignores the NAK
 * to this late copy; one that lacks it needs the NAK. This QP stays up: the request was correct.
 */
static void refuse_repeat(struct qp_call *call, struct resource *resource, enum nak_code code)
	REQUIRES(call->qp->lock)
{
	struct responder *responder = &call->qp->responder;

	if (responder->answer == ANSWER_NONE) {
		count(call, COUNTER_TX_NAK);
		responder_answer(call->qp, ANSWER_NAK, aeth_syndrome(AETH_NAK, code),
				 resource->send_psn);
	}
	response_done(responder, resource);
}

static bool send_read(struct transmit *transmit, struct resource *resource)
	REQUIRES(transmit->call->qp->lock)
{
	struct qp *qp = transmit->call->qp;
	uint64_t offset = offset_of(transmit->call->qp, resource->send_psn, resource->first_psn);
	uint64_t left = resource->reply_end - offset;
	uint32_t bytes = left < qp->mtu ? (uint32_t)left : qp->mtu;
	struct packet packet;
	enum fault fault = FAULT_NONE;

	lock_alias(&qp->lock);
	begin_response(transmit, &packet,
		       read_code(resource->send_psn == resource->reply_first_psn, left <= qp->mtu),
		       resource);
	packet.payload_bytes = bytes;
	if (bytes) {
		/* The rights are checked again: the region may have gone since the request was accepted. */
		const struct mr_accessor accessor = { .pd = resource->pd, .qpn = qp->number };
		const struct target target = { .rkey = resource->rkey, .need = IBV_ACCESS_REMOTE_READ,
					       .address = resource->address + offset, .bytes = bytes };

		fault = execute_fetch(transmit->call, &accessor, &target,
				      transmit_payload(transmit, packet.op));
	}
	if (fault && resource->answered) {
		refuse_repeat(transmit->call, resource,
			      fault == FAULT_MEMORY ? NAK_OPERATION : NAK_ACCESS);
		return true;
	}
	if (fault) {
		uint32_t psn = resource->send_psn;

		replay_drop(&qp->responder);
		qp_count(qp, COMP_REMOTE_READ, false, 1, 0);
		responder_fault(transmit->call, fault, psn);
		return false;
	}
	transmit_packet(transmit, &packet, &qp->route);
	resource->send_psn = psn_add(resource->send_psn, 1);
	if (left > qp->mtu)
		return true;
	if (!resource->answered)
		qp_count(qp, COMP_REMOTE_READ, true, !resource->piece, resource->length);
	response_done(&qp->responder, resource);
	return true;
}

bool replay_transmit(struct transmit *transmit)
{
	struct qp *qp = transmit->call->qp;
	struct responder *responder = &qp->responder;
	struct resource *resource;

	while (responder->active_count) {
		bool good = true;

		/* The oldest first: answers leave in PSN order. */
		while (!resource_slot(responder, responder->first_active)->active)
			responder->first_active++;
		resource = resource_slot(responder, responder->first_active);
		while (good && resource->active) {
			if (!transmit_has_room(transmit))
				return false;
			if (resource->kind == RESOURCE_READ &&
			    !pace_allows(&qp->requester.pace, transmit->call->now_ns))
				return false;
			good = resource->kind == RESOURCE_READ ? send_read(transmit, resource) :
								 send_executed(transmit, resource);
		}
	}
	return true;
}
