/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A field of a table of the specification, and what reads and writes it: bits are numbered from the
 * most significant one of the first byte, as the specification draws them. Tables: cm_message.def,
 * and those of record.h.
 */
#ifndef VERBATIM_WIRE_FIELD_H
#define VERBATIM_WIRE_FIELD_H

#include <stdint.h>

#include "base/bytes.h"

struct wire_field {
	const char *name;
	uint16_t bit, width;	/* of the first element */
	uint16_t offset;	/* of the member in its struct */
	uint8_t member_bytes;	/* size of the integer there; 0: bytes, copied as they are */
	uint16_t count, stride;	/* elements, and bits from one to the next; count 0: one */
};

uint64_t field_bits(const uint8_t *data, unsigned bit, unsigned width);
/* All elements, to or from the struct. For writing, the bits must be zero before. */
void field_read(const struct wire_field *field, const uint8_t *data, void *to);
void field_write(const struct wire_field *field, const void *from, uint8_t *data);
/* One element of up to 64 bits, which are zero before. */
void field_put_bits(uint8_t *data, unsigned bit, unsigned width, uint64_t value);

/* The same where @bit and @width are constants: a load and a shift of most. */
static inline __attribute__((always_inline)) uint64_t field_get(const uint8_t *data, unsigned bit, unsigned width)
{
	unsigned after = 8 - bit % 8 - width;	/* in one byte: the bits behind it */

	if (!((bit | width) % 8))
		switch (width) {
		case 16:
			return get_be16(data + bit / 8);
		case 24:
			return get_be24(data + bit / 8);
		case 32:
			return get_be32(data + bit / 8);
		case 64:
			return get_be64(data + bit / 8);
		}
	return bit % 8 + width > 8 ? field_bits(data, bit, width) :
				     (uint64_t)data[bit / 8] >> after & ((1u << width) - 1);
}

static inline __attribute__((always_inline)) void field_set(uint8_t *data, unsigned bit, unsigned width,
							    uint64_t value)
{
	if (!((bit | width) % 8))
		switch (width) {
		case 16:
			put_be16(data + bit / 8, (uint16_t)value);
			return;
		case 24:
			put_be24(data + bit / 8, (uint32_t)value);
			return;
		case 32:
			put_be32(data + bit / 8, (uint32_t)value);
			return;
		case 64:
			put_be64(data + bit / 8, value);
			return;
		}
	if (bit % 8 + width > 8)
		field_put_bits(data, bit, width, value);
	else
		data[bit / 8] |= (uint8_t)((value & ((1u << width) - 1)) << (8 - bit % 8 - width));
}

#endif
