/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Descriptors for what is not there: a memfd, named "verbatim:" and the path. Files hold their
 * text, sealed; directories are empty, and so are character devices: nothing in the kernel is behind
 * them, so what is written to one is refused (EPERM), and no ioctl() is known (ENOTTY).
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "preload.h"

#define SEALS		(F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL)
#define NAME_PREFIX	"verbatim:"
#define LINK_PREFIX	"/memfd:" NAME_PREFIX
#define LINK_SUFFIX	" (deleted)"

unsigned long node_number(const char *path)
{
	unsigned long number = 1469598103934665603u;	/* FNV-1a */

	for (; *path; path++)
		number = (number ^ (unsigned char)*path) * 1099511628211u;
	return number;
}

static int write_whole(int fd, const char *text, size_t length)
{
	ssize_t n;

	for (; length; text += n, length -= (size_t)n) {
		n = write(fd, text, length);
		if (n < 0)
			return errno;
	}
	return lseek(fd, 0, SEEK_SET) < 0 ? errno : 0;
}

static int make_memfd(const char *path, const char *text, size_t length, int flags)
{
	char name[sizeof(NAME_PREFIX) + NODE_PATH_MAX];
	int fd, err;

	snprintf(name, sizeof(name), NAME_PREFIX "%s", path);
	fd = memfd_create(name, MFD_ALLOW_SEALING | (flags & O_CLOEXEC ? MFD_CLOEXEC : 0));
	if (fd < 0)
		return -1;
	err = write_whole(fd, text, length);
	if (!err && fcntl(fd, F_ADD_SEALS, SEALS))
		err = errno;
	if (!err)
		return fd;
	close(fd);
	errno = err;
	return -1;
}

static int open_device(const char *path, int flags)
{
	int fd;

	if (flags & O_DIRECTORY || (flags & O_CREAT && flags & O_EXCL)) {
		errno = flags & O_DIRECTORY ? ENOTDIR : EEXIST;
		return -1;
	}
	fd = make_memfd(path, "", 0, flags);
	if (fd >= 0 && flags & O_NONBLOCK)
		fcntl(fd, F_SETFL, O_NONBLOCK);
	return fd;
}

int node_open(const char *path, int flags)
{
	char text[NODE_TEXT_MAX];
	long length;

	switch (tree_kind(path)) {
	case NODE_DIRECTORY:
		if ((flags & O_ACCMODE) != O_RDONLY || flags & O_CREAT)
			break;
		return make_memfd(path, "", 0, flags);
	case NODE_FILE:
		if (flags & O_DIRECTORY) {
			errno = ENOTDIR;
			return -1;
		}
		if ((flags & O_ACCMODE) != O_RDONLY && !(flags & O_PATH)) {
			errno = EACCES;
			return -1;
		}
		length = tree_read(path, text, sizeof(text));
		if (length < 0) {	/* an entry of a table that is empty */
			errno = ENOENT;
			return -1;
		}
		return make_memfd(path, text, (size_t)length, flags);
	case NODE_DEVICE:
		return open_device(path, flags);
	case NODE_ABSENT:
		errno = flags & O_CREAT ? EACCES : ENOENT;
		return -1;
	}
	errno = EISDIR;
	return -1;
}

/*
 * A memfd is a regular file that no directory names; the link in /proc tells which. Asked for
 * descriptors that a program uses as directories, and for those it calls fstat() on.
 */
bool node_path(int fd, char *path)
{
	char link[64], name[sizeof(LINK_PREFIX) + NODE_PATH_MAX + sizeof(LINK_SUFFIX)];
	int before = errno;
	ssize_t length;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	length = REAL(readlink)(link, name, sizeof(name) - 1);
	errno = before;
	if (length < (ssize_t)(strlen(LINK_PREFIX) + strlen(LINK_SUFFIX)) ||
	    strncmp(name, LINK_PREFIX, strlen(LINK_PREFIX)))
		return false;
	name[(size_t)length - strlen(LINK_SUFFIX)] = '\0';
	if (strlen(name + strlen(LINK_PREFIX)) >= NODE_PATH_MAX)
		return false;
	strcpy(path, name + strlen(LINK_PREFIX));
	return true;
}

bool node_is_directory(int fd, char *path)
{
	struct stat status;
	int before = errno;
	bool empty = !REAL(fstat)(fd, &status) && S_ISREG(status.st_mode) &&
		     status.st_nlink == 0 && status.st_size == 0;

	errno = before;
	return empty && node_path(fd, path) && tree_kind(path) == NODE_DIRECTORY;
}
