/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tables behind the AETH syndrome: RNR NAK timers (IBTA 9.7.5.2.8) and end-to-end credits
 * (9.7.7.2.1), and names for them.
 */
#include "wire/aeth.h"

#include <stddef.h>

/* Tens of microseconds, by code; the text is for people. */
static const struct {
	uint32_t wait_10us;
	const char *name;
} rnr_timer[32] = {
	{ 65536, "rnr nak 655.36 ms" },	{ 1, "rnr nak 0.01 ms" },
	{ 2, "rnr nak 0.02 ms" },	{ 3, "rnr nak 0.03 ms" },
	{ 4, "rnr nak 0.04 ms" },	{ 6, "rnr nak 0.06 ms" },
	{ 8, "rnr nak 0.08 ms" },	{ 12, "rnr nak 0.12 ms" },
	{ 16, "rnr nak 0.16 ms" },	{ 24, "rnr nak 0.24 ms" },
	{ 32, "rnr nak 0.32 ms" },	{ 48, "rnr nak 0.48 ms" },
	{ 64, "rnr nak 0.64 ms" },	{ 96, "rnr nak 0.96 ms" },
	{ 128, "rnr nak 1.28 ms" },	{ 192, "rnr nak 1.92 ms" },
	{ 256, "rnr nak 2.56 ms" },	{ 384, "rnr nak 3.84 ms" },
	{ 512, "rnr nak 5.12 ms" },	{ 768, "rnr nak 7.68 ms" },
	{ 1024, "rnr nak 10.24 ms" },	{ 1536, "rnr nak 15.36 ms" },
	{ 2048, "rnr nak 20.48 ms" },	{ 3072, "rnr nak 30.72 ms" },
	{ 4096, "rnr nak 40.96 ms" },	{ 6144, "rnr nak 61.44 ms" },
	{ 8192, "rnr nak 81.92 ms" },	{ 12288, "rnr nak 122.88 ms" },
	{ 16384, "rnr nak 163.84 ms" },	{ 24576, "rnr nak 245.76 ms" },
	{ 32768, "rnr nak 327.68 ms" },	{ 49152, "rnr nak 491.52 ms" },
};

static const uint16_t credit_table[AETH_CREDITS_INVALID] = {
	0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024,
	1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768,
};

static const char *const nak_names[] = {
	[NAK_SEQUENCE] = "nak psn sequence error",
	[NAK_INVALID] = "nak invalid request",
	[NAK_ACCESS] = "nak remote access error",
	[NAK_OPERATION] = "nak remote operational error",
	[NAK_INVALID_RD] = "nak invalid rd request",
};

/* A peer that gives no credits does not limit us: the count for that code is without end. */
uint32_t aeth_credits(uint8_t code)
{
	code &= 0x1f;
	return code == AETH_CREDITS_INVALID ? UINT32_MAX : credit_table[code];
}

/* Of the two highest bits that count: codes go 2^n, 3 * 2^(n-1), 2^(n+1). Each ACK asks. */
uint8_t aeth_credit_code(uint32_t receives)
{
	unsigned power, code;

	if (receives < 2)
		return (uint8_t)receives;
	power = 31 - (unsigned)__builtin_clz(receives);
	code = 2 * power + (receives >> (power - 1) & 1);
	return (uint8_t)(code < AETH_CREDITS_INVALID ? code : AETH_CREDITS_INVALID - 1);
}

uint64_t rnr_timer_ns(uint8_t code)
{
	return rnr_timer[code & 0x1f].wait_10us * UINT64_C(10000);
}

uint64_t ack_timeout_ns(uint8_t code)
{
	code &= 0x1f;
	return code ? UINT64_C(4096) << code : UINT64_MAX;
}

const char *aeth_name(uint8_t syndrome)
{
	uint8_t value = aeth_value(syndrome);

	switch (aeth_kind(syndrome)) {
	case AETH_ACK:
		return "ack";
	case AETH_RNR:
		return rnr_timer[value].name;
	case AETH_NAK:
		if (value < sizeof(nak_names) / sizeof(*nak_names))
			return nak_names[value];
		return "nak of a reserved code";
	case AETH_RESERVED:
		break;
	}
	return "reserved syndrome";
}
