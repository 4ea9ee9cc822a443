/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The AETH's tables against rules that describe them: RNR timers and credits go up by 1, 4/3 or
 * 3/2, so that every second code doubles.
 */
#include "wire/aeth.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

static void rnr_timers_are_those_of_the_specification(void **unused)
{
	/* Milliseconds times 100: the two ends, the jumps, and what tutorials use (12). */
	assert_int_equal(rnr_timer_ns(0), 655360000);
	assert_int_equal(rnr_timer_ns(1), 10000);
	assert_int_equal(rnr_timer_ns(4), 40000);
	assert_int_equal(rnr_timer_ns(12), 640000);
	assert_int_equal(rnr_timer_ns(25), 61440000);
	assert_int_equal(rnr_timer_ns(31), 491520000);
}

static void rnr_timers_double_every_second_code(void **unused)
{
	for (uint8_t code = 4; code <= 31; code++) {
		assert_int_equal(rnr_timer_ns(code), 2 * rnr_timer_ns(code - 2));
		assert_true(rnr_timer_ns(code) > rnr_timer_ns(code - 1));
	}
	assert_int_equal(rnr_timer_ns(0), 2 * rnr_timer_ns(30));
	assert_int_equal(rnr_timer_ns(33), rnr_timer_ns(1));	/* 5 bits count */
}

static void ack_timeouts_are_powers_of_two_and_zero_is_never(void **unused)
{
	assert_int_equal(ack_timeout_ns(0), UINT64_MAX);
	assert_int_equal(ack_timeout_ns(1), 8192);
	assert_int_equal(ack_timeout_ns(14), 67108864);
	assert_int_equal(ack_timeout_ns(31), UINT64_C(4096) << 31);
}

static void credits_double_every_second_code(void **unused)
{
	for (uint8_t code = 0; code <= 4; code++)
		assert_int_equal(aeth_credits(code), code);
	for (uint8_t code = 4; code < AETH_CREDITS_INVALID; code++)
		assert_int_equal(aeth_credits(code), 2 * aeth_credits(code - 2));
	assert_int_equal(aeth_credits(30), 32768);
	assert_int_equal(aeth_credits(AETH_CREDITS_INVALID), UINT32_MAX);
}

static void the_credit_code_is_the_largest_that_promises_not_too_much(void **unused)
{
	for (uint32_t receives = 0; receives < 70000; receives++) {
		uint8_t code = aeth_credit_code(receives);

		assert_true(code < AETH_CREDITS_INVALID);
		assert_true(aeth_credits(code) <= receives);
		assert_true(aeth_credits(code + 1) > receives || code == 30);
	}
	assert_int_equal(aeth_credit_code(UINT32_MAX), 30);
}

static void a_syndrome_is_its_kind_and_value(void **unused)
{
	for (unsigned syndrome = 0; syndrome < 128; syndrome++)
		assert_int_equal(aeth_syndrome(aeth_kind((uint8_t)syndrome),
					       aeth_value((uint8_t)syndrome)), syndrome);
	assert_int_equal(aeth_syndrome(AETH_ACK, AETH_CREDITS_INVALID), 0x1f);
	assert_int_equal(aeth_syndrome(AETH_RNR, 12), 0x2c);
	assert_int_equal(aeth_syndrome(AETH_NAK, NAK_ACCESS), 0x62);
}

static void every_syndrome_has_a_name(void **unused)
{
	assert_string_equal(aeth_name(0x1f), "ack");
	assert_string_equal(aeth_name(0x20), "rnr nak 655.36 ms");
	assert_string_equal(aeth_name(0x2c), "rnr nak 0.64 ms");
	assert_string_equal(aeth_name(0x39), "rnr nak 61.44 ms");
	assert_string_equal(aeth_name(0x40), "reserved syndrome");
	assert_string_equal(aeth_name(0x60), "nak psn sequence error");
	assert_string_equal(aeth_name(0x61), "nak invalid request");
	assert_string_equal(aeth_name(0x62), "nak remote access error");
	assert_string_equal(aeth_name(0x63), "nak remote operational error");
	assert_string_equal(aeth_name(0x64), "nak invalid rd request");
	assert_string_equal(aeth_name(0x65), "nak of a reserved code");
	for (unsigned syndrome = 0; syndrome < 256; syndrome++)
		assert_true(strlen(aeth_name((uint8_t)syndrome)) > 2);
}

/* The text of an RNR NAK says in ms what the table says in ns. */
static void the_name_of_an_rnr_nak_tells_its_time(void **unused)
{
	for (uint8_t code = 0; code < 32; code++) {
		const char *c = aeth_name(aeth_syndrome(AETH_RNR, code)) + strlen("rnr nak ");
		uint64_t hundredths = 0;

		for (; *c != ' '; c++)
			if (*c != '.')
				hundredths = 10 * hundredths + (uint64_t)(*c - '0');
		assert_int_equal(hundredths * 10000, rnr_timer_ns(code));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rnr_timers_are_those_of_the_specification),
		cmocka_unit_test(rnr_timers_double_every_second_code),
		cmocka_unit_test(ack_timeouts_are_powers_of_two_and_zero_is_never),
		cmocka_unit_test(credits_double_every_second_code),
		cmocka_unit_test(the_credit_code_is_the_largest_that_promises_not_too_much),
		cmocka_unit_test(a_syndrome_is_its_kind_and_value),
		cmocka_unit_test(every_syndrome_has_a_name),
		cmocka_unit_test(the_name_of_an_rnr_nak_tells_its_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
