/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The tables of record.h are consistent with themselves, what is written is read back, and a few
 * bytes stand where the specification draws them (tests/golden has tshark's reading of all of
 * them).
 */
#include "wire/record.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/bytes.h"
#include "base/test_random.h"

/* The bits of a record that fields cover, each at most once. */
static void cover(const struct record_layout *layout, uint8_t mask[RECORD_BYTES_MAX])
{
	memset(mask, 0, RECORD_BYTES_MAX);
	for (unsigned i = 0; i < layout->fields; i++) {
		const struct wire_field *field = &layout->field[i];

		for (unsigned n = 0; n < field->count; n++)
			for (unsigned b = 0; b < field->width; b++) {
				unsigned bit = field->bit + n * field->stride + b;

				if (bit >= layout->bytes * 8u || mask[bit / 8] & 0x80 >> bit % 8)
					fail_msg("%s: %s", layout->name, field->name);
				mask[bit / 8] |= (uint8_t)(0x80 >> bit % 8);
			}
	}
}

static void fields_neither_overlap_nor_leave_their_record(void **unused)
{
	uint8_t mask[RECORD_BYTES_MAX];

	for (unsigned record = 0; record < RECORDS; record++) {
		assert_true(record_layout((enum record)record)->bytes <= RECORD_BYTES_MAX);
		cover(record_layout((enum record)record), mask);
	}
}

static void every_field_fits_its_member_and_no_smaller_one(void **unused)
{
	for (unsigned record = 0; record < RECORDS; record++) {
		const struct record_layout *layout = record_layout((enum record)record);

		for (unsigned i = 0; i < layout->fields; i++) {
			const struct wire_field *field = &layout->field[i];

			if (!field->member_bytes) {
				assert_int_equal(field->width % 8 | field->bit % 8, 0);
				continue;
			}
			if (field->width > field->member_bytes * 8 ||
			    (field->member_bytes > 1 && field->width <= field->member_bytes * 4))
				fail_msg("%s: %s", layout->name, field->name);
		}
	}
}

static void whatever_is_read_is_written_as_the_same_bytes(void **unused)
{
	uint64_t random = 1;

	for (unsigned round = 0; round < 200 * RECORDS; round++) {
		enum record record = (enum record)(round % RECORDS);
		const struct record_layout *layout = record_layout(record);
		uint8_t mask[RECORD_BYTES_MAX], bytes[RECORD_BYTES_MAX], again[RECORD_BYTES_MAX];
		uint64_t values[RECORD_BYTES_MAX / 8];

		cover(layout, mask);
		test_random_fill(&random, bytes, layout->bytes);
		memset(again, 0xaa, sizeof(again));
		record_read(record, bytes, values);
		record_write(record, values, again);
		for (unsigned i = 0; i < layout->bytes; i++)	/* reserved bits are read over */
			if (again[i] != (bytes[i] & mask[i]))
				fail_msg("%s, byte %u", layout->name, i);
		assert_true(layout->bytes == RECORD_BYTES_MAX || again[layout->bytes] == 0xaa);
	}
}

static void numbers_are_cut_to_the_width_of_their_field(void **unused)
{
	for (unsigned record = 0; record < RECORDS; record++) {
		const struct record_layout *layout = record_layout((enum record)record);
		uint8_t ones[RECORD_BYTES_MAX], mask[RECORD_BYTES_MAX];
		uint64_t values[RECORD_BYTES_MAX / 8];

		memset(values, 0xff, sizeof(values));
		record_write((enum record)record, values, ones);
		cover(layout, mask);
		assert_memory_equal(ones, mask, layout->bytes);
	}
}

static void fields_stand_where_the_specification_draws_them(void **unused)
{
	const struct ib_port_info port = {
		.m_key = 0x0102030405060708,
		.lid = 0x1234,
		.port_state = 4,
		.link_speed_supported = 7,
		.m_key_protect_bits = 2,
		.lmc = 5,
		.neighbor_mtu = 4,
		.master_sm_sl = 9,
		.client_reregister = 1,
		.subnet_time_out = 18,
		.link_speed_ext_active_2 = 1,
		.link_speed_ext_active = 2,
		.link_speed_ext_enabled = 0x1f,
		.link_round_trip_latency = 0xabcdef,
	};
	const struct ib_lrh lrh = {
		.vl = 15, .sl = 3, .lnh = 2, .dlid = 0xc001, .pktlen = 0x48, .slid = 7};
	const struct ib_multicast_forwarding table = { .port_mask = { [1] = 0x8001 } };
	const struct ib_sl_to_vl map = { .vl = { 1, 2, [15] = 15 } };
	uint8_t out[RECORD_BYTES_MAX];

	record_write(RECORD_PORT_INFO, &port, out);
	assert_int_equal(get_be64(out), port.m_key);
	assert_int_equal(get_be16(out + 16), 0x1234);
	assert_int_equal(out[32], 0x74);
	assert_int_equal(out[34], 2 << 6 | 5);
	assert_int_equal(out[36], 0x49);
	assert_int_equal(out[51], 0x80 | 18);
	assert_int_equal(out[56], 0x20);
	assert_int_equal(get_be24(out + 57), 0xabcdef);
	assert_int_equal(out[62], 0x20);
	assert_int_equal(out[63], 0x1f);
	record_write(RECORD_LRH, &lrh, out);
	assert_memory_equal(out, "\xf0\x32\xc0\x01\x00\x48\x00\x07", 8);
	record_write(RECORD_MULTICAST_FORWARDING, &table, out);
	assert_memory_equal(out, "\0\0\x80\x01\0", 5);
	record_write(RECORD_SL_TO_VL, &map, out);
	assert_memory_equal(out, "\x12\0\0\0\0\0\0\x0f", 8);
}

static void attributes_of_a_class_have_distinct_ids(void **unused)
{
	for (unsigned a = RECORD_NOTICE; a < RECORD_CLASS_PORT_INFO; a++)
		for (unsigned b = RECORD_NOTICE; b < a; b++)
			assert_true(!record_layout((enum record)a)->attribute ||
				    record_layout((enum record)a)->attribute !=
					    record_layout((enum record)b)->attribute);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fields_neither_overlap_nor_leave_their_record),
		cmocka_unit_test(every_field_fits_its_member_and_no_smaller_one),
		cmocka_unit_test(whatever_is_read_is_written_as_the_same_bytes),
		cmocka_unit_test(numbers_are_cut_to_the_width_of_their_field),
		cmocka_unit_test(fields_stand_where_the_specification_draws_them),
		cmocka_unit_test(attributes_of_a_class_have_distinct_ids),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
