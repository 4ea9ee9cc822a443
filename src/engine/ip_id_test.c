/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which peers are held to the IPv4 identification that a Verbatim sends.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "engine/ip_id.h"

static uint32_t streak;

static int set_up(void **state)
{
	streak = 0;
	return 0;
}

static bool take(uint16_t id, uint16_t predicted)
{
	return ip_id_check(&streak, id == predicted ? IP_ID_PREDICTED : ip_id_kind_of(id, true));
}

static void a_verbatim_is_held_to_its_identification(void **state)
{
	unsigned i;

	for (i = 0; i < 2 * IP_ID_STREAK; i++)
		assert_true(take(i % 5, i % 5));
	assert_false(take(4711, 0));
	assert_true(take(3, 0));	/* its segment, batched otherwise */
	assert_true(take(0, 0));
	assert_false(ip_id_check(&streak, ip_id_kind_of(0, false)));
}

/* rxe's counter comes by 0..63 once in 65536 packets, each alone or all in one batch. */
static void a_peer_that_counts_is_never_held_to_it(void **state)
{
	unsigned i;

	for (i = 0; i < 5 * 65536; i++)
		assert_true(take((uint16_t)i, 0));
	for (i = 0; i < 5 * 65536; i++)
		assert_true(take((uint16_t)i, i % LINK_SEGMENTS_MAX));
}

static void one_other_identification_ends_the_streak(void **state)
{
	unsigned i;

	for (i = 0; i < IP_ID_STREAK - 1; i++)
		assert_true(take(0, 0));
	assert_true(take(4711, 0));
	assert_true(take(0, 0));
	assert_true(take(4712, 0));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(a_verbatim_is_held_to_its_identification, set_up),
		cmocka_unit_test_setup(a_peer_that_counts_is_never_held_to_it, set_up),
		cmocka_unit_test_setup(one_other_identification_ends_the_streak, set_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
