/* SPDX-License-Identifier: BSD-2-Clause */
/* Holders of abstract names, from sock_diag(7), and their processes, from /proc (holder.h). */
#include "host/holder.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "platform/socket_owner.h"

#define USERS_MAX	32u	/* that are told apart */
#define USERS_TOLD	3u

struct user {
	uid_t uid;
	unsigned count;
	uint32_t inode;			/* of one of its sockets */
};

struct users {
	unsigned count;
	struct user user[USERS_MAX];
};

static void holder_count(void *context, const struct socket_seen *seen)
{
	struct users *users = context;
	unsigned i;

	for (i = 0; i < users->count && users->user[i].uid != seen->uid; i++)
		;
	if (i == USERS_MAX)
		return;
	if (i == users->count)
		users->user[users->count++] = (struct user){ .uid = seen->uid };
	users->user[i].count++;
	users->user[i].inode = seen->inode;
}

static bool has_socket(const char *process, const char *wanted)
{
	char path[300], target[64];
	struct dirent *entry;
	bool found = false;
	ssize_t length;
	DIR *fds;

	snprintf(path, sizeof(path), "/proc/%.20s/fd", process);
	fds = opendir(path);
	while (fds && !found && (entry = readdir(fds))) {
		snprintf(path, sizeof(path), "/proc/%.20s/fd/%.20s", process, entry->d_name);
		length = readlink(path, target, sizeof(target) - 1);
		if (length <= 0)
			continue;
		target[length] = '\0';
		found = !strcmp(target, wanted);
	}
	if (fds)
		closedir(fds);
	return found;
}

/* "process 4242, python3"; false: none that we may look at. */
static bool holder_process(uint32_t inode, char *text, size_t bytes)
{
	char wanted[40], path[64], name[32] = "";
	DIR *processes = opendir("/proc");
	struct dirent *entry;
	bool found = false;
	FILE *file;

	snprintf(wanted, sizeof(wanted), "socket:[%u]", (unsigned)inode);
	while (processes && !found && (entry = readdir(processes))) {
		if (entry->d_name[0] < '0' || entry->d_name[0] > '9' || !has_socket(entry->d_name, wanted))
			continue;
		found = true;
		snprintf(path, sizeof(path), "/proc/%.20s/comm", entry->d_name);
		file = fopen(path, "re");
		if (file && fgets(name, sizeof(name), file))
			name[strcspn(name, "\n")] = '\0';
		if (file)
			fclose(file);
		snprintf(text, bytes, "process %.20s, %s", entry->d_name, name);
	}
	if (processes)
		closedir(processes);
	return found;
}

static int holder_compare(const void *a, const void *b)
{
	const struct user *first = a, *second = b;

	return (first->count < second->count) - (first->count > second->count);
}

const char *holders_describe(const char *prefix, char *text, size_t bytes)
{
	struct users users = { .count = 0 };
	char process[80];
	size_t at = 0;
	unsigned i;

	text[0] = '\0';
	if (socket_owners(prefix, holder_count, &users))
		return text;
	qsort(users.user, users.count, sizeof(users.user[0]), holder_compare);
	for (i = 0; i < users.count && i < USERS_TOLD && at < bytes; i++) {
		const struct user *user = &users.user[i];
		bool seen = holder_process(user->inode, process, sizeof(process));

		at += (size_t)snprintf(text + at, bytes - at, "%suser %u has %u%s%s%s%s", i ? ", " : "",
				       (unsigned)user->uid, user->count, seen ? " (" : "",
				       seen && user->count > 1 ? "one of them: " : "", seen ? process : "",
				       seen ? ")" : "");
	}
	return text;
}
