/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages as a connection writes them: IDs, transaction and address are its own. Answers carry the
 * transaction ID of what they answer, as Linux does.
 */
#include <stdlib.h>
#include <string.h>

#include "cm/protocol/internal.h"

void cm_count(const struct cm_protocol *protocol, enum counter counter)
{
	protocol->ops->count(protocol->host, (int)counter);
}

void cm_drop(const struct cm_protocol *protocol, struct cm_details *details, enum drop why)
{
	details->drop = why;
	cm_count(protocol, drop_row(why)->counter);
}

uint64_t cm_transaction(const struct cm_connection *connection)
{
	return (uint64_t)connection->protocol->transaction_high << 32 | connection->local_id;
}

void cm_begin(const struct cm_connection *connection, enum cm_message_kind kind,
	      struct cm_message *message)
{
	memset(message, 0, sizeof(*message));
	message->kind = kind;
	message->transaction_id = connection->transaction_id;
	if (kind == CM_MESSAGE_DREQ)	/* begins an exchange of its own */
		message->transaction_id = cm_transaction(connection);
	if (kind == CM_MESSAGE_REQ || kind == CM_MESSAGE_SIDR_REQ) {
		message->req.local_comm_id = connection->local_id;
	} else if (kind == CM_MESSAGE_SIDR_REP) {
		message->sidr_rep.request_id = connection->remote_id;
	} else {	/* all others begin like an RTU */
		message->rtu.local_comm_id = connection->local_id;
		message->rtu.remote_comm_id = connection->remote_id;
	}
}

int cm_put_private_data(struct cm_message *message, const void *data, uint8_t bytes)
{
	size_t room;
	uint8_t *to = cm_message_private_data(message, &room);

	if (bytes > room || (bytes && !data))
		return EINVAL;
	if (bytes)
		memcpy(to, data, bytes);
	return 0;
}

static void send_to(struct cm_protocol *protocol, const struct mad_address *to,
		    const struct cm_message *message)
{
	protocol->sending++;
	protocol->ops->send(protocol->host, to, message);
	protocol->sending--;
}

void cm_send(struct cm_connection *connection, const struct cm_message *message)
{
	send_to(connection->protocol, &connection->address, message);
}

int cm_keep(struct cm_connection *connection, const struct cm_message *message)
{
	struct cm_message *copy = malloc(sizeof(*copy));

	if (!copy)
		return ENOMEM;
	*copy = *message;
	free(connection->kept);
	connection->kept = copy;
	connection->kept_now = true;
	return 0;
}

void cm_drop_kept(struct cm_connection *connection)
{
	free(connection->kept);
	connection->kept = NULL;
}

void cm_send_plain(struct cm_connection *connection, enum cm_message_kind kind)
{
	struct cm_message message;

	cm_begin(connection, kind, &message);
	if (kind == CM_MESSAGE_DREQ)
		message.dreq.remote_qpn = connection->remote_qpn;
	cm_send(connection, &message);
}

/* What is not kept has nothing in it but what the connection knows. */
void cm_send_again(struct cm_connection *connection)
{
	if (connection->kept)
		cm_send(connection, connection->kept);
	else if (connection->state == CM_STATE_DREQ_SENT)
		cm_send_plain(connection, CM_MESSAGE_DREQ);
	else if (connection->state == CM_STATE_ESTABLISHED)
		cm_send_plain(connection, CM_MESSAGE_RTU);
}

void cm_send_mra(struct cm_connection *connection, uint8_t service_timeout)
{
	struct cm_message message;

	cm_begin(connection, CM_MESSAGE_MRA, &message);
	message.mra.message = connection->state == CM_STATE_REQ_RCVD ? CM_ABOUT_REQ : CM_ABOUT_REP;
	message.mra.service_timeout = service_timeout;
	connection->waits = true;
	cm_send(connection, &message);
}

void cm_reply_reject(struct cm_protocol *protocol, const struct cm_details *details,
		     enum cm_about about, uint16_t reason, const void *info, uint8_t info_bytes)
{
	struct cm_message message = {
		.kind = CM_MESSAGE_REJ,
		.transaction_id = details->message->transaction_id,
	};

	message.rej.local_comm_id = cm_message_receiver_id(details->message);
	message.rej.remote_comm_id = cm_message_sender_id(details->message);
	message.rej.message = (uint8_t)about;
	message.rej.reason = reason;
	message.rej.info_bytes = info_bytes;
	if (info_bytes)
		memcpy(message.rej.info, info, info_bytes);
	send_to(protocol, details->from, &message);
}

void cm_reply_drep(struct cm_protocol *protocol, const struct cm_details *details)
{
	struct cm_message message = {
		.kind = CM_MESSAGE_DREP,
		.transaction_id = details->message->transaction_id,
	};

	message.drep.local_comm_id = details->message->dreq.remote_comm_id;
	message.drep.remote_comm_id = details->message->dreq.local_comm_id;
	send_to(protocol, details->from, &message);
}

void cm_reply_apr(struct cm_protocol *protocol, const struct cm_details *details, uint8_t status)
{
	struct cm_message message = {
		.kind = CM_MESSAGE_APR,
		.transaction_id = details->message->transaction_id,
	};

	message.apr.local_comm_id = details->message->lap.remote_comm_id;
	message.apr.remote_comm_id = details->message->lap.local_comm_id;
	message.apr.status = status;
	send_to(protocol, details->from, &message);
}

void cm_reply_sidr(struct cm_protocol *protocol, const struct cm_details *details, uint8_t status)
{
	struct cm_message message = {
		.kind = CM_MESSAGE_SIDR_REP,
		.transaction_id = details->message->transaction_id,
	};

	message.sidr_rep.request_id = details->message->sidr_req.request_id;
	message.sidr_rep.service_id = details->message->sidr_req.service_id;
	message.sidr_rep.status = status;
	send_to(protocol, details->from, &message);
}
