/* SPDX-License-Identifier: BSD-2-Clause */
/* Another process's memory: a child that waits while we write and read in it. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/test_random.h"
#include "platform/fail.h"
#include "platform/process_memory.h"

#define BYTES (3u << 20)

struct child {
	struct process_memory memory;
	uint64_t other_guard;
	char *buffer;			/* there */
};

/* Shuts its guard when it is told to, by a signal that is blocked. */
static void wait_and_shut(uint64_t guard, const sigset_t *shut)
{
	int signal;

	sigwait(shut, &signal);
	process_guard_shut(guard);
	pause();
}

/* A child with guards and a buffer of its own; its addresses come through a pipe. */
static struct child child_start(void)
{
	struct child child = { { 0, 0 }, 0, NULL };
	sigset_t shut;
	int fds[2];

	sigemptyset(&shut);
	sigaddset(&shut, SIGUSR1);
	assert_int_equal(pipe(fds), 0);
	child.memory.pid = fork();
	if (!child.memory.pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		sigprocmask(SIG_BLOCK, &shut, NULL);
		child.buffer = mmap(NULL, 2 * BYTES, PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		munmap(child.buffer + BYTES, BYTES);
		memset(child.buffer, 7, BYTES);
		if (process_guard_make(&child.memory.guard) ||
		    process_guard_make(&child.other_guard) ||
		    write(fds[1], &child, sizeof(child)) != sizeof(child))
			_exit(1);
		wait_and_shut(child.memory.guard, &shut);
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
	struct iovec out[2] = { { first, 100 }, { second, 5000 } };
	struct iovec in[1] = { { back, 5100 } };

	memset(first, 1, sizeof(first));
	memset(second, 2, sizeof(second));
	assert_int_equal(process_memory_write(&child.memory, out, 2, at(&child, 10)), 0);
	assert_int_equal(process_memory_read(&child.memory, in, 1, at(&child, 10)), 0);
	assert_memory_equal(back, first, 100);
	assert_memory_equal(back + 100, second, 5000);
	in[0] = (struct iovec){ back, 1 };
	assert_int_equal(process_memory_read(&child.memory, in, 1, at(&child, 9)), 0);
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
		struct iovec piece[PROCESS_PIECES_MAX], in[1] = { { back, 0 } };
		size_t total = 0;

		for (i = 0; i < PROCESS_PIECES_MAX; i++) {
			size_t bytes = i == PROCESS_PIECES_MAX - 1 ? last[k] : i * 37 % 5 * 100;

			piece[i] = (struct iovec){ data + total, bytes };
			total += bytes;
		}
		in[0].iov_len = total;
		memset(back, 0, total);
		assert_int_equal(process_memory_write(&child.memory, piece, PROCESS_PIECES_MAX,
						      at(&child, 4000 + k)), 0);
		assert_int_equal(process_memory_read(&child.memory, in, 1, at(&child, 4000 + k)), 0);
		assert_memory_equal(back, data, total);
	}
	child_end(&child);
	free(data);
	free(back);
}

/* Up to @max bytes of @data, cut at random, often where a stretch ends. Returns how many bytes, in all. */
static size_t cut(struct iovec piece[PROCESS_PIECES_MAX], unsigned *count, char *data, size_t max,
		  uint64_t *random)
{
	static const size_t near[] = { 0, 1, 64, 4096, PROCESS_STRETCH - 64, PROCESS_STRETCH,
				       2 * PROCESS_STRETCH, 16 * PROCESS_STRETCH };
	size_t total = 0;

	*count = 1 + (unsigned)(test_random(random) % PROCESS_PIECES_MAX);
	for (unsigned i = 0; i < *count; i++) {
		size_t bytes = near[test_random(random) % 8] + test_random(random) % 3;

		if (bytes > max - total)
			bytes = max - total;
		piece[i] = (struct iovec){ data + total, bytes };
		total += bytes;
	}
	return total;
}

/* Of each stretch the guard is looked at first; what is copied is the same as without them. */
static void pieces_are_cut_at_any_place_and_stretches_too(void **state)
{
	struct child child = usable_child();
	struct process_memory whole = { .pid = child.memory.pid, .guard = child.other_guard };
	char *data = malloc(BYTES), *back = malloc(BYTES), *rest = malloc(BYTES);
	struct iovec piece[PROCESS_PIECES_MAX];
	uint64_t random = 3;
	unsigned round, count;
	size_t i;

	for (i = 0; i < BYTES; i++)
		data[i] = (char)(i * 31 + i / 509);
	for (round = 0; round < 200; round++) {
		size_t at_byte = test_random(&random) % 5000, bytes, n;

		bytes = cut(piece, &count, data + round, BYTES - 6000, &random);
		assert_int_equal(process_memory_write(&child.memory, piece, count, at(&child, at_byte)),
				 0);
		/* In one piece, then in others. */
		piece[0] = (struct iovec){ back, bytes };
		assert_int_equal(process_memory_read(&whole, piece, 1, at(&child, at_byte)), 0);
		assert_memory_equal(back, data + round, bytes);
		n = cut(piece, &count, rest, bytes, &random);
		memset(rest, 0x5a, BYTES);
		assert_int_equal(process_memory_read(&whole, piece, count, at(&child, at_byte)), 0);
		assert_memory_equal(rest, data + round, n);
		assert_int_equal(rest[n], 0x5a);
	}
	child_end(&child);
	free(data);
	free(back);
	free(rest);
}

static void missing_memory_is_efault(void **state)
{
	struct child child = usable_child();
	char *data = malloc(BYTES);
	struct iovec piece[1] = { { data, 4096 } };

	memset(data, 0, BYTES);
	assert_int_equal(process_memory_write(&child.memory, piece, 1, at(&child, BYTES - 100)),
			 EFAULT);
	piece[0] = (struct iovec){ data, 4096 };
	assert_int_equal(process_memory_read(&child.memory, piece, 1, at(&child, BYTES)), EFAULT);
	piece[0] = (struct iovec){ NULL, 4096 };
	assert_int_equal(process_memory_write(&child.memory, piece, 1, at(&child, 0)), EFAULT);
	child_end(&child);
	free(data);
}

static void another_image_is_not_touched(void **state)
{
	struct child child = usable_child(), other = usable_child();
	char data[64] = { 0 };
	struct iovec piece[1] = { { data, sizeof(data) } };
	struct process_memory wrong = { .pid = other.memory.pid, .guard = child.memory.guard };

	/* The same addresses, another process: as if its number had been used again. */
	assert_int_equal(process_memory_probe(&wrong), EFAULT);
	assert_int_equal(process_memory_write(&wrong, piece, 1, at(&other, 0)), EFAULT);
	piece[0] = (struct iovec){ data, 64 };
	assert_int_equal(process_memory_read(&other.memory, piece, 1, at(&other, 0)), 0);
	assert_int_equal(data[0], 7);
	child_end(&child);
	child_end(&other);
	piece[0] = (struct iovec){ data, 64 };
	assert_int_equal(process_memory_write(&child.memory, piece, 1, at(&child, 0)), ESRCH);
}

/* So a peer is stopped that holds on for too long; others, with guards of their own, are not. */
static void through_a_guard_that_is_shut_nothing_goes(void **state)
{
	struct child child = usable_child();
	struct process_memory other = { .pid = child.memory.pid, .guard = child.other_guard };
	char data[64] = { 0 };
	struct iovec piece[1] = { { data, sizeof(data) } };
	unsigned tries = 0;

	assert_int_equal(kill(child.memory.pid, SIGUSR1), 0);
	while (!process_memory_probe(&child.memory)) {
		assert_true(++tries < 60000);
		usleep(1000);
	}
	assert_int_equal(process_memory_probe(&child.memory), EFAULT);
	assert_int_equal(process_memory_write(&child.memory, piece, 1, at(&child, 0)), EFAULT);
	piece[0] = (struct iovec){ data, sizeof(data) };
	assert_int_equal(process_memory_read(&child.memory, piece, 1, at(&child, 0)), EFAULT);
	assert_int_equal(data[0], 0);
	piece[0] = (struct iovec){ data, sizeof(data) };
	assert_int_equal(process_memory_read(&other, piece, 1, at(&child, 0)), 0);
	assert_int_equal(data[0], 7);
	assert_int_equal(data[63], 7);
	child_end(&child);
}

/* Something else in its place could let in whoever was shut out. */
static void the_place_of_a_guard_is_taken_until_it_is_given_back(void **state)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	uint64_t guard = 0, second = 0;
	void *place, *made;

	assert_int_equal(process_guard_make(&guard), 0);
	assert_int_equal(process_guard_make(&second), 0);
	assert_int_not_equal(guard / page, second / page);
	place = (void *)(uintptr_t)(guard & ~(uint64_t)(page - 1));
	process_guard_shut(guard);
	made = mmap(place, page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(made, place);
	munmap(made, page);
	process_guard_free(guard);
	made = mmap(place, page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_equal(made, place);
	munmap(made, page);
	process_guard_free(second);
	process_guard_shut(0);
	process_guard_free(0);
}

/* ---- who may ---- */

/* What @body says in a child of another user, who has no privileges. */
static int as_nobody(bool (*body)(pid_t pid), pid_t pid)
{
	int status;
	pid_t child = fork();

	if (!child) {
		if (setgid(12345) || setuid(12345))
			_exit(99);
		_exit(body(pid));
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

/* A process of the same user, that lets itself be debugged or not. */
static bool may_access_child(bool dumpable)
{
	pid_t child;
	int fds[2];
	bool may;
	char byte;

	if (pipe(fds))
		_exit(98);
	child = fork();
	if (!child) {
		prctl(PR_SET_DUMPABLE, dumpable);
		if (write(fds[1], "", 1) == 1)
			pause();
		_exit(0);
	}
	if (read(fds[0], &byte, 1) != 1)
		_exit(97);
	may = !process_access(child);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	return may;
}

static bool may_access(pid_t pid)
{
	return !process_access(pid);
}

static bool may_access_open_child(pid_t pid)
{
	return may_access_child(true);
}

static bool may_access_closed_child(pid_t pid)
{
	return may_access_child(false);
}

static void the_kernel_says_whom_we_may_access(void **state)
{
	struct child child = usable_child();
	siginfo_t ended;

	assert_int_equal(process_access(child.memory.pid), 0);
	fail_set(FAIL_PROCESS_VM, 1, EPERM);
	assert_int_equal(process_access(child.memory.pid), EPERM);
	fail_clear();
	assert_int_equal(process_access(0), ESRCH);
	assert_int_equal(process_access(-1), ESRCH);
	kill(child.memory.pid, SIGKILL);
	waitid(P_PID, (id_t)child.memory.pid, &ended, WEXITED | WNOWAIT);
	assert_int_equal(process_access(child.memory.pid), ESRCH);	/* nobody has waited for it yet */
	child_end(&child);
	assert_int_equal(process_access(child.memory.pid), ESRCH);
}

static void another_user_may_access_nobody(void **state)
{
	struct child child = usable_child();

	if (geteuid()) {
		child_end(&child);
		print_message("SKIPPED: to become another user takes root\n");
		skip();
	}
	assert_int_equal(as_nobody(may_access, child.memory.pid), false);
	assert_int_equal(as_nobody(may_access_open_child, 0), true);
	assert_int_equal(as_nobody(may_access_closed_child, 0), false);
	child_end(&child);
}

static void a_refusal_is_passed_on(void **state)
{
	struct child child = usable_child();
	char data[64] = { 0 };
	struct iovec piece[1] = { { data, sizeof(data) } };

	fail_set(FAIL_PROCESS_VM, 1, EPERM);
	assert_int_equal(process_memory_probe(&child.memory), EPERM);
	fail_set(FAIL_PROCESS_VM, 1, EPERM);
	assert_int_equal(process_memory_write(&child.memory, piece, 1, at(&child, 0)), EPERM);
	fail_clear();
	assert_int_equal(process_memory_probe(&(struct process_memory){ .pid = 1 }), ESRCH);
	child_end(&child);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pieces_arrive_and_come_back),
		cmocka_unit_test(pieces_of_all_sizes_arrive),
		cmocka_unit_test(pieces_are_cut_at_any_place_and_stretches_too),
		cmocka_unit_test(missing_memory_is_efault),
		cmocka_unit_test(another_image_is_not_touched),
		cmocka_unit_test(through_a_guard_that_is_shut_nothing_goes),
		cmocka_unit_test(the_place_of_a_guard_is_taken_until_it_is_given_back),
		cmocka_unit_test(the_kernel_says_whom_we_may_access),
		cmocka_unit_test(another_user_may_access_nobody),
		cmocka_unit_test(a_refusal_is_passed_on),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
