/* SPDX-License-Identifier: BSD-2-Clause */
/* The table of rules: rule.def, expanded. */
#ifndef VERBATIM_CHECK_RULE_H
#define VERBATIM_CHECK_RULE_H

#include "check/finding.h"

struct check_rule_row {
	const char *id;
	const char *sentence, *source, *remedy;
};

const struct check_rule_row *check_rule_row(unsigned rule);
/* The rules that look at such a record, in the order of the table. By one thread at a time. */
void check_rules_look(struct check_model *model, const struct check_record *record);

#endif
