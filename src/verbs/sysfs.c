/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ibv_get_sysfs_path() and ibv_read_sysfs_file(): programs read attributes of devices as files
 * below /sys/class/infiniband. Those of our devices come from attributes.c; any other path is
 * read as a file.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "verbs/verbs.h"

static char sysfs_path[IBV_SYSFS_PATH_MAX] = "/sys";
static pthread_once_t sysfs_once = PTHREAD_ONCE_INIT;

/* SYSFS_PATH moves it, but not for programs that run with more rights than their user. */
static void sysfs_path_init(void)
{
	const char *path = secure_getenv("SYSFS_PATH");
	size_t length = path ? strlen(path) : 0;

	while (length > 1 && path[length - 1] == '/')
		length--;
	if (!length || length >= sizeof(sysfs_path) / 2)	/* device paths are appended */
		return;
	memcpy(sysfs_path, path, length);
	sysfs_path[length] = '\0';
}

const char *ibv_get_sysfs_path(void)
{
	pthread_once(&sysfs_once, sysfs_path_init);
	return sysfs_path;
}

/* @path after "SYSFS/class/", or NULL. */
static const char *below_class(const char *path)
{
	const char *root = ibv_get_sysfs_path();
	size_t length = strlen(root);

	if (strncmp(path, root, length) || strncmp(path + length, "/class/", 7))
		return NULL;
	return path + length + 7;
}

static int sysfs_read_file(const char *path, char *buffer, size_t size)
{
	FILE *file = fopen(path, "re");
	size_t length;

	if (!file)
		return -1;
	length = fread(buffer, 1, size, file);
	fclose(file);
	return (int)length;
}

/* Length of the text without its newline, 0-terminated where there is room; or -1 and errno. */
int ibv_read_sysfs_file(const char *dir, const char *file, char *buffer, size_t size)
{
	CALL();
	enum attribute_found found = ATTRIBUTE_FOREIGN;
	const char *attribute;
	char *path, text[256];
	int length = -1;

	if (!dir || !file || !buffer || !size)
		return minus_one(refuse_null("ibv_read_sysfs_file", "dir, file or buffer"));
	if (asprintf(&path, "%s/%s", dir, file) < 0)
		return minus_one(ENOMEM);
	attribute = below_class(path);
	if (attribute)
		found = attribute_read(attribute, text, sizeof(text) - 1);
	if (found == ATTRIBUTE_FOREIGN) {
		length = sysfs_read_file(path, buffer, size);
	} else if (found == ATTRIBUTE_ABSENT) {
		errno = ENOENT;
	} else {	/* as a file has it, ending in a newline */
		size_t bytes = strlen(text);

		text[bytes++] = '\n';
		length = (int)(bytes < size ? bytes : size);
		memcpy(buffer, text, (size_t)length);
	}
	free(path);
	if (length <= 0)
		return length;
	if (buffer[length - 1] == '\n')
		buffer[--length] = '\0';
	else if ((size_t)length < size)
		buffer[length] = '\0';
	return length;
}
