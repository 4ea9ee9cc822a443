/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The library's side of the comparisons with other programs (cross_check.py, tests/fuzz/run):
 *
 *	golden_tool build FILE		write a capture with packets of every opcode, built by us
 *	golden_tool lines FILE		print the dump line of every packet of a capture
 *	golden_tool seeds FILE DIR	write every packet (BTH to ICRC) to a file in DIR
 *
 * The packets of "build" are random but the same each time.
 */
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/datagram.h"
#include "base/test_random.h"
#include "capture.h"
#include "wire/dump.h"
#include "wire/icrc.h"
#include "wire/packet.h"

#define FRAME_HEADERS_MAX (14u + 40u + 8u)

static const size_t payloads[] = { 0, 1, 2, 3, 4, 5, 255, 1024, 4095, 4096 };
#define PAYLOADS (sizeof(payloads) / sizeof(*payloads))

static void put_le32(uint8_t *p, uint32_t v)
{
	for (unsigned i = 0; i < 4; i++)
		p[i] = (uint8_t)(v >> 8 * i);
}

static struct packet random_packet(uint64_t *random, const struct opcode *op, unsigned number)
{
	return (struct packet){
		.op = op,
		.solicited = number & 1,
		.migrated = !(number & 2),
		.ack_request = number & 4,
		.pkey = PKEY_DEFAULT,
		.dest_qpn = (uint32_t)test_random(random) & QPN_MASK,
		.psn = (uint32_t)test_random(random) & QPN_MASK,
		.deth = { (uint32_t)test_random(random),
			  (uint32_t)test_random(random) & QPN_MASK },
		.reth = { test_random(random), (uint32_t)test_random(random),
			  (uint32_t)test_random(random) },
		.atomic = { test_random(random), (uint32_t)test_random(random),
			    test_random(random), test_random(random) },
		.aeth = { (uint8_t)test_random(random) & 0x7f,
			  (uint32_t)test_random(random) & QPN_MASK },
		.atomic_original = test_random(random),
		.srqn = (uint32_t)test_random(random) & QPN_MASK,
		.imm = (uint32_t)test_random(random),
		.invalidate_rkey = (uint32_t)test_random(random),
	};
}

static struct icrc_header random_addresses(uint64_t *random, bool ipv6)
{
	struct icrc_header header = {
		.ipv6 = ipv6,
		.source_port = (uint16_t)(0xc000 | test_random(random)),
		.destination_port = ROCE_UDP_PORT,
		.ip_id = (uint16_t)test_random(random),
		.dont_fragment = test_random(random) & 1,
	};

	test_random_fill(random, header.source, ipv6 ? 16 : 4);
	test_random_fill(random, header.destination, ipv6 ? 16 : 4);
	header.source[0] = header.destination[0] = ipv6 ? 0xfd : 10;
	return header;
}

/* Ethernet, IP and UDP headers for @udp_payload bytes; the checksums stay 0. */
static size_t put_frame_headers(const struct icrc_header *header, size_t udp_payload, uint8_t *p)
{
	uint8_t *ip = p + 14, *udp = ip + (header->ipv6 ? 40 : 20);
	size_t udp_bytes = udp_payload + 8;

	memset(p, 0, FRAME_HEADERS_MAX);
	put_be16(p + 12, header->ipv6 ? 0x86dd : 0x0800);
	if (header->ipv6) {
		put_be32(ip, 0x6aa12345);	/* some traffic class and flow label */
		put_be16(ip + 4, (uint16_t)udp_bytes);
		ip[6] = 17;
		ip[7] = 63;
		memcpy(ip + 8, header->source, 16);
		memcpy(ip + 24, header->destination, 16);
	} else {
		ip[0] = 0x45;
		ip[1] = 0x68;
		put_be16(ip + 2, (uint16_t)(udp_bytes + 20));
		put_be16(ip + 4, header->ip_id);
		ip[6] = header->dont_fragment ? 0x40 : 0;
		ip[8] = 63;
		ip[9] = 17;
		memcpy(ip + 12, header->source, 4);
		memcpy(ip + 16, header->destination, 4);
	}
	put_be16(udp, header->source_port);
	put_be16(udp + 2, header->destination_port);
	put_be16(udp + 4, (uint16_t)udp_bytes);
	return (size_t)(udp + 8 - p);
}

static void write_frame(FILE *out, uint64_t *random, const struct packet *packet, bool ipv6)
{
	uint8_t frame[FRAME_HEADERS_MAX + PACKET_BYTES_MAX], record[16] = { 0 };
	struct icrc_header header = random_addresses(random, ipv6);
	size_t bytes = packet_bytes(packet->op, packet->payload_bytes);
	size_t before = put_frame_headers(&header, bytes, frame);
	uint8_t *data = frame + before;
	size_t length = packet_write_headers(packet, data);

	test_random_fill(random, data + length, packet->payload_bytes);
	length += packet->payload_bytes;
	memset(data + length, 0, packet_pad(packet->payload_bytes));
	icrc_seal(&header, data, bytes - ICRC_BYTES);
	put_le32(record + 8, (uint32_t)(before + bytes));
	put_le32(record + 12, (uint32_t)(before + bytes));
	fwrite(record, sizeof(record), 1, out);
	fwrite(frame, before + bytes, 1, out);
}

static int build(const char *path)
{
	static const uint8_t start[24] = { 0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, [18] = 4, [20] = 1 };
	FILE *out = fopen(path, "wb");
	uint64_t random = 14;
	unsigned number = 0;

	if (!out) {
		perror(path);
		return 1;
	}
	fwrite(start, sizeof(start), 1, out);
	for (unsigned code = 0; code < 256; code++) {
		const struct opcode *op = opcode_get((uint8_t)code);
		size_t kinds = !op ? 0 : opcode_has_payload(op) ? PAYLOADS : 4;

		for (size_t i = 0; i < 2 * kinds; i++) {
			struct packet packet = random_packet(&random, op, number++);

			packet.payload_bytes = opcode_has_payload(op) ? payloads[i / 2] : 0;
			write_frame(out, &random, &packet, i % 2);
		}
	}
	if (fclose(out)) {
		perror(path);
		return 1;
	}
	return 0;
}

typedef int packet_visit(const struct captured *packet, unsigned number, const char *argument);

static int print_line(const struct captured *captured, unsigned number, const char *unused)
{
	char line[DUMP_LINE_MAX];
	struct packet packet;
	enum parse verdict = packet_parse(captured->data, captured->length, &packet);

	if (verdict != PARSE_OK) {
		printf("%u %s\n", number, parse_name(verdict));
		return 1;
	}
	packet_dump(&packet, line, sizeof(line));
	printf("%u %s\n", number, line);
	return 0;
}

static int write_seed(const struct captured *captured, unsigned number, const char *directory)
{
	char path[4096];
	FILE *out;

	snprintf(path, sizeof(path), "%s/%u", directory, number);
	out = fopen(path, "wb");
	if (!out || fwrite(captured->data, captured->length, 1, out) != 1 || fclose(out)) {
		perror(path);
		return 1;
	}
	return 0;
}

static int visit(const char *path, packet_visit *each, const char *argument)
{
	struct capture capture;
	struct captured packet;
	int err = capture_open(&capture, path), more, failed = 0;

	if (err) {
		fprintf(stderr, "%s: %s\n", path, strerror(err));
		return 1;
	}
	while ((more = capture_next(&capture, &packet)) > 0)
		failed |= each(&packet, capture.number, argument);
	capture_close(&capture);
	return failed || more < 0;
}

int main(int argc, char **argv)
{
	if (argc == 3 && strcmp(argv[1], "build") == 0)
		return build(argv[2]);
	if (argc == 3 && strcmp(argv[1], "lines") == 0)
		return visit(argv[2], print_line, NULL);
	if (argc == 4 && strcmp(argv[1], "seeds") == 0)
		return visit(argv[2], write_seed, argv[3]);
	fprintf(stderr, "usage: golden_tool build FILE | lines FILE | seeds FILE DIRECTORY\n");
	return 2;
}
