/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The line of a packet, word by word, since scripts and golden conversations compare it.
 */
#include "wire/dump.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "wire/gaps.h"
#include "wire/psn.h"

static struct packet plain_packet(enum opcode_number code)
{
	return (struct packet){
		.op = opcode_get((uint8_t)code), .migrated = true, .pkey = PKEY_DEFAULT,
		.dest_qpn = 0x11, .psn = 0x100,
	};
}

static void check_line(const struct packet *packet, const char *expected)
{
	char line[DUMP_LINE_MAX];

	assert_int_equal(packet_dump(packet, line, sizeof(line)), strlen(expected));
	assert_string_equal(line, expected);
}

static void requests_read_as_documented(void **unused)
{
	struct packet packet = plain_packet(OPCODE_RC_WRITE_FIRST);

	packet.ack_request = true;
	packet.reth.address = 0x7f0000001000;
	packet.reth.length = 3074;
	packet.reth.rkey = 0x1234;
	packet.payload_bytes = 1024;
	check_line(&packet, "RC_WRITE_FIRST qpn 0x000011 psn 000100 ackreq "
			    "reth 0x7f0000001000+3074 rkey 0x00001234 payload 1024");

	packet = plain_packet(OPCODE_RC_READ_REQUEST);
	check_line(&packet, "RC_READ_REQUEST qpn 0x000011 psn 000100 reth 0x0+0 rkey 0x00000000");

	packet = plain_packet(OPCODE_RC_FETCH_ADD);
	packet.atomic.address = 0x1000;
	packet.atomic.rkey = 0xdeadbeef;
	packet.atomic.swap_add = 16;
	packet.atomic.compare = 99;
	check_line(&packet, "RC_FETCH_ADD qpn 0x000011 psn 000100 "
			    "atomic 0x1000 rkey 0xdeadbeef add 0x10");
	packet.op = opcode_get(OPCODE_RC_COMPARE_SWAP);
	check_line(&packet, "RC_COMPARE_SWAP qpn 0x000011 psn 000100 "
			    "atomic 0x1000 rkey 0xdeadbeef compare 0x63 swap 0x10");

	packet = plain_packet(OPCODE_RC_SEND_ONLY_INV);
	packet.solicited = true;
	packet.invalidate_rkey = 0xab;
	check_line(&packet, "RC_SEND_ONLY_INV qpn 0x000011 psn 000100 solicited "
			    "invalidate 0x000000ab payload 0");

	packet = plain_packet(OPCODE_UD_SEND_ONLY_IMM);
	packet.deth.qkey = 0x80010000;
	packet.deth.source_qpn = 1;
	packet.imm = 7;
	packet.payload_bytes = 5;
	check_line(&packet, "UD_SEND_ONLY_IMM qpn 0x000011 psn 000100 "
			    "from 0x000001 qkey 0x80010000 imm 0x00000007 payload 5");
}

static void responses_read_as_documented(void **unused)
{
	struct packet packet = plain_packet(OPCODE_RC_ACKNOWLEDGE);

	packet.aeth.msn = 5;
	packet.aeth.syndrome = 0x1f;
	check_line(&packet, "RC_ACKNOWLEDGE qpn 0x000011 psn 000100 ack msn 000005");
	packet.aeth.syndrome = 8;
	check_line(&packet, "RC_ACKNOWLEDGE qpn 0x000011 psn 000100 ack msn 000005 credits 16");
	packet.aeth.syndrome = 0x62;
	check_line(&packet, "RC_ACKNOWLEDGE qpn 0x000011 psn 000100 "
			    "nak remote access error msn 000005");
	packet.aeth.syndrome = 0x2c;
	check_line(&packet, "RC_ACKNOWLEDGE qpn 0x000011 psn 000100 rnr nak 0.64 ms msn 000005");

	packet = plain_packet(OPCODE_RC_ATOMIC_ACKNOWLEDGE);
	packet.aeth.syndrome = 0x1f;
	packet.atomic_original = 0x123456789abcdef0;
	check_line(&packet, "RC_ATOMIC_ACKNOWLEDGE qpn 0x000011 psn 000100 ack msn 000000 "
			    "original 0x123456789abcdef0");
}

static void what_is_unusual_in_the_bth_is_said(void **unused)
{
	struct packet packet = plain_packet(OPCODE_CNP);

	packet.becn = packet.fecn = true;
	packet.migrated = false;
	packet.pkey = 0x7fff;
	check_line(&packet, "CNP qpn 0x000011 psn 000100 fecn becn unmigrated pkey 0x7fff");
}

static void echoes_are_told_from_other_congestion_packets(void **unused)
{
	struct packet packet = plain_packet(OPCODE_CNP);

	check_line(&packet, "CNP qpn 0x000011 psn 000100");
	packet.echo.present = true;
	packet.echo.psn = 0xabc;
	packet.echo.qpn = 0x8022;
	check_line(&packet, "CNP qpn 0x000011 psn 000100 echo psn 000abc by 0x008022");
	packet.echo.group = 0xabcd;
	check_line(&packet, "CNP qpn 0x000011 psn 000100 echo psn 000abc by 0x008022 group 0000abcd");
	packet = plain_packet(OPCODE_UC_SEND_ONLY);
	packet.echo_request = true;
	check_line(&packet, "UC_SEND_ONLY qpn 0x000011 psn 000100 echoreq payload 0");
	packet = plain_packet(OPCODE_RC_WRITE_MIDDLE);
	packet.imm_follows = true;
	check_line(&packet, "RC_WRITE_MIDDLE qpn 0x000011 psn 000100 immfollows payload 0");
}

static struct packet gaps_packet(const struct gaps *gaps, uint8_t payload[GAPS_BYTES])
{
	struct packet packet = plain_packet(OPCODE_GAPS);

	gaps_write(gaps, payload);
	packet.payload = payload;
	packet.payload_bytes = GAPS_BYTES;
	return packet;
}

static void words_on_gaps_say_what_is_held(void **unused)
{
	uint8_t payload[GAPS_BYTES];
	struct gaps gaps = { .kind = GAPS_ASK, .qpn = 0x8022 };
	struct packet packet = gaps_packet(&gaps, payload);

	check_line(&packet, "GAPS qpn 0x000011 psn 000100 payload 48 ask by 0x008022");
	gaps.kind = GAPS_YES;
	packet = gaps_packet(&gaps, payload);
	check_line(&packet, "GAPS qpn 0x000011 psn 000100 payload 48 yes by 0x008022");
	gaps.kind = GAPS_REPORT;
	packet = gaps_packet(&gaps, payload);
	check_line(&packet, "GAPS qpn 0x000011 psn 000100 payload 48 report by 0x008022 holds nothing");
	/* Bit 0 is the next PSN but the one that is missing; they wrap. */
	gaps.held[0] = 1 | 2 | 4 | 0x20;
	gaps.held[3] = 1ull << 63;
	packet = gaps_packet(&gaps, payload);
	check_line(&packet, "GAPS qpn 0x000011 psn 000100 payload 48 report by 0x008022 "
			    "holds 000101-000103 000106 000200");
	packet.psn = PSN_MASK - 1;
	check_line(&packet, "GAPS qpn 0x000011 psn fffffe payload 48 report by 0x008022 "
			    "holds ffffff-000001 000004 0000fe");
	memset(gaps.held, 0xff, sizeof(gaps.held));
	packet = gaps_packet(&gaps, payload);
	check_line(&packet, "GAPS qpn 0x000011 psn 000100 payload 48 report by 0x008022 holds 000101-000200");
	memset(gaps.held, 0x55, sizeof(gaps.held));
	packet = gaps_packet(&gaps, payload);
	check_line(&packet, "GAPS qpn 0x000011 psn 000100 payload 48 report by 0x008022 holds 000101 000103 "
			    "000105 000107 000109 00010b 00010d 00010f ... 0001ff");
}

/* Of another manufacturer, or cut: what does not read as a word on gaps is a payload. */
static void what_is_no_word_on_gaps_is_a_payload(void **unused)
{
	const struct gaps gaps = { .kind = GAPS_ASK };
	uint8_t payload[GAPS_BYTES];
	struct packet packet = gaps_packet(&gaps, payload);

	packet.payload_bytes = GAPS_BYTES - 4;
	check_line(&packet, "GAPS qpn 0x000011 psn 000100 payload 44");
	packet.payload_bytes = GAPS_BYTES;
	payload[0] ^= 1;
	check_line(&packet, "GAPS qpn 0x000011 psn 000100 payload 48");
	packet.payload = NULL;
	check_line(&packet, "GAPS qpn 0x000011 psn 000100 payload 48");
}

static void the_longest_line_of_every_opcode_fits(void **unused)
{
	for (unsigned code = 0; code < 256; code++) {
		struct packet packet;
		char line[DUMP_LINE_MAX];

		if (!opcode_get((uint8_t)code))
			continue;
		memset(&packet, 0xff, sizeof(packet));
		packet.op = opcode_get((uint8_t)code);
		packet.solicited = packet.ack_request = packet.fecn = packet.becn = true;
		packet.echo_request = packet.imm_follows = packet.default_gid = packet.echo.present = true;
		packet.migrated = false;
		packet.pkey = 0x7fff;
		packet.dest_qpn = packet.psn = packet.aeth.msn = 0xffffff;
		packet.deth.source_qpn = 0xffffff;
		packet.aeth.syndrome = 0x20;
		packet.payload_bytes = PATH_MTU_MAX;
		assert_in_range(packet_dump(&packet, line, sizeof(line)), 1, sizeof(line) - 1);
		if (packet.op->verb == VERB_GAPS) {
			struct gaps gaps = { .kind = GAPS_REPORT, .qpn = 0xffffff };
			uint8_t payload[GAPS_BYTES];

			memset(gaps.held, 0xb6, sizeof(gaps.held));
			gaps_write(&gaps, payload);
			packet.payload = payload;
			packet.payload_bytes = GAPS_BYTES;
			assert_in_range(packet_dump(&packet, line, sizeof(line)), 1, sizeof(line) - 1);
		}
	}
}

static void too_small_a_buffer_is_cut_ended_and_never_overrun(void **unused)
{
	struct packet packet = plain_packet(OPCODE_RC_READ_REQUEST);
	char whole[DUMP_LINE_MAX], line[DUMP_LINE_MAX];
	int length = packet_dump(&packet, whole, sizeof(whole));

	assert_int_equal(packet_dump(&packet, NULL, 0), length);
	for (size_t size = 1; size < sizeof(line); size++) {
		size_t kept = (size_t)length < size ? (size_t)length : size - 1;

		memset(line, '#', sizeof(line));
		assert_int_equal(packet_dump(&packet, line, size), length);
		assert_int_equal(strlen(line), kept);
		assert_memory_equal(line, whole, kept);
		assert_int_equal(line[size], '#');
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(requests_read_as_documented),
		cmocka_unit_test(responses_read_as_documented),
		cmocka_unit_test(what_is_unusual_in_the_bth_is_said),
		cmocka_unit_test(echoes_are_told_from_other_congestion_packets),
		cmocka_unit_test(words_on_gaps_say_what_is_held),
		cmocka_unit_test(what_is_no_word_on_gaps_is_a_payload),
		cmocka_unit_test(the_longest_line_of_every_opcode_fits),
		cmocka_unit_test(too_small_a_buffer_is_cut_ended_and_never_overrun),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
