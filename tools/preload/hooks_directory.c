/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * opendir(3) and its family. A stream of ours is told from one of the C library's by its first
 * eight bytes: a DIR there begins with a descriptor, which is never negative.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "preload.h"

#define STREAM_MAGIC 0x8d1a2b3cf0e1d2c3u	/* as an int at offset 0: negative */

_Static_assert(sizeof(struct dirent) == sizeof(struct dirent64), "both are filled by one function");

struct stream {
	uint64_t magic;
	int fd;
	long position;			/* 0 and 1 are "." and "..", then the entries */
	size_t count;
	struct tree_entry *entries;
	struct dirent current;
	char path[NODE_PATH_MAX];
};

static struct stream *to_stream(DIR *directory)
{
	struct stream *stream = (struct stream *)directory;

	/* closedir(NULL): the headers say that there is none, and gcc believes them, whatever its options. */
	__asm__("" : "+r"(stream));
	return stream && stream->magic == STREAM_MAGIC ? stream : NULL;
}

/* Takes over @fd when it succeeds. */
static DIR *stream_open(const char *path, int fd)
{
	struct stream *stream = calloc(1, sizeof(*stream));
	int err = stream ? tree_list(path, &stream->entries, &stream->count) : ENOMEM;

	if (err) {
		free(stream);
		errno = err;
		return NULL;
	}
	stream->magic = STREAM_MAGIC;
	stream->fd = fd;
	strcpy(stream->path, path);
	return (DIR *)stream;
}

static int stream_close(struct stream *stream)
{
	int fd = stream->fd;

	stream->magic = 0;
	free(stream->entries);
	free(stream);
	return close(fd);
}

static unsigned char entry_type(enum node_kind kind)
{
	if (kind == NODE_DIRECTORY)
		return DT_DIR;
	return kind == NODE_DEVICE ? DT_CHR : DT_REG;
}

static struct dirent *stream_read(struct stream *stream)
{
	struct dirent *current = &stream->current;
	struct tree_entry dot = { ".", NODE_DIRECTORY }, dots = { "..", NODE_DIRECTORY }, *entry;

	if (stream->position >= (long)stream->count + 2)
		return NULL;
	if (stream->position < 2)
		entry = stream->position ? &dots : &dot;
	else
		entry = &stream->entries[stream->position - 2];
	memset(current, 0, sizeof(*current));
	strcpy(current->d_name, entry->name);
	current->d_type = entry_type(entry->kind);
	current->d_ino = node_number(stream->path) + node_number(entry->name);
	current->d_off = ++stream->position;
	current->d_reclen = sizeof(*current);
	return current;
}

static DIR *open_ours(const char *path)
{
	int err, fd = node_open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *directory;

	if (fd < 0)
		return NULL;
	directory = stream_open(path, fd);
	if (directory)
		return directory;
	err = errno;
	close(fd);
	errno = err;
	return NULL;
}

DIR *opendir(const char *path)
{
	char ours[NODE_PATH_MAX];

	return path_is_ours(AT_FDCWD, &path, ours) ? open_ours(ours) : REAL(opendir)(path);
}

DIR *fdopendir(int fd)
{
	char ours[NODE_PATH_MAX];

	return !tree_is_busy() && node_is_directory(fd, ours) ? stream_open(ours, fd)
							      : REAL(fdopendir)(fd);
}

int closedir(DIR *directory)
{
	struct stream *stream = to_stream(directory);

	return stream ? stream_close(stream) : REAL(closedir)(directory);
}

struct dirent *readdir(DIR *directory)
{
	struct stream *stream = to_stream(directory);

	return stream ? stream_read(stream) : REAL(readdir)(directory);
}

struct dirent64 *readdir64(DIR *directory)
{
	struct stream *stream = to_stream(directory);

	return stream ? (struct dirent64 *)stream_read(stream) : REAL(readdir64)(directory);
}

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

int readdir_r(DIR *directory, struct dirent *entry, struct dirent **result)
{
	struct stream *stream = to_stream(directory);
	struct dirent *next;

	if (!stream)
		return REAL(readdir_r)(directory, entry, result);
	next = stream_read(stream);
	if (next)
		*entry = *next;
	*result = next ? entry : NULL;
	return 0;
}

int readdir64_r(DIR *directory, struct dirent64 *entry, struct dirent64 **result)
{
	return readdir_r(directory, (struct dirent *)entry, (struct dirent **)result);
}

int dirfd(DIR *directory)
{
	struct stream *stream = to_stream(directory);

	return stream ? stream->fd : REAL(dirfd)(directory);
}

void rewinddir(DIR *directory)
{
	struct stream *stream = to_stream(directory);

	if (stream)
		stream->position = 0;
	else
		REAL(rewinddir)(directory);
}

long telldir(DIR *directory)
{
	struct stream *stream = to_stream(directory);

	return stream ? stream->position : REAL(telldir)(directory);
}

void seekdir(DIR *directory, long position)
{
	struct stream *stream = to_stream(directory);

	if (stream)
		stream->position = position;
	else
		REAL(seekdir)(directory, position);
}

typedef int (*filter_function)(const struct dirent *);
typedef int (*compare_function)(const struct dirent **, const struct dirent **);

static void names_free(struct dirent **names, int count)
{
	while (count)
		free(names[--count]);
	free(names);
}

/* scandir() of a stream: what @filter lets through, in the order of @compare. */
static int collect(struct stream *stream, struct dirent ***names, filter_function filter,
		   compare_function compare)
{
	struct dirent **found = calloc(stream->count + 2, sizeof(struct dirent *)), *entry;
	int count = 0;

	while (found && (entry = stream_read(stream))) {
		if (filter && !filter(entry))
			continue;
		found[count] = malloc(sizeof(*entry));
		if (!found[count]) {
			names_free(found, count);
			found = NULL;
			break;
		}
		*found[count++] = *entry;
	}
	if (!found) {
		errno = ENOMEM;
		return -1;
	}
	if (compare)
		qsort(found, (size_t)count, sizeof(found[0]),
		      (int (*)(const void *, const void *))compare);
	*names = found;
	return count;
}

static int scan(const char *path, struct dirent ***names, filter_function filter,
		compare_function compare)
{
	DIR *directory = open_ours(path);
	int count, err;

	if (!directory)
		return -1;
	count = collect(to_stream(directory), names, filter, compare);
	err = errno;
	stream_close(to_stream(directory));
	errno = err;
	return count;
}

int scandir(const char *path, struct dirent ***names, filter_function filter,
	    compare_function compare)
{
	char ours[NODE_PATH_MAX];

	if (path_is_ours(AT_FDCWD, &path, ours))
		return scan(ours, names, filter, compare);
	return REAL(scandir)(path, names, filter, compare);
}

int scandir64(const char *path, struct dirent64 ***names, int (*filter)(const struct dirent64 *),
	      int (*compare)(const struct dirent64 **, const struct dirent64 **))
{
	char ours[NODE_PATH_MAX];

	if (path_is_ours(AT_FDCWD, &path, ours))
		return scan(ours, (struct dirent ***)names, (filter_function)filter,
			    (compare_function)compare);
	return REAL(scandir64)(path, names, filter, compare);
}
