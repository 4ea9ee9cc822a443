/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Builds the selector and the group's messages (group_program.h).
 *
 * The slot space 0..1023 falls into intervals of one target each. The program is a binary search
 * over their first slots: at most 1024 leaves and 1023 inner nodes of one or two instructions
 * (classic jumps reach 255 instructions, "jump always" reaches all), below BPF_MAXINSNS. At most
 * some 850 instructions stand before it, many of which only requests run through.
 */
#include "host/group_program.h"

#include <errno.h>
#include <string.h>

#include "base/bytes.h"

#define GROUP_MAGIC	0x56625047u	/* "VbPG" */
#define GROUP_VERSION	1u
#define GROUP_KNOWN	0x1u		/* flag: program_known */

enum message_field {
	AT_OPCODE = 0, AT_KIND = 1, AT_VERSION = 2, AT_FAMILY = 3, AT_MAGIC = 4, AT_INDEX = 8,
	AT_SLOT = 12, AT_FLAGS = 14, AT_NONCE = 16, AT_COUNT = 24, AT_SLOTS = 26,
};

/* ---- the map, and its tree ---- */

void group_map_clear(struct group_map *map)
{
	unsigned slot;

	memset(map, 0, sizeof(*map));
	for (slot = 0; slot < SLOT_COUNT; slot++)
		map->index[slot] = GROUP_HASH;
	map->rest = GROUP_HASH;
}

struct intervals {
	unsigned count;
	uint16_t first[SLOT_COUNT], index[SLOT_COUNT];
};

/* Instructions for the intervals @low .. @high. */
static unsigned tree_size(unsigned low, unsigned high)
{
	unsigned middle = (low + high + 1) / 2, left;

	if (low == high)
		return 1;
	left = tree_size(low, middle - 1);
	return left + tree_size(middle, high) + (left > 255 ? 2 : 1);
}

static struct sock_filter *put_tree(const struct intervals *intervals, unsigned low, unsigned high,
				    struct sock_filter *out)
{
	unsigned middle = (low + high + 1) / 2, left;
	uint32_t index = intervals->index[low];

	if (low == high) {
		*out++ = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K,
						      index == GROUP_HASH ? UINT32_MAX : index);
		return out;
	}
	left = tree_size(low, middle - 1);
	if (left > 255) {
		*out++ = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K,
						      intervals->first[middle], 0, 1);
		*out++ = (struct sock_filter)BPF_STMT(BPF_JMP | BPF_JA, left);
	} else {
		*out++ = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K,
						      intervals->first[middle], (uint8_t)left, 0);
	}
	out = put_tree(intervals, low, middle - 1, out);
	return put_tree(intervals, middle, high, out);
}

/* ---- QP1: BTH 12, DETH 8, then the management datagram ---- */

#define MAD_AT		20u
#define CLASS_AT	(MAD_AT + 1)
#define ATTRIBUTE_AT	(MAD_AT + 16)
#define FIRST_ID_AT	(MAD_AT + 24)	/* communication ID of the sender */
#define SECOND_ID_AT	(FIRST_ID_AT + 4)		/* of the receiver */
#define SERVICE_AT	(FIRST_ID_AT + 8)
#define CLASS_CM	0x07u

enum attribute { ATTRIBUTE_REQ = 0x10, ATTRIBUTE_SIDR_REQ = 0x17, ATTRIBUTE_SIDR_REP = 0x18 };

static struct sock_filter *program_put(struct sock_filter *out, uint16_t code, uint32_t k)
{
	*out++ = (struct sock_filter)BPF_STMT(code, k);
	return out;
}

static struct sock_filter *put_jump(struct sock_filter *out, uint32_t k, uint8_t jt, uint8_t jf)
{
	*out++ = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, k, jt, jf);
	return out;
}

static uint32_t program_result(uint16_t index)
{
	return index == GROUP_HASH ? UINT32_MAX : index;
}

/* Services that share the upper half of their IDs (all of one port space do) are tested at once. */
static struct sock_filter *put_services(const struct group_map *map, struct sock_filter *out)
{
	bool done[GROUP_SERVICES] = { false };
	struct sock_filter *skip;
	unsigned i, n;

	for (i = 0; i < map->service_count; i++) {
		uint32_t upper = (uint32_t)(map->service_id[i] >> 32);

		if (done[i])
			continue;
		out = program_put(out, BPF_LD | BPF_W | BPF_ABS, SERVICE_AT);
		out = put_jump(out, upper, 1, 0);
		skip = out++;
		out = program_put(out, BPF_LD | BPF_W | BPF_ABS, SERVICE_AT + 4);
		for (n = i; n < map->service_count; n++) {
			if (map->service_id[n] >> 32 != upper)
				continue;
			done[n] = true;
			out = put_jump(out, (uint32_t)map->service_id[n], 0, 1);
			out = program_put(out, BPF_RET | BPF_K,
					  program_result(map->service_index[n]));
		}
		program_put(skip, BPF_JMP | BPF_JA, (uint32_t)(out - skip - 1));
	}
	return out;
}

static struct sock_filter *put_chance(const struct group_map *map, struct sock_filter *out)
{
	unsigned i;

	if (!map->size)
		return program_put(out, BPF_RET | BPF_K, UINT32_MAX);
	out = program_put(out, BPF_LD | BPF_W | BPF_ABS, (uint32_t)(SKF_AD_OFF + SKF_AD_RANDOM));
	out = program_put(out, BPF_ALU | BPF_MOD | BPF_K, map->size);
	for (i = 0; i < map->silent_count; i++) {
		out = put_jump(out, map->silent[i], 0, 1);
		out = program_put(out, BPF_RET | BPF_K, program_result(map->rest));
	}
	return program_put(out, BPF_RET | BPF_A, 0);
}

/* Leaves the slot of an answer in A, and jumps past its own end. */
static struct sock_filter *put_mad(const struct group_map *map, struct sock_filter *out)
{
	struct sock_filter *other, *answer;

	out = program_put(out, BPF_LD | BPF_B | BPF_ABS, CLASS_AT);
	out = put_jump(out, CLASS_CM, 1, 0);
	other = out++;
	out = program_put(out, BPF_LD | BPF_H | BPF_ABS, ATTRIBUTE_AT);
	out = put_jump(out, ATTRIBUTE_REQ, 7, 0);
	out = put_jump(out, ATTRIBUTE_SIDR_REQ, 6, 0);
	out = put_jump(out, ATTRIBUTE_SIDR_REP, 2, 0);
	out = program_put(out, BPF_LD | BPF_W | BPF_ABS, SECOND_ID_AT);
	out = program_put(out, BPF_JMP | BPF_JA, 1);
	out = program_put(out, BPF_LD | BPF_W | BPF_ABS, FIRST_ID_AT);
	out = program_put(out, BPF_ALU | BPF_RSH | BPF_K, COMM_ID_SLOT_SHIFT);
	answer = out++;
	out = put_services(map, out);
	program_put(other, BPF_JMP | BPF_JA, (uint32_t)(out - other - 1));
	out = put_chance(map, out);
	program_put(answer, BPF_JMP | BPF_JA, (uint32_t)(out - answer - 1));
	return out;
}

unsigned group_program_build(const struct group_map *map, struct sock_filter *program)
{
	const struct sock_filter head[] = {
		BPF_STMT(BPF_LD | BPF_B | BPF_ABS, AT_OPCODE),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, GROUP_OPCODE, 0, 4),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, AT_MAGIC),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, GROUP_MAGIC, 0, 2),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, AT_INDEX),
		BPF_STMT(BPF_RET | BPF_A, 0),
		/* BTH: byte 4 reserved, bytes 5..7 destination QPN, of which the slot is the top */
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 4),
		BPF_STMT(BPF_ALU | BPF_AND | BPF_K, QPN_MASK),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, QPN_GSI, 2, 0),
		BPF_STMT(BPF_ALU | BPF_RSH | BPF_K, QP_INDEX_BITS),
	};
	const size_t head_count = sizeof(head) / sizeof(head[0]);
	struct sock_filter *over = program + head_count, *end;
	struct intervals intervals;
	unsigned slot;

	intervals.count = 0;
	for (slot = 0; slot < SLOT_COUNT; slot++) {
		if (slot && map->index[slot] == map->index[slot - 1])
			continue;
		intervals.first[intervals.count] = (uint16_t)slot;
		intervals.index[intervals.count++] = map->index[slot];
	}
	memcpy(program, head, sizeof(head));
	end = put_mad(map, over + 1);
	program_put(over, BPF_JMP | BPF_JA, (uint32_t)(end - over - 1));
	end = put_tree(&intervals, 0, intervals.count - 1, end);
	return (unsigned)(end - program);
}

/* ---- messages ---- */

bool group_message_is(const uint8_t *data, size_t bytes)
{
	return bytes >= GROUP_PROBE_BYTES && data[AT_OPCODE] == GROUP_OPCODE &&
	       get_be32(data + AT_MAGIC) == GROUP_MAGIC;
}

size_t group_message_write(const struct group_message *message, uint8_t out[GROUP_MESSAGE_MAX])
{
	unsigned i;
	size_t at;

	out[AT_OPCODE] = GROUP_OPCODE;
	out[AT_KIND] = (uint8_t)message->kind;
	out[AT_VERSION] = GROUP_VERSION;
	out[AT_FAMILY] = message->family;
	put_be32(out + AT_MAGIC, GROUP_MAGIC);
	put_be32(out + AT_INDEX, message->index);
	put_be16(out + AT_SLOT, message->slot);
	put_be16(out + AT_FLAGS, message->program_known ? GROUP_KNOWN : 0);
	put_be64(out + AT_NONCE, message->nonce);
	if (message->kind == GROUP_PROBE)
		return GROUP_PROBE_BYTES;
	put_be16(out + AT_COUNT, (uint16_t)message->slot_count);
	for (i = 0; i < message->slot_count; i++)
		put_be16(out + AT_SLOTS + 2 * i, message->slots[i]);
	at = AT_SLOTS + 2 * message->slot_count;
	if (!message->service_count)
		return at;
	put_be16(out + at, (uint16_t)message->service_count);
	for (i = 0; i < message->service_count; i++)
		put_be64(out + at + 2 + 8 * i, message->services[i]);
	return at + 2 + 8 * message->service_count;
}

/* Services follow the slots, if there are any. */
static int parse_answer(const uint8_t *data, size_t bytes, struct group_message *message)
{
	unsigned i, count;

	if (bytes < AT_SLOTS)
		return EBADMSG;
	count = get_be16(data + AT_COUNT);
	if (count > SLOT_COUNT || bytes < AT_SLOTS + 2 * count)
		return EBADMSG;
	for (i = 0; i < count; i++) {
		message->slots[i] = get_be16(data + AT_SLOTS + 2 * i);
		if (message->slots[i] >= SLOT_COUNT)
			return EBADMSG;
	}
	message->slot_count = count;
	data += AT_SLOTS + 2 * count;
	bytes -= AT_SLOTS + 2 * count;
	if (!bytes)
		return 0;
	count = bytes < 2 ? 0 : get_be16(data);
	if (!count || count > GROUP_SERVICES || bytes != 2 + 8 * count)
		return EBADMSG;
	for (i = 0; i < count; i++)
		message->services[i] = get_be64(data + 2 + 8 * i);
	message->service_count = count;
	return 0;
}

int group_message_parse(const uint8_t *data, size_t bytes, struct group_message *message)
{
	uint8_t kind, family;

	if (!group_message_is(data, bytes) || data[AT_VERSION] != GROUP_VERSION)
		return EBADMSG;
	kind = data[AT_KIND];
	family = data[AT_FAMILY];
	if ((kind != GROUP_PROBE && kind != GROUP_ANSWER) || (family != 4 && family != 6))
		return EBADMSG;
	message->kind = kind;
	message->family = family;
	message->program_known = get_be16(data + AT_FLAGS) & GROUP_KNOWN;
	message->slot = get_be16(data + AT_SLOT);
	message->index = get_be32(data + AT_INDEX);
	message->nonce = get_be64(data + AT_NONCE);
	message->slot_count = message->service_count = 0;
	if (message->slot >= SLOT_COUNT)
		return EBADMSG;
	return kind == GROUP_ANSWER ? parse_answer(data, bytes, message) : 0;
}
