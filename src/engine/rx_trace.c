/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Received packets in a trace: with the state that the QP had, and why they were dropped. Whoever drops one counts
 * it, while this thread has the progress lock: so the counter that went up is the reason.
 */
#include <string.h>

#include "engine/internal.h"
#include "engine/qp_table.h"

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

static enum trace_path rx_path(const struct engine *engine, const struct datagram *datagram)
{
	return datagram->from_channel ? TRACE_RING : datagram->sealed ? TRACE_LOOPBACK : TRACE_UDP;
}

void rx_trace_begin(struct rx_traced *traced, struct engine *engine, const struct datagram *datagram,
		    const uint8_t *data, size_t bytes, unsigned segment)
{
	struct trace_record *record = &traced->record;
	bool dont_fragment = true;
	uint16_t ip_id = (uint16_t)segment;

	trace_record_init(record, TRACE_IS_PACKET, datagram);
	traced->bytes = bytes < sizeof(traced->data) ? bytes : sizeof(traced->data);
	memcpy(traced->data, data, traced->bytes);
	record->path = (uint8_t)rx_path(engine, datagram);
	if (record->path == TRACE_UDP) {
		rx_find_ip_id(datagram, data, bytes, segment, &ip_id, &dont_fragment);
		record->flags = TRACE_HAS_ICRC;
	}
	record->flags |= dont_fragment ? TRACE_DONT_FRAGMENT : 0;
	record->ip_id = ip_id;
	record->qpn = packet_peek_qpn(traced->data, traced->bytes);
	record->time_ns = trace_now_ns();
	for (size_t i = 0; i < DROPS; i++)
		traced->counts[i] = counter_get(engine->counters, drops[i]);
}

static void trace_drop(const struct rx_traced *traced, enum counter reason)
{
	const uint8_t *data = traced->data;
	const struct opcode *op = opcode_get(data[0]);
	unsigned psn = (unsigned)data[9] << 16 | (unsigned)data[10] << 8 | data[11];

	trace_event(TRACE_DROPS, traced->record.qpn, traced->record.time_ns, "drop",
		    "\"qp\":\"0x%06x\",\"reason\":\"%s\",\"psn\":%u,\"opcode\":\"%s\"", traced->record.qpn,
		    counter_name(reason), psn, op ? op->name : "unknown");
}

void rx_trace_end(struct rx_traced *traced, struct engine *engine)
{
	size_t i;

	for (i = 0; i < DROPS && counter_get(engine->counters, drops[i]) == traced->counts[i]; i++)
		;
	if (i < DROPS)
		traced->record.drop = (uint16_t)(drops[i] + 1);
	if (trace_wants(TRACE_PACKETS))
		trace_packet(&traced->record, traced->data, traced->bytes);
	if (i < DROPS && traced->bytes >= BTH_BYTES && trace_wants(TRACE_DROPS))
		trace_drop(traced, drops[i]);
}
