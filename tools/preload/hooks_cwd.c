/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * chdir(2) into one of our directories, getcwd(3) there: for scripts that go to
 * /sys/class/infiniband and list it. The kernel knows nothing of it: for it we are in /sys/class (or
 * /dev). Programs that are executed from there are told (hooks_exec.c).
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "preload.h"

char *__getcwd_chk(char *buffer, size_t size, size_t room);

static int enter(const char *path)
{
	enum node_kind kind = tree_kind(path);

	if (kind != NODE_DIRECTORY) {
		errno = kind == NODE_ABSENT ? ENOENT : ENOTDIR;
		return -1;
	}
	if (REAL(chdir)(path_nearest(path)))
		return -1;
	path_enter(path);
	return 0;
}

static int left(int result)
{
	if (!result)
		path_enter(NULL);
	return result;
}

int chdir(const char *path)
{
	char ours[NODE_PATH_MAX];

	return path_is_ours(AT_FDCWD, &path, ours) ? enter(ours) : left(REAL(chdir)(path));
}

int fchdir(int fd)
{
	char ours[NODE_PATH_MAX];

	if (!tree_is_busy() && node_is_directory(fd, ours))
		return enter(ours);
	return left(REAL(fchdir)(fd));
}

/* As glibc: without a buffer one is allocated, of @size if that is not 0. */
static char *tell(const char *path, char *buffer, size_t size)
{
	size_t length = strlen(path) + 1;

	if (buffer ? size < length : size && size < length) {
		errno = buffer && !size ? EINVAL : ERANGE;
		return NULL;
	}
	if (!buffer)
		buffer = malloc(size ? size : length);
	return buffer ? memcpy(buffer, path, length) : NULL;
}

char *getcwd(char *buffer, size_t size)
{
	char ours[NODE_PATH_MAX];

	return path_inside(ours) ? tell(ours, buffer, size) : REAL(getcwd)(buffer, size);
}

char *__getcwd_chk(char *buffer, size_t size, size_t room)
{
	char ours[NODE_PATH_MAX];

	return path_inside(ours) ? tell(ours, buffer, size)
				 : REAL(__getcwd_chk)(buffer, size, room);
}

char *get_current_dir_name(void)
{
	char ours[NODE_PATH_MAX];

	return path_inside(ours) ? strdup(ours) : REAL(get_current_dir_name)();
}
