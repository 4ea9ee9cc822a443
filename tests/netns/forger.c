/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Somebody on the peer's host who wishes ill: a plain UDP socket, so its packets come from the peer's
 * address. It knows all that can be known without being one of the two, addresses and QPNs; but no PSN of
 * the moment, no communication ID, no key.
 *
 *	forger ADDRESS KIND PACKETS_A_SECOND SECONDS QPN PSN
 *
 *	garbage	bytes of any length, and whole packets with a few bytes changed
 *	rc	ACKs, NAKs, CNPs, responses and requests of all kinds to the QP (0: to any), with good ICRCs
 *		and PSNs far from PSN on either side
 *	cm	requests for services that nobody has, and messages with communication IDs by chance
 *	group	probes and answers of the port group, which no other host has to say
 *
 * Ends by itself; says on stdout how many packets left.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/test_random.h"
#include "host/group_program.h"
#include "wire/aeth.h"
#include "wire/cm_message.h"
#include "wire/icrc.h"
#include "wire/packet.h"
#include "wire/psn.h"

#define PORT		4791u
#define QKEY_GSI	0x80010000u
#define FAR		0x700000u	/* more packets than are sent meanwhile */
#define SLICE_NS	1000000

static uint64_t state = 0x5eed;
static struct sockaddr_in to, from;
static uint32_t target_qpn, target_psn;
static int fd;

static uint32_t chance(uint32_t below)
{
	return (uint32_t)(test_random(&state) % below);
}

static void fill(uint8_t *data, size_t bytes)
{
	while (bytes--)
		*data++ = (uint8_t)test_random(&state);
}

static size_t seal(uint8_t *data, size_t bytes)
{
	struct icrc_header header = { .source_port = ntohs(from.sin_port), .destination_port = PORT,
				      .dont_fragment = true };

	memcpy(header.source, &from.sin_addr, 4);
	memcpy(header.destination, &to.sin_addr, 4);
	icrc_seal(&header, data, bytes);
	return bytes + ICRC_BYTES;
}

static size_t write_packet(struct packet *packet, uint8_t *out)
{
	size_t bytes = packet_write_headers(packet, out), pad = packet_pad(packet->payload_bytes);

	if (packet->payload_bytes)
		memcpy(out + bytes, packet->payload, packet->payload_bytes);
	memset(out + bytes + packet->payload_bytes, 0, pad);
	return seal(out, bytes + packet->payload_bytes + pad);
}

/* What the two have sent or will soon send is between the halves. */
static uint32_t far_psn(void)
{
	uint32_t distance = FAR + chance(0x100000);

	return chance(2) ? psn_add(target_psn, distance) : psn_add(target_psn, 0x1000000 - distance);
}

static size_t forge_rc(uint8_t *out)
{
	static const uint8_t codes[] = { 0x11, 0x11, 0x11, 0x81, 0x0d, 0x0e, 0x0f, 0x10, 0x12,
					 0x00, 0x01, 0x02, 0x04, 0x06, 0x07, 0x08, 0x0a, 0x0b,
					 0x0c, 0x0c, 0x13, 0x14, 0x16, 0x17, 0x24, 0x2a };
	static uint8_t payload[1024];
	const struct opcode *op = opcode_get(codes[chance(sizeof(codes))]);
	struct packet packet = {
		.op = op, .pkey = PKEY_DEFAULT, .migrated = true, .psn = far_psn(),
		.dest_qpn = target_qpn ? target_qpn : 2 + chance(QPN_MASK - 2),
		.ack_request = chance(2), .fecn = !chance(8), .becn = !chance(8), .solicited = !chance(8),
		.aeth = { .syndrome = (uint8_t)chance(256), .msn = chance(0x1000000) },
		.reth = { .address = test_random(&state), .rkey = (uint32_t)test_random(&state),
			  .length = chance(2) ? 1u << chance(31) : chance(4096) },
		.atomic = { .address = test_random(&state) & ~7ull, .rkey = (uint32_t)test_random(&state) },
		.imm = (uint32_t)test_random(&state), .invalidate_rkey = (uint32_t)test_random(&state),
	};

	/* READs, atomics and ACKs with a payload that they do not have, too. */
	if (opcode_has_payload(op) || !chance(4)) {
		fill(payload, 16);
		packet.payload = payload;
		packet.payload_bytes = chance(2) ? 1024 : chance(1025);
	}
	return write_packet(&packet, out);
}

static size_t forge_cm(uint8_t *out)
{
	static uint8_t mad[MAD_BYTES];
	struct cm_message message;
	struct packet packet = { .op = opcode_get(0x64), .pkey = PKEY_DEFAULT, .migrated = true,
				 .psn = chance(0x1000000), .dest_qpn = QPN_GSI,
				 .deth = { QKEY_GSI, QPN_GSI }, .payload = mad, .payload_bytes = MAD_BYTES };

	fill((uint8_t *)&message, sizeof(message));
	message.kind = (enum cm_message_kind)chance(CM_MESSAGE_KINDS);
	message.attribute_modifier = 0;
	cm_message_write(&message, mad);
	return write_packet(&packet, out);
}

static size_t forge_group(uint8_t *out)
{
	static struct group_message message;
	unsigned i;

	message = (struct group_message){
		.kind = chance(2) ? GROUP_PROBE : GROUP_ANSWER, .family = chance(2) ? 4 : 6,
		.slot = (uint16_t)chance(SLOT_COUNT), .index = chance(16),
		.nonce = test_random(&state), .slot_count = chance(8), .service_count = chance(8),
	};
	for (i = 0; i < 8; i++) {
		message.slots[i] = (uint16_t)chance(SLOT_COUNT);
		message.services[i] = test_random(&state);
	}
	return group_message_write(&message, out);
}

static size_t forge_garbage(uint8_t *out)
{
	size_t bytes = chance(2) ? forge_rc(out) : forge_cm(out);
	unsigned changes = chance(4);

	if (!chance(2)) {
		bytes = 1 + chance(1400);
		fill(out, bytes);
	}
	while (changes--)
		out[chance((uint32_t)bytes)] ^= (uint8_t)(1u << chance(8));
	return bytes;
}

static const struct kind {
	const char *name;
	size_t (*forge)(uint8_t *out);
} kinds[] = {
	{ "garbage", forge_garbage }, { "rc", forge_rc }, { "cm", forge_cm }, { "group", forge_group },
};

static const struct kind *kind_of(const char *name)
{
	unsigned i;

	for (i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (!strcmp(kinds[i].name, name))
			return &kinds[i];
	return NULL;
}

/* Our address on the way there, and a port of ours, which the ICRC needs. 0 or errno. */
static int open_socket(void)
{
	int probe = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), discover = IP_PMTUDISC_DO;
	socklen_t bytes = sizeof(from);

	if (probe < 0 || connect(probe, (struct sockaddr *)&to, sizeof(to)) ||
	    getsockname(probe, (struct sockaddr *)&from, &bytes))
		return errno;
	close(probe);
	from.sin_port = 0;
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || bind(fd, (struct sockaddr *)&from, sizeof(from)) ||
	    getsockname(fd, (struct sockaddr *)&from, &bytes) ||
	    setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &discover, sizeof(discover)))
		return errno;
	return 0;
}

int main(int argc, char **argv)
{
	static uint8_t data[GROUP_MESSAGE_MAX + PACKET_BYTES_MAX];
	struct timespec slice = { .tv_nsec = SLICE_NS };
	const struct kind *kind = argc == 7 ? kind_of(argv[2]) : NULL;
	unsigned long rate, seconds, left, sent = 0, slices, in_slice, i;

	to = (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons(PORT) };
	if (!kind || inet_pton(AF_INET, argv[1], &to.sin_addr) != 1) {
		fprintf(stderr, "usage: forger ADDRESS garbage|rc|cm|group PACKETS_A_SECOND SECONDS QPN PSN\n");
		return 2;
	}
	rate = strtoul(argv[3], NULL, 0);
	seconds = strtoul(argv[4], NULL, 0);
	target_qpn = (uint32_t)strtoul(argv[5], NULL, 0);
	target_psn = (uint32_t)strtoul(argv[6], NULL, 0);
	errno = open_socket();
	if (errno) {
		perror("forger");
		return 1;
	}
	slices = seconds * (1000000000ul / SLICE_NS);
	for (left = rate * seconds; slices; slices--) {
		in_slice = left / slices;
		for (i = 0; i < in_slice; i++) {
			size_t bytes = kind->forge(data);

			sent += sendto(fd, data, bytes, 0, (struct sockaddr *)&to, sizeof(to)) == (ssize_t)bytes;
		}
		left -= in_slice;
		nanosleep(&slice, NULL);
	}
	printf("%lu packets\n", sent);
	return 0;
}
