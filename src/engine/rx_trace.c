/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Received packets in a trace: with the state that the QP had, and why they were dropped.
 */
#include <string.h>

#include "engine/internal.h"
#include "engine/links.h"
#include "engine/qp_table.h"
#include "trace/drops.h"

void rx_trace_begin(struct rx_traced *traced, const struct engine *engine,
		    const struct arrival *arrival)
{
	bool has_id = !arrival->datagram->sealed && !arrival->datagram->checked && arrival->icrc != ICRC_BAD;
	struct trace_record *record = &traced->record;
	size_t bytes = arrival->bytes;

	trace_record_init(record, TRACE_IS_PACKET, arrival->datagram);
	traced->bytes = bytes < sizeof(traced->data) ? bytes : sizeof(traced->data);
	memcpy(traced->data, arrival->data, traced->bytes);
	record->path = (uint8_t)(arrival->datagram->from_channel ? TRACE_RING :
				 arrival->datagram->sealed	 ? TRACE_LOOPBACK :
				 links_trace_path(arrival->datagram->link));
	if (arrival->datagram->link == ROUTE_IB)
		trace_record_lids(record, arrival->datagram->ib.lid, arrival->datagram->dlid,
				  &arrival->datagram->ib);
	if (record->path == TRACE_UDP)
		record->flags = TRACE_HAS_ICRC;
	if (!has_id || arrival->header.dont_fragment)
		record->flags |= TRACE_DONT_FRAGMENT;
	record->ip_id = has_id ? arrival->header.ip_id : (uint16_t)arrival->segment;
	record->qpn = packet_peek_qpn(traced->data, traced->bytes);
	record->time_ns = tracepoint_now_ns();
}

void rx_trace_end(struct rx_traced *traced, enum drop why)
{
	traced->record.drop = (uint16_t)why;
	if (trace_wants(TRACE_PACKETS))
		trace_packet(&traced->record, traced->data, traced->bytes, NULL);
	if (why && traced->bytes >= BTH_BYTES && trace_wants(TRACE_DROPS))
		trace_drop(&traced->record, traced->data, why);
}
