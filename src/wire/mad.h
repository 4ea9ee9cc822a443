/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Management datagrams (IBTA chapter 13): the 24 bytes that begin each of them, and the two ends
 * between which one travels. What follows the header belongs to its class: cm_message.h.
 *
 *	0 base version  1 class  2 class version  3 R and method  4 status  8 transaction ID
 *	16 attribute ID  20 attribute modifier  24 .. 255 data of the class
 */
#ifndef VERBATIM_WIRE_MAD_H
#define VERBATIM_WIRE_MAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/datagram.h"

#define MAD_BYTES		256u
#define MAD_HEADER_BYTES	24u
#define MAD_DATA_BYTES		(MAD_BYTES - MAD_HEADER_BYTES)
#define MAD_BASE_VERSION	1u
#define QKEY_GSI		0x80010000u	/* Q_Key of every QP1 (IBTA 10.2.5) */

enum mad_class { MAD_CLASS_CM = 0x07 };
enum mad_method { MAD_METHOD_SEND = 0x03 };

struct mad_header {
	uint8_t base_version, class, class_version, method;
	uint16_t status, attribute_id;
	uint64_t transaction_id;
	uint32_t attribute_modifier;
};

/* Where a MAD goes or came from, as seen from here. IPv4 addresses are v4-mapped. */
struct mad_address {
	uint8_t local[16], remote[16];	/* what the packets' IP headers carry */
	uint32_t interface;		/* scope of link-local addresses; 0: any */
	uint32_t flow_label;		/* IPv6 */
	uint8_t traffic_class, hop_limit;	/* hop_limit 0: 64 */
	uint16_t slot;			/* of a request: who has served such a one on this host; or 0 */
	uint8_t link;			/* as that of a datagram (base/datagram.h); 0: UDP */
	/* By a port of a virtual fabric: remote is ip_addr_of_lid(). Else the port is 0. */
	struct ib_way ib;
	uint16_t pkey_index;		/* in the table of the port; of QP0: 0 */
};

/* False: shorter than a MAD, or of another base version. @bytes may exceed MAD_BYTES (pad). */
bool mad_parse(const uint8_t *data, size_t bytes, struct mad_header *header);
/* Writes the header; the data behind it is left alone. */
void mad_write(const struct mad_header *header, uint8_t out[MAD_BYTES]);

#endif
