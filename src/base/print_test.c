/* SPDX-License-Identifier: BSD-2-Clause */
/* Tests of text into a buffer (print.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/print.h"

static void it_is_what_snprintf_makes(void **state)
{
	static const uint64_t numbers[] = { 0, 9, 10, 15, 16, 0xabcdef, UINT32_MAX, 1ull << 32,
					    INT64_MAX, UINT64_MAX };
	char expected[256], text[256];

	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		struct print print = { .text = text, .size = sizeof(text) };
		unsigned long long number = numbers[i];
		unsigned word = (unsigned)number;

		snprintf(expected, sizeof(expected), "a %llu, 0x%llx; %u%x 0x%06x 0x%08llx%s",
			 number, number, word, word, word, number, "end");
		print_format(&print, "a %llu, 0x%llx; %u%x 0x%06x 0x%08llx%s",
			     number, number, word, word, word, number, "end");
		assert_string_equal(text, expected);
		assert_int_equal(print.used, strlen(expected));
	}
}

static void what_does_not_fit_is_left_out_as_a_whole(void **state)
{
	char text[9] = "........";
	struct print print = { .text = text, .size = 8 };

	print_format(&print, "%s", "12345");
	print_format(&print, ",%u", 67);
	assert_string_equal(text, "12345");
	print_format(&print, ",%u", 6);
	assert_string_equal(text, "12345,6");
	print_bytes(&print, "x", 1);
	assert_string_equal(text, "12345,6");
	print_format(&print, "%s", "");
	assert_string_equal(text, "12345,6");
	assert_int_equal(print.used, 7);
	assert_int_equal(text[8], '\0');
}

static void bytes_are_taken_as_they_are(void **state)
{
	char text[16];
	struct print print = { .text = text, .size = sizeof(text) };

	print_bytes(&print, "50 % %s", 7);
	print_bytes(&print, "more", 2);
	print_bytes(&print, "too much", 7);	/* and its end */
	assert_string_equal(text, "50 % %smo");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_is_what_snprintf_makes),
		cmocka_unit_test(what_does_not_fit_is_left_out_as_a_whole),
		cmocka_unit_test(bytes_are_taken_as_they_are),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
