/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Frames of RoCE v1: headers and ICRC. The ICRC covers what InfiniBand's does of a packet with a GRH, as if
 * ones were in the place of the LRH, which there is none of.
 */
#include <string.h>

#include "base/bytes.h"
#include "base/ip_addr.h"
#include "link/roce_v1.h"
#include "wire/ib_packet.h"

#define ETHERNET_BYTES	14u
#define MAC_BYTES	6u
#define LNH_AT		1u	/* in the LRH, whose other fields the ICRC does not see */

void roce_v1_write(struct datagram *datagram, const uint8_t source[6], const uint8_t destination[6],
		   uint8_t headers[ROCE_V1_HEADERS])
{
	struct ib_route route = { .has_grh = true,
				  .grh = { .tclass = datagram->traffic_class,
					   .flowlabel = datagram->flow_label,
					   .hoplmt = datagram->hop_limit } };
	uint8_t covered[IB_HEADERS_MAX];

	memcpy(route.grh.sgid, datagram->source, 16);
	memcpy(route.grh.dgid, datagram->destination, 16);
	ib_packet_write_headers(&route, datagram->bytes, covered);
	ib_packet_seal(covered, datagram->data, datagram->bytes - ICRC_BYTES);
	memcpy(headers, destination, MAC_BYTES);
	memcpy(headers + MAC_BYTES, source, MAC_BYTES);
	put_be16(headers + 2 * MAC_BYTES, ETHERTYPE_ROCE);
	memcpy(headers + ETHERNET_BYTES, covered + IB_LRH_BYTES, IB_GRH_BYTES);
}

bool roce_v1_read(uint8_t *frame, size_t bytes, struct datagram *datagram)
{
	uint8_t *covered = frame + ETHERNET_BYTES - IB_LRH_BYTES;
	struct ib_grh grh;

	if (bytes < ROCE_V1_HEADERS + BTH_BYTES + ICRC_BYTES)
		return false;
	record_read(RECORD_GRH, frame + ETHERNET_BYTES, &grh);
	if (grh.ipver != 6 || grh.nxthdr != IB_NEXT_HEADER_BTH || grh.paylen != bytes - ROCE_V1_HEADERS)
		return false;
	/* A group's packets are for a group's address, and no others are. */
	if (ip_addr_is_multicast(grh.dgid) != (frame[0] & 1))
		return false;
	memset(covered, 0, IB_LRH_BYTES);
	covered[LNH_AT] = IB_LNH_GRH;
	*datagram = (struct datagram){ .flow_label = grh.flowlabel, .traffic_class = grh.tclass,
				       .hop_limit = grh.hoplmt, .checked = true,
				       .data = frame + ROCE_V1_HEADERS, .bytes = bytes - ROCE_V1_HEADERS };
	datagram->bad_icrc = !ib_packet_is_sealed(covered, (size_t)(frame + bytes - covered));
	memcpy(datagram->source, grh.sgid, 16);
	memcpy(datagram->destination, grh.dgid, 16);
	return true;
}
