/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pcapng (draft-ietf-opsawg-pcapng): a section header, one interface of raw IP packets with time
 * stamps in nanoseconds, and an enhanced packet block for each packet. Numbers are in the
 * machine's order; readers look at the byte-order magic. IP and UDP headers (of RoCE v1 those of Ethernet, and the
 * GRH; of InfiniBand LRH, GRH and VCRC) are reconstructed from the datagram's addresses, with correct lengths and
 * checksums, so that Wireshark follows them to the BTH.
 */
#include "trace/pcapng.h"

#include <string.h>

#include "base/bytes.h"
#include "base/ip_addr.h"
#include "wire/ib_packet.h"
#include "wire/vcrc.h"

#define SECTION_HEADER	0x0a0d0d0au
#define BYTE_ORDER_MAGIC 0x1a2b3c4du
#define INTERFACE	1u
#define ENHANCED_PACKET	6u
#define OPTION_END	0u
#define OPTION_COMMENT	1u
#define OPTION_NAME	2u
#define OPTION_USERAPPL	4u
#define OPTION_TSRESOL	9u
#define OPTION_FLAGS	2u
#define INBOUND		1u
#define OUTBOUND	2u
#define UDP_HEADER	8u
#define ETHERNET_HEADER	14u
#define ERF_HEADER	16u
#define ERF_INFINIBAND	21u
#define ERF_VARYING	4u	/* flag: records have the length of their packets */
#define NEXT_IS_UDP	17u

static uint8_t *pcapng_put16(uint8_t *at, uint16_t value)
{
	memcpy(at, &value, sizeof(value));
	return at + sizeof(value);
}

static uint8_t *pcapng_put32(uint8_t *at, uint32_t value)
{
	memcpy(at, &value, sizeof(value));
	return at + sizeof(value);
}

static uint8_t *put_option(uint8_t *at, uint16_t code, const void *data, uint16_t bytes)
{
	at = pcapng_put16(at, code);
	at = pcapng_put16(at, bytes);
	if (bytes)
		memcpy(at, data, bytes);
	memset(at + bytes, 0, -bytes & 3);
	return at + bytes + (-bytes & 3);
}

/* The total length stands at both ends of a block. */
static uint8_t *end_block(uint8_t *block, uint8_t *at)
{
	uint32_t bytes = (uint32_t)(at + 4 - block);

	pcapng_put32(block + 4, bytes);
	return pcapng_put32(at, bytes);
}

size_t pcapng_write_section(uint8_t *out)
{
	static const char application[] = "Verbatim";
	uint8_t *at = pcapng_put32(out, SECTION_HEADER) + 4;

	at = pcapng_put32(at, BYTE_ORDER_MAGIC);
	at = pcapng_put16(at, 1);
	at = pcapng_put16(at, 0);
	memset(at, 0xff, 8);		/* length of the section: not known yet */
	at = put_option(at + 8, OPTION_USERAPPL, application, sizeof(application) - 1);
	at = put_option(at, OPTION_END, NULL, 0);
	return (size_t)(end_block(out, at) - out);
}

size_t pcapng_write_interface(enum pcapng_link link, const char *name, uint8_t *out)
{
	const uint8_t nanoseconds = 9;
	size_t bytes = strnlen(name, PCAPNG_NAME_MAX);
	uint8_t *at = pcapng_put32(out, INTERFACE) + 4;

	at = pcapng_put16(at, (uint16_t)link);
	at = pcapng_put16(at, 0);
	at = pcapng_put32(at, 0);	/* no limit of packets */
	if (bytes)
		at = put_option(at, OPTION_NAME, name, (uint16_t)bytes);
	at = put_option(at, OPTION_TSRESOL, &nanoseconds, 1);
	at = put_option(at, OPTION_END, NULL, 0);
	return (size_t)(end_block(out, at) - out);
}

/* ---- IP and UDP ---- */

/* Sum of 16-bit words for the Internet checksum (RFC 1071), not folded. */
static uint64_t sum_words(uint64_t sum, const uint8_t *data, size_t bytes)
{
	size_t i;

	for (i = 0; i + 1 < bytes; i += 2)
		sum += get_be16(data + i);
	if (bytes & 1)
		sum += (uint64_t)data[bytes - 1] << 8;
	return sum;
}

static uint16_t pcapng_checksum(uint64_t sum)
{
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)~sum;
}

static uint8_t *pcapng_put_ipv4(uint8_t *at, const struct pcapng_packet *packet)
{
	const struct datagram *datagram = packet->datagram;

	at[0] = 0x45;
	at[1] = datagram->traffic_class;
	put_be16(at + 2, (uint16_t)(20 + UDP_HEADER + packet->bytes));
	put_be16(at + 4, packet->ip_id);
	put_be16(at + 6, packet->dont_fragment ? 0x4000 : 0);
	at[8] = datagram->hop_limit;
	at[9] = 17;
	put_be16(at + 10, 0);
	memcpy(at + 12, datagram->source + 12, 4);
	memcpy(at + 16, datagram->destination + 12, 4);
	put_be16(at + 10, pcapng_checksum(sum_words(0, at, 20)));
	return at + 20;
}

static uint8_t *pcapng_put_ipv6(uint8_t *at, const struct pcapng_packet *packet)
{
	const struct datagram *datagram = packet->datagram;

	put_be32(at, 6u << 28 | (uint32_t)datagram->traffic_class << 20 |
			     (datagram->flow_label & 0xfffff));
	put_be16(at + 4, (uint16_t)(UDP_HEADER + packet->bytes));
	at[6] = NEXT_IS_UDP;
	at[7] = datagram->hop_limit;
	memcpy(at + 8, datagram->source, 16);
	memcpy(at + 24, datagram->destination, 16);
	return at + 40;
}

static uint8_t *put_udp(uint8_t *at, const struct pcapng_packet *packet)
{
	const struct datagram *datagram = packet->datagram;
	size_t skip = ip_addr_is_ipv4(datagram->destination) ? 12 : 0;
	uint64_t sum = 17 + UDP_HEADER + packet->bytes;
	uint16_t result;

	put_be16(at, datagram->source_port);
	put_be16(at + 2, ROCE_UDP_PORT);
	put_be16(at + 4, (uint16_t)(UDP_HEADER + packet->bytes));
	put_be16(at + 6, 0);
	sum = sum_words(sum, datagram->source + skip, 16 - skip);
	sum = sum_words(sum, datagram->destination + skip, 16 - skip);
	sum = sum_words(sum, at, UDP_HEADER);
	result = pcapng_checksum(sum_words(sum, packet->data, packet->bytes));
	put_be16(at + 6, result ? result : 0xffff);
	return at + UDP_HEADER;
}

/* ---- Ethernet ---- */

/* As far as a GID tells: a group's, or that in a link-local one; else zeros. */
static uint8_t *put_mac(uint8_t *at, const uint8_t gid[16])
{
	if (ip_addr_is_multicast(gid))
		roce_v1_group_mac(gid, at);
	else if (!ip_addr_link_local_mac(gid, at))
		memset(at, 0, 6);
	return at + 6;
}

/* ---- InfiniBand ---- */

size_t pcapng_write_lrh(const struct pcapng_packet *packet, size_t bytes, uint8_t *out)
{
	const struct datagram *datagram = packet->datagram;
	bool has_lrh = packet->form == PCAPNG_INFINIBAND;
	struct ib_route route = { .slid = packet->slid, .dlid = packet->dlid, .sl = packet->sl,
				  .has_grh = !has_lrh || packet->has_grh,
				  .grh = { .tclass = datagram->traffic_class, .flowlabel = datagram->flow_label,
					   .hoplmt = datagram->hop_limit } };

	memcpy(route.grh.sgid, datagram->source, sizeof(route.grh.sgid));
	memcpy(route.grh.dgid, datagram->destination, sizeof(route.grh.dgid));
	return ib_packet_write_headers(&route, bytes, out);
}

/* Of Endace: the one type of link by which tshark 4.0 reads InfiniBand from the LRH on. */
static uint8_t *put_erf(uint8_t *at, const struct pcapng_packet *packet, size_t bytes)
{
	uint64_t second = 1000000000, time = packet->time_ns;
	uint64_t stamp = time / second << 32 | (time % second << 32) / second;

	memset(at, 0, ERF_HEADER);
	for (unsigned i = 0; i < 8; i++)	/* little-endian, unlike the rest of it */
		at[i] = (uint8_t)(stamp >> 8 * i);
	at[8] = ERF_INFINIBAND;
	at[9] = ERF_VARYING;
	put_be16(at + 10, (uint16_t)(ERF_HEADER + bytes));
	put_be16(at + 14, (uint16_t)bytes);
	return at + ERF_HEADER;
}

/* The headers up to the BTH. */
static uint8_t *put_headers(uint8_t *at, const struct pcapng_packet *packet)
{
	uint8_t headers[IB_HEADERS_MAX];
	size_t bytes;

	if (packet->form == PCAPNG_ROCE_V2) {
		at = ip_addr_is_ipv4(packet->datagram->destination) ? pcapng_put_ipv4(at, packet) :
								      pcapng_put_ipv6(at, packet);
		return put_udp(at, packet);
	}
	bytes = pcapng_write_lrh(packet, packet->bytes, headers);
	if (packet->form == PCAPNG_ROCE_V1) {
		if (!packet->twin) {
			at = put_mac(at, packet->datagram->destination);
			at = put_mac(at, packet->datagram->source);
			put_be16(at, ETHERTYPE_ROCE);
			at += 2;
		}
		memcpy(at, headers + IB_LRH_BYTES, IB_GRH_BYTES);
		return at + IB_GRH_BYTES;
	}
	if (!packet->twin)
		at = put_erf(at, packet, bytes + packet->bytes + IB_VCRC_BYTES);
	memcpy(at, headers, bytes);
	return at + bytes;
}

static uint8_t *put_padding(uint8_t *at, size_t bytes)
{
	memset(at, 0, -bytes & 3);
	return at + (-bytes & 3);
}

static uint8_t *begin_packet(uint8_t *out, uint32_t interface, uint64_t time_ns, size_t captured, size_t length)
{
	uint8_t *at = pcapng_put32(out, ENHANCED_PACKET) + 4;

	at = pcapng_put32(at, interface);
	at = pcapng_put32(at, (uint32_t)(time_ns >> 32));
	at = pcapng_put32(at, (uint32_t)time_ns);
	at = pcapng_put32(at, (uint32_t)captured);
	return pcapng_put32(at, (uint32_t)length);
}

static uint8_t *put_way(uint8_t *at, const char *comment, bool outbound)
{
	uint32_t flags = outbound ? OUTBOUND : INBOUND;

	if (comment && comment[0])
		at = put_option(at, OPTION_COMMENT, comment,
				(uint16_t)strnlen(comment, PCAPNG_COMMENT_MAX));
	return put_option(at, OPTION_FLAGS, &flags, sizeof(flags));
}

/* Tag 12, 16 bytes: the name, padded; the end of tags. */
static const uint8_t twin_tags[] = "\0\14\0\20" PCAPNG_TWIN "\0\0\0\0\0\0";

size_t pcapng_write_packet(const struct pcapng_packet *packet, uint8_t *out)
{
	uint8_t *at = begin_packet(out, packet->interface, packet->time_ns, 0, 0), *first = at, *data;
	size_t bytes;

	if (packet->twin) {
		memcpy(at, twin_tags, sizeof(twin_tags));
		at += sizeof(twin_tags);
	}
	data = put_headers(at, packet);
	memcpy(data, packet->data, packet->bytes);
	if (packet->form == PCAPNG_INFINIBAND) {
		uint8_t *lrh = at + (packet->twin ? 0 : ERF_HEADER);
		uint16_t vcrc;

		at = data + packet->bytes;
		vcrc = vcrc_compute(lrh, (size_t)(at - lrh));
		*at++ = (uint8_t)vcrc;
		*at++ = (uint8_t)(vcrc >> 8);
	} else {
		at = data + packet->bytes;
	}
	bytes = (size_t)(at - first);
	begin_packet(out, packet->interface, packet->time_ns, bytes,
		     bytes + (packet->length ? packet->length - packet->bytes : 0));
	at = put_padding(at, bytes);
	at = put_way(at, packet->comment, packet->outbound);
	at = put_option(at, OPTION_END, NULL, 0);
	return (size_t)(end_block(out, at) - out);
}

size_t pcapng_write_event(const struct pcapng_event *event, uint8_t *out)
{
	static const uint8_t tags[] = { 0, 12, 0, 4, 'j', 's', 'o', 'n', 0, 0, 0, 0 };
	size_t bytes = sizeof(tags) + event->bytes;
	uint8_t *at = begin_packet(out, event->interface, event->time_ns, bytes, bytes);

	memcpy(at, tags, sizeof(tags));
	memcpy(at + sizeof(tags), event->json, event->bytes);
	at = put_padding(at + bytes, bytes);
	if (event->comment)
		at = put_way(at, event->comment, event->outbound);
	at = put_option(at, OPTION_END, NULL, 0);
	return (size_t)(end_block(out, at) - out);
}

size_t pcapng_whole_blocks(const uint8_t *data, size_t bytes)
{
	size_t at = 0;
	uint32_t length;

	while (at + 8 <= bytes) {
		memcpy(&length, data + at + 4, sizeof(length));
		if (length < 12 || at + length > bytes)
			break;
		at += length;
	}
	return at;
}
