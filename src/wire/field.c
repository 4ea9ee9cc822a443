/* SPDX-License-Identifier: BSD-2-Clause */
/* One reader and one writer for the fields of all tables: bits on one side, integers on the other.
 */
#include "wire/field.h"

#include <string.h>

uint64_t field_bits(const uint8_t *data, unsigned bit, unsigned width)
{
	uint64_t value = 0;

	if (!((bit | width) % 8)) {	/* most are whole bytes */
		for (data += bit / 8; width; width -= 8)
			value = value << 8 | *data++;
		return value;
	}
	/* Byte by byte: the first and the last may be parts. */
	while (width) {
		unsigned room = 8 - bit % 8, take = width < room ? width : room;

		value = value << take | (data[bit / 8] >> (room - take) & ((1u << take) - 1));
		bit += take;
		width -= take;
	}
	return value;
}

void field_put_bits(uint8_t *data, unsigned bit, unsigned width, uint64_t value)
{
	if (!((bit | width) % 8)) {
		for (data += (bit + width) / 8; width; width -= 8, value >>= 8)
			*--data = (uint8_t)value;
		return;
	}
	while (width) {
		unsigned room = 8 - bit % 8, take = width < room ? width : room;

		width -= take;
		data[bit / 8] |= (uint8_t)((value >> width & ((1u << take) - 1)) << (room - take));
		bit += take;
	}
}

static void field_store(uint8_t *member, unsigned bytes, uint64_t value)
{
	switch (bytes) {
	case 1:
		*member = (uint8_t)value;
		return;
	case 2:
		*(uint16_t *)(void *)member = (uint16_t)value;
		return;
	case 4:
		*(uint32_t *)(void *)member = (uint32_t)value;
		return;
	default:
		memcpy(member, &value, sizeof(value));
	}
}

static uint64_t field_load(const uint8_t *member, unsigned bytes)
{
	switch (bytes) {
	case 1:
		return *member;
	case 2:
		return *(const uint16_t *)(const void *)member;
	case 4:
		return *(const uint32_t *)(const void *)member;
	default:
		return *(const uint64_t *)(const void *)member;
	}
}

void field_read(const struct wire_field *field, const uint8_t *data, void *to)
{
	uint8_t *member = (uint8_t *)to + field->offset;
	unsigned bit = field->bit;

	if (!field->member_bytes) {
		memcpy(member, data + bit / 8, field->width / 8);
		return;
	}
	field_store(member, field->member_bytes, field_bits(data, bit, field->width));
	for (unsigned i = 1; i < field->count; i++) {
		member += field->member_bytes;
		bit += field->stride;
		field_store(member, field->member_bytes, field_bits(data, bit, field->width));
	}
}

void field_write(const struct wire_field *field, const void *from, uint8_t *data)
{
	const uint8_t *member = (const uint8_t *)from + field->offset;
	unsigned bit = field->bit;

	if (!field->member_bytes) {
		memcpy(data + bit / 8, member, field->width / 8);
		return;
	}
	field_put_bits(data, bit, field->width, field_load(member, field->member_bytes));
	for (unsigned i = 1; i < field->count; i++) {
		member += field->member_bytes;
		bit += field->stride;
		field_put_bits(data, bit, field->width, field_load(member, field->member_bytes));
	}
}
