/* SPDX-License-Identifier: BSD-2-Clause */
/* Tests of the numbers of recent keys (recent.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/recent.h"

static int setup(void **state)
{
	*state = calloc(1, sizeof(struct recent));
	return !*state;
}

static int teardown(void **state)
{
	free(*state);
	return 0;
}

static void a_key_keeps_its_number(void **state)
{
	struct recent *recent = *state;

	assert_int_equal(*recent_value(recent, 7), 0);
	*recent_value(recent, 7) = -3;
	*recent_value(recent, 8) = 5;
	assert_int_equal(*recent_value(recent, 7), -3);
	assert_int_equal(*recent_value(recent, 8), 5);
	assert_int_equal(*recent_value(recent, 9), 0);
}

/* What is underway between two queue pairs is thousands of packets at most. */
static void none_of_thousands_is_forgotten(void **state)
{
	struct recent *recent = *state;

	for (uint64_t round = 0; round < 200; round++) {
		uint64_t first = 1 + round * 0x123456789u;

		for (uint64_t i = 0; i < 4096; i++)
			*recent_value(recent, first + i) = (int64_t)i;
		for (uint64_t i = 0; i < 4096; i++)
			assert_int_equal(*recent_value(recent, first + i), i);
	}
}

static void the_oldest_of_a_row_makes_room(void **state)
{
	struct recent *recent = *state;
	uint64_t key[RECENT_WAYS + 1], next = 1;

	/* Keys of one row are told by what they push away: the first entry of row 0 is the last that was asked. */
	for (unsigned n = 0; n <= RECENT_WAYS; next++) {
		recent_value(recent, next);
		if (recent->row[0][0].key == next)
			key[n++] = next;
	}
	recent_forget(recent, 0, 0);
	for (unsigned n = 0; n < RECENT_WAYS; n++)
		*recent_value(recent, key[n]) = n + 1;
	assert_int_equal(*recent_value(recent, key[0]), 1);	/* asked for: the second is the oldest now */
	assert_int_equal(*recent_value(recent, key[RECENT_WAYS]), 0);
	assert_int_equal(*recent_value(recent, key[0]), 1);
	assert_int_equal(*recent_value(recent, key[2]), 3);
	assert_int_equal(*recent_value(recent, key[1]), 0);
}

static void those_with_the_bits_are_forgotten_alone(void **state)
{
	struct recent *recent = *state;

	for (uint64_t i = 1; i <= 3000; i++)
		*recent_value(recent, i << 24 | i % 3) = (int64_t)i;
	recent_forget(recent, 0xffffff, 1);
	for (uint64_t i = 1; i <= 3000; i++)
		assert_int_equal(*recent_value(recent, i << 24 | i % 3), i % 3 == 1 ? 0 : i);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_key_keeps_its_number, setup, teardown),
		cmocka_unit_test_setup_teardown(none_of_thousands_is_forgotten, setup, teardown),
		cmocka_unit_test_setup_teardown(the_oldest_of_a_row_makes_room, setup, teardown),
		cmocka_unit_test_setup_teardown(those_with_the_bits_are_forgotten_alone, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
