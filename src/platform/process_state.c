/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The state of another process (process_state.h), from /proc/PID/stat, which every user may read, and from
 * its control group: with version 2 of those, a frozen thread looks as if it slept.
 */
#include "platform/process_state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "platform/fail.h"

#define TEXT_BYTES 4096u

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

/* "0::/path" is of version 2. NULL: none. */
static const char *state_group_path(char *text)
{
	char *line, *rest = NULL;

	for (line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
		if (!strncmp(line, "0::/", 4))
			return line + 3;
	return NULL;
}

/* A group is frozen with each group above it, too: cgroup.events says so. */
static bool state_is_frozen(pid_t pid)
{
	static const char *const mounts[] = { "/sys/fs/cgroup", "/sys/fs/cgroup/unified" };
	char path[TEXT_BYTES + 64], text[TEXT_BYTES], events[TEXT_BYTES];
	const char *group;
	size_t i;

	snprintf(path, sizeof(path), "/proc/%d/cgroup", (int)pid);
	if (state_read(path, text))
		return false;
	group = state_group_path(text);
	for (i = 0; group && i < sizeof(mounts) / sizeof(mounts[0]); i++) {
		snprintf(path, sizeof(path), "%s%s/cgroup.events", mounts[i], group);
		if (!state_read(path, events))
			return strstr(events, "frozen 1");
	}
	return false;
}

enum process_state process_state(pid_t pid)
{
	char path[64], text[TEXT_BYTES];
	const char *name_end;
	int err;

	if (pid <= 0)
		return PROCESS_UNKNOWN;
	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	err = state_read(path, text);
	/* Hidden from this user, it looks as if there were none. */
	if (err)
		return err == ESRCH ? PROCESS_ENDED : PROCESS_UNKNOWN;
	/* pid (name) state: the name may hold anything. */
	name_end = strrchr(text, ')');
	if (!name_end || name_end[1] != ' ')
		return PROCESS_UNKNOWN;
	switch (name_end[2]) {
	case 'T':
	case 't':
		return PROCESS_STOPPED;
	case 'D':
		return PROCESS_BLOCKED;
	case 'X':
	case 'x':
		return PROCESS_ENDED;
	default:
		/* Z: its first thread has ended, others may run. */
		return state_is_frozen(pid) ? PROCESS_FROZEN : PROCESS_RUNS;
	}
}

const char *process_state_name(enum process_state state)
{
	static const char *const names[] = {
		[PROCESS_UNKNOWN] = "not visible to this one",
		[PROCESS_RUNS] = "running",
		[PROCESS_BLOCKED] = "blocked in the kernel, or frozen",
		[PROCESS_STOPPED] = "stopped by a signal or a debugger",
		[PROCESS_FROZEN] = "frozen with its control group",
		[PROCESS_ENDED] = "gone",
	};

	return names[state];
}
