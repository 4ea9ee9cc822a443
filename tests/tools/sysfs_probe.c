/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A program that reads /sys/class/infiniband in every way that programs do: run under `verbatim
 * run`, it prints one TAP line for each. Built plain, fortified, and with AddressSanitizer.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROOT "/sys/class/infiniband"

static char device[NAME_MAX + 1];	/* the first that ROOT lists */
static int count, failed;

static void report(bool good, const char *name)
{
	printf("%sok %d - %s\n", good ? "" : "not ", ++count, name);
	if (!good) {
		printf("# errno %d %s\n", errno, strerror(errno));
		failed++;
	}
}

static const char *below(const char *rest)
{
	static char path[PATH_MAX];

	snprintf(path, sizeof(path), ROOT "/%s%s%s", device, *rest ? "/" : "", rest);
	return path;
}

static void test_directories(void)
{
	DIR *directory = opendir(ROOT);
	struct dirent *entry = NULL;
	unsigned names = 0, again = 0;
	bool dots = false, typed = true;
	long place;

	if (directory) {
		while ((entry = readdir(directory))) {
			names++;
			if (entry->d_name[0] == '.') {
				dots = true;
				continue;
			}
			typed &= entry->d_type == DT_DIR;
			strcpy(device, entry->d_name);
		}
		rewinddir(directory);
		place = telldir(directory);
		while (readdir(directory))
			again++;
		seekdir(directory, place);
		entry = readdir(directory);
	}
	report(names > 2 && dots && typed, "opendir and readdir list the devices as directories");
	report(again == names && entry, "rewinddir, telldir and seekdir");
	report(directory && !faccessat(dirfd(directory), device, F_OK, 0) &&
	       faccessat(dirfd(directory), "none", F_OK, 0) && errno == ENOENT,
	       "dirfd is good for faccessat");
	report(directory && !closedir(directory), "closedir");
	errno = 0;
	report(!opendir(ROOT "/none") && errno == ENOENT, "opendir of no device is ENOENT");
	report(!opendir(below("node_guid")) && errno == ENOTDIR, "opendir of a file is ENOTDIR");
}

/* Its own functions stand before ours in a program of clang's AddressSanitizer, and read what null points to. */
#if defined(__clang__) && defined(__has_feature)
#if __has_feature(address_sanitizer)
#define CLANG_ASAN 1
#endif
#endif
#ifndef CLANG_ASAN
#define CLANG_ASAN 0
#endif

/* The headers forbid null pointers, the C library takes them: whoever did not look at what opendir() said. */
static __attribute__((unused)) void test_null_pointers(void)
{
	void *volatile hidden = NULL;
	void *null = hidden;
	struct stat status;
	char text[8];

	errno = 0;
	report(stat(null, &status) == -1 && errno == EFAULT, "stat of no path is EFAULT");
	errno = 0;
	report(open(null, O_RDONLY) == -1 && errno == EFAULT, "open of no path is EFAULT");
	errno = 0;
	report(access(null, R_OK) == -1 && errno == EFAULT, "access to no path is EFAULT");
	errno = 0;
	report(readlink(null, text, sizeof(text)) == -1 && errno == EFAULT, "readlink of no path is EFAULT");
	errno = 0;
	report(closedir(null) == -1 && errno == EINVAL, "closedir of no directory is EINVAL");
}

static int not_hidden(const struct dirent *entry)
{
	return entry->d_name[0] != '.';
}

static void test_scandir(void)
{
	struct dirent **names = NULL;
	int n = scandir(below("ports/1"), &names, not_hidden, alphasort);
	bool sorted = n > 5, state = false;

	for (int i = 0; i < n; i++) {
		sorted &= !i || strcmp(names[i - 1]->d_name, names[i]->d_name) < 0;
		state |= !strcmp(names[i]->d_name, "state");
	}
	for (int i = 0; i < n; i++)
		free(names[i]);
	free(names);
	report(sorted && state, "scandir filters and sorts");
}

static void test_open(void)
{
	char text[128] = "";
	int fd = open(below("ports/1/state"), O_RDONLY), directory;
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	report(n > 0 && strchr("14", text[0]) && text[n - 1] == '\n', "open and read");
	report(fd >= 0 && pread(fd, text, 1, 1) == 1 && text[0] == ':' && !lseek(fd, 0, SEEK_SET),
	       "pread and lseek");
	report(fd >= 0 && write(fd, "x", 1) < 0, "a file cannot be written");
	close(fd);
	report(open(below("node_guid"), O_RDWR) < 0 && errno == EACCES,
	       "open for writing is EACCES");
	report(open(below("none"), O_RDONLY) < 0 && errno == ENOENT, "open of no file is ENOENT");

	directory = open(below("ports"), O_RDONLY | O_DIRECTORY);
	fd = openat(directory, "1/state", O_RDONLY);
	report(directory >= 0 && fd >= 0, "openat relative to a directory");
	close(fd);
	fd = openat(directory, "../node_guid", O_RDONLY);
	report(fd >= 0, "openat upwards");
	close(fd);
	fd = dup(directory);
	close(directory);
	directory = openat(fd, "1", O_RDONLY | O_DIRECTORY);
	report(directory >= 0, "a descriptor keeps its meaning across dup");
	close(fd);
	close(directory);
	report(open(below("node_guid"), O_RDONLY | O_DIRECTORY) < 0 && errno == ENOTDIR,
	       "O_DIRECTORY of a file is ENOTDIR");
}

static void test_streams(void)
{
	FILE *file = fopen(below("node_guid"), "r");
	char line[64] = "";
	unsigned part;

	report(file && fgets(line, sizeof(line), file) &&
	       sscanf(line, "%4x:%4x:%4x:%4x", &part, &part, &part, &part) == 4,
	       "fopen reads the node GUID");
	if (file)
		fclose(file);
	report(!fopen(below("node_guid"), "w") && errno == EACCES, "fopen for writing is EACCES");
}

static void test_status(void)
{
	struct stat status;
	struct statx more;
	int fd;

	report(!stat(ROOT, &status) && S_ISDIR(status.st_mode), "stat of the root");
	report(!lstat(below(""), &status) && S_ISDIR(status.st_mode), "lstat of a device");
	report(!stat(below("ports/1/gids/0"), &status) && S_ISREG(status.st_mode) &&
	       !(status.st_mode & 0222), "stat of a file, which is read-only");
	report(stat(below("ports/2"), &status) && errno == ENOENT, "there is no port 2");
	report(!statx(AT_FDCWD, below("ports"), 0, STATX_BASIC_STATS, &more) &&
	       S_ISDIR(more.stx_mode), "statx");
	fd = open(below("ports"), O_RDONLY | O_DIRECTORY);
	report(!fstat(fd, &status) && S_ISDIR(status.st_mode), "fstat of a directory");
	report(!fstatat(fd, "1/state", &status, 0) && S_ISREG(status.st_mode), "fstatat");
	report(!statx(fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &more) && S_ISDIR(more.stx_mode),
	       "statx of a descriptor");
	close(fd);
	report(!access(below("node_guid"), R_OK), "access to read");
	report(access(below("node_guid"), W_OK) && errno == EACCES, "access to write is EACCES");
}

static bool is_device_of_user(const struct stat *status)
{
	return S_ISCHR(status->st_mode) && status->st_uid == geteuid() && status->st_gid == getegid() &&
	       (status->st_mode & 0600) == 0600;
}

/* A character device, asked in each way that there is. */
static bool all_see_a_device(const char *path, int directory, const char *name)
{
	struct stat a, b, c, d;
	struct statx e;

	return !stat(path, &a) && !lstat(path, &b) && !fstatat(AT_FDCWD, path, &c, 0) &&
	       !fstatat(directory, name, &d, AT_SYMLINK_NOFOLLOW) && is_device_of_user(&a) &&
	       is_device_of_user(&b) && is_device_of_user(&c) && is_device_of_user(&d) &&
	       a.st_rdev == d.st_rdev && a.st_ino == b.st_ino &&
	       !statx(AT_FDCWD, path, 0, STATX_BASIC_STATS, &e) && S_ISCHR(e.stx_mode) &&
	       e.stx_uid == geteuid() && makedev(e.stx_rdev_major, e.stx_rdev_minor) == a.st_rdev &&
	       !access(path, R_OK | W_OK) && !faccessat(directory, name, R_OK | W_OK, AT_EACCESS) &&
	       !eaccess(path, R_OK | W_OK) && access(path, X_OK) && errno == EACCES;
}

static bool device_opens(int fd)
{
	struct stat status;
	bool good = fd >= 0 && !fstat(fd, &status) && is_device_of_user(&status);

	good &= write(fd, "x", 1) < 0 && errno == EPERM;
	good &= ioctl(fd, _IOWR(0x1b, 1, char[24]), &status) < 0 && errno == ENOTTY;
	close(fd);
	return good;
}

/* /dev/infiniband: a program looks whether it may use a device, and may open it, but not use it. */
static void test_character_devices(void)
{
	static const char *const names[] = { "uverbs0", "rdma_cm" };
	int directory = open("/dev/infiniband", O_RDONLY | O_DIRECTORY), fd;
	bool seen = false, connection = false;
	struct dirent *entry;
	struct stat status;
	DIR *listed;

	for (size_t i = 0; i < 2; i++) {
		char path[64];

		snprintf(path, sizeof(path), "/dev/infiniband/%s", names[i]);
		report(all_see_a_device(path, directory, names[i]), path);
		report(device_opens(open(path, O_RDWR | O_CLOEXEC)) &&
		       device_opens(openat(directory, names[i], O_RDWR)), "... which opens");
	}
	fd = open("/dev/infiniband/uverbs0", O_RDWR | O_NONBLOCK | O_CLOEXEC);
	report(fcntl(fd, F_GETFL) & O_NONBLOCK && fcntl(fd, F_GETFD) & FD_CLOEXEC,
	       "... with the flags that were asked for");
	close(fd);
	report(!stat("/dev/infiniband/uverbs0", &status) && status.st_rdev == makedev(231, 192) &&
	       stat("/dev/infiniband/uverbs4711", &status) && errno == ENOENT &&
	       stat("/dev/infiniband/rdma_cm/x", &status) && errno == ENOENT,
	       "numbers are the kernel's, and others are absent");
	listed = opendir("/dev/infiniband");
	while (listed && (entry = readdir(listed))) {
		seen |= !strcmp(entry->d_name, "uverbs0") && entry->d_type == DT_CHR;
		connection |= !strcmp(entry->d_name, "rdma_cm") && entry->d_type == DT_CHR;
	}
	report(seen && connection && !closedir(listed), "readdir of /dev/infiniband");
	close(directory);
}

/* Each GID has a type and an interface, an empty entry of the table neither. */
static void test_gid_attributes(void)
{
	static const char *const names[] = { "types", "ndevs" };
	char rest[64], text[64], gid[64];
	unsigned filled = 0, wrong = 0;
	struct stat status;
	FILE *file;

	for (int i = 0; i < 256; i = i == 7 ? 254 : i + 1) {	/* each look opens the device */
		snprintf(rest, sizeof(rest), "ports/1/gids/%d", i);
		file = fopen(below(rest), "r");
		if (!file || !fgets(gid, sizeof(gid), file))
			break;
		fclose(file);
		bool empty = !strcmp(gid, "0000:0000:0000:0000:0000:0000:0000:0000\n");

		filled += !empty;
		for (int j = 0; j < 2; j++) {
			snprintf(rest, sizeof(rest), "ports/1/gid_attrs/%s/%d", names[j], i);
			file = fopen(below(rest), "r");
			wrong += empty != !file;
			wrong += empty != (stat(below(rest), &status) != 0);
			wrong += file && (!fgets(text, sizeof(text), file) ||
					  (j == 0 && strcmp(text, "RoCE v2\n")));
			if (file)
				fclose(file);
		}
	}
	report(filled > 1 && !wrong, "types and interfaces are those of the GIDs that there are");
	for (int j = 0; j < 2; j++) {
		struct dirent **list = NULL;
		int n;

		snprintf(rest, sizeof(rest), "ports/1/gid_attrs/%s", names[j]);
		n = scandir(below(rest), &list, not_hidden, alphasort);
		report(n == (int)filled, "... and are listed");
		while (n > 0)
			free(list[--n]);
		free(list);
	}
	report(stat(below("ports/1/gids/256"), &status) && errno == ENOENT &&
	       stat(below("ports/1/pkeys/1"), &status) && errno == ENOENT, "tables end");
}

static void test_links(void)
{
	char target[PATH_MAX], *resolved;
	bool absent;

	report(readlink(below(""), target, sizeof(target)) < 0 && errno == EINVAL,
	       "readlink says that it is no link");
	resolved = realpath(ROOT "//./none", NULL);
	absent = !resolved && errno == ENOENT;
	free(resolved);
	report(absent, "realpath of nothing is ENOENT");
	resolved = realpath(below("ports/../ports/./1//"), target);
	report(resolved && !strcmp(resolved, below("ports/1")), "realpath");
}

/* fdopendir(), in a child, of a descriptor that the parent opened. */
static void test_inherited(void)
{
	int fd = open(ROOT, O_RDONLY | O_DIRECTORY), status = 1;
	pid_t child = fork();

	if (child == 0) {
		DIR *directory = fdopendir(fd);
		struct dirent *entry;

		while (directory && (entry = readdir(directory)))
			if (!strcmp(entry->d_name, device))
				_exit(0);
		_exit(1);
	}
	waitpid(child, &status, 0);
	close(fd);
	report(WIFEXITED(status) && !WEXITSTATUS(status), "fdopendir in a child");
}

/* The working directory may be one of ours, and paths may lead out again. */
static void test_working_directory(void)
{
	char before[PATH_MAX], now[PATH_MAX];
	int fd, came_from = open(".", O_RDONLY | O_DIRECTORY);
	struct stat status;
	bool good;

	good = getcwd(before, sizeof(before)) && !chdir(below("ports"));
	report(good && getcwd(now, sizeof(now)) && !strcmp(now, below("ports")),
	       "chdir and getcwd");
	fd = open("1/state", O_RDONLY);
	report(fd >= 0 && !access("../node_guid", R_OK), "relative paths there");
	close(fd);
	report(!stat("../../../net/lo", &status) && S_ISDIR(status.st_mode),
	       "relative paths that lead out");
	report(chdir("none") && errno == ENOENT, "chdir to nothing is ENOENT");
	report(!fchdir(came_from) && getcwd(now, sizeof(now)) && !strcmp(now, before) &&
	       access("1/state", R_OK), "fchdir back");
	close(came_from);
	report(!stat(ROOT "/..", &status) && S_ISDIR(status.st_mode) &&
	       !access(below("../../net/lo/mtu"), R_OK), "paths through ours that lead out");
}

/* What is not ours goes its way. */
static void test_others(void)
{
	struct stat status;
	DIR *directory = opendir("/sys/class");
	FILE *file = fopen("/proc/self/status", "r");
	char *resolved = realpath("/proc/../proc", NULL);

	report(directory && readdir(directory) && !closedir(directory), "other directories");
	report(file && fgetc(file) == 'N', "other files");
	report(!stat("/sys/class/net/lo", &status) && !access("/dev/null", W_OK), "other paths");
	report(resolved && !strcmp(resolved, "/proc"), "other links");
	report(open("/sys/class/infiniband_not_ours", O_RDONLY) < 0 && errno == ENOENT,
	       "a name that begins like ours");
	free(resolved);
	if (file)
		fclose(file);
}

int main(void)
{
	test_directories();
#if !CLANG_ASAN
	test_null_pointers();
#endif
	test_scandir();
	test_open();
	test_streams();
	test_status();
	test_character_devices();
	test_gid_attributes();
	test_links();
	test_inherited();
	test_working_directory();
	test_others();
	return failed != 0;
}
