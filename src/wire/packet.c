/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Parse and write packets. Which extension headers there are comes from the opcode's row; where
 * each field of a header lies is said twice here, once to read and once to write, side by side.
 *
 *	BTH: | opcode 8 | SE 1, M 1, pad 2, version 4 | P_Key 16 |
 *	     | FECN 1, BECN 1, echo request 1, immediate follows 1, GID 0 1, reserved 3 | destination QP 24 |
 *	     | AckReq 1, reserved 7 | PSN 24 |
 *
 * Reserved bits are sent as zero and ignored on receipt, but for the three behind BECN: one asks
 * a Verbatim for an echo (transport/flow.h), the other tells it which receive fails with a WRITE that is
 * refused before its last packet (transport/fault.def), the third what GIDs a datagram inside the host
 * belongs to. Others ignore them, and the ICRC does not cover them.
 */
#include "wire/packet.h"

#include <string.h>

#include "base/bytes.h"
#include "wire/psn.h"

#define BTH_SOLICITED	0x80
#define BTH_MIGRATED	0x40
#define BTH_PAD_SHIFT	4
#define BTH_VERSION	0x0f
#define BTH_FECN	0x80
#define BTH_BECN	0x40
#define BTH_ECHO	0x20
#define BTH_IMM_FOLLOWS	0x10
#define BTH_DEFAULT_GID	0x08
#define BTH_ACK_REQUEST	0x80
#define FETH_TYPE	0x0f	/* of the last byte; those before are reserved */
#define FETH_LEVEL_SHIFT 4
#define FETH_LEVEL	0x03

static void read_bth(const uint8_t *p, struct packet *packet)
{
	const uint32_t qpn = get_be32(p + 4), psn = get_be32(p + 8);
	const uint8_t flags = p[1], reserved = (uint8_t)(qpn >> 24);

	packet->solicited = flags & BTH_SOLICITED;
	packet->migrated = flags & BTH_MIGRATED;
	packet->pkey = get_be16(p + 2);
	packet->fecn = reserved & BTH_FECN;
	packet->becn = reserved & BTH_BECN;
	packet->echo_request = reserved & BTH_ECHO;
	packet->imm_follows = reserved & BTH_IMM_FOLLOWS;
	packet->default_gid = reserved & BTH_DEFAULT_GID;
	packet->dest_qpn = qpn & QPN_MASK;
	packet->ack_request = psn >> 24 & BTH_ACK_REQUEST;
	packet->psn = psn & PSN_MASK;
}

static void write_bth(const struct packet *packet, uint8_t *p)
{
	uint32_t flags = packet->solicited * BTH_SOLICITED | packet->migrated * BTH_MIGRATED |
			 (uint32_t)packet_pad(packet->payload_bytes) << BTH_PAD_SHIFT;
	uint32_t variant = packet->fecn * BTH_FECN | packet->becn * BTH_BECN | packet->echo_request * BTH_ECHO |
			   packet->imm_follows * BTH_IMM_FOLLOWS | packet->default_gid * BTH_DEFAULT_GID;

	put_be32(p, (uint32_t)packet->op->code << 24 | flags << 16 | packet->pkey);
	put_be32(p + 4, variant << 24 | (packet->dest_qpn & QPN_MASK));
	put_be32(p + 8, (uint32_t)packet->ack_request * BTH_ACK_REQUEST << 24 | (packet->psn & PSN_MASK));
}

static const uint8_t *read_aeth(const uint8_t *p, struct packet *packet)
{
	const uint32_t aeth = get_be32(p);

	packet->aeth.syndrome = (uint8_t)(aeth >> 24);
	packet->aeth.msn = aeth & PSN_MASK;
	return p + 4;
}

/* @p is behind the BTH, and all of op->header_bytes are there. Most packets have none of them, or an AETH. */
static void read_extensions(const uint8_t *p, struct packet *packet)
{
	unsigned headers = packet->op->headers;

	if (!(headers & ~(unsigned)HDR_AETH)) {
		if (headers)
			read_aeth(p, packet);
		return;
	}
	if (headers & HDR_XRC) {
		packet->srqn = get_be24(p + 1);
		p += 4;
	}
	if (headers & HDR_FETH) {
		packet->feth.type = p[3] & FETH_TYPE;
		packet->feth.level = p[3] >> FETH_LEVEL_SHIFT & FETH_LEVEL;
		p += 4;
	}
	if (headers & HDR_DETH) {
		packet->deth.qkey = get_be32(p);
		packet->deth.source_qpn = get_be24(p + 5);
		p += 8;
	}
	if (headers & HDR_RETH) {
		packet->reth.address = get_be64(p);
		packet->reth.rkey = get_be32(p + 8);
		packet->reth.length = get_be32(p + 12);
		p += 16;
	}
	if (headers & HDR_ATOMIC) {
		packet->atomic.address = get_be64(p);
		packet->atomic.rkey = get_be32(p + 8);
		packet->atomic.swap_add = get_be64(p + 12);
		packet->atomic.compare = get_be64(p + 20);
		p += 28;
	}
	if (headers & HDR_AETH)
		p = read_aeth(p, packet);
	if (headers & HDR_ATOMIC_ACK) {
		packet->atomic_original = get_be64(p);
		p += 8;
	}
	if (headers & HDR_IMM) {
		packet->imm = get_be32(p);
		p += 4;
	}
	if (headers & HDR_IETH)
		packet->invalidate_rkey = get_be32(p);
	if (headers & HDR_CNP && get_be32(p) == ECHO_MAGIC) {
		packet->echo.present = true;
		packet->echo.psn = get_be24(p + 5);
		packet->echo.qpn = get_be24(p + 9);
		packet->echo.group = get_be32(p + 12);
	}
}

static void write_extensions(const struct packet *packet, uint8_t *p)
{
	unsigned headers = packet->op->headers;

	if (headers & HDR_XRC) {
		put_be32(p, packet->srqn & QPN_MASK);
		p += 4;
	}
	if (headers & HDR_FETH) {
		put_be32(p, (uint32_t)(packet->feth.level & FETH_LEVEL) << FETH_LEVEL_SHIFT |
			 (packet->feth.type & FETH_TYPE));
		p += 4;
	}
	if (headers & HDR_DETH) {
		put_be32(p, packet->deth.qkey);
		put_be32(p + 4, packet->deth.source_qpn & QPN_MASK);
		p += 8;
	}
	if (headers & HDR_RETH) {
		put_be64(p, packet->reth.address);
		put_be32(p + 8, packet->reth.rkey);
		put_be32(p + 12, packet->reth.length);
		p += 16;
	}
	if (headers & HDR_ATOMIC) {
		put_be64(p, packet->atomic.address);
		put_be32(p + 8, packet->atomic.rkey);
		put_be64(p + 12, packet->atomic.swap_add);
		put_be64(p + 20, packet->atomic.compare);
		p += 28;
	}
	if (headers & HDR_AETH) {
		p[0] = packet->aeth.syndrome;
		put_be24(p + 1, packet->aeth.msn);
		p += 4;
	}
	if (headers & HDR_ATOMIC_ACK) {
		put_be64(p, packet->atomic_original);
		p += 8;
	}
	if (headers & HDR_IMM) {
		put_be32(p, packet->imm);
		p += 4;
	}
	if (headers & HDR_IETH) {
		put_be32(p, packet->invalidate_rkey);
		p += 4;
	}
	if (headers & HDR_CNP)
		memset(p, 0, 16);
	if (headers & HDR_CNP && packet->echo.present) {
		put_be32(p, ECHO_MAGIC);
		put_be24(p + 5, packet->echo.psn);
		put_be24(p + 9, packet->echo.qpn);
		put_be32(p + 12, packet->echo.group);
	}
}

enum parse packet_parse(const uint8_t *data, size_t length, struct packet *packet)
{
	const struct opcode *op;
	size_t pad, rest;

	if (length < BTH_BYTES + ICRC_BYTES)
		return PARSE_SHORT;
	op = opcode_get(data[0]);
	if (!op)
		return PARSE_OPCODE;
	if (data[1] & BTH_VERSION)
		return PARSE_VERSION;
	if (length < op->header_bytes + ICRC_BYTES)
		return PARSE_SHORT;
	rest = length - op->header_bytes - ICRC_BYTES;
	pad = data[1] >> BTH_PAD_SHIFT & 3;
	if (length % 4 || rest < pad)
		return PARSE_PAD;
	if (rest > (opcode_lets_payload_in(op) ? PATH_MTU_MAX : 0))
		return PARSE_LENGTH;

	*packet = (struct packet){
		.op = op,
		.payload = data + op->header_bytes,
		.payload_bytes = rest - pad,
	};
	read_bth(data, packet);
	read_extensions(data + BTH_BYTES, packet);
	return PARSE_OK;
}

const char *parse_name(enum parse verdict)
{
	switch (verdict) {
	case PARSE_OK:
		return "ok";
	case PARSE_SHORT:
		return "shorter than its headers";
	case PARSE_OPCODE:
		return "no such opcode";
	case PARSE_VERSION:
		return "transport header version is not 0";
	case PARSE_PAD:
		return "impossible length or pad";
	case PARSE_LENGTH:
		return "more payload than its opcode allows";
	}
	return "unknown";
}

size_t packet_write_headers(const struct packet *packet, uint8_t *out)
{
	write_bth(packet, out);
	if (packet->op->headers == HDR_AETH)
		put_be32(out + BTH_BYTES, (uint32_t)packet->aeth.syndrome << 24 | (packet->aeth.msn & PSN_MASK));
	else if (packet->op->headers)
		write_extensions(packet, out + BTH_BYTES);
	return packet->op->header_bytes;
}

uint32_t packet_peek_qpn(const uint8_t *data, size_t length)
{
	return length < 8 ? 0 : get_be24(data + 5);
}
