/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * References to blocks, and descriptors of blocks for peers.
 *
 * A peer that may only read gets a descriptor like ours, open for writing: F_SEAL_FUTURE_WRITE
 * forbids writing through it, even if root reopens it through /proc. Our own mapping is older than
 * the seal. F_SEAL_SEAL keeps a peer from adding seals that would hurt us. Seals stay, so the first
 * grant decides for the block's life.
 */
#include "local/block/block_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/copy.h"
#include "platform/fail.h"
#include "platform/memory.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010	/* Linux 5.1 */
#endif

struct block *block_get(const void *address, size_t length)
{
	uintptr_t page = block_page(), start = (uintptr_t)address & ~(page - 1);
	uintptr_t end = (uintptr_t)address + length;
	struct block *block;

	if (!length || end < start || !block_table_may_have((void *)start))
		return NULL;
	lock_acquire(&block_lock);
	block = block_table_find((void *)start);
	if (block && block->whole && block->fd >= 0 && !block->withdrawn &&
	    block_round_up(end - start, page) == block->bytes)
		block->references++;
	else
		block = NULL;
	lock_release(&block_lock);
	return block;
}

void block_put(struct block *block)
{
	lock_acquire(&block_lock);
	if (block->references && !--block->references && block->state == BLOCK_FREED)
		block_table_release(block);
	lock_release(&block_lock);
}

/*
 * Both are constant while there is a reference, unless parts are unmapped; then the block is no
 * longer granted.
 */
uint8_t *block_memory(const struct block *block)
{
	return block->memory;
}

size_t block_bytes(const struct block *block)
{
	return block->bytes;
}

static int block_grant_seal(int fd, enum block_right right)
{
	int seals = F_SEAL_SEAL | (right == BLOCK_READABLE ? F_SEAL_FUTURE_WRITE : 0);

	if (!fail_now(FAIL_SEAL) && !fcntl(fd, F_ADD_SEALS, seals))
		return 0;
	/* A kernel that does not know a seal returns EINVAL and adds none. */
	return errno == EINVAL ? EOPNOTSUPP : errno;
}

static int block_grant_locked(struct block *block, enum block_right right, int *fd)
	REQUIRES(block_lock)
{
	int err, made;

	if (block->state != BLOCK_LIVE || !block->whole)
		return ENOENT;
	if (block->fd < 0 || block->withdrawn)
		return EBADF;
	/*
	 * Duplicate first: between a check of our number and its use, the application may close it
	 * and open another file.
	 */
	made = block_duplicate(block->fd, false);
	if (made < 0)
		return errno;
	if (!block_owns(block, made))
		err = EBADF;
	else if (block->granted != BLOCK_UNGRANTED)
		err = block->granted == right ? 0 : EPERM;
	else
		err = block_grant_seal(made, right);
	if (err) {
		close(made);
		return err;
	}
	block->granted = right;
	*fd = made;
	return 0;
}

int block_grant(struct block *block, bool writable, int *fd)
{
	int err;

	lock_acquire(&block_lock);
	err = block_grant_locked(block, writable ? BLOCK_WRITABLE : BLOCK_READABLE, fd);
	lock_release(&block_lock);
	return err;
}

/* ---- the end of grants ---- */

void block_withdraw(struct block *block)
{
	lock_acquire(&block_lock);
	block->withdrawn = true;
	lock_release(&block_lock);
}

bool block_is_withdrawn(const struct block *block)
{
	bool withdrawn;

	lock_acquire(&block_lock);
	withdrawn = block->withdrawn;
	lock_release(&block_lock);
	return withdrawn;
}

/*
 * Replace the shared mapping by a private one of the same pages, in one step; then write to each
 * page, unchanged, which copies it. Hooks of mmap() do not see this: to them the memory is the
 * same.
 */
static int replace_pages(struct block *block) REQUIRES(block_lock)
{
	if (!block_owns(block, block->fd))
		return EBADF;
	if (fail_now(FAIL_MMAP) ||
	    syscall(SYS_mmap, block->memory, block->bytes, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_FIXED, block->fd, block->offset) == -1)
		return errno;
	close(block->fd);
	block->fd = -1;
	return user_touch_write(block->memory, block->bytes);
}

int block_make_private(struct block *block)
{
	int err = 0, protection = memory_check(block->memory, block->bytes, true);

	lock_acquire(&block_lock);
	/* Can another process write to it? */
	if (block->state != BLOCK_LIVE || block->fd < 0 || block->granted != BLOCK_WRITABLE)
		goto unlock;
	err = block->withdrawn && block->whole ? protection : EINVAL;
	if (!err)
		err = replace_pages(block);
unlock:
	lock_release(&block_lock);
	return err;
}
