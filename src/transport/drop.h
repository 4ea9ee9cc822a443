/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * VERBATIM_EXPLAIN: packets that are dropped and never answered, so that their sender learns nothing.
 * The receiver says what came and what to type. Only words: what is dropped is decided elsewhere.
 */
#ifndef VERBATIM_TRANSPORT_DROP_H
#define VERBATIM_TRANSPORT_DROP_H

#include "base/counters.h"
#include "base/log.h"
#include "object/qp.h"
#include "wire/packet.h"

/* Behind drop_explain(). @qp: locked; NULL: there is none. @source: where the packet came from. */
void drop_print(struct qp *qp, const struct packet *packet, const uint8_t source[16], enum counter why);
/* No process of this host has the number, as far as can be seen. */
void drop_print_stranger(uint32_t qpn, const uint8_t source[16]);
/* A request with @packet's PSN is not the expected one, and none was executed so far. */
void drop_print_psn(struct qp *qp, const struct packet *packet);

static inline void drop_explain(struct qp *qp, const struct packet *packet, const uint8_t source[16],
				enum counter why)
{
	if (__builtin_expect(explaining(), 0))
		drop_print(qp, packet, source, why);
}

#endif
