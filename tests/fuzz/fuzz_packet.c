/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Fuzz target: any bytes as a packet from the BTH on. Nothing may read out of bounds (ASan),
 * and what parses must survive being written and parsed again, have a dump line, and verify
 * once it is sealed. Run by tests/fuzz/run with libFuzzer, by replay.c without.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "wire/dump.h"
#include "wire/icrc.h"
#include "wire/packet.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length);

static void require(int truth)
{
	if (!truth)
		abort();
}

/* The ICRC as received, whatever it is: the identification is guessed, then known. */
static void check_received_icrc(const uint8_t *data, size_t length, bool ipv6)
{
	struct icrc_header header = { .ipv6 = ipv6, .dont_fragment = true };
	enum icrc_verdict verdict = icrc_check(&header, data, length);

	if (verdict == ICRC_BAD)
		return;
	require(verdict == ICRC_GOOD || !ipv6);
	require(icrc_check(&header, data, length) == ICRC_GOOD);
}

/* @packet written anew, with @payload; returns the length. */
static size_t rebuild(const struct packet *packet, const struct icrc_header *header, uint8_t *out)
{
	size_t length = packet_write_headers(packet, out);

	memcpy(out + length, packet->payload, packet->payload_bytes);
	length += packet->payload_bytes;
	memset(out + length, 0, packet_pad(packet->payload_bytes));
	length += packet_pad(packet->payload_bytes);
	icrc_seal(header, out, length);
	return length + ICRC_BYTES;
}

static void check_parsed(const struct packet *packet, const uint8_t *data, size_t length)
{
	const struct icrc_header header = { .source_port = 0xc000, .destination_port = 4791 };
	struct icrc_header check = header;
	char line[DUMP_LINE_MAX], line_again[DUMP_LINE_MAX];
	uint8_t again[PACKET_BYTES_MAX];
	struct packet parsed;
	size_t length_again;

	require(packet->payload >= data && packet->payload_bytes <= PATH_MTU_MAX);
	require(packet->payload + packet->payload_bytes + ICRC_BYTES <= data + length);
	require(packet->dest_qpn == packet_peek_qpn(data, length));
	require(packet_dump(packet, line, sizeof(line)) < (int)sizeof(line));

	length_again = rebuild(packet, &header, again);
	require(length_again == packet_bytes(packet->op, packet->payload_bytes));
	require(icrc_check(&check, again, length_again) == ICRC_GOOD);
	require(packet_parse(again, length_again, &parsed) == PARSE_OK);
	require(parsed.payload_bytes == packet->payload_bytes);
	require(memcmp(parsed.payload, packet->payload, packet->payload_bytes) == 0);
	packet_dump(&parsed, line_again, sizeof(line_again));
	require(strcmp(line, line_again) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
	struct packet packet;

	packet_peek_qpn(data, length);
	check_received_icrc(data, length, false);
	check_received_icrc(data, length, true);
	if (packet_parse(data, length, &packet) == PARSE_OK)
		check_parsed(&packet, data, length);
	return 0;
}
