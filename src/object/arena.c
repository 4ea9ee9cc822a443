/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The layout of the arena. Each part begins on a page of its own, so that the counters do not share
 * pages with the tables.
 */
#include "object/arena.h"

#define ARENA_ALIGN 4096u

static size_t align_up(size_t bytes)
{
	return (bytes + ARENA_ALIGN - 1) / ARENA_ALIGN * ARENA_ALIGN;
}

static size_t counters_offset(void)
{
	return align_up(sizeof(struct arena));
}

static size_t mr_offset(void)
{
	return counters_offset() + align_up(sizeof(struct counters));
}

static size_t qp_offset(void)
{
	return mr_offset() + align_up(MR_TABLE_SIZE * sizeof(struct mr_entry));
}

size_t arena_bytes(void)
{
	return qp_offset() + align_up(QP_TABLE_SIZE * sizeof(struct qp_access));
}

struct arena *arena_init(void *memory, uint32_t pid)
{
	struct arena *arena = memory;

	arena->magic = ARENA_MAGIC;
	arena->version = ARENA_VERSION;
	arena->bytes = arena_bytes();
	arena->counters_offset = counters_offset();
	arena->mr_offset = mr_offset();
	arena->qp_offset = qp_offset();
	arena->counter_count = COUNTER_COUNT;
	arena->mr_count = MR_TABLE_SIZE;
	arena->qp_count = QP_TABLE_SIZE;
	arena->pid = pid;
	return arena;
}
