/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Hazards (hazard.h): what is published is seen, slots are taken once, and after an owner has ended
 * a grant and waited, no access to its memory is left.
 */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "local/grant/grant.h"
#include "local/grant/hazard.h"

static struct hazard_table *table;

static int begin(void **state)
{
	table = aligned_alloc(64, sizeof(*table));
	if (table)
		*table = (struct hazard_table){ 0 };
	return table ? 0 : -1;
}

static int end(void **state)
{
	free(table);
	return 0;
}

static void a_hazard_names_its_grants_until_it_ends(void **state)
{
	unsigned slot;

	assert_false(hazard_any(table));
	assert_false(hazard_names(table, 5));
	assert_true(hazard_begin(table, 5, 6, 3, &slot));
	assert_true(hazard_any(table));
	assert_true(hazard_names(table, 5));
	assert_true(hazard_names(table, 6));
	assert_false(hazard_names(table, 7));
	assert_false(hazard_names(table, 0));
	hazard_end(table, slot);
	assert_false(hazard_any(table));
	assert_false(hazard_names(table, 5));
}

/*
 * The bits of one grant are not taken for the other's, nor for none: a WRITE of no bytes names its
 * QP alone.
 */
static void the_two_grants_are_kept_apart(void **state)
{
	unsigned slot;

	assert_true(hazard_begin(table, UINT32_MAX, 1, 0, &slot));
	assert_true(hazard_names(table, UINT32_MAX));
	assert_true(hazard_names(table, 1));
	hazard_end(table, slot);
	assert_true(hazard_begin(table, 0, 0x80000000u, 0, &slot));
	assert_true(hazard_names(table, 0x80000000u));
	assert_true(hazard_any(table));
	hazard_end(table, slot);
	assert_true(hazard_begin(table, 0x80000000u, 0, 0, &slot));
	assert_true(hazard_names(table, 0x80000000u));
	hazard_end(table, slot);
	assert_false(hazard_any(table));
}

static void all_places_can_be_in_use_and_no_more(void **state)
{
	bool used[HAZARDS] = { false };
	unsigned slot[HAZARDS], none, i;

	for (i = 0; i < HAZARDS; i++) {
		assert_true(hazard_begin(table, 10 + i, 99, 7, &slot[i]));
		assert_in_range(slot[i], 0, HAZARDS - 1);
		assert_false(used[slot[i]]);
		used[slot[i]] = true;
	}
	assert_false(hazard_begin(table, 50, 99, 7, &none));
	assert_false(hazard_names(table, 50));
	for (i = 0; i < HAZARDS; i++) {
		assert_true(hazard_names(table, 10 + i));
		assert_true(hazard_names(table, 99));
		hazard_end(table, slot[i]);
		assert_false(hazard_names(table, 10 + i));
	}
	assert_false(hazard_names(table, 99));
}

/* ---- threads ---- */

#define ACCESSORS	3u
#define LIVES		1500u

static struct grant_page page;
static _Atomic uint32_t id;		/* of the grant that accessors try */
static _Atomic bool finished;
static _Atomic unsigned accesses;
static uint32_t content;		/* granted; written by the owner, while no thread reads */

static void *access_all_the_time(void *argument)
{
	unsigned hint = *(unsigned *)argument, slot, wrong = 0;

	while (!atomic_load(&finished)) {
		uint32_t mine = atomic_load(&id), i;

		if (!mine || !grant_is_alive(&page, mine) ||
		    !hazard_begin(table, mine, hint + 1, hint, &slot))
			continue;
		if (grant_is_alive(&page, mine)) {
			for (i = 0; i < 20; i++)
				wrong += content != mine;
			atomic_fetch_add(&accesses, 1);
		}
		hazard_end(table, slot);
	}
	*(unsigned *)argument = wrong;
	return NULL;
}

/* Each life of the grant is of other content, which is written when the one before has ended. */
static void after_the_wait_nobody_accesses(void **state)
{
	pthread_t thread[ACCESSORS];
	unsigned argument[ACCESSORS], i, life, before;

	for (i = 0; i < ACCESSORS; i++) {
		argument[i] = i;
		assert_int_equal(pthread_create(&thread[i], NULL, access_all_the_time, &argument[i]), 0);
	}
	for (life = 1; life <= LIVES; life++) {
		uint32_t now = life << GRANT_INDEX_BITS | 17;

		content = now;
		atomic_store(&page.alive[17], now);
		atomic_store(&id, now);
		before = atomic_load(&accesses);
		/* Now and then be sure that accesses are in progress; mostly surprise them. */
		while (life % 64 == 0 && atomic_load(&accesses) == before)
			sched_yield();
		for (i = life % 256; i; i--)
			(void)atomic_load(&finished);
		atomic_store(&page.alive[17], 0);
		atomic_thread_fence(memory_order_seq_cst);	/* F4 */
		while (hazard_names(table, now))
			sched_yield();
		content = 0;
	}
	atomic_store(&finished, true);
	for (i = 0; i < ACCESSORS; i++) {
		pthread_join(thread[i], NULL);
		assert_int_equal(argument[i], 0);
	}
	assert_true(atomic_load(&accesses) > 0);
	assert_false(hazard_any(table));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
	const struct CMUnitTest tests[] = {
		TEST(a_hazard_names_its_grants_until_it_ends),
		TEST(the_two_grants_are_kept_apart),
		TEST(all_places_can_be_in_use_and_no_more),
		TEST(after_the_wait_nobody_accesses),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
