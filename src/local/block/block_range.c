/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * System calls of the application on parts of blocks, where shared memory would behave differently
 * from the private memory that the application expects.
 */
#include "base/call.h"
#include "local/block/block_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/log.h"

#ifndef MADV_DONTNEED_LOCKED
#define MADV_DONTNEED_LOCKED 24		/* Linux 5.18 */
#endif

#define ZEROS_BYTES 4096u

static uintptr_t block_end(const struct block *block)
{
	return (uintptr_t)block->memory + block->bytes;
}

/*
 * Unmap the cut, with the guard page if it includes the block's end. A cut in the middle stays
 * reserved, since block_free() will unmap everything between the block's ends.
 */
static void cut_pages(const struct block *old, uintptr_t from, uintptr_t to)
{
	bool at_start = from == (uintptr_t)old->memory, at_end = to == block_end(old);

	madvise((void *)from, to - from, MADV_REMOVE);	/* sealed pages go with the block */
	if (at_start || at_end)
		munmap((void *)from, to - from + (at_end ? old->guard : 0));
	else if (mmap((void *)from, to - from, PROT_NONE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0) == MAP_FAILED)
		explain("munmap: cannot unmap part of a block: %m");
}

/* [@from, @to) lies in the block, which is trimmed, freed, or keeps a hole. Releases the lock. */
static void cut_block(struct block *block, uintptr_t from, uintptr_t to) RELEASES(block_lock)
{
	struct block old = *block;
	bool at_start = from == (uintptr_t)block->memory, at_end = to == block_end(block);

	if (at_start && at_end)
		block_table_remove(block);
	else if (at_start || at_end)
		block_table_trim(block, at_start ? to - from : 0, at_end ? to - from : 0);
	else
		block->whole = false;
	lock_release(&block_lock);
	if (at_start && at_end)
		block_memory_drop(&old);
	else
		cut_pages(&old, from, to);
}

/*
 * Unmap from *@at to the first block, and that block up to @end; advances *@at past it. False:
 * there is no block.
 */
static bool cut_first(uintptr_t *at, uintptr_t end)
{
	uintptr_t from, to, start = *at;
	struct block *block;

	lock_acquire(&block_lock);
	block = block_table_overlap(start, end);
	if (!block) {
		lock_release(&block_lock);
		return false;
	}
	from = start > (uintptr_t)block->memory ? start : (uintptr_t)block->memory;
	to = end < block_end(block) ? end : block_end(block);
	cut_block(block, from, to);
	if (from > start)
		munmap((void *)start, from - start);
	*at = to;
	return true;
}

bool block_unmap(void *address, size_t length)
{
	CALL();
	uintptr_t at = (uintptr_t)address, page = block_page();
	uintptr_t end = at + block_round_up(length, page);
	bool found = false;

	if (block_table_is_empty() || at & (page - 1) || end <= at)
		return false;
	while (at < end && cut_first(&at, end))
		found = true;
	if (found && at < end)
		munmap((void *)at, end - at);
	return found;
}

bool block_replaced(const void *address, size_t length)
{
	CALL();
	uintptr_t at = (uintptr_t)address, end = at + length;
	struct block *block;
	bool found = false;

	if (block_table_is_empty())
		return false;
	lock_acquire(&block_lock);
	while (at < end && (block = block_table_overlap(at, end))) {
		block->whole = false;
		at = block_end(block);
		found = true;
	}
	lock_release(&block_lock);
	return found;
}

/*
 * Write by a system call, which returns EFAULT where the application made its mapping unwritable. 0
 * or errno.
 */
static int write_zeros(uint8_t *memory, size_t bytes)
{
	static const uint8_t zeros[ZEROS_BYTES];
	size_t done = 0;

	while (done < bytes) {
		size_t part = bytes - done < ZEROS_BYTES ? bytes - done : ZEROS_BYTES;
		struct iovec from = { (void *)zeros, part }, to = { memory + done, part };

		if (process_vm_writev(getpid(), &from, 1, &to, 1, 0) != (ssize_t)part)
			return errno;
		done += part;
	}
	return 0;
}

/*
 * Zero the range. Pages that a peer may only read are sealed against hole punching, too: overwrite
 * those that exist.
 */
static int block_range_discard(const struct block *block, uintptr_t start, uintptr_t end)
{
	size_t from = start - (uintptr_t)block->memory, last = end - (uintptr_t)block->memory, to;
	bool ours = block_owns(block, block->fd);
	int err = 0;

	if (!madvise((void *)start, end - start, MADV_REMOVE))
		return 0;
	if (ours && !fallocate(block->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
			       (off_t)(block->offset + from), (off_t)(end - start)))
		return 0;
	if (!ours)
		return write_zeros((void *)start, end - start);
	while (!err && from < last && block_next_data(block, &from, &to) && from < last) {
		to = to < last ? to : last;
		err = write_zeros(block->memory + from, to - from);
		from = to;
	}
	return err;
}

/*
 * Copy the description of the block around the range. False: there is none, or it is private memory
 * in a child.
 */
static bool find_around(uintptr_t start, uintptr_t end, struct block *found)
{
	struct block *block;

	lock_acquire(&block_lock);
	block = block_table_overlap(start, end);
	if (block)
		*found = *block;
	lock_release(&block_lock);
	return block && found->fd >= 0 && (uintptr_t)found->memory <= start &&
	       end <= block_end(found);
}

bool block_advise(void *address, size_t length, int advice, int *err)
{
	CALL();
	uintptr_t start = (uintptr_t)address, page = block_page();
	uintptr_t end = start + block_round_up(length, page);
	struct block block, *whole;

	if (block_table_is_empty() || start & (page - 1) || end <= start ||
	    !find_around(start, end, &block))
		return false;
	*err = 0;
	switch (advice) {
	case MADV_DONTNEED:
	case MADV_DONTNEED_LOCKED:
	case MADV_FREE:
		*err = block_range_discard(&block, start, end);
		return true;
	case MADV_DONTFORK:
	case MADV_DOFORK:
		/*
		 * Blocks have MADV_DONTFORK already; if the application asks for it, a child gets no copy either.
		 * Whole blocks only.
		 */
		lock_acquire(&block_lock);
		whole = block_table_find((void *)start);
		if (whole && block_end(whole) == end)
			whole->parents_only = advice == MADV_DONTFORK;
		lock_release(&block_lock);
		return true;
	default:
		return false;
	}
}
