/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Repeated lines: which of the lines for a user are written, and which are only counted. Pure: no
 * clock, no output, no lock.
 *
 * The REPEAT_LINES last different lines are known, each by the id of its rule and object. A line that is
 * known is counted; what was counted is told when a line comes that is not known, after 1, 2, 4 ... 64
 * seconds while it goes on, and at the end.
 */
#ifndef VERBATIM_BASE_REPEAT_H
#define VERBATIM_BASE_REPEAT_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define REPEAT_LINES 16u
#define REPEAT_TEXT_BYTES 160u		/* of a line, with its end; to tell what was repeated */
#define REPEAT_TELL_NS 1000000000u
#define REPEAT_PATIENCE_NS (64u * 1000000000ull)
#define REPEAT_REMOTE 8u		/* new remote lines a second; less than REPEAT_LINES: others stay known */

struct repeat_line {
	uint64_t id;		/* 0: unused */
	uint64_t told_ns;	/* when it or its count was written last */
	uint64_t patience_ns;	/* from then on to the next time; doubled each time */
	uint64_t used;		/* order of use */
	unsigned count;		/* times that it came and was not written */
	char text[REPEAT_TEXT_BYTES];
};

/* Zeroed: no line is known. */
struct repeats {
	struct repeat_line line[REPEAT_LINES];
	uint64_t uses;
	uint64_t remote_ns;	/* new remote lines: written in the second that began then ... */
	unsigned remote;	/* ... so many */
};

/* Writes "repeated @count times: @text", before the line that is admitted. */
typedef void repeat_tell(unsigned count, const char *text);

/*
 * Ids are hashes of 64 bits of what is added to them; two lines with one id would be counted as one. A rule is
 * its format, with the texts and addresses (%s, %m, %p) that are filled in: its numbers are no part of it.
 */
#define REPEAT_BASIS 0xcbf29ce484222325u
uint64_t repeat_text(uint64_t id, const char *text, size_t bytes);
uint64_t repeat_number(uint64_t id, uint64_t number);
uint64_t repeat_rule(uint64_t id, const char *format, va_list arguments);

/* Is the line to be written? @id: not 0. @remote: of what another process may send for ever. */
bool repeat_admit(struct repeats *repeats, uint64_t id, const char *text, size_t bytes, uint64_t now_ns,
		  bool remote, repeat_tell *tell);
/* Tells what was counted. */
void repeat_tell_all(struct repeats *repeats, repeat_tell *tell);

#endif
