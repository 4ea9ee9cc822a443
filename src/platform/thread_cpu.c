/* SPDX-License-Identifier: BSD-2-Clause */
/* How the scheduler treats the threads of this process (thread_cpu.h). */
#include "platform/thread_cpu.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "platform/wait.h"

static _Thread_local pid_t id __attribute__((tls_model("initial-exec")));

pid_t thread_id(void)
{
	if (!id)
		id = (pid_t)syscall(SYS_gettid);
	return id;
}

void thread_id_forget(void)
{
	id = 0;
}

/* The clock of a thread's processor time, as pthread_getcpuclockid() makes it from the thread ID. */
static clockid_t clock_of(pid_t thread)
{
	enum { PER_THREAD = 4, SCHEDULED = 2 };

	return (clockid_t)(~(unsigned)thread << 3 | PER_THREAD | SCHEDULED);
}

static bool used_ns(pid_t thread, uint64_t *ns)
{
	struct timespec used;

	if (clock_gettime(clock_of(thread), &used))
		return false;
	*ns = (uint64_t)used.tv_sec * 1000000000u + (uint64_t)used.tv_nsec;
	return true;
}

/* State 'R' in the third field of /proc/self/task/TID/stat, behind the name in parentheses. */
static bool is_runnable(pid_t thread)
{
	char path[64], text[128];
	const char *name_end;
	ssize_t got;
	int fd;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)thread);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	got = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (got <= 0)
		return false;
	text[got] = '\0';
	name_end = strrchr(text, ')');
	return name_end && name_end[1] == ' ' && name_end[2] == 'R';
}

bool thread_is_preempted(pid_t thread, uint64_t ns)
{
	uint64_t before, after;

	if (thread <= 0 || !used_ns(thread, &before))
		return false;
	thread_sleep_ns(ns);
	return used_ns(thread, &after) && after == before && is_runnable(thread);
}
