/* SPDX-License-Identifier: BSD-2-Clause */
/* Tests of misspelt words (nearest.h). */
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/nearest.h"

static int distance(const char *a, const char *b)
{
	return edit_distance(a, strlen(a), b, strlen(b));
}

static const char *nearest_of(const char *word)
{
	static const char *const words[] = { "EXPLAIN", "MTU", "MEMORY", "MALLOC", "LOG", "MAX_QP", "MAX_MR" };
	struct nearest_word nearest = nearest_begin(word);

	for (unsigned i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		nearest_offer(&nearest, words[i]);
	return nearest.best;
}

static void the_distance_counts_letters_and_swaps(void **state)
{
	assert_int_equal(distance("", ""), 0);
	assert_int_equal(distance("run", "run"), 0);
	assert_int_equal(distance("", "run"), 3);
	assert_int_equal(distance("rn", "run"), 1);
	assert_int_equal(distance("runs", "run"), 1);
	assert_int_equal(distance("ran", "run"), 1);
	assert_int_equal(distance("rnu", "run"), 1);
	assert_int_equal(distance("kitten", "sitting"), 3);
}

static void the_distance_of_words_that_are_too_long_is_infinite(void **state)
{
	char longest[NEAREST_WORD_MAX + 2];

	memset(longest, 'a', sizeof(longest));
	assert_int_equal(edit_distance(longest, NEAREST_WORD_MAX, "a", 1), NEAREST_WORD_MAX - 1);
	assert_int_equal(edit_distance(longest, NEAREST_WORD_MAX + 1, "a", 1), INT_MAX);
	assert_int_equal(edit_distance("a", 1, longest, NEAREST_WORD_MAX + 1), INT_MAX);
}

static void the_word_that_was_meant_is_found(void **state)
{
	assert_string_equal(nearest_of("EXPLAN"), "EXPLAIN");
	assert_string_equal(nearest_of("EPXLAIN"), "EXPLAIN");
	assert_string_equal(nearest_of("MTUU"), "MTU");
	assert_string_equal(nearest_of("MALOC"), "MALLOC");
	assert_string_equal(nearest_of("MAX_Q"), "MAX_QP");
}

static void what_is_near_to_nothing_has_no_nearest(void **state)
{
	assert_null(nearest_of("COLOUR_OF_THE_SKY"));
	assert_null(nearest_of("XYZ"));
	assert_null(nearest_of(""));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_distance_counts_letters_and_swaps),
		cmocka_unit_test(the_distance_of_words_that_are_too_long_is_infinite),
		cmocka_unit_test(the_word_that_was_meant_is_found),
		cmocka_unit_test(what_is_near_to_nothing_has_no_nearest),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
