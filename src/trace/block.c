/* SPDX-License-Identifier: BSD-2-Clause */
/* From records to what readers of a trace see. */
#include "trace/block.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "base/ip_addr.h"
#include "base/print.h"
#include "tracepoint/drop.h"
#include "wire/ib_packet.h"
#include "wire/icrc.h"
#include "wire/packet.h"

#define SEND_SHOWN	16u	/* bytes of payload, as zeros if they were left out */
#define EVENT_MAX	(TRACE_TEXT_MAX + 128u)

const char *trace_path_name(unsigned path)
{
	static const char *const names[TRACE_WAYS] = { [TRACE_UDP] = "udp", [TRACE_LOOPBACK] = "loopback",
						       [TRACE_RING] = "ring", [TRACE_DIRECT] = "direct",
						       [TRACE_FABRIC] = "fabric",
						       [TRACE_ETHERNET] = "ethernet" };

	return path < TRACE_WAYS ? names[path] : "unknown";
}

void trace_comment(const struct trace_record *record, const char *route, char text[TRACE_COMMENT_MAX])
{
	/* enum ibv_qp_state, whose header the trace does without; a test compares both. */
	static const char *const states[] = { "RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR" };
	struct print comment = { .text = text, .size = TRACE_COMMENT_MAX };

	print_format(&comment, "path %s", trace_path_name(record->path));
	if (route && record->route) {
		print_format(&comment, "; route ");
		print_bytes(&comment, route, record->route);
	}
	if (record->qpn)
		print_format(&comment, "; qp 0x%06x", record->qpn & 0xffffff);
	if (record->state)
		print_format(&comment, "; state %s", record->state <= sizeof(states) / sizeof(states[0]) ?
						     states[record->state - 1u] : "unknown");
	if (record->flags & TRACE_HAS_WR_ID)
		print_format(&comment, "; wr_id %llu", (unsigned long long)record->wr_id);
	if (record->flags & TRACE_HAS_MESSAGE)
		print_format(&comment, "; message %u", record->message);
	if (record->manner)
		print_format(&comment, "; by %s",
			     record->manner == TRACE_STORED ? "store" : "copy");
	if (record->retransmission)
		print_format(&comment, "; retransmission %u", record->retransmission);
	if (record->drop && record->drop < DROP_COUNT)
		print_format(&comment, "; dropped %s",
			 counter_name(drop_row((enum drop)record->drop)->counter));
	else if (record->drop == TRACE_DROP_FAULT)
		print_format(&comment, "; dropped on purpose");
}

/* As the sender of this packet would. */
static void trace_seal(const struct pcapng_packet *packet, uint8_t *data, size_t bytes)
{
	const struct datagram *datagram = packet->datagram;
	bool ipv6 = !ip_addr_is_ipv4(datagram->destination);
	struct icrc_header header = { .ipv6 = ipv6, .source_port = datagram->source_port,
				      .destination_port = ROCE_UDP_PORT, .ip_id = packet->ip_id,
				      .dont_fragment = packet->dont_fragment };
	size_t skip = ipv6 ? 0 : 12;
	uint8_t headers[IB_HEADERS_MAX];

	if (packet->form == PCAPNG_ROCE_V2) {
		memcpy(header.source, datagram->source + skip, 16 - skip);
		memcpy(header.destination, datagram->destination + skip, 16 - skip);
		icrc_seal(&header, data, bytes);
		return;
	}
	pcapng_write_lrh(packet, bytes + ICRC_BYTES, headers);
	ib_packet_seal(headers, data, bytes);
}

/*
 * What lacks payload or ICRC becomes a whole packet that is shorter: without pad, its ICRC and lengths as they
 * would be. (Dissectors refuse packets whose payload is not there.)
 */
static size_t block_shorten(const struct pcapng_packet *packet, const uint8_t *data, size_t bytes, size_t length,
		      uint8_t shown[TRACE_RECORD_MAX])
{
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
	trace_seal(packet, shown, bytes);
	return bytes + ICRC_BYTES;
}

size_t trace_packet_block(const struct trace_record *record, uint32_t interface, bool outbound, bool twin,
			  const uint8_t *data, size_t bytes, size_t length, uint8_t out[TRACE_BLOCK_MAX])
{
	struct datagram datagram = { .flow_label = record->flow_label, .source_port = record->source_port,
				     .traffic_class = record->traffic_class, .hop_limit = record->hop_limit };
	const char *route = (const char *)data + bytes;
	char comment[sizeof("payload 4294967295; ") + TRACE_COMMENT_MAX] = "";
	uint8_t shown[TRACE_RECORD_MAX];
	struct pcapng_packet packet = { .datagram = &datagram, .data = data, .bytes = bytes, .length = length,
					.comment = comment, .interface = interface, .ip_id = record->ip_id,
					.dont_fragment = record->flags & TRACE_DONT_FRAGMENT,
					.form = record->slid ? PCAPNG_INFINIBAND :
						record->path == TRACE_ETHERNET ? PCAPNG_ROCE_V1 : PCAPNG_ROCE_V2,
					.slid = record->slid, .dlid = record->dlid, .sl = record->sl,
					.has_grh = record->has_grh,
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
	if (whole && bytes + ICRC_BYTES < length) {
		size_t around = opcode_get(data[0])->header_bytes + (data[1] >> 4 & 3) + ICRC_BYTES;

		snprintf(comment, sizeof(comment), "payload %zu; ", length > around ? length - around : 0);
	}
	trace_comment(record, route, comment + strlen(comment));
	/* Dissectors do not know all of them. */
	if (bytes && data[0] == OPCODE_CNP)
		strncat(comment, "; congestion notification, or an echo", sizeof(comment) - strlen(comment) - 1);
	comment[PCAPNG_COMMENT_MAX - 1] = '\0';
	return pcapng_write_packet(&packet, out);
}

size_t trace_event_members(const struct trace_record *record, const void *data,
			   char out[TRACE_TEXT_MAX])
{
	if (record->kind == TRACE_IS_POINT)
		return tracepoint_members(data, record->captured, out);
	return (size_t)snprintf(out, TRACE_TEXT_MAX, "%.*s", (int)record->captured,
				(const char *)data);
}

size_t trace_event_block(const struct trace_record *record, enum trace_version version,
			 uint32_t interface, const char *members, size_t bytes,
			 uint8_t out[TRACE_BLOCK_MAX])
{
	char text[EVENT_MAX];
	struct print json = { .text = text, .size = sizeof(text) };
	struct pcapng_event event = { .json = text,
				      .interface = interface,
				      .time_ns = record->time_ns };

	print_format(&json, "{\"v\":%u,\"thread\":%u,", (unsigned)version, record->thread);
	print_bytes(&json, members, strnlen(members, bytes));
	print_bytes(&json, "}", 1);
	event.bytes = json.used;
	return pcapng_write_event(&event, out);
}

static const char *operation_name(const struct trace_operation *operation)
{
	switch (operation->verb) {
	case VERB_WRITE:
		return operation->has_imm ? "RDMA_WRITE_WITH_IMM" : "RDMA_WRITE";
	case VERB_READ:
		return "RDMA_READ";
	case VERB_ATOMIC:
		return operation->swaps ? "ATOMIC_CMP_AND_SWP" : "ATOMIC_FETCH_AND_ADD";
	default:
		return operation->has_imm	? "SEND_WITH_IMM"
		       : operation->invalidates ? "SEND_WITH_INV"
						: "SEND";
	}
}

static const char *block_address(const uint8_t address[16], char out[INET6_ADDRSTRLEN])
{
	struct print text = { .text = out, .size = INET6_ADDRSTRLEN };

	if (!ip_addr_is_ipv4(address))
		return inet_ntop(AF_INET6, address, out, INET6_ADDRSTRLEN);
	print_format(&text, "%u.%u.%u.%u", address[12], address[13], address[14], address[15]);
	return out;
}

size_t trace_operation_block(const struct trace_record *record,
			     const struct trace_operation *operation, uint32_t interface,
			     uint8_t out[TRACE_BLOCK_MAX])
{
	char source[INET6_ADDRSTRLEN], destination[INET6_ADDRSTRLEN], comment[TRACE_COMMENT_MAX];
	char text[EVENT_MAX];
	struct print json = { .text = text, .size = sizeof(text) };
	struct pcapng_event event = { .json = text,
				      .comment = comment,
				      .interface = interface,
				      .outbound = record->flags & TRACE_OUTBOUND,
				      .time_ns = record->time_ns };
	bool consumed = operation->verb == VERB_ACK;

	trace_comment(record, NULL, comment);
	print_format(&json, "{\"v\":%u,\"thread\":%u,\"event\":\"%s\",\"qp\":\"0x%06x\"",
		 (unsigned)TRACE_AS_OPERATIONS, record->thread, consumed ? "consumed" : "operation",
		 record->qpn & 0xffffff);
	if (!consumed)
		print_format(&json, ",\"opcode\":\"%s\",\"bytes\":%u", operation_name(operation),
			 operation->bytes);
	print_format(&json, ",\"source\":\"%s\",\"destination\":\"%s\",\"dest_qp\":\"0x%06x\"",
		 block_address(record->source, source),
		 block_address(record->destination, destination), operation->dest_qpn & 0xffffff);
	if (operation->service == SERVICE_UC)
		print_format(&json, ",\"service\":\"UC\"");
	if (operation->verb == VERB_WRITE || operation->verb == VERB_READ ||
	    operation->verb == VERB_ATOMIC)
		print_format(&json, ",\"address\":\"0x%llx\",\"rkey\":\"0x%x\"",
			 (unsigned long long)operation->address, operation->rkey);
	if (operation->has_imm || operation->invalidates)
		print_format(&json, operation->has_imm ? ",\"imm\":%u" : ",\"invalidate\":\"0x%x\"",
			 operation->imm);
	if (operation->verb == VERB_ATOMIC && operation->swaps)
		print_format(&json, ",\"swap\":%llu", (unsigned long long)operation->swap);
	if (operation->verb == VERB_ATOMIC)
		print_format(&json, ",\"%s\":%llu,\"original\":%llu",
			 operation->swaps ? "compare" : "add",
			 (unsigned long long)operation->compare_add,
			 (unsigned long long)operation->original);
	print_format(&json, operation->solicited ? ",\"solicited\":true}" : "}");
	event.bytes = json.used;
	return pcapng_write_event(&event, out);
}
