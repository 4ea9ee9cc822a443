/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Words for dropped packets (drop.h). Lines that repeat themselves are counted, and all lines of
 * this kind
 * are so many a second at most (base/log.c): whoever sends such packets cannot flood stderr.
 */
#include "transport/drop.h"

#include <arpa/inet.h>

#include "base/datagram.h"
#include "transport/internal.h"
#include "wire/opcode.h"

const char *address_text(const uint8_t address[16], char *buffer)
{
	if (ip_addr_is_ipv4(address))
		return inet_ntop(AF_INET, address + 12, buffer, 46);
	return inet_ntop(AF_INET6, address, buffer, 46);
}

/* States that take no packets, and what to do. */
static const char *drop_state_advice(const struct qp *qp) REQUIRES(qp->lock)
{
	switch (qp->state) {
	case IBV_QPS_RESET:
		return "ibv_modify_qp to INIT, then to RTR, before the peer sends";
	case IBV_QPS_INIT:
		return "ibv_modify_qp to RTR before the peer sends";
	default:
		return "it failed or was moved there: make a new one, or ibv_modify_qp to RESET, "
				"INIT, RTR";
	}
}

static void print_address(const struct qp *qp, const struct packet *packet, const uint8_t source[16])
	REQUIRES(qp->lock)
{
	char from[46], peer[46], own[46];

	explain_print_remote("qp 0x%06x: %s from %s dropped: the QP is connected to %s from its "
			"own address %s: "
			     "set ah_attr.grh.dgid and sgid_index to what the peer sends from and to",
			     qp->number, packet->op->name, address_text(source, from),
			     address_text(qp->av.destination, peer), address_text(qp->av.source, own));
}

static void print_way(const struct qp *qp, const struct packet *packet, const uint8_t source[16])
	REQUIRES(qp->lock)
{
	char from[46];

	if (qp->way == BY_SOURCE_PORT) {
		explain_print_remote(
			"qp 0x%06x: %s from %s dropped: its peer, qp 0x%06x on this host, sends from the UDP "
			"port of its slot, and this one came from another: another process has forged it, or a "
			"rule of the firewall changes source ports (ss -uap shows who sends to port 4791; "
			"nft list ruleset)",
			qp->number, packet->op->name, address_text(source, from), qp->attr.dest_qp_num);
		return;
	}
	explain_print_remote(
		"qp 0x%06x: %s from %s dropped: packets of its peer, qp 0x%06x on this host, come "
		"through memory, and this one did not: it was sent before both ends had agreed on "
		"that, "
		"and comes again, or another process has forged it (ss -uap shows who sends to "
		"port 4791)",
		qp->number, packet->op->name, address_text(source, from), qp->attr.dest_qp_num);
}

static void print_datagram(struct qp *qp, const struct packet *packet, const uint8_t source[16],
			   enum counter why) REQUIRES(qp->lock)
{
	uint32_t from = packet->deth.source_qpn;
	char text[46];
	const char *peer = address_text(source, text);

	if (why == COUNTER_RX_QKEY)
		explain_print_remote("qp 0x%06x: datagram of qp 0x%06x at %s dropped: its Q_Key "
				"0x%08x is not this "
				     "QP's 0x%08x: ibv_modify_qp (IBV_QP_QKEY) here and "
				     "wr.ud.remote_qkey there "
				     "must agree", qp->number, from, peer, packet->deth.qkey,
				     qp->attr.qkey);
	else if (why == COUNTER_RX_NO_RECV)
		explain_print_remote("qp 0x%06x: datagram of qp 0x%06x at %s dropped: no receive "
				"is posted: "
				     "ibv_post_recv before the peer sends, one for each datagram "
				     "that may come",
				     qp->number, from, peer);
	else
		explain_print_remote("qp 0x%06x: datagram of qp 0x%06x at %s dropped: %zu bytes "
				"and the %u of the GRH "
				     "are more than the %llu of the receive (wr_id 0x%llx)%s",
				     qp->number, from, peer,
				     packet->payload_bytes, GRH_BYTES,
				     (unsigned long long)qp->responder.recv_bytes,
				     (unsigned long long)qp->responder.recv->wr_id,
				     packet->payload_bytes <= qp->responder.recv_bytes ?
				     ": receives of UD need 40 bytes in front of the message" : "");
}

void drop_print(struct qp *qp, const struct packet *packet, const uint8_t source[16], enum counter why)
{
	char text[46];

	if (packet->op->service == SERVICE_CNP || opcode_is_response(packet->op))
		return;
	switch (why) {
	case COUNTER_RX_PKEY:
		explain_print_remote("%s from %s for qp 0x%06x dropped: its P_Key is 0x%04x: "
				"RoCE has 0xffff alone "
				     "(pkey_index 0)", packet->op->name, address_text(source, text),
				     packet->dest_qpn, packet->pkey);
		return;
	case COUNTER_RX_QPN:
		explain_print_remote("%s from %s dropped: this process has no qp 0x%06x: the "
				"sender's dest_qp_num "
				     "(UD: remote_qpn) is wrong, or the QP was destroyed",
				     packet->op->name,
				     address_text(source, text), packet->dest_qpn);
		return;
	default:
		break;
	}
	lock_assert_held(&qp->lock);
	switch (why) {
	case COUNTER_RX_QP_TYPE:
		explain_print_remote("qp 0x%06x: %s from %s dropped: the QP is of type %s: both "
				"ends need the same "
				     "qp_type", qp->number, packet->op->name,
				     address_text(source, text),
				     qp_type_name(qp->type));
		return;
	case COUNTER_RX_QP_STATE:
		explain_print_remote("qp 0x%06x: %s from %s dropped: the QP is in %s: %s "
				"(verbatim explain %s)",
				     qp->number, packet->op->name, address_text(source, text),
				     qp_state_name(qp->state), drop_state_advice(qp),
						qp_state_name(qp->state));
		return;
	case COUNTER_RX_WAY:
		print_way(qp, packet, source);
		return;
	case COUNTER_RX_ADDRESS:
		print_address(qp, packet, source);
		return;
	default:
		print_datagram(qp, packet, source, why);
	}
}

void drop_print_stranger(uint32_t qpn, const uint8_t source[16])
{
	char text[46];

	explain_print_remote("packet from %s dropped: no process of this host has qp 0x%06x: the "
			"sender's dest_qp_num "
			     "(UD: remote_qpn) is wrong, or the process has ended",
			     address_text(source, text), qpn);
}

void drop_print_psn(struct qp *qp, const struct packet *packet)
{
	char text[46];

	lock_assert_held(&qp->lock);
	explain_print_remote("qp 0x%06x: %s of qp 0x%06x at %s dropped: it has PSN %u, and this "
			"QP waits for its first "
			     "request with PSN %u: rq_psn here (ibv_modify_qp to RTR) and sq_psn "
			     "there (to RTS) must "
			     "agree", qp->number, packet->op->name, qp->attr.dest_qp_num,
			     address_text(qp->av.destination, text), packet->psn,
					qp->attr.rq_psn & PSN_MASK);
}
