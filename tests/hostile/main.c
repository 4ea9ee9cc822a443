/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * hostile --list			names and titles of the cases
 * hostile [--long] [--seed N] CASE	runs one, in namespaces of its own where it can have them
 *
 * Exit status 0, 1 (failed; the lines before say why) or 77 (skipped; a line says why). The runner
 * (run) makes TAP of it, with a time limit for each case.
 */
#include "hostile.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>

static const struct hostile_case *const group[] = {
	ordinary_cases, address_space_cases, deregister_cases, stranger_cases, misuse_cases,
	mismatch_cases, kill_cases,	     crowd_cases,      storm_cases,
	signal_cases, shortcut_cases};

static bool try_write(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool good = fd >= 0 && write(fd, text, strlen(text)) > 0;

	if (fd >= 0)
		close(fd);
	return good;
}

/* As the same user, in a user namespace: there the kernel lets anybody have a network. */
static bool enter_as_user(void)
{
	char uids[32], gids[32];

	snprintf(uids, sizeof(uids), "%u %u 1", (unsigned)getuid(), (unsigned)getuid());
	snprintf(gids, sizeof(gids), "%u %u 1", (unsigned)getgid(), (unsigned)getgid());
	if (unshare(CLONE_NEWUSER | CLONE_NEWNET | CLONE_NEWNS))
		return false;
	return try_write("/proc/self/setgroups", "deny") && try_write("/proc/self/uid_map", uids) &&
	       try_write("/proc/self/gid_map", gids);
}

/* Where there is no network namespace to be had the host's loopback does. */
static void enter_namespaces(void)
{
	struct ifreq request = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_MULTICAST};
	int fd;

	if (unshare(CLONE_NEWNET | CLONE_NEWNS) && !enter_as_user()) {
		say("no network namespace here: %s", strerror(errno));
		return;
	}
	mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	CHECK(!ioctl(fd, SIOCSIFFLAGS, &request), "lo: %m");
	close(fd);
}

static void list(void)
{
	const struct hostile_case *c;
	unsigned i;

	for (i = 0; i < sizeof(group) / sizeof(group[0]); i++)
		for (c = group[i]; c->name; c++)
			if (long_run || !c->only_long)
				printf("%s\t%s\n", c->name, c->title);
}

static const struct hostile_case *find(const char *name)
{
	const struct hostile_case *c;
	unsigned i;

	for (i = 0; i < sizeof(group) / sizeof(group[0]); i++)
		for (c = group[i]; c->name; c++)
			if (!strcmp(c->name, name))
				return c;
	return NULL;
}

int main(int argc, char **argv)
{
	const struct hostile_case *chosen = NULL;
	int i;

	for (i = 1; i < argc; i++)
		if (!strcmp(argv[i], "--list"))
			return list(), 0;
		else if (!strcmp(argv[i], "--long"))
			long_run = true;
		else if (!strcmp(argv[i], "--seed") && i + 1 < argc)
			seed = strtoull(argv[++i], NULL, 0);
		else
			chosen = find(argv[i]);
	if (!chosen) {
		fprintf(stderr, "usage: hostile --list | [--long] [--seed N] CASE\n");
		return 2;
	}
	signal(SIGPIPE, SIG_IGN);
	enter_namespaces();
	chosen->run();
	return 0;
}
