/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Dispatch of MADs received on QP1 to the process that owns them. Answers of connection management
 * belong to the holder of the slot in the communication ID that they answer, requests to the
 * process that serves their service ID. All others, those for a process that ended, and requests
 * without a server (after a while: backlog.c) are handled by the process that received them: by its
 * consumer, or without one by refuse.c. Classes are dispatched by mad.c.
 *
 * A datagram is forwarded once at most.
 */
#include <errno.h>
#include <string.h>

#include "mad/internal.h"
#include "engine/injection.h"
#include "engine/qp_table.h"
#include "wire/cm_message.h"

#define OPCODE_UD_SEND_ONLY	0x64u

/* The counter of the reason to drop it; COUNTER_COUNT: valid. */
static enum counter dispatch_check(const struct datagram *datagram, const struct packet *packet)
{
	if (packet->op->code != OPCODE_UD_SEND_ONLY || packet->payload_bytes != MAD_BYTES)
		return COUNTER_RX_MAD_MALFORMED;
	if (packet->deth.qkey != QKEY_GSI)
		return COUNTER_RX_QKEY;
	return ip_addr_is_multicast(datagram->destination) ? COUNTER_RX_ADDRESS : COUNTER_COUNT;
}

/* MAD without another owner: deliver it, or hold a request until a server claims it. */
static void dispatch_take(struct qp1 *qp1, const struct cm_target *target,
			  const struct datagram *datagram, const uint8_t *mad, uint64_t now_ns)
	REQUIRES(qp1->engine->progress)
{
	if (qp1->engine->injection && !injection_admit_management(qp1->engine, datagram, now_ns))
		return;
	if (target->kind == CM_TARGET_SERVICE && !datagram->forwarded &&
	    !qp1_serves(qp1, target, datagram) && backlog_add(qp1, target, datagram, mad, now_ns))
		return;
	qp1_deliver(qp1, datagram, mad, now_ns);
}

void qp1_receive(struct qp1 *qp1, const struct datagram *datagram, uint8_t *data, size_t bytes,
		 unsigned segment, const struct packet *packet, uint64_t now_ns)
{
	struct datagram one = *datagram;
	struct cm_target target;
	enum counter wrong = dispatch_check(datagram, packet);
	int err = ECONNREFUSED;

	if (wrong != COUNTER_COUNT) {
		counter_add(qp1->engine->counters, wrong, 1);
		return;
	}
	cm_message_target(packet->payload, &target);
	one.data = data;
	one.bytes = bytes;
	one.segment_bytes = 0;
	one.segment_number = segment;
	if (!datagram->forwarded)
		err = qp1_forward(qp1, &target, &one);
	if (err == ECONNREFUSED) {
		dispatch_take(qp1, &target, &one, packet->payload, now_ns);
		return;
	}
	counter_add(qp1->engine->counters, err ? COUNTER_RX_MAD_LOST : COUNTER_RX_MAD_FOREIGN, 1);
	if (!err && qp1->engine->group)
		port_group_stale(qp1->engine->group, now_ns);
}

int qp1_receive_service(struct qp1 *qp1, struct datagram *datagram, uint8_t *buffer, size_t size)
{
	int err = qp1->gsi ? services_receive(qp1->gsi->services, datagram, buffer, size) : EAGAIN;

	/* Service sockets accept any sender, so packets from them are never forwarded again. */
	if (!err)
		datagram->forwarded = true;
	return err;
}
