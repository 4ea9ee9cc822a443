/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shared memory of this process that peers can be given: a mapped memfd.
 */
#include "platform/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "platform/fail.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ	22
#define MADV_POPULATE_WRITE	23
#endif
#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008u		/* Linux 6.3 */
#endif

int memory_reserve(size_t bytes, size_t alignment, uint8_t **memory)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), spare = alignment > page ? alignment - page : 0;
	uint8_t *made, *start;

	made = fail_now(FAIL_MMAP) ? MAP_FAILED :
	       mmap(NULL, bytes + spare, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (made == MAP_FAILED)
		return errno;
	start = made + (-(uintptr_t)made & (alignment - 1));
	if (start > made)
		munmap(made, (size_t)(start - made));
	if (start < made + spare)
		munmap(start + bytes, (size_t)(made + spare - start));
	*memory = start;
	return 0;
}

int memory_aligned(size_t bytes, size_t alignment, uint8_t **memory)
{
	uint8_t *place = NULL;
	int err = memory_reserve(bytes, alignment, &place);

	if (err)
		return err;
	if (fail_now(FAIL_MMAP) || mprotect(place, bytes, PROT_READ | PROT_WRITE)) {
		err = errno;
		munmap(place, bytes);
		return err;
	}
	*memory = place;
	return 0;
}

/* A file that grows beyond RLIMIT_FSIZE raises SIGXFSZ. */
static bool is_too_large(size_t bytes)
{
	struct rlimit limit;

	return !getrlimit(RLIMIT_FSIZE, &limit) && limit.rlim_cur < bytes;
}

int memory_private(size_t bytes, void **memory)
{
	void *mapped = fail_now(FAIL_MMAP) ? MAP_FAILED :
		       mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (mapped == MAP_FAILED)
		return errno;
	*memory = mapped;
	return 0;
}

static int memory_repeat(int fd, size_t bytes, uint8_t *at)
{
	size_t done;

	if (fail_now(FAIL_FTRUNCATE) || ftruncate(fd, MEMORY_REPEAT))
		return errno;
	for (done = 0; done < bytes; done += MEMORY_REPEAT) {
		if (fail_now(FAIL_MMAP) || mmap(at + done, MEMORY_REPEAT, PROT_READ | PROT_WRITE,
						MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED)
			return errno;
	}
	madvise(at, bytes, MADV_DONTDUMP);
	return 0;
}

/* By default, memfds are executable and open to every user. */
int memory_file_open(const char *name)
{
	unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
	int fd;

	if (fail_now(FAIL_MEMFD))
		return -1;
	fd = memfd_create(name, flags | MFD_NOEXEC_SEAL);
	if (fd < 0 && errno == EINVAL)
		fd = memfd_create(name, flags);
	if (fd < 0 || !fchmod(fd, 0600))
		return fd;
	close(fd);
	return -1;
}

int memory_null(size_t bytes, void **zeros, void **sink)
{
	uint8_t *place[2] = { NULL, NULL };
	int err, fd;

	if (is_too_large(MEMORY_REPEAT))
		return EFBIG;
	fd = fail_now(FAIL_MEMFD) ? -1 : memfd_create("verbatim-null", MFD_CLOEXEC);
	if (fd < 0)
		return errno;
	err = memory_reserve(bytes, MEMORY_PAGE, &place[0]);
	if (!err)
		err = memory_reserve(bytes, MEMORY_PAGE, &place[1]);
	if (!err)
		err = fail_now(FAIL_MMAP) || mprotect(place[0], bytes, PROT_READ) ? errno : 0;
	if (!err)
		err = memory_repeat(fd, bytes, place[1]);
	close(fd);
	if (err) {
		memory_release(place[0], bytes, -1);
		memory_release(place[1], bytes, -1);
		return err;
	}
	*zeros = place[0];
	*sink = place[1];
	return 0;
}

static int memory_map(int fd, size_t bytes, int protection, void *at, void **memory)
{
	void *mapped = fail_now(FAIL_MMAP) ? MAP_FAILED :
		       mmap(at, bytes, protection, MAP_SHARED | MAP_NORESERVE | (at ? MAP_FIXED : 0), fd,
			    0);

	if (mapped == MAP_FAILED)
		return errno;
	madvise(mapped, bytes, MADV_DONTFORK);
	/* A core dump reads all of a mapping, and reading the holes of a sparse file fills them. */
	madvise(mapped, bytes, MADV_DONTDUMP);
	*memory = mapped;
	return 0;
}

int memory_shared(const char *name, size_t bytes, void *memory, int *fd)
{
	int err, made;
	int seals;

	if (is_too_large(bytes))
		return EFBIG;
	made = fail_now(FAIL_MEMFD) ? -1 : memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (made < 0)
		return errno;
	err = fail_now(FAIL_FTRUNCATE) || ftruncate(made, (off_t)bytes) ? errno : 0;
	if (!err)
		err = memory_map(made, bytes, PROT_READ | PROT_WRITE, memory, &memory);
	if (err)
		goto close_fd;
	seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL;
	err = fail_now(FAIL_SEAL) || fcntl(made, F_ADD_SEALS, seals) ? errno : 0;
	if (err)
		goto blank;
	*fd = made;
	return 0;
blank:
	memory_blank(memory, bytes);
close_fd:
	close(made);
	return err;
}

int memory_map_over(int fd, size_t bytes, void *memory)
{
	return memory_map(fd, bytes, PROT_READ, memory, &memory);
}

/* Huge-page files are rejected: a page may be missing at first touch. */
static bool is_sealed_block(int fd, size_t bytes)
{
	int seals = fcntl(fd, F_GET_SEALS), size = F_SEAL_SHRINK | F_SEAL_GROW;
	struct statfs system;
	struct stat stat;

	return seals >= 0 && (seals & size) == size && !fstat(fd, &stat) &&
	       (uint64_t)stat.st_size == bytes && !fstatfs(fd, &system) &&
	       system.f_type == TMPFS_MAGIC;
}

int memory_map_sealed(int fd, size_t bytes, bool writable, void **memory)
{
	if (!is_sealed_block(fd, bytes))
		return EPROTO;
	return memory_map(fd, bytes, PROT_READ | (writable ? PROT_WRITE : 0), NULL, memory);
}

int memory_blank(void *memory, size_t bytes)
{
	return mmap(memory, bytes, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0) == MAP_FAILED ?
		       errno : 0;
}

void memory_release(void *memory, size_t bytes, int fd)
{
	if (memory)
		munmap(memory, bytes);
	if (fd >= 0)
		close(fd);
}

int memory_populate(const void *address, size_t length, bool writable)
{
	const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), from = (uintptr_t)address & ~(page - 1);
	size_t bytes = (uintptr_t)address + length - from;
	int err;

	if (!madvise((void *)from, bytes, writable ? MADV_POPULATE_WRITE : MADV_POPULATE_READ))
		return 0;
	if (errno != EINVAL)
		return errno;
	/* A mapping lacks the right, or the kernel (before 5.14) the advice. */
	err = memory_check(address, length, writable);
	return err == ENOSYS ? 0 : err;
}
