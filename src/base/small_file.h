/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Files of settings and rules that a user names: regular ones of at most 1 MiB, read at once. What is
 * none (a device without an end, a pipe, a directory) is refused with the reason and never waited for.
 */
#ifndef VERBATIM_BASE_SMALL_FILE_H
#define VERBATIM_BASE_SMALL_FILE_H

#include <stdio.h>

#define SMALL_FILE_MAX	(1u << 20)

/*
 * -1: *why says why in words, and errno is set. The null device is an empty file.
 */
int small_file_open(const char *path, const char **why);
/*
 * Reads all of @fd, which is closed, and gives it as a stream that needs no file. Bounded by the bytes that are
 * read, since files of /proc and /sys do not tell their size. NULL: as above.
 */
FILE *small_file_stream(int fd, const char **why);

#endif
