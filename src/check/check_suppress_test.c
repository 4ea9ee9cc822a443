/* SPDX-License-Identifier: BSD-2-Clause */
/* Suppressions: what a line means, which findings it holds back, and how wrong ones are refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "check/suppress.h"

static const struct check_frame frames[2] = {
	{ .function = "post", .file = "/src/app/ring.c", .module = "/usr/lib/libapp.so.1" },
	{ .function = "main", .file = "/src/app/main.c", .module = "/usr/bin/app" },
};

/* Whether the only line of @text holds back that finding. */
static bool holds(const char *text, const char *rule, const char *object)
{
	struct check_suppressions all = { NULL, NULL };
	struct check_suppression *one;
	const char *why;
	bool held;

	assert_int_equal(check_suppress_read(&all, text, &why), 0);
	one = check_suppressed(&all, rule, object, frames, 2);
	held = one != NULL;
	assert_int_equal(all.first->used, held);
	check_suppress_free(&all);
	return held;
}

static void each_word_of_a_line_must_match(void **state)
{
	assert_true(holds("RV-OBJECTS-001", "RV-OBJECTS-001", "mr with lkey 0x00000001"));
	assert_false(holds("RV-OBJECTS-001", "RV-OBJECTS-002", "cq 1"));
	assert_true(holds("RV-* function=post", "RV-OBJECTS-002", "cq 1"));
	assert_false(holds("RV-* function=pos", "RV-OBJECTS-002", "cq 1"));
	assert_true(holds("RV-* module=*libapp* object=cq*", "RV-OBJECTS-002", "cq 1"));
	assert_false(holds("RV-* module=*libapp* object=mr*", "RV-OBJECTS-002", "cq 1"));
	assert_true(holds("RV-* file=*/ring.c", "RV-OBJECTS-002", "cq 1"));
	/* of one frame, not of several */
	assert_false(holds("RV-* function=main file=*/ring.c", "RV-OBJECTS-002", "cq 1"));
}

static void comments_and_empty_lines_are_none(void **state)
{
	struct check_suppressions all = { NULL, NULL };
	const char *why;

	assert_int_equal(
		check_suppress_read(&all, "# known\n\n  RV-WC-001\t# later\nRV-QUEUE-*\n", &why),
		0);
	assert_string_equal(all.first->text, "RV-WC-001");
	assert_int_equal(all.first->line, 3);
	assert_int_equal(all.first->next->line, 4);
	assert_null(all.first->next->next);
	check_suppress_free(&all);
}

static void a_wrong_line_is_named(void **state)
{
	static const char *const wrong[] = { "NOTIFY", "RV-WC-001 fun=x", "function=x",
					     "RV-WC-001 module=" };
	const char *why;

	for (unsigned i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		struct check_suppressions all = { NULL, NULL };
		char text[100] = "RV-WC-001\n";

		strcat(text, wrong[i]);
		assert_int_equal(check_suppress_read(&all, text, &why), 2);
		assert_non_null(why);
		check_suppress_free(&all);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_word_of_a_line_must_match),
		cmocka_unit_test(comments_and_empty_lines_are_none),
		cmocka_unit_test(a_wrong_line_is_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
