/* SPDX-License-Identifier: BSD-2-Clause */
/* Another process's memory: a child that waits while we write and read in it. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "platform/fail.h"
#include "platform/process_memory.h"

#define BYTES (1u << 20)

struct child {
	struct process_memory memory;
	char *buffer;			/* there */
};

/* A child with a guard and a buffer of its own; its addresses come through a pipe. */
static struct child child_start(void)
{
	struct child child = { { 0, 0 }, NULL };
	int fds[2];

	assert_int_equal(pipe(fds), 0);
	child.memory.pid = fork();
	if (!child.memory.pid) {
		child.buffer = mmap(NULL, 2 * BYTES, PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		munmap(child.buffer + BYTES, BYTES);
		memset(child.buffer, 7, BYTES);
		if (process_guard_make(&child.memory.guard) ||
		    write(fds[1], &child, sizeof(child)) != sizeof(child))
			_exit(1);
		pause();
		_exit(0);
	}
	{
		struct child told;

		assert_int_equal(read(fds[0], &told, sizeof(told)), sizeof(told));
		told.memory.pid = child.memory.pid;
		child = told;
	}
	close(fds[0]);
	close(fds[1]);
	return child;
}

static void child_end(const struct child *child)
{
	kill(child->memory.pid, SIGKILL);
	waitpid(child->memory.pid, NULL, 0);
}

/* Some systems forbid it all: then there is nothing to test. */
static struct child usable_child(void)
{
	struct child child = child_start();

	if (process_memory_probe(&child.memory)) {
		child_end(&child);
		print_message("SKIPPED: process_vm_readv is forbidden here\n");
		skip();
	}
	return child;
}

static uint64_t at(const struct child *child, size_t offset)
{
	return (uintptr_t)child->buffer + offset;
}

static void pieces_arrive_and_come_back(void **state)
{
	struct child child = usable_child();
	char first[100], second[5000], back[5100];
	struct iovec out[3] = { [1] = { first, 100 }, [2] = { second, 5000 } };
	struct iovec in[2] = { [1] = { back, 5100 } };

	memset(first, 1, sizeof(first));
	memset(second, 2, sizeof(second));
	assert_int_equal(process_memory_write(&child.memory, out, 3, at(&child, 10)), 0);
	assert_int_equal(process_memory_read(&child.memory, in, 2, at(&child, 10)), 0);
	assert_memory_equal(back, first, 100);
	assert_memory_equal(back + 100, second, 5000);
	in[1] = (struct iovec){ back, 1 };
	assert_int_equal(process_memory_read(&child.memory, in, 2, at(&child, 9)), 0);
	assert_int_equal(back[0], 7);
	child_end(&child);
}

/* Many pieces, among them empty ones, and last pieces around the number of bytes that come last. */
static void pieces_of_all_sizes_arrive(void **state)
{
	static const size_t last[] = { 0, 1, 63, 64, 65, 128, 4096, 70000 };
	struct child child = usable_child();
	char *data = malloc(BYTES), *back = malloc(BYTES);
	size_t i, k;

	for (i = 0; i < BYTES; i++)
		data[i] = (char)(i * 31 + i / 509);
	for (k = 0; k < sizeof(last) / sizeof(last[0]); k++) {
		struct iovec piece[PROCESS_PIECES_MAX], in[2] = { [1] = { back, 0 } };
		size_t total = 0;

		for (i = 1; i < PROCESS_PIECES_MAX; i++) {
			size_t bytes = i == PROCESS_PIECES_MAX - 1 ? last[k] : i * 37 % 5 * 100;

			piece[i] = (struct iovec){ data + total, bytes };
			total += bytes;
		}
		in[1].iov_len = total;
		memset(back, 0, total);
		assert_int_equal(process_memory_write(&child.memory, piece, PROCESS_PIECES_MAX,
						      at(&child, 4000 + k)), 0);
		assert_int_equal(process_memory_read(&child.memory, in, 2, at(&child, 4000 + k)), 0);
		assert_memory_equal(back, data, total);
	}
	child_end(&child);
	free(data);
	free(back);
}

static void missing_memory_is_efault(void **state)
{
	struct child child = usable_child();
	char *data = malloc(BYTES);
	struct iovec piece[2] = { [1] = { data, 4096 } };

	memset(data, 0, BYTES);
	assert_int_equal(process_memory_write(&child.memory, piece, 2, at(&child, BYTES - 100)),
			 EFAULT);
	piece[1] = (struct iovec){ data, 4096 };
	assert_int_equal(process_memory_read(&child.memory, piece, 2, at(&child, BYTES)), EFAULT);
	piece[1] = (struct iovec){ NULL, 4096 };
	assert_int_equal(process_memory_write(&child.memory, piece, 2, at(&child, 0)), EFAULT);
	child_end(&child);
	free(data);
}

static void another_image_is_not_touched(void **state)
{
	struct child child = usable_child(), other = usable_child();
	char data[64] = { 0 };
	struct iovec piece[2] = { [1] = { data, sizeof(data) } };
	struct process_memory wrong = { .pid = other.memory.pid, .guard = child.memory.guard };

	/* The same addresses, another process: as if its number had been used again. */
	assert_int_equal(process_memory_probe(&wrong), EFAULT);
	assert_int_equal(process_memory_write(&wrong, piece, 2, at(&other, 0)), EFAULT);
	piece[1] = (struct iovec){ data, 64 };
	assert_int_equal(process_memory_read(&other.memory, piece, 2, at(&other, 0)), 0);
	assert_int_equal(data[0], 7);
	child_end(&child);
	child_end(&other);
	piece[1] = (struct iovec){ data, 64 };
	assert_int_equal(process_memory_write(&child.memory, piece, 2, at(&child, 0)), ESRCH);
}

static void a_refusal_is_passed_on(void **state)
{
	struct child child = usable_child();
	char data[64] = { 0 };
	struct iovec piece[2] = { [1] = { data, sizeof(data) } };

	fail_set(FAIL_PROCESS_VM, 1, EPERM);
	assert_int_equal(process_memory_probe(&child.memory), EPERM);
	fail_set(FAIL_PROCESS_VM, 1, EPERM);
	assert_int_equal(process_memory_write(&child.memory, piece, 2, at(&child, 0)), EPERM);
	fail_clear();
	assert_int_equal(process_memory_probe(&(struct process_memory){ .pid = 1 }), ESRCH);
	child_end(&child);
}

static void a_stopped_process_is_told_from_one_that_runs(void **state)
{
	struct child child = usable_child();

	assert_false(process_is_stopped(child.memory.pid));
	assert_int_equal(kill(child.memory.pid, SIGSTOP), 0);
	assert_int_equal(waitpid(child.memory.pid, NULL, WUNTRACED), child.memory.pid);
	assert_true(process_is_stopped(child.memory.pid));
	assert_int_equal(kill(child.memory.pid, SIGCONT), 0);
	assert_int_equal(waitpid(child.memory.pid, NULL, WCONTINUED), child.memory.pid);
	assert_false(process_is_stopped(child.memory.pid));
	/* Where nobody can tell it may be. */
	fail_set(FAIL_PROC, 1, EACCES);
	assert_true(process_is_stopped(child.memory.pid));
	fail_clear();
	child_end(&child);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pieces_arrive_and_come_back),
		cmocka_unit_test(pieces_of_all_sizes_arrive),
		cmocka_unit_test(missing_memory_is_efault),
		cmocka_unit_test(another_image_is_not_touched),
		cmocka_unit_test(a_refusal_is_passed_on),
		cmocka_unit_test(a_stopped_process_is_told_from_one_that_runs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
