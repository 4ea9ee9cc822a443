/* SPDX-License-Identifier: BSD-2-Clause */
/* The state of another process: a child that is stopped, goes on, and ends. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/lock.h"
#include "platform/fail.h"
#include "platform/process_state.h"

/* Its name would be taken for a state by who looks for the first parenthesis. */
static pid_t child_start(void)
{
	pid_t pid = fork();

	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		prctl(PR_SET_NAME, "a) T (b");
		for (;;)
			pause();
	}
	return pid;
}

static void a_stopped_process_is_told_from_one_that_runs(void **state)
{
	pid_t pid = child_start();

	assert_int_equal(process_state(pid), PROCESS_RUNS);
	assert_int_equal(kill(pid, SIGSTOP), 0);
	assert_int_equal(waitpid(pid, NULL, WUNTRACED), pid);
	assert_int_equal(process_state(pid), PROCESS_STOPPED);
	assert_int_equal(kill(pid, SIGCONT), 0);
	assert_int_equal(waitpid(pid, NULL, WCONTINUED), pid);
	assert_int_equal(process_state(pid), PROCESS_RUNS);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	/* As where /proc hides it: whether there is such a process is known from elsewhere. */
	assert_int_equal(process_state(pid), PROCESS_UNKNOWN);
}

/* What a fabric asks of who does not read: has it had a processor? */
static void one_that_sleeps_is_told_from_one_that_wants_a_processor(void **state)
{
	uint64_t cpu_us, more_us = 0;
	pid_t pid = child_start();

	while (process_is_busy(pid, &cpu_us))
		usleep(1000);	/* it is about to sleep */
	assert_int_equal(kill(pid, SIGSTOP), 0);
	assert_int_equal(waitpid(pid, NULL, WUNTRACED), pid);
	assert_false(process_is_busy(pid, &cpu_us));
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_false(process_is_busy(pid, &cpu_us));
	assert_int_equal(cpu_us, 0);
	assert_false(process_is_busy(0, &cpu_us));
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			;
	}
	assert_true(process_is_busy(pid, &cpu_us));
	while (more_us < cpu_us + 30000) {
		assert_true(process_is_busy(pid, &more_us));
		usleep(1000);
	}
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void *pause_for_ever(void *argument)
{
	for (;;)
		pause();
	return argument;
}

/* One that has two threads; *second is told. */
static pid_t child_of_two(pid_t *second)
{
	char name[64] = "";
	struct dirent *entry;
	int told[2];
	pid_t pid;
	char byte;
	DIR *tasks;

	assert_int_equal(pipe(told), 0);
	pid = fork();
	if (!pid) {
		pthread_t thread;

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (pthread_create(&thread, NULL, pause_for_ever, NULL) || write(told[1], "x", 1) != 1)
			_exit(1);
		pause_for_ever(NULL);
	}
	close(told[1]);
	assert_int_equal(read(told[0], &byte, 1), 1);
	close(told[0]);
	snprintf(name, sizeof(name), "/proc/%d/task", (int)pid);
	tasks = opendir(name);
	assert_non_null(tasks);
	*second = 0;
	while ((entry = readdir(tasks)))
		if (atoi(entry->d_name) && atoi(entry->d_name) != pid)
			*second = atoi(entry->d_name);
	closedir(tasks);
	assert_int_not_equal(*second, 0);
	return pid;
}

static bool debugger_stops(pid_t thread)
{
	return !ptrace(PTRACE_SEIZE, thread, NULL, NULL) && !ptrace(PTRACE_INTERRUPT, thread, NULL, NULL) &&
	       waitpid(thread, NULL, __WALL) == thread;
}

/* As gdb in non-stop mode: one thread is stopped, the other runs and may change all memory. */
static void a_process_is_stopped_with_its_last_thread(void **state)
{
	pid_t second, pid;

#ifdef CHECK_HELD_LOCKS
	skip();			/* ThreadSanitizer has a thread of its own */
#endif
	pid = child_of_two(&second);
	assert_int_equal(process_state(pid), PROCESS_RUNS);
	if (!debugger_stops(pid)) {
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		print_message("no ptrace here: %s\n", strerror(errno));
		skip();
	}
	assert_int_equal(process_state(pid), PROCESS_PARTLY);
	assert_true(debugger_stops(second));
	assert_int_equal(process_state(pid), PROCESS_STOPPED);
	assert_int_equal(ptrace(PTRACE_DETACH, pid, NULL, NULL), 0);
	assert_int_equal(process_state(pid), PROCESS_PARTLY);
	assert_int_equal(ptrace(PTRACE_DETACH, second, NULL, NULL), 0);
	assert_int_equal(process_state(pid), PROCESS_RUNS);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, __WALL), pid);
}

static bool file_write(const char *group, const char *name, const char *text)
{
	char path[128];
	bool written;
	int fd;

	snprintf(path, sizeof(path), "%s/%s", group, name);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	written = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
	if (fd >= 0)
		close(fd);
	return written;
}

/* A control group of version 2 of our own; false: none can be had here. */
static bool group_make(char group[64])
{
	static const char *const mounts[] = { "/sys/fs/cgroup", "/sys/fs/cgroup/unified" };
	char path[128];

	for (unsigned i = 0; i < 2; i++) {
		snprintf(path, sizeof(path), "%s/cgroup.procs", mounts[i]);
		snprintf(group, 64, "%s/verbatim-test-%d", mounts[i], (int)getpid());
		if (!access(path, W_OK) && !mkdir(group, 0755)) {
			snprintf(path, sizeof(path), "%s/cgroup.freeze", group);
			if (!access(path, W_OK))
				return true;
			rmdir(group);
		}
	}
	return false;
}

/* Its threads look as if they slept. */
static void a_frozen_process_is_told_from_one_that_sleeps(void **state)
{
	char group[64], number[16];
	enum process_state frozen = PROCESS_UNKNOWN;
	pid_t pid;
	bool moved;
	int i;

	if (!group_make(group)) {
		print_message("no control group of version 2 can be made here\n");
		skip();
	}
	pid = child_start();
	snprintf(number, sizeof(number), "%d", (int)pid);
	moved = file_write(group, "cgroup.procs", number) && file_write(group, "cgroup.freeze", "1");
	for (i = 0; moved && i < 5000 && frozen != PROCESS_FROZEN; i++) {
		usleep(1000);
		frozen = process_state(pid);
	}
	file_write(group, "cgroup.freeze", "0");
	for (i = 0; i < 5000 && process_state(pid) != PROCESS_RUNS; i++)
		usleep(1000);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	for (i = 0; i < 5000 && rmdir(group); i++)
		usleep(1000);
	if (!moved) {
		print_message("a process cannot be moved into a control group here\n");
		skip();
	}
	assert_int_equal(frozen, PROCESS_FROZEN);
}

static void what_is_hidden_is_unknown(void **state)
{
	assert_int_equal(process_state(0), PROCESS_UNKNOWN);
	assert_int_equal(process_state(-1), PROCESS_UNKNOWN);
	fail_set(FAIL_PROC, 1, EACCES);
	assert_int_equal(process_state(getpid()), PROCESS_UNKNOWN);
	fail_clear();
	assert_int_equal(process_state(getpid()), PROCESS_RUNS);
}

static void every_state_has_words(void **state)
{
	int each;

	for (each = PROCESS_UNKNOWN; each <= PROCESS_ENDED; each++)
		assert_true(strlen(process_state_name((enum process_state)each)) > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_stopped_process_is_told_from_one_that_runs),
		cmocka_unit_test(one_that_sleeps_is_told_from_one_that_wants_a_processor),
		cmocka_unit_test(a_process_is_stopped_with_its_last_thread),
		cmocka_unit_test(a_frozen_process_is_told_from_one_that_sleeps),
		cmocka_unit_test(what_is_hidden_is_unknown),
		cmocka_unit_test(every_state_has_words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
