/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared memory without files: memfds. */
#include "platform/memory.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

int memory_shared(const char *name, size_t bytes, void **memory, int *fd)
{
	int err, opened = memfd_create(name, MFD_CLOEXEC);
	void *mapped;

	if (opened < 0)
		return errno;
	if (ftruncate(opened, (off_t)bytes)) {
		err = errno;
		goto close_fd;
	}
	mapped = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, opened, 0);
	if (mapped == MAP_FAILED) {
		err = errno;
		goto close_fd;
	}
	*memory = mapped;
	*fd = opened;
	return 0;
close_fd:
	close(opened);
	return err;
}

void memory_release(void *memory, size_t bytes, int fd)
{
	munmap(memory, bytes);
	if (fd >= 0)
		close(fd);
}
