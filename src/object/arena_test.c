/* SPDX-License-Identifier: BSD-2-Clause */
/* The arena: its parts do not overlap, and fill no more than was asked for. */
#include "object/test_support.h"

static void parts_lie_behind_each_other_and_within_the_arena(void **state)
{
	struct arena *arena = test_arena();
	uint64_t counters_end = arena->counters_offset + sizeof(struct counters);
	uint64_t mr_end = arena->mr_offset + (uint64_t)MR_TABLE_SIZE * sizeof(struct mr_entry);
	uint64_t qp_end = arena->qp_offset + (uint64_t)QP_TABLE_SIZE * sizeof(struct qp_access);

	assert_true(arena->counters_offset >= sizeof(*arena));
	assert_true(arena->mr_offset >= counters_end);
	assert_true(arena->qp_offset >= mr_end);
	assert_true(arena->bytes >= qp_end && arena->bytes == arena_bytes());
	assert_int_equal(arena->mr_offset % 64, 0);
	assert_int_equal(arena->qp_offset % 64, 0);
	/* Last bytes of each part are writable: ASan would say so. */
	atomic_store(&arena_counters(arena)->value[COUNTER_COUNT - 1], 1);
	arena_mr(arena)[MR_TABLE_SIZE - 1].last_key = 1;
	arena_qp(arena)[QP_TABLE_SIZE - 1].dest_qpn = 1;
	assert_int_equal(arena->magic, ARENA_MAGIC);
	assert_int_equal(arena->version, ARENA_VERSION);
	free(arena);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(parts_lie_behind_each_other_and_within_the_arena),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
