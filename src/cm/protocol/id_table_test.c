/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The table against its obviously right model, an array; and that it stays fast when it is full.
 */
#include "cm/protocol/id_table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "base/test_random.h"

#define NODES 200u

/* Few hashes, so that chains are long and hashes meet. */
static void it_finds_what_the_model_finds(void **unused)
{
	struct id_node node[NODES] = { { .hash = 0 } };
	struct id_table table;
	uint64_t random = 3;

	assert_int_equal(id_table_init(&table), 0);
	for (unsigned round = 0; round < 20000; round++) {
		unsigned at = (unsigned)test_random(&random) % NODES;
		uint64_t hash = 1 + test_random(&random) % 50;
		unsigned found = 0, expected = 0;
		struct id_node *hit = NULL;

		if (node[at].hash)
			id_table_remove(&table, &node[at]);
		else
			id_table_insert(&table, &node[at], hash);
		for (unsigned i = 0; i < NODES; i++)
			expected += node[i].hash == hash;
		while ((hit = id_table_find(&table, hash, hit))) {
			assert_int_equal(hit->hash, hash);
			found++;
		}
		assert_int_equal(found, expected);
	}
	id_table_free(&table);
}

static void removing_what_is_in_no_table_is_harmless(void **unused)
{
	struct id_node node = { .hash = 0 };
	struct id_table table;

	assert_int_equal(id_table_init(&table), 0);
	id_table_remove(&table, &node);
	assert_int_equal(table.count, 0);
	assert_null(id_table_find(&table, 1, NULL));
	id_table_free(&table);
}

static void chains_stay_short_whatever_the_keys_are(void **unused)
{
	enum { MANY = 50000 };
	struct id_node *node = calloc(MANY, sizeof(*node));
	struct id_table table;
	unsigned longest = 0;

	assert_non_null(node);
	assert_int_equal(id_table_init(&table), 0);
	for (unsigned i = 0; i < MANY; i++)	/* sequential numbers, as IDs are, with gaps */
		id_table_insert(&table, &node[i], id_hash(99, (uint64_t)i << 14));
	for (size_t i = 0; i < table.buckets; i++) {
		unsigned length = 0;

		for (struct id_node *at = table.bucket[i]; at; at = at->next)
			length++;
		if (length > longest)
			longest = length;
	}
	assert_true(longest <= 12);
	id_table_free(&table);
	free(node);
}

static void the_seed_makes_other_hashes(void **unused)
{
	assert_true(id_hash(1, 5) != id_hash(2, 5));
	assert_true(id_hash(1, 5) != id_hash(1, 6));
	assert_int_equal(id_hash(1, 5), id_hash(1, 5));
	assert_true(id_hash(5, 5) != 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_finds_what_the_model_finds),
		cmocka_unit_test(removing_what_is_in_no_table_is_harmless),
		cmocka_unit_test(chains_stay_short_whatever_the_keys_are),
		cmocka_unit_test(the_seed_makes_other_hashes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
