/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * For tests: network namespaces of their own. An ordinary user gets one inside a user namespace
 * (where the kernel allows those), in which it is root and there is no other user.
 */
#ifndef VERBATIM_PLATFORM_NETNS_TEST_H
#define VERBATIM_PLATFORM_NETNS_TEST_H

#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

static inline void netns_write(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		printf("%s: %m\n", path);
	if (fd >= 0)
		close(fd);
}

/* Once, at the very beginning. *real_root: setuid() to other users works. False: no namespace can be made. */
static inline bool netns_enter(bool *real_root)
{
	char uids[32], gids[32];

	snprintf(uids, sizeof(uids), "0 %u 1", (unsigned)getuid());
	snprintf(gids, sizeof(gids), "0 %u 1", (unsigned)getgid());
	*real_root = !unshare(CLONE_NEWNET);
	if (*real_root)
		return true;
	if (unshare(CLONE_NEWUSER | CLONE_NEWNET)) {
		printf("SKIPPED: no network namespace can be made here (needs root): %m\n");
		return false;
	}
	netns_write("/proc/self/setgroups", "deny");
	netns_write("/proc/self/uid_map", uids);
	netns_write("/proc/self/gid_map", gids);
	return true;
}

/* A new one, with lo up; for each test. */
static inline bool netns_renew(void)
{
	struct ifreq request = { .ifr_name = "lo", .ifr_flags = IFF_UP | IFF_MULTICAST };
	int fd;
	bool up;

	if (unshare(CLONE_NEWNET))
		return false;
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	up = !ioctl(fd, SIOCSIFFLAGS, &request);
	close(fd);
	return up;
}

#endif
