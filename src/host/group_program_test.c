/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The selector against an interpreter of classic BPF, for all slots of many maps; the messages,
 * there and back, and cut or damaged.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "host/group_program.h"

/* ---- classic BPF, as far as the selector uses it ---- */

static uint32_t chance;		/* what the kernel's random number is */
static unsigned steps_max = 64;	/* a search, not a scan */

static uint32_t load(const uint8_t *packet, size_t bytes, const struct sock_filter *at, bool *out)
{
	size_t width = BPF_SIZE(at->code) == BPF_W ? 4 : BPF_SIZE(at->code) == BPF_H ? 2 : 1;

	*out = false;
	if (at->k == (uint32_t)(SKF_AD_OFF + SKF_AD_RANDOM))
		return chance;
	*out = at->k + width > bytes;
	if (*out)
		return 0;
	return width == 4 ? get_be32(packet + at->k) :
	       width == 2 ? get_be16(packet + at->k) : packet[at->k];
}

static uint32_t run(const struct sock_filter *program, unsigned count, const uint8_t *packet,
		    size_t bytes)
{
	uint32_t a = 0, pc = 0, steps = 0;
	bool out;

	while (pc < count) {
		const struct sock_filter *at = &program[pc++];

		assert_true(++steps < steps_max);
		switch (at->code) {
		case BPF_LD | BPF_W | BPF_ABS:
		case BPF_LD | BPF_H | BPF_ABS:
		case BPF_LD | BPF_B | BPF_ABS:
			a = load(packet, bytes, at, &out);
			if (out)
				return 0;
			break;
		case BPF_ALU | BPF_RSH | BPF_K:
			a >>= at->k;
			break;
		case BPF_ALU | BPF_AND | BPF_K:
			a &= at->k;
			break;
		case BPF_ALU | BPF_MOD | BPF_K:
			a %= at->k;
			break;
		case BPF_JMP | BPF_JEQ | BPF_K:
			pc += a == at->k ? at->jt : at->jf;
			break;
		case BPF_JMP | BPF_JGE | BPF_K:
			pc += a >= at->k ? at->jt : at->jf;
			break;
		case BPF_JMP | BPF_JA:
			pc += at->k;
			break;
		case BPF_RET | BPF_K:
			return at->k;
		case BPF_RET | BPF_A:
			return a;
		default:
			fail_msg("instruction 0x%x", at->code);
		}
	}
	fail_msg("ran off the end");
	return 0;
}

static struct sock_filter program[BPF_MAXINSNS + 1024];

static unsigned check_map(const struct group_map *map)
{
	unsigned slot, count = group_program_build(map, program);
	uint8_t packet[16] = { 0x04 };

	assert_in_range(count, 1, BPF_MAXINSNS);
	for (slot = 0; slot < SLOT_COUNT; slot++) {
		uint32_t wanted = map->index[slot] == GROUP_HASH ? UINT32_MAX : map->index[slot];

		put_be32(packet + 4, 0xff000000u | slot << 14 | ((2 + slot * 37) & 0x3fff));
		assert_int_equal(run(program, count, packet, sizeof(packet)), wanted);
	}
	return count;
}

static void every_slot_goes_to_its_index(void **state)
{
	struct group_map map;
	unsigned seed, slot, members;

	srand(1);
	for (seed = 0; seed < 200; seed++) {
		members = 1 + (unsigned)rand() % (seed < 100 ? 30 : SLOT_COUNT);
		group_map_clear(&map);
		for (slot = 0; slot < members; slot++)
			map.index[(unsigned)rand() % SLOT_COUNT] = (uint16_t)slot;
		check_map(&map);
	}
}

static void any_map_fits_into_a_program(void **state)
{
	struct group_map map;
	unsigned slot;

	group_map_clear(&map);
	for (slot = 0; slot < SLOT_COUNT; slot++)
		map.index[slot] = (uint16_t)((slot * 611) % SLOT_COUNT);
	assert_in_range(check_map(&map), 2 * SLOT_COUNT, BPF_MAXINSNS);
	for (slot = 0; slot < SLOT_COUNT; slot++)
		map.index[slot] = slot & 1 ? GROUP_HASH : (uint16_t)slot;
	check_map(&map);
	group_map_clear(&map);
	check_map(&map);
}

/* As large as a program can become: each slot and each half of a service ID stands alone. */
static void fill_map(struct group_map *map)
{
	unsigned i;

	group_map_clear(map);
	for (i = 0; i < SLOT_COUNT; i++)
		map->index[i] = (uint16_t)i;
	map->size = SLOT_COUNT;
	map->silent_count = GROUP_SILENT;
	map->service_count = GROUP_SERVICES;
	for (i = 0; i < GROUP_SILENT; i++)
		map->silent[i] = (uint16_t)(900 + i);
	for (i = 0; i < GROUP_SERVICES; i++) {
		map->service_id[i] = (uint64_t)(i + 1) << 32 | (i + 7);
		map->service_index[i] = (uint16_t)(1000 - i);
	}
	map->rest = 3;
}

/* A management datagram to QP1. */
static void make_mad(uint8_t packet[276], uint8_t class, uint16_t attribute)
{
	memset(packet, 0, 276);
	packet[0] = 0x64;
	packet[7] = 1;
	packet[21] = class;
	put_be16(packet + 36, attribute);
}

static void answers_go_by_the_slot_in_the_communication_id(void **state)
{
	static const uint16_t others[] = { 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x19, 0x1a };
	struct group_map map;
	uint8_t packet[276];
	unsigned slot, i, count;

	fill_map(&map);
	count = group_program_build(&map, program);
	for (slot = 0; slot < SLOT_COUNT; slot++) {
		for (i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
			make_mad(packet, 7, others[i]);
			put_be32(packet + 44, 0x12345678);
			put_be32(packet + 48, slot << 22 | 0x2a5a5a);
			assert_int_equal(run(program, count, packet, sizeof(packet)), slot);
		}
		make_mad(packet, 7, 0x18);	/* SIDR_REP has only the requester's ID */
		put_be32(packet + 44, slot << 22 | 0x2a5a5a);
		put_be32(packet + 48, 0x12345678);
		assert_int_equal(run(program, count, packet, sizeof(packet)), slot);
	}
}

static void requests_go_to_who_serves_or_by_chance(void **state)
{
	static const uint16_t attributes[] = { 0x10, 0x17 };
	struct group_map map;
	uint8_t packet[276];
	unsigned i, a, count;

	fill_map(&map);
	map.service_id[5] = map.service_id[4] + 1;	/* the same upper half */
	map.size = 1000;
	steps_max = BPF_MAXINSNS;
	count = group_program_build(&map, program);
	assert_in_range(count, 2 * SLOT_COUNT, BPF_MAXINSNS);
	for (a = 0; a < 2; a++) {
		make_mad(packet, 7, attributes[a]);
		for (i = 0; i < GROUP_SERVICES; i++) {
			put_be64(packet + 52, map.service_id[i]);
			assert_int_equal(run(program, count, packet, sizeof(packet)), 1000 - i);
		}
		put_be64(packet + 52, map.service_id[9] + 1);
		for (chance = 5; chance < 3000; chance += 997)
			assert_int_equal(run(program, count, packet, sizeof(packet)), chance % 1000);
		for (i = 0; i < GROUP_SILENT; i++) {
			chance = 900 + i;
			assert_int_equal(run(program, count, packet, sizeof(packet)), map.rest);
		}
	}
	make_mad(packet, 3, 0x35);	/* of another class, with what would be a known service */
	put_be64(packet + 52, map.service_id[0]);
	chance = 77;
	assert_int_equal(run(program, count, packet, sizeof(packet)), 77);
	map.size = 0;
	count = group_program_build(&map, program);
	assert_int_equal(run(program, count, packet, sizeof(packet)), UINT32_MAX);
	steps_max = 64;
}

static void the_kernel_accepts_the_largest_program(void **state)
{
	struct sock_fprog fprog = { .filter = program };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), on = 1;
	struct group_map map;

	fill_map(&map);
	fprog.len = (unsigned short)group_program_build(&map, program);
	assert_true(fd >= 0);
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)), 0);
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &fprog,
				    sizeof(fprog)), 0);
	close(fd);
}

static void probes_are_steered_to_the_index_they_name(void **state)
{
	struct group_message probe = { .kind = GROUP_PROBE, .family = 4, .slot = 77,
				       .nonce = 0x1122334455667788u };
	uint8_t bytes[GROUP_MESSAGE_MAX];
	struct group_map map;
	unsigned count;
	size_t length;

	group_map_clear(&map);
	for (count = 0; count < SLOT_COUNT; count++)
		map.index[count] = 0;
	count = group_program_build(&map, program);
	for (probe.index = 0; probe.index < 1023; probe.index += 31) {
		length = group_message_write(&probe, bytes);
		assert_int_equal(run(program, count, bytes, length), probe.index);
	}
	bytes[0] = 0x04;		/* any other packet is not */
	bytes[4] = bytes[5] = 0;
	assert_int_equal(run(program, count, bytes, length), 0);
}

static void short_packets_are_taken_by_the_first_member(void **state)
{
	uint8_t packet[8] = { 0xff };
	struct group_map map;
	unsigned bytes, count;

	group_map_clear(&map);
	count = group_program_build(&map, program);
	for (bytes = 0; bytes < 8; bytes++)
		assert_int_equal(run(program, count, packet, bytes), 0);
}

static void messages_come_back_as_they_were_written(void **state)
{
	struct group_message out = { .kind = GROUP_ANSWER, .family = 6, .program_known = true,
				     .slot = 1022, .index = 513, .nonce = ~0ull,
				     .slot_count = 900 };
	uint8_t bytes[GROUP_MESSAGE_MAX];
	struct group_message in;
	size_t length, i;

	for (i = 0; i < out.slot_count; i++)
		out.slots[i] = (uint16_t)(i + 100);
	length = group_message_write(&out, bytes);
	memset(&in, 0, sizeof(in));
	assert_int_equal(group_message_parse(bytes, length, &in), 0);
	assert_memory_equal(&in, &out, sizeof(in));
	for (i = 0; i < length; i++)
		assert_int_equal(group_message_parse(bytes, i, &in), EBADMSG);
	assert_int_equal(group_message_parse(bytes, length + 1, &in), EBADMSG);
	out.service_count = GROUP_SERVICES;
	for (i = 0; i < GROUP_SERVICES; i++)
		out.services[i] = 0x0000000001060000u + i;
	length = group_message_write(&out, bytes);
	assert_int_equal(group_message_parse(bytes, length, &in), 0);
	assert_memory_equal(&in, &out, sizeof(in));
	/* Cut behind the slots it is one without services. */
	for (i = 26 + 2 * out.slot_count + 1; i < length; i++)
		assert_int_equal(group_message_parse(bytes, i, &in), EBADMSG);
	assert_int_equal(group_message_parse(bytes, length + 1, &in), EBADMSG);
}

static void damaged_messages_are_refused_or_stay_in_bounds(void **state)
{
	struct group_message message = { .kind = GROUP_ANSWER, .family = 4, .slot_count = 3 };
	uint8_t bytes[GROUP_MESSAGE_MAX], whole[GROUP_MESSAGE_MAX];
	size_t length = group_message_write(&message, whole), i;
	unsigned value;

	for (i = 0; i < length; i++)
		for (value = 0; value < 256; value++) {
			memcpy(bytes, whole, length);
			bytes[i] = (uint8_t)value;
			if (group_message_parse(bytes, length, &message))
				continue;
			assert_true(message.slot < SLOT_COUNT && message.slot_count <= SLOT_COUNT);
			assert_true(message.family == 4 || message.family == 6);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_slot_goes_to_its_index),
		cmocka_unit_test(any_map_fits_into_a_program),
		cmocka_unit_test(answers_go_by_the_slot_in_the_communication_id),
		cmocka_unit_test(requests_go_to_who_serves_or_by_chance),
		cmocka_unit_test(the_kernel_accepts_the_largest_program),
		cmocka_unit_test(probes_are_steered_to_the_index_they_name),
		cmocka_unit_test(short_packets_are_taken_by_the_first_member),
		cmocka_unit_test(messages_come_back_as_they_were_written),
		cmocka_unit_test(damaged_messages_are_refused_or_stay_in_bounds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
