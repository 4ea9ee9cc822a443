/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Words of tracepoint/drop.def. VERBATIM_EXPLAIN: packets that are dropped and never answered, so that their
 * sender learns nothing: the receiver says what came and what to type. What is dropped is decided elsewhere.
 */
#ifndef VERBATIM_TRANSPORT_DROP_H
#define VERBATIM_TRANSPORT_DROP_H

#include "base/log.h"
#include "object/qp.h"
#include "tracepoint/drop.h"
#include "wire/packet.h"

/* What the fields of words are taken from; as much as the row needs. */
struct drop_facts {
	struct qp *qp;			/* locked */
	const struct packet *packet;
	const uint8_t *source;		/* where the packet came from */
	uint32_t dest_qpn, psn;
	uint32_t value;			/* of a refusal */
	bool is_rule;			/* without what is of this packet alone */
};

/* @words with their fields filled in. Returns @out. */
const char *drop_write(const char *words, const struct drop_facts *facts, char *out, size_t size);
/* Behind drop_explain(). @packet: NULL: all that is known of it is @qpn. */
void drop_print(enum drop why, struct qp *qp, const struct packet *packet, const uint8_t source[16],
		uint32_t qpn);

static inline void drop_explain(enum drop why, struct qp *qp, const struct packet *packet,
				const uint8_t source[16])
{
	if (__builtin_expect(explaining(), 0))
		drop_print(why, qp, packet, source, packet->dest_qpn);
}

#endif
