/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * For tests: is a thread or a process at rest? Who sleeps has done what there was to do, which no time that
 * a test lets pass says on a busy machine. And what belongs to a whole process is looked at while its other
 * threads sleep: a worker has descriptors for moments, which are no leak.
 */
#ifndef VERBATIM_PLATFORM_REST_TEST_H
#define VERBATIM_PLATFORM_REST_TEST_H

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include "platform/patience_test.h"

/* The context switches of a thread, a path below /proc, that sleeps or is stopped; false: it runs or wants to. */
static inline bool rest_of_thread(const char *thread, unsigned long *switches)
{
	static const char *const row[] = { "\nvoluntary_ctxt_switches:", "\nnonvoluntary_ctxt_switches:" };
	char path[64], text[4096];
	const char *found;
	ssize_t bytes;
	int fd;

	snprintf(path, sizeof(path), "/proc/%.32s/status", thread);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	bytes = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (bytes < 0)
		return false;
	text[bytes] = '\0';
	for (unsigned i = 0; i < 2; i++) {
		found = strstr(text, row[i]);
		*switches += found ? strtoul(found + strlen(row[i]), NULL, 10) : 0;
	}
	return strstr(text, "\nState:\tS") || strstr(text, "\nState:\tT");
}

/* All threads of a process but @own; one more for each: a thread that is new is noticed, too. */
static inline bool rest_of_process(const char *process, pid_t own, unsigned long *switches)
{
	struct dirent *entry;
	bool rests = true;
	DIR *threads;
	char path[40];

	snprintf(path, sizeof(path), "/proc/%.16s/task", process);
	threads = opendir(path);
	*switches = 0;
	while (threads && rests && (entry = readdir(threads)))
		if (entry->d_name[0] != '.' && atoi(entry->d_name) != own) {
			snprintf(path, sizeof(path), "%.16s/task/%.16s", process, entry->d_name);
			rests = rest_of_thread(path, switches);
			++*switches;
		}
	if (threads)
		closedir(threads);
	return rests && threads;
}

static inline bool process_rests(pid_t pid)
{
	unsigned long switches;
	char name[16];

	snprintf(name, sizeof(name), "%d", (int)pid);
	return rest_of_process(name, 0, &switches);
}

static inline bool rest_of_others(unsigned long *switches)
{
	return rest_of_process("self", (pid_t)syscall(SYS_gettid), switches);
}

static inline bool others_rest(void)
{
	unsigned long switches;

	return rest_of_others(&switches);
}

/* Does @look, an expression, until no other thread has run meanwhile; false: one always has. */
#define at_rest(look)                                                                              \
	({                                                                                         \
		unsigned long rest_before_, rest_after_;                                           \
												   \
		comes_true(rest_of_others(&rest_before_) && ((void)(look), true) &&                \
			   rest_of_others(&rest_after_) && rest_before_ == rest_after_);           \
	})

#endif
