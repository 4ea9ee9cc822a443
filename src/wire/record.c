/* SPDX-License-Identifier: BSD-2-Clause */
/* The tables of record.h as data, and the one reader and writer that walks them. */
#include "wire/record.h"

#include <assert.h>
#include <string.h>

#define RECORD(kind, name, attribute, bytes) static const struct wire_field name##_fields[] = {
#define FIELD(name, field, type, byte, bit, width) \
	{ #field, (byte) * 8 + (bit), width, offsetof(struct ib_##name, field), (type) / 8, 1, 0 },
#define ROW(name, field, type, byte, bit, width, stride, count) \
	{ #field, (byte) * 8 + (bit), width, offsetof(struct ib_##name, field), (type) / 8, count, \
	  stride },
#define BYTES(name, field, byte, count) \
	{ #field, (byte) * 8, (count) * 8, offsetof(struct ib_##name, field), 0, 1, 0 },
#define END(name)                                                                                 \
	};                                                                                        \
	static_assert(sizeof(struct ib_##name) <= RECORD_BYTES_MAX, "fits a buffer for any record");
#include "wire/link.def"
#include "wire/subnet.def"
#include "wire/performance.def"
#include "wire/administration.def"
#undef RECORD
#undef FIELD
#undef ROW
#undef BYTES
#undef END

static const struct record_layout record_layouts[RECORDS] = {
#define RECORD(kind, name, attribute, bytes)                                             \
	[RECORD_##kind] = { #name, attribute, bytes, sizeof(struct ib_##name),           \
			    name##_fields, sizeof(name##_fields) / sizeof(*name##_fields) },
#define FIELD(name, field, type, byte, bit, width)
#define ROW(name, field, type, byte, bit, width, stride, count)
#define BYTES(name, field, byte, count)
#define END(name)
#include "wire/link.def"
#include "wire/subnet.def"
#include "wire/performance.def"
#include "wire/administration.def"
#undef RECORD
#undef FIELD
#undef ROW
#undef BYTES
#undef END
};

const struct record_layout *record_layout(enum record record)
{
	return &record_layouts[record];
}

void record_read(enum record record, const uint8_t *data, void *to)
{
	const struct record_layout *layout = &record_layouts[record];

	for (unsigned i = 0; i < layout->fields; i++)
		field_read(&layout->field[i], data, to);
}

void record_write(enum record record, const void *from, uint8_t *data)
{
	const struct record_layout *layout = &record_layouts[record];

	memset(data, 0, layout->bytes);
	for (unsigned i = 0; i < layout->fields; i++)
		field_write(&layout->field[i], from, data);
}
