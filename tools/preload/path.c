/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which paths are ours. Called for every path that the program opens: the first test is short.
 *
 * ".." is taken by the letters, as none of our directories is reached by a link: so a path may
 * pass through them and end elsewhere, where the kernel could not follow.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "preload.h"

static const char *const roots[] = {
	"/sys/class/infiniband", "/sys/class/infiniband_verbs", "/sys/class/infiniband_mad", "/dev/infiniband",
};

/* The working directory, when it is one of ours; read by every thread, changed by chdir(). */
static _Atomic bool inside;
static pthread_mutex_t inside_mutex = PTHREAD_MUTEX_INITIALIZER;
static char inside_path[NODE_PATH_MAX];

static bool has_our_root(const char *path)
{
	for (size_t i = 0; i < sizeof(roots) / sizeof(roots[0]); i++) {
		size_t length = strlen(roots[i]);

		if (!strncmp(path, roots[i], length) &&
		    (path[length] == '/' || path[length] == '\0'))
			return true;
	}
	return false;
}

/*
 * Append the components of @path to the canonical path @to. False: too long to be ours.
 * *passed: on the way it was one of ours.
 */
static bool append_components(char *to, const char *path, bool *passed)
{
	size_t length = strlen(to), n;

	for (; *path; path += n) {
		n = strcspn(path, "/");
		if (n == 0) {
			n = 1;
		} else if (n == 2 && path[0] == '.' && path[1] == '.') {
			*passed |= has_our_root(to);
			while (length && to[--length] != '/')
				;
			to[length] = '\0';
		} else if (n != 1 || path[0] != '.') {
			if (length + 1 + n >= NODE_PATH_MAX)
				return false;
			to[length++] = '/';
			memcpy(to + length, path, n);
			length += n;
			to[length] = '\0';
		}
	}
	return true;
}

const char *path_nearest(const char *path)
{
	return strncmp(path, "/sys/", 5) ? "/dev" : "/sys/class";
}

void path_enter(const char *path)
{
	pthread_mutex_lock(&inside_mutex);
	if (path)
		strcpy(inside_path, path);
	atomic_store(&inside, path != NULL);
	pthread_mutex_unlock(&inside_mutex);
}

bool path_inside(char *path)
{
	bool is;

	if (!atomic_load_explicit(&inside, memory_order_relaxed))
		return false;
	pthread_mutex_lock(&inside_mutex);
	is = atomic_load(&inside);
	if (is)
		strcpy(path, inside_path);
	pthread_mutex_unlock(&inside_mutex);
	return is;
}

/*
 * May @path, relative to a directory of the kernel's, be ours? Then @canonical is that directory. As a shell in
 * /sys/class lists infiniband.
 */
static bool leads_to_us(int dirfd, const char *path, char *canonical)
{
	int before = errno;
	bool leads = dirfd == AT_FDCWD && strstr(path, "infiniband") && REAL(getcwd)(canonical, NODE_PATH_MAX);

	errno = before;
	if (leads && !canonical[1])
		canonical[0] = '\0';		/* "/" */
	return leads;
}

bool path_is_ours(int dirfd, const char **path, char *canonical)
{
	const char *given = *path;
	bool passed = false;

	if (!given || !*given || tree_is_busy())
		return false;
	canonical[0] = '\0';
	if (given[0] != '/') {
		passed = dirfd == AT_FDCWD ? path_inside(canonical) : node_is_directory(dirfd, canonical);
		if (!passed && !leads_to_us(dirfd, given, canonical))
			return false;
	} else if (strncmp(given, "/sys/", 5) && strncmp(given, "/dev/", 5) && given[1] != '/') {
		return false;
	}
	if (!append_components(canonical, given, &passed))
		return false;
	if (has_our_root(canonical))
		return true;
	if (passed)
		*path = canonical[0] ? canonical : "/";
	return false;
}
