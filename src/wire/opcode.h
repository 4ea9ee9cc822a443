/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a BTH opcode means: service, verb, part of a message, extension headers.
 * The rows are in opcode.def; everything else about an opcode is derived from its row.
 */
#ifndef VERBATIM_WIRE_OPCODE_H
#define VERBATIM_WIRE_OPCODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum service { SERVICE_RC, SERVICE_UC, SERVICE_UD, SERVICE_XRC, SERVICE_CNP, SERVICE_GAPS, SERVICE_NONE };

/* The upper three bits of a code are the service, the lower five the same for all (IBTA 9.2). */
#define OPCODE_OPERATION	0x1fu
#define OPCODE_UC		0x20u
#define OPCODE_XRC		0xa0u

enum verb {
	VERB_SEND, VERB_WRITE, VERB_READ, VERB_ATOMIC, VERB_FLUSH, VERB_ATOMIC_WRITE,	/* requests */
	VERB_RESPONSE, VERB_ACK, VERB_ATOMIC_ACK,		/* responses (RC) */
	VERB_CNP, VERB_GAPS,		/* neither: see opcode_is_notice() */
};

enum part { PART_FIRST, PART_MIDDLE, PART_LAST, PART_ONLY };

/* Extension headers, in the order in which they follow the BTH. */
enum opcode_headers {
	HDR_XRC		= 1 << 8,	/*  4 bytes: number of an XRC SRQ (A14) */
	HDR_FETH	= 1 << 9,	/*  4: FLUSH (A19) */
	HDR_DETH	= 1 << 0,	/*  8 */
	HDR_RETH	= 1 << 1,	/* 16 */
	HDR_ATOMIC	= 1 << 2,	/* 28 */
	HDR_AETH	= 1 << 3,	/*  4 */
	HDR_ATOMIC_ACK	= 1 << 4,	/*  8 */
	HDR_IMM		= 1 << 5,	/*  4 */
	HDR_IETH	= 1 << 6,	/*  4 */
	HDR_CNP		= 1 << 7,	/* 16, reserved */
};

enum opcode_number {
#define OP(code, id, service, verb, part, headers) OPCODE_##id = code,
#include "wire/opcode.def"
#undef OP
};

struct opcode {
	const char *name;	/* as the table has it, e.g. "RC_WRITE_FIRST" */
	uint8_t code;
	enum service service;
	enum verb verb;
	enum part part;
	unsigned headers;	/* mask of enum opcode_headers */
	size_t header_bytes;	/* BTH and extension headers */
};

/* The row of @code; NULL when it is no opcode of ours. */
const struct opcode *opcode_get(uint8_t code);

static inline bool opcode_is_response(const struct opcode *op)
{
	return op->verb == VERB_RESPONSE || op->verb == VERB_ACK || op->verb == VERB_ATOMIC_ACK;
}

/* Tells the peer of something; it is of no sequence of PSNs, and has no answer that is waited for. */
static inline bool opcode_is_notice(const struct opcode *op)
{
	return op->verb == VERB_CNP || op->verb == VERB_GAPS;
}

static inline bool opcode_starts(const struct opcode *op)
{
	return op->part == PART_FIRST || op->part == PART_ONLY;
}

static inline bool opcode_ends(const struct opcode *op)
{
	return op->part == PART_LAST || op->part == PART_ONLY;
}

/* Whether packets of @op may carry payload at all. */
static inline bool opcode_has_payload(const struct opcode *op)
{
	return op->verb == VERB_SEND || op->verb == VERB_WRITE || op->verb == VERB_RESPONSE ||
	       op->verb == VERB_ATOMIC_WRITE || op->verb == VERB_GAPS;
}

/*
 * Whether a packet of @op is parsed with payload, too: a request with payload that its opcode does not have
 * is for the responder to refuse (9.7.4.1.2, 9.7.4.1.6), and it hears nothing of what the parser drops.
 */
static inline bool opcode_lets_payload_in(const struct opcode *op)
{
	return opcode_has_payload(op) || !(opcode_is_response(op) || opcode_is_notice(op));
}

/*
 * Whether @now may follow @previous within one stream of requests (or of read responses) of a
 * QP: IBTA 9.7.4.1.2 for RC, 9.8.2.2.2 for UC. @previous is NULL before the first packet.
 */
bool opcode_follows(const struct opcode *previous, const struct opcode *now);

#endif
