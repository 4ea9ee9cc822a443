/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The rows of cm_message.def as data: for cm_message.c, which reads and writes by them, and for
 * tests that prove them consistent.
 */
#ifndef VERBATIM_WIRE_CM_TABLE_H
#define VERBATIM_WIRE_CM_TABLE_H

#include "wire/cm_message.h"
#include "wire/field.h"

struct cm_layout {
	const char *name;
	uint16_t attribute;
	/* All fields of the data behind the MAD header, which is zero before it is written. */
	void (*read)(const uint8_t *data, struct cm_message *message);
	void (*write)(const struct cm_message *message, uint8_t *data);
	const struct wire_field *field;	/* in the data behind the MAD header */
	unsigned fields;
	uint16_t private_bytes, private_offset;
};

const struct cm_layout *cm_layout(enum cm_message_kind kind);

#endif
