/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * PSN arithmetic at and around the wrap, against a walk of single steps.
 */
#include "wire/psn.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

static const uint32_t bases[] = { 0, 1, 0x7fffff, 0x800000, 0x800001, 0xfffffe, 0xffffff };
#define BASES (sizeof(bases) / sizeof(*bases))

static void adding_wraps_at_24_bits(void **unused)
{
	assert_int_equal(psn_add(0xffffff, 1), 0);
	assert_int_equal(psn_add(0xfffffe, 3), 1);
	assert_int_equal(psn_add(5, PSN_MASK + 1), 5);
}

static void the_difference_is_the_number_of_steps_either_way(void **unused)
{
	for (size_t i = 0; i < BASES; i++) {
		uint32_t later = bases[i];

		for (int32_t steps = 0; steps < 1000; steps++) {
			assert_int_equal(psn_diff(later, bases[i]), steps);
			assert_int_equal(psn_diff(bases[i], later), -steps);
			assert_int_equal(psn_before(bases[i], later), steps > 0);
			assert_false(psn_before(later, bases[i]));
			later = psn_add(later, 1);
		}
	}
}

static void half_the_space_is_before_and_half_is_not(void **unused)
{
	for (size_t i = 0; i < BASES; i++) {
		assert_int_equal(psn_diff(psn_add(bases[i], 0x7fffff), bases[i]), 0x7fffff);
		assert_int_equal(psn_diff(psn_add(bases[i], 0x800000), bases[i]), -0x800000);
		assert_int_equal(psn_diff(psn_add(bases[i], 0x800001), bases[i]), -0x7fffff);
	}
}

static void a_range_has_its_first_and_not_its_end(void **unused)
{
	for (size_t i = 0; i < BASES; i++)
		for (uint32_t count = 0; count < 20; count++)
			for (uint32_t step = 0; step < 40; step++)
				assert_int_equal(psn_in(psn_add(bases[i], step), bases[i], count),
						 step < count);
	assert_false(psn_in(0xffffff, 0, 100));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(adding_wraps_at_24_bits),
		cmocka_unit_test(the_difference_is_the_number_of_steps_either_way),
		cmocka_unit_test(half_the_space_is_before_and_half_is_not),
		cmocka_unit_test(a_range_has_its_first_and_not_its_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
