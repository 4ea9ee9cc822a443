/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fork(): a child has a copy of each block at the block's address, and never the block.
 *
 *	before		the contents are copied to anonymous private memory: later changes of the
 *			parent must not be seen, so this cannot be done later
 *	in the parent	the copies are unmapped
 *	in the child	blocks are not there (MADV_DONTFORK): the copies are moved to their places
 *
 * Each forking thread has its own snapshot and holds no lock while it forks: other handlers run
 * meanwhile, and may free memory or wait for a thread that does. The child rebuilds the table from
 * the snapshot, since another thread may have been changing the table. No block is allocated
 * meanwhile, since the child would lack it.
 *
 * Copies are mapped by direct system calls: hooks of mmap() and munmap() do not see them.
 */
#include "base/call.h"
#include "local/block/block_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/log.h"
#include "platform/fail.h"

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000	/* Linux 4.17 */
#endif

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23		/* Linux 5.14; a hint, else without effect */
#endif

struct copy {
	struct block block;		/* as it was */
	unsigned index;			/* its place in the table */
	uint8_t *memory;		/* its contents; NULL: could not be copied, or need not */
};

struct snapshot {
	size_t bytes;			/* of this mapping */
	unsigned count;
	struct copy copy[];
};

/* State of the forking thread. */
static _Thread_local struct {
	unsigned depth;			/* calls of block_before_fork() */
	bool pending;			/* nothing was done yet after fork() */
	struct snapshot *snapshot;
} forking;

/* A hint to all threads (block_is_forking): nothing is read on the strength of it. */
static _Atomic unsigned forking_threads;

bool block_is_forking(void)
{
	return atomic_load_explicit(&forking_threads, memory_order_relaxed);
}

static void *map_private(void *address, size_t bytes, int protection, int flags)
{
	if (fail_now(FAIL_MMAP))
		return MAP_FAILED;
	return (void *)syscall(SYS_mmap, address, bytes, protection,
			       flags | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0L);
}

static void block_fork_unmap(void *memory, size_t bytes)
{
	syscall(SYS_munmap, memory, bytes);
}

/* Populate the copy at once: that takes a tenth less time than a fault for each page. */
static bool block_fork_read_file(const struct block *block, size_t from, size_t to, uint8_t *copy)
{
	syscall(SYS_madvise, copy + from, to - from, MADV_POPULATE_WRITE);
	while (from < to) {
		off_t at = (off_t)(block->offset + from);
		ssize_t got = pread(block->fd, copy + from, to - from, at);

		if (got <= 0)
			return false;
		from += (size_t)got;
	}
	return true;
}

/* Read by a system call, which returns EFAULT where the application made its mapping unreadable. */
static bool read_mapping(const struct block *block, uint8_t *copy)
{
	size_t done = 0;

	while (done < block->bytes) {
		struct iovec local = { copy + done, block->bytes - done };
		struct iovec remote = { block->memory + done, block->bytes - done };
		ssize_t got = process_vm_readv(getpid(), &local, 1, &remote, 1, 0);

		if (got <= 0)
			return false;
		done += (size_t)got;
	}
	return true;
}

/*
 * Read the file, since the application may have made its mapping unreadable. If it has closed our
 * descriptor, only the mapping is left.
 */
static uint8_t *copy_contents(const struct block *block)
{
	uint8_t *copy = map_private(NULL, block->bytes, PROT_READ | PROT_WRITE, MAP_NORESERVE);
	bool read = copy != MAP_FAILED;
	size_t from = 0, to;

	if (read && !block_owns(block, block->fd))
		read = read_mapping(block, copy);
	else
		for (; read && block_next_data(block, &from, &to); from = to)
			read = block_fork_read_file(block, from, to, copy);
	if (read)
		return copy;
	if (copy != MAP_FAILED)
		block_fork_unmap(copy, block->bytes);
	explain("fork: no memory to copy %zu bytes at %p: the child lacks them",
		block->bytes, (void *)block->memory);
	return NULL;
}

static struct snapshot *snapshot_take(void) REQUIRES(block_lock)
{
	unsigned i, top = block_table_top();
	size_t used = sizeof(struct snapshot) + top * sizeof(struct copy);
	size_t bytes = block_round_up(used, block_page());
	struct snapshot *snapshot = map_private(NULL, bytes, PROT_READ | PROT_WRITE, 0);

	if (snapshot == MAP_FAILED) {
		explain("fork: no memory to copy blocks: the child lacks them");
		return NULL;
	}
	snapshot->bytes = bytes;
	for (i = 0; i < top; i++) {
		const struct block *block = block_table_at(i);
		struct copy *copy = &snapshot->copy[snapshot->count];

		if (block->state != BLOCK_LIVE && block->state != BLOCK_FREED)
			continue;
		copy->block = *block;
		copy->index = i;
		if (block->state == BLOCK_LIVE && block->fd >= 0 && !block->parents_only)
			copy->memory = copy_contents(block);
		snapshot->count++;
	}
	return snapshot;
}

void block_before_fork(void)
{
	call_enter(CALL_CLOSED);
	int saved = errno;

	if (forking.depth++)
		return;
	forking.pending = true;
	atomic_fetch_add(&forking_threads, 1);
	lock_acquire(&block_lock);
	if (block_table_top())
		forking.snapshot = snapshot_take();
	lock_release(&block_lock);
	errno = saved;
}

static void snapshot_drop(void)
{
	if (forking.snapshot)
		block_fork_unmap(forking.snapshot, forking.snapshot->bytes);
	forking.snapshot = NULL;
}

void block_after_fork_parent(void)
{
	int saved = errno;

	if (forking.pending) {
		forking.pending = false;
		for (unsigned i = 0; forking.snapshot && i < forking.snapshot->count; i++)
			if (forking.snapshot->copy[i].memory)
				block_fork_unmap(forking.snapshot->copy[i].memory,
						 forking.snapshot->copy[i].block.bytes);
		snapshot_drop();
	}
	if (!--forking.depth)
		atomic_fetch_sub(&forking_threads, 1);
	errno = saved;
	call_leave(CALL_CLOSED);
}

/*
 * Reserve the block's place: it is the hole left by the block, unless an earlier handler mapped
 * something there. Memory that the application itself mapped over a part was copied with
 * the block.
 */
static bool reserve_place(const struct block *block)
{
	void *place;

	if (!block->whole)
		return true;
	place = map_private(block->memory, block->bytes, PROT_NONE,
			    MAP_FIXED_NOREPLACE | MAP_NORESERVE);
	if (place == MAP_FAILED || place == block->memory)
		return place != MAP_FAILED;
	block_fork_unmap(place, block->bytes); /* a kernel that does not know the flag */
	return false;
}

/* The child's block becomes private or inaccessible memory, never the parent's. */
static void copy_place(struct copy *copy)
{
	struct block *block = &copy->block;
	bool reserved = reserve_place(block);

	if (block_owns(block, block->fd))
		close(block->fd);
	block->fd = -1;
	if (copy->memory && reserved && !fail_now(FAIL_MREMAP) &&
	    (void *)syscall(SYS_mremap, copy->memory, block->bytes, block->bytes,
			    MREMAP_MAYMOVE | MREMAP_FIXED, block->memory) != MAP_FAILED)
		return;
	block->hole = !reserved || !block->whole;
	if (copy->memory)
		block_fork_unmap(copy->memory, block->bytes);
}

void block_after_fork_child(void)
{
	struct snapshot *snapshot = forking.snapshot;
	int saved = errno;

	if (forking.pending) {
		forking.pending = false;
		/* The child has one thread: reset the lock, which another thread of the parent may have held. */
		lock_init(&block_lock);
		block_table_wipe();
		for (unsigned i = 0; snapshot && i < snapshot->count; i++) {
			struct copy *copy = &snapshot->copy[i];

			if (copy->block.state == BLOCK_LIVE && copy->block.fd >= 0)
				copy_place(copy);
			block_table_restore(copy->index, &copy->block);
		}
		snapshot_drop();
	}
	if (!--forking.depth)
		atomic_store(&forking_threads, 0);
	errno = saved;
	call_leave(CALL_CLOSED);
}

__attribute__((constructor)) static void block_watch_fork(void)
{
	pthread_atfork(block_before_fork, block_after_fork_parent, block_after_fork_child);
}
