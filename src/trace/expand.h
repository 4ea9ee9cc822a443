/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The packets that an operation without packets stands for (struct trace_operation): headers as the wire would
 * have them, no payload. Pure.
 */
#ifndef VERBATIM_TRACE_EXPAND_H
#define VERBATIM_TRACE_EXPAND_H

#include <stdbool.h>

#include "trace/record.h"
#include "wire/packet.h"

#define EXPAND_PACKETS_MAX	1024u	/* of one operation; of a longer one the first and the last */

/* One of them. */
struct expanded {
	uint8_t headers[PACKET_HEADER_MAX];
	size_t header_bytes;
	uint32_t length;		/* on the wire, BTH to ICRC */
	bool outbound;			/* for the requester */
};

/*
 * Calls @each with every packet, in order. False: @operation is not one. @left_out: packets in the middle that
 * were too many.
 */
bool trace_expand(const struct trace_operation *operation, bool outbound, uint32_t qpn,
		  void (*each)(void *owner, const struct expanded *packet), void *owner, uint32_t *left_out);

#endif
