/* SPDX-License-Identifier: BSD-2-Clause */
/* Where the file of settings is, whether it may be believed, and what is in a line of it (config/file.h). */
#include "config/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/small_file.h"

#define USER_FILE "verbatim.conf"

static atomic_bool is_explained;	/* in this process, why it is not read */

bool config_file_find(struct config_file *file)
{
	const char *named = secure_getenv("VERBATIM_CONFIG");
	const char *config_home;
	const char *home;
	int length;

	if (getauxval(AT_SECURE))
		return false;
	file->by_default = !named;
	if (!named) {
		/*
		 * A relative XDG_CONFIG_HOME is to be ignored, as its specification says; HOME
		 * likewise.
		 */
		config_home = secure_getenv("XDG_CONFIG_HOME");
		home = secure_getenv("HOME");
		length = 0;
		if (config_home && config_home[0] == '/')
			length = snprintf(file->path, PATH_MAX, "%s/" USER_FILE, config_home);
		else if (home && home[0] == '/')
			length = snprintf(file->path, PATH_MAX, "%s/.config/" USER_FILE, home);
		return length > 0 && length < PATH_MAX;
	}
	return *named && snprintf(file->path, PATH_MAX, "%s", named) < PATH_MAX;
}

static const char *user_file_distrust(int fd)
{
	struct stat status;

	if (fstat(fd, &status))
		return "it cannot be looked at";
	if (!S_ISREG(status.st_mode))
		return "it is not a file";
	if (status.st_size > SMALL_FILE_MAX)
		return "it is larger than 1 MiB";
	if (status.st_uid != geteuid() && status.st_uid != 0)
		return "it belongs to another user; VERBATIM_CONFIG reads it nevertheless";
	if (status.st_mode & (S_IWGRP | S_IWOTH))
		return "others may write to it: chmod go-w";
	return NULL;
}

/*
 * -1: it is not read, *why says why, or that it is not there (NULL): nor is one for whoever may not look, as HOME
 * stays that of root when a program runs as somebody else. O_NONBLOCK: not to wait at a FIFO.
 */
static int open_trusted(const char *path, const char **why)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat status;

	*why = NULL;
	if (fd < 0 && (errno != EACCES || !stat(path, &status)) && errno != ENOENT && errno != ENOTDIR)
		*why = strerror(errno);
	if (fd >= 0)
		*why = user_file_distrust(fd);
	if (fd < 0 || !*why)
		return fd;
	close(fd);
	return -1;
}

const char *config_file_refused(const struct config_file *file)
{
	const char *why;
	int fd = open_trusted(file->path, &why);

	if (fd >= 0)
		close(fd);
	return why;
}

int config_file_open(const struct config_file *file, FILE **stream)
{
	const char *why = NULL;
	int err, fd = file->by_default ? open_trusted(file->path, &why) : small_file_open(file->path, &why);

	*stream = fd < 0 ? NULL : small_file_stream(fd, &why);
	err = errno;
	if (*stream || (file->by_default && !why))
		return 0;
	if (file->by_default) {
		if (!atomic_exchange(&is_explained, true))	/* it is looked for at each list of devices */
			explain("%s is not read: %s", file->path, why);
		return 0;
	}
	complain("VERBATIM_CONFIG: cannot read %s: %s", file->path, why);
	/* Programs would print "Permission denied", and their users look for rights to a device. */
	return err == ENOMEM || err == EMFILE || err == ENFILE ? err : EINVAL;
}

/* A '#' begins a comment at the start of a line, and behind a blank. */
static size_t comment_begin(const char *text)
{
	size_t end = strcspn(text, "\n");

	for (size_t i = 0; i < end; i++)
		if (text[i] == '#' && (!i || text[i - 1] == ' ' || text[i - 1] == '\t'))
			return i;
	return end;
}

static void line_trim(const char *text, size_t *begin, size_t *end)
{
	while (*begin < *end && strchr(" \t\r\f\v", text[*begin]))
		++*begin;
	while (*end > *begin && strchr(" \t\r\f\v", text[*end - 1]))
		--*end;
}

bool config_line_parse(const char *text, struct config_line *line)
{
	size_t end = comment_begin(text);
	const char *equals = memchr(text, '=', end);

	memset(line, 0, sizeof(*line));
	line->has_value = equals;
	line->key_end = equals ? (size_t)(equals - text) : end;
	line_trim(text, &line->key, &line->key_end);
	line->value = equals ? (size_t)(equals - text) + 1 : end;
	line->value_end = end;
	line_trim(text, &line->value, &line->value_end);
	return equals || line->key < line->key_end;
}
