/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The line of a packet: opcode, destination QP, PSN, what is unusual in the BTH, then each
 * extension header in wire order, then the payload's length where the opcode can have one.
 * Golden conversations and users' scripts compare these lines: words are added at the end of
 * a group or not at all. PSNs and MSNs are six hexadecimal digits.
 */
#include "wire/dump.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "wire/aeth.h"

struct line {
	char *text;
	size_t size, used;	/* used may pass size: then what does not fit is only counted */
};

__attribute__((format(printf, 2, 3))) static void add(struct line *line, const char *format, ...)
{
	size_t room = line->used < line->size ? line->size - line->used : 0;
	va_list args;
	int length;

	va_start(args, format);
	length = vsnprintf(room ? line->text + line->used : NULL, room, format, args);
	va_end(args);
	if (length > 0)
		line->used += (size_t)length;
}

static void add_bth(struct line *line, const struct packet *packet)
{
	add(line, "%s qpn 0x%06x psn %06x", packet->op->name, packet->dest_qpn, packet->psn);
	if (packet->ack_request)
		add(line, " ackreq");
	if (packet->solicited)
		add(line, " solicited");
	if (packet->fecn)
		add(line, " fecn");
	if (packet->becn)
		add(line, " becn");
	if (packet->echo_request)
		add(line, " echoreq");
	if (!packet->migrated)
		add(line, " unmigrated");
	if (packet->pkey != PKEY_DEFAULT)
		add(line, " pkey 0x%04x", packet->pkey);
}

static void add_atomic(struct line *line, const struct packet *packet)
{
	add(line, " atomic 0x%" PRIx64 " rkey 0x%08x", packet->atomic.address,
	    packet->atomic.rkey);
	if (packet->op->code == OPCODE_RC_COMPARE_SWAP)
		add(line, " compare 0x%" PRIx64 " swap 0x%" PRIx64, packet->atomic.compare,
		    packet->atomic.swap_add);
	else
		add(line, " add 0x%" PRIx64, packet->atomic.swap_add);
}

static void add_aeth(struct line *line, uint8_t syndrome, uint32_t msn)
{
	add(line, " %s msn %06x", aeth_name(syndrome), msn);
	if (aeth_kind(syndrome) == AETH_ACK && aeth_value(syndrome) != AETH_CREDITS_INVALID)
		add(line, " credits %u", aeth_credits(aeth_value(syndrome)));
}

static void add_extensions(struct line *line, const struct packet *packet)
{
	unsigned headers = packet->op->headers;

	if (headers & HDR_DETH)
		add(line, " from 0x%06x qkey 0x%08x", packet->deth.source_qpn, packet->deth.qkey);
	if (headers & HDR_RETH)
		add(line, " reth 0x%" PRIx64 "+%u rkey 0x%08x", packet->reth.address,
		    packet->reth.length, packet->reth.rkey);
	if (headers & HDR_ATOMIC)
		add_atomic(line, packet);
	if (headers & HDR_AETH)
		add_aeth(line, packet->aeth.syndrome, packet->aeth.msn);
	if (headers & HDR_ATOMIC_ACK)
		add(line, " original 0x%" PRIx64, packet->atomic_original);
	if (headers & HDR_IMM)
		add(line, " imm 0x%08x", packet->imm);
	if (headers & HDR_IETH)
		add(line, " invalidate 0x%08x", packet->invalidate_rkey);
	if (headers & HDR_CNP && packet->echo.present)
		add(line, " echo psn %06x by 0x%06x", packet->echo.psn, packet->echo.qpn);
	if (headers & HDR_CNP && packet->echo.present && packet->echo.group)
		add(line, " group %08x", packet->echo.group);
}

int packet_dump(const struct packet *packet, char *text, size_t size)
{
	struct line line = { .text = text, .size = size };

	if (size)
		*text = '\0';
	add_bth(&line, packet);
	add_extensions(&line, packet);
	if (opcode_has_payload(packet->op))
		add(&line, " payload %zu", packet->payload_bytes);
	return (int)line.used;
}
