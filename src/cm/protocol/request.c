/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * REQ and SIDR_REQ. Checked in this order: repeated; stale, as its QP or ID belongs to another
 * connection (IBTA 12.9.8.3); invalid or without a listener; beyond the listener's limit; new.
 */
#include <string.h>

#include "cm/protocol/internal.h"

static bool is_repeated(const struct cm_connection *connection, const struct cm_message *message)
{
	return connection->transaction_id == message->transaction_id &&
	       connection->service_id == message->req.service_id &&
	       connection->remote_qpn == message->req.local_qpn &&
	       connection->remote_psn == message->req.starting_psn;
}

/* The peer has forgotten @connection. The new request is refused; if repeated, it is taken. */
static void refuse_stale(struct cm_connection *connection, struct cm_details *details)
{
	struct cm_details stale = { .now_ns = details->now_ns };

	cm_count(connection->protocol, COUNTER_CM_STALE);
	cm_reply_reject(connection->protocol, details, CM_ABOUT_REQ, CM_REJECT_STALE_CONNECTION,
			NULL, 0);
	cm_step(connection, CM_INPUT_STALE, &stale);
}

/* True: the request is dealt with. */
static bool request_is_known(struct cm_protocol *protocol, struct cm_details *details)
{
	const struct cm_req *req = &details->message->req;
	struct cm_connection *connection =
		cm_find_remote(protocol, details->from, req->local_comm_id, false);

	if (connection && is_repeated(connection, details->message)) {
		cm_step(connection, CM_INPUT_REQ, details);
		return true;
	}
	if (connection && (connection->state == CM_STATE_TIMEWAIT ||
			   connection->state == CM_STATE_ANSWERED)) {
		/* Done with, and its ID is in use again. */
		id_table_remove(&protocol->by_remote, &connection->by_remote);
		connection = NULL;
	}
	if (!connection && req->local_qpn)
		connection = cm_find_remote_qpn(protocol, details->from, req->local_qpn, NULL);
	if (!connection)
		return false;
	refuse_stale(connection, details);
	return true;
}

/* 0: nothing is wrong with it; else the reason, with what would be right. */
static uint16_t what_is_wrong(const struct cm_req *req, uint8_t info[1], uint8_t *info_bytes)
{
	enum cm_transport transport = cm_req_transport(req);

	*info_bytes = 0;
	if (transport == CM_TRANSPORT_NONE || transport == CM_TRANSPORT_RD)
		return CM_REJECT_INVALID_TRANSPORT;
	if (req->path_mtu < 1 || req->path_mtu > 5) {	/* 256 .. 4096 */
		info[0] = 5;
		*info_bytes = 1;
		return CM_REJECT_INVALID_MTU;
	}
	return 0;
}

/* The listener of a request. NULL: refused or dropped. */
static struct cm_listener *find_taker(struct cm_protocol *protocol, struct cm_details *details)
{
	struct cm_listener *listener =
		cm_find_listener(protocol, details->message, details->from);

	if (!listener) {
		cm_count(protocol, COUNTER_CM_NO_SERVICE);
		if (details->message->kind == CM_MESSAGE_REQ)
			cm_reply_reject(protocol, details, CM_ABOUT_REQ,
					CM_REJECT_INVALID_SERVICE_ID, NULL, 0);
		else
			cm_reply_sidr(protocol, details, CM_SIDR_UNSUPPORTED);
		return NULL;
	}
	if (!cm_listener_has_room(listener)) {
		cm_drop(protocol, details, DROP_CM_BACKLOG);
		return NULL;
	}
	return listener;
}

static uint8_t request_clamp(uint8_t value, uint8_t low, uint8_t high)
{
	return value < low ? low : value > high ? high : value;
}

static void read_req(struct cm_connection *connection, const struct cm_message *message)
{
	const struct cm_req *req = &message->req;

	connection->service_id = req->service_id;
	connection->remote_id = req->local_comm_id;
	connection->remote_qpn = req->local_qpn;
	connection->remote_psn = req->starting_psn;
	connection->transport = (uint8_t)cm_req_transport(req);
	connection->response_timeout =
		request_clamp(req->local_response_timeout, CM_RESPONSE_MIN, CM_RESPONSE_MAX);
	connection->max_retries = req->max_retries;
	connection->linger =
		request_clamp(req->remote_response_timeout, CM_RESPONSE_MIN, CM_RESPONSE_MAX);
	connection->timewait =
		request_clamp(req->local_ack_timeout, CM_TIMEWAIT_MIN, CM_TIMEWAIT_MAX);
}

static void read_sidr_req(struct cm_connection *connection, const struct cm_message *message)
{
	connection->service_id = message->sidr_req.service_id;
	connection->remote_id = message->sidr_req.request_id;
	connection->datagram = true;
	connection->linger = CM_TIMEWAIT_MAX;
}

/* Offers the request to the listener's owner. Ignored requests are forgotten, so that the peer
 * repeats them. */
static void request_announce(struct cm_connection *connection, struct cm_listener *listener,
			     enum cm_event_kind kind, struct cm_details *details)
{
	struct cm_protocol *protocol = connection->protocol;
	struct cm_arrival arrival = { .connection = connection, .outer = protocol->arrival };

	protocol->arrival = &arrival;
	cm_report(connection, listener->owner, kind, details);
	protocol->arrival = arrival.outer;
	connection = arrival.connection;
	if (!connection || connection->taken)
		return;
	connection->abandoned = true;
	if (connection->state == CM_STATE_REQ_RCVD || connection->state == CM_STATE_SIDR_RCVD ||
	    connection->state == CM_STATE_OVER)
		cm_connection_free(connection);
}

static void request_begin(struct cm_protocol *protocol, struct cm_listener *listener,
			  struct cm_details *details)
{
	bool is_req = details->message->kind == CM_MESSAGE_REQ;
	struct mad_address address = *details->from;
	struct cm_connection *connection;

	address.hop_limit = 0;		/* what is left of the peer's says nothing about the way back */
	connection = cm_connection_new(protocol, &address);
	if (!connection) {
		cm_count(protocol, COUNTER_CM_NO_MEMORY);
		return;
	}
	if (is_req)
		read_req(connection, details->message);
	else
		read_sidr_req(connection, details->message);
	connection->transaction_id = details->message->transaction_id;
	connection->peer_known = true;
	cm_index_remote(connection);
	if (is_req)
		cm_index_remote_qpn(connection);
	cm_listener_adds(listener, connection);
	cm_enter(connection, is_req ? CM_STATE_REQ_RCVD : CM_STATE_SIDR_RCVD, details->now_ns);
	request_announce(connection, listener, is_req ? CM_EVENT_REQ : CM_EVENT_SIDR_REQ, details);
}

void cm_take_request(struct cm_protocol *protocol, struct cm_details *details)
{
	struct cm_listener *listener;
	uint8_t info[1], info_bytes;
	uint16_t reason;

	if (request_is_known(protocol, details))
		return;
	reason = what_is_wrong(&details->message->req, info, &info_bytes);
	if (reason) {
		cm_drop(protocol, details, DROP_CM_MALFORMED);
		cm_reply_reject(protocol, details, CM_ABOUT_REQ, reason, info, info_bytes);
		return;
	}
	listener = find_taker(protocol, details);
	if (listener)
		request_begin(protocol, listener, details);
}

void cm_take_sidr_request(struct cm_protocol *protocol, struct cm_details *details)
{
	const struct cm_sidr_req *request = &details->message->sidr_req;
	struct cm_connection *connection =
		cm_find_remote(protocol, details->from, request->request_id, true);
	struct cm_listener *listener;

	if (connection && connection->transaction_id == details->message->transaction_id &&
	    connection->service_id == request->service_id) {
		cm_step(connection, CM_INPUT_SIDR_REQ, details);
		return;
	}
	if (connection)		/* its ID is in use again: that one is done with */
		id_table_remove(&protocol->by_remote, &connection->by_remote);
	listener = find_taker(protocol, details);
	if (listener)
		request_begin(protocol, listener, details);
}
