/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * `verbatim check` in the process of a program (VERBATIM_CHECK). A call that makes, ends, arms or
 * waits asks check_is_on(), a load and a branch, and hands over a record. Posts and polls ask in
 * the twins of verbs/trace.c alone: the ordinary ones have not one instruction more.
 *
 *	verbs/check.c -> check_take() -> model.h, rules -> report.c -> stderr, the command's file
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
/* Fills in the thread; unless it has a stack, MADE gets its own. */
void check_take(struct check_record *record);
/*
 * A record of what is about to be done; ARM gets a stack. 0, or the errno that the adapter would give
 * (--strict).
 */
int check_ask(struct check_record *record);
/* @own, or with --strict the limit of the adapter if that is less. */
uint64_t check_lowered(enum check_fact fact, uint64_t own);
/* Of a post: where it is called. The same as check_ask(). */
int check_take_at(struct check_record *record, const void *site, const void *frame);
/* What only the device knows; kept, not copied. */
void check_set_device(const struct check_device *device);
void check_set_manager(check_manager *manager);
/* The process ends: leaks, and the summary. */
void check_finish(void);

#endif
