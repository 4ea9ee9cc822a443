/* SPDX-License-Identifier: BSD-2-Clause */
/* For the tests of this folder and of those that use it: frames, written header by header. */
#ifndef VERBATIM_ETHERNET_FRAME_TEST_H
#define VERBATIM_ETHERNET_FRAME_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "ethernet/frame.h"

struct built {
	uint8_t data[512];
	size_t bytes;
};

/* Adds what a header, all zeros but for what the caller writes, takes; returns it. */
static inline uint8_t *built_add(struct built *built, size_t bytes)
{
	uint8_t *at = built->data + built->bytes;

	assert_true(built->bytes + bytes <= sizeof(built->data));
	memset(at, 0, bytes);
	built->bytes += bytes;
	return at;
}

static inline void built_ethernet(struct built *built, uint16_t type)
{
	static const uint8_t addresses[12] = { 2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2 };
	uint8_t *at = built_add(built, 14);

	memcpy(at, addresses, 12);
	put_be16(at + 12, type);
}

/* Behind an Ethernet header of type 0x8100. */
static inline void built_tag(struct built *built, uint16_t tag, uint16_t type)
{
	uint8_t *at = built_add(built, 4);

	put_be16(at, tag);
	put_be16(at + 2, type);
}

/* From 66.9.149.187 to 161.142.100.80, with @payload bytes behind it. */
static inline uint8_t *built_ipv4(struct built *built, uint8_t protocol, size_t payload)
{
	static const uint8_t addresses[8] = { 66, 9, 149, 187, 161, 142, 100, 80 };
	uint8_t *at = built_add(built, 20);

	at[0] = 0x45;
	put_be16(at + 2, (uint16_t)(20 + payload));
	at[8] = 64;
	at[9] = protocol;
	memcpy(at + 12, addresses, 8);
	return at;
}

static inline uint8_t *built_ipv6(struct built *built, uint8_t next, size_t payload)
{
	uint8_t *at = built_add(built, 40);

	at[0] = 0x60;
	put_be16(at + 4, (uint16_t)payload);
	at[6] = next;
	at[7] = 64;
	at[8] = at[24] = 0x20;
	at[23] = 1;
	at[39] = 2;
	return at;
}

static inline void built_udp(struct built *built, uint16_t from, uint16_t to, size_t payload)
{
	uint8_t *at = built_add(built, 8);

	put_be16(at, from);
	put_be16(at + 2, to);
	put_be16(at + 4, (uint16_t)(8 + payload));
}

static inline void built_tcp(struct built *built, uint16_t from, uint16_t to)
{
	uint8_t *at = built_add(built, 20);

	put_be16(at, from);
	put_be16(at + 2, to);
	at[12] = 0x50;
}

static inline void built_parse(const struct built *built, struct frame *frame)
{
	frame_dissect(built->data, built->bytes, frame);
}

#endif
