/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * CRC-32 by isa-l (PCLMULQDQ where the machine has it: many GB/s, where a table-driven one does
 * 1.3), and division of a CRC difference by a power of x.
 *
 * Polynomials over GF(2) modulo P are held bit-reflected, as the CRC itself: the top bit is
 * x^0, the lowest x^31. So a multiplication by x is a shift to the right.
 */
#include "base/crc32.h"

#include <isa-l/crc.h>

#define POLYNOMIAL	0xedb88320u	/* P without its x^32 */
#define ONE		0x80000000u	/* x^0 */

/* isa-l complements the CRC before and after, as zlib does. */
uint32_t crc32_update(uint32_t crc, const void *data, size_t length)
{
	return crc32_gzip_refl(crc, data, length);
}

static uint32_t crc32_multiply(uint32_t a, uint32_t b)
{
	uint32_t product = 0;

	for (; a; a <<= 1) {
		product ^= -(a >> 31) & b;
		/* times x */
		b = b >> 1 ^ (-(b & 1) & POLYNOMIAL);
	}
	return product;
}

/* x^(-8*length) by repeated squaring of x^-8. P has the term x^0, so x divides a power or its sum with P. */
static uint32_t unshift_factor(size_t length)
{
	uint32_t factor = ONE, power = ONE;

	for (int i = 0; i < 8; i++)
		power = power & ONE ? (power ^ POLYNOMIAL) << 1 | 1 : power << 1;
	for (; length; length >>= 1) {
		if (length & 1)
			factor = crc32_multiply(factor, power);
		power = crc32_multiply(power, power);
	}
	return factor;
}

/* Packets of one peer are mostly of one length: its factor is kept. */
uint32_t crc32_difference_unshift(uint32_t difference, size_t length)
{
	static _Thread_local size_t known_length;
	static _Thread_local uint32_t known_factor = ONE;

	if (length != known_length) {
		known_factor = unshift_factor(length);
		known_length = length;
	}
	return crc32_multiply(difference, known_factor);
}
