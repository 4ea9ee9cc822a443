/* SPDX-License-Identifier: BSD-2-Clause */
/* The finding of a rule: its words, and what they are about (finding.h). */
#include "check/finding.h"

#include <stdarg.h>
#include <stdio.h>

void check_report(struct check_model *model, enum check_rule rule,
		  const struct check_object *object, const struct check_work *work, uint32_t cause,
		  const char *cause_is, const char *format, ...)
{
	struct check_finding finding = {
		.rule = rule,
		.object = object,
		.cause = work ? work->stack : cause,
		.cause_is = cause_is,
		.has_wr_id = work != NULL,
		.wr_id = work ? work->wr_id : 0,
	};
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(finding.text, sizeof(finding.text), format, arguments);
	va_end(arguments);
	finding.at_cause = model->at_end;
	model->report(model, &finding);
}

uint64_t check_bytes(const struct check_record *post)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < post->sges; i++)
		bytes += post->sge[i].bytes;
	return bytes;
}
