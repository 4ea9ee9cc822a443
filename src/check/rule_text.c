/* SPDX-License-Identifier: BSD-2-Clause */
/* The words of rules (rule.h). */
#include "check/rule.h"

static const struct check_rule_row rows[CHECK_RULES] = {
#define RULE(name, id, on, function, sentence, source, remedy) { id, sentence, source, remedy },
#include "check/rule.def"
#undef RULE
};

const struct check_rule_row *check_rule_row(unsigned rule)
{
	return &rows[rule];
}
