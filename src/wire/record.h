/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Headers and attributes of InfiniBand, as bytes <-> structs. All are made of the rows of four
 * tables: link.def (LRH, GRH, RMPP), subnet.def (what an SMA is asked for), performance.def,
 * administration.def (what an SA is asked for). A row that is there is read, written, tested and
 * compared with tshark; what no row covers is reserved: written as zero, not looked at.
 *
 *	RECORD(enumerator, name, attribute ID, bytes)		struct ib_name
 *	FIELD(name, field, integer type of so many bits, byte, bit, width in bits)
 *	ROW(name, field, integer type, byte, bit, width, stride in bits, count)	an array
 *	BYTES(name, field, byte, count)				GIDs, text
 *	END(name)
 *
 * Integers are in host order and, behind record_read(), within the width of their field; nothing
 * else is sure of them. Names of fields are the specification's.
 */
#ifndef VERBATIM_WIRE_RECORD_H
#define VERBATIM_WIRE_RECORD_H

#include <stddef.h>
#include <stdint.h>

#include "wire/field.h"

enum record {
#define RECORD(kind, name, attribute, bytes) RECORD_##kind,
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
	RECORDS
};

#define RECORD(kind, name, attribute, bytes) struct ib_##name {
#define FIELD(name, field, type, byte, bit, width) uint##type##_t field;
#define ROW(name, field, type, byte, bit, width, stride, count) uint##type##_t field[count];
#define BYTES(name, field, byte, count) uint8_t field[count];
#define END(name) };
#include "wire/link.def"
#include "wire/subnet.def"
#include "wire/performance.def"
#include "wire/administration.def"
#undef RECORD
#undef FIELD
#undef ROW
#undef BYTES
#undef END

#define IB_LRH_BYTES	8u
#define IB_GRH_BYTES	40u
#define IB_VCRC_BYTES	2u
#define RECORD_BYTES_MAX 256u	/* of the longest record, as bytes and as a struct */

struct record_layout {
	const char *name;	/* "port_info" */
	uint16_t attribute;	/* 0: a header */
	uint16_t bytes, struct_bytes;
	const struct wire_field *field;
	unsigned fields;
};

const struct record_layout *record_layout(enum record record);
void record_read(enum record record, const uint8_t *data, void *to);
/* Writes all bytes of the record. Numbers are cut to the width of their field. */
void record_write(enum record record, const void *from, uint8_t *data);

#endif
