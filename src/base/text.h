/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Settings as text: numbers, and the lines of a file. What is wrong is left to the caller to refuse,
 * who knows what it would have to be; nothing is taken by half ("12x" is no number, 2^64 + 5 not 5).
 */
#ifndef VERBATIM_BASE_TEXT_H
#define VERBATIM_BASE_TEXT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define TEXT_LINE_MAX	1100

/*
 * The decimal number that *text begins with, at most @greatest; moves *text behind it. No sign, no
 * space. False: there is none, and nothing is changed.
 */
bool text_scan_number(const char **text, uint64_t greatest, uint64_t *number);
/* The same, of the whole text. */
bool text_number(const char *text, uint64_t least, uint64_t greatest, uint64_t *number);

/* Without white space at both ends; changes @text. */
char *text_trim(char *text);

/* At first all zeros. */
struct text_line {
	unsigned number;		/* counts from 1 */
	bool is_whole;			/* false: longer than TEXT_LINE_MAX, and the rest was skipped */
	char *text;			/* trimmed, in bytes[] */
	char bytes[TEXT_LINE_MAX + 2];	/* with its newline */
};

/* False: there are no more. */
bool text_next_line(FILE *file, struct text_line *line);

#endif
