/* SPDX-License-Identifier: BSD-2-Clause */
/* Which rules look at which records (rule.h). */
#include "check/rule.h"

#define ON(what) (UINT32_C(1) << CHECK_##what)

static const struct {
	uint32_t on; /* ON(what) of each record that it looks at */
	void (*look)(struct check_model *model, const struct check_record *record);
} rules[CHECK_RULES] = {
#define RULE(name, id, on, function, sentence, source, remedy) {on, function},
#include "check/rule.def"
#undef RULE
};

void check_rules_look(struct check_model *model, const struct check_record *record)
{
	for (unsigned rule = 0; rule < CHECK_RULES; rule++)
		if (rules[rule].on >> record->what & 1)
			rules[rule].look(model, record);
}
