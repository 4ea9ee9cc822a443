/* SPDX-License-Identifier: BSD-2-Clause */
/* The blocks of a pcapng file with raw IP packets, and the headers in front of a RoCEv2 packet. */
#ifndef VERBATIM_LINK_PCAPNG_H
#define VERBATIM_LINK_PCAPNG_H

#include "link/link.h"

#define PCAPNG_HEADER_MAX	128u	/* of the file */
#define PCAPNG_PACKET_MAX(n)	((n) + 128u)	/* block of a packet of n bytes, BTH to ICRC */

struct pcapng_packet {
	const struct datagram *datagram;	/* addresses, ports, traffic class, hop limit */
	const uint8_t *data;			/* one packet of it */
	size_t bytes;
	uint16_t ip_id;
	bool dont_fragment, outbound;
	uint64_t time_ns;			/* since 1970 */
};

/* Both return the bytes written. */
size_t pcapng_write_header(uint8_t out[PCAPNG_HEADER_MAX]);
size_t pcapng_write_packet(const struct pcapng_packet *packet, uint8_t *out);

#endif
