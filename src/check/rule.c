/* SPDX-License-Identifier: BSD-2-Clause */
/* Which rules look at which records (rule.h). */
#include "check/rule.h"

#define ON(what) (UINT32_C(1) << CHECK_##what)

static const struct {
	uint32_t on;	/* ON(what) of each record that it looks at */
	void (*look)(struct check_model *model, const struct check_record *record);
} rules[CHECK_RULES] = {
#define RULE(name, id, on, function, sentence, source, remedy) { on, function },
#include "check/rule.def"
#undef RULE
};

/* Those that look at each record, a list that ends with CHECK_RULES: most records have none. */
static uint8_t rules_of[CHECK_WHATS][CHECK_RULES + 1];

void check_rules_look(struct check_model *model, const struct check_record *record)
{
	static bool sorted;

	if (!sorted) {
		for (unsigned what = 0; what < CHECK_WHATS; what++) {
			unsigned count = 0;

			for (unsigned rule = 0; rule < CHECK_RULES; rule++)
				if (rules[rule].on >> what & 1)
					rules_of[what][count++] = (uint8_t)rule;
			rules_of[what][count] = CHECK_RULES;
		}
	}
	sorted = true;
	for (const uint8_t *rule = rules_of[record->what]; *rule < CHECK_RULES; rule++)
		rules[*rule].look(model, record);
}
