/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The memfd of a block and its mapping:
 *
 *	| the block's pages, MAP_SHARED, MADV_DONTFORK | guard page, PROT_NONE |
 *
 * The size is sealed at birth: otherwise a peer could truncate the file and have us killed by
 * SIGBUS. The descriptor gets a high number: applications expect low numbers to be theirs, and in
 * order.
 */
#include "local/block/block_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "platform/fail.h"
#include "platform/memory.h"

static int first_high_number(void)
{
	struct rlimit limit;
	rlim_t from;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		return 0;
	from = limit.rlim_cur - limit.rlim_cur / BLOCK_FDS_SHARE;
	return from < BLOCK_FD_FROM ? (int)from : (int)BLOCK_FD_FROM;
}

int block_duplicate(int fd, bool high_only)
{
	int made;

	if (fail_now(FAIL_DUP))
		return -1;
	made = fcntl(fd, F_DUPFD_CLOEXEC, first_high_number());
	return made >= 0 || high_only ? made : fcntl(fd, F_DUPFD_CLOEXEC, 0);
}

static int set_size(int fd, size_t bytes)
{
	struct rlimit limit;

	/* Beyond this limit ftruncate() raises a signal. */
	if (!getrlimit(RLIMIT_FSIZE, &limit) && limit.rlim_cur < bytes)
		return EFBIG;
	if (fail_now(FAIL_FTRUNCATE) || ftruncate(fd, (off_t)bytes))
		return errno;
	if (fail_now(FAIL_SEAL) || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW))
		return errno;
	return 0;
}

static int block_memory_map(struct block *block, int fd, size_t alignment)
{
	size_t guard = block_page();
	uint8_t *place = NULL;
	int err = memory_reserve(block->bytes + guard, alignment, &place);

	if (err)
		return err;
	if (fail_now(FAIL_MMAP) || mmap(place, block->bytes, PROT_READ | PROT_WRITE,
					MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED)
		goto unmap;
	if (fail_now(FAIL_MADVISE) || madvise(place, block->bytes, MADV_DONTFORK))
		goto unmap;
	block->memory = place;
	block->guard = guard;
	return 0;
unmap:
	err = errno;
	munmap(place, block->bytes + guard);
	return err;
}

int block_memory_make(struct block *block, size_t alignment)
{
	int err = 0, low = memory_file_open("verbatim-block"), fd;
	struct stat status;

	if (low < 0)
		return errno;
	fd = block_duplicate(low, true);
	if (fd < 0)
		err = errno;
	close(low);
	if (err)
		return err;
	err = set_size(fd, block->bytes);
	if (!err && fstat(fd, &status))
		err = errno;
	if (!err)
		err = block_memory_map(block, fd, alignment);
	if (err) {
		close(fd);
		return err;
	}
	block->fd = fd;
	block->device = status.st_dev;
	block->inode = status.st_ino;
	return 0;
}

bool block_owns(const struct block *block, int fd)
{
	struct stat status;

	return fd >= 0 && !fstat(fd, &status) && status.st_dev == block->device &&
	       status.st_ino == block->inode;
}

void block_memory_drop(const struct block *block)
{
	int saved = errno;

	if (!block->hole)
		munmap(block->memory, block->bytes + block->guard);
	if (block_owns(block, block->fd))
		close(block->fd);
	errno = saved;
}

bool block_next_data(const struct block *block, size_t *from, size_t *to)
{
	off_t end = (off_t)(block->offset + block->bytes), data, hole;

	if (*from >= block->bytes)
		return false;
	data = lseek(block->fd, (off_t)(block->offset + *from), SEEK_DATA);
	if (data < 0 || data >= end)
		return false;
	hole = lseek(block->fd, data, SEEK_HOLE);
	*from = (size_t)data - block->offset;
	*to = (size_t)(hole < 0 || hole > end ? end : hole) - block->offset;
	return true;
}
