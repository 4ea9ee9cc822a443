/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Every counter has a name and a text, and no name twice.
 */
#include "base/counters.h"

#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

static void every_counter_has_a_name_of_its_own(void **unused)
{
	for (int i = 0; i < COUNTER_COUNT; i++) {
		const char *name = counter_name((enum counter)i);

		assert_true(*name && *counter_text((enum counter)i));
		/* They become file names (hw_counters) and words that scripts cut out. */
		for (const char *c = name; *c; c++)
			assert_true(islower((unsigned char)*c) || isdigit((unsigned char)*c) ||
				    *c == '_');
		for (int j = 0; j < i; j++)
			assert_string_not_equal(name, counter_name((enum counter)j));
	}
}

static void a_number_outside_the_table_is_unknown(void **unused)
{
	assert_string_equal(counter_name(COUNTER_COUNT), "unknown");
	assert_string_equal(counter_text((enum counter)-1), "unknown");
}

static void counters_add_up_one_by_one(void **unused)
{
	struct counters counters = { 0 };

	counter_add(&counters, COUNTER_RX_ICRC, 2);
	counter_add(&counters, COUNTER_RX_ICRC, 3);
	assert_int_equal(counter_get(&counters, COUNTER_RX_ICRC), 5);
	assert_int_equal(counter_get(&counters, COUNTER_RX_PKEY), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_counter_has_a_name_of_its_own),
		cmocka_unit_test(a_number_outside_the_table_is_unknown),
		cmocka_unit_test(counters_add_up_one_by_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
