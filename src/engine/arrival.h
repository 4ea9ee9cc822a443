/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A received packet, read once: parsed, and judged by its ICRC. Traces, faults on purpose, QPs and
 * QP1 look at what was found. Forwarded packets are not read; one that a fault damages is another.
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
	enum drop why;			/* DROP_ICRC, or why packet could not be parsed */
	struct icrc_header header;	/* with a good ICRC: ip_id and dont_fragment as received */
	enum icrc_verdict icrc;		/* ICRC_BAD: or not looked at */
	struct packet packet;
};

/*
 * CRCs of headers before the BTH (icrc_begin()), as a Verbatim sends them, of packets that came lately: most
 * are those of the next ones, too. They depend on nothing else, so what came with a wrong ICRC does no harm.
 */
#define ICRC_MEMOS	16u
struct icrc_memo {
	uint8_t source[16], destination[16];
	uint16_t source_port, ip_id;
	uint32_t crc;
	size_t bytes;			/* BTH to ICRC; 0: none */
};

/* Of memory that the sender may still write to, headers are copied; payload stays where it is. */
void arrival_read(struct arrival *arrival, struct icrc_memo memo[ICRC_MEMOS], struct datagram *datagram,
		  uint8_t *data, size_t bytes, unsigned segment);
/* As a datagram of its own. */
struct datagram arrival_datagram(const struct arrival *arrival);
enum ip_id_kind arrival_ip_id(const struct arrival *arrival);

#endif
