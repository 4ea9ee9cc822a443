/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shared memory of this process that peers can be given: a mapped memfd.
 */
#include "platform/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "platform/fail.h"

bool memory_is_mapped(const void *address, size_t length)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	uintptr_t start = (uintptr_t)address & ~(page - 1);
	uintptr_t end = (uintptr_t)address + length;

	/* An asynchronous msync() does nothing but look for holes. */
	return !length || !msync((void *)start, end - start, MS_ASYNC) || errno != ENOMEM;
}

/*
 * Addresses that nothing is mapped at, of which the beginning is a multiple of @alignment: a larger
 * place is taken, and what is beside is given back.
 */
static int reserve_aligned(size_t bytes, size_t alignment, uint8_t **memory)
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

int memory_aligned(int fd, uint64_t offset, size_t bytes, size_t alignment, uint8_t **memory)
{
	int flags = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
	uint8_t *place = NULL;
	int err = reserve_aligned(bytes, alignment, &place);

	if (err)
		return err;
	if (fail_now(FAIL_MMAP) || mmap(place, bytes, PROT_READ | PROT_WRITE,
					flags | MAP_NORESERVE | MAP_FIXED, fd,
					(off_t)offset) == MAP_FAILED) {
		err = errno;
		munmap(place, bytes);
		return err;
	}
	*memory = place;
	return 0;
}

/* A file that grows beyond this limit is answered by a signal. */
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

int memory_shared(const char *name, size_t bytes, void **memory, int *fd)
{
	int err, made;
	void *mapped;

	if (is_too_large(bytes))
		return EFBIG;
	made = fail_now(FAIL_MEMFD) ? -1 : memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (made < 0)
		return errno;
	if (fail_now(FAIL_FTRUNCATE) || ftruncate(made, (off_t)bytes)) {
		err = errno;
		goto close_fd;
	}
	mapped = fail_now(FAIL_MMAP) ? MAP_FAILED :
		 mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, made, 0);
	if (mapped == MAP_FAILED) {
		err = errno;
		goto close_fd;
	}
	madvise(mapped, bytes, MADV_DONTDUMP);	/* sparse: a core dump would fill it */
	/* Whoever is given it can rely on its size: no SIGBUS. */
	if (fcntl(made, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW)) {
		err = errno;
		munmap(mapped, bytes);
		goto close_fd;
	}
	*memory = mapped;
	*fd = made;
	return 0;
close_fd:
	close(made);
	return err;
}

static int map(int fd, size_t bytes, bool writable, void *at, void **memory)
{
	int protection = PROT_READ | (writable ? PROT_WRITE : 0);
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

int memory_map(int fd, size_t bytes, bool writable, void **memory)
{
	return map(fd, bytes, writable, NULL, memory);
}

int memory_map_over(int fd, size_t bytes, bool writable, void *memory)
{
	return map(fd, bytes, writable, memory, &memory);
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
