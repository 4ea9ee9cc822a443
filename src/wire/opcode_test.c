/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The opcode table is total: each of 256 codes is either a row whose parts agree with each
 * other and with its name, or refused. Header lengths are compared with the specification's.
 */
#include "wire/opcode.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#define ROWS 66

static const struct {
	uint8_t code, header_bytes;
} lengths[] = {		/* BTH and extensions, from IBTA's figures of each packet */
	{ 0x00, 12 }, { 0x01, 12 }, { 0x02, 12 }, { 0x03, 16 }, { 0x04, 12 }, { 0x05, 16 },
	{ 0x06, 28 }, { 0x07, 12 }, { 0x08, 12 }, { 0x09, 16 }, { 0x0a, 28 }, { 0x0b, 32 },
	{ 0x0c, 28 }, { 0x0d, 16 }, { 0x0e, 12 }, { 0x0f, 16 }, { 0x10, 16 }, { 0x11, 16 },
	{ 0x12, 24 }, { 0x13, 40 }, { 0x14, 40 }, { 0x16, 16 }, { 0x17, 16 },
	{ 0x1c, 32 }, { 0x1d, 28 },
	{ 0x20, 12 }, { 0x21, 12 }, { 0x22, 12 }, { 0x23, 16 }, { 0x24, 12 }, { 0x25, 16 },
	{ 0x26, 28 }, { 0x27, 12 }, { 0x28, 12 }, { 0x29, 16 }, { 0x2a, 28 }, { 0x2b, 32 },
	{ 0x64, 20 }, { 0x65, 24 },
	{ 0x81, 28 },
	{ 0xa0, 16 }, { 0xa1, 16 }, { 0xa2, 16 }, { 0xa3, 20 }, { 0xa4, 16 }, { 0xa5, 20 },
	{ 0xa6, 32 }, { 0xa7, 16 }, { 0xa8, 16 }, { 0xa9, 20 }, { 0xaa, 32 }, { 0xab, 36 },
	{ 0xac, 32 }, { 0xad, 16 }, { 0xae, 12 }, { 0xaf, 16 }, { 0xb0, 16 }, { 0xb1, 16 },
	{ 0xb2, 24 }, { 0xb3, 44 }, { 0xb4, 44 }, { 0xb6, 20 }, { 0xb7, 20 },
	{ 0xbc, 36 }, { 0xbd, 32 },
	{ 0xc0, 12 },
};

static void exactly_the_known_codes_are_opcodes(void **unused)
{
	unsigned rows = 0;

	for (unsigned code = 0; code < 256; code++) {
		const struct opcode *op = opcode_get((uint8_t)code);

		if (!op)
			continue;
		assert_int_equal(op->code, code);
		assert_true(rows < ROWS);
		assert_int_equal(code, lengths[rows].code);
		assert_int_equal(op->header_bytes, lengths[rows].header_bytes);
		rows++;
	}
	assert_int_equal(rows, ROWS);
	assert_int_equal(sizeof(lengths) / sizeof(*lengths), ROWS);
}

/* IBTA 9.2.1: the three highest bits are the service; RoCEv2 has CNP at 0x81, manufacturers 0xc0 to 0xff. */
static void the_code_tells_the_service(void **unused)
{
	static const enum service services[8] = { SERVICE_RC, SERVICE_UC, 0, SERVICE_UD,
						  SERVICE_CNP, SERVICE_XRC, SERVICE_GAPS };

	for (unsigned code = 0; code < 256; code++) {
		const struct opcode *op = opcode_get((uint8_t)code);

		if (op)
			assert_int_equal(op->service, services[code >> 5]);
	}
}

static bool name_has(const struct opcode *op, const char *word)
{
	return strstr(op->name, word);
}

static void the_name_tells_part_and_immediate(void **unused)
{
	for (unsigned code = 0; code < 256; code++) {
		const struct opcode *op = opcode_get((uint8_t)code);

		if (!op)
			continue;
		assert_int_equal(name_has(op, "_FIRST"), op->part == PART_FIRST);
		assert_int_equal(name_has(op, "_MIDDLE"), op->part == PART_MIDDLE);
		assert_int_equal(name_has(op, "_LAST"), op->part == PART_LAST);
		assert_int_equal(name_has(op, "_IMM"), !!(op->headers & HDR_IMM));
		assert_int_equal(name_has(op, "_INV"), !!(op->headers & HDR_IETH));
		assert_int_equal(name_has(op, "RESPONSE") || name_has(op, "ACKNOWLEDGE"),
				 opcode_is_response(op));
		for (unsigned other = 0; other < code; other++)
			if (opcode_get((uint8_t)other))
				assert_string_not_equal(op->name, opcode_get((uint8_t)other)->name);
	}
}

static void payload_goes_with_send_write_read_response_and_gaps(void **unused)
{
	for (unsigned code = 0; code < 256; code++) {
		const struct opcode *op = opcode_get((uint8_t)code);

		if (op)
			assert_int_equal(opcode_has_payload(op),
					 name_has(op, "SEND") || name_has(op, "WRITE") ||
					 name_has(op, "READ_RESPONSE") || name_has(op, "GAPS"));
	}
}

/* The rule said in full, kind of message by kind of message. */
static bool may_follow(const char *previous, const char *now)
{
	static const char *const series[] = { "RC_SEND", "RC_WRITE", "RC_READ_RESPONSE", "UC_SEND",
					      "UC_WRITE", "XRC_SEND", "XRC_WRITE",
					      "XRC_READ_RESPONSE" };
	bool begins = !strstr(now, "_MIDDLE") && !strstr(now, "_LAST");
	bool inside = previous && (strstr(previous, "_FIRST") || strstr(previous, "_MIDDLE"));

	if (!inside)
		return begins;
	for (size_t i = 0; i < sizeof(series) / sizeof(*series); i++) {
		size_t length = strlen(series[i]);

		if (strncmp(previous, series[i], length) == 0)
			return !begins && strncmp(now, series[i], length) == 0;
	}
	return false;
}

static void a_message_goes_on_with_its_own_kind_until_it_ends(void **unused)
{
	for (unsigned now = 0; now < 256; now++) {
		const struct opcode *op = opcode_get((uint8_t)now);

		if (!op)
			continue;
		assert_int_equal(opcode_follows(NULL, op), may_follow(NULL, op->name));
		for (unsigned before = 0; before < 256; before++) {
			const struct opcode *previous = opcode_get((uint8_t)before);

			if (previous)
				assert_int_equal(opcode_follows(previous, op),
						 may_follow(previous->name, op->name));
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(exactly_the_known_codes_are_opcodes),
		cmocka_unit_test(the_code_tells_the_service),
		cmocka_unit_test(the_name_tells_part_and_immediate),
		cmocka_unit_test(payload_goes_with_send_write_read_response_and_gaps),
		cmocka_unit_test(a_message_goes_on_with_its_own_kind_until_it_ends),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
