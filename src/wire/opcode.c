/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The opcode table, by code: the rows of opcode.def with their header lengths added up. A code
 * without a row has no name, and so is no opcode.
 */
#include "wire/opcode.h"

#include "wire/packet.h"

#define HEADER_BYTES(headers)                                                         \
	(BTH_BYTES + ((headers) & HDR_XRC ? 4 : 0) + ((headers) & HDR_DETH ? 8 : 0) +  \
	 ((headers) & HDR_FETH ? 4 : 0) +                                               \
	 ((headers) & HDR_RETH ? 16 : 0) +                                              \
	 ((headers) & HDR_ATOMIC ? 28 : 0) + ((headers) & HDR_AETH ? 4 : 0) +           \
	 ((headers) & HDR_ATOMIC_ACK ? 8 : 0) + ((headers) & HDR_IMM ? 4 : 0) +         \
	 ((headers) & HDR_IETH ? 4 : 0) + ((headers) & HDR_CNP ? 16 : 0))

static const struct opcode opcode_table[256] = {
#define OP(number, id, of_service, of_verb, of_part, extensions) \
	[number] = {                                             \
		.name = #id,                                     \
		.code = number,                                  \
		.service = SERVICE_##of_service,                 \
		.verb = VERB_##of_verb,                          \
		.part = PART_##of_part,                          \
		.headers = extensions,                           \
		.header_bytes = HEADER_BYTES(extensions),        \
	},
#include "wire/opcode.def"
#undef OP
};

const struct opcode *opcode_get(uint8_t code)
{
	return opcode_table[code].name ? &opcode_table[code] : NULL;
}

bool opcode_follows(const struct opcode *previous, const struct opcode *now)
{
	bool open = previous && !opcode_ends(previous);

	if (opcode_starts(now))
		return !open;
	return open && previous->verb == now->verb && previous->service == now->service;
}
