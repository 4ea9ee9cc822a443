/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An InfiniBand packet as it is on a link: what packet.h has, with the headers of the link layer
 * before and the CRCs behind it (IBTA chapters 7 and 8). Pure.
 *
 *	| LRH 8 | GRH 40, if LNH is 3 | BTH ... pad | ICRC 4 | VCRC 2 |
 */
#ifndef VERBATIM_WIRE_IB_PACKET_H
#define VERBATIM_WIRE_IB_PACKET_H

#include <stdbool.h>
#include <string.h>

#include "wire/mad.h"
#include "wire/packet.h"
#include "wire/record.h"

#define IB_LNH_BTH		2u
#define IB_LNH_GRH		3u
#define IB_NEXT_HEADER_BTH	0x1bu
#define IB_VL_MANAGEMENT	15u
/* A MAD on the wire: LRH, GRH, BTH, DETH, MAD, ICRC, VCRC. */
#define IB_MAD_PACKET_MAX \
	(IB_LRH_BYTES + IB_GRH_BYTES + BTH_BYTES + 8u + MAD_BYTES + ICRC_BYTES + IB_VCRC_BYTES)

/* RoCE v1: GRH to ICRC in an Ethernet frame of this type. */
#define ETHERTYPE_ROCE		0x8915u

/* The Ethernet address of a group: 33:33 and the last four bytes of the MGID (A16.5.1). */
static inline void roce_v1_group_mac(const uint8_t mgid[16], uint8_t mac[6])
{
	mac[0] = mac[1] = 0x33;
	memcpy(mac + 2, mgid + 12, 4);
}

/* The link and network headers; what both of them imply (LNH, lengths, versions) is written, not
 * read here. */
struct ib_route {
	uint8_t vl, sl;
	uint16_t dlid, slid;
	bool has_grh;
	struct ib_grh grh;
};

enum ib_parse {
	IB_PARSE_OK,
	IB_PARSE_SHORT,		/* than its headers, or than PktLen says */
	IB_PARSE_LENGTH,	/* longer than PktLen says */
	IB_PARSE_VERSION,	/* LVer, IPVer */
	IB_PARSE_RAW,		/* no BTH follows */
};

struct ib_packet {
	struct ib_route route;
	const uint8_t *transport;	/* BTH to ICRC: packet_parse() goes on here */
	size_t transport_bytes;
	bool icrc_good, vcrc_good;
};

/* @data: LRH to VCRC. On IB_PARSE_OK *packet is set, and its transport points into @data. */
enum ib_parse ib_packet_parse(const uint8_t *data, size_t length, struct ib_packet *packet);

/*
 * The same without VCRC, as between processes of one host: @data is LRH to ICRC; nothing is said of CRCs.
 */
enum ib_parse ib_packet_parse_headers(const uint8_t *data, size_t length, struct ib_packet *packet);
/*
 * LRH, and GRH if there is one, for @bytes of transport with its ICRC; at most IB_HEADERS_MAX. Returns how many.
 */
#define IB_HEADERS_MAX	(IB_LRH_BYTES + IB_GRH_BYTES)
size_t ib_packet_write_headers(const struct ib_route *route, size_t bytes, uint8_t *out);
/* The ICRC of what lies in two pieces, written behind @bytes of transport, BTH to pad. */
void ib_packet_seal(const uint8_t *headers, uint8_t *transport, size_t bytes);
bool ib_packet_is_sealed(const uint8_t *data, size_t length);

/*
 * Puts the headers before @bytes of transport (BTH to pad), and the CRCs behind; returns the length
 * of the whole.
 * @out has room for 54 bytes more than @bytes.
 */
size_t ib_packet_write(const struct ib_route *route, const uint8_t *transport, size_t bytes,
		       uint8_t *out);

/* A MAD as UD datagram, LRH to VCRC; at most IB_MAD_PACKET_MAX bytes. */
struct ib_mad_ends {
	uint32_t source_qpn, destination_qpn, qkey, psn;
	uint16_t pkey;
};
size_t ib_packet_write_mad(const struct ib_route *route, const struct ib_mad_ends *ends,
			   const uint8_t mad[MAD_BYTES], uint8_t *out);

/* ICRC of the bytes from the LRH to the last pad byte (7.8.1). */
uint32_t ib_icrc_compute(const uint8_t *data, size_t length);

#endif
