/* SPDX-License-Identifier: BSD-2-Clause */
/* Finds the headers of a frame, those of one tunnel included, and computes the checksums of IP, TCP and UDP. */
#include "ethernet/frame.h"

#include <string.h>

#include "base/bytes.h"

#define TYPE_IPV4	0x0800u
#define TYPE_IPV6	0x86ddu
#define TYPE_VLAN	0x8100u
#define TYPE_SERVICE	0x88a8u		/* outer tag of 802.1ad */
#define TYPE_MPLS	0x8847u
#define TYPE_MPLS_MANY	0x8848u
#define TYPE_BRIDGED	0x6558u		/* Ethernet in GRE */

#define PROTOCOL_HOPOPTS 0u
#define PROTOCOL_IPIP	4u
#define PROTOCOL_TCP	6u
#define PROTOCOL_UDP	17u
#define PROTOCOL_IPV6	41u
#define PROTOCOL_ROUTING 43u
#define PROTOCOL_FRAGMENT 44u
#define PROTOCOL_GRE	47u
#define PROTOCOL_ESP	50u
#define PROTOCOL_OPTIONS 60u

#define VXLAN_PORT	4789u
#define VXLAN_BYTES	8u
#define IPV4_BYTES	20u
#define IPV6_BYTES	40u
#define UDP_BYTES	8u
#define TCP_BYTES	20u
#define LABEL_BYTES	4u
#define EXTENSIONS_MAX	8u
#define LABELS_MAX	8u
#define TAGS_MAX	2u

/* What is left to look at, and of which stack. */
struct reader {
	const uint8_t *at;
	size_t left;
	struct frame_stack *stack;
	struct frame_stack *inner;	/* NULL: it is the inner one */
};

static void read_ethernet(struct reader *reader);
static void read_type(struct reader *reader, uint16_t type);

static void reader_advance(struct reader *reader, size_t bytes)
{
	reader->at += bytes;
	reader->left -= bytes;
}

/* Behind a tunnel's header; a second tunnel is not looked into. */
static bool enter_tunnel(struct reader *reader)
{
	if (!reader->inner)
		return false;
	reader->stack = reader->inner;
	reader->inner = NULL;
	return true;
}

/* ---- transport protocols ---- */

static void read_udp(struct reader *reader)
{
	if (reader->left < UDP_BYTES)
		return;
	reader->stack->layer[LAYER_UDP] = reader->at;
	if (get_be16(reader->at + 2) != VXLAN_PORT || reader->left < UDP_BYTES + VXLAN_BYTES)
		return;
	reader_advance(reader, UDP_BYTES);
	reader->stack->layer[LAYER_VXLAN] = reader->at;
	reader_advance(reader, VXLAN_BYTES);
	if (enter_tunnel(reader))
		read_ethernet(reader);
}

/* RFC 2784 and 2890: optional checksum, key and sequence number of four bytes each. */
static void read_gre(struct reader *reader)
{
	uint8_t *copy = reader->stack->gre;
	uint16_t flags;
	size_t bytes = 4;

	if (reader->left < bytes)
		return;
	flags = get_be16(reader->at);
	if (flags & 0x8000)
		bytes += 4;
	memcpy(copy, reader->at, 4);
	memset(copy + 4, 0, 4);
	if (flags & 0x2000) {
		if (reader->left < bytes + 4)
			return;
		memcpy(copy + 4, reader->at + bytes, 4);
		bytes += 4;
	}
	if (flags & 0x1000)
		bytes += 4;
	if (reader->left < bytes)
		return;
	reader->stack->layer[LAYER_GRE] = copy;
	reader_advance(reader, bytes);
	if (!enter_tunnel(reader))
		return;
	if (get_be16(copy + 2) == TYPE_BRIDGED)
		read_ethernet(reader);
	else
		read_type(reader, get_be16(copy + 2));
}

static void read_protocol(struct reader *reader, uint8_t protocol)
{
	switch (protocol) {
	case PROTOCOL_TCP:
		if (reader->left >= TCP_BYTES)
			reader->stack->layer[LAYER_TCP] = reader->at;
		break;
	case PROTOCOL_UDP:
		read_udp(reader);
		break;
	case PROTOCOL_ESP:
		if (reader->left >= 8)
			reader->stack->layer[LAYER_ESP] = reader->at;
		break;
	case PROTOCOL_GRE:
		read_gre(reader);
		break;
	case PROTOCOL_IPIP:
	case PROTOCOL_IPV6:
		if (enter_tunnel(reader))
			read_type(reader, protocol == PROTOCOL_IPIP ? TYPE_IPV4 : TYPE_IPV6);
		break;
	default:
		break;
	}
}

/* ---- network protocols ---- */

static void read_ipv4(struct reader *reader)
{
	const uint8_t *ip = reader->at;
	size_t header = reader->left ? (size_t)(ip[0] & 15) * 4 : 0, total;

	if (reader->left < IPV4_BYTES || ip[0] >> 4 != 4 || header < IPV4_BYTES || header > reader->left)
		return;
	reader->stack->layer[LAYER_IPV4] = ip;
	total = get_be16(ip + 2);
	if (total >= header && total < reader->left)
		reader->left = total;	/* padding of the frame follows */
	reader_advance(reader, header);
	if (!(get_be16(ip + 6) & 0x1fff))
		read_protocol(reader, ip[9]);
}

static bool is_extension(uint8_t protocol)
{
	return protocol == PROTOCOL_HOPOPTS || protocol == PROTOCOL_ROUTING || protocol == PROTOCOL_OPTIONS ||
	       protocol == PROTOCOL_FRAGMENT;
}

static void read_ipv6(struct reader *reader)
{
	const uint8_t *ip = reader->at;
	uint8_t protocol;
	unsigned n;

	if (reader->left < IPV6_BYTES || ip[0] >> 4 != 6)
		return;
	reader->stack->layer[LAYER_IPV6] = ip;
	protocol = ip[6];
	reader_advance(reader, IPV6_BYTES);
	if (get_be16(ip + 4) && get_be16(ip + 4) < reader->left)
		reader->left = get_be16(ip + 4);
	for (n = 0; is_extension(protocol); n++) {
		size_t bytes = reader->left < 8			? 0 :
			       protocol == PROTOCOL_FRAGMENT	? 8 :
								  8 + (size_t)reader->at[1] * 8;

		if (!bytes || bytes > reader->left || n == EXTENSIONS_MAX)
			return;
		if (protocol == PROTOCOL_FRAGMENT && get_be16(reader->at + 2) >> 3)
			return;
		protocol = reader->at[0];
		reader_advance(reader, bytes);
	}
	read_protocol(reader, protocol);
}

/* Labels, the last of which says so; IP follows, of the version in its first byte. */
static void read_mpls(struct reader *reader)
{
	bool bottom = false;
	unsigned n;

	if (reader->left >= LABEL_BYTES)
		reader->stack->layer[LAYER_MPLS] = reader->at;
	for (n = 0; !bottom && n < LABELS_MAX && reader->left >= LABEL_BYTES; n++) {
		bottom = reader->at[2] & 1;
		reader_advance(reader, LABEL_BYTES);
	}
	if (bottom && reader->left && reader->at[0] >> 4 == 4)
		read_ipv4(reader);
	else if (bottom && reader->left && reader->at[0] >> 4 == 6)
		read_ipv6(reader);
}

static void read_type(struct reader *reader, uint16_t type)
{
	if (type == TYPE_IPV4)
		read_ipv4(reader);
	else if (type == TYPE_IPV6)
		read_ipv6(reader);
	else if (type == TYPE_MPLS || type == TYPE_MPLS_MANY)
		read_mpls(reader);
}

/* The VLAN tag that rules know is the inner one of two, the customer's. */
static void read_ethernet(struct reader *reader)
{
	struct frame_stack *stack = reader->stack;
	uint16_t type;
	unsigned n;

	if (reader->left < FRAME_HEADER_BYTES)
		return;
	memcpy(stack->ethernet, reader->at, 12);
	memset(stack->ethernet + 12, 0, 2);
	type = get_be16(reader->at + 12);
	reader_advance(reader, FRAME_HEADER_BYTES);
	for (n = 0; n < TAGS_MAX && (type == TYPE_VLAN || type == TYPE_SERVICE); n++) {
		if (reader->left < FRAME_VLAN_BYTES)
			return;
		stack->tagged = true;
		memcpy(stack->ethernet + 12, reader->at, 2);
		type = get_be16(reader->at + 2);
		reader_advance(reader, FRAME_VLAN_BYTES);
	}
	put_be16(stack->ethernet + 14, type);
	stack->layer[LAYER_ETHERNET] = stack->ethernet;
	read_type(reader, type);
}

void frame_dissect(const uint8_t *data, size_t bytes, struct frame *frame)
{
	struct reader reader = { .at = data, .left = bytes, .stack = &frame->outer, .inner = &frame->inner };

	memset(frame, 0, sizeof(*frame));
	frame->data = data;
	frame->bytes = bytes;
	read_ethernet(&reader);
}

/* ---- checksums (RFC 1071) ---- */

static uint32_t sum_of(const uint8_t *data, size_t bytes, uint32_t sum)
{
	for (; bytes > 1; data += 2, bytes -= 2) {
		sum += get_be16(data);
		sum = (sum & 0xffff) + (sum >> 16);
	}
	if (bytes)
		sum += (uint32_t)*data << 8;
	return (sum & 0xffff) + (sum >> 16);
}

/* A packet of TCP or UDP. */
struct segment {
	const uint8_t *at;
	size_t bytes;
	size_t checksum;		/* its offset */
	uint32_t pseudo;		/* sum of the pseudo header */
};

static bool segment_of(const struct frame *frame, struct segment *segment)
{
	const uint8_t *const *layer = frame->outer.layer;
	const uint8_t *ip = layer[LAYER_IPV4] ? layer[LAYER_IPV4] : layer[LAYER_IPV6];
	const uint8_t *end;

	segment->at = layer[LAYER_TCP] ? layer[LAYER_TCP] : layer[LAYER_UDP];
	if (!segment->at || !ip)
		return false;
	end = ip + (layer[LAYER_IPV4] ? get_be16(ip + 2) : IPV6_BYTES + get_be16(ip + 4));
	if (end > frame->data + frame->bytes || end < segment->at)
		return false;
	segment->bytes = (size_t)(end - segment->at);
	segment->checksum = layer[LAYER_TCP] ? 16 : 6;
	if (segment->bytes < segment->checksum + 2)
		return false;
	segment->pseudo = layer[LAYER_IPV4] ? sum_of(ip + 12, 8, 0) : sum_of(ip + 8, 32, 0);
	segment->pseudo += (uint32_t)segment->bytes + (layer[LAYER_TCP] ? PROTOCOL_TCP : PROTOCOL_UDP);
	return true;
}

static bool is_fragment(const struct frame *frame)
{
	const uint8_t *ip = frame->outer.layer[LAYER_IPV4];

	return ip && get_be16(ip + 6) & 0x3fff;
}

bool frame_checksums_are_good(const struct frame *frame)
{
	const uint8_t *ip = frame->outer.layer[LAYER_IPV4];
	struct segment segment;

	if (ip && sum_of(ip, (size_t)(ip[0] & 15) * 4, 0) != 0xffff)
		return false;
	if (!segment_of(frame, &segment) || is_fragment(frame))
		return ip;
	if (ip && frame->outer.layer[LAYER_UDP] && !get_be16(segment.at + segment.checksum))
		return true;	/* the sender left it out */
	return sum_of(segment.at, segment.bytes, segment.pseudo) == 0xffff;
}

void frame_write_checksums(const struct frame *frame, uint8_t *data)
{
	const uint8_t *ip = frame->outer.layer[LAYER_IPV4];
	struct segment segment;
	uint8_t *at;
	uint16_t sum;

	if (ip) {
		at = data + (ip - frame->data);
		put_be16(at + 10, 0);
		put_be16(at + 10, (uint16_t)~sum_of(at, (size_t)(ip[0] & 15) * 4, 0));
	}
	if (!segment_of(frame, &segment) || is_fragment(frame))
		return;
	at = data + (segment.at - frame->data);
	put_be16(at + segment.checksum, 0);
	sum = (uint16_t)~sum_of(at, segment.bytes, segment.pseudo);
	/* UDP: 0 means none, and 0xffff the same sum. */
	put_be16(at + segment.checksum, sum || frame->outer.layer[LAYER_TCP] ? sum : 0xffff);
}
