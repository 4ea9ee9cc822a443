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

/* True: the request is dealt with. */
static bool request_is_known(struct cm_protocol *protocol, struct cm_details *details)
{
	const struct cm_req *req = &details->message->req;
	struct cm_connection *connection =
		cm_find_remote(protocol, details->from, req->local_comm_id, false);
	struct cm_details stale = { .now_ns = details->now_ns };

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
	/* The peer has forgotten @connection. The new request is refused; if repeated, it is taken. */
	cm_count(protocol, COUNTER_CM_STALE);
	cm_reply_reject(protocol, details, CM_ABOUT_REQ, CM_REJECT_STALE_CONNECTION, NULL, 0);
	cm_step(connection, CM_INPUT_STALE, &stale);
	return true;
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
	const struct cm_req *req = &details->message->req;
	bool is_req = details->message->kind == CM_MESSAGE_REQ;
	struct mad_address address = *details->from;
	struct cm_connection *connection;

	address.hop_limit = 0;		/* what is left of the peer's says nothing about the way back */
	connection = cm_connection_new(protocol, &address);
	if (!connection) {
		cm_count(protocol, COUNTER_CM_NO_MEMORY);
		return;
	}
	if (is_req) {
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
	} else {
		connection->service_id = details->message->sidr_req.service_id;
		connection->remote_id = details->message->sidr_req.request_id;
		connection->datagram = true;
		connection->linger = CM_TIMEWAIT_MAX;
	}
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
	const struct cm_req *req = &details->message->req;
	enum cm_transport transport = cm_req_transport(req);
	const uint8_t largest_mtu[] = { 5 };	/* 4096: what would be right */
	uint16_t reason = 0;
	uint8_t info_bytes = 0;
	struct cm_listener *listener;

	if (request_is_known(protocol, details))
		return;
	if (transport == CM_TRANSPORT_NONE || transport == CM_TRANSPORT_RD) {
		reason = CM_REJECT_INVALID_TRANSPORT;
	} else if (req->path_mtu < 1 || req->path_mtu > largest_mtu[0]) {
		reason = CM_REJECT_INVALID_MTU;
		info_bytes = sizeof(largest_mtu);
	}
	if (reason) {
		cm_drop(protocol, details, DROP_CM_MALFORMED);
		cm_reply_reject(protocol, details, CM_ABOUT_REQ, reason, largest_mtu, info_bytes);
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
