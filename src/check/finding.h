/* SPDX-License-Identifier: BSD-2-Clause */
/* What the functions of rules share: their names, and how a finding is made. */
#ifndef VERBATIM_CHECK_FINDING_H
#define VERBATIM_CHECK_FINDING_H

#include "check/model.h"

enum check_rule {
#define RULE(name, id, on, function, sentence, source, remedy) RULE_##name,
#include "check/rule.def"
#undef RULE
	CHECK_RULES
};

/*
 * The finding of a rule: its text as printf(), then it goes to the model's reporter. @object may be
 * NULL. @work: the request that it is about, and the cause is where that was posted; NULL: the
 * cause is @cause.
 */
void check_report(struct check_model *model, enum check_rule rule,
		  const struct check_object *object, const struct check_work *work, uint32_t cause,
		  const char *cause_is, const char *format, ...)
	__attribute__((format(printf, 7, 8)));

/* Of all SGEs of a post. */
uint64_t check_bytes(const struct check_record *post);

#define RULE(name, id, on, function, sentence, source, remedy)                                     \
	void function(struct check_model *model, const struct check_record *record);
#include "check/rule.def"
#undef RULE

#endif
