/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * From happenings to records. Where records go is trace_put()'s matter: the ring of a tracer (trace.c),
 * or a simulated run's file (sim/program/record.c).
 */
#include <stdio.h>
#include <string.h>

#include "base/ip_addr.h"
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

void trace_record_lids(struct trace_record *record, uint16_t slid, uint16_t dlid, const struct ib_way *way)
{
	record->slid = slid;
	record->dlid = dlid;
	record->sl = way->sl;
	record->has_grh = way->has_grh;
	if (way->has_grh)
		return;
	ip_addr_of_lid(record->source, slid);
	ip_addr_of_lid(record->destination, dlid);
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

void trace_explanation(const struct explained *explained)
{
	const struct explain_object *of = &explained->of;
	bool is_qp = of->kind == EXPLAIN_QP;
	char text[TRACE_TEXT_MAX - 200];

	snprintf(text, sizeof(text), "%.*s", (int)explained->bytes, explained->line);
	tracepoint(explain, .qp = is_qp ? (uint32_t)of->number : 0, .rule = explained->key,
		   .object = is_qp ? NULL : explain_kind_name(of->kind),
		   .number = { !is_qp && of->kind, of->number }, .wr_id = { of->has_wr_id, of->wr_id },
		   .text = text);
}
