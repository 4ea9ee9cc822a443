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

static const struct hardware_row hardware_table[HARDWARE_COUNT] = {
#define HARDWARE(directory, name, divisor, a, b, c)                                                \
	[HARDWARE_##name] = { #directory, #name, divisor, { COUNTER_##a, COUNTER_##b, COUNTER_##c } },
#include "base/hardware_counter.def"
#undef HARDWARE
};

const struct hardware_row *hardware_row(enum hardware_counter which)
{
	return &hardware_table[which];
}

uint64_t hardware_value(enum hardware_counter which, const uint64_t values[COUNTER_COUNT])
{
	const struct hardware_row *row = &hardware_table[which];
	uint64_t sum = 0;

	for (unsigned i = 0; i < 3; i++)
		if (row->part[i] != COUNTER_NONE)
			sum += values[row->part[i]];
	return sum / row->divisor;
}
