/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A received packet, read once: parsed, and judged by its ICRC. Traces, faults on purpose, QPs and QP1 look at what was
 * found. Neither forwarded packets nor those that a fault damages are read here before (rx.c).
 */
#ifndef VERBATIM_ENGINE_ARRIVAL_H
#define VERBATIM_ENGINE_ARRIVAL_H

#include "base/datagram.h"
#include "engine/ip_id.h"
#include "tracepoint/drop.h"
#include "wire/icrc.h"
#include "wire/packet.h"

struct arrival {
	struct datagram *datagram;	/* that it came in, */
	unsigned segment;		/* and which of it */
	uint8_t *data;			/* BTH to ICRC */
	size_t bytes;
	enum drop why;			/* it cannot be taken as it is: DROP_ICRC, or packet was not parsed */
	struct icrc_header header;	/* its ip_id and dont_fragment are the packet's if it has a good ICRC */
	enum icrc_verdict icrc;		/* ICRC_BAD: or not looked at */
	struct packet packet;
};

/* Memory that the sender may still write to is copied as far as it is parsed; payload stays where it is. */
void arrival_read(struct arrival *arrival, struct datagram *datagram, uint8_t *data, size_t bytes,
		  unsigned segment);
/* As a datagram of its own. */
struct datagram arrival_datagram(const struct arrival *arrival);
enum ip_id_kind arrival_ip_id(const struct arrival *arrival);

#endif
