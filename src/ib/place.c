/* SPDX-License-Identifier: BSD-2-Clause */
/* Where the run directories of fabrics are, and whether they may be believed: place.h. */
#include "ib/place.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAME_CHARACTERS_MAX	64
#define ROOM_FOR_NAME		(NAME_CHARACTERS_MAX + 16)

static int __attribute__((format(printf, 3, 4)))
place_refuse(char why[PLACE_WHY_MAX], int err, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(why, PLACE_WHY_MAX, format, arguments);
	va_end(arguments);
	return err;
}

bool place_name_is_right(const char *name)
{
	size_t length =
		strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-");

	return length && length <= NAME_CHARACTERS_MAX && !name[length] && strcmp(name, ".") &&
	       strcmp(name, "..");
}

/* An absolute path that leaves room for a name below it; relative ones are to be ignored. */
static const char *place_variable(const char *variable)
{
	const char *path = secure_getenv(variable);

	return path && path[0] == '/' && strlen(path) < 80 ? path : NULL;
}

/* Above all of them; @parent: what has to be there already. */
static void place_root(char root[PATH_MAX], char parent[PATH_MAX])
{
	const char *runtime = place_variable("XDG_RUNTIME_DIR"),
		   *temporary = place_variable("TMPDIR");
	struct stat status;

	if (runtime && !stat(runtime, &status) && S_ISDIR(status.st_mode) &&
	    status.st_uid == geteuid()) {
		snprintf(parent, PATH_MAX, "%s", runtime);
		snprintf(root, PATH_MAX, "%s/verbatim", runtime);
		return;
	}
	snprintf(parent, PATH_MAX, "%s", temporary ? temporary : "/tmp");
	snprintf(root, PATH_MAX, "%s/verbatim-%u", parent, (unsigned)geteuid());
}

/*
 * 0: it is a directory of ours, or of root, into which nobody else writes. @named: who has set
 * VERBATIM_FABRIC to this very path means its owner.
 */
static int place_check(const char *path, bool named, char why[PLACE_WHY_MAX])
{
	struct stat status;

	if (lstat(path, &status))
		return place_refuse(why, errno, "%s: %s", path, strerror(errno));
	if (S_ISLNK(status.st_mode))
		return place_refuse(why, EACCES,
				    "%s is a symbolic link, which may lead anywhere: remove it",
				    path);
	if (!S_ISDIR(status.st_mode))
		return place_refuse(why, EACCES, "%s is no directory: remove it", path);
	if (!named && status.st_uid != geteuid() && status.st_uid != 0)
		return place_refuse(why, EACCES,
				    "%s belongs to user %u, who could pretend to be the fabric: "
				    "set TMPDIR or XDG_RUNTIME_DIR to a directory of yours",
				    path, (unsigned)status.st_uid);
	if (status.st_mode & (S_IWGRP | S_IWOTH))
		return place_refuse(why, EACCES,
				    "others may write to %s, and pretend to be the fabric: chmod go-w",
				    path);
	return 0;
}

static int place_make_one(const char *path, char why[PLACE_WHY_MAX])
{
	if (mkdir(path, 0700) && errno != EEXIST)
		return place_refuse(why, errno, "cannot make the directory %s: %s", path,
				    strerror(errno));
	return place_check(path, false, why);
}

static int place_path(const char *fabric, char root[PATH_MAX], char path[PATH_MAX],
		      char why[PLACE_WHY_MAX])
{
	char parent[PATH_MAX];

	root[0] = '\0';
	if (strchr(fabric, '/')) {
		/* The address of a socket has 108 bytes. */
		if (strlen(fabric) >= ROOM_FOR_NAME)
			return place_refuse(
				why, EINVAL,
				"the path '%.80s...' is too long for a socket: expected at "
				"most %d characters",
				fabric, ROOM_FOR_NAME - 1);
		strcpy(path, fabric);
		return 0;
	}
	if (!place_name_is_right(fabric))
		return place_refuse(
			why, EINVAL,
			"'%.80s' is no name of a fabric: expected letters, digits, '.', "
			"'_' and '-', at most %d, or the path of its directory",
			fabric, NAME_CHARACTERS_MAX);
	place_root(root, parent);
	if (snprintf(path, PATH_MAX, "%s/%s", root, fabric) >= 100)
		return place_refuse(why, EINVAL,
				    "%s is too long for a socket: choose a shorter name", path);
	return 0;
}

int place_find(const char *fabric, char path[PATH_MAX], char why[PLACE_WHY_MAX])
{
	char root[PATH_MAX], names[256];
	int err = place_path(fabric, root, path, why);

	if (!err && *root && access(root, F_OK))
		return place_refuse(why, ENOENT,
				    "no fabric runs: verbatim fabric FILE --name %s starts it",
				    fabric);
	if (!err && *root)
		err = place_check(root, false, why);
	if (err || !access(path, F_OK))
		return err ? err : place_check(path, !*root, why);
	place_list(names, sizeof(names));
	return place_refuse(why, ENOENT,
			    "no fabric '%s' runs%s%s: verbatim fabric FILE --name %s starts it",
			    fabric, *names ? "; there are: " : "", names, *root ? fabric : "NAME");
}

int place_make(const char *fabric, unsigned mode, char path[PATH_MAX], char why[PLACE_WHY_MAX])
{
	char root[PATH_MAX];
	int err = place_path(fabric, root, path, why);

	if (!err && *root && mode != PLACE_MODE)
		return place_refuse(why, EINVAL,
				    "--mode: others find a fabric by its directory: choose one, "
				    "--name /run/%s, and tell them VERBATIM_FABRIC=/run/%s",
				    fabric, fabric);
	if (!err && *root)
		err = place_make_one(root, why);
	if (!err)
		err = place_make_one(path, why);
	if (!err && mode != PLACE_MODE && chmod(path, mode))
		err = place_refuse(why, errno, "%s: %s", path, strerror(errno));
	return err;
}

void place_list(char *names, size_t size)
{
	char root[PATH_MAX], parent[PATH_MAX], why[PLACE_WHY_MAX], path[PATH_MAX + 300];
	struct dirent *entry;
	size_t used = 0;
	DIR *directory;

	names[0] = '\0';
	place_root(root, parent);
	directory = place_check(root, false, why) ? NULL : opendir(root);
	while (directory && (entry = readdir(directory))) {
		snprintf(path, sizeof(path), "%s/%s/ctl", root, entry->d_name);
		if (!place_name_is_right(entry->d_name) || access(path, F_OK))
			continue;
		if (used + strlen(entry->d_name) + 3 > size)
			break;
		used += (size_t)snprintf(names + used, size - used, "%s%s", used ? ", " : "",
					 entry->d_name);
	}
	if (directory)
		closedir(directory);
}
