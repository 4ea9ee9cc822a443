/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * From happenings to records. Where records go is trace_put()'s matter: the ring of a tracer (trace.c),
 * or a simulated run's file (sim/program/record.c).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace/trace.h"

void trace_record_init(struct trace_record *record, enum trace_kind kind, const struct datagram *datagram)
{
	memset(record, 0, sizeof(*record));
	record->kind = (uint8_t)kind;
	if (!datagram)
		return;
	memcpy(record->source, datagram->source, 16);
	memcpy(record->destination, datagram->destination, 16);
	record->flow_label = datagram->flow_label;
	record->source_port = datagram->source_port;
	record->traffic_class = datagram->traffic_class;
	record->hop_limit = datagram->hop_limit;
}

void trace_take(const struct tracepoint_record *point)
{
	struct trace_record record;

	trace_record_init(&record, TRACE_IS_POINT, NULL);
	record.want = point->want;
	record.qpn = point->qpn;
	record.time_ns = point->time_ns;
	record.flags = point->failure ? TRACE_FAILURE : 0;
	trace_put(&record, point->want, point->data, point->bytes);
}

/* "... qp 0x000123 ...": whose line it is. */
static uint32_t event_qpn(const char *line)
{
	const char *at = strstr(line, "qp 0x");

	return at ? (uint32_t)strtoul(at + 5, NULL, 16) & 0xffffff : 0;
}

void trace_explanation(const char *line, size_t bytes)
{
	char text[TRACE_TEXT_MAX - 100];

	snprintf(text, sizeof(text), "%.*s", (int)bytes, line);
	tracepoint(explain, .qp = event_qpn(text), .text = text);
}
