/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Byte by byte, by a table of 16 entries used twice: a VCRC is computed where a packet is shown, or
 * goes to another host, never on a fast path.
 */
#include "wire/vcrc.h"

#define VCRC_POLYNOMIAL	0xd008u	/* 0x100b, reflected */

/* Four steps of the division, for each value of the four bits that leave. */
#define VCRC_STEP(c)	((c) & 1 ? (c) >> 1 ^ VCRC_POLYNOMIAL : (c) >> 1)
#define VCRC_NIBBLE(c)	VCRC_STEP(VCRC_STEP(VCRC_STEP(VCRC_STEP(c##u))))

static const uint16_t vcrc_table[16] = {
	VCRC_NIBBLE(0), VCRC_NIBBLE(1), VCRC_NIBBLE(2), VCRC_NIBBLE(3), VCRC_NIBBLE(4),
	VCRC_NIBBLE(5), VCRC_NIBBLE(6), VCRC_NIBBLE(7), VCRC_NIBBLE(8), VCRC_NIBBLE(9),
	VCRC_NIBBLE(10), VCRC_NIBBLE(11), VCRC_NIBBLE(12), VCRC_NIBBLE(13), VCRC_NIBBLE(14),
	VCRC_NIBBLE(15),
};

uint16_t vcrc_compute(const uint8_t *data, size_t length)
{
	uint16_t crc = 0xffff;

	for (size_t i = 0; i < length; i++) {
		crc ^= data[i];
		crc = (uint16_t)(crc >> 4 ^ vcrc_table[crc & 0xf]);
		crc = (uint16_t)(crc >> 4 ^ vcrc_table[crc & 0xf]);
	}
	return (uint16_t)~crc;
}
