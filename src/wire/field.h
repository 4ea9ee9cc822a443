/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A field of a table of the specification, and what reads and writes it: bits are numbered from the
 * most significant one of the first byte, as the specification draws them. Tables: cm_message.def,
 * and those of record.h.
 */
#ifndef VERBATIM_WIRE_FIELD_H
#define VERBATIM_WIRE_FIELD_H

#include <stdint.h>

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

#endif
