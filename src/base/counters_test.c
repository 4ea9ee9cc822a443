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

static void adapters_names_add_counters_up(void **state)
{
	uint64_t values[COUNTER_COUNT] = { [COUNTER_TX_BYTES] = 4003, [COUNTER_RX_ICRC] = 2,
					   [COUNTER_RX_MALFORMED] = 3,
					   [COUNTER_RX_SHORT] = 5, [COUNTER_RX_SEQ_NAK] = 7 };

	assert_int_equal(hardware_value(HARDWARE_port_xmit_data, values), 1000);	/* words */
	assert_int_equal(hardware_value(HARDWARE_port_rcv_errors, values), 10);
	assert_int_equal(hardware_value(HARDWARE_packet_seq_err, values), 7);
	assert_int_equal(hardware_value(HARDWARE_symbol_error, values), 0);
	assert_string_equal(hardware_row(HARDWARE_packet_seq_err)->directory, "hw_counters");
}

static void no_name_of_adapters_is_ours(void **state)
{
	for (unsigned i = 0; i < HARDWARE_COUNT; i++)
		for (unsigned j = 0; j < COUNTER_COUNT; j++)
			assert_string_not_equal(hardware_row((enum hardware_counter)i)->name, counter_name(j));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_counter_has_a_name_of_its_own),
		cmocka_unit_test(a_number_outside_the_table_is_unknown),
		cmocka_unit_test(counters_add_up_one_by_one),
		cmocka_unit_test(adapters_names_add_counters_up),
		cmocka_unit_test(no_name_of_adapters_is_ours),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
