/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The AETH syndrome (IBTA 9.7.5.1.1), RNR timer and ACK timeout codes, credit codes.
 */
#ifndef VERBATIM_WIRE_AETH_H
#define VERBATIM_WIRE_AETH_H

#include <stdbool.h>
#include <stdint.h>

enum aeth_kind { AETH_ACK, AETH_RNR, AETH_RESERVED, AETH_NAK };	/* bits 6..5 */

enum nak_code {		/* bits 4..0 of a NAK */
	NAK_SEQUENCE	= 0,	/* PSN sequence error */
	NAK_INVALID	= 1,	/* invalid request */
	NAK_ACCESS	= 2,	/* remote access error */
	NAK_OPERATION	= 3,	/* remote operational error */
	NAK_INVALID_RD	= 4,	/* invalid RD request: not for RC */
};

#define AETH_CREDITS_INVALID 0x1fu	/* credit code of an ACK: no end-to-end flow control */

static inline enum aeth_kind aeth_kind(uint8_t syndrome)
{
	return (enum aeth_kind)(syndrome >> 5 & 3);
}

static inline uint8_t aeth_value(uint8_t syndrome)
{
	return syndrome & 0x1f;
}

static inline uint8_t aeth_syndrome(enum aeth_kind kind, uint8_t value)
{
	return (uint8_t)(kind << 5 | (value & 0x1f));
}

/* Encoded credit count -> number of receives (IBTA table "End-to-End Flow Control Credits"). */
uint32_t aeth_credits(uint8_t code);
/* Largest code whose count is at most @receives. */
uint8_t aeth_credit_code(uint32_t receives);

/* RNR NAK timer code (5 bits) -> nanoseconds; 0 is 655.36 ms (IBTA 9.7.5.2.8). */
uint64_t rnr_timer_ns(uint8_t code);

/* Local ACK timeout (5 bits) -> nanoseconds: 4.096 us * 2^code; 0 -> UINT64_MAX (never). */
uint64_t ack_timeout_ns(uint8_t code);

/* "ack", "rnr nak 0.64 ms", "nak remote access error"...: a static string. */
const char *aeth_name(uint8_t syndrome);

#endif
