/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One protocol: all connections of a process. Messages find their connection by the communication
 * ID that they answer; they count only from the peer's address and with the peer's ID. What fits no
 * connection is counted, and answered where the sender waits for an answer.
 */
#include "cm/protocol/protocol.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "cm/protocol/internal.h"

struct cm_protocol *cm_protocol_new(const struct cm_ops *ops, void *host, uint32_t comm_id_base,
				    unsigned comm_id_bits)
{
	struct cm_protocol *protocol = calloc(1, sizeof(*protocol));

	if (!protocol)
		return NULL;
	protocol->ops = ops;
	protocol->host = host;
	protocol->id_base = comm_id_base;
	protocol->id_bits = comm_id_bits;
	protocol->id_mask = (uint32_t)((UINT64_C(1) << comm_id_bits) - 1);
	assert(!(comm_id_base & protocol->id_mask));
	list_init(&protocol->connections);
	list_init(&protocol->listeners);
	protocol->seed = (uint64_t)ops->random(host) << 32 | ops->random(host);
	protocol->next_id = ops->random(host);
	protocol->transaction_high = ops->random(host);
	if (id_table_init(&protocol->by_id) || id_table_init(&protocol->by_remote) ||
	    id_table_init(&protocol->by_remote_qpn) || id_table_init(&protocol->by_qpn) ||
	    id_table_init(&protocol->by_service)) {
		cm_protocol_free(protocol);
		return NULL;
	}
	return protocol;
}

void cm_protocol_free(struct cm_protocol *protocol)
{
	struct list *node, *following;

	list_for_each_safe(node, following, &protocol->connections)
		cm_connection_free(list_entry(node, struct cm_connection, node));
	list_for_each_safe(node, following, &protocol->listeners)
		cm_listener_free(list_entry(node, struct cm_listener, node), 0);
	id_table_free(&protocol->by_id);
	id_table_free(&protocol->by_remote);
	id_table_free(&protocol->by_remote_qpn);
	id_table_free(&protocol->by_qpn);
	id_table_free(&protocol->by_service);
	timer_heap_free(&protocol->timers);
	free(protocol);
}

/* ---- messages ---- */

static const uint8_t inputs[CM_MESSAGE_KINDS] = {
#define CM_MESSAGE(kind, member, attribute) [CM_MESSAGE_##kind] = CM_INPUT_##kind,
#define CM_FIELD(member, field, type, byte, bit, width)
#define CM_BYTES(member, field, byte, count)
#define CM_PRIVATE(member, byte, count)
#define CM_END(member)
#include "wire/cm_message.def"
};

/* The connection that @message means; NULL: none. */
static struct cm_connection *find_receiver(struct cm_protocol *protocol,
					   const struct cm_message *message,
					   const struct mad_address *from)
{
	uint32_t id = cm_message_receiver_id(message), sender = cm_message_sender_id(message);
	struct cm_connection *connection;

	/* A peer that gave up its REQ without an answer does not know our ID. */
	if (!id && message->kind == CM_MESSAGE_REJ)
		return cm_find_remote(protocol, from, sender, false);
	connection = cm_find_id(protocol, id);
	if (!connection)
		return NULL;
	if (connection->peer_known && connection->remote_id != sender)
		return NULL;
	return connection;
}

static void protocol_deliver(struct cm_protocol *protocol, struct cm_details *details)
{
	const struct cm_message *message = details->message;
	struct cm_connection *connection = find_receiver(protocol, message, details->from);

	if (!connection) {
		cm_drop(protocol, details, DROP_CM_UNKNOWN_ID);
		if (message->kind == CM_MESSAGE_REP)
			cm_reply_reject(protocol, details, CM_ABOUT_REP, CM_REJECT_INVALID_COMM_ID, NULL, 0);
		else if (message->kind == CM_MESSAGE_DREQ)
			cm_reply_drep(protocol, details);
		else if (message->kind == CM_MESSAGE_LAP)
			cm_reply_apr(protocol, details, CM_APR_INVALID_COMM_INSTANCE);
	} else if (memcmp(connection->address.remote, details->from->remote, 16)) {
		cm_drop(protocol, details, DROP_CM_WRONG_ADDRESS);
	} else {
		/* A message with our ID shows that the peer got one of ours; a REJ may come without it. */
		connection->heard |= cm_message_receiver_id(message) != 0;
		cm_step(connection, (enum cm_input)inputs[message->kind], details);
	}
}

enum drop cm_receive(struct cm_protocol *protocol, const struct mad_address *from,
		     const uint8_t mad[MAD_BYTES], uint64_t now_ns)
{
	struct cm_message message;
	struct cm_details details = { .now_ns = now_ns, .message = &message, .from = from };

	if (!cm_message_parse(mad, &message)) {
		cm_drop(protocol, &details, DROP_CM_MALFORMED);
		return details.drop;
	}
	cm_count(protocol, COUNTER_CM_RX);
	/* Lengths come from the sender: none may exceed its field. */
	if (message.kind == CM_MESSAGE_REJ && message.rej.info_bytes > CM_INFO_BYTES)
		message.rej.info_bytes = CM_INFO_BYTES;
	if (message.kind == CM_MESSAGE_SIDR_REP && message.sidr_rep.info_bytes > CM_INFO_BYTES)
		message.sidr_rep.info_bytes = CM_INFO_BYTES;
	if (message.kind == CM_MESSAGE_REQ)
		cm_take_request(protocol, &details);
	else if (message.kind == CM_MESSAGE_SIDR_REQ)
		cm_take_sidr_request(protocol, &details);
	else
		protocol_deliver(protocol, &details);
	return details.drop;
}

/* A copy of what we sent comes back: it counts if it is what its connection waits for. */
void cm_undeliverable(struct cm_protocol *protocol, const struct mad_address *to,
		      const uint8_t mad[MAD_BYTES], uint64_t now_ns)
{
	struct cm_details details = { .now_ns = now_ns };
	struct cm_connection *connection;
	struct cm_message message;

	if (!cm_message_parse(mad, &message))
		return;
	connection = cm_find_id(protocol, cm_message_sender_id(&message));
	if (!connection || memcmp(connection->address.remote, to->remote, 16))
		return;
	details.lost = message.kind;
	if (!protocol->sending) {
		cm_step(connection, CM_INPUT_LOST, &details);
	} else {	/* in the middle of a step: at the next tick */
		connection->lost = (uint8_t)(1 + message.kind);
		cm_retry_soon(connection, now_ns);
	}
}

/* ---- time ---- */

uint64_t cm_deadline(const struct cm_protocol *protocol)
{
	return timer_heap_next(&protocol->timers);
}

void cm_tick(struct cm_protocol *protocol, uint64_t now_ns)
{
	struct timer *timer;

	while ((timer = timer_heap_expire(&protocol->timers, now_ns)))
		cm_retry_expired(container_of(timer, struct cm_connection, timer), now_ns);
}
