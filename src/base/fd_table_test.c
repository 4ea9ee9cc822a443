/* SPDX-License-Identifier: BSD-2-Clause */
/* Tests of the table of descriptors (fd_table.h). */
#include <limits.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/fd_table.h"

enum { LAST = FD_PAGE * FD_PAGES - 1, THREADS = 4, ROUNDS = 200 };

static struct fd_table table;

static int empty(void **state)
{
	for (int i = 0; i < FD_PAGES; i++)
		free(table.pages[i]);
	memset(&table, 0, sizeof(table));
	return 0;
}

static void every_descriptor_has_an_entry_of_its_own(void **state)
{
	static const int fds[] = { 0, 1, FD_PAGE - 1, FD_PAGE, 5 * FD_PAGE + 7, LAST };
	static const unsigned count = sizeof(fds) / sizeof(fds[0]);

	for (unsigned i = 0; i < count; i++)
		assert_null(fd_table_exchange(fd_table_make(&table, fds[i]), (void *)&fds[i]));
	for (unsigned i = 0; i < count; i++) {
		assert_ptr_equal(fd_table_peek(&table, fds[i]), &fds[i]);
		assert_ptr_equal(fd_table_exchange(fd_table_entry(&table, fds[i]), NULL), &fds[i]);
		assert_null(fd_table_peek(&table, fds[i]));
	}
}

static void looking_makes_nothing(void **state)
{
	assert_null(fd_table_entry(&table, 3));
	assert_null(fd_table_peek(&table, 3));
	assert_null(table.pages[0]);
	assert_non_null(fd_table_make(&table, 3));
	assert_non_null(fd_table_entry(&table, 4));	/* near */
	assert_null(fd_table_peek(&table, 4));
	assert_null(fd_table_entry(&table, FD_PAGE));
}

static void what_is_no_descriptor_has_no_entry(void **state)
{
	static const int wrong[] = { -1, INT_MIN, LAST + 1, INT_MAX };

	for (unsigned i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		assert_null(fd_table_make(&table, wrong[i]));
		assert_null(fd_table_entry(&table, wrong[i]));
		assert_null(fd_table_peek(&table, wrong[i]));
	}
}

static pthread_barrier_t barrier;

/* The entry of each round; all threads make the same pages. */
static void *make_many(void *entries)
{
	for (int i = 0; i < ROUNDS; i++) {
		pthread_barrier_wait(&barrier);
		((void ***)entries)[i] = fd_table_make(&table, i * FD_PAGE + i);
	}
	return NULL;
}

static void threads_that_make_it_at_once_get_the_same_entry(void **state)
{
	static void **entries[THREADS][ROUNDS];
	pthread_t threads[THREADS];

	pthread_barrier_init(&barrier, NULL, THREADS);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, make_many, entries[i]), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	pthread_barrier_destroy(&barrier);
	for (int i = 0; i < ROUNDS; i++)
		for (int thread = 0; thread < THREADS; thread++) {
			assert_non_null(entries[thread][i]);
			assert_ptr_equal(entries[thread][i], entries[0][i]);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(every_descriptor_has_an_entry_of_its_own, empty),
		cmocka_unit_test_teardown(looking_makes_nothing, empty),
		cmocka_unit_test_teardown(what_is_no_descriptor_has_no_entry, empty),
		cmocka_unit_test_teardown(threads_that_make_it_at_once_get_the_same_entry, empty),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
