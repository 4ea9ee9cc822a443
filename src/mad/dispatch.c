/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Dispatch of MADs received on QP0 and QP1. Those of QP0 stay in the process: its consumers have them, or nobody.
 * Those of QP1 go to the process that owns them. Answers of connection management
 * belong to the holder of the slot in the communication ID that they answer, requests to the
 * process that serves their service ID. All others, those for a process that ended, and requests
 * without a server (after a while: backlog.c) are handled by the process that received them: by its
 * consumers (mad.c), or without one by refuse.c.
 *
 * A datagram is forwarded once at most. A request that came by a channel is for who had served one before: it is
 * looked at as if it had come by the port.
 */
#include <errno.h>
#include <string.h>

#include "base/ip_addr.h"
#include "mad/internal.h"
#include "engine/arrival.h"
#include "engine/injection.h"
#include "engine/qp_table.h"
#include "wire/cm_message.h"
#include "wire/packet.h"

static enum drop dispatch_check(struct qp1 *qp1, struct datagram *datagram, const struct packet *packet)
{
	/* In the table of the port by which it came; one of both has to be a full member. */
	const unsigned index = net_find_pkey(qp1->net, datagram->ib.port, packet->pkey);

	datagram->pkey_index = (uint16_t)index;
	if (index >= PKEY_TABLE_SIZE ||
	    !pkey_matches(packet->pkey, net_pkey(qp1->net, datagram->ib.port, index)))
		return DROP_PKEY;	/* told by the engine */
	if (packet->op->code != OPCODE_UD_SEND_ONLY || packet->payload_bytes != MAD_BYTES)
		return DROP_MAD_MALFORMED;
	if (packet->deth.qkey != QKEY_GSI)
		return DROP_QKEY;
	return ip_addr_is_multicast(datagram->destination) ? DROP_ADDRESS : DROP_NONE;
}

/* MAD without another owner: deliver it, or hold a request until a server claims it. */
static enum drop dispatch_take(struct qp1 *qp1, const struct cm_target *target,
			       const struct arrival *arrival, struct datagram *one, uint64_t now_ns)
	REQUIRES(qp1->engine->progress)
{
	const uint8_t *mad = arrival->packet.payload;
	enum drop why = DROP_NONE;

	if (qp1->engine->injection &&
	    !injection_admit_management(qp1->engine, arrival, now_ns, &why))
		return why;
	if (target->kind == CM_TARGET_SERVICE && !one->forwarded && !qp1_serves(qp1, target, one) &&
	    backlog_add(qp1, target, one, mad, now_ns))
		return DROP_NONE;
	return qp1_deliver(qp1, one, mad, now_ns);
}

/* The SMI looks at no key. DROP_NO_QP, not counted: this process has none. */
static enum drop dispatch_smp(struct qp1 *qp1, const struct arrival *arrival, uint64_t now_ns)
	REQUIRES(qp1->engine->progress)
{
	const struct packet *packet = &arrival->packet;
	struct mad_address from;
	enum drop why;

	if (!qp1->gsi || packet->op->code != OPCODE_UD_SEND_ONLY || packet->payload_bytes != MAD_BYTES)
		return DROP_NO_QP;
	qp1_address(arrival->datagram, &from);
	why = mad_received(qp1, QPN_SMI, &from, packet->payload, now_ns);
	if (why != DROP_NO_QP)
		counter_add(qp1->engine->counters, COUNTER_RX_MAD, 1);
	return why;
}

enum drop qp1_receive(struct qp1 *qp1, const struct arrival *arrival, uint64_t now_ns)
{
	struct datagram one = arrival_datagram(arrival);
	struct cm_target target;
	enum drop why;
	int err = ECONNREFUSED;

	if (arrival->packet.dest_qpn == QPN_SMI)
		return dispatch_smp(qp1, arrival, now_ns);
	why = dispatch_check(qp1, &one, &arrival->packet);
	if (why)
		return drop_count(qp1->engine->counters, why, 1);
	cm_message_target(arrival->packet.payload, &target);
	/* Its sender has not looked who serves it now. */
	if (one.from_channel && !one.ib_end && target.kind == CM_TARGET_SERVICE)
		one.forwarded = false;
	if (!one.forwarded)
		err = qp1_forward(qp1, &target, &one);
	if (err == ECONNREFUSED)
		return dispatch_take(qp1, &target, arrival, &one, now_ns);
	if (!err && qp1->engine->group)
		port_group_stale(qp1->engine->group, now_ns);
	return qp1_count_forwarded(qp1, err);
}

int qp1_receive_service(struct qp1 *qp1, struct datagram *datagram, uint8_t *buffer, size_t size)
{
	int err = qp1->gsi ? services_receive(qp1->gsi->services, datagram, buffer, size) : EAGAIN;

	/* Service sockets accept any sender, so packets from them are never forwarded again. */
	if (!err)
		datagram->forwarded = true;
	return err;
}
