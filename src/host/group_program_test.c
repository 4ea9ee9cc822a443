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

static uint32_t load(const uint8_t *packet, size_t bytes, const struct sock_filter *at, bool *out)
{
	size_t width = BPF_SIZE(at->code) == BPF_W ? 4 : 1;

	*out = at->k + width > bytes;
	if (*out)
		return 0;
	return width == 4 ? get_be32(packet + at->k) : packet[at->k];
}

static uint32_t run(const struct sock_filter *program, unsigned count, const uint8_t *packet,
		    size_t bytes)
{
	uint32_t a = 0, pc = 0, steps = 0;
	bool out;

	while (pc < count) {
		const struct sock_filter *at = &program[pc++];

		assert_true(++steps < 64);	/* a search, not a scan */
		switch (at->code) {
		case BPF_LD | BPF_W | BPF_ABS:
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

		put_be32(packet + 4, 0xff000000u | slot << 14 | (slot * 37 & 0x3fff));
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
		for (slot = 0; slot < SLOT_COUNT; slot++)
			map.index[slot] = GROUP_HASH;
		for (slot = 0; slot < members; slot++)
			map.index[(unsigned)rand() % SLOT_COUNT] = (uint16_t)slot;
		check_map(&map);
	}
}

static void any_map_fits_into_a_program(void **state)
{
	struct group_map map;
	unsigned slot;

	for (slot = 0; slot < SLOT_COUNT; slot++)
		map.index[slot] = (uint16_t)((slot * 611) % SLOT_COUNT);
	assert_in_range(check_map(&map), 2 * SLOT_COUNT, BPF_MAXINSNS);
	for (slot = 0; slot < SLOT_COUNT; slot++)
		map.index[slot] = slot & 1 ? GROUP_HASH : (uint16_t)slot;
	check_map(&map);
	memset(&map, 0xff, sizeof(map));
	check_map(&map);
}

static void the_kernel_accepts_the_largest_program(void **state)
{
	struct sock_fprog fprog = { .filter = program };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), on = 1;
	struct group_map map;
	unsigned slot;

	for (slot = 0; slot < SLOT_COUNT; slot++)
		map.index[slot] = (uint16_t)slot;
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

	memset(&map, 0, sizeof(map));
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

	memset(&map, 0xff, sizeof(map));
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
		cmocka_unit_test(the_kernel_accepts_the_largest_program),
		cmocka_unit_test(probes_are_steered_to_the_index_they_name),
		cmocka_unit_test(short_packets_are_taken_by_the_first_member),
		cmocka_unit_test(messages_come_back_as_they_were_written),
		cmocka_unit_test(damaged_messages_are_refused_or_stay_in_bounds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
