/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A management datagram that came to QP1: for whom is it? Of connection management, answers are for
 * the holder of the slot in the communication ID that they answer, requests for who serves the
 * service ID. Everything else, what is for a process that ended, and requests that nobody serves (a
 * while later: gsi_backlog.c) are for whoever got them: its protocol knows how to refuse, and the rest is
 * done without (qp1_refuse.c).
 *
 * What was handed on once is not handed on again.
 */
#include <errno.h>
#include <string.h>

#include "mad/internal.h"
#include "engine/qp_table.h"
#include "wire/cm_message.h"

#define OPCODE_UD_SEND_ONLY	0x64u

/* The counter of what makes it a drop; COUNTER_COUNT: it is right. */
static enum counter dispatch_check(const struct datagram *datagram, const struct packet *packet)
{
	if (packet->op->code != OPCODE_UD_SEND_ONLY || packet->payload_bytes != MAD_BYTES)
		return COUNTER_RX_MAD_MALFORMED;
	if (packet->deth.qkey != QKEY_GSI)
		return COUNTER_RX_QKEY;
	return ip_addr_is_multicast(datagram->destination) ? COUNTER_RX_ADDRESS : COUNTER_COUNT;
}

/* It is for us, or for nobody: a request may wait for somebody. */
static void dispatch_take(struct qp1 *qp1, const struct cm_target *target,
			  const struct datagram *datagram, const uint8_t *mad, uint64_t now_ns)
	REQUIRES(qp1->engine->progress)
{
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

	/* A socket of ours alone takes what comes there: anybody could write it, none steers by it. */
	if (!err)
		datagram->forwarded = true;
	return err;
}
