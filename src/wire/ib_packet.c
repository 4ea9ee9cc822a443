/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The ICRC covers what no switch or router changes. Of a packet without GRH that is the real LRH
 * but for its VL; with one, the LRH counts as ones, and so do class, label and hop limit of the
 * GRH.
 */
#include "wire/ib_packet.h"

#include <string.h>

#include "base/bytes.h"
#include "base/crc32.h"
#include "wire/opcode.h"
#include "wire/vcrc.h"

/* The headers up to the BTH, with what is not covered as ones. */
static uint32_t ib_icrc_headers(const uint8_t *headers, const uint8_t *bth, size_t bth_bytes)
{
	uint8_t copy[IB_HEADERS_MAX + BTH_BYTES];
	bool has_grh = (headers[1] & 3) == IB_LNH_GRH;
	size_t before = IB_LRH_BYTES + (has_grh ? IB_GRH_BYTES : 0);

	memcpy(copy, headers, before);
	memcpy(copy + before, bth, bth_bytes);
	if (has_grh) {
		memset(copy, 0xff, IB_LRH_BYTES);
		copy[IB_LRH_BYTES] |= 0x0f;		/* class, label: all but the version */
		memset(copy + IB_LRH_BYTES + 1, 0xff, 3);
		copy[IB_LRH_BYTES + 7] = 0xff;		/* hop limit */
	} else {
		copy[0] |= 0xf0;			/* VL */
	}
	if (bth_bytes == BTH_BYTES)
		copy[before + 4] = 0xff;		/* FECN, BECN and the bits beside them */
	return crc32_update(0, copy, before + bth_bytes);
}

uint32_t ib_icrc_compute(const uint8_t *data, size_t length)
{
	size_t headers = IB_LRH_BYTES + ((data[1] & 3) == IB_LNH_GRH ? IB_GRH_BYTES : 0), bth = BTH_BYTES;

	if (length < headers)
		return crc32_update(0, data, length);
	if (length - headers < bth)
		bth = length - headers;
	return crc32_update(ib_icrc_headers(data, data + headers, bth), data + headers + bth,
			    length - headers - bth);
}

static void ib_packet_put_le(uint8_t *p, uint32_t value, unsigned bytes)
{
	for (unsigned i = 0; i < bytes; i++)
		p[i] = (uint8_t)(value >> 8 * i);
}

static uint32_t ib_packet_get_le(const uint8_t *p, unsigned bytes)
{
	uint32_t value = 0;

	while (bytes--)
		value = value << 8 | p[bytes];
	return value;
}

void ib_packet_seal(const uint8_t *headers, uint8_t *transport, size_t bytes)
{
	uint32_t crc = ib_icrc_headers(headers, transport, BTH_BYTES);

	ib_packet_put_le(transport + bytes, crc32_update(crc, transport + BTH_BYTES, bytes - BTH_BYTES),
			 ICRC_BYTES);
}

bool ib_packet_is_sealed(const uint8_t *data, size_t length)
{
	size_t covered = length - ICRC_BYTES;

	return ib_icrc_compute(data, covered) == ib_packet_get_le(data + covered, ICRC_BYTES);
}

/* @behind: bytes behind what PktLen counts. */
static enum ib_parse ib_packet_parse_up_to(const uint8_t *data, size_t length, size_t behind,
					   struct ib_packet *packet)
{
	struct ib_packet parsed = { 0 };
	size_t headers = IB_LRH_BYTES, words_bytes;
	struct ib_lrh lrh;

	if (length < IB_LRH_BYTES + behind)
		return IB_PARSE_SHORT;
	record_read(RECORD_LRH, data, &lrh);
	words_bytes = lrh.pktlen * 4u;
	if (length < words_bytes + behind)
		return IB_PARSE_SHORT;
	if (length > words_bytes + behind)
		return IB_PARSE_LENGTH;
	if (lrh.lver)
		return IB_PARSE_VERSION;
	if (lrh.lnh != IB_LNH_BTH && lrh.lnh != IB_LNH_GRH)
		return IB_PARSE_RAW;
	parsed.route =
		(struct ib_route){.vl = lrh.vl, .sl = lrh.sl, .dlid = lrh.dlid, .slid = lrh.slid};
	if (lrh.lnh == IB_LNH_GRH) {
		headers += IB_GRH_BYTES;
		if (words_bytes < headers)
			return IB_PARSE_SHORT;
		record_read(RECORD_GRH, data + IB_LRH_BYTES, &parsed.route.grh);
		if (parsed.route.grh.ipver != 6)
			return IB_PARSE_VERSION;
		if (parsed.route.grh.nxthdr != IB_NEXT_HEADER_BTH)
			return IB_PARSE_RAW;
		parsed.route.has_grh = true;
	}
	if (words_bytes < headers + BTH_BYTES + ICRC_BYTES)
		return IB_PARSE_SHORT;
	parsed.transport = data + headers;
	parsed.transport_bytes = words_bytes - headers;
	*packet = parsed;
	return IB_PARSE_OK;
}

enum ib_parse ib_packet_parse_headers(const uint8_t *data, size_t length, struct ib_packet *packet)
{
	return ib_packet_parse_up_to(data, length, 0, packet);
}

enum ib_parse ib_packet_parse(const uint8_t *data, size_t length, struct ib_packet *packet)
{
	enum ib_parse verdict = ib_packet_parse_up_to(data, length, IB_VCRC_BYTES, packet);
	size_t words_bytes = length - IB_VCRC_BYTES;

	if (verdict)
		return verdict;
	packet->icrc_good = ib_packet_is_sealed(data, words_bytes);
	packet->vcrc_good = vcrc_compute(data, words_bytes) ==
			    ib_packet_get_le(data + words_bytes, IB_VCRC_BYTES);
	return IB_PARSE_OK;
}

size_t ib_packet_write_headers(const struct ib_route *route, size_t bytes, uint8_t *out)
{
	size_t headers = IB_LRH_BYTES + (route->has_grh ? IB_GRH_BYTES : 0);
	const struct ib_lrh lrh = {
		.vl = route->vl, .sl = route->sl, .dlid = route->dlid, .slid = route->slid,
		.lnh = route->has_grh ? IB_LNH_GRH : IB_LNH_BTH,
		.pktlen = (uint16_t)((headers + bytes) / 4),
	};

	record_write(RECORD_LRH, &lrh, out);
	if (route->has_grh) {
		struct ib_grh grh = route->grh;

		grh.ipver = 6;
		grh.nxthdr = IB_NEXT_HEADER_BTH;
		grh.paylen = (uint16_t)bytes;
		record_write(RECORD_GRH, &grh, out + IB_LRH_BYTES);
	}
	return headers;
}

size_t ib_packet_write(const struct ib_route *route, const uint8_t *transport, size_t bytes,
		       uint8_t *out)
{
	size_t headers = IB_LRH_BYTES + (route->has_grh ? IB_GRH_BYTES : 0), end = headers + bytes;

	memmove(out + headers, transport, bytes);
	ib_packet_write_headers(route, bytes + ICRC_BYTES, out);
	ib_packet_put_le(out + end, ib_icrc_compute(out, end), ICRC_BYTES);
	end += ICRC_BYTES;
	ib_packet_put_le(out + end, vcrc_compute(out, end), IB_VCRC_BYTES);
	return end + IB_VCRC_BYTES;
}

size_t ib_packet_write_mad(const struct ib_route *route, const struct ib_mad_ends *ends,
			   const uint8_t mad[MAD_BYTES], uint8_t *out)
{
	const struct packet packet = {
		.op = opcode_get(OPCODE_UD_SEND_ONLY), .pkey = ends->pkey, .migrated = false,
		.dest_qpn = ends->destination_qpn, .psn = ends->psn,
		.deth = { ends->qkey, ends->source_qpn }, .payload_bytes = MAD_BYTES,
	};
	uint8_t transport[PACKET_HEADER_MAX + MAD_BYTES];
	size_t headers = packet_write_headers(&packet, transport);

	memcpy(transport + headers, mad, MAD_BYTES);
	return ib_packet_write(route, transport, headers + MAD_BYTES, out);
}
