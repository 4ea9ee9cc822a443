/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What goes without packets, in a trace: as the packets that it stands for, which the tracer makes
 * (trace/expand.h). Those have no PSN of the connection: of a message it is its number, of an operation that
 * of the next packet.
 */
#include <string.h>

#include "local/move/internal.h"
#include "trace/trace.h"
#include "transport/message.h"
#include "wire/opcode.h"

static void record_begin(struct trace_record *record, const struct qp *qp, enum trace_path path, bool outbound)
	REQUIRES(qp->lock)
{
	const struct route *route = &qp->route;

	trace_record_init(record, TRACE_IS_OPERATION, NULL);
	memcpy(record->source, outbound ? route->source : route->destination, 16);
	memcpy(record->destination, outbound ? route->destination : route->source, 16);
	record->flow_label = route->flow_label;
	record->source_port = route_source_port(route);
	record->traffic_class = route->traffic_class;
	record->hop_limit = route->hop_limit;
	record->path = (uint8_t)path;
	record->flags = TRACE_DONT_FRAGMENT | (outbound ? TRACE_OUTBOUND : 0);
	record->qpn = qp->number;
	record->state = (uint8_t)(qp->state + 1);
}

static void operation_of(struct trace_operation *operation, const struct qp *qp, const struct send_wqe *wqe)
	REQUIRES(qp->lock)
{
	*operation = (struct trace_operation){
		.verb = wr_row(wqe->opcode)->verb,
		.service = qp_is(qp, QP_RELIABLE) ? SERVICE_RC : SERVICE_UC,
		.has_imm = wr_is(wqe->opcode, WR_HAS_IMM),
		.invalidates = wr_is(wqe->opcode, WR_HAS_INV),
		.solicited = !!(wqe->flags & IBV_SEND_SOLICITED),
		.swaps = wqe->opcode == IBV_WR_ATOMIC_CMP_AND_SWP,
		.mtu = qp->mtu, .bytes = wqe->length, .dest_qpn = qp->attr.dest_qp_num, .rkey = wqe->rkey,
		.imm = wqe->imm, .address = wqe->remote_address, .compare_add = wqe->compare_add,
		.swap = wqe->swap };
}

void trace_direct(const struct qp *qp, const struct send_wqe *wqe, uint64_t original, bool mapped)
{
	struct trace_operation operation;
	struct trace_record record;

	record_begin(&record, qp, TRACE_DIRECT, true);
	record.flags |= TRACE_HAS_WR_ID;
	record.wr_id = wqe->wr_id;
	record.manner = mapped ? TRACE_STORED : TRACE_COPIED;
	operation_of(&operation, qp, wqe);
	operation.psn = qp->requester.next_psn;
	operation.acknowledged = operation.service == SERVICE_RC;
	operation.original = original;
	trace_operation(&record, &operation);
}

void trace_message_sent(const struct qp *qp, const struct send_wqe *wqe)
{
	struct trace_operation operation;
	struct trace_record record;

	record_begin(&record, qp, TRACE_RING, true);
	record.flags |= TRACE_HAS_WR_ID | TRACE_HAS_MESSAGE;
	record.wr_id = wqe->wr_id;
	record.message = qp->requester.message_sequence;
	operation_of(&operation, qp, wqe);
	operation.psn = record.message;
	trace_operation(&record, &operation);
}

/* An answer is a message that was consumed, or (refused) one that comes again as packets. */
void trace_message_answered(const struct qp *qp, uint32_t message)
{
	struct trace_operation operation = { .verb = VERB_ACK, .service = SERVICE_RC, .mtu = qp->mtu,
					     .psn = message, .dest_qpn = qp->number };
	struct trace_record record;

	record_begin(&record, qp, TRACE_RING, false);
	record.flags |= TRACE_HAS_MESSAGE;
	record.message = message;
	trace_operation(&record, &operation);
}

void trace_message_received(const struct qp *qp, const struct local_message *message, uint64_t time_ns)
{
	struct trace_operation operation = {
		.verb = message->flags & MESSAGE_WRITE ? VERB_WRITE : VERB_SEND, .service = SERVICE_RC,
		.has_imm = !!(message->flags & MESSAGE_IMM),
		.invalidates = !!(message->flags & MESSAGE_INVALIDATE),
		.solicited = !!(message->flags & MESSAGE_SOLICITED), .mtu = qp->mtu, .bytes = message->length,
		.psn = message->sequence, .dest_qpn = qp->number, .rkey = message->rkey, .imm = message->imm,
		.address = message->target };
	struct trace_record record;

	record_begin(&record, qp, TRACE_RING, false);
	record.time_ns = time_ns;
	record.flags |= TRACE_HAS_MESSAGE;
	record.message = message->sequence;
	trace_operation(&record, &operation);
}
