/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Every packet of every capture here (Linux rxe; index.txt says of what): its ICRC is what we
 * compute, its identification is what we recover, it parses, and writing what was parsed gives
 * the same bytes. The argument is the directory of the captures.
 */
#include <glob.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "capture.h"
#include "wire/icrc.h"
#include "wire/packet.h"

#define PACKETS_KNOWN	1499	/* so that an unreadable capture is not a passed test */

static const char *directory;

typedef void packet_check(const struct capture *capture, const struct captured *packet);

static unsigned check_capture(const char *path, packet_check *check)
{
	struct capture capture;
	struct captured packet;
	unsigned packets = 0;
	int err = capture_open(&capture, path), more;

	if (err)
		fail_msg("%s: %s", path, strerror(err));
	while ((more = capture_next(&capture, &packet)) > 0) {
		check(&capture, &packet);
		packets++;
	}
	if (more < 0)
		fail_msg("%s: damaged behind frame %u", path, capture.number);
	capture_close(&capture);
	return packets;
}

static void check_all(packet_check *check)
{
	char pattern[4096];
	unsigned packets = 0;
	glob_t files;

	snprintf(pattern, sizeof(pattern), "%s/*.pcap", directory);
	assert_int_equal(glob(pattern, 0, NULL, &files), 0);
	for (size_t i = 0; i < files.gl_pathc; i++)
		packets += check_capture(files.gl_pathv[i], check);
	globfree(&files);
	assert_int_equal(packets, PACKETS_KNOWN);
}

static void check_icrc(const struct capture *capture, const struct captured *packet)
{
	struct icrc_header header = packet->header;

	if (icrc_check(&header, packet->data, packet->length) != ICRC_GOOD)
		fail_msg("%s, frame %u: ICRC", capture->path, capture->number);
}

static void the_icrc_is_right_with_the_identification_seen(void **unused)
{
	check_all(check_icrc);
}

static void check_recovery(const struct capture *capture, const struct captured *packet)
{
	const struct icrc_header *seen = &packet->header;
	struct icrc_header header = *seen;
	bool as_guessed;

	if (seen->ipv6)
		return;
	header.ip_id = 0;
	header.dont_fragment = true;
	as_guessed = seen->ip_id == 0 && seen->dont_fragment;
	if (icrc_check(&header, packet->data, packet->length) !=
		    (as_guessed ? ICRC_GOOD : ICRC_OTHER_ID) ||
	    header.ip_id != seen->ip_id || header.dont_fragment != seen->dont_fragment)
		fail_msg("%s, frame %u: identification 0x%04x seen, 0x%04x recovered",
			 capture->path, capture->number, seen->ip_id, header.ip_id);
}

static void the_identification_is_recovered_when_unseen(void **unused)
{
	check_all(check_recovery);
}

static void check_rebuilding(const struct capture *capture, const struct captured *captured)
{
	uint8_t again[PACKET_BYTES_MAX];
	struct packet packet;
	enum parse verdict = packet_parse(captured->data, captured->length, &packet);
	size_t length;

	if (verdict != PARSE_OK)
		fail_msg("%s, frame %u: %s", capture->path, capture->number, parse_name(verdict));
	length = packet_write_headers(&packet, again);
	memcpy(again + length, packet.payload, packet.payload_bytes);
	length += packet.payload_bytes;
	memset(again + length, 0, packet_pad(packet.payload_bytes));
	length += packet_pad(packet.payload_bytes);
	icrc_seal(&captured->header, again, length);
	length += ICRC_BYTES;
	if (length != captured->length || memcmp(again, captured->data, length))
		fail_msg("%s, frame %u: rebuilt differently", capture->path, capture->number);
}

static void what_is_parsed_is_written_as_the_same_bytes(void **unused)
{
	check_all(check_rebuilding);
}

static bool opcode_seen[256];

static void note_opcode(const struct capture *capture, const struct captured *packet)
{
	opcode_seen[packet->data[0]] = true;
}

/*
 * rxe 6.1 has no XRC, FLUSH and ATOMIC_WRITE, and sends no CNP, nor what is ours; golden.py's SEND with invalidate is
 * of one packet.
 */
static bool is_rare(const struct opcode *op)
{
	return op->service == SERVICE_XRC || op->verb == VERB_FLUSH ||
	       op->verb == VERB_ATOMIC_WRITE || op->code == OPCODE_RC_SEND_LAST_INV ||
	       opcode_is_notice(op);
}

static void the_captures_have_every_opcode_but_the_rare(void **unused)
{
	check_all(note_opcode);
	for (unsigned code = 0; code < 256; code++) {
		const struct opcode *op = opcode_get((uint8_t)code);

		assert_int_equal(opcode_seen[code], op && !is_rare(op));
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_icrc_is_right_with_the_identification_seen),
		cmocka_unit_test(the_identification_is_recovered_when_unseen),
		cmocka_unit_test(what_is_parsed_is_written_as_the_same_bytes),
		cmocka_unit_test(the_captures_have_every_opcode_but_the_rare),
	};

	if (argc != 2) {
		fprintf(stderr, "usage: %s DIRECTORY\n", argv[0]);
		return 2;
	}
	directory = argv[1];
	return cmocka_run_group_tests(tests, NULL, NULL);
}
