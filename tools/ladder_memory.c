/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Operations through memory. A trace has them as events, or as the packets that they stand for
 * (docs/trace-format.md), which were never sent, with PSNs that never were: here each is one thing again, a
 * store, a copy or a message in a ring. Of its packets remain the length and what the extension headers tell.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/ip_addr.h"
#include "ladder_pair.h"
#include "wire/packet.h"

/* Keys of the table of pairs, beside those of packets. */
enum memory_key { MEMORY_MESSAGE = 1, MEMORY_ANSWER };

bool ladder_is_memory(const struct ladder_packet *packet)
{
	return packet->flags & (LADDER_DIRECT | LADDER_MESSAGE);
}

static uint32_t memory_number(const struct capture_record *record, const char *key)
{
	size_t bytes;
	const char *text = ladder_comment_value(record, key, &bytes);

	return text ? ladder_number(text, bytes, LADDER_NONE) : LADDER_NONE;
}

/* Numbers of messages have 32 bits, which ladder_number() refuses; one of 24 bits is enough to tell them apart. */
static uint32_t memory_message(const struct capture_record *record)
{
	size_t bytes;
	const char *text = ladder_comment_value(record, "message", &bytes);
	uint32_t number = 0;

	for (size_t i = 0; text && i < bytes; i++) {
		if (text[i] < '0' || text[i] > '9')
			return LADDER_NONE;
		number = number * 10 + (uint32_t)(text[i] - '0');
	}
	return text ? number : LADDER_NONE;
}

/* What both ends know of a message: the way, the QP that it goes to, its number. */
static uint64_t memory_hash(enum memory_key kind, const struct ladder_packet *packet, uint32_t qpn,
			    uint32_t message)
{
	const uint32_t key[] = { (uint32_t)kind, qpn, message };
	uint64_t hash = ladder_pair_hash(0, key, sizeof(key));

	hash = ladder_pair_hash(hash, packet->source, 16);
	return ladder_pair_hash(hash, packet->destination, 16);
}

/* ---- what its first and last packet tell ---- */

static struct ladder_operation *memory_operation(struct ladder *ladder, const struct ladder_packet *packet)
{
	return &ladder->operation[packet->operation];
}

static void memory_extend(struct ladder_operation *operation, const uint8_t *data, size_t bytes)
{
	if (operation->bytes + bytes > sizeof(operation->extension))
		return;
	memcpy(operation->extension + operation->bytes, data, bytes);
	operation->bytes = (uint8_t)(operation->bytes + bytes);
}

/* The opcode of the same request in a single packet: what its extensions are. */
static uint8_t memory_opcode(const struct opcode *first, const struct opcode *last)
{
	static const struct { enum opcode_number last, only; } rows[] = {
		{ OPCODE_RC_SEND_LAST, OPCODE_RC_SEND_ONLY }, { OPCODE_RC_SEND_LAST_IMM, OPCODE_RC_SEND_ONLY_IMM },
		{ OPCODE_RC_SEND_LAST_INV, OPCODE_RC_SEND_ONLY_INV },
		{ OPCODE_RC_WRITE_LAST, OPCODE_RC_WRITE_ONLY },
		{ OPCODE_RC_WRITE_LAST_IMM, OPCODE_RC_WRITE_ONLY_IMM },
		{ OPCODE_RC_SEND_FIRST, OPCODE_RC_SEND_ONLY }, { OPCODE_RC_WRITE_FIRST, OPCODE_RC_WRITE_ONLY },
	};
	uint8_t service = last->code & (uint8_t)~OPCODE_OPERATION;

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		if ((last->code & OPCODE_OPERATION) == rows[i].last &&
		    opcode_get((uint8_t)(service | rows[i].only)))
			return (uint8_t)(service | rows[i].only);
	return first->code;
}

/* One more packet of it; @adds: its bytes were not counted at the other end. */
static void memory_go_on(struct ladder *ladder, struct ladder_packet *whole, const struct ladder_packet *part,
			 const struct capture_record *record, const struct frame *frame, bool adds)
{
	struct ladder_operation *operation = memory_operation(ladder, whole);
	const struct opcode *op = frame->packet.op;
	const uint8_t *extension = record->data + frame->bth + BTH_BYTES;

	if (!adds)
		return;
	if (op->verb == VERB_ATOMIC_ACK && op->header_bytes >= BTH_BYTES + 12)
		memory_extend(operation, extension + 4, 8);	/* behind the AETH: what memory held */
	if (op->verb == VERB_ACK || op->verb == VERB_ATOMIC_ACK)
		return;
	whole->payload_bytes += part->payload_bytes;
	if (opcode_is_response(op) || !opcode_ends(op))
		return;
	whole->opcode = memory_opcode(opcode_get(whole->opcode), op);
	memory_extend(operation, extension, op->header_bytes - BTH_BYTES);
}

/* ---- records ---- */

/* The sender of a message saw that it was consumed. */
static int memory_taken(struct ladder *ladder, struct pairs *pairs, const struct ladder_packet *packet,
			const struct capture_record *record, uint32_t message)
{
	struct pair *pair;
	uint64_t hash = memory_hash(MEMORY_ANSWER, packet, packet->dest_qpn, message);

	if (ladder_pair_get(pairs, hash, &pair))
		return ENOMEM;
	if (pair->last != LADDER_NONE)
		memory_operation(ladder, &ladder->packet[pair->last])->taken_ns = record->time_ns;
	return 0;
}

/* Where an answer finds it; those come the other way. */
static int memory_note_sent(struct pairs *pairs, const struct ladder_packet *packet, uint32_t at, uint32_t message)
{
	struct ladder_packet back = *packet;
	struct pair *pair;

	memcpy(back.source, packet->destination, 16);
	memcpy(back.destination, packet->source, 16);
	if (ladder_pair_get(pairs, memory_hash(MEMORY_ANSWER, &back, packet->source_qpn, message), &pair))
		return ENOMEM;
	pair->last = at;
	return 0;
}

/* @extension: the headers behind the BTH. */
static int memory_add_first(struct ladder *ladder, struct pairs *pairs,
			    struct ladder_packet *packet, const struct capture_record *record,
			    const uint8_t *extension, struct opened *opened)
{
	const struct opcode *op = opcode_get(packet->opcode);
	uint32_t at, message = opened->message;
	struct ladder_operation *operation;
	uint64_t hash = memory_hash(MEMORY_MESSAGE, packet, packet->dest_qpn, message);
	bool joined;

	if (capture_grow(&ladder->operation, ladder->operations, &ladder->operation_room,
			 sizeof(*ladder->operation)))
		return ENOMEM;
	packet->operation = ladder->operations;
	operation = memory_operation(ladder, packet);
	*operation = (struct ladder_operation){ .message = message };
	memory_extend(operation, extension, op->header_bytes - BTH_BYTES);
	packet->psn = LADDER_NO_PSN;
	packet->opcode = memory_opcode(op, op);
	if (packet->flags & LADDER_DIRECT)	/* recorded by the requester alone */
		hash = ladder_pair_hash(hash, &packet->operation, sizeof(packet->operation));
	if (ladder_pair_add(ladder, pairs, hash, packet, record, &at, &joined))
		return ENOMEM;
	if (at == LADDER_NONE)
		return 0;
	ladder->operations += !joined;
	opened->packet = at;
	opened->adds = !joined;
	return packet->sent && packet->flags & LADDER_MESSAGE ? memory_note_sent(pairs, packet, at, message) : 0;
}

static bool memory_begins(const struct opcode *op)
{
	return !opcode_is_response(op) && opcode_starts(op);
}

int ladder_memory_add(struct ladder *ladder, struct pairs *pairs, struct ladder_packet *packet,
		      const struct capture_record *record, const struct frame *frame)
{
	int process = ladder->source_process[record->source];
	struct opened *opened = &pairs->opened[process < 0 ? ladder->processes : (unsigned)process];
	const struct opcode *op = frame->packet.op;
	uint32_t qpn = memory_number(record, "qp");
	uint32_t message = packet->flags & LADDER_MESSAGE ? memory_message(record) : LADDER_NONE;

	if (op->verb == VERB_ACK && packet->flags & LADDER_MESSAGE)
		return memory_taken(ladder, pairs, packet, record, message);
	if (memory_begins(op)) {
		*opened = (struct opened){ .packet = LADDER_NONE, .time_ns = record->time_ns, .qpn = qpn,
					   .message = message };
		return memory_add_first(ladder, pairs, packet, record,
					record->data + frame->bth + BTH_BYTES, opened);
	}
	if (opened->packet != LADDER_NONE && opened->time_ns == record->time_ns && opened->qpn == qpn &&
	    opened->message == message)
		memory_go_on(ladder, &ladder->packet[opened->packet], packet, record, frame, opened->adds);
	return 0;
}

/* Of READs and WRITEs the RETH has the length; a SEND has packets as long as its first. */
bool ladder_memory_left_out(struct ladder *ladder, struct pairs *pairs, const struct ladder_event *event)
{
	const struct opened *opened = &pairs->opened[event->process];
	struct ladder_packet *packet;
	char value[64];

	if (event->kind != LADDER_EVENT_LOST ||
	    !ladder_json_value(event->json, event->json_bytes, "why", value, sizeof(value)) ||
	    strcmp(value, "packets in the middle of one operation"))
		return false;
	packet = opened->packet == LADDER_NONE ? NULL : &ladder->packet[opened->packet];
	if (packet && opcode_get(packet->opcode)->headers & HDR_RETH &&
	    memory_operation(ladder, packet)->bytes >= 16)
		packet->payload_bytes = get_be32(memory_operation(ladder, packet)->extension + 12);
	return true;
}

/* ---- as events ---- */

static bool event_value(const struct ladder_event *event, const char *key, char value[64])
{
	return ladder_json_value(event->json, event->json_bytes, key, value, 64);
}

/* Decimal or 0x...; 0: not there. */
static uint64_t event_number(const struct ladder_event *event, const char *key)
{
	char value[64];

	return event_value(event, key, value) ? strtoull(value, NULL, 0) : 0;
}

static void event_address(const struct ladder_event *event, const char *key, uint8_t address[16])
{
	uint8_t ipv4[4];
	char value[64];

	if (!event_value(event, key, value))
		return;
	if (inet_pton(AF_INET, value, ipv4) == 1)
		ip_addr_map_ipv4(address, ipv4);
	else
		inet_pton(AF_INET6, value, address);
}

int ladder_memory_event(struct ladder *ladder, struct pairs *pairs,
			const struct ladder_event *event, const struct capture_record *record)
{
	static const struct {
		const char *name;
		enum opcode_number code;
		enum ladder_kind kind;
	} names[] = {
		{ "SEND", OPCODE_RC_SEND_ONLY, LADDER_SEND },
		{ "SEND_WITH_IMM", OPCODE_RC_SEND_ONLY_IMM, LADDER_SEND },
		{ "SEND_WITH_INV", OPCODE_RC_SEND_ONLY_INV, LADDER_SEND },
		{ "RDMA_WRITE", OPCODE_RC_WRITE_ONLY, LADDER_WRITE },
		{ "RDMA_WRITE_WITH_IMM", OPCODE_RC_WRITE_ONLY_IMM, LADDER_WRITE },
		{ "RDMA_READ", OPCODE_RC_READ_REQUEST, LADDER_READ },
		{ "ATOMIC_CMP_AND_SWP", OPCODE_RC_COMPARE_SWAP, LADDER_ATOMIC },
		{ "ATOMIC_FETCH_AND_ADD", OPCODE_RC_FETCH_ADD, LADDER_ATOMIC },
	};
	struct packet wire = { .reth = { event_number(event, "address"),
					 (uint32_t)event_number(event, "rkey"),
					 (uint32_t)event_number(event, "bytes") } };
	struct ladder_packet packet = { .time_ns = event->time_ns,
					.cm = -1,
					.psn = LADDER_NO_PSN,
					.dest_qpn =
						(uint32_t)event_number(event, "dest_qp") & QPN_MASK,
					.source_qpn = LADDER_QP_UNKNOWN,
					.acked_by = LADDER_NONE,
					.acks_first = LADDER_NONE,
					.from = LADDER_NONE,
					.to = LADDER_NONE,
					.operation = LADDER_NONE };
	struct opened opened = { .packet = LADDER_NONE };
	uint8_t headers[PACKET_HEADER_MAX], original[8];
	bool swaps;
	char value[64];

	event_address(event, "source", packet.source);
	event_address(event, "destination", packet.destination);
	packet.flags = ladder_comment_is(record, "path", "direct") ? LADDER_DIRECT
								   : LADDER_RING | LADDER_MESSAGE;
	opened.message = packet.flags & LADDER_MESSAGE ? memory_message(record) : LADDER_NONE;
	if (event_value(event, "event", value) && !strcmp(value, "consumed"))
		return memory_taken(ladder, pairs, &packet, record, opened.message);
	if (!event_value(event, "opcode", value))
		return 0;
	for (size_t i = 0; i < sizeof(names) / sizeof(*names) && !wire.op; i++) {
		packet.kind = (uint8_t)names[i].kind;
		if (!strcmp(value, names[i].name))
			wire.op = opcode_get((uint8_t)names[i].code);
	}
	if (wire.op && event_value(event, "service", value) && !strcmp(value, "UC"))
		wire.op = opcode_get(wire.op->code | OPCODE_UC);
	if (!wire.op)
		return 0;
	swaps = wire.op->code == OPCODE_RC_COMPARE_SWAP;
	wire.imm = (uint32_t)event_number(event, "imm");
	wire.invalidate_rkey = (uint32_t)event_number(event, "invalidate");
	wire.atomic.address = wire.reth.address;
	wire.atomic.rkey = wire.reth.rkey;
	wire.atomic.swap_add = event_number(event, swaps ? "swap" : "add");
	wire.atomic.compare = event_number(event, "compare");
	packet_write_headers(&wire, headers);
	packet.opcode = wire.op->code;
	packet.header_bytes = (uint16_t)wire.op->header_bytes;
	packet.payload_bytes = packet.kind == LADDER_ATOMIC ? 0 : wire.reth.length;
	if (record->direction == CAPTURE_IN) {
		packet.received = record;
	} else {
		packet.sent = record;
		packet.source_qpn = event->qpn;
	}
	if (memory_add_first(ladder, pairs, &packet, record, headers + BTH_BYTES, &opened))
		return ENOMEM;
	put_be64(original, event_number(event, "original"));
	if (packet.kind == LADDER_ATOMIC && opened.packet != LADDER_NONE && opened.adds)
		memory_extend(memory_operation(ladder, &ladder->packet[opened.packet]), original,
			      sizeof(original));
	return 0;
}
