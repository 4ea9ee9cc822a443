/* SPDX-License-Identifier: BSD-2-Clause */
/* The console's word for counters of a port: what they are, what they become, what they rise by. */
#include "fabric/console.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

#include "base/text.h"

static void counter_show(struct room *room, const struct end *end, bool all, FILE *out)
{
	uint64_t value, per_second;
	const char *name;

	for (unsigned i = 0; (name = fabric_counter(room->fabric, end->node, end->port, i,
						    room->now_us, &value, &per_second)); i++) {
		if (!value && !per_second && !all)
			continue;
		fprintf(out, "%s[%u] %s %llu", console_node_name(room, end->node), end->port, name,
			(unsigned long long)value);
		if (per_second)
			fprintf(out, ", %llu more each second", (unsigned long long)per_second);
		fputc('\n', out);
	}
}

/* "NAME=VALUE", "NAME+=VALUE": each second. ibsim has PortCounters. before the name. */
static int counter_set(struct room *room, const struct end *end, char *text, FILE *out)
{
	char *equals = strchr(text, '='), *dot;
	bool rises = equals && equals > text && equals[-1] == '+';
	unsigned counter;
	uint64_t value;

	if (!equals || !text_number(equals + 1, 0, rises ? FABRIC_RISE_MAX : UINT64_MAX, &value)) {
		fprintf(out, "'%s': expected COUNTER=VALUE, or COUNTER+=VALUE for so many more each "
			"second\n", text);
		return EINVAL;
	}
	equals[rises ? -1 : 0] = '\0';
	dot = strchr(text, '.');
	counter = fabric_find_counter(dot ? dot + 1 : text);
	if (rises ? fabric_set_rise(room->fabric, end->node, end->port, counter, value,
				    room->now_us) :
		    fabric_set_counter(room->fabric, end->node, end->port, counter, value,
				       room->now_us)) {
		fprintf(out, "no counter '%s': counter NODE[PORT] all lists them\n",
			dot ? dot + 1 : text);
		return EINVAL;
	}
	return 0;
}

int console_word_counter(struct room *room, int count, char **word, FILE *out)
{
	struct end end;
	int err = 0;

	if (count < 2) {
		fprintf(out, "expected %s NODE[PORT] [all | COUNTER=VALUE | COUNTER+=VALUE ...]\n",
			word[0]);
		return EINVAL;
	}
	if (console_end_parse(room, word[1], &end, out) || !console_end_exists(room, &end, out))
		return EINVAL;
	if (end.port == FABRIC_NONE) {
		fprintf(out, "%s: which port? %s[1]\n", word[1], word[1]);
		return EINVAL;
	}
	if (count == 2 || (count == 3 && !strcasecmp(word[2], "all")))
		counter_show(room, &end, count == 3, out);
	else
		for (int i = 2; i < count && !err; i++)
			err = counter_set(room, &end, word[i], out);
	return err;
}
