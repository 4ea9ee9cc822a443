/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The invariant CRC of a RoCEv2 packet (IBTA 7.8.1, annex A17): CRC-32 over 8 bytes of ones,
 * the IP and UDP headers with their variant fields set to ones, the BTH with its variant byte
 * set to ones, and the rest up to the pad; stored least significant byte first.
 *
 * A plain UDP socket neither chooses nor sees the IPv4 identification and DF bit, which the
 * ICRC covers: the sender must know what the kernel will write, the receiver recovers it.
 */
#ifndef VERBATIM_WIRE_ICRC_H
#define VERBATIM_WIRE_ICRC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Fields of the headers before the BTH that the ICRC covers. */
struct icrc_header {
	bool ipv6;
	uint8_t source[16], destination[16];	/* IPv4: the first 4 bytes */
	uint16_t source_port, destination_port;
	uint16_t ip_id;				/* IPv4 only */
	bool dont_fragment;			/* IPv4 only */
};

/* ICRC of a packet whose bytes from the BTH to the last pad byte are @data, @length. */
uint32_t icrc_compute(const struct icrc_header *header, const uint8_t *data, size_t length);

/* icrc_compute(), written behind the packet: @data has room for ICRC_BYTES after @length. */
void icrc_seal(const struct icrc_header *header, uint8_t *data, size_t length);

/* The same in two steps. The first sees nothing of the packet but its length. */
uint32_t icrc_begin(const struct icrc_header *header, size_t length);
void icrc_seal_begun(uint32_t begun, uint8_t *data, size_t length);
/* The ICRC that the second would write; a byte of the packet is another one for a moment. */
uint32_t icrc_of_begun(uint32_t begun, uint8_t *data, size_t length);

enum icrc_verdict {
	ICRC_GOOD,		/* right for the ip_id and DF given in the header */
	ICRC_OTHER_ID,		/* right for another ip_id or DF: now set in *header (IPv4) */
	ICRC_BAD,
};

/*
 * Check the ICRC of a whole packet (BTH to ICRC, @length bytes). Tries header->ip_id and
 * header->dont_fragment first; for IPv4 then solves for those that would make it right.
 */
enum icrc_verdict icrc_check(struct icrc_header *header, const uint8_t *data, size_t length);

/* The same of a packet whose ICRC should be @computed (icrc_of_begun()). */
enum icrc_verdict icrc_judge(struct icrc_header *header, uint32_t computed, const uint8_t *data, size_t length);

/* The ICRC that the packet has. */
static inline uint32_t icrc_of_packet(const uint8_t *data, size_t length)
{
	const uint8_t *icrc = data + length - 4;

	return (uint32_t)icrc[3] << 24 | (uint32_t)icrc[2] << 16 | (uint32_t)icrc[1] << 8 | icrc[0];
}

#endif
