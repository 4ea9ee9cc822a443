/* SPDX-License-Identifier: BSD-2-Clause */
/* What depends on a route's link, and the transport has to know: the way back, and the headers of a UD message. */
#include "object/route.h"

#include "base/bytes.h"
#include "base/ip_addr.h"
#include "wire/ib_packet.h"

#define IPV4_BYTES	20u
#define UDP_BYTES	8u
#define PROTOCOL_UDP	17u

const struct route_row route_rows[ROUTE_LINK_COUNT] = {
#define ROUTE_ROW(tag, arm, headers) [tag] = { arm, headers },
	ROUTE_LINKS(ROUTE_ROW)
#undef ROUTE_ROW
};

void route_reverse(const struct route *came, struct route *back)
{
	struct route way = { .link = came->link, .port = came->port, .loopback = came->loopback,
			     .hop_limit = ROUTE_HOP_LIMIT };

	memcpy(way.source, came->destination, sizeof(way.source));
	memcpy(way.destination, came->source, sizeof(way.destination));
	switch (route_rows[came->link].arm) {
	case ROUTE_ARM_NONE:
		break;
	case ROUTE_ARM_ROCE:
		way.roce.interface = came->roce.interface;
		break;
	case ROUTE_ARM_IB:
		way.ib = came->ib;
		break;
	}
	*back = way;
}

/* ---- headers of a UD message ---- */

/* Of packets to or from the GID 0 that is no address, one of both is the GID. */
static bool route_is_ipv4(const struct route *route)
{
	return ip_addr_is_ipv4(route->destination) || ip_addr_is_ipv4(route->source);
}

static uint16_t ipv4_checksum(const uint8_t header[IPV4_BYTES])
{
	uint32_t sum = 0;
	unsigned i;

	for (i = 0; i < IPV4_BYTES; i += 2)
		sum += get_be16(header + i);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)~sum;
}

/* Of IPv4 packets the IP header is in the last 20 of the 40 bytes (RoCEv2 annex A17.4.5.1). */
static void write_ipv4(uint8_t grh[ROUTE_GRH_BYTES], const struct route *came, size_t payload)
{
	uint8_t *ip = grh + ROUTE_GRH_BYTES - IPV4_BYTES;

	memset(grh, 0, ROUTE_GRH_BYTES);
	ip[0] = 0x45;
	ip[1] = came->traffic_class;
	put_be16(ip + 2, (uint16_t)(IPV4_BYTES + payload));
	put_be16(ip + 6, 0x4000);
	ip[8] = came->hop_limit;
	ip[9] = PROTOCOL_UDP;
	memcpy(ip + 12, came->source + 12, 4);
	memcpy(ip + 16, came->destination + 12, 4);
	put_be16(ip + 10, ipv4_checksum(ip));
}

/* The GRH has the form of the IPv6 header. */
static void write_ipv6(uint8_t grh[ROUTE_GRH_BYTES], const struct route *came, size_t payload, uint8_t next)
{
	put_be32(grh, 6u << 28 | (uint32_t)came->traffic_class << 20 | (came->flow_label & 0xfffff));
	put_be16(grh + 4, (uint16_t)payload);
	grh[6] = next;
	grh[7] = came->hop_limit;
	memcpy(grh + 8, came->source, 16);
	memcpy(grh + 24, came->destination, 16);
}

void route_write_grh(const struct route *came, size_t bytes, uint8_t grh[ROUTE_GRH_BYTES])
{
	switch (route_rows[came->link].headers) {
	case ROUTE_HEADERS_NONE:
		memset(grh, 0, ROUTE_GRH_BYTES);
		break;
	case ROUTE_HEADERS_UDP:
		if (route_is_ipv4(came))
			write_ipv4(grh, came, UDP_BYTES + bytes);
		else
			write_ipv6(grh, came, UDP_BYTES + bytes, PROTOCOL_UDP);
		break;
	case ROUTE_HEADERS_GRH:
		memset(grh, 0, ROUTE_GRH_BYTES);
		if (route_has_grh(came))
			write_ipv6(grh, came, bytes, IB_NEXT_HEADER_BTH);
		break;
	}
}

uint8_t route_header_type(const struct route *came)
{
	const struct route_row *row = &route_rows[came->link];

	if (row->headers == ROUTE_HEADERS_UDP)
		return HEADER_UDP | (route_is_ipv4(came) ? HEADER_IPV4 : HEADER_IPV6);
	return row->arm == ROUTE_ARM_IB ? came->ib.sl : HEADER_GRH;
}
