/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The state of another process (process_state.h), from /proc/PID/stat, which every user may read, and from
 * its control group: with version 2 of those, a frozen thread looks as if it slept.
 */
#include "platform/process_state.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "platform/fail.h"

#define TEXT_BYTES 4096u
#define TASK_BYTES 320u			/* of a path: a name of the directory has 255 at most */
#define THREADS_MAX 1024u		/* looked at; of more than these nothing is certain */

/* The beginning of a small file. 0 or errno. */
static int state_read(const char *path, char text[TEXT_BYTES])
{
	int fd = fail_now(FAIL_PROC) ? -1 : open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	ssize_t got;
	int err;

	if (fd < 0)
		return errno;
	got = read(fd, text, TEXT_BYTES - 1);
	err = got < 0 ? errno : 0;
	close(fd);
	text[got < 0 ? 0 : got] = '\0';
	return err;
}

/* The version 2 group of a process or thread, by its file in /proc. False: none. */
static bool state_group(const char *path, char group[TEXT_BYTES])
{
	char text[TEXT_BYTES], *rest = NULL;
	char *line = state_read(path, text) ? NULL : strtok_r(text, "\n", &rest);

	while (line && strncmp(line, "0::/", 4))	/* "0::/path" is of version 2 */
		line = strtok_r(NULL, "\n", &rest);
	snprintf(group, TEXT_BYTES, "%s", line ? line + 3 : "");
	return line != NULL;
}

/* A group is frozen with each group above it, too: cgroup.events says so. */
static bool state_is_frozen(const char *group)
{
	static const char *const mounts[] = { "/sys/fs/cgroup", "/sys/fs/cgroup/unified" };
	char path[TEXT_BYTES + 64], events[TEXT_BYTES];
	size_t i;

	for (i = 0; i < sizeof(mounts) / sizeof(mounts[0]); i++) {
		snprintf(path, sizeof(path), "%s%s/cgroup.events", mounts[i], group);
		if (!state_read(path, events))
			return strstr(events, "frozen 1");
	}
	return false;
}

/* The letter of a file stat: "pid (name) state", where the name may hold anything. 0: not to be had. */
static char state_letter(const char *path, int *err)
{
	char text[TEXT_BYTES];
	const char *name_end;

	*err = state_read(path, text);
	name_end = *err ? NULL : strrchr(text, ')');
	return name_end && name_end[1] == ' ' ? name_end[2] : '\0';
}

struct threads {
	unsigned seen, stopped, ended, busy;
	bool one_group, all;		/* all: none was left out */
};

static void state_look(struct threads *threads, const char task[TASK_BYTES], const char *group)
{
	char path[TASK_BYTES + 8], other[TEXT_BYTES];
	int err;

	snprintf(path, sizeof(path), "%s/stat", task);
	switch (state_letter(path, &err)) {
	case 'R':
	case 'D':
		threads->busy++;
		break;
	case 'T':
	case 't':
		threads->stopped++;
		break;
	case 'X':
	case 'x':
	case 'Z':
	case '\0':
		threads->ended++;	/* or nearly so */
		break;
	}
	threads->seen++;
	if (!group)
		return;
	snprintf(path, sizeof(path), "%s/cgroup", task);
	threads->one_group &= !state_group(path, other) || !strcmp(group, other);
}

/* All threads of @pid; @group, unless NULL: is each in that one? */
static void state_threads(pid_t pid, const char *group, struct threads *threads)
{
	char path[TASK_BYTES];
	struct dirent *entry;
	DIR *tasks;

	*threads = (struct threads){ .one_group = true };
	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	tasks = opendir(path);
	if (!tasks)
		return;
	while (threads->seen < THREADS_MAX && (entry = readdir(tasks))) {
		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "/proc/%d/task/%s", (int)pid, entry->d_name);
		state_look(threads, path, group);
	}
	threads->all = threads->seen < THREADS_MAX;
	closedir(tasks);
}

/* A group may be of single threads: version 2 calls it threaded. */
static enum process_state state_by_threads(pid_t pid, bool stopped)
{
	char path[64], group[TEXT_BYTES];
	struct threads threads;
	bool frozen;

	snprintf(path, sizeof(path), "/proc/%d/cgroup", (int)pid);
	frozen = !stopped && state_group(path, group) && state_is_frozen(group);
	state_threads(pid, frozen ? group : NULL, &threads);
	if (frozen)
		return threads.all && threads.one_group ? PROCESS_FROZEN : PROCESS_PARTLY;
	if (stopped && threads.all && threads.stopped + threads.ended == threads.seen)
		return PROCESS_STOPPED;
	return stopped || threads.stopped ? PROCESS_PARTLY : PROCESS_RUNS;
}

enum process_state process_state(pid_t pid)
{
	char path[64];
	int err;

	if (pid <= 0)
		return PROCESS_UNKNOWN;
	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	switch (state_letter(path, &err)) {
	case '\0':	/* Hidden from this user, it looks as if there were none. */
		return err == ESRCH ? PROCESS_ENDED : PROCESS_UNKNOWN;
	case 'T':
	case 't':
		return state_by_threads(pid, true);
	case 'D':
		return PROCESS_BLOCKED;
	case 'X':
	case 'x':
		return PROCESS_ENDED;
	default:	/* Z: its first thread has ended, others may run. */
		return state_by_threads(pid, false);
	}
}

bool process_is_busy(pid_t pid, uint64_t *cpu_us)
{
	unsigned long user = 0, system = 0;
	char path[64], text[TEXT_BYTES];
	struct threads threads;
	const char *name_end;

	*cpu_us = 0;
	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	if (pid <= 0 || state_read(path, text))
		return false;
	/* proc(5): the letter is field 3, the two times are 14 and 15, in ticks. */
	name_end = strrchr(text, ')');
	if (name_end && sscanf(name_end + 1, " %*c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %lu %lu",
			       &user, &system) == 2)
		*cpu_us = (uint64_t)(user + system) * 1000000u / (uint64_t)sysconf(_SC_CLK_TCK);
	state_threads(pid, NULL, &threads);
	return threads.busy;
}

const char *process_state_name(enum process_state state)
{
	static const char *const names[] = {
		[PROCESS_UNKNOWN] = "not visible to this one",
		[PROCESS_RUNS] = "running",
		[PROCESS_PARTLY] = "stopped in part by a debugger",
		[PROCESS_BLOCKED] = "blocked in the kernel, or frozen",
		[PROCESS_STOPPED] = "stopped by a signal or a debugger",
		[PROCESS_FROZEN] = "frozen with its control group",
		[PROCESS_ENDED] = "gone",
	};

	return names[state];
}
