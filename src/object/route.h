/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Routes: by which link, from which port and between which addresses packets travel. An address handle
 * has one, a connected QP from its modify to RTR, and each packet that comes says which one it took. The
 * port makes them (net/); the engine turns them into what a link sends. Members of all links are here,
 * those of one link in the arm of its tag, which object/, transport/ and local/ leave alone.
 */
#ifndef VERBATIM_OBJECT_ROUTE_H
#define VERBATIM_OBJECT_ROUTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/datagram.h"
#include "base/link_rate.h"

/* Which arm of a route is its link's, and what its packets have in front of the BTH. */
enum route_arm { ROUTE_ARM_NONE, ROUTE_ARM_ROCE, ROUTE_ARM_IB };
enum route_headers { ROUTE_HEADERS_NONE, ROUTE_HEADERS_UDP, ROUTE_HEADERS_GRH };

/* A link: ROW(tag, arm, headers). All that is asked of a link outside of its own files follows from it. */
#define ROUTE_LINKS(ROW) \
	ROW(ROUTE_NONE,		ROUTE_ARM_NONE,	ROUTE_HEADERS_NONE)	/* not resolved */ \
	ROW(ROUTE_ROCE_V2,	ROUTE_ARM_ROCE,	ROUTE_HEADERS_UDP)	/* port 4791, ICRC over IP addresses */ \
	ROW(ROUTE_IB,		ROUTE_ARM_IB,	ROUTE_HEADERS_GRH)	/* by LIDs through a virtual fabric */ \
	ROW(ROUTE_ROCE_V1,	ROUTE_ARM_ROCE,	ROUTE_HEADERS_GRH)	/* Ethernet frames of type 0x8915 */

enum route_link {
#define ROUTE_TAG(tag, arm, headers) tag,
	ROUTE_LINKS(ROUTE_TAG)
#undef ROUTE_TAG
	ROUTE_LINK_COUNT
};

struct route_row {
	enum route_arm arm;
	enum route_headers headers;
};
/* By enum route_link. */
extern const struct route_row route_rows[ROUTE_LINK_COUNT];

struct route {
	/*
	 * Of both ends: IP addresses or GIDs; IPv4 is v4-mapped (::ffff:a.b.c.d) everywhere above the link. By
	 * LIDs without a GRH: that of the peer (ip_addr_of_lid()), and of our end nothing: an SM may change it.
	 */
	uint8_t source[16], destination[16];
	uint32_t flow_label;
	uint8_t traffic_class, hop_limit;
	uint8_t link : 4;		/* enum route_link */
	uint8_t port : 4;		/* number of the device's port, from 1; 0: not known */
	bool loopback : 1;		/* the peer is in this host; of a packet: in this process */
	bool default_gid : 1;		/* by GID 0 that is no address: the packets carry another */
	union {
		struct {
			uint16_t from_slot;	/* a connected QP's, to a peer on this host; else 0 */
			/* Of UDP, as a connected QP's packets have it: 0xC000..0xFFFF; else 0. */
			uint16_t source_port;
			uint32_t interface;	/* index: scope of addresses, egress of groups; 0: not known */
		} roce;
		struct ib_way ib;
	};
};

/* One in each QP, address handle and packet of a batch. */
_Static_assert(sizeof(struct route) == 48, "a route is copied with each packet");

static inline bool route_is_same(const struct route *a, const struct route *b)
{
	return !memcmp(a, b, sizeof(*a));
}

/* Did a packet that took @came leave from the peer that @route leads to? */
static inline bool route_is_from_peer(const struct route *route, const struct route *came)
{
	return route->link == came->link && !memcmp(came->source, route->destination, sizeof(came->source)) &&
	       !memcmp(came->destination, route->source, sizeof(came->destination)) &&
	       (route->link != ROUTE_IB || route->ib.lid == came->ib.lid);
}

/* A connected QP's packets by UDP leave from this port; those inside the host from that of the slot. */
static inline void route_set_udp(struct route *route, uint16_t from_slot, uint16_t source_port)
{
	if (route->link != ROUTE_ROCE_V2)
		return;
	route->roce.from_slot = from_slot;
	route->roce.source_port = source_port;
}

/* Of UDP, for a trace; 0: there is none. */
static inline uint16_t route_source_port(const struct route *route)
{
	return route->link == ROUTE_ROCE_V2 ? route->roce.source_port : 0;
}

/* Of a virtual fabric: struct ib_way's port; else 0. */
static inline uint16_t route_ib_port(const struct route *route)
{
	return route->link == ROUTE_IB ? route->ib.port : 0;
}

/* static_rate, in kbit/s; 0: as fast as the port. */
static inline uint32_t route_pace_kbps(const struct route *route)
{
	return route->link == ROUTE_IB && route->ib.static_rate ? 1000 * link_rate_mbps(route->ib.static_rate) : 0;
}

/* What completions of UD receives say of the link. */
static inline bool route_has_grh(const struct route *came)
{
	return came->link != ROUTE_IB || came->ib.has_grh;
}

static inline uint16_t route_lid(const struct route *came)
{
	return came->link == ROUTE_IB ? came->ib.lid : 0;
}

static inline uint8_t route_path_bits(const struct route *came)
{
	return came->link == ROUTE_IB ? came->ib.path_bits : 0;
}

/* The way back of a packet that took @came, with a hop limit that answers have. */
void route_reverse(const struct route *came, struct route *back);

#define ROUTE_GRH_BYTES	40u
#define ROUTE_HOP_LIMIT	64u	/* where nobody names one: as IP of Linux */

/*
 * What precedes a UD message in its receive: the GRH, or the header in its place, of a packet that took
 * @came, with @bytes of BTH to ICRC.
 */
void route_write_grh(const struct route *came, size_t bytes, uint8_t grh[ROUTE_GRH_BYTES]);

/*
 * The kind of packet, which the completion of a UD receive has to tell (annex A17.4.5.1). struct
 * ibv_wc has no field for it. There are no service levels on RoCE, so mlx5 puts it into sl, and
 * UCX looks for it there. Of InfiniBand sl is the service level.
 */
enum header_type {
	HEADER_GRH = 0,			/* bits 0 to 2 */
	HEADER_IPV6 = 1,
	HEADER_IPV4 = 2,
	HEADER_UDP = 8,			/* bit 3: with a UDP header (RoCEv2) */
};
uint8_t route_header_type(const struct route *came);

#endif
