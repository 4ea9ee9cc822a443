/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The ICRC is computed in two runs: over a copy of the headers with the variant fields set to
 * ones (8 bytes in place of an LRH, IP, UDP, BTH), and over the rest in place. Who seals may write to the
 * packet: there the first run ends before the BTH, and is the same for all packets of one length to one place.
 *
 *	IPv4:  | ones 8 | IP 20: .. id @12, flags @14 .. | UDP 8 | BTH 12 |
 *	IPv6:  | ones 8 | IP 40                          | UDP 8 | BTH 12 |
 *
 * Recovery of an unseen identification: a CRC is linear, so the difference between the ICRC
 * received and the one computed is that of the four bytes at offset 12, times x^(8 * bytes from
 * there to the end), modulo P. Divided by that power, it must be a change of 16 bits of
 * identification and one of DF; 15 of the 32 bits remain as protection.
 */
#include "wire/icrc.h"

#include <string.h>

#include "base/bytes.h"
#include "base/crc32.h"
#include "wire/packet.h"

#define LRH_ONES	8u
#define IPV4_BYTES	20u
#define IPV6_BYTES	40u
#define UDP_BYTES	8u
#define ID_OFFSET	(LRH_ONES + 4u)
#define FLAGS_OFFSET	(LRH_ONES + 6u)
#define DONT_FRAGMENT	0x40u
#define HEADERS_MAX	(LRH_ONES + IPV6_BYTES + UDP_BYTES + BTH_BYTES)
#define PROTOCOL_UDP	17u
#define VARIANT_OFFSET	4u		/* in the BTH: FECN, BECN and the bits beside them ... */
#define VARIANT		0xffu		/* ... as the ICRC has them */

static uint8_t *icrc_put_ipv4(uint8_t *p, const struct icrc_header *header, size_t udp_bytes)
{
	memset(p, 0xff, IPV4_BYTES);		/* stays in TOS, TTL and header checksum */
	p[0] = 0x45;
	put_be16(p + 2, (uint16_t)(IPV4_BYTES + udp_bytes));
	put_be16(p + 4, header->ip_id);
	p[6] = header->dont_fragment ? DONT_FRAGMENT : 0;
	p[7] = 0;
	p[9] = PROTOCOL_UDP;
	memcpy(p + 12, header->source, 4);
	memcpy(p + 16, header->destination, 4);
	return p + IPV4_BYTES;
}

static uint8_t *icrc_put_ipv6(uint8_t *p, const struct icrc_header *header, size_t udp_bytes)
{
	memset(p, 0xff, 8);			/* traffic class, flow label, hop limit */
	p[0] = 0x6f;
	put_be16(p + 4, (uint16_t)udp_bytes);
	p[6] = PROTOCOL_UDP;
	memcpy(p + 8, header->source, 16);
	memcpy(p + 24, header->destination, 16);
	return p + IPV6_BYTES;
}

/* What precedes the BTH of a packet of @length; returns where it ends. */
static uint8_t *icrc_put_headers(uint8_t *p, const struct icrc_header *header, size_t length)
{
	size_t udp_bytes = UDP_BYTES + length + ICRC_BYTES;

	memset(p, 0xff, LRH_ONES);
	p += LRH_ONES;
	p = header->ipv6 ? icrc_put_ipv6(p, header, udp_bytes)
			 : icrc_put_ipv4(p, header, udp_bytes);
	put_be16(p, header->source_port);
	put_be16(p + 2, header->destination_port);
	put_be16(p + 4, (uint16_t)udp_bytes);
	memset(p + 6, 0xff, 2);			/* checksum */
	return p + UDP_BYTES;
}

uint32_t icrc_compute(const struct icrc_header *header, const uint8_t *data, size_t length)
{
	uint8_t copy[HEADERS_MAX], *p = icrc_put_headers(copy, header, length);
	uint32_t crc;

	memcpy(p, data, BTH_BYTES);
	p[VARIANT_OFFSET] = VARIANT;
	p += BTH_BYTES;
	crc = crc32_update(0, copy, (size_t)(p - copy));
	return crc32_update(crc, data + BTH_BYTES, length - BTH_BYTES);
}

uint32_t icrc_begin(const struct icrc_header *header, size_t length)
{
	uint8_t copy[HEADERS_MAX], *p = icrc_put_headers(copy, header, length);

	return crc32_update(0, copy, (size_t)(p - copy));
}

uint32_t icrc_of_begun(uint32_t begun, uint8_t *data, size_t length)
{
	uint8_t variant = data[VARIANT_OFFSET];
	uint32_t icrc;

	data[VARIANT_OFFSET] = VARIANT;
	icrc = crc32_update(begun, data, length);
	data[VARIANT_OFFSET] = variant;
	return icrc;
}

void icrc_seal_begun(uint32_t begun, uint8_t *data, size_t length)
{
	uint32_t icrc = icrc_of_begun(begun, data, length);

	for (unsigned i = 0; i < ICRC_BYTES; i++)
		data[length + i] = (uint8_t)(icrc >> 8 * i);
}

void icrc_seal(const struct icrc_header *header, uint8_t *data, size_t length)
{
	icrc_seal_begun(icrc_begin(header, length), data, length);
}

enum icrc_verdict icrc_judge(struct icrc_header *header, uint32_t computed, const uint8_t *data, size_t length)
{
	const uint32_t flags_shift = 8 * (FLAGS_OFFSET - ID_OFFSET);
	uint32_t difference = computed ^ icrc_of_packet(data, length), change;
	size_t after_id;

	if (!difference)
		return ICRC_GOOD;
	if (header->ipv6)
		return ICRC_BAD;
	after_id = LRH_ONES + IPV4_BYTES + UDP_BYTES + length - ICRC_BYTES - ID_OFFSET;
	/* The bytes of the header from ID_OFFSET on, the first one lowest. */
	change = crc32_difference_unshift(difference, after_id);
	if (change & ~(0xffffu | DONT_FRAGMENT << flags_shift))
		return ICRC_BAD;
	header->ip_id ^= (uint16_t)((change & 0xff) << 8 | (change >> 8 & 0xff));
	header->dont_fragment ^= change >> flags_shift != 0;
	return ICRC_OTHER_ID;
}

enum icrc_verdict icrc_check(struct icrc_header *header, const uint8_t *data, size_t length)
{
	if (length < BTH_BYTES + ICRC_BYTES)
		return ICRC_BAD;
	return icrc_judge(header, icrc_compute(header, data, length - ICRC_BYTES), data, length);
}
