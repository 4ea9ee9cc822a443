/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shared memory of this process that peers can be given: a mapped memfd.
 */
#include "platform/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/mman.h>
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

int memory_shared(const char *name, size_t bytes, void **memory, int *fd)
{
	int err, made = fail_now(FAIL_MEMFD) ? -1 :
			memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	void *mapped;

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

int memory_map(int fd, size_t bytes, bool writable, void **memory)
{
	int protection = PROT_READ | (writable ? PROT_WRITE : 0);
	void *mapped = fail_now(FAIL_MMAP) ? MAP_FAILED :
		       mmap(NULL, bytes, protection, MAP_SHARED | MAP_NORESERVE, fd, 0);

	if (mapped == MAP_FAILED)
		return errno;
	madvise(mapped, bytes, MADV_DONTFORK);
	*memory = mapped;
	return 0;
}

void memory_release(void *memory, size_t bytes, int fd)
{
	if (memory)
		munmap(memory, bytes);
	if (fd >= 0)
		close(fd);
}
