/* SPDX-License-Identifier: BSD-2-Clause */
/* Packets of an operation that went without any. */
#include "trace/expand.h"

#include <string.h>

/* The code of a packet of @verb at its place in the message; the service is added. */
static uint8_t code_of(const struct trace_operation *op, enum part part)
{
	static const uint8_t sends[] = { [PART_FIRST] = OPCODE_RC_SEND_FIRST,
					 [PART_MIDDLE] = OPCODE_RC_SEND_MIDDLE,
					 [PART_LAST] = OPCODE_RC_SEND_LAST, [PART_ONLY] = OPCODE_RC_SEND_ONLY };
	static const uint8_t writes[] = { [PART_FIRST] = OPCODE_RC_WRITE_FIRST,
					  [PART_MIDDLE] = OPCODE_RC_WRITE_MIDDLE,
					  [PART_LAST] = OPCODE_RC_WRITE_LAST, [PART_ONLY] = OPCODE_RC_WRITE_ONLY };
	static const uint8_t responses[] = { [PART_FIRST] = OPCODE_RC_READ_RESPONSE_FIRST,
					     [PART_MIDDLE] = OPCODE_RC_READ_RESPONSE_MIDDLE,
					     [PART_LAST] = OPCODE_RC_READ_RESPONSE_LAST,
					     [PART_ONLY] = OPCODE_RC_READ_RESPONSE_ONLY };
	bool ends = part == PART_LAST || part == PART_ONLY;

	if (op->verb == VERB_READ)
		return responses[part];
	if (op->verb == VERB_WRITE)
		return (uint8_t)(writes[part] + (ends && op->has_imm));
	if (ends && op->invalidates)
		return part == PART_LAST ? OPCODE_RC_SEND_LAST_INV : OPCODE_RC_SEND_ONLY_INV;
	return (uint8_t)(sends[part] + (ends && op->has_imm));
}

struct expansion {
	const struct trace_operation *op;
	bool outbound;
	void (*each)(void *owner, const struct expanded *packet);
	void *owner;
};

static bool expand_emit(const struct expansion *expansion, struct packet *packet, uint8_t code, uint32_t psn,
		 bool answers)
{
	const struct trace_operation *op = expansion->op;
	struct expanded expanded = { .outbound = expansion->outbound != answers };

	packet->op = opcode_get(op->service == SERVICE_UC ? code | OPCODE_UC : code);
	if (!packet->op)
		return false;
	packet->migrated = true;
	packet->pkey = PKEY_DEFAULT;
	packet->dest_qpn = op->dest_qpn & QPN_MASK;
	packet->psn = psn & 0xffffff;
	expanded.header_bytes = packet_write_headers(packet, expanded.headers);
	expanded.length = (uint32_t)packet_bytes(packet->op, packet->payload_bytes);
	expansion->each(expansion->owner, &expanded);
	return true;
}

static uint32_t packets_of(const struct trace_operation *op)
{
	return op->bytes ? (uint32_t)(((uint64_t)op->bytes + op->mtu - 1) / op->mtu) : 1;
}

/* The packets that carry data: of a WRITE or SEND, or the responses to a READ. */
static bool expand_data(const struct expansion *expansion, uint32_t *left_out)
{
	const struct trace_operation *op = expansion->op;
	bool answers = op->verb == VERB_READ;
	uint32_t count = packets_of(op), i;

	for (i = 0; i < count; i++) {
		bool last = i == count - 1;
		enum part part = count == 1 ? PART_ONLY : i == 0 ? PART_FIRST : last ? PART_LAST : PART_MIDDLE;
		struct packet packet = { .reth = { op->address, op->rkey, op->bytes }, .imm = op->imm,
					 .invalidate_rkey = op->imm, .solicited = last && op->solicited,
					 .ack_request = last && !answers && op->service == SERVICE_RC,
					 .aeth = { .syndrome = 0x1f } };

		packet.payload_bytes = last ? op->bytes - (size_t)i * op->mtu : op->mtu;
		if (!expand_emit(expansion, &packet, code_of(op, part), op->psn + i, answers))
			return false;
		if (count > EXPAND_PACKETS_MAX && i == EXPAND_PACKETS_MAX / 2) {
			*left_out = count - EXPAND_PACKETS_MAX;
			i += *left_out;
		}
	}
	return true;
}

bool trace_expand(const struct trace_operation *operation, bool outbound, uint32_t qpn,
		  void (*each)(void *owner, const struct expanded *packet), void *owner, uint32_t *left_out)
{
	struct trace_operation answer = *operation;	/* as the peer sends it */
	const struct expansion expansion = { operation, outbound, each, owner };
	const struct expansion back = { &answer, outbound, each, owner };
	struct packet request = { .ack_request = true }, response = { .aeth = { .syndrome = 0x1f } };

	answer.dest_qpn = qpn;
	*left_out = 0;
	if (operation->mtu < 256 || operation->mtu > PATH_MTU_MAX || operation->bytes > MESSAGE_BYTES_MAX ||
	    (operation->service != SERVICE_RC && operation->service != SERVICE_UC))
		return false;
	switch (operation->verb) {
	case VERB_SEND:
		return expand_data(&expansion, left_out);
	case VERB_WRITE:
		return expand_data(&expansion, left_out) &&
		       (!operation->acknowledged ||
			expand_emit(&back, &response, OPCODE_RC_ACKNOWLEDGE,
				    operation->psn + packets_of(operation) - 1, true));
	case VERB_READ:
		request.reth.address = operation->address;
		request.reth.rkey = operation->rkey;
		request.reth.length = operation->bytes;
		return expand_emit(&expansion, &request, OPCODE_RC_READ_REQUEST, operation->psn, false) &&
		       expand_data(&back, left_out);
	case VERB_ATOMIC:
		request.atomic.address = operation->address;
		request.atomic.rkey = operation->rkey;
		request.atomic.swap_add = operation->swaps ? operation->swap : operation->compare_add;
		request.atomic.compare = operation->swaps ? operation->compare_add : 0;
		response.atomic_original = operation->original;
		return expand_emit(&expansion, &request,
				   operation->swaps ? OPCODE_RC_COMPARE_SWAP : OPCODE_RC_FETCH_ADD,
				   operation->psn, false) &&
		       expand_emit(&back, &response, OPCODE_RC_ATOMIC_ACKNOWLEDGE, operation->psn, true);
	case VERB_ACK:
		return expand_emit(&expansion, &response, OPCODE_RC_ACKNOWLEDGE, operation->psn, false);
	default:
		return false;
	}
}
