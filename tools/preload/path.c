/* SPDX-License-Identifier: BSD-2-Clause */
/* Which paths are ours. Called for every path that the program opens: the first test is short. */
#include <fcntl.h>
#include <string.h>

#include "preload.h"

static const char *const roots[] = {
	"/sys/class/infiniband", "/sys/class/infiniband_verbs", "/dev/infiniband",
};

/* Append the components of @path to the canonical path @to; false: too long to be ours. */
static bool append_components(char *to, const char *path)
{
	size_t length = strlen(to), n;

	for (; *path; path += n) {
		n = strcspn(path, "/");
		if (n == 0) {
			n = 1;
		} else if (n == 2 && path[0] == '.' && path[1] == '.') {
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

bool path_is_ours(int dirfd, const char *path, char *canonical)
{
	if (!path || !*path || tree_is_busy())
		return false;
	canonical[0] = '\0';
	if (path[0] != '/') {
		/* Relative to the working directory, which cannot be one of ours. */
		if (dirfd == AT_FDCWD || !node_is_directory(dirfd, canonical))
			return false;
	} else if (strncmp(path, "/sys/", 5) && strncmp(path, "/dev/", 5) && path[1] != '/') {
		return false;
	}
	return append_components(canonical, path) && has_our_root(canonical);
}
