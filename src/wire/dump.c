/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The line of a packet: opcode, destination QP, PSN, what is unusual in the BTH, then each
 * extension header in wire order, then the payload's length where the opcode can have one, and
 * what a management datagram, or a Verbatim's word on gaps, says.
 * Golden conversations and users' scripts compare these lines: words are added at the end of
 * a group or not at all. PSNs and MSNs are six hexadecimal digits.
 */
#include "wire/dump.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/ip_addr.h"
#include "wire/aeth.h"
#include "wire/cm_message.h"
#include "wire/gaps.h"
#include "wire/psn.h"

#define HELD_RANGES	8u	/* of PSNs, in a line */

struct line {
	char *text;
	size_t size, used;	/* used may pass size: the rest is then counted, not written */
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
	if (packet->imm_follows)
		add(line, packet->op->verb == VERB_READ ? " morefollows" : " immfollows");
	if (packet->default_gid)
		add(line, " gid0");
	if (!packet->migrated)
		add(line, " unmigrated");
	if (packet->pkey != PKEY_DEFAULT)
		add(line, " pkey 0x%04x", packet->pkey);
}

static void add_extensions(struct line *line, const struct packet *packet)
{
	unsigned headers = packet->op->headers;

	if (headers & HDR_XRC)
		add(line, " srq 0x%06x", packet->srqn);
	if (headers & HDR_DETH)
		add(line, " from 0x%06x qkey 0x%08x", packet->deth.source_qpn, packet->deth.qkey);
	if (headers & HDR_RETH)
		add(line, " reth 0x%" PRIx64 "+%u rkey 0x%08x", packet->reth.address,
		    packet->reth.length, packet->reth.rkey);
	if (headers & HDR_ATOMIC) {
		add(line, " atomic 0x%" PRIx64 " rkey 0x%08x", packet->atomic.address,
		    packet->atomic.rkey);
		if ((packet->op->code & OPCODE_OPERATION) == OPCODE_RC_COMPARE_SWAP)
			add(line, " compare 0x%" PRIx64 " swap 0x%" PRIx64, packet->atomic.compare,
			    packet->atomic.swap_add);
		else
			add(line, " add 0x%" PRIx64, packet->atomic.swap_add);
	}
	if (headers & HDR_AETH) {
		uint8_t syndrome = packet->aeth.syndrome;

		add(line, " %s msn %06x", aeth_name(syndrome), packet->aeth.msn);
		if (aeth_kind(syndrome) == AETH_ACK && aeth_value(syndrome) != AETH_CREDITS_INVALID)
			add(line, " credits %u", aeth_credits(aeth_value(syndrome)));
	}
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

/* ---- management datagrams ---- */

/* 10.0.0.2 for a v4-mapped address; else all of the eight groups, zeros shortened by none. */
static void add_address(struct line *line, const uint8_t address[16])
{
	if (ip_addr_is_ipv4(address)) {
		add(line, "%u.%u.%u.%u", address[12], address[13], address[14], address[15]);
		return;
	}
	for (unsigned i = 0; i < 16; i += 2)
		add(line, "%s%x", i ? ":" : "", get_be16(address + i));
}

static void add_service(struct line *line, const struct cm_message *message, uint64_t service_id)
{
	struct cm_ip_addresses ip;

	add(line, " service 0x%016" PRIx64, service_id);
	if (!cm_message_ip(message, &ip))
		return;
	add(line, " ip ");
	add_address(line, ip.source);
	add(line, " port %u to ", ip.source_port);
	add_address(line, ip.destination);
}

static const char *dump_is_known(const char *name)
{
	return name ? name : "unknown";
}

static void add_cm(struct line *line, const struct cm_message *message)
{
	static const char *const about[] = { "REQ", "REP", "other", "nothing" };

	add(line, "CM %s", dump_is_known(cm_message_name(message->kind)));
	if (cm_message_sender_id(message))
		add(line, " id 0x%08x", cm_message_sender_id(message));
	if (cm_message_receiver_id(message))
		add(line, " to 0x%08x", cm_message_receiver_id(message));
	switch (message->kind) {
	case CM_MESSAGE_REQ:
		add(line, " %s qpn 0x%06x psn %06x",
		    cm_transport_name(cm_req_transport(&message->req)), message->req.local_qpn,
		    message->req.starting_psn);
		add_service(line, message, message->req.service_id);
		break;
	case CM_MESSAGE_MRA:
		add(line, " about %s timeout %u", about[message->mra.message],
		    message->mra.service_timeout);
		break;
	case CM_MESSAGE_REJ:
		add(line, " about %s reason %u %s", about[message->rej.message],
		    message->rej.reason, dump_is_known(cm_reject_name(message->rej.reason)));
		break;
	case CM_MESSAGE_REP:
		add(line, " qpn 0x%06x psn %06x", message->rep.local_qpn, message->rep.starting_psn);
		if (message->rep.local_eecn)
			add(line, " eecn 0x%06x", message->rep.local_eecn);
		break;
	case CM_MESSAGE_DREQ:
		add(line, " qpn 0x%06x", message->dreq.remote_qpn);
		break;
	case CM_MESSAGE_SIDR_REQ:
		add_service(line, message, message->sidr_req.service_id);
		break;
	case CM_MESSAGE_SIDR_REP:
		add(line, " status %u %s qpn 0x%06x qkey 0x%08x", message->sidr_rep.status,
		    dump_is_known(cm_sidr_name(message->sidr_rep.status)), message->sidr_rep.qpn,
		    message->sidr_rep.qkey);
		break;
	case CM_MESSAGE_APR:
		add(line, " status %u %s", message->apr.status,
		    dump_is_known(cm_apr_name(message->apr.status)));
		break;
	default:
		break;
	}
}

static void add_mad(struct line *line, const uint8_t mad[MAD_BYTES])
{
	struct mad_header header;
	struct cm_message message;

	if (cm_message_parse(mad, &message))
		add_cm(line, &message);
	else if (mad_parse(mad, MAD_BYTES, &header))
		add(line, "MAD class 0x%02x method 0x%02x attribute 0x%04x status 0x%04x",
		    header.class, header.method, header.attribute_id, header.status);
	else
		add(line, "MAD of base version %u", mad[0]);
}

int mad_dump(const uint8_t mad[MAD_BYTES], char *text, size_t size)
{
	struct line line = { .text = text, .size = size };

	if (size)
		*text = '\0';
	add_mad(&line, mad);
	return (int)line.used;
}

int cm_message_dump(const struct cm_message *message, char *text, size_t size)
{
	struct line line = { .text = text, .size = size };

	if (size)
		*text = '\0';
	add_cm(&line, message);
	return (int)line.used;
}

/* ---- gaps ---- */

static void add_gaps(struct line *line, const struct packet *packet)
{
	static const char *const kinds[GAPS_KINDS] = {
		[GAPS_ASK] = "ask", [GAPS_YES] = "yes", [GAPS_REPORT] = "report" };
	uint32_t first, last, end = 0;
	struct gaps gaps;
	unsigned ranges;

	if (!packet->payload || !gaps_read(packet->payload, packet->payload_bytes, &gaps))
		return;
	add(line, " %s by 0x%06x", kinds[gaps.kind], gaps.qpn);
	if (gaps.kind != GAPS_REPORT)
		return;
	/* The PSNs that are held, behind that of the packet: 000102-000105 000107. */
	last = gaps_end(gaps.held);
	add(line, last ? " holds" : " holds nothing");
	for (ranges = 0; end < last; ranges++) {
		for (first = end; !gaps_has(gaps.held, first);)
			first++;
		for (end = first; gaps_has(gaps.held, end);)
			end++;
		if (ranges == HELD_RANGES) {
			add(line, " ... %06x", psn_add(packet->psn, last));
			return;
		}
		add(line, " %06x", psn_add(packet->psn, first + 1));
		if (end > first + 1)
			add(line, "-%06x", psn_add(packet->psn, end));
	}
}

int packet_dump(const struct packet *packet, char *text, size_t size)
{
	struct line line = { .text = text, .size = size };

	if (size)
		*text = '\0';
	add_bth(&line, packet);
	add_extensions(&line, packet);
	if (opcode_has_payload(packet->op) || packet->payload_bytes)
		add(&line, " payload %zu", packet->payload_bytes);
	/* What is sent to QP1 (QP0 does not exist here). */
	if (packet->op->code == OPCODE_UD_SEND_ONLY && packet->dest_qpn == 1 && packet->payload &&
	    packet->payload_bytes >= MAD_BYTES) {
		add(&line, " ");
		add_mad(&line, packet->payload);
	}
	if (packet->op->verb == VERB_GAPS)
		add_gaps(&line, packet);
	return (int)line.used;
}
