/* SPDX-License-Identifier: BSD-2-Clause */
/* From records to what readers of a trace see. */
#include "trace/block.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "tracepoint/drop.h"
#include "wire/icrc.h"
#include "wire/packet.h"

#define SEND_SHOWN	16u	/* bytes of payload, as zeros if they were left out */

const char *trace_path_name(unsigned path)
{
	static const char *const names[TRACE_WAYS] = { [TRACE_UDP] = "udp", [TRACE_LOOPBACK] = "loopback",
						       [TRACE_RING] = "ring", [TRACE_DIRECT] = "direct" };

	return path < TRACE_WAYS ? names[path] : "unknown";
}

/* enum ibv_qp_state, whose header the trace does without; a test compares both. */
static const char *state_name(unsigned state)
{
	static const char *const names[] = { "RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR" };

	return state < sizeof(names) / sizeof(names[0]) ? names[state] : "unknown";
}

struct comment {
	char *text;
	size_t used;
};

static void comment_add(struct comment *comment, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static void comment_add(struct comment *comment, const char *format, ...)
{
	va_list arguments;
	int length;

	va_start(arguments, format);
	length = vsnprintf(comment->text + comment->used, TRACE_COMMENT_MAX - comment->used, format, arguments);
	va_end(arguments);
	if (length > 0 && comment->used + (size_t)length < TRACE_COMMENT_MAX)
		comment->used += (size_t)length;
}

void trace_comment(const struct trace_record *record, char text[TRACE_COMMENT_MAX])
{
	struct comment comment = { .text = text };

	comment_add(&comment, "path %s", trace_path_name(record->path));
	if (record->qpn)
		comment_add(&comment, "; qp 0x%06x", record->qpn & 0xffffff);
	if (record->state)
		comment_add(&comment, "; state %s", state_name(record->state - 1u));
	if (record->flags & TRACE_HAS_WR_ID)
		comment_add(&comment, "; wr_id %llu", (unsigned long long)record->wr_id);
	if (record->flags & TRACE_HAS_MESSAGE)
		comment_add(&comment, "; message %u", record->message);
	if (record->manner)
		comment_add(&comment, "; by %s", record->manner == TRACE_STORED ? "store" : "copy");
	if (record->retransmission)
		comment_add(&comment, "; retransmission %u", record->retransmission);
	if (record->drop && record->drop < DROP_COUNT)
		comment_add(&comment, "; dropped %s", counter_name(drop_row((enum drop)record->drop)->counter));
	else if (record->drop == TRACE_DROP_FAULT)
		comment_add(&comment, "; dropped on purpose");
}

/* As the sender of this packet would seal it. */
static struct icrc_header icrc_header_for(const struct datagram *datagram, const struct pcapng_packet *packet)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
	bool ipv6 = memcmp(datagram->destination, mapped, sizeof(mapped));
	struct icrc_header header = { .ipv6 = ipv6, .source_port = datagram->source_port,
				      .destination_port = ROCE_UDP_PORT, .ip_id = packet->ip_id,
				      .dont_fragment = packet->dont_fragment };
	size_t skip = ipv6 ? 0 : 12;

	memcpy(header.source, datagram->source + skip, 16 - skip);
	memcpy(header.destination, datagram->destination + skip, 16 - skip);
	return header;
}

/*
 * What lacks payload or ICRC becomes a whole packet that is shorter: without pad, its ICRC and lengths as they
 * would be. (Dissectors refuse packets whose payload is not there.)
 */
static size_t block_shorten(const struct pcapng_packet *packet, const uint8_t *data, size_t bytes, size_t length,
		      uint8_t shown[TRACE_RECORD_MAX])
{
	struct icrc_header header = icrc_header_for(packet->datagram, packet);
	const struct opcode *op = bytes >= BTH_BYTES ? opcode_get(data[0]) : NULL;

	if (!op || bytes < op->header_bytes || bytes > TRACE_RECORD_MAX - SEND_SHOWN - ICRC_BYTES)
		return 0;
	memcpy(shown, data, bytes);
	if (bytes + ICRC_BYTES < length) {
		bytes -= (bytes - op->header_bytes) % 4;
		shown[1] &= 0xcf;	/* pad count */
		/* tshark asks each SEND of a connection whether it is RPC, and reads as much without looking. */
		if (op->verb == VERB_SEND && bytes < op->header_bytes + SEND_SHOWN) {
			memset(shown + bytes, 0, op->header_bytes + SEND_SHOWN - bytes);
			bytes = op->header_bytes + SEND_SHOWN;
		}
	}
	icrc_seal(&header, shown, bytes);
	return bytes + ICRC_BYTES;
}

/* Of a packet of @length bytes that begins with @data. */
static size_t block_payload(const uint8_t *data, size_t length)
{
	size_t around = opcode_get(data[0])->header_bytes + (data[1] >> 4 & 3) + ICRC_BYTES;

	return length > around ? length - around : 0;
}

size_t trace_packet_block(const struct trace_record *record, uint32_t interface, bool outbound, bool twin,
			  const uint8_t *data, size_t bytes, size_t length, uint8_t out[TRACE_BLOCK_MAX])
{
	struct datagram datagram = { .flow_label = record->flow_label, .source_port = record->source_port,
				     .traffic_class = record->traffic_class, .hop_limit = record->hop_limit };
	char comment[sizeof("payload 4294967295; ") + TRACE_COMMENT_MAX] = "";
	uint8_t shown[TRACE_RECORD_MAX];
	struct pcapng_packet packet = { .datagram = &datagram, .data = data, .bytes = bytes, .length = length,
					.comment = comment, .interface = interface, .ip_id = record->ip_id,
					.dont_fragment = record->flags & TRACE_DONT_FRAGMENT,
					.outbound = outbound, .twin = twin, .time_ns = record->time_ns };
	size_t whole;

	memcpy(datagram.source, record->source, 16);
	memcpy(datagram.destination, record->destination, 16);
	whole = bytes < length ? block_shorten(&packet, data, bytes, length, shown) : 0;
	if (whole) {
		packet.data = shown;
		packet.bytes = whole;
	}
	/* The blocks' own lengths include pad and what dissectors want. */
	if (whole && bytes + ICRC_BYTES < length)
		snprintf(comment, sizeof(comment), "payload %zu; ", block_payload(data, length));
	trace_comment(record, comment + strlen(comment));
	/* Dissectors do not know all of them. */
	if (bytes && data[0] == OPCODE_CNP)
		strncat(comment, "; congestion notification, or an echo", sizeof(comment) - strlen(comment) - 1);
	comment[PCAPNG_COMMENT_MAX - 1] = '\0';
	return pcapng_write_packet(&packet, out);
}

size_t trace_event_json(const struct trace_record *record, const char *members, size_t bytes, char *out,
			size_t size)
{
	int length = snprintf(out, size, "{\"v\":1,\"thread\":%u,%.*s}", record->thread, (int)bytes, members);

	return length > 0 && (size_t)length < size ? (size_t)length : 0;
}
