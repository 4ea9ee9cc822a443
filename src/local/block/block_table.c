/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which blocks there are: places for BLOCKS_MAX of them, and chains by the address that they begin
 * at. An address in no chain is refused without the lock, since free() asks about every
 * page-aligned pointer.
 */
#include "local/block/block_internal.h"

#include <assert.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define CHAIN_BITS 12u

struct lock block_lock = LOCK_INITIALIZER;

static struct block places[BLOCKS_MAX] GUARDED_BY(block_lock);
static unsigned places_top GUARDED_BY(block_lock);	/* places from here on were never used */
static unsigned places_taken GUARDED_BY(block_lock);	/* not UNUSED */
static uint64_t bytes_taken GUARDED_BY(block_lock);	/* of NEW and LIVE ones */

/* Heads of chains: index + 1; 0: nothing. Written under block_lock. */
static _Atomic uint16_t chains[1u << CHAIN_BITS];
static _Atomic unsigned live;

static _Atomic uint16_t *chain_of(const void *memory)
{
	uint64_t page_number = (uintptr_t)memory / block_page();

	return &chains[page_number * 0x9e3779b97f4a7c15u >> (64 - CHAIN_BITS)];
}

bool block_table_is_empty(void)
{
	return !atomic_load_explicit(&live, memory_order_relaxed);
}

bool block_table_may_have(const void *memory)
{
	return !block_table_is_empty() && !((uintptr_t)memory & (block_page() - 1)) &&
	       atomic_load_explicit(chain_of(memory), memory_order_relaxed);
}

static unsigned blocks_max(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		return 0;
	return limit.rlim_cur / BLOCK_FDS_SHARE < BLOCKS_MAX ?
	       (unsigned)(limit.rlim_cur / BLOCK_FDS_SHARE) : BLOCKS_MAX;
}

static uint64_t bytes_max(void)
{
	static _Atomic uint64_t most;
	uint64_t known = atomic_load_explicit(&most, memory_order_relaxed);

	if (!known) {
		known = (uint64_t)sysconf(_SC_PHYS_PAGES) / BLOCK_MEMORY_SHARE * block_page();
		atomic_store_explicit(&most, known, memory_order_relaxed);
	}
	return known;
}

void block_budget(struct block_budget *budget)
{
	budget->blocks_max = blocks_max();
	budget->bytes_max = bytes_max();
	lock_acquire(&block_lock);
	budget->blocks = places_taken;
	budget->bytes = bytes_taken;
	lock_release(&block_lock);
}

struct block *block_table_reserve(size_t bytes)
{
	uint64_t most = bytes_max();
	struct block *block;
	unsigned i;

	if (places_taken >= blocks_max() || bytes > most || bytes_taken > most - bytes)
		return NULL;
	i = 0;
	while (i < places_top && places[i].state != BLOCK_UNUSED)
		i++;
	if (i == places_top)
		places_top++;
	block = &places[i];
	*block = (struct block){ .bytes = bytes, .fd = -1, .state = BLOCK_NEW, .whole = true };
	places_taken++;
	bytes_taken += bytes;
	return block;
}

void block_table_release(struct block *block)
{
	assert(block->state == BLOCK_NEW || block->state == BLOCK_FREED);
	if (block->state == BLOCK_NEW)
		bytes_taken -= block->bytes;
	block->state = BLOCK_UNUSED;
	places_taken--;
}

static void chain_add(struct block *block) REQUIRES(block_lock)
{
	_Atomic uint16_t *chain = chain_of(block->memory);

	block->next = atomic_load_explicit(chain, memory_order_relaxed);
	atomic_store_explicit(chain, (uint16_t)(block - places + 1), memory_order_relaxed);
}

static void chain_remove(struct block *block) REQUIRES(block_lock)
{
	_Atomic uint16_t *chain = chain_of(block->memory);
	uint16_t self = (uint16_t)(block - places + 1);
	struct block *before;

	if (atomic_load_explicit(chain, memory_order_relaxed) == self) {
		atomic_store_explicit(chain, block->next, memory_order_relaxed);
		return;
	}
	before = &places[atomic_load_explicit(chain, memory_order_relaxed) - 1];
	while (before->next != self)
		before = &places[before->next - 1];
	before->next = block->next;
}

void block_table_insert(struct block *block)
{
	block->state = BLOCK_LIVE;
	chain_add(block);
	atomic_fetch_add_explicit(&live, 1, memory_order_relaxed);
}

void block_table_remove(struct block *block)
{
	chain_remove(block);
	atomic_fetch_sub_explicit(&live, 1, memory_order_relaxed);
	bytes_taken -= block->bytes;
	block->state = BLOCK_FREED;
	block->fd = -1;
	if (!block->references)
		block_table_release(block);
}

void block_table_trim(struct block *block, size_t front, size_t back)
{
	chain_remove(block);
	block->memory += front;
	block->offset += front;
	block->bytes -= front + back;
	block->whole = false;
	if (back)
		block->guard = 0;
	bytes_taken -= front + back;
	chain_add(block);
}

struct block *block_table_find(const void *memory)
{
	uint16_t next = atomic_load_explicit(chain_of(memory), memory_order_relaxed);

	while (next && places[next - 1].memory != memory)
		next = places[next - 1].next;
	return next ? &places[next - 1] : NULL;
}

struct block *block_table_overlap(uintptr_t start, uintptr_t end)
{
	struct block *first = NULL;

	for (unsigned i = 0; i < places_top; i++) {
		struct block *block = &places[i];
		uintptr_t memory = (uintptr_t)block->memory;

		if (block->state == BLOCK_LIVE && !block->hole && memory < end &&
		    memory + block->bytes > start && (!first || block->memory < first->memory))
			first = block;
	}
	return first;
}

unsigned block_table_top(void)
{
	return places_top;
}

struct block *block_table_at(unsigned index)
{
	return &places[index];
}

void block_table_wipe(void)
{
	for (unsigned i = 0; i < 1u << CHAIN_BITS; i++)
		atomic_store_explicit(&chains[i], 0, memory_order_relaxed);
	memset(places, 0, sizeof(places[0]) * places_top);
	places_top = places_taken = 0;
	bytes_taken = 0;
	atomic_store_explicit(&live, 0, memory_order_relaxed);
}

void block_table_restore(unsigned index, const struct block *block)
{
	if (index >= places_top)
		places_top = index + 1;
	places[index] = *block;
	places_taken++;
	if (block->state != BLOCK_LIVE)
		return;
	bytes_taken += block->bytes;
	block_table_insert(&places[index]);
}
