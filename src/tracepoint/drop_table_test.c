/* SPDX-License-Identifier: BSD-2-Clause */
/* The table of reasons to drop is total: each counter of drops has a row, each row a counter or a peer to tell. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tracepoint/drop.h"
#include "tracepoint/tracepoint.h"

static bool has_row(enum counter counter)
{
	for (int why = DROP_NONE + 1; why < DROP_COUNT; why++)
		if (drop_row((enum drop)why)->counter == counter)
			return true;
	return false;
}

static void each_counter_of_drops_has_a_reason(void **state)
{
	for (int counter = 0; counter < COUNTER_COUNT; counter++)
		if (!strncmp(counter_text((enum counter)counter), "dropped", strlen("dropped")))
			assert_true(has_row((enum counter)counter));
}

static void each_reason_is_counted_or_told(void **state)
{
	for (int why = DROP_NONE + 1; why < DROP_COUNT; why++)
		assert_true(drop_row((enum drop)why)->counter != COUNTER_NONE || drop_row((enum drop)why)->peer);
	assert_int_equal(drop_row(DROP_NONE)->counter, COUNTER_NONE);
}

static void a_drop_counts_its_row(void **state)
{
	struct counters counters = { 0 };

	assert_int_equal(drop_count(&counters, DROP_LINK, 3), DROP_LINK);
	assert_int_equal(counter_get(&counters, COUNTER_TX_LINK), 3);
	assert_int_equal(drop_count(&counters, DROP_OTHER_QP, 1), DROP_OTHER_QP);	/* of none */
	for (int counter = 0; counter < COUNTER_COUNT; counter++)
		assert_true(counter == COUNTER_TX_LINK || !counter_get(&counters, (enum counter)counter));
}

static unsigned records;
static char recorded[TRACEPOINT_BYTES];

static void take(const struct tracepoint_record *record)
{
	records++;
	tracepoint_members(record->data, record->bytes, recorded);
}

static void what_is_not_sent_is_recorded_where_it_is_counted(void **state)
{
	struct counters counters = { 0 };

	tracepoint_listen(take);
	atomic_store(&trace_wanted, TRACE_DROPS);
	drop_count(&counters, DROP_LINK, 3);
	assert_int_equal(records, 1);
	assert_string_equal(recorded, "\"event\":\"drop\",\"reason\":\"tx_link_error\",\"packets\":3");
	for (int why = DROP_NONE + 1; why < DROP_COUNT; why++)
		if (why != DROP_LINK)
			drop_count(&counters, (enum drop)why, 1);
	assert_int_equal(records, 1);
	atomic_store(&trace_wanted, 0);
	tracepoint_listen(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_counter_of_drops_has_a_reason),
		cmocka_unit_test(each_reason_is_counted_or_told),
		cmocka_unit_test(a_drop_counts_its_row),
		cmocka_unit_test(what_is_not_sent_is_recorded_where_it_is_counted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
