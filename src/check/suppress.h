/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Findings that are not to be reported, one kind a line, with patterns of fnmatch(3) and comments
 * after #:
 *
 *	RV-OBJECTS-001 function=legacy_init		# of any stack of the finding
 *	RV-* module=*libfoo.so* object=mr*
 *
 * All words of a line must match.
 */
#ifndef VERBATIM_CHECK_SUPPRESS_H
#define VERBATIM_CHECK_SUPPRESS_H

#include <stdbool.h>
#include <stddef.h>

#include "check/stack.h"

struct check_suppression {
	struct check_suppression *next;
	unsigned line, used;
	char text[200]; /* as it was written, for the summary */
	char rule[64], function[128], module[128], file[128], object[64]; /* ""; any */
};

struct check_suppressions {
	struct check_suppression *first, **end;
};

/* @text: a whole file. 0; or the number of the line that is none, with *why. */
unsigned check_suppress_read(struct check_suppressions *all, const char *text, const char **why);
/* Counts its use. NULL: it is to be reported. */
struct check_suppression *check_suppressed(struct check_suppressions *all, const char *rule,
					   const char *object, const struct check_frame *frames,
					   unsigned count);
void check_suppress_free(struct check_suppressions *all);

#endif
