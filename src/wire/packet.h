/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One RoCEv2 packet: bytes from the BTH to the ICRC <-> struct packet. Pure.
 *
 *	| BTH 12 | extension headers | payload | pad 0..3 | ICRC 4 |
 *
 * packet_parse() validates a packet: after it every field is in bounds. packet_peek_qpn() reads one
 * field before that, for forwarding only. The ICRC is verified later (icrc.h), so that packets can be
 * fuzzed and the checks of opcode, pad and length come first.
 */
#ifndef VERBATIM_WIRE_PACKET_H
#define VERBATIM_WIRE_PACKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/opcode.h"
#include "wire/qpn.h"

#define MESSAGE_BYTES_MAX	(1u << 31)	/* IBTA 9.2.6 */
#define BTH_BYTES		12u
#define ICRC_BYTES		4u
#define GRH_BYTES		40u
#define PACKET_HEADER_MAX	(BTH_BYTES + 4u + 28u)	/* BTH + XRCETH + AtomicETH: the longest */
#define PATH_MTU_MAX		4096u
#define PACKET_BYTES_MAX	(PACKET_HEADER_MAX + PATH_MTU_MAX + ICRC_BYTES)

#define PKEY_DEFAULT		0xffffu
#define PKEY_FULL		0x8000u	/* else a limited member of its partition */

/* IBTA 10.9.3: the same partition, which is none for 0, and not both limited members of it. */
static inline bool pkey_matches(uint16_t a, uint16_t b)
{
	return ((a ^ b) & ~PKEY_FULL) == 0 && (a & ~PKEY_FULL) && ((a | b) & PKEY_FULL);
}

/*
 * Of the 16 reserved bytes of a CNP (annex A17.9.3), zero from others, Verbatim makes an echo: "the
 * packet with this PSN, which asked for it, was taken off the wire by this QP" (transport/flow.h).
 *
 *	| magic 32 | 0 8 | PSN 24 | 0 8 | QPN 24 | group 32 |
 *
 * Group: 0, or made from the multicast address that the packet was sent to.
 */
#define ECHO_MAGIC		0x5662e0c1u

enum parse {
	PARSE_OK,
	PARSE_SHORT,		/* shorter than BTH, extension headers, pad and ICRC */
	PARSE_OPCODE,		/* no such opcode */
	PARSE_VERSION,		/* transport header version is not 0 */
	PARSE_PAD,		/* length not a multiple of 4, or pad without payload */
	PARSE_LENGTH,		/* payload over PATH_MTU_MAX, or in an answer that has none */
};

/*
 * A packet without the headers of IP and UDP, in host order.
 * Large: it has a member for each field of BTH and of all extension headers.
 */
struct packet {
	const struct opcode *op;

	/* BTH (IBTA 9.2) */
	bool solicited;		/* SE */
	bool migrated;		/* MigReq: 1 in the migrated state, the usual one */
	bool fecn, becn;
	bool echo_request;	/* reserved bit: asks a Verbatim for an echo (ECHO_MAGIC) */
	bool default_gid;	/* reserved bit, of UD: sent by GID 0, which is no address (ud_receive()) */
	/*
	 * Reserved bit. Of a WRITE: its last packet has immediate data. Of a READ request: another piece of
	 * the same READ follows (counters: object/comp_counter.h).
	 */
	bool imm_follows;
	bool ack_request;	/* AckReq */
	uint16_t pkey;
	uint32_t dest_qpn;	/* 24 bits */
	uint32_t psn;		/* 24 bits */

	/* Extension headers; only those named by op->headers are meaningful. */
	uint32_t srqn;		/* XRCETH, 24 bits */
	struct { uint8_t type, level; } feth;
	struct { uint32_t qkey, source_qpn; } deth;
	struct { uint64_t address; uint32_t rkey, length; } reth;
	struct { uint64_t address; uint32_t rkey; uint64_t swap_add, compare; } atomic;
	struct { uint8_t syndrome; uint32_t msn; } aeth;
	uint64_t atomic_original;
	uint32_t imm;		/* host order of the big-endian field */
	uint32_t invalidate_rkey;
	struct { bool present; uint32_t psn, qpn, group; } echo;	/* CNP; see ECHO_MAGIC */

	const uint8_t *payload;	/* into the parsed buffer; not touched by packet_write_headers */
	size_t payload_bytes;	/* without pad */
};

/*
 * Parse @length bytes at @data, BTH to ICRC inclusive. On PARSE_OK *packet is set and its
 * payload points into @data; otherwise *packet is untouched.
 */
enum parse packet_parse(const uint8_t *data, size_t length, struct packet *packet);
const char *parse_name(enum parse verdict);

/*
 * Write BTH and extension headers of @packet to @out (room for PACKET_HEADER_MAX bytes), with
 * the pad count for packet->payload_bytes. Returns their length. The caller puts payload_bytes
 * of payload behind it, then packet_pad() zero bytes, then the ICRC (icrc.h).
 */
size_t packet_write_headers(const struct packet *packet, uint8_t *out);

static inline size_t packet_pad(size_t payload_bytes)
{
	return -payload_bytes & 3;
}

/* Length on the wire, BTH to ICRC, of a packet of @op with that payload. */
static inline size_t packet_bytes(const struct opcode *op, size_t payload_bytes)
{
	return op->header_bytes + payload_bytes + packet_pad(payload_bytes) + ICRC_BYTES;
}

/* Destination QPN of an unparsed packet; 0 when it is too short to have one. */
uint32_t packet_peek_qpn(const uint8_t *data, size_t length);

#endif
