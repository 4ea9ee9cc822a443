/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The file of settings: which one it is, and its lines. VERBATIM_CONFIG names it, else it is the user's:
 * verbatim.conf in XDG_CONFIG_HOME, or in .config below HOME. VERBATIM_CONFIG with nothing in it: none.
 */
#ifndef VERBATIM_CONFIG_FILE_H
#define VERBATIM_CONFIG_FILE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct config_file {
	char path[PATH_MAX];
	bool by_default;	/* the user's: need not be there */
};

/* False: there is none, as in set-id programs, which their caller must not lead anywhere. */
bool config_file_find(struct config_file *file);

/*
 * Open for reading; *stream NULL: nothing to read. The user's file is not read if it is not a plain file,
 * belongs to another user than this process's (and root), or others may write to it: explained. 0 or
 * errno, after a line on stderr.
 */
int config_file_open(const struct config_file *file, FILE **stream);

/* Why the user's file is there and not read, in words; NULL: it is read, or not there. */
const char *config_file_refused(const struct config_file *file);

/* A line "key = value # comment": offsets in it. Without the blanks around, and without the newline. */
struct config_line {
	size_t key, key_end;
	size_t value, value_end;
	bool has_value;		/* there is a '=' */
};

/* False: nothing but blanks and a comment. */
bool config_line_parse(const char *text, struct config_line *line);

#endif
