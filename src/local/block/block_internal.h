/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shared by the files that block.h lists, and by no others.
 *
 * A block goes from UNUSED to NEW (its place and budget are taken, its memory is being made) to
 * LIVE (in the table) to FREED (unmapped, but still referenced) to UNUSED. Its fields change under
 * block_lock; while it is NEW, only its maker changes them.
 */
#ifndef VERBATIM_LOCAL_BLOCK_BLOCK_INTERNAL_H
#define VERBATIM_LOCAL_BLOCK_BLOCK_INTERNAL_H

#include <stdatomic.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/lock.h"
#include "local/block/block.h"

#define BLOCKS_MAX		512u
#define BLOCK_FDS_SHARE		4u	/* divisor of RLIMIT_NOFILE */
#define BLOCK_MEMORY_SHARE	2u	/* divisor of the machine's memory */
#define BLOCK_FD_FROM		4096u	/* our descriptors begin there, if the limit allows it */
#define BLOCK_HUGE_PAGE		((size_t)2 << 20)

enum block_state { BLOCK_UNUSED, BLOCK_NEW, BLOCK_LIVE, BLOCK_FREED };
enum block_right { BLOCK_UNGRANTED, BLOCK_READABLE, BLOCK_WRITABLE };

struct block {
	uint8_t *memory;
	size_t bytes;			/* mapped at memory */
	size_t offset;			/* of memory in the memfd, once the front is unmapped */
	size_t guard;			/* bytes of the guard page behind it; 0: gone */
	int fd;				/* -1: private memory: in a child, or made so */
	dev_t device;			/* of fd while it was ours */
	ino_t inode;
	unsigned references;
	enum block_state state;
	enum block_right granted;
	bool withdrawn;			/* it is not granted any more */
	bool whole;			/* all its pages, and nothing else among them */
	bool parents_only;		/* MADV_DONTFORK: no copy for children */
	bool hole;			/* in a child: the mapping there is not ours */
	uint16_t next;			/* of a chain of the table: index + 1; 0: the last */
};

static inline size_t block_round_up(size_t bytes, size_t unit)
{
	return (bytes + unit - 1) & ~(unit - 1);
}

size_t block_page(void);

/* ---- block_table.c ---- */

extern struct lock block_lock;

/* Are there no blocks? Certainly false for a thread that holds one. */
bool block_table_is_empty(void);
/* Might a block begin at @memory? Without the lock; false is certain if the caller owns @memory. */
bool block_table_may_have(const void *memory);

/* A NEW block of @bytes, within the budget; NULL: it is used up. */
struct block *block_table_reserve(size_t bytes) REQUIRES(block_lock);
void block_table_insert(struct block *block) REQUIRES(block_lock);
/* The block becomes FREED, or UNUSED if it has no references. */
void block_table_remove(struct block *block) REQUIRES(block_lock);
/* A NEW or FREED block becomes UNUSED. */
void block_table_release(struct block *block) REQUIRES(block_lock);
/* Cut @front and @back bytes off a LIVE block. */
void block_table_trim(struct block *block, size_t front, size_t back) REQUIRES(block_lock);

/* The LIVE block that begins at @memory. */
struct block *block_table_find(const void *memory) REQUIRES(block_lock);
/* The first LIVE block, not a hole, that has bytes in [@start, @end). */
struct block *block_table_overlap(uintptr_t start, uintptr_t end) REQUIRES(block_lock);

/*
 * For fork(): how many places were ever used; a place; forget all; put @block back to place @index.
 */
unsigned block_table_top(void) REQUIRES(block_lock);
struct block *block_table_at(unsigned index) REQUIRES(block_lock);
void block_table_wipe(void) REQUIRES(block_lock);
void block_table_restore(unsigned index, const struct block *block) REQUIRES(block_lock);

/* ---- block_memory.c ---- */

/* Make descriptor and mapping of a NEW block. 0 or errno. */
int block_memory_make(struct block *block, size_t alignment);
/* Unmap and close a block; takes a copy, since its place may be reused. Keeps errno. */
void block_memory_drop(const struct block *block);
/* A new descriptor, at a high number if there is one: @fd again; -1 and errno. */
int block_duplicate(int fd, bool high_only);
/* Is @fd still the block's file? The application may close descriptors that it does not know. */
bool block_owns(const struct block *block, int fd);
/*
 * The next data (not holes) of the block at or after *@from, as offsets from its memory. False:
 * none.
 */
bool block_next_data(const struct block *block, size_t *from, size_t *to);

/* ---- block_fork.c ---- */

/* Is a thread between block_before_fork() and block_after_fork_*()? */
bool block_is_forking(void);

#endif
