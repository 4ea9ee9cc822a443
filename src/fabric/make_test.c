/* SPDX-License-Identifier: BSD-2-Clause */
/* Recipes make the topologies that they are named after: counted, and by their bisection and
 * diameter. */
#include "fabric/make.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static struct fabric_cost cost_of(const char *recipe)
{
	struct fabric_errors errors;
	char *text = fabric_make(recipe, &errors);
	struct fabric_cost cost;
	struct fabric *fabric;

	if (!text)
		fail_msg("%s: %s", recipe, errors.error[0].text);
	fabric = fabric_new_from_file(text, &errors);
	if (!fabric)
		fail_msg("%s, line %u: %s", recipe, errors.error[0].line, errors.error[0].text);
	assert_true(fabric_cost(fabric, &cost));
	assert_true(cost.connected);
	fabric_free(fabric);
	free(text);
	return cost;
}

static void recipes_cost_what_the_books_say(void **unused)
{
	static const struct {
		const char *recipe;
		unsigned switches, hosts, switch_cables, host_cables, bisection, diameter;
	} rows[] = {
		{ "pair", 0, 2, 0, 1, 0, 0 },
		{ "star hosts=8", 1, 8, 0, 8, 4, 1 },
		{ "ring switches=6 hosts=2", 6, 12, 6, 12, 2, 4 },
		{ "ring switches=2 hosts=1", 2, 2, 1, 2, 1, 2 },
		{ "torus 4x4 hosts=1", 16, 16, 32, 16, 8, 5 },
		{ "torus 4x4x2 hosts=1", 32, 32, 80, 32, 16, 6 },
		{ "torus 3x3x3 hosts=1", 27, 27, 81, 27, 13, 4 },
		{ "fattree leaves=4 spines=2 hosts=4", 6, 16, 8, 16, 4, 3 },
		{ "fattree leaves=12 spines=8 hosts=12", 20, 144, 96, 144, 48, 3 },
		{ "fattree leaves=4 spines=4 hosts=4", 8, 16, 16, 16, 8, 3 },
		{ "clos radix=4 hosts=16", 20, 16, 32, 16, 8, 5 },
		{ "clos radix=8 hosts=128", 80, 128, 256, 128, 64, 5 },
		{ "dragonfly groups=9 switches=4 hosts=2 global=2", 36, 72, 54 + 36, 72, 24, 4 },
	};

	for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct fabric_cost cost = cost_of(rows[i].recipe);

		if (cost.switches != rows[i].switches || cost.hosts != rows[i].hosts ||
		    cost.switch_cables != rows[i].switch_cables ||
		    cost.host_cables != rows[i].host_cables ||
		    cost.bisection != rows[i].bisection || cost.diameter != rows[i].diameter)
			fail_msg("%s: %u switches, %u hosts, %u and %u cables, bisection %u, "
				 "diameter %u",
				 rows[i].recipe, cost.switches, cost.hosts, cost.switch_cables,
				 cost.host_cables, cost.bisection, cost.diameter);
	}
}

static void five_thousand_hosts_have_full_bisection(void **unused)
{
	struct fabric_cost cost = cost_of("clos radix=36 hosts=5000");

	assert_int_equal(cost.hosts, 5000);
	assert_int_equal(cost.switches, 16 * 36 + 324);
	assert_int_equal(cost.bisection, 2500);
	assert_int_equal(cost.diameter, 5);
}

static void a_recipe_is_the_same_text_each_time(void **unused)
{
	struct fabric_errors errors;
	char *one = fabric_make("dragonfly", &errors), *other = fabric_make("dragonfly", &errors);

	assert_string_equal(one, other);
	free(one);
	free(other);
}

static void speed_and_width_are_those_of_all_cables(void **unused)
{
	struct fabric_errors errors;
	char *text = fabric_make("ring speed=NDR width=2x", &errors);
	struct fabric *fabric = fabric_new_from_file(text, &errors);
	struct fabric_port_info port;

	assert_non_null(fabric);
	for (uint32_t i = 0; i < fabric_nodes(fabric); i++) {
		assert_true(fabric_port_info(fabric, i, 1, &port));
		assert_string_equal(port.speed_name, "NDR");
		assert_int_equal(port.width_lanes, 2);
		assert_int_equal(port.rate_mbps, 200000);
	}
	fabric_free(fabric);
	free(text);
}

static void recipes_that_make_no_sense_are_refused(void **unused)
{
	static const char *const wrong[] = {
		"",
		"  ",
		"fat",
		"star hosts=0",
		"star hosts",
		"star hosts=x",
		"clos radix=5",
		"clos radix=4 hosts=17",
		"dragonfly groups=99 switches=1 global=1",
		"torus 0x3",
		"torus 1000x1000",
		"torus 4x",
		"fattree leaves=254 spines=254 hosts=1",
		"pair hosts=2",
		"star =3",
	};

	for (unsigned i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		struct fabric_errors errors;

		if (fabric_make(wrong[i], &errors) || !errors.count)
			fail_msg("\"%s\" is taken", wrong[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(recipes_cost_what_the_books_say),
		cmocka_unit_test(five_thousand_hosts_have_full_bisection),
		cmocka_unit_test(a_recipe_is_the_same_text_each_time),
		cmocka_unit_test(speed_and_width_are_those_of_all_cables),
		cmocka_unit_test(recipes_that_make_no_sense_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
