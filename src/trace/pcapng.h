/* SPDX-License-Identifier: BSD-2-Clause */
/* The blocks of a pcapng file: packets of RoCE with the headers in front of them, and events as JSON. */
#ifndef VERBATIM_TRACE_PCAPNG_H
#define VERBATIM_TRACE_PCAPNG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/datagram.h"

#define PCAPNG_NAME_MAX		128u	/* of an interface */
#define PCAPNG_INTERFACE_MAX	(64u + PCAPNG_NAME_MAX)
#define PCAPNG_COMMENT_MAX	512u
/* Block of a packet of n bytes, BTH to ICRC, without and with a comment; and of an event of n characters. */
#define PCAPNG_TWIN		"verbatim_twin"	/* name of a dissector */
#define PCAPNG_PACKET_MAX(n)	((n) + 176u)
#define PCAPNG_COMMENTED_MAX(n)	(PCAPNG_PACKET_MAX(n) + 8u + PCAPNG_COMMENT_MAX)
#define PCAPNG_EVENT_MAX(n)	((n) + 76u + PCAPNG_COMMENT_MAX)

enum pcapng_link { PCAPNG_ETHERNET = 1, PCAPNG_RAW_IP = 101, PCAPNG_ERF = 197, PCAPNG_EXPORTED_PDU = 252 };
/* What is in front of the BTH: IP and UDP; Ethernet and a GRH; an LRH and maybe a GRH, in a record of ERF. */
enum pcapng_form { PCAPNG_ROCE_V2, PCAPNG_ROCE_V1, PCAPNG_INFINIBAND };

struct pcapng_packet {
	const struct datagram *datagram;	/* addresses, ports, traffic class, hop limit */
	const uint8_t *data;			/* one packet of it */
	size_t bytes;				/* of @data */
	size_t length;				/* of the original, if @data is a shortened one; or 0 */
	const char *comment;			/* or NULL */
	uint32_t interface;			/* counts from 0 */
	uint16_t ip_id;
	bool dont_fragment, outbound;
	bool twin;				/* of one that is there: an exported PDU, no frame */
	enum pcapng_form form;
	uint16_t slid, dlid;			/* of InfiniBand, as what follows; its VL is shown as 0 */
	uint8_t sl;
	bool has_grh;
	uint64_t time_ns;			/* since 1970 */
};

/* All return the bytes written, at most as above. */
size_t pcapng_write_section(uint8_t *out);
size_t pcapng_write_interface(enum pcapng_link link, const char *name, uint8_t *out);
/* LRH, if it has one, and GRH, in front of @bytes from BTH to ICRC; at most IB_HEADERS_MAX. Returns how many. */
size_t pcapng_write_lrh(const struct pcapng_packet *packet, size_t bytes, uint8_t *out);
size_t pcapng_write_packet(const struct pcapng_packet *packet, uint8_t *out);

struct pcapng_event {
	const char *json;			/* an object in one line */
	size_t bytes;				/* of it */
	const char *comment;			/* of what went some way; NULL: of others */
	bool outbound;				/* ... and its direction */
	uint32_t interface;
	uint64_t time_ns;
};

size_t pcapng_write_event(const struct pcapng_event *event, uint8_t *out);
/* How many of the @bytes, which begin with a block, are whole blocks. */
size_t pcapng_whole_blocks(const uint8_t *data, size_t bytes);

#endif
