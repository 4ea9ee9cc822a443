/* SPDX-License-Identifier: BSD-2-Clause */
/* Drops and counters as events of a trace. */
#include "trace/drops.h"

#include <stdio.h>

#include "trace/trace.h"
#include "wire/opcode.h"

void trace_drop(const struct trace_record *record, const uint8_t *data, enum drop why)
{
	const struct opcode *op = opcode_get(data[0]);
	unsigned psn = (unsigned)data[9] << 16 | (unsigned)data[10] << 8 | data[11];

	tracepoint(drop, .time_ns = record->time_ns, .qp = record->qpn, .psn = psn,
		   .reason = counter_name(drop_row(why)->counter),
		   .opcode = op ? op->name : "unknown");
}

void trace_counters(const struct counters *counters)
{
	char text[TRACE_TEXT_MAX - 100];
	size_t used = 0;

	for (enum counter i = 0; i < COUNTER_COUNT; i++) {
		uint64_t value = counter_get(counters, i);

		if (!value)
			continue;
		used += (size_t)snprintf(text + used, sizeof(text) - used, "%s\"%s\":%llu", used ? "," : "",
					 counter_name(i), (unsigned long long)value);
		if (used < sizeof(text) - 64)
			continue;
		tracepoint(counters, .values = text);
		used = 0;
	}
	if (used)
		tracepoint(counters, .values = text);
}
