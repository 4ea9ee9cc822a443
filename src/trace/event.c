/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What records say: events and calls as members of JSON objects. Where records go is trace_put()'s
 * matter: the ring of a tracer (trace.c), or a simulated run's file (sim/program/record.c).
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace/trace.h"

#define LONG_NS		10000000u	/* a call that takes longer is recorded when it returned */

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

static void trace_text(uint32_t want, uint32_t qpn, uint64_t time_ns, unsigned flags, const char *text, int length)
{
	struct trace_record record;

	trace_record_init(&record, TRACE_IS_EVENT, NULL);
	record.want = want;
	record.qpn = qpn;
	record.time_ns = time_ns;
	record.flags = (uint8_t)flags;
	if (length > 0 && length < (int)TRACE_TEXT_MAX)
		trace_put(&record, want, text, (size_t)length);
}

static void trace_event_va(uint32_t want, uint32_t qpn, uint64_t time_ns, unsigned flags, const char *event,
			   const char *format, va_list arguments)
{
	char text[TRACE_TEXT_MAX];
	int length = snprintf(text, sizeof(text), "\"event\":\"%s\",", event);

	length += vsnprintf(text + length, sizeof(text) - (size_t)length, format, arguments);
	trace_text(want, qpn, time_ns, flags, text, length);
}

void trace_event(uint32_t want, uint32_t qpn, uint64_t time_ns, const char *event, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	trace_event_va(want, qpn, time_ns, 0, event, format, arguments);
	va_end(arguments);
}

void trace_failure(uint32_t want, uint32_t qpn, uint64_t time_ns, const char *event, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	trace_event_va(want, qpn, time_ns, TRACE_FAILURE, event, format, arguments);
	va_end(arguments);
}

void trace_call(const char *name, uint32_t qpn, uint64_t began_ns, int err, const char *format, ...)
{
	char text[TRACE_TEXT_MAX];
	const char *error = err ? strerrorname_np(err) : NULL;
	va_list arguments;
	int length = snprintf(text, sizeof(text), "\"event\":\"call\",\"name\":\"%s\"", name);
	uint64_t now_ns = trace_now_ns(), took_ns = began_ns && began_ns < now_ns ? now_ns - began_ns : 0;

	if (qpn)
		length += snprintf(text + length, sizeof(text) - (size_t)length, ",\"qp\":\"0x%06x\"", qpn);
	va_start(arguments, format);
	length += vsnprintf(text + length, sizeof(text) - (size_t)length, format, arguments);
	va_end(arguments);
	if (length > 0 && length < (int)TRACE_TEXT_MAX - 100) {
		length += snprintf(text + length, sizeof(text) - (size_t)length, ",\"ns\":%llu",
				   (unsigned long long)took_ns);
		if (err)
			length += snprintf(text + length, sizeof(text) - (size_t)length, ",\"error\":\"%s\"",
					   error ? error : "unknown");
	}
	trace_text(TRACE_CALLS, qpn, took_ns > LONG_NS ? now_ns : now_ns - took_ns, 0, text, length);
}

/* "... qp 0x000123 ...": whose line it is. */
static uint32_t event_qpn(const char *line)
{
	const char *at = strstr(line, "qp 0x");

	return at ? (uint32_t)strtoul(at + 5, NULL, 16) & 0xffffff : 0;
}

void trace_explanation(const char *line, size_t bytes)
{
	char text[TRACE_TEXT_MAX - 100], quoted[TRACE_TEXT_MAX - 100], qp[24] = "";
	uint32_t qpn;

	snprintf(text, sizeof(text), "%.*s", (int)bytes, line);
	qpn = event_qpn(text);
	if (qpn)
		snprintf(qp, sizeof(qp), "\"qp\":\"0x%06x\",", qpn);
	trace_event(TRACE_EXPLAIN, qpn, 0, "explain", "%s\"text\":\"%s\"", qp,
		    trace_quote(text, quoted, sizeof(quoted)));
}

const char *trace_quote(const char *text, char *out, size_t size)
{
	size_t used = 0;

	for (; *text && used + 3 < size; text++) {
		if (*text == '"' || *text == '\\')
			out[used++] = '\\';
		out[used++] = (unsigned char)*text < ' ' || *text == 0x7f ? '?' : *text;
	}
	out[used] = '\0';
	return out;
}
