/* SPDX-License-Identifier: BSD-2-Clause */
/* Records of several processes come nearly in order, and are taken in the order of time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/test_random.h"
#include "trace.h"

static uint64_t last_ns, last_of_ns[3], last_number[3], taken;

/* In the order of time, and of arrival where the time is the same. */
static void take_in_order(void *until_ns, struct source *source, const struct trace_record *record)
{
	size_t which = (size_t)(uintptr_t)source;

	assert_true(record->time_ns >= last_ns);
	assert_true(record->time_ns <= *(uint64_t *)until_ns);
	assert_true(record->time_ns > last_of_ns[which] || record->wr_id > last_number[which]);
	last_ns = last_of_ns[which] = record->time_ns;
	last_number[which] = record->wr_id;
	taken++;
}

static void records_are_taken_in_the_order_of_time(void **state)
{
	struct sorter sorter = { 0 };
	uint64_t seed = 1, added = 0, until_ns;

	for (uint64_t turn = 1; turn <= 2000; turn++) {
		for (size_t source = 0; source < 3; source++) {
			unsigned count = (unsigned)(test_random(&seed) % 20);

			for (unsigned i = 0; i < count; i++) {
				struct trace_record record = { .bytes = sizeof(record), .wr_id = ++added,
							       .time_ns = 100 * turn + i / 2 };

				if (test_random(&seed) % 50 == 0)	/* it took long */
					record.time_ns -= test_random(&seed) % (turn > 3 ? 290 : 90);
				assert_true(sorter_add(&sorter, (struct source *)(uintptr_t)source, &record));
			}
		}
		until_ns = turn < 2000 ? 100 * (turn > 5 ? turn - 5 : 0) : UINT64_MAX;
		sorter_take(&sorter, until_ns, take_in_order, &until_ns);
	}
	assert_int_equal(taken, added);
	assert_int_equal(sorter.count, sorter.first);
	sorter_close(&sorter);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(records_are_taken_in_the_order_of_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
