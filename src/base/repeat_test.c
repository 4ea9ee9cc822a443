/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which lines are written and which counted, in a time of the test's own.
 */
#include "base/repeat.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

static struct repeats repeats;
static char told[4096];

static void note_told(unsigned count, const char *text)
{
	size_t used = strlen(told);

	snprintf(told + used, sizeof(told) - used, "%u:%s;", count, text);
}

static bool admit(const char *text, uint64_t now_ns)
{
	return repeat_admit(&repeats, text, strlen(text), now_ns, false, note_told);
}

static int repeat_start(void **unused)
{
	memset(&repeats, 0, sizeof(repeats));
	told[0] = '\0';
	return 0;
}

static void a_repeated_line_is_counted_until_another_comes(void **unused)
{
	assert_true(admit("full", 1));
	assert_false(admit("full", 2));
	assert_false(admit("full", 3));
	assert_string_equal(told, "");
	assert_true(admit("empty", 4));
	assert_string_equal(told, "2:full;");
}

static void lines_that_alternate_are_each_written_once(void **unused)
{
	unsigned i, written = 0;

	for (i = 0; i < 100; i++)
		written += admit(i % 2 ? "odd" : "even", i);
	assert_int_equal(written, 2);
	repeat_tell_all(&repeats, note_told);
	assert_string_equal(told, "49:even;49:odd;");
	repeat_tell_all(&repeats, note_told);
	assert_string_equal(told, "49:even;49:odd;");
}

static void what_goes_on_is_told_after_longer_and_longer_times(void **unused)
{
	assert_true(admit("full", 0));
	assert_false(admit("full", 5));
	assert_false(admit("full", REPEAT_TELL_NS));
	assert_string_equal(told, "2:full;");
	assert_false(admit("full", 2ull * REPEAT_TELL_NS));
	assert_string_equal(told, "2:full;");
	assert_false(admit("full", 3ull * REPEAT_TELL_NS));
	assert_string_equal(told, "2:full;2:full;");
}

static void what_comes_seldom_is_written_each_time(void **unused)
{
	assert_true(admit("full", 0));
	assert_true(admit("full", REPEAT_TELL_NS));
	assert_true(admit("full", 3ull * REPEAT_TELL_NS));
}

static void work_requests_and_psns_make_no_other_line(void **unused)
{
	assert_true(admit("qp 0x1: wr_id 0x7f: PSN 12 is full", 0));
	assert_false(admit("qp 0x1: wr_id 0x80: PSN 3 is full", 0));
	assert_true(admit("qp 0x2: wr_id 0x80: PSN 3 is full", 0));
}

static void more_lines_than_are_known_lose_no_count(void **unused)
{
	char text[16];
	unsigned i;

	for (i = 0; i < 3 * REPEAT_LINES; i++) {
		snprintf(text, sizeof(text), "line %u", i);
		assert_true(admit(text, i));
		assert_false(admit(text, i));
	}
	repeat_tell_all(&repeats, note_told);
	for (i = 0; i < 3 * REPEAT_LINES; i++) {
		snprintf(text, sizeof(text), "1:line %u;", i);
		assert_non_null(strstr(told, text));
	}
	assert_true(admit("line 0", i));
}

static void a_long_line_is_told_by_its_beginning(void **unused)
{
	char text[1000];

	memset(text, 'x', sizeof(text));
	assert_true(repeat_admit(&repeats, text, sizeof(text), 0, false, note_told));
	assert_false(repeat_admit(&repeats, text, sizeof(text), 0, false, note_told));
	assert_true(repeat_admit(&repeats, text, sizeof(text) - 1, 0, false, note_told));
	assert_int_equal(strlen(told), strlen("1:;") + REPEAT_TEXT_BYTES - 1);
	assert_string_equal(told + strlen(told) - 5, "x...;");
}

static void remote_processes_cannot_flood(void **unused)
{
	unsigned i, second, written = 0;
	char text[16];

	assert_true(admit("mine", 0));
	for (second = 1; second <= 3; second++)
		for (i = 0; i < 1000; i++) {
			snprintf(text, sizeof(text), "%u, %u", second, i);
			written += repeat_admit(&repeats, text, strlen(text),
					(uint64_t)second * REPEAT_TELL_NS + i, true,
						note_told);
		}
	assert_int_equal(written, 3 * REPEAT_REMOTE);
	assert_true(admit("also mine", (uint64_t)3 * REPEAT_TELL_NS + i));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(a_repeated_line_is_counted_until_another_comes, repeat_start),
		cmocka_unit_test_setup(lines_that_alternate_are_each_written_once, repeat_start),
		cmocka_unit_test_setup(what_goes_on_is_told_after_longer_and_longer_times,
				repeat_start),
		cmocka_unit_test_setup(what_comes_seldom_is_written_each_time, repeat_start),
		cmocka_unit_test_setup(work_requests_and_psns_make_no_other_line, repeat_start),
		cmocka_unit_test_setup(more_lines_than_are_known_lose_no_count, repeat_start),
		cmocka_unit_test_setup(remote_processes_cannot_flood, repeat_start),
		cmocka_unit_test_setup(a_long_line_is_told_by_its_beginning, repeat_start),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
