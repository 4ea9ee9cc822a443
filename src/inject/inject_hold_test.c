/* SPDX-License-Identifier: BSD-2-Clause */
/* Packets that are held back come out at their time, or after those that overtake them, and none is lost. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "inject/hold.h"

static struct hold hold;

static int set_up(void **state)
{
	return hold_init(&hold);
}

static int tear_down(void **state)
{
	hold_fini(&hold);
	return 0;
}

static struct held *keep(uint8_t first, bool outbound, uint32_t qp, uint64_t due_ns, unsigned overtakers)
{
	uint8_t data[100] = { first };
	struct datagram datagram = { .data = data, .bytes = sizeof(data), .segment_bytes = 50 };
	struct held *held = hold_add(&hold, &datagram, outbound, qp, due_ns, overtakers);

	data[0] = 0xee;		/* a copy was made */
	return held;
}

static unsigned comes_out(bool outbound, uint64_t now_ns)
{
	struct held *held = hold_take(&hold, outbound, now_ns);
	unsigned first;

	if (!held)
		return 0;
	first = held->datagram.data[0];
	assert_int_equal(held->datagram.bytes, 100);
	assert_int_equal(held->datagram.segment_bytes, 0);
	hold_release(&hold, held);
	return first;
}

static void they_come_out_in_the_order_of_their_times(void **state)
{
	keep(1, false, 1, 300, 0);
	keep(2, false, 1, 100, 0);
	keep(3, true, 1, 200, 0);
	assert_int_equal(hold_next(&hold, false), 100);
	assert_int_equal(hold_next(&hold, true), 200);
	assert_int_equal(comes_out(false, 99), 0);
	assert_int_equal(comes_out(false, 400), 2);
	assert_int_equal(comes_out(false, 400), 1);
	assert_int_equal(comes_out(false, 400), 0);
	assert_int_equal(comes_out(true, 200), 3);
	assert_true(hold_next(&hold, true) == TIME_NEVER);
}

static void an_overtaken_one_comes_after_so_many_others_of_its_qp(void **state)
{
	keep(1, false, 7, 1000, 2);
	hold_passed(&hold, false, 8);
	hold_passed(&hold, true, 7);
	hold_passed(&hold, false, 7);
	assert_int_equal(comes_out(false, 10), 0);
	hold_passed(&hold, false, 7);
	assert_int_equal(comes_out(false, 10), 1);
	hold_passed(&hold, false, 7);
}

static void where_nobody_overtakes_it_comes_at_its_time(void **state)
{
	keep(1, false, 7, 1000, 5);
	assert_int_equal(comes_out(false, 1000), 1);
	hold_passed(&hold, false, 7);
	assert_int_equal(hold.count, 0);
}

static void there_is_room_for_so_many_and_for_the_longest(void **state)
{
	static uint8_t longest[HOLD_BYTES + 1];
	struct datagram datagram = { .data = longest, .bytes = HOLD_BYTES + 1 };
	unsigned i;

	assert_null(hold_add(&hold, &datagram, false, 1, 1, 0));
	datagram.bytes = HOLD_BYTES;
	for (i = 0; i < HOLD_PACKETS; i++)
		assert_non_null(hold_add(&hold, &datagram, false, 1, 1, i % 2));
	assert_null(hold_add(&hold, &datagram, false, 1, 1, 0));
	for (i = 0; i < HOLD_PACKETS; i++)
		hold_release(&hold, hold_take(&hold, false, 1));
	assert_int_equal(hold.count, 0);
	assert_non_null(keep(1, true, 1, 1, 0));
}

#define HOLD_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		HOLD_TEST(they_come_out_in_the_order_of_their_times),
		HOLD_TEST(an_overtaken_one_comes_after_so_many_others_of_its_qp),
		HOLD_TEST(where_nobody_overtakes_it_comes_at_its_time),
		HOLD_TEST(there_is_room_for_so_many_and_for_the_longest),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
