/* SPDX-License-Identifier: BSD-2-Clause */
/* Which interfaces become devices, in which order, under which names. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "net/naming.h"

static const struct netdev machine[] = {
	{ .name = "lo", .index = 1, .up = true, .loopback = true, .address_count = 1 },
	{ .name = "eth0", .index = 2, .up = true, .address_count = 2 },
	{ .name = "eth1", .index = 3, .up = true, .address_count = 0 },
	{ .name = "eth2", .index = 4, .up = false, .address_count = 1 },
	{ .name = "wlan0", .index = 5, .up = true, .address_count = 1 },
};

static int name_with(const char *devices, struct named_netdev **named, int *count)
{
	struct config config = { 0 };

	strcpy(config.devices, devices);
	return naming_apply(&config, machine, 5, named, count);
}

static void expect(const char *devices, const char *const *names, int expected)
{
	struct named_netdev *named;
	int i, count;

	assert_int_equal(name_with(devices, &named, &count), 0);
	assert_int_equal(count, expected);
	for (i = 0; i < count; i++)
		assert_string_equal(named[i].name, names[i]);
	free(named);
}

static void interfaces_that_are_up_with_an_address_are_offered_lo_last(void **state)
{
	static const char *const names[] = { "vb_eth0", "vb_wlan0", "vb_lo" };

	expect("", names, 3);
}

static void the_configured_order_and_names_are_kept(void **state)
{
	static const char *const names[] = { "rxe0", "vb_eth0" };

	expect("lo:rxe0,eth0", names, 2);
}

static void a_pattern_takes_each_interface_once(void **state)
{
	static const char *const names[] = { "vb_wlan0", "vb_lo", "vb_eth0" };

	expect("w*,l*,*", names, 3);
}

static void an_entry_with_an_exclamation_mark_leaves_out(void **state)
{
	static const char *const names[] = { "vb_eth0", "vb_lo" }, *const loopback[] = { "vb_lo" };

	expect("!wlan0,*", names, 2);
	expect(" !w* , eth0 , * ", names, 2);
	expect("lo,!*,eth0", loopback, 1);
	expect("!*", NULL, 0);
}

static void a_pattern_that_matches_nothing_now_is_no_error(void **state)
{
	expect("ib0", NULL, 0);
}

static void wrong_entries_are_refused(void **state)
{
	static const char *const wrong[] = { "eth0,,lo", "eth0:", "lo:a/b", "*:same", "lo:..", "!", "!eth0:left" };
	struct named_netdev *named;
	unsigned i;
	int count;

	for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_int_equal(name_with(wrong[i], &named, &count), EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(interfaces_that_are_up_with_an_address_are_offered_lo_last),
		cmocka_unit_test(the_configured_order_and_names_are_kept),
		cmocka_unit_test(a_pattern_takes_each_interface_once),
		cmocka_unit_test(an_entry_with_an_exclamation_mark_leaves_out),
		cmocka_unit_test(a_pattern_that_matches_nothing_now_is_no_error),
		cmocka_unit_test(wrong_entries_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
