/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The setting "devices" in the user's file of settings (link_command.h). A new file is written beside it and takes
 * its name: programs that read it meanwhile see the old one or the new one. A symbolic link stays one.
 */
#include "link_command.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define LINE_MAX_BYTES 4096

static int failed(const char *what, const char *path)
{
	fprintf(stderr, "verbatim link: cannot %s %s: %s\n", what, path, strerror(errno));
	return -1;
}

static void directory_of(const char *path, char directory[PATH_MAX])
{
	char copy[PATH_MAX];

	snprintf(copy, sizeof(copy), "%s", path);
	snprintf(directory, PATH_MAX, "%s", dirname(copy));
}

/* As mkdir -p, for the user alone, as the XDG specification wants it. */
static int make_directory(const char *path)
{
	char part[PATH_MAX];

	for (const char *end = path; end; ) {
		end = strchr(end + 1, '/');
		snprintf(part, sizeof(part), "%.*s", end ? (int)(end - path) : (int)strlen(path), path);
		if (mkdir(part, 0700) && errno != EEXIST)
			return failed("make the directory", part);
	}
	return 0;
}

static int lock_directory(struct link_file *file)
{
	char directory[PATH_MAX];

	directory_of(file->which.path, directory);
	if (file->which.by_default && make_directory(directory))
		return -1;
	file->lock = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (file->lock < 0)
		return failed("open the directory", directory);
	if (flock(file->lock, LOCK_EX)) {
		close(file->lock);
		return failed("lock", directory);
	}
	return 0;
}

/* Where a symbolic link leads to. */
static void resolve(struct config_file *which)
{
	char real[PATH_MAX];

	if (realpath(which->path, real))
		strcpy(which->path, real);
}

/* Or will be one. VERBATIM_CONFIG=/dev/null: root would have a file in its place. */
static bool is_file(const char *path)
{
	struct stat status;

	return stat(path, &status) || S_ISREG(status.st_mode);
}

int link_file_open(struct link_file *file)
{
	if (!config_file_find(&file->which)) {
		fprintf(stderr, "verbatim link: no file for settings: neither HOME nor XDG_CONFIG_HOME is an "
			"absolute path, or VERBATIM_CONFIG is empty; export VERBATIM_CONFIG=FILE\n");
		return -1;
	}
	resolve(&file->which);
	if (!is_file(file->which.path)) {
		fprintf(stderr, "verbatim link: %s is no file: settings are not written there; export "
			"VERBATIM_CONFIG=FILE\n", file->which.path);
		return -1;
	}
	if (lock_directory(file))
		return -1;
	file->which.by_default |= access(file->which.path, F_OK) != 0;	/* it is made */
	if (!config_load_file(&file->config, &file->which))
		return 0;
	fprintf(stderr, "verbatim link: %s is not changed: mend it first\n", file->which.path);
	link_file_close(file);
	return -1;
}

void link_file_close(struct link_file *file)
{
	close(file->lock);
}

static bool is_devices(const char *line, struct config_line *parts)
{
	static const char key[] = "devices";

	return config_line_parse(line, parts) && parts->has_value &&
	       parts->key_end - parts->key == strlen(key) && !strncmp(line + parts->key, key, strlen(key));
}

/* The line that counts is the last one; the file is read twice, the first time for that. */
static unsigned find_line(FILE *old)
{
	char line[LINE_MAX_BYTES];
	struct config_line parts;
	unsigned found = 0;

	for (unsigned number = 1; fgets(line, sizeof(line), old); number++)
		if (is_devices(line, &parts))
			found = number;
	rewind(old);
	return found;
}

static void copy_lines(FILE *old, FILE *new, const char *devices)
{
	unsigned at = old ? find_line(old) : 0;
	char line[LINE_MAX_BYTES] = "\n";
	struct config_line parts;

	for (unsigned number = 1; old && fgets(line, sizeof(line), old); number++)
		if (number == at && is_devices(line, &parts))
			fprintf(new, "%.*s%s%s", (int)parts.value, line, devices, line + parts.value_end);
		else
			fputs(line, new);
	if (!at)
		fprintf(new, "%sdevices = %s\n", line[strlen(line) - 1] == '\n' ? "" : "\n", devices);
}

/* What was not written shows at the end at the latest, as on a full disk. */
static bool finish(FILE *new)
{
	bool good = !fflush(new) && !ferror(new) && !fsync(fileno(new));

	return !fclose(new) && good;
}

static FILE *create_beside(const char *path, const struct stat *old, char made[PATH_MAX + 16])
{
	FILE *new = NULL;
	int fd;

	snprintf(made, PATH_MAX + 16, "%s.XXXXXX", path);
	fd = mkostemp(made, O_CLOEXEC);
	if (fd < 0)
		return NULL;
	if (!fchmod(fd, old->st_mode & 07777) &&
	    (old->st_uid == geteuid() || !fchown(fd, old->st_uid, old->st_gid)))
		new = fdopen(fd, "w");
	if (!new) {
		close(fd);
		unlink(made);
	}
	return new;
}

int link_file_write(struct link_file *file, const char *devices)
{
	const char *path = file->which.path;
	struct stat status = { .st_mode = 0644, .st_uid = geteuid() };
	FILE *old = fopen(path, "re"), *new;
	char made[PATH_MAX + 16];

	if (!old && errno != ENOENT)
		return failed("read", path);
	if (old && fstat(fileno(old), &status))
		status.st_mode = 0600;
	new = create_beside(path, &status, made);
	if (new)
		copy_lines(old, new, devices);
	if (old)
		fclose(old);
	if (!new)
		return failed("write beside", path);
	if (!finish(new) || rename(made, path)) {
		failed("write", path);
		unlink(made);
		return -1;
	}
	return 0;
}
