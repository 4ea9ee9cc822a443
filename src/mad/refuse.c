/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Answers to MADs without an owner, in a process without connection management: those that need no
 * state. The port is shared, so a program that uses verbs alone may be the only one to answer "no
 * such service" or "no such connection".
 */
#include <string.h>

#include "mad/internal.h"
#include "wire/cm_message.h"

bool qp1_refuse(struct qp1 *qp1, const struct datagram *datagram, const uint8_t mad[MAD_BYTES])
{
	struct datagram back = { .link = datagram->link, .interface = datagram->interface,
				 .ib = datagram->ib, .pkey_index = datagram->pkey_index };
	struct cm_message message, answer;
	uint8_t bytes[MAD_BYTES];

	if (!cm_message_parse(mad, &message) || !cm_message_refuse(&message, &answer))
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
