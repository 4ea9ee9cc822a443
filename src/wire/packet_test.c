/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The parser on every opcode, length and flag byte, from buffers of exactly that length (for
 * ASan), and the writer against the parser and against bytes laid out by hand.
 */
#include "wire/packet.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/test_random.h"

#define LENGTHS 121u

/* What the header file says, from the numbers alone. */
static enum parse expected_verdict(uint8_t code, uint8_t flags, size_t length)
{
	const struct opcode *op = opcode_get(code);
	size_t pad = flags >> 4 & 3;

	if (length < 16)
		return PARSE_SHORT;
	if (!op)
		return PARSE_OPCODE;
	if (flags & 0x0f)
		return PARSE_VERSION;
	if (length < op->header_bytes + 4)
		return PARSE_SHORT;
	if (length % 4 || (pad && length == op->header_bytes + 4))
		return PARSE_PAD;
	if ((op->verb == VERB_ACK || op->verb == VERB_ATOMIC_ACK || op->verb == VERB_CNP) &&
	    length > op->header_bytes + 4)
		return PARSE_LENGTH;
	return PARSE_OK;
}

static void check_parsed(const struct packet *packet, const uint8_t *data, size_t length)
{
	const uint8_t *icrc = data + length - ICRC_BYTES;

	assert_ptr_equal(packet->op, opcode_get(data[0]));
	assert_ptr_equal(packet->payload, data + packet->op->header_bytes);
	assert_ptr_equal(packet->payload + packet->payload_bytes + (data[1] >> 4 & 3), icrc);
	assert_true(packet->payload_bytes <= PATH_MTU_MAX);
}

static void parsing_is_right_for_every_opcode_length_and_flag_byte(void **unused)
{
	struct packet packet, untouched;

	memset(&untouched, 0x5a, sizeof(untouched));
	for (size_t length = 0; length < LENGTHS; length++) {
		/* Never of 0 bytes: malloc(0) may be NULL. Reading its byte is what is looked for. */
		uint8_t *data = malloc(length ? length : 1);

		memset(data, 0xee, length ? length : 1);
		for (unsigned i = 0; i < 65536; i++) {
			enum parse verdict;
			uint8_t code = (uint8_t)(i >> 8), flags = (uint8_t)i;

			if (length > 0)
				data[0] = code;
			if (length > 1)
				data[1] = flags;
			packet = untouched;
			verdict = packet_parse(data, length, &packet);
			if (verdict != expected_verdict(code, flags, length))
				fail_msg("opcode %02x flags %02x length %zu: %s", code, flags,
					 length, parse_name(verdict));
			if (verdict == PARSE_OK)
				check_parsed(&packet, data, length);
			else if (memcmp(&packet, &untouched, sizeof(packet)))
				fail_msg("packet changed by a refused parse");
		}
		free(data);
	}
}

static void payload_is_bounded_by_the_largest_path_mtu(void **unused)
{
	static uint8_t data[PACKET_BYTES_MAX + 65536];
	struct packet packet;

	data[0] = OPCODE_RC_SEND_ONLY;
	assert_int_equal(packet_parse(data, 12 + 4096 + 4, &packet), PARSE_OK);
	assert_int_equal(packet.payload_bytes, 4096);
	assert_int_equal(packet_parse(data, 12 + 4100 + 4, &packet), PARSE_LENGTH);
	assert_int_equal(packet_parse(data, sizeof(data) & ~3u, &packet), PARSE_LENGTH);
}

static void payload_that_a_request_cannot_have_is_for_its_qp_to_refuse(void **unused)
{
	static const uint8_t requests[] = { OPCODE_RC_READ_REQUEST, OPCODE_RC_FETCH_ADD, OPCODE_RC_FLUSH };
	static const uint8_t answers[] = { OPCODE_RC_ACKNOWLEDGE, OPCODE_RC_ATOMIC_ACKNOWLEDGE };
	static uint8_t data[PACKET_BYTES_MAX];
	struct packet packet;

	for (size_t i = 0; i < sizeof(requests); i++) {
		data[0] = requests[i];
		assert_int_equal(packet_parse(data, opcode_get(requests[i])->header_bytes + 240 + 4, &packet),
				 PARSE_OK);
		assert_int_equal(packet.payload_bytes, 240);
	}
	for (size_t i = 0; i < sizeof(answers); i++) {
		data[0] = answers[i];
		assert_int_equal(packet_parse(data, opcode_get(answers[i])->header_bytes + 240 + 4, &packet),
				 PARSE_LENGTH);
	}
}

static struct packet random_packet(uint64_t *random, const struct opcode *op)
{
	struct packet packet = { .op = op };
	unsigned flags = (unsigned)test_random(random);

	packet.solicited = flags & 1;
	packet.migrated = flags & 2;
	packet.fecn = flags & 4;
	packet.becn = flags & 8;
	packet.echo_request = flags & 32;
	packet.imm_follows = flags & 128;
	packet.default_gid = flags & 256;
	if (op->headers & HDR_CNP && flags & 64) {
		packet.echo.present = true;
		packet.echo.psn = (uint32_t)test_random(random) & 0xffffff;
		packet.echo.qpn = (uint32_t)test_random(random) & 0xffffff;
		packet.echo.group = (uint32_t)test_random(random);
	}
	packet.ack_request = flags & 16;
	packet.pkey = (uint16_t)test_random(random);
	packet.dest_qpn = (uint32_t)test_random(random) & QPN_MASK;
	packet.psn = (uint32_t)test_random(random) & 0xffffff;
	if (op->headers & HDR_XRC)
		packet.srqn = (uint32_t)test_random(random) & QPN_MASK;
	if (op->headers & HDR_DETH) {
		packet.deth.qkey = (uint32_t)test_random(random);
		packet.deth.source_qpn = (uint32_t)test_random(random) & QPN_MASK;
	}
	if (op->headers & HDR_RETH) {
		packet.reth.address = test_random(random);
		packet.reth.rkey = (uint32_t)test_random(random);
		packet.reth.length = (uint32_t)test_random(random);
	}
	if (op->headers & HDR_ATOMIC) {
		packet.atomic.address = test_random(random);
		packet.atomic.rkey = (uint32_t)test_random(random);
		packet.atomic.swap_add = test_random(random);
		packet.atomic.compare = test_random(random);
	}
	if (op->headers & HDR_AETH) {
		packet.aeth.syndrome = (uint8_t)test_random(random);
		packet.aeth.msn = (uint32_t)test_random(random) & 0xffffff;
	}
	if (op->headers & HDR_ATOMIC_ACK)
		packet.atomic_original = test_random(random);
	if (op->headers & HDR_IMM)
		packet.imm = (uint32_t)test_random(random);
	if (op->headers & HDR_IETH)
		packet.invalidate_rkey = (uint32_t)test_random(random);
	return packet;
}

static void check_equal(const struct packet *a, const struct packet *b)
{
	assert_ptr_equal(a->op, b->op);
	assert_int_equal(a->solicited, b->solicited);
	assert_int_equal(a->migrated, b->migrated);
	assert_int_equal(a->fecn, b->fecn);
	assert_int_equal(a->becn, b->becn);
	assert_int_equal(a->echo_request, b->echo_request);
	assert_int_equal(a->imm_follows, b->imm_follows);
	assert_int_equal(a->default_gid, b->default_gid);
	assert_int_equal(a->echo.present, b->echo.present);
	assert_int_equal(a->echo.psn, b->echo.psn);
	assert_int_equal(a->echo.qpn, b->echo.qpn);
	assert_int_equal(a->echo.group, b->echo.group);
	assert_int_equal(a->ack_request, b->ack_request);
	assert_int_equal(a->pkey, b->pkey);
	assert_int_equal(a->dest_qpn, b->dest_qpn);
	assert_int_equal(a->psn, b->psn);
	assert_int_equal(a->deth.qkey, b->deth.qkey);
	assert_int_equal(a->deth.source_qpn, b->deth.source_qpn);
	assert_int_equal(a->reth.address, b->reth.address);
	assert_int_equal(a->reth.rkey, b->reth.rkey);
	assert_int_equal(a->reth.length, b->reth.length);
	assert_int_equal(a->atomic.address, b->atomic.address);
	assert_int_equal(a->atomic.rkey, b->atomic.rkey);
	assert_int_equal(a->atomic.swap_add, b->atomic.swap_add);
	assert_int_equal(a->atomic.compare, b->atomic.compare);
	assert_int_equal(a->aeth.syndrome, b->aeth.syndrome);
	assert_int_equal(a->aeth.msn, b->aeth.msn);
	assert_int_equal(a->atomic_original, b->atomic_original);
	assert_int_equal(a->imm, b->imm);
	assert_int_equal(a->invalidate_rkey, b->invalidate_rkey);
	assert_int_equal(a->payload_bytes, b->payload_bytes);
}

static void check_round_trip(uint64_t *random, const struct opcode *op, size_t payload_bytes)
{
	struct packet written = random_packet(random, op), parsed;
	size_t length = packet_bytes(op, payload_bytes);
	uint8_t *data = calloc(1, length), again[PACKET_HEADER_MAX];

	written.payload_bytes = payload_bytes;
	assert_int_equal(packet_write_headers(&written, data), op->header_bytes);
	assert_int_equal(packet_parse(data, length, &parsed), PARSE_OK);
	check_equal(&written, &parsed);
	assert_int_equal(packet_write_headers(&parsed, again), op->header_bytes);
	assert_memory_equal(again, data, op->header_bytes);
	assert_int_equal(packet_peek_qpn(data, length), written.dest_qpn);
	free(data);
}

static void what_is_written_is_parsed_back_for_every_opcode(void **unused)
{
	uint64_t random = 6;

	for (unsigned code = 0; code < 256; code++) {
		const struct opcode *op = opcode_get((uint8_t)code);
		size_t most = op && opcode_has_payload(op) ? 9 : 0;

		for (unsigned round = 0; op && round < 100; round++)
			check_round_trip(&random, op, round % (most + 1));
		if (most)
			check_round_trip(&random, op, PATH_MTU_MAX);
	}
}

static void check_bytes(const struct packet *packet, const char *hex)
{
	uint8_t out[PACKET_HEADER_MAX];
	char text[2 * PACKET_HEADER_MAX + 1];
	size_t length = packet_write_headers(packet, out);

	for (size_t i = 0; i < length; i++) {
		text[2 * i] = "0123456789abcdef"[out[i] >> 4];
		text[2 * i + 1] = "0123456789abcdef"[out[i] & 15];
	}
	text[2 * length] = '\0';
	assert_string_equal(text, hex);
}

static struct packet plain_packet(enum opcode_number code)
{
	return (struct packet){
		.op = opcode_get((uint8_t)code), .migrated = true, .pkey = PKEY_DEFAULT,
		.dest_qpn = 0x123456, .psn = 0xabcdef,
	};
}

static void headers_are_laid_out_as_the_specification_draws_them(void **unused)
{
	struct packet packet = plain_packet(OPCODE_RC_SEND_ONLY);

	packet.payload_bytes = 1;
	check_bytes(&packet, "0470ffff0012345600abcdef");
	packet.solicited = packet.fecn = packet.ack_request = true;
	check_bytes(&packet, "04f0ffff8012345680abcdef");

	packet = plain_packet(OPCODE_RC_WRITE_ONLY_IMM);
	packet.becn = true;
	packet.reth.address = 0x0102030405060708;
	packet.reth.rkey = 0x11121314;
	packet.reth.length = 0x21222324;
	packet.imm = 0x31323334;
	check_bytes(&packet,
		    "0b40ffff4012345600abcdef" "01020304050607081112131421222324" "31323334");

	packet = plain_packet(OPCODE_RC_COMPARE_SWAP);
	packet.atomic.address = 0x0102030405060708;
	packet.atomic.rkey = 0x11121314;
	packet.atomic.swap_add = 0x2122232425262728;
	packet.atomic.compare = 0x3132333435363738;
	check_bytes(&packet, "1340ffff0012345600abcdef" "010203040506070811121314"
			     "2122232425262728" "3132333435363738");

	packet = plain_packet(OPCODE_RC_ATOMIC_ACKNOWLEDGE);
	packet.aeth.syndrome = 0x1f;
	packet.aeth.msn = 0x010203;
	packet.atomic_original = 0x1112131415161718;
	check_bytes(&packet, "1240ffff0012345600abcdef" "1f010203" "1112131415161718");

	packet = plain_packet(OPCODE_UD_SEND_ONLY_IMM);
	packet.deth.qkey = 0x01020304;
	packet.deth.source_qpn = 0x111213;
	packet.imm = 0x21222324;
	check_bytes(&packet, "6540ffff0012345600abcdef" "0102030400111213" "21222324");

	packet = plain_packet(OPCODE_RC_SEND_ONLY_INV);
	packet.invalidate_rkey = 0x01020304;
	check_bytes(&packet, "1740ffff0012345600abcdef" "01020304");

	packet = plain_packet(OPCODE_CNP);
	check_bytes(&packet, "8140ffff0012345600abcdef" "00000000000000000000000000000000");
	packet.echo.present = true;
	packet.echo.psn = 0x010203;
	packet.echo.qpn = 0x111213;
	packet.echo.group = 0x21222324;
	check_bytes(&packet, "8140ffff0012345600abcdef" "5662e0c1000102030011121321222324");
}

static void reserved_bits_are_ignored_on_receipt(void **unused)
{
	uint8_t data[24] = { OPCODE_UD_SEND_ONLY, 0x40, 0xff, 0xff, 0x07, 1, 2, 3, 0x7f, 4, 5, 6,
			     0, 0, 0, 1, 0xff, 7, 8, 9 };
	struct packet packet;

	assert_int_equal(packet_parse(data, sizeof(data), &packet), PARSE_OK);
	assert_false(packet.fecn || packet.becn || packet.echo_request || packet.imm_follows ||
		     packet.default_gid || packet.ack_request);
	assert_int_equal(packet.dest_qpn, 0x010203);
	assert_int_equal(packet.psn, 0x040506);
	assert_int_equal(packet.deth.source_qpn, 0x070809);
}

static void peeking_at_too_short_a_packet_gives_qpn_0(void **unused)
{
	for (size_t length = 0; length <= 12; length++) {
		uint8_t *data = malloc(length + 1);
		uint32_t qpn = length < 8 ? 0 : 0x777777;

		data = realloc(data, length ? length : 1);
		memset(data, 0x77, length ? length : 1);
		assert_int_equal(packet_peek_qpn(data, length), qpn);
		free(data);
	}
}

static void padding_rounds_up_to_four_bytes(void **unused)
{
	for (size_t bytes = 0; bytes < 100; bytes++) {
		assert_int_equal((bytes + packet_pad(bytes)) % 4, 0);
		assert_true(packet_pad(bytes) < 4);
	}
}

static void every_verdict_has_a_name(void **unused)
{
	for (int i = PARSE_OK; i <= PARSE_LENGTH; i++) {
		assert_string_not_equal(parse_name((enum parse)i), "unknown");
		for (int j = PARSE_OK; j < i; j++)
			assert_string_not_equal(parse_name((enum parse)i),
						parse_name((enum parse)j));
	}
	assert_string_equal(parse_name((enum parse)(PARSE_LENGTH + 1)), "unknown");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(parsing_is_right_for_every_opcode_length_and_flag_byte),
		cmocka_unit_test(payload_is_bounded_by_the_largest_path_mtu),
		cmocka_unit_test(payload_that_a_request_cannot_have_is_for_its_qp_to_refuse),
		cmocka_unit_test(what_is_written_is_parsed_back_for_every_opcode),
		cmocka_unit_test(headers_are_laid_out_as_the_specification_draws_them),
		cmocka_unit_test(reserved_bits_are_ignored_on_receipt),
		cmocka_unit_test(peeking_at_too_short_a_packet_gives_qpn_0),
		cmocka_unit_test(padding_rounds_up_to_four_bytes),
		cmocka_unit_test(every_verdict_has_a_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
