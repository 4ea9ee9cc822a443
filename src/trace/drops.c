/* SPDX-License-Identifier: BSD-2-Clause */
/* The counters of drops, compared before and after a packet. */
#include "trace/drops.h"

#include <stdio.h>

#include "trace/trace.h"
#include "wire/opcode.h"

/* Counters that mean that the packet at hand was not processed; none of sending or of other threads. */
static const enum counter drops[] = {
	COUNTER_RX_SHORT,      COUNTER_RX_OPCODE,     COUNTER_RX_MALFORMED,
	COUNTER_RX_ICRC,       COUNTER_RX_IP_ID,      COUNTER_RX_PKEY,
	COUNTER_RX_QPN,	       COUNTER_RX_QP_TYPE,    COUNTER_RX_QP_STATE,
	COUNTER_RX_ADDRESS,    COUNTER_RX_WAY,	      COUNTER_RX_QKEY,
	COUNTER_RX_NO_RECV,    COUNTER_RX_TOO_LONG,   COUNTER_RX_SEQUENCE,
	COUNTER_RX_DUPLICATE,  COUNTER_RX_RESPONSE,   COUNTER_RX_OVERRUN,
	COUNTER_RX_KEY,	       COUNTER_RX_MULTICAST,  COUNTER_RX_MAD_MALFORMED,
	COUNTER_RX_MAD_LOST,   COUNTER_RX_MAD_NOBODY, COUNTER_RX_MAD_CLASS,
	COUNTER_CM_MALFORMED,  COUNTER_CM_UNKNOWN_ID, COUNTER_CM_WRONG_ADDRESS,
	COUNTER_CM_UNEXPECTED, COUNTER_CM_DUPLICATE,  COUNTER_CM_BACKLOG,
};

#define DROPS (sizeof(drops) / sizeof(drops[0]))

void trace_drops_begin(const struct counters *counters, struct trace_drops *before)
{
	for (size_t i = 0; i < DROPS; i++)
		before->count[i] = counter_get(counters, drops[i]);
}

int trace_drops_end(const struct counters *counters, const struct trace_drops *before)
{
	for (size_t i = 0; i < DROPS; i++)
		if (counter_get(counters, drops[i]) != before->count[i])
			return (int)drops[i];
	return -1;
}

void trace_drop(const struct trace_record *record, const uint8_t *data, enum counter reason)
{
	const struct opcode *op = opcode_get(data[0]);
	unsigned psn = (unsigned)data[9] << 16 | (unsigned)data[10] << 8 | data[11];

	trace_event(TRACE_DROPS, record->qpn, record->time_ns, "drop",
		    "\"qp\":\"0x%06x\",\"reason\":\"%s\",\"psn\":%u,\"opcode\":\"%s\"", record->qpn,
		    counter_name(reason), psn, op ? op->name : "unknown");
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
		trace_event(TRACE_DROPS, 0, 0, "counters", "%s", text);
		used = 0;
	}
	if (used)
		trace_event(TRACE_DROPS, 0, 0, "counters", "%s", text);
}
