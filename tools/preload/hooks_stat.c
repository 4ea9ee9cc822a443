/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * stat(2) and its family, access(2), getxattr(2), listxattr(2), readlink(2), realpath(3). struct stat
 * and struct stat64 are one on a 64-bit machine; the __xstat names are what programs built before
 * glibc 2.33 call.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "preload.h"

_Static_assert(sizeof(struct stat) == sizeof(struct stat64), "both are filled by one function");

/* The kernel's numbers: uverbsN has minor 192 + N; rdma_cm one of the miscellaneous devices'. */
enum { UVERBS_MAJOR = 231, UVERBS_MINOR = 192, MISC_MAJOR = 10, RDMA_CM_MINOR = 58 };

int __xstat(int version, const char *path, struct stat *status);
int __xstat64(int version, const char *path, struct stat64 *status);
int __lxstat(int version, const char *path, struct stat *status);
int __lxstat64(int version, const char *path, struct stat64 *status);
int __fxstat(int version, int fd, struct stat *status);
int __fxstat64(int version, int fd, struct stat64 *status);
int __fxstatat(int version, int dirfd, const char *path, struct stat *status, int flags);
int __fxstatat64(int version, int dirfd, const char *path, struct stat64 *status, int flags);
ssize_t __readlink_chk(const char *path, char *target, size_t size, size_t room);
char *__realpath_chk(const char *path, char *resolved, size_t room);

static mode_t kind_mode(enum node_kind kind)
{
	if (kind == NODE_DIRECTORY)
		return S_IFDIR | 0755;
	return kind == NODE_DEVICE ? S_IFCHR | 0666 : S_IFREG | 0444;
}

static dev_t device_number(const char *path)
{
	unsigned n;

	if (sscanf(path, "/dev/infiniband/uverbs%u", &n) == 1)
		return makedev(UVERBS_MAJOR, UVERBS_MINOR + n);
	return makedev(MISC_MAJOR, RDMA_CM_MINOR);
}

static int fill(const char *path, struct stat *status)
{
	enum node_kind kind = tree_kind(path);

	if (kind == NODE_ABSENT) {
		errno = ENOENT;
		return -1;
	}
	memset(status, 0, sizeof(*status));
	status->st_mode = kind_mode(kind);
	status->st_ino = node_number(path);
	status->st_nlink = kind == NODE_DIRECTORY ? 2 : 1;
	status->st_blksize = 4096;
	if (kind == NODE_FILE) {
		status->st_size = 4096;		/* as sysfs says, whatever a file holds */
		status->st_blocks = 8;		/* with 0, as of sysfs, cp(1) asks the memfd for holes */
	}
	if (kind == NODE_DEVICE) {
		status->st_rdev = device_number(path);
		status->st_uid = geteuid();
		status->st_gid = getegid();
	}
	return 0;
}

/* A descriptor that stands for a directory has to say so. */
static int correct(int fd, struct stat *status)
{
	char ours[NODE_PATH_MAX];

	if (S_ISREG(status->st_mode) && status->st_nlink == 0 && !tree_is_busy() &&
	    node_path(fd, ours))
		return fill(ours, status);
	return 0;
}

int stat(const char *path, struct stat *status)
{
	char ours[NODE_PATH_MAX];

	return path_is_ours(AT_FDCWD, &path, ours) ? fill(ours, status) : REAL(stat)(path, status);
}

int stat64(const char *path, struct stat64 *status)
{
	return stat(path, (struct stat *)status);
}

int lstat(const char *path, struct stat *status)
{
	char ours[NODE_PATH_MAX];

	return path_is_ours(AT_FDCWD, &path, ours) ? fill(ours, status) : REAL(lstat)(path, status);
}

int lstat64(const char *path, struct stat64 *status)
{
	return lstat(path, (struct stat *)status);
}

int fstat(int fd, struct stat *status)
{
	int result = REAL(fstat)(fd, status);

	return result ? result : correct(fd, status);
}

int fstat64(int fd, struct stat64 *status)
{
	return fstat(fd, (struct stat *)status);
}

int fstatat(int dirfd, const char *path, struct stat *status, int flags)
{
	char ours[NODE_PATH_MAX];

	if (path_is_ours(dirfd, &path, ours))
		return fill(ours, status);
	if (REAL(fstatat)(dirfd, path, status, flags))
		return -1;
	return flags & AT_EMPTY_PATH && !*path ? correct(dirfd, status) : 0;
}

int fstatat64(int dirfd, const char *path, struct stat64 *status, int flags)
{
	return fstatat(dirfd, path, (struct stat *)status, flags);
}

int __xstat(int version, const char *path, struct stat *status)
{
	return stat(path, status);
}

int __xstat64(int version, const char *path, struct stat64 *status)
{
	return stat(path, (struct stat *)status);
}

int __lxstat(int version, const char *path, struct stat *status)
{
	return lstat(path, status);
}

int __lxstat64(int version, const char *path, struct stat64 *status)
{
	return lstat(path, (struct stat *)status);
}

int __fxstat(int version, int fd, struct stat *status)
{
	return fstat(fd, status);
}

int __fxstat64(int version, int fd, struct stat64 *status)
{
	return fstat(fd, (struct stat *)status);
}

int __fxstatat(int version, int dirfd, const char *path, struct stat *status, int flags)
{
	return fstatat(dirfd, path, status, flags);
}

int __fxstatat64(int version, int dirfd, const char *path, struct stat64 *status, int flags)
{
	return fstatat(dirfd, path, (struct stat *)status, flags);
}

static int fill_statx(const char *path, struct statx *status)
{
	struct stat plain;

	if (fill(path, &plain))
		return -1;
	memset(status, 0, sizeof(*status));
	status->stx_mask = STATX_BASIC_STATS;
	status->stx_mode = (__u16)plain.st_mode;
	status->stx_ino = plain.st_ino;
	status->stx_nlink = (__u32)plain.st_nlink;
	status->stx_blocks = (__u64)plain.st_blocks;
	status->stx_size = (__u64)plain.st_size;
	status->stx_blksize = (__u32)plain.st_blksize;
	status->stx_rdev_major = major(plain.st_rdev);
	status->stx_rdev_minor = minor(plain.st_rdev);
	status->stx_uid = plain.st_uid;
	status->stx_gid = plain.st_gid;
	return 0;
}

int statx(int dirfd, const char *path, int flags, unsigned mask, struct statx *status)
{
	char ours[NODE_PATH_MAX];

	if (path_is_ours(dirfd, &path, ours))
		return fill_statx(ours, status);
	if (REAL(statx)(dirfd, path, flags, mask, status))
		return -1;
	if (flags & AT_EMPTY_PATH && !*path && S_ISREG(status->stx_mode) &&
	    status->stx_nlink == 0 && !tree_is_busy() && node_path(dirfd, ours))
		return fill_statx(ours, status);
	return 0;
}

/* Devices may be read and written, files only read; directories only searched. */
static int allow(const char *path, int mode)
{
	enum node_kind kind = tree_kind(path);
	int refused = kind == NODE_DIRECTORY ? W_OK : kind == NODE_FILE ? W_OK | X_OK : X_OK;

	if (kind != NODE_ABSENT && !(mode & refused))
		return 0;
	errno = kind == NODE_ABSENT ? ENOENT : EACCES;
	return -1;
}

int access(const char *path, int mode)
{
	char ours[NODE_PATH_MAX];

	return path_is_ours(AT_FDCWD, &path, ours) ? allow(ours, mode) : REAL(access)(path, mode);
}

int eaccess(const char *path, int mode)
{
	char ours[NODE_PATH_MAX];

	return path_is_ours(AT_FDCWD, &path, ours) ? allow(ours, mode) : REAL(eaccess)(path, mode);
}

int euidaccess(const char *path, int mode)
{
	return eaccess(path, mode);
}

int faccessat(int dirfd, const char *path, int mode, int flags)
{
	char ours[NODE_PATH_MAX];

	if (path_is_ours(dirfd, &path, ours))
		return allow(ours, mode);
	return REAL(faccessat)(dirfd, path, mode, flags);
}

/* None of ours is a link. */
static ssize_t not_a_link(const char *path)
{
	errno = tree_kind(path) == NODE_ABSENT ? ENOENT : EINVAL;
	return -1;
}

ssize_t readlink(const char *path, char *target, size_t size)
{
	char ours[NODE_PATH_MAX];

	if (path_is_ours(AT_FDCWD, &path, ours))
		return not_a_link(ours);
	return REAL(readlink)(path, target, size);
}

ssize_t __readlink_chk(const char *path, char *target, size_t size, size_t room)
{
	char ours[NODE_PATH_MAX];

	if (path_is_ours(AT_FDCWD, &path, ours))
		return not_a_link(ours);
	return REAL(__readlink_chk)(path, target, size, room);
}

ssize_t readlinkat(int dirfd, const char *path, char *target, size_t size)
{
	char ours[NODE_PATH_MAX];

	if (path_is_ours(dirfd, &path, ours))
		return not_a_link(ours);
	return REAL(readlinkat)(dirfd, path, target, size);
}

static char *resolve(const char *path, char *resolved)
{
	if (tree_kind(path) == NODE_ABSENT) {
		errno = ENOENT;
		return NULL;
	}
	return resolved ? strcpy(resolved, path) : strdup(path);
}

char *realpath(const char *path, char *resolved)
{
	char ours[NODE_PATH_MAX];

	if (path_is_ours(AT_FDCWD, &path, ours))
		return resolve(ours, resolved);
	return REAL(realpath)(path, resolved);
}

char *__realpath_chk(const char *path, char *resolved, size_t room)
{
	char ours[NODE_PATH_MAX];

	if (path_is_ours(AT_FDCWD, &path, ours))
		return resolve(ours, resolved);
	return REAL(__realpath_chk)(path, resolved, room);
}

char *canonicalize_file_name(const char *path)
{
	return realpath(path, NULL);
}

/* ls -l asks for access control lists, by name or for a list of all: there are none. */
static ssize_t no_attributes(const char *path)
{
	errno = tree_kind(path) == NODE_ABSENT ? ENOENT : EOPNOTSUPP;
	return -1;
}

ssize_t getxattr(const char *path, const char *name, void *value, size_t size)
{
	char ours[NODE_PATH_MAX];

	if (path_is_ours(AT_FDCWD, &path, ours))
		return no_attributes(ours);
	return REAL(getxattr)(path, name, value, size);
}

ssize_t lgetxattr(const char *path, const char *name, void *value, size_t size)
{
	char ours[NODE_PATH_MAX];

	if (path_is_ours(AT_FDCWD, &path, ours))
		return no_attributes(ours);
	return REAL(lgetxattr)(path, name, value, size);
}

ssize_t listxattr(const char *path, char *list, size_t size)
{
	char ours[NODE_PATH_MAX];

	return path_is_ours(AT_FDCWD, &path, ours) ? no_attributes(ours) : REAL(listxattr)(path, list, size);
}

ssize_t llistxattr(const char *path, char *list, size_t size)
{
	char ours[NODE_PATH_MAX];

	return path_is_ours(AT_FDCWD, &path, ours) ? no_attributes(ours) : REAL(llistxattr)(path, list, size);
}
