/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Packet sequence numbers: 24 bits, modulo 2^24 (IBTA 9.7.2). All arithmetic on them is here.
 */
#ifndef VERBATIM_WIRE_PSN_H
#define VERBATIM_WIRE_PSN_H

#include <stdbool.h>
#include <stdint.h>

#define PSN_MASK 0xffffffu

static inline uint32_t psn_add(uint32_t psn, uint32_t n)
{
	return (psn + n) & PSN_MASK;
}

/* Signed distance from @b to @a, in -2^23 .. 2^23-1: positive when @a is later. */
static inline int32_t psn_diff(uint32_t a, uint32_t b)
{
	return (int32_t)((a - b) << 8) >> 8;
}

static inline bool psn_before(uint32_t a, uint32_t b)
{
	return psn_diff(a, b) < 0;
}

/* Is @psn in the half-open range [first, first + count)? */
static inline bool psn_in(uint32_t psn, uint32_t first, uint32_t count)
{
	return ((psn - first) & PSN_MASK) < count;
}

#endif
