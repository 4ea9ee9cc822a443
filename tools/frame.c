/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Finds the layers of a captured frame, each by the one before it. Reads nothing beyond what was captured; lengths
 * come from the IP header, since Ethernet pads short frames.
 */
#include "frame.h"

#include <string.h>

#include "base/bytes.h"

#define ROCE_PORT	4791u
#define ETHERTYPE_IPV4	0x0800u
#define ETHERTYPE_IPV6	0x86ddu
#define ETHERTYPE_VLAN	0x8100u
#define ETHERTYPE_QINQ	0x88a8u
#define UDP_BYTES	8u
#define PROTOCOL_UDP	17u

static bool skip_vlans(const struct capture_record *record, uint32_t *at, uint16_t *type)
{
	*type = get_be16(record->data + *at - 2);
	while (*type == ETHERTYPE_VLAN || *type == ETHERTYPE_QINQ) {
		if (record->bytes < *at + 4)
			return false;
		*at += 4;
		*type = get_be16(record->data + *at - 2);
	}
	return *type == ETHERTYPE_IPV4 || *type == ETHERTYPE_IPV6;
}

/* Where the IP header begins. */
static bool find_ip(const struct capture_record *record, uint16_t linktype, struct frame *frame)
{
	uint32_t at = 0;
	uint16_t type;

	frame->ethernet = FRAME_LAYER_NONE;
	if (linktype == LINKTYPE_ETHERNET || linktype == LINKTYPE_LINUX_SLL) {
		at = linktype == LINKTYPE_ETHERNET ? 14 : 16;
		if (record->bytes < at || !skip_vlans(record, &at, &type))
			return false;
		frame->ethernet = linktype == LINKTYPE_ETHERNET ? 0 : FRAME_LAYER_NONE;
	} else if (linktype == LINKTYPE_LINUX_SLL2) {
		at = 20;
	} else if (linktype != LINKTYPE_RAW && linktype != LINKTYPE_IPV4 && linktype != LINKTYPE_IPV6) {
		return false;
	}
	frame->ip = (int)at;
	return record->bytes > at;
}

static void map_ipv4(uint8_t mapped[16], const uint8_t *address)
{
	memset(mapped, 0, 10);
	memset(mapped + 10, 0xff, 2);
	memcpy(mapped + 12, address, 4);
}

/* Where the UDP header begins; *rest: bytes from there on, by the IP header. */
static bool find_udp(const struct capture_record *record, struct frame *frame, uint32_t *rest)
{
	const uint8_t *ip = record->data + frame->ip;
	uint32_t left = record->bytes - (uint32_t)frame->ip, head, total;

	frame->ipv6 = ip[0] >> 4 == 6;
	if (frame->ipv6) {
		if (left < 40 || ip[6] != PROTOCOL_UDP)
			return false;
		memcpy(frame->source, ip + 8, 16);
		memcpy(frame->destination, ip + 24, 16);
		*rest = get_be16(ip + 4);
		frame->udp = frame->ip + 40;
		return true;
	}
	head = (ip[0] & 15u) * 4;
	if (left < 20 || ip[0] >> 4 != 4 || head < 20 || left < head || ip[9] != PROTOCOL_UDP ||
	    get_be16(ip + 6) & 0x3fff)
		return false;
	total = get_be16(ip + 2);
	map_ipv4(frame->source, ip + 12);
	map_ipv4(frame->destination, ip + 16);
	*rest = total > head ? total - head : 0;
	frame->udp = frame->ip + (int)head;
	return true;
}

static enum frame_kind find_packet(const struct capture_record *record, struct frame *frame)
{
	const uint8_t *bth = record->data + frame->bth;
	const struct opcode *op;

	if (frame->captured < BTH_BYTES)
		return FRAME_CUT;
	op = opcode_get(bth[0]);
	if (op && frame->captured < op->header_bytes)
		return FRAME_CUT;
	/* It reads headers only, and these are there. */
	frame->verdict = packet_parse(bth, frame->roce_bytes, &frame->packet);
	if (frame->verdict != PARSE_OK)
		return FRAME_UNKNOWN;
	frame->payload_captured = frame->captured - (uint32_t)frame->packet.op->header_bytes;
	if (frame->payload_captured > frame->packet.payload_bytes)
		frame->payload_captured = (uint32_t)frame->packet.payload_bytes;
	return FRAME_PACKET;
}

enum frame_kind frame_parse(const struct capture_record *record, uint16_t linktype, struct frame *frame)
{
	uint32_t rest, begin;

	*frame = (struct frame){ .udp = FRAME_LAYER_NONE, .bth = FRAME_LAYER_NONE };
	if (!find_ip(record, linktype, frame) || !find_udp(record, frame, &rest))
		return FRAME_OTHER;
	begin = (uint32_t)frame->udp;
	if (record->bytes < begin + UDP_BYTES || rest < UDP_BYTES ||
	    get_be16(record->data + begin + 2) != ROCE_PORT)
		return FRAME_OTHER;
	frame->source_port = get_be16(record->data + begin);
	frame->bth = (int)(begin + UDP_BYTES);
	frame->roce_bytes = rest - UDP_BYTES;
	frame->captured = record->bytes - (uint32_t)frame->bth;
	if (frame->captured > frame->roce_bytes)
		frame->captured = frame->roce_bytes;
	return find_packet(record, frame);
}

bool frame_cm(const struct frame *frame, struct cm_message *message)
{
	return frame->packet.op->code == OPCODE_UD_SEND_ONLY && frame->packet.dest_qpn == 1 &&
	       frame->payload_captured >= MAD_BYTES && cm_message_parse(frame->packet.payload, message);
}
