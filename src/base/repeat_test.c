/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which lines are written and which counted, in a time of the test's own.
 */
#include "base/repeat.h"

#include <errno.h>
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

static uint64_t id_of(const char *text)
{
	return repeat_text(REPEAT_BASIS, text, strlen(text));
}

static bool admit(const char *text, uint64_t now_ns)
{
	return repeat_admit(&repeats, id_of(text), text, strlen(text), now_ns, false, note_told);
}

static uint64_t __attribute__((format(printf, 1, 2))) rule_of(const char *format, ...)
{
	va_list arguments;
	uint64_t id;

	va_start(arguments, format);
	id = repeat_rule(REPEAT_BASIS, format, arguments);
	va_end(arguments);
	return id;
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

/* Each conversion takes what it prints: what stands behind it is found. */
static void numbers_make_no_other_rule_and_words_do(void **unused)
{
	char name[4] = { 'a', 'b', 'c', 'd' };
	int here, there;

#define BEHIND(format, one, other)                                                               \
	do {                                                                                     \
		assert_true(rule_of(format " %s", one, "x") == rule_of(format " %s", other, "x"));   \
		assert_true(rule_of(format " %s", one, "x") != rule_of(format " %s", one, "y"));     \
	} while (0)
	BEHIND("wr_id 0x%llx", 0x7full, 0x80ull);
	BEHIND("PSN %u", 12u, 13u);
	BEHIND("%d", -1, 1);
	BEHIND("%-5i", -1, 1);
	BEHIND("%c", 'a', 'b');
	BEHIND("%hhu", 1, 2);
	BEHIND("%zu", (size_t)1, (size_t)2);
	BEHIND("%+ld", -1l, 1l);
	BEHIND("%08lX", 1ul, 2ul);
	BEHIND("%.2f", 1.5, 2.5);
	BEHIND("100%%: %u", 1u, 2u);
#undef BEHIND
	assert_true(rule_of("%u is full", 1) != rule_of("%u is empty", 1));
	assert_true(rule_of("%s", "a") != rule_of("%s", "b"));
	assert_true(rule_of("%p", (void *)&here) != rule_of("%p", (void *)&there));
	assert_true(rule_of("%.*s", 2, name) == rule_of("%.*s", 2, "abx"));
	assert_true(rule_of("%.2s|", name) != rule_of("%.3s|", name));
	assert_true(rule_of("%*u %s", 5, 1, "x") == rule_of("%*u %s", 7, 2, "x"));
	errno = ENOENT;
	there = rule_of("%m") == rule_of("%m");
	assert_true(there);
	here = rule_of("%m") & INT32_MAX;
	errno = EBUSY;
	assert_int_not_equal(here, rule_of("%m") & INT32_MAX);
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
	assert_true(repeat_admit(&repeats, 1, text, sizeof(text), 0, false, note_told));
	assert_false(repeat_admit(&repeats, 1, text, sizeof(text), 0, false, note_told));
	assert_true(repeat_admit(&repeats, 2, text, sizeof(text) - 1, 0, false, note_told));
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
			written += repeat_admit(&repeats, id_of(text), text, strlen(text),
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
		cmocka_unit_test_setup(numbers_make_no_other_rule_and_words_do, repeat_start),
		cmocka_unit_test_setup(more_lines_than_are_known_lose_no_count, repeat_start),
		cmocka_unit_test_setup(remote_processes_cannot_flood, repeat_start),
		cmocka_unit_test_setup(a_long_line_is_told_by_its_beginning, repeat_start),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
