/* SPDX-License-Identifier: BSD-2-Clause */
/* The summary at exit: what a rule has done, to packets of which kinds. */
#include <stdarg.h>
#include <stdio.h>

#include "inject/inject.h"

#define RULE_SHOWN	80u		/* bytes of its text */

static const char *const counted[] = {
#define INJECT_ACTION(id, name, said) said,
#include "inject/action.def"
#undef INJECT_ACTION
};

struct writer {
	char *line;
	size_t size, used;
};

__attribute__((format(printf, 2, 3)))
static void report_put(struct writer *writer, const char *format, ...)
{
	va_list args;
	int length;

	if (writer->used + 1 >= writer->size)
		return;
	va_start(args, format);
	length = vsnprintf(writer->line + writer->used, writer->size - writer->used, format, args);
	va_end(args);
	writer->used += (size_t)length;
	if (writer->used >= writer->size)
		writer->used = writer->size - 1;
}

static void put_action(struct writer *writer, const struct inject_rule *rule, unsigned action, bool *first)
{
	uint64_t sum = 0;
	unsigned kind, kinds = 0;

	for (kind = 0; kind < INJECT_KINDS; kind++)
		sum += rule->count[action][kind];
	if (!sum)
		return;
	report_put(writer, "%s%llu %s (", *first ? ": " : ", ", (unsigned long long)sum, counted[action]);
	*first = false;
	for (kind = 0; kind < INJECT_KINDS; kind++)
		if (rule->count[action][kind])
			report_put(writer, "%s%llu %s", kinds++ ? ", " : "",
				    (unsigned long long)rule->count[action][kind],
				    inject_kind_name((enum inject_kind)kind));
	report_put(writer, ")");
}

size_t inject_report(const struct injector *injector, unsigned number, char *line, size_t size)
{
	const struct inject_rule *rule = &injector->rule[number];
	struct writer writer = { line, size, 0 };
	bool first = true;
	unsigned action;

	report_put(&writer, "'%.*s%s' of %llu packet%s",
	    (int)(rule->length > RULE_SHOWN ? RULE_SHOWN : rule->length), injector->text + rule->start,
	    rule->length > RULE_SHOWN ? "..." : "", (unsigned long long)rule->seen,
	    rule->seen == 1 ? "" : "s");
	for (action = 0; action < INJECT_ACTIONS; action++)
		put_action(&writer, rule, action, &first);
	if (first)
		report_put(&writer, ": nothing");
	return writer.used;
}
