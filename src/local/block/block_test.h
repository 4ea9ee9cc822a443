/* SPDX-License-Identifier: BSD-2-Clause */
/* What the tests of blocks share: a block, what is open, how a child ended. */
#ifndef VERBATIM_LOCAL_BLOCK_BLOCK_TEST_H
#define VERBATIM_LOCAL_BLOCK_BLOCK_TEST_H

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "local/block/block_internal.h"
#include "platform/fail.h"

#define PAGE 4096u

static inline uint8_t *new_block(size_t bytes)
{
	void *memory = NULL;

	assert_int_equal(block_alloc(bytes, PAGE, &memory), 0);
	return memory;
}

static inline unsigned blocks_now(void)
{
	struct block_budget budget;

	block_budget(&budget);
	return budget.blocks;
}

static inline uint64_t bytes_now(void)
{
	struct block_budget budget;

	block_budget(&budget);
	return budget.bytes;
}

/* Descriptors that are open, below what ours begin at and from there on. */
static inline unsigned open_fds(int from, int to)
{
	unsigned count = 0;

	for (int fd = from; fd < to; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

/* Is something mapped there that can be read? */
static inline bool is_readable(const void *address)
{
	int fds[2];
	bool readable;

	assert_int_equal(pipe(fds), 0);
	readable = write(fds[1], address, 1) == 1;
	close(fds[0]);
	close(fds[1]);
	return readable;
}

/* The exit status of the child, or minus the signal that ended it. */
static inline int child_status(pid_t pid)
{
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

#endif
