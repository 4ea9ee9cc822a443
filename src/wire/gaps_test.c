/* SPDX-License-Identifier: BSD-2-Clause */
/* What is written is read again, and nothing else is taken for it. */
#include "wire/gaps.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/test_random.h"

static void what_is_written_is_read_again(void **unused)
{
	uint64_t random = 1;

	for (unsigned n = 0; n < 1000; n++) {
		struct gaps gaps = { .kind = (enum gaps_kind)(GAPS_ASK + n % 3),
				     .qpn = (uint32_t)test_random(&random) & 0xffffff }, read = { 0 };
		uint8_t bytes[GAPS_BYTES];

		for (unsigned i = 0; i < GAPS_REACH / 64; i++)
			gaps.held[i] = test_random(&random);
		gaps_write(&gaps, bytes);
		assert_true(gaps_read(bytes, sizeof(bytes), &read));
		assert_memory_equal(&read, &gaps, sizeof(gaps));
	}
}

static void nothing_else_is_taken_for_it(void **unused)
{
	struct gaps gaps = { .kind = GAPS_REPORT }, read = { 0 };
	uint8_t bytes[GAPS_BYTES + 4] = { 0 };

	assert_false(gaps_read(bytes, GAPS_BYTES, &read));
	gaps_write(&gaps, bytes);
	for (size_t length = 0; length <= sizeof(bytes); length++)
		assert_int_equal(gaps_read(bytes, length, &read), length == GAPS_BYTES);
	for (unsigned kind = 0; kind < 256; kind++) {
		bytes[7] = (uint8_t)kind;
		assert_int_equal(gaps_read(bytes, GAPS_BYTES, &read), kind >= GAPS_ASK && kind <= GAPS_REPORT);
	}
	gaps_write(&gaps, bytes);
	for (unsigned i = 0; i < 4; i++) {
		bytes[i] ^= 1;
		assert_false(gaps_read(bytes, GAPS_BYTES, &read));
		bytes[i] ^= 1;
	}
}

static void the_end_is_behind_the_last_bit(void **unused)
{
	struct gaps gaps = { .kind = GAPS_REPORT };

	assert_int_equal(gaps_end(gaps.held), 0);
	for (uint32_t bit = 0; bit < GAPS_REACH; bit++) {
		assert_false(gaps_has(gaps.held, bit));
		gaps_set(&gaps, bit);
		assert_true(gaps_has(gaps.held, bit));
		assert_int_equal(gaps_end(gaps.held), bit + 1);
	}
	assert_false(gaps_has(gaps.held, GAPS_REACH));
	assert_false(gaps_has(gaps.held, UINT32_MAX));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_written_is_read_again),
		cmocka_unit_test(nothing_else_is_taken_for_it),
		cmocka_unit_test(the_end_is_behind_the_last_bit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
