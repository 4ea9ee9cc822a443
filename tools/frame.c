/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Finds the layers of a captured frame, each by the one before it. Reads nothing beyond what was captured; lengths
 * come from the IP header, since Ethernet pads short frames.
 *
 *	link type -> Ethernet type -> IPv4, IPv6: UDP -> 4791: BTH; 4789, 8472, 6081: Ethernet once more
 *				   -> 0x8915: GRH, BTH
 *	ERF, InfiniBand: LRH -> BTH, or GRH, BTH
 */
#include "frame.h"

#include <string.h>

#include "base/bytes.h"

#define ROCE_PORT	4791u
#define VXLAN_PORT	4789u
#define VXLAN_LINUX	8472u		/* before there was a number */
#define GENEVE_PORT	6081u
#define VXLAN_BYTES	8u
#define ETHERTYPE_IPV4	0x0800u
#define ETHERTYPE_IPV6	0x86ddu
#define ETHERTYPE_VLAN	0x8100u
#define ETHERTYPE_QINQ	0x88a8u
#define ETHERTYPE_OLD_QINQ 0x9100u
#define ETHERTYPE_ROCE	0x8915u
#define ETHERTYPE_BRIDGED 0x6558u	/* Geneve: Ethernet */
#define ETHERNET_BYTES	14u
#define UDP_BYTES	8u
#define PROTOCOL_UDP	17u
#define PROTOCOL_IPV4	4u		/* in IP */
#define PROTOCOL_IPV6	41u
#define PROTOCOL_GRE	47u
#define ETHERTYPE_MPLS	0x8847u
#define GRH_NEXT_BTH	0x1bu
#define LRH_BYTES	8u
#define ERF_BYTES	16u
#define EXPORTED_NAME	12u
#define TUNNELS_MAX	4u

enum erf_type { ERF_ETHERNET = 2, ERF_INFINIBAND = 21 };
enum lrh_next { LRH_LOCAL = 2, LRH_GLOBAL = 3 };

/* What is read, and how far: @at is where the next layer begins. */
struct walk {
	const struct capture_record *record;
	struct frame *frame;
	uint32_t at;
	unsigned tunnels;
};

static const uint8_t *walk_bytes(const struct walk *walk)
{
	return walk->record->data + walk->at;
}

static uint32_t walk_left(const struct walk *walk)
{
	return walk->at < walk->record->bytes ? walk->record->bytes - walk->at : 0;
}

/* ---- addresses ---- */

static void map_ipv4(uint8_t mapped[16], const uint8_t *address)
{
	memset(mapped, 0, 10);
	memset(mapped + 10, 0xff, 2);
	memcpy(mapped + 12, address, 4);
}

/* In a range of IPv6 that no host has (100::/8). */
static void map_lid(uint8_t mapped[16], const uint8_t *lid)
{
	memset(mapped, 0, 14);
	mapped[0] = 1;
	mapped[1] = 'L';
	memcpy(mapped + 14, lid, 2);
}

int frame_lid_of(const uint8_t address[16])
{
	static const uint8_t begin[14] = { 1, 'L' };

	return memcmp(address, begin, sizeof(begin)) ? -1 : (int)get_be16(address + 14);
}

/* ---- the packet ---- */

static enum frame_kind find_packet(const struct walk *walk, uint32_t roce_bytes)
{
	struct frame *frame = walk->frame;
	const uint8_t *bth = walk_bytes(walk);
	const struct opcode *op;

	frame->bth = (int)walk->at;
	frame->roce_bytes = roce_bytes;
	frame->captured = walk_left(walk) < roce_bytes ? walk_left(walk) : roce_bytes;
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

/* ---- RoCE of version 1, InfiniBand ---- */

static enum frame_kind find_grh(struct walk *walk, enum frame_form form)
{
	struct frame *frame = walk->frame;
	const uint8_t *grh = walk_bytes(walk);

	if (walk_left(walk) < GRH_BYTES)
		return FRAME_CUT;
	if (grh[0] >> 4 != 6 || grh[6] != GRH_NEXT_BTH)
		return FRAME_OTHER;
	frame->form = form;
	frame->ip = (int)walk->at;
	frame->ipv6 = true;
	memcpy(frame->source, grh + 8, 16);
	memcpy(frame->destination, grh + 24, 16);
	walk->at += GRH_BYTES;
	return find_packet(walk, get_be16(grh + 4));
}

static enum frame_kind find_lrh(struct walk *walk)
{
	struct frame *frame = walk->frame;
	const uint8_t *lrh = walk_bytes(walk);
	uint32_t bytes;

	if (walk_left(walk) < LRH_BYTES)
		return FRAME_CUT;
	bytes = (get_be16(lrh + 4) & 0x7ffu) * 4;	/* to the ICRC */
	frame->lrh = (int)walk->at;
	frame->form = FRAME_INFINIBAND;
	walk->at += LRH_BYTES;
	if ((lrh[1] & 3) == LRH_GLOBAL)
		return find_grh(walk, FRAME_INFINIBAND);
	if ((lrh[1] & 3) != LRH_LOCAL || bytes < LRH_BYTES)
		return FRAME_OTHER;
	map_lid(frame->destination, lrh + 2);
	map_lid(frame->source, lrh + 6);
	return find_packet(walk, bytes - LRH_BYTES);
}

/* ---- IP, UDP ---- */

static enum frame_kind find_ethernet(struct walk *walk);

/* A network in a network: what it holds counts. */
static enum frame_kind find_tunneled(struct walk *walk, uint32_t header_bytes)
{
	if (walk_left(walk) < header_bytes || walk->tunnels++ >= TUNNELS_MAX)
		return FRAME_OTHER;
	walk->at += header_bytes;
	*walk->frame = (struct frame){ .lrh = FRAME_LAYER_NONE, .ip = FRAME_LAYER_NONE, .udp = FRAME_LAYER_NONE,
				       .bth = FRAME_LAYER_NONE, .ethernet = FRAME_LAYER_NONE };
	return find_ethernet(walk);
}

static enum frame_kind find_ip(struct walk *walk);

/* Checksum, key and sequence number where the flags say so (RFC 2784, 2890); then Ethernet or IP. */
static enum frame_kind find_gre(struct walk *walk)
{
	const uint8_t *gre = walk_bytes(walk);
	uint32_t bytes;
	uint16_t type;

	if (walk_left(walk) < 4)
		return FRAME_OTHER;
	bytes = 4 + 4 * (uint32_t)(!!(gre[0] & 0x80) + !!(gre[0] & 0x20) + !!(gre[0] & 0x10));
	type = get_be16(gre + 2);
	if (type == ETHERTYPE_BRIDGED)
		return find_tunneled(walk, bytes);
	if ((type != ETHERTYPE_IPV4 && type != ETHERTYPE_IPV6) || walk->tunnels++ >= TUNNELS_MAX)
		return FRAME_OTHER;
	walk->at += bytes;
	return find_ip(walk);
}

/* What is behind an IP header. @rest: its bytes by that header. */
static enum frame_kind find_udp(struct walk *walk, uint32_t rest);

static enum frame_kind find_protocol(struct walk *walk, uint8_t protocol, uint32_t rest)
{
	switch (protocol) {
	case PROTOCOL_UDP:
		return find_udp(walk, rest);
	case PROTOCOL_GRE:
		return find_gre(walk);
	case PROTOCOL_IPV4:
	case PROTOCOL_IPV6:
		return walk->tunnels++ < TUNNELS_MAX ? find_ip(walk) : FRAME_OTHER;
	default:
		return FRAME_OTHER;
	}
}

static enum frame_kind find_udp(struct walk *walk, uint32_t rest)
{
	struct frame *frame = walk->frame;
	const uint8_t *udp = walk_bytes(walk);
	uint16_t port;

	if (walk_left(walk) < UDP_BYTES || rest < UDP_BYTES)
		return FRAME_OTHER;
	frame->udp = (int)walk->at;
	frame->source_port = get_be16(udp);
	port = get_be16(udp + 2);
	walk->at += UDP_BYTES;
	if (port == VXLAN_PORT || port == VXLAN_LINUX)
		return find_tunneled(walk, VXLAN_BYTES);
	if (port == GENEVE_PORT)
		return walk_left(walk) >= 8 && get_be16(walk_bytes(walk) + 2) == ETHERTYPE_BRIDGED ?
		       find_tunneled(walk, 8 + (walk_bytes(walk)[0] & 0x3fu) * 4) : FRAME_OTHER;
	if (port != ROCE_PORT)
		return FRAME_OTHER;
	if (frame->is_fragment && get_be16(udp + 4) > rest)
		rest = get_be16(udp + 4);	/* of all fragments */
	return find_packet(walk, rest - UDP_BYTES);
}

enum ipv6_header { IPV6_HOP_BY_HOP = 0, IPV6_ROUTING = 43, IPV6_FRAGMENT = 44, IPV6_OPTIONS = 60 };

static bool is_extension(uint8_t header)
{
	return header == IPV6_HOP_BY_HOP || header == IPV6_ROUTING || header == IPV6_FRAGMENT ||
	       header == IPV6_OPTIONS;
}

static enum frame_kind find_ipv6(struct walk *walk)
{
	const uint8_t *ip = walk_bytes(walk);
	uint32_t rest;
	uint8_t next;

	if (walk_left(walk) < 40)
		return FRAME_OTHER;
	walk->frame->ipv6 = true;
	memcpy(walk->frame->source, ip + 8, 16);
	memcpy(walk->frame->destination, ip + 24, 16);
	rest = get_be16(ip + 4);
	next = ip[6];
	walk->at += 40;
	while (is_extension(next)) {
		const uint8_t *extension = walk_bytes(walk);
		uint32_t bytes;

		if (walk_left(walk) < 8)
			return FRAME_OTHER;
		bytes = next == IPV6_FRAGMENT ? 8 : 8 + extension[1] * 8u;
		if (next == IPV6_FRAGMENT && get_be16(extension + 2) & 0xfff8)
			return extension[0] == PROTOCOL_UDP ? FRAME_REST : FRAME_OTHER;
		if (next == IPV6_FRAGMENT)
			walk->frame->is_fragment = extension[3] & 1;
		if (bytes > rest)
			return FRAME_OTHER;
		next = extension[0];
		walk->at += bytes;
		rest -= bytes;
	}
	return find_protocol(walk, next, rest);
}

static enum frame_kind find_ipv4(struct walk *walk)
{
	const uint8_t *ip = walk_bytes(walk);
	uint32_t left = walk_left(walk), head = (ip[0] & 15u) * 4, total;
	uint16_t fragment;

	if (left < 20 || ip[0] >> 4 != 4 || head < 20 || left < head)
		return FRAME_OTHER;
	fragment = get_be16(ip + 6);
	if (fragment & 0x1fff)
		return ip[9] == PROTOCOL_UDP ? FRAME_REST : FRAME_OTHER;
	walk->frame->is_fragment = fragment & 0x2000;
	total = get_be16(ip + 2);
	map_ipv4(walk->frame->source, ip + 12);
	map_ipv4(walk->frame->destination, ip + 16);
	walk->at += head;
	return find_protocol(walk, ip[9], total > head ? total - head : 0);
}

static enum frame_kind find_ip(struct walk *walk)
{
	if (!walk_left(walk))
		return FRAME_OTHER;
	walk->frame->ip = (int)walk->at;
	return walk_bytes(walk)[0] >> 4 == 6 ? find_ipv6(walk) : find_ipv4(walk);
}

/* ---- links ---- */

/* @at: behind an Ethernet type. */
static enum frame_kind find_by_type(struct walk *walk)
{
	uint16_t type = get_be16(walk_bytes(walk) - 2);

	while (type == ETHERTYPE_VLAN || type == ETHERTYPE_QINQ || type == ETHERTYPE_OLD_QINQ) {
		if (walk_left(walk) < 4)
			return FRAME_OTHER;
		walk->at += 4;
		type = get_be16(walk_bytes(walk) - 2);
	}
	if (type == ETHERTYPE_ROCE)
		return find_grh(walk, FRAME_ROCE_V1);
	if (type == ETHERTYPE_MPLS) {
		bool last;

		do {
			if (walk_left(walk) < 4)
				return FRAME_OTHER;
			last = walk_bytes(walk)[2] & 1;
			walk->at += 4;
		} while (!last);
		return find_ip(walk);
	}
	return type == ETHERTYPE_IPV4 || type == ETHERTYPE_IPV6 ? find_ip(walk) : FRAME_OTHER;
}

static enum frame_kind find_ethernet(struct walk *walk)
{
	if (walk_left(walk) < ETHERNET_BYTES)
		return FRAME_OTHER;
	walk->frame->ethernet = (int)walk->at;
	walk->at += ETHERNET_BYTES;
	return find_by_type(walk);
}

static enum frame_kind find_cooked(struct walk *walk, uint32_t bytes, uint32_t type_at)
{
	if (walk_left(walk) < bytes)
		return FRAME_OTHER;
	if (type_at + 2 == bytes) {
		walk->at += bytes;
		return find_by_type(walk);
	}
	if (get_be16(walk_bytes(walk) + type_at) == ETHERTYPE_ROCE) {
		walk->at += bytes;
		return find_grh(walk, FRAME_ROCE_V1);
	}
	walk->at += bytes;
	return find_ip(walk);
}

/* Records of an Endace card: a header, perhaps more of them, then the frame. */
static enum frame_kind find_erf(struct walk *walk)
{
	uint8_t type, more;

	if (walk_left(walk) < ERF_BYTES)
		return FRAME_OTHER;
	type = more = walk_bytes(walk)[8];
	walk->at += ERF_BYTES;
	while (more & 0x80) {
		if (walk_left(walk) < 8)
			return FRAME_OTHER;
		more = walk_bytes(walk)[0];
		walk->at += 8;
	}
	if ((type & 0x7f) == ERF_INFINIBAND)
		return find_lrh(walk);
	if ((type & 0x7f) != ERF_ETHERNET)
		return FRAME_LINK;
	walk->at += 2;
	return find_ethernet(walk);
}

/* Tags of type 16, length 16, value; one names what follows: the other end of a packet (docs/trace-format.md). */
static enum frame_kind find_twin(struct walk *walk)
{
	static const char name[] = "verbatim_twin";
	bool is_twin = false;
	uint16_t type, length;

	do {
		if (walk_left(walk) < 4)
			return FRAME_OTHER;
		type = get_be16(walk_bytes(walk));
		length = get_be16(walk_bytes(walk) + 2);
		walk->at += 4;
		if (walk_left(walk) < length)
			return FRAME_OTHER;
		if (type == EXPORTED_NAME && length >= sizeof(name) &&
		    !memcmp(walk_bytes(walk), name, sizeof(name)))
			is_twin = true;
		walk->at += length;
	} while (type);
	/* No version of IP is 0, as its VL is here. */
	if (is_twin && walk_left(walk) && !(walk_bytes(walk)[0] >> 4))
		return find_lrh(walk);
	if (is_twin && walk_left(walk) >= GRH_BYTES && walk_bytes(walk)[0] >> 4 == 6 &&
	    walk_bytes(walk)[6] == GRH_NEXT_BTH)
		return find_grh(walk, FRAME_ROCE_V1);
	return is_twin ? find_ip(walk) : FRAME_OTHER;
}

static enum frame_kind find_link(struct walk *walk, uint16_t linktype)
{
	switch (linktype) {
	case LINKTYPE_ETHERNET:
		return find_ethernet(walk);
	case LINKTYPE_LINUX_SLL:
		return find_cooked(walk, 16, 14);
	case LINKTYPE_LINUX_SLL2:
		return find_cooked(walk, 20, 0);
	case LINKTYPE_NULL:
	case LINKTYPE_LOOP:	/* 4 bytes of an address family, whose numbers differ: the IP header says which */
		walk->at += 4;
		return find_ip(walk);
	case LINKTYPE_RAW:
	case LINKTYPE_RAW_BSD:
	case LINKTYPE_RAW_OPENBSD:
	case LINKTYPE_IPV4:
	case LINKTYPE_IPV6:
		return find_ip(walk);
	case LINKTYPE_INFINIBAND:
		return find_lrh(walk);
	case LINKTYPE_ERF:
		return find_erf(walk);
	case LINKTYPE_EXPORTED_PDU:
		return find_twin(walk);
	default:
		return FRAME_LINK;
	}
}

enum frame_kind frame_parse(const struct capture_record *record, uint16_t linktype, struct frame *frame)
{
	struct walk walk = { .record = record, .frame = frame };

	*frame = (struct frame){ .lrh = FRAME_LAYER_NONE, .ip = FRAME_LAYER_NONE, .udp = FRAME_LAYER_NONE,
				 .bth = FRAME_LAYER_NONE, .ethernet = FRAME_LAYER_NONE };
	return find_link(&walk, linktype);
}

bool frame_cm(const struct frame *frame, struct cm_message *message)
{
	return frame->packet.op->code == OPCODE_UD_SEND_ONLY && frame->packet.dest_qpn == 1 &&
	       frame->payload_captured >= MAD_BYTES && cm_message_parse(frame->packet.payload, message);
}
