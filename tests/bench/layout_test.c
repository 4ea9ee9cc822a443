/* SPDX-License-Identifier: BSD-2-Clause */
/* Layouts of the scatter/gather study: what verification finds, and packing there and back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "noncontig.h"

enum { SEED = 7 };

static const struct layout layouts[] = { { 1, 1, 1 }, { 3, 5, 7 }, { 64, 4, 64 }, { 10, 9, 33 } };

/* A target as a transfer would leave it: gaps erased, blocks filled. */
static void target_make(uint8_t *memory, const struct layout *layout)
{
	layout_erase(memory, layout);
	layout_fill(memory, layout, SEED);
}

static void right_bytes_are_right(void **state)
{
	uint8_t memory[512];
	size_t where;

	for (unsigned i = 0; i < sizeof(layouts) / sizeof(*layouts); i++) {
		target_make(memory, &layouts[i]);
		assert_true(layout_verify(memory, &layouts[i], SEED, &where));
	}
}

static void each_wrong_byte_is_found_where_it_is(void **state)
{
	uint8_t memory[512];
	size_t where;

	for (unsigned i = 0; i < sizeof(layouts) / sizeof(*layouts); i++) {
		for (size_t at = 0; at < layout_span(&layouts[i]); at++) {
			target_make(memory, &layouts[i]);
			memory[at] ^= 0x10;
			assert_false(layout_verify(memory, &layouts[i], SEED, &where));
			assert_int_equal(where, at);
		}
	}
}

static void blocks_of_another_seed_or_order_are_wrong(void **state)
{
	const struct layout layout = { 16, 4, 32 };
	uint8_t memory[128], block[16];
	size_t where;

	target_make(memory, &layout);
	assert_false(layout_verify(memory, &layout, SEED + 1, &where));
	memcpy(block, memory, 16);
	memcpy(memory, memory + 32, 16);
	memcpy(memory + 32, block, 16);
	assert_false(layout_verify(memory, &layout, SEED, &where));
}

static void what_is_packed_unpacks(void **state)
{
	const struct layout layout = { 10, 9, 33 };
	uint8_t source[512], packed[512], target[512];
	size_t where;

	target_make(source, &layout);
	layout_erase(target, &layout);
	layout_pack(packed, source, &layout, 0, 4);
	layout_pack(packed, source, &layout, 4, 5);
	layout_unpack(target, packed, &layout, 0, 9);
	assert_true(layout_verify(target, &layout, SEED, &where));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(right_bytes_are_right),
		cmocka_unit_test(each_wrong_byte_is_found_where_it_is),
		cmocka_unit_test(blocks_of_another_seed_or_order_are_wrong),
		cmocka_unit_test(what_is_packed_unpacks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
