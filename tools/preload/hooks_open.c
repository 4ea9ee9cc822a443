/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * open(2) and its family, fopen(3). The names that end in 64 are the same calls on this
 * machine's ABI; those that begin with __ are what fortified programs call.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "preload.h"

int __open_2(const char *path, int flags);
int __open64_2(const char *path, int flags);
int __openat_2(int dirfd, const char *path, int flags);
int __openat64_2(int dirfd, const char *path, int flags);

/* The third argument is there only when the flags say so. */
#define MODE_ARGUMENT(mode, flags)                                      \
	do {                                                            \
		va_list arguments;                                      \
		va_start(arguments, flags);                             \
		if ((flags) & (O_CREAT | (O_TMPFILE & ~O_DIRECTORY)))   \
			(mode) = va_arg(arguments, mode_t);             \
		va_end(arguments);                                      \
	} while (0)

int open(const char *path, int flags, ...)
{
	char ours[NODE_PATH_MAX];
	mode_t mode = 0;

	MODE_ARGUMENT(mode, flags);
	if (path_is_ours(AT_FDCWD, &path, ours))
		return node_open(ours, flags);
	return REAL(open)(path, flags, mode);
}

int open64(const char *path, int flags, ...)
{
	char ours[NODE_PATH_MAX];
	mode_t mode = 0;

	MODE_ARGUMENT(mode, flags);
	if (path_is_ours(AT_FDCWD, &path, ours))
		return node_open(ours, flags);
	return REAL(open64)(path, flags, mode);
}

int openat(int dirfd, const char *path, int flags, ...)
{
	char ours[NODE_PATH_MAX];
	mode_t mode = 0;

	MODE_ARGUMENT(mode, flags);
	if (path_is_ours(dirfd, &path, ours))
		return node_open(ours, flags);
	return REAL(openat)(dirfd, path, flags, mode);
}

int openat64(int dirfd, const char *path, int flags, ...)
{
	char ours[NODE_PATH_MAX];
	mode_t mode = 0;

	MODE_ARGUMENT(mode, flags);
	if (path_is_ours(dirfd, &path, ours))
		return node_open(ours, flags);
	return REAL(openat64)(dirfd, path, flags, mode);
}

int __open_2(const char *path, int flags)
{
	char ours[NODE_PATH_MAX];

	if (path_is_ours(AT_FDCWD, &path, ours))
		return node_open(ours, flags);
	return REAL(__open_2)(path, flags);
}

int __open64_2(const char *path, int flags)
{
	char ours[NODE_PATH_MAX];

	if (path_is_ours(AT_FDCWD, &path, ours))
		return node_open(ours, flags);
	return REAL(__open64_2)(path, flags);
}

int __openat_2(int dirfd, const char *path, int flags)
{
	char ours[NODE_PATH_MAX];

	if (path_is_ours(dirfd, &path, ours))
		return node_open(ours, flags);
	return REAL(__openat_2)(dirfd, path, flags);
}

int __openat64_2(int dirfd, const char *path, int flags)
{
	char ours[NODE_PATH_MAX];

	if (path_is_ours(dirfd, &path, ours))
		return node_open(ours, flags);
	return REAL(__openat64_2)(dirfd, path, flags);
}

static FILE *open_stream(const char *path, const char *mode)
{
	int flags = strchr(mode, 'e') ? O_CLOEXEC : 0, fd, err;
	FILE *file;

	if (mode[0] != 'r' || strchr(mode, '+'))
		flags |= O_RDWR;
	fd = node_open(path, flags);
	if (fd < 0)
		return NULL;
	file = fdopen(fd, "r");
	if (file)
		return file;
	err = errno;
	close(fd);
	errno = err;
	return NULL;
}

FILE *fopen(const char *path, const char *mode)
{
	char ours[NODE_PATH_MAX];

	if (path_is_ours(AT_FDCWD, &path, ours))
		return open_stream(ours, mode);
	return REAL(fopen)(path, mode);
}

FILE *fopen64(const char *path, const char *mode)
{
	char ours[NODE_PATH_MAX];

	if (path_is_ours(AT_FDCWD, &path, ours))
		return open_stream(ours, mode);
	return REAL(fopen64)(path, mode);
}
