/* SPDX-License-Identifier: BSD-2-Clause */
/* Tests of numbers and lines (text.h). */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/text.h"

static void every_number_that_fits_is_read(void **state)
{
	static const uint64_t numbers[] = { 0, 1, 9, 10, 4096, UINT32_MAX, UINT64_MAX - 1, UINT64_MAX };

	for (unsigned i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		uint64_t n = numbers[i], number = 99;
		char text[32];

		snprintf(text, sizeof(text), "%" PRIu64, n);
		assert_true(text_number(text, 0, UINT64_MAX, &number));
		assert_true(number == n);
		assert_true(text_number(text, n, n, &number));
		if (n)
			assert_false(text_number(text, 0, n - 1, &number));
		if (n < UINT64_MAX)
			assert_false(text_number(text, n + 1, UINT64_MAX, &number));
	}
}

static void what_is_no_number_is_refused(void **state)
{
	static const char *const wrong[] = { "", " ", " 1", "1 ", "+1", "-1", "-0", "0x10", "1e3", "12x",
					     "x", "1.0", "18446744073709551616",
					     "99999999999999999999", "1\n" };

	for (unsigned i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		uint64_t number = 99;

		assert_false(text_number(wrong[i], 0, UINT64_MAX, &number));
		assert_int_equal(number, 99);
	}
}

static void scanning_ends_behind_the_number(void **state)
{
	static const char line[] = "17,4k";
	const char *text = line;
	uint64_t number;

	assert_true(text_scan_number(&text, 17, &number));
	assert_int_equal(number, 17);
	assert_ptr_equal(text, line + 2);
	assert_false(text_scan_number(&text, 17, &number));
	assert_ptr_equal(text, line + 2);
	text++;
	assert_false(text_scan_number(&text, 3, &number));
	assert_ptr_equal(text, line + 3);
	assert_true(text_scan_number(&text, 4, &number));
	assert_string_equal(text, "k");
}

static void trimming_leaves_what_is_inside(void **state)
{
	char text[] = " \t a  b\r\n", blank[] = " \n", empty[] = "";

	assert_string_equal(text_trim(text), "a  b");
	assert_string_equal(text_trim(blank), "");
	assert_string_equal(text_trim(empty), "");
}

static void lines_are_counted_and_trimmed(void **state)
{
	char text[] = "one\n\n\t two \r\nlast";
	static const char *const expected[] = { "one", "", "two", "last" };
	FILE *file = fmemopen(text, strlen(text), "r");
	struct text_line line = { 0 };

	for (unsigned i = 0; i < 4; i++) {
		assert_true(text_next_line(file, &line));
		assert_int_equal(line.number, i + 1);
		assert_true(line.is_whole);
		assert_string_equal(line.text, expected[i]);
	}
	assert_false(text_next_line(file, &line));
	fclose(file);
}

/* The rest of a line that is too long is not the next line. */
static void the_rest_of_too_long_a_line_is_skipped(void **state)
{
	static const size_t lengths[] = { TEXT_LINE_MAX - 1, TEXT_LINE_MAX, TEXT_LINE_MAX + 1,
					  TEXT_LINE_MAX + 2, 3 * TEXT_LINE_MAX };
	char text[4 * TEXT_LINE_MAX];

	for (unsigned i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		struct text_line line = { 0 };
		FILE *file;

		memset(text, 'x', lengths[i]);
		strcpy(text + lengths[i], "\nnext\n");
		file = fmemopen(text, strlen(text), "r");
		assert_true(text_next_line(file, &line));
		assert_int_equal(line.is_whole, lengths[i] <= TEXT_LINE_MAX);
		assert_true(!line.is_whole || strlen(line.text) == lengths[i]);
		assert_true(text_next_line(file, &line));
		assert_true(line.is_whole);
		assert_int_equal(line.number, 2);
		assert_string_equal(line.text, "next");
		assert_false(text_next_line(file, &line));
		fclose(file);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_number_that_fits_is_read),
		cmocka_unit_test(what_is_no_number_is_refused),
		cmocka_unit_test(scanning_ends_behind_the_number),
		cmocka_unit_test(trimming_leaves_what_is_inside),
		cmocka_unit_test(lines_are_counted_and_trimmed),
		cmocka_unit_test(the_rest_of_too_long_a_line_is_skipped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
