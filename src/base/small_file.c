/* SPDX-License-Identifier: BSD-2-Clause */
/* Small files that a user names (base/small_file.h). */
#include "base/small_file.h"
#include "base/call.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define TOO_LONG "it is larger than 1 MiB"

static const char *small_file_refuses(const struct stat *status)
{
	if (S_ISREG(status->st_mode))
		return status->st_size > SMALL_FILE_MAX ? TOO_LONG : NULL;
	if (S_ISCHR(status->st_mode) && status->st_rdev == makedev(1, 3))	/* /dev/null */
		return NULL;
	return S_ISDIR(status->st_mode) ? "it is a directory" :
	       S_ISFIFO(status->st_mode) ? "it is a pipe, not a regular file" :
	       S_ISSOCK(status->st_mode) ? "it is a socket, not a regular file" :
					   "it is a device, not a regular file";
}

int small_file_open(const char *path, const char **why)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat status;

	*why = fd < 0 || fstat(fd, &status) ? strerror(errno) : small_file_refuses(&status);
	if (fd < 0 || !*why)
		return fd;
	close(fd);
	errno = EINVAL;
	return -1;
}

/* Bytes of @fd, at most @room; -1: errno. */
static ssize_t small_file_read(int fd, char *text, size_t room)
{
	size_t used = 0;
	ssize_t got;

	call_shield();
	while (used < room && (got = read(fd, text + used, room - used)) != 0) {
		if (got < 0 && errno != EINTR)
			return -1;
		used += got > 0 ? (size_t)got : 0;
	}
	return (ssize_t)used;
}

FILE *small_file_stream(int fd, const char **why)
{
	char *text = malloc(SMALL_FILE_MAX + 1);
	ssize_t bytes = text ? small_file_read(fd, text, SMALL_FILE_MAX + 1) : -1;
	FILE *stream = NULL;

	*why = NULL;
	if (bytes > (ssize_t)SMALL_FILE_MAX)
		errno = EINVAL;
	else if (bytes >= 0)
		stream = fmemopen(NULL, (size_t)bytes + 1, "w+");
	if (stream && fwrite(text, 1, (size_t)bytes, stream) == (size_t)bytes)
		rewind(stream);
	if (!stream)
		*why = bytes > (ssize_t)SMALL_FILE_MAX ? TOO_LONG : strerror(errno);
	close(fd);
	free(text);
	return stream;
}
