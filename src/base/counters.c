/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Names and meanings of the counters, both from counter.def. A number outside the table has the
 * name "unknown".
 */
#include "base/counters.h"

static const struct {
	const char *name, *text;
} counter_table[COUNTER_COUNT] = {
#define COUNTER(id, counter_name, counter_text) [COUNTER_##id] = { counter_name, counter_text },
#include "base/counter.def"
#undef COUNTER
};

const char *counter_name(enum counter counter)
{
	return (unsigned)counter < COUNTER_COUNT ? counter_table[counter].name : "unknown";
}

const char *counter_text(enum counter counter)
{
	return (unsigned)counter < COUNTER_COUNT ? counter_table[counter].text : "unknown";
}
