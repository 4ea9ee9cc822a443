/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Packets into the batch, back to back: the payload is copied to its place first, then the headers
 * are written in front of it. ICRC_BYTES of room follow each packet.
 */
#include <assert.h>
#include <string.h>

#include "trace/trace.h"
#include "transport/internal.h"
#include "transport/pace.h"
#include "wire/gaps.h"

uint8_t *transmit_payload(struct transmit *transmit, const struct opcode *op)
{
	return transmit->batch->data + transmit->batch->used + op->header_bytes;
}

void packet_begin(const struct qp *qp, struct packet *packet, uint8_t code, uint32_t psn)
{
	static const uint8_t service[] = { [SERVICE_UC] = OPCODE_UC, [SERVICE_XRC] = OPCODE_XRC };

	if (code <= OPCODE_OPERATION)
		code |= service[qp_types[qp->type % QP_TYPES].service];
	*packet = (struct packet){ .op = opcode_get(code), .migrated = true, .pkey = qp->pkey,
				   .dest_qpn = qp->attr.dest_qp_num, .psn = psn };
}

void transmit_packet(struct transmit *transmit, struct packet *packet, const struct route *route)
{
	struct tx_batch *batch = transmit->batch;
	struct tx_packet *entry = &batch->packet[batch->count];
	struct qp *qp = transmit->call->qp;
	uint8_t *start = batch->data + batch->used;
	size_t pad = packet_pad(packet->payload_bytes);
	size_t bytes;

	lock_alias(&qp->lock);
	bytes = packet_write_headers(packet, start);
	assert(bytes == packet->op->header_bytes);
	bytes += packet->payload_bytes;
	memset(start + bytes, 0, ICRC_BYTES);	/* the pad, and of what follows as much as makes it one store */
	bytes += pad;
	entry->offset = (uint32_t)batch->used;
	entry->bytes = (uint32_t)bytes;
	entry->source_qpn = transmit->call->qp->number;
	entry->dest_qpn = packet->dest_qpn;
	entry->route = *route;
	if (trace_wants(TRACE_PACKETS | TRACE_LOG)) {
		const struct send_wqe *wqe = transmit->wqe;

		*tx_batch_add_note(batch) = (struct tx_note){ .wr_id = wqe ? wqe->wr_id : 0,
							      .has_wr_id = wqe != NULL,
							      .state = (uint8_t)(qp->state + 1) };
	}
	batch->used += bytes + ICRC_BYTES;
	batch->count++;
	transmit->budget--;
	if (__builtin_expect(qp->requester.pace.kbps != 0, 0))
		pace_sent(&qp->requester.pace, (uint32_t)bytes + ICRC_BYTES + PACE_LINK_BYTES +
			  (route_has_grh(route) ? ROUTE_GRH_BYTES : 0), transmit->call->now_ns);
}

void transmit_gaps(struct transmit *transmit, struct gaps gaps, uint32_t psn)
{
	struct qp *qp = transmit->call->qp;
	struct packet packet;

	lock_alias(&qp->lock);
	packet_begin(qp, &packet, OPCODE_GAPS, psn);
	packet.payload_bytes = GAPS_BYTES;
	gaps.qpn = qp->number;
	gaps_write(&gaps, transmit_payload(transmit, packet.op));
	transmit_packet(transmit, &packet, &qp->route);
}
