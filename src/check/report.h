/* SPDX-License-Identifier: BSD-2-Clause */
/* Findings as text on stderr, and a line each for the command (docs/check.md). Under check.lock. */
#ifndef VERBATIM_CHECK_REPORT_H
#define VERBATIM_CHECK_REPORT_H

#include "check/model.h"
#include "check/suppress.h"

struct check_options {
	unsigned max_reports;			/* of a rule at a place */
	char file[256];				/* for the command; "": none */
	char suppress[256];			/* "": none */
	const struct check_profile *profile;	/* NULL: none */
	bool strict;
};

/* 0, or EINVAL after a line on stderr. */
int check_options_read(const char *text, struct check_options *options);
int check_report_start(const struct check_options *options);
/* For the command: this process is checked. */
void check_report_begin(void);
void check_report_finding(struct check_model *model, const struct check_finding *finding);
/* The summary. */
void check_report_end(void);
/* In a child of fork(): nothing was found yet. */
void check_report_forget(void);

#endif
