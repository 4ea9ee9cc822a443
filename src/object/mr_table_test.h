/* SPDX-License-Identifier: BSD-2-Clause */
/* A table of regions and three protection domains, made anew for each test. */
#ifndef VERBATIM_OBJECT_MR_TABLE_TEST_H
#define VERBATIM_OBJECT_MR_TABLE_TEST_H

#include "object/test_support.h"

#include "object/mr.h"

static struct arena *arena;
static struct mr_table table;
static struct pd pds[3] = { { .number = 1 }, { .number = 2 }, { .number = 3 } };

static int begin(void **state)
{
	arena = test_arena();
	memset(&table, 0, sizeof(table));
	assert_int_equal(mr_table_init(&table, arena, 42), 0);
	for (unsigned i = 0; i < 3; i++)
		atomic_store(&pds[i].users, 0);
	return 0;
}

static int end(void **state)
{
	mr_table_free(&table);
	free(arena);
	return 0;
}

#endif
