/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What Verbatims tell each other of lost requests, as the payload of a packet whose opcode is one
 * that the specification leaves to manufacturers (IBTA 9.2.1, table of OpCode: 110xxxxx): nobody
 * else knows it, and what has an opcode of no service of the QP is dropped in silence (9.6.1.1).
 * Pure.
 *
 *	| magic 32 | 0 24 | kind 8 | 0 8 | sender's QPN 24 | 0 32 | held 32 bytes |
 *
 * The PSN is that of the BTH:
 *
 *	ASK	of the requester's oldest unanswered packet: does the peer hold what comes behind a gap?
 *	YES	the same: it does
 *	REPORT	the one that the responder waits for. Bit i of @held: it holds the packet with the
 *		PSN i + 1 further on
 */
#ifndef VERBATIM_WIRE_GAPS_H
#define VERBATIM_WIRE_GAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GAPS_MAGIC	0x5662e0c2u
#define GAPS_BYTES	48u
#define GAPS_REACH	256u		/* packets behind the gap that can be told of */

enum gaps_kind { GAPS_NOTHING, GAPS_ASK, GAPS_YES, GAPS_REPORT, GAPS_KINDS };

struct gaps {
	enum gaps_kind kind;
	uint32_t qpn;			/* of the QP that says so */
	uint64_t held[GAPS_REACH / 64];
};

/* False: it is none, or of a kind that is not known here. */
bool gaps_read(const uint8_t *data, size_t bytes, struct gaps *gaps);
/* GAPS_BYTES. */
void gaps_write(const struct gaps *gaps, uint8_t *out);

static inline void gaps_set(struct gaps *gaps, uint32_t bit)
{
	gaps->held[bit / 64] |= UINT64_C(1) << bit % 64;
}

static inline bool gaps_has(const uint64_t held[GAPS_REACH / 64], uint32_t bit)
{
	return bit < GAPS_REACH && held[bit / 64] >> bit % 64 & 1;
}

/* One past the last bit that is set; 0: none is. */
static inline uint32_t gaps_end(const uint64_t held[GAPS_REACH / 64])
{
	for (uint32_t word = GAPS_REACH / 64; word-- > 0;)
		if (held[word])
			return word * 64 + 64 - (uint32_t)__builtin_clzll(held[word]);
	return 0;
}

#endif
