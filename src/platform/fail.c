/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The table behind fail.h. All zero unless a test sets something; nothing in production does.
 */
#include "platform/fail.h"

#include <errno.h>

struct fail fail_table[FAIL_POINT_COUNT];

void fail_set(enum fail_point point, unsigned nth, int error)
{
	fail_table[point].error = error;
	atomic_store(&fail_table[point].countdown, nth);
}

void fail_clear(void)
{
	unsigned point;

	for (point = 0; point < FAIL_POINT_COUNT; point++)
		fail_set(point, 0, 0);
}

bool fail_count_down(enum fail_point point)
{
	struct fail *fail = &fail_table[point];
	unsigned left = atomic_load(&fail->countdown);

	while (left && !atomic_compare_exchange_weak(&fail->countdown, &left, left - 1))
		;
	if (left != 1)
		return false;
	errno = fail->error;
	return true;
}
