/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Answers to MADs without an owner, in a process without connection management: those that need no
 * state. The port is shared, so a program that uses verbs alone may be the only one to answer "no
 * such service" or "no such connection".
 */
#include <string.h>

#include "mad/internal.h"
#include "wire/cm_message.h"

/* False: not to be answered. */
static bool make_answer(const struct cm_message *message, struct cm_message *answer)
{
	*answer = (struct cm_message){ .transaction_id = message->transaction_id };
	switch (message->kind) {
	case CM_MESSAGE_REQ:
		answer->kind = CM_MESSAGE_REJ;
		answer->rej.remote_comm_id = message->req.local_comm_id;
		answer->rej.message = CM_ABOUT_REQ;
		answer->rej.reason = CM_REJECT_INVALID_SERVICE_ID;
		return true;
	case CM_MESSAGE_SIDR_REQ:
		answer->kind = CM_MESSAGE_SIDR_REP;
		answer->sidr_rep.request_id = message->sidr_req.request_id;
		answer->sidr_rep.status = CM_SIDR_UNSUPPORTED;
		answer->sidr_rep.service_id = message->sidr_req.service_id;
		return true;
	case CM_MESSAGE_DREQ:
		answer->kind = CM_MESSAGE_DREP;
		answer->drep.local_comm_id = message->dreq.remote_comm_id;
		answer->drep.remote_comm_id = message->dreq.local_comm_id;
		return true;
	default:
		return false;
	}
}

bool qp1_refuse(struct qp1 *qp1, const struct datagram *datagram, const uint8_t mad[MAD_BYTES])
{
	struct datagram back = { .link = datagram->link, .interface = datagram->interface };
	struct cm_message message, answer;
	uint8_t bytes[MAD_BYTES];

	if (!cm_message_parse(mad, &message) || !make_answer(&message, &answer))
		return false;
	memcpy(back.source, datagram->destination, 16);
	memcpy(back.destination, datagram->source, 16);
	cm_message_write(&answer, bytes);
	if (qp1_transmit(qp1, &back, bytes))
		return false;
	if (message.kind != CM_MESSAGE_DREQ)
		counter_add(qp1->engine->counters, COUNTER_CM_NO_SERVICE, 1);
	return true;
}
