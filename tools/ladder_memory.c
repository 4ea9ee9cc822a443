/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Operations through memory. A trace has them as the packets that they stand for (docs/trace-format.md),
 * which were never sent, with PSNs that never were: here each is one thing again, a store, a copy or a
 * message in a ring. Of its packets remain the length and what the extension headers tell.
 */
#include <errno.h>
#include <string.h>

#include "base/bytes.h"
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

static void memory_begin(struct ladder *ladder, struct ladder_packet *packet, const struct frame *frame)
{
	struct ladder_operation *operation = memory_operation(ladder, packet);
	const struct opcode *op = frame->packet.op;
	const struct capture_record *record = packet->sent ? packet->sent : packet->received;

	*operation = (struct ladder_operation){ .message = LADDER_NONE };
	memory_extend(operation, record->data + frame->bth + BTH_BYTES, op->header_bytes - BTH_BYTES);
	packet->psn = LADDER_NO_PSN;
	packet->opcode = memory_opcode(op, op);
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

static int memory_add_first(struct ladder *ladder, struct pairs *pairs, struct ladder_packet *packet,
			    const struct capture_record *record, const struct frame *frame, struct opened *opened)
{
	uint32_t at, message = opened->message;
	uint64_t hash = memory_hash(MEMORY_MESSAGE, packet, packet->dest_qpn, message);
	bool joined;

	if (capture_grow(&ladder->operation, ladder->operations, &ladder->operation_room,
			 sizeof(*ladder->operation)))
		return ENOMEM;
	packet->operation = ladder->operations;
	memory_begin(ladder, packet, frame);
	memory_operation(ladder, packet)->message = message;
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
		return memory_add_first(ladder, pairs, packet, record, frame, opened);
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
