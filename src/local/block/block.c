/* SPDX-License-Identifier: BSD-2-Clause */
/* Allocate, free and resize blocks. */
#include "base/call.h"
#include "local/block/block_internal.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"

size_t block_page(void)
{
	static _Atomic size_t page;
	size_t known = atomic_load_explicit(&page, memory_order_relaxed);

	if (!known) {
		known = (size_t)sysconf(_SC_PAGESIZE);
		atomic_store_explicit(&page, known, memory_order_relaxed);
	}
	return known;
}

/* Explain each reason once: allocations fall back to ordinary memory. */
static void block_explain(int err)
{
	static _Atomic bool told_budget, told_error;
	struct block_budget budget;

	if (!explaining() || atomic_exchange(err ? &told_error : &told_budget, true))
		return;
	if (err) {
		explain("cannot allocate memory that peers of this host can map: %s; they copy "
			"ordinary memory instead; check seccomp, RLIMIT_FSIZE, RLIMIT_NOFILE and "
			"RLIMIT_AS", strerror(err));
		return;
	}
	block_budget(&budget);
	explain("memory that peers of this host can map is used up: %u blocks, %llu bytes, of at "
		"most %u blocks (a quarter of RLIMIT_NOFILE) and %llu bytes; peers copy further "
		"memory", budget.blocks, (unsigned long long)budget.bytes, budget.blocks_max,
		(unsigned long long)budget.bytes_max);
}

static int block_make(size_t bytes, size_t alignment, void **memory)
{
	struct block *block;
	int err;

	lock_acquire(&block_lock);
	block = block_table_reserve(bytes);
	lock_release(&block_lock);
	if (!block) {
		block_explain(0);
		return ENOMEM;
	}
	err = block_memory_make(block, alignment);
	if (err)
		block_explain(err);
	lock_acquire(&block_lock);
	if (err) {
		block_table_release(block);
	} else {
		*memory = block->memory;
		block_table_insert(block);
	}
	lock_release(&block_lock);
	return err ? ENOMEM : 0;
}

int block_alloc(size_t bytes, size_t alignment, void **memory)
{
	CALL();
	size_t page = block_page();
	int err, saved = errno;

	if (!alignment || (alignment & (alignment - 1)))
		return EINVAL;
	if (bytes > PTRDIFF_MAX || alignment > PTRDIFF_MAX / 2 || block_is_forking())
		return ENOMEM;
	bytes = bytes ? block_round_up(bytes, page) : page;
	if (bytes >= BLOCK_HUGE_PAGE && alignment < BLOCK_HUGE_PAGE)
		alignment = BLOCK_HUGE_PAGE;	/* required for huge pages */
	err = block_make(bytes, alignment < page ? page : alignment, memory);
	errno = saved;
	return err;
}

bool block_free(void *memory)
{
	CALL();
	struct block *block, freed = { 0 };

	if (!block_table_may_have(memory))
		return false;
	lock_acquire(&block_lock);
	block = block_table_find(memory);
	if (block) {
		freed = *block;
		block_table_remove(block);
	}
	lock_release(&block_lock);
	if (block)
		block_memory_drop(&freed);
	return block;
}

size_t block_size(const void *memory)
{
	CALL();
	struct block *block;
	size_t bytes;

	if (!block_table_may_have(memory))
		return 0;
	lock_acquire(&block_lock);
	block = block_table_find(memory);
	bytes = block ? block->bytes : 0;
	lock_release(&block_lock);
	return bytes;
}

void *block_resize(void *memory, size_t bytes)
{
	CALL();
	size_t old = block_size(memory);
	void *moved;
	int err;

	if (!old || bytes > PTRDIFF_MAX) {
		errno = old ? ENOMEM : EINVAL;
		return NULL;
	}
	if (block_round_up(bytes ? bytes : 1, block_page()) == old)
		return memory;
	err = block_alloc(bytes, block_page(), &moved);
	if (err && bytes < old)
		return memory;		/* it is large enough */
	if (err) {
		errno = err;
		return NULL;
	}
	memcpy(moved, memory, bytes < old ? bytes : old);
	block_free(memory);
	return moved;
}
