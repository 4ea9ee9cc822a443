/* SPDX-License-Identifier: BSD-2-Clause */
/* Packets of operations: opcodes, lengths, PSNs and directions; nonsense is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "trace/expand.h"

#define SEEN_MAX 4096

static struct expanded seen[SEEN_MAX];
static unsigned count;

static void note(void *owner, const struct expanded *packet)
{
	assert_true(count < SEEN_MAX);
	seen[count++] = *packet;
}

static bool expand(const struct trace_operation *operation, uint32_t *left_out)
{
	count = 0;
	return trace_expand(operation, true, 0x111, note, NULL, left_out);
}

static uint8_t code(unsigned i)
{
	return seen[i].headers[0];
}

static uint32_t destination(unsigned i)
{
	return (uint32_t)(seen[i].headers[5] << 16 | seen[i].headers[6] << 8 | seen[i].headers[7]);
}

static uint32_t psn(unsigned i)
{
	return (uint32_t)(seen[i].headers[9] << 16 | seen[i].headers[10] << 8 | seen[i].headers[11]);
}

static void a_write_becomes_first_middle_last_and_its_ack(void **state)
{
	const struct trace_operation write = { .verb = VERB_WRITE, .service = SERVICE_RC, .acknowledged = 1,
					       .psn = 0xffffff, .mtu = 1024, .bytes = 2 * 1024 + 5,
					       .dest_qpn = 0x222 };
	uint32_t left_out;

	assert_true(expand(&write, &left_out));
	assert_int_equal(count, 4);
	assert_int_equal(code(0), OPCODE_RC_WRITE_FIRST);
	assert_int_equal(code(1), OPCODE_RC_WRITE_MIDDLE);
	assert_int_equal(code(2), OPCODE_RC_WRITE_LAST);
	assert_int_equal(code(3), OPCODE_RC_ACKNOWLEDGE);
	assert_int_equal(psn(0), 0xffffff);
	assert_int_equal(psn(1), 0);
	assert_int_equal(psn(3), 1);
	assert_int_equal(seen[0].length, BTH_BYTES + 16 + 1024 + ICRC_BYTES);
	assert_int_equal(seen[2].length, BTH_BYTES + 8 + ICRC_BYTES);
	assert_true(seen[2].outbound && !seen[3].outbound);
	assert_int_equal(destination(0), 0x222);
	assert_int_equal(destination(3), 0x111);
}

static void a_read_becomes_its_request_and_responses(void **state)
{
	const struct trace_operation read = { .verb = VERB_READ, .service = SERVICE_RC, .mtu = 4096, .bytes = 8192,
					      .dest_qpn = 0x222 };
	uint32_t left_out;

	assert_true(expand(&read, &left_out));
	assert_int_equal(count, 3);
	assert_int_equal(code(0), OPCODE_RC_READ_REQUEST);
	assert_int_equal(code(1), OPCODE_RC_READ_RESPONSE_FIRST);
	assert_int_equal(code(2), OPCODE_RC_READ_RESPONSE_LAST);
	assert_true(seen[0].outbound && !seen[1].outbound && !seen[2].outbound);
}

static void an_atomic_has_its_operands_and_what_was_there(void **state)
{
	const struct trace_operation swap = { .verb = VERB_ATOMIC, .service = SERVICE_RC, .mtu = 4096, .bytes = 8,
					      .swaps = 1, .compare_add = 3, .swap = 4, .original = 7 };
	struct packet packet;
	uint8_t bytes[64] = { 0 };
	uint32_t left_out;

	assert_true(expand(&swap, &left_out));
	assert_int_equal(count, 2);
	memcpy(bytes, seen[0].headers, seen[0].header_bytes);
	assert_int_equal(packet_parse(bytes, seen[0].length, &packet), PARSE_OK);
	assert_true(packet.atomic.compare == 3 && packet.atomic.swap_add == 4);
	memset(bytes, 0, sizeof(bytes));
	memcpy(bytes, seen[1].headers, seen[1].header_bytes);
	assert_int_equal(packet_parse(bytes, seen[1].length, &packet), PARSE_OK);
	assert_int_equal(packet.atomic_original, 7);
}

static void a_send_with_immediate_data_ends_with_it_and_uc_has_codes_of_its_own(void **state)
{
	const struct trace_operation send = { .verb = VERB_SEND, .service = SERVICE_UC, .mtu = 256, .bytes = 257,
					      .has_imm = 1, .imm = 9 };
	uint32_t left_out;

	assert_true(expand(&send, &left_out));
	assert_int_equal(count, 2);
	assert_int_equal(code(0), OPCODE_UC_SEND_FIRST);
	assert_int_equal(code(1), OPCODE_UC_SEND_LAST_IMM);
}

static void of_a_long_one_the_middle_is_left_out_and_counted(void **state)
{
	const struct trace_operation write = { .verb = VERB_WRITE, .service = SERVICE_RC, .mtu = 256,
					       .bytes = 256 * 5000 };
	uint32_t left_out;

	assert_true(expand(&write, &left_out));
	assert_int_equal(count, EXPAND_PACKETS_MAX);
	assert_int_equal(left_out, 5000 - EXPAND_PACKETS_MAX);
	assert_int_equal(code(count - 1), OPCODE_RC_WRITE_LAST);
	assert_int_equal(psn(count - 1), 4999);
}

static void nonsense_is_refused(void **state)
{
	struct trace_operation wrong = { .verb = VERB_WRITE, .service = SERVICE_RC, .mtu = 0, .bytes = 8 };
	uint32_t left_out;

	assert_false(expand(&wrong, &left_out));
	wrong.mtu = 100000;
	assert_false(expand(&wrong, &left_out));
	wrong.mtu = 1024;
	wrong.verb = 200;
	assert_false(expand(&wrong, &left_out));
	wrong.verb = VERB_WRITE;
	wrong.service = 99;
	assert_false(expand(&wrong, &left_out));
	wrong.service = SERVICE_RC;
	wrong.bytes = UINT32_MAX;
	assert_false(expand(&wrong, &left_out));
	assert_int_equal(count, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_write_becomes_first_middle_last_and_its_ack),
		cmocka_unit_test(a_read_becomes_its_request_and_responses),
		cmocka_unit_test(an_atomic_has_its_operands_and_what_was_there),
		cmocka_unit_test(a_send_with_immediate_data_ends_with_it_and_uc_has_codes_of_its_own),
		cmocka_unit_test(of_a_long_one_the_middle_is_left_out_and_counted),
		cmocka_unit_test(nonsense_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
