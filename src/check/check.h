/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * `verbatim check` in the process of a program (VERBATIM_CHECK): whoever makes a call of the
 *program asks check_is_on(), a load and a branch, and tells the record. What posts and polls is
 *asked only in the twins of verbs/trace.c, so that the ordinary ones have not one instruction more.
 *
 *	verbs/check.c -> check_take() -> model.h, rules -> report.c -> stderr, a file for the
 *command
 */
#ifndef VERBATIM_CHECK_CHECK_H
#define VERBATIM_CHECK_CHECK_H

#include "check/model.h"
#include "tracepoint/want.h"

static inline bool check_is_on(void)
{
	return trace_wants(TRACE_CHECK);
}

/* Reads VERBATIM_CHECK, once. 0, or EINVAL after a line on stderr. */
int check_start(void);
/* Fills in the thread; unless it has a stack, MADE, STATE and ARM get theirs. */
void check_take(struct check_record *record);
/* Of a post: where it is called. */
void check_take_at(struct check_record *record, const void *site, const void *frame);
/* What only the device knows; kept, not copied. */
void check_set_device(const struct check_device *device);
/* The process ends: leaks, and the summary. */
void check_finish(void);

#endif
