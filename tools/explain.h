/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What `verbatim explain` knows: tables that tools/errors.py makes of docs/errors at build time. Each
 * ends with a row of null pointers. Texts are wrapped to 78 columns; a Chinese character
 * takes two.
 */
#ifndef VERBATIM_TOOLS_EXPLAIN_H
#define VERBATIM_TOOLS_EXPLAIN_H

#include <stdbool.h>
#include <stddef.h>

struct error_kind {
	const char *name;	/* one word: "status" */
	const char *what;	/* of one entry: "completion status" */
	const char *title;	/* of all: "Completion statuses" */
	const char *chinese;	/* what, in Chinese */
	bool numbers;		/* its numbers may be asked for */
};

struct error_entry {
	int kind;		/* index into error_kinds */
	const char *name;
	const char *heading;	/* the name with its number */
	long number;		/* -1: it has none */
	const char *words;	/* what finds it: " WORD WORD ", in capitals */
	const char *text;
	const char *calls;	/* by call: "" or the last section */
	const char *chinese;	/* text */
	const char *chinese_calls;
};

/* What an errno means when a certain call returns it. */
struct error_call {
	const char *name;	/* of the call */
	const char *error;	/* name of the entry */
	const char *word;	/* the name in capitals */
	const char *text;
	const char *chinese;
};

extern const struct error_kind error_kinds[];
extern const struct error_entry error_entries[];
extern const struct error_call error_calls[];

#endif
