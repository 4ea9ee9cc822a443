/* SPDX-License-Identifier: BSD-2-Clause */
/* What the processes of a checked program have found, for the formats of `verbatim check`. */
#ifndef VERBATIM_TOOLS_CHECK_H
#define VERBATIM_TOOLS_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum { CHECK_FRAMES_MAX = 16 };

struct check_line_frame {
	const char *function, *file, *module;	/* "": not known */
	int line;
	const char *offset;	/* hexadecimal */
};

struct check_line_stack {
	struct check_line_frame frame[CHECK_FRAMES_MAX];
	int count;
};

/* Texts are parts of the file that was read. */
struct check_found {
	const struct check_rule_text *rule;
	int pid;
	/* object "", wr_id "-": none */
	const char *program, *object, *wr_id, *text, *cause_is;
	struct check_line_stack here, cause;
};

struct check_results {
	struct check_found *found;
	int count;
	int processes, ended;	/* that began, and that came to their end */
	int suppressed, more;	/* held back; not shown: too many at a place */
	char *text;		/* the file */
};

struct check_rule_text {
	const char *id, *sentence, *source, *remedy;
};
/* check_read.c: rule.def; ends with a NULL id. */
extern const struct check_rule_text check_rule_texts[];

/* 0; -1 after a line on stderr. */
int check_read(const char *path, struct check_results *results);
void check_results_free(struct check_results *results);
/* The frame to show to someone who looks for a line: the first with a file below the working
 * directory; NULL: none. */
const struct check_line_frame *check_main_frame(const struct check_found *found);
/* The path of @frame below the working directory, or whole: in @path. */
const char *check_relative(const char *file, char *path, size_t size);
/* Which suppressions were used, and which never were; findings of each rule. To stderr. */
void check_summary(const struct check_results *results);

/* check_output.c, check_sarif.c: each writes its format to @file. */
void check_write_json(FILE *file, const struct check_results *results);
void check_write_junit(FILE *file, const struct check_results *results);
void check_write_github(FILE *file, const struct check_results *results);
void check_write_sarif(FILE *file, const struct check_results *results);
/* A string of JSON, with its quotes. */
void check_write_quoted(FILE *file, const char *text);

#endif
