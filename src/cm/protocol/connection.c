/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connections: made, found by our communication ID, by the peer's address and its ID or its QP, by
 * our QP; and the calls of protocol.h, which are inputs of the table.
 */
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/zeroed.h"
#include "cm/protocol/internal.h"

/* ---- keys ---- */

static uint64_t address_hash(const struct cm_protocol *protocol, const uint8_t address[16])
{
	return id_hash(id_hash(protocol->seed, get_be64(address)), get_be64(address + 8));
}

static uint64_t remote_hash(const struct cm_protocol *protocol, const uint8_t address[16],
			    uint32_t remote_id, bool datagram)
{
	return id_hash(address_hash(protocol, address), (uint64_t)datagram << 32 | remote_id);
}

static uint64_t remote_qpn_hash(const struct cm_protocol *protocol, const uint8_t address[16],
				uint32_t qpn)
{
	return id_hash(address_hash(protocol, address), qpn);
}

static uint64_t number_hash(const struct cm_protocol *protocol, uint32_t number)
{
	return id_hash(protocol->seed, number);
}

static bool is_from(const struct cm_connection *connection, const struct mad_address *from)
{
	return !memcmp(connection->address.remote, from->remote, 16);
}

void cm_index_remote(struct cm_connection *connection)
{
	struct cm_protocol *protocol = connection->protocol;

	id_table_insert(&protocol->by_remote, &connection->by_remote,
			remote_hash(protocol, connection->address.remote, connection->remote_id,
				    connection->datagram));
}

/* A peer without a QP names none: 0. */
void cm_index_remote_qpn(struct cm_connection *connection)
{
	struct cm_protocol *protocol = connection->protocol;

	if (connection->remote_qpn)
		id_table_insert(&protocol->by_remote_qpn, &connection->by_remote_qpn,
				remote_qpn_hash(protocol, connection->address.remote,
						connection->remote_qpn));
}

void cm_index_qpn(struct cm_connection *connection)
{
	struct cm_protocol *protocol = connection->protocol;

	id_table_insert(&protocol->by_qpn, &connection->by_qpn,
			number_hash(protocol, connection->local_qpn));
}

void cm_hide_remote_qpn(struct cm_connection *connection)
{
	id_table_remove(&connection->protocol->by_remote_qpn, &connection->by_remote_qpn);
}

void cm_hide_qpn(struct cm_connection *connection)
{
	id_table_remove(&connection->protocol->by_qpn, &connection->by_qpn);
}

void cm_hide(struct cm_connection *connection)
{
	struct cm_protocol *protocol = connection->protocol;

	id_table_remove(&protocol->by_id, &connection->by_id);
	id_table_remove(&protocol->by_remote, &connection->by_remote);
	cm_hide_qpn(connection);
	cm_hide_remote_qpn(connection);
}

struct cm_connection *cm_find_id(struct cm_protocol *protocol, uint32_t local_id)
{
	struct id_node *node = NULL;

	while ((node = id_table_find(&protocol->by_id, number_hash(protocol, local_id), node))) {
		struct cm_connection *connection = container_of(node, struct cm_connection, by_id);

		if (connection->local_id == local_id)
			return connection;
	}
	return NULL;
}

struct cm_connection *cm_find_remote(struct cm_protocol *protocol, const struct mad_address *from,
				     uint32_t remote_id, bool datagram)
{
	uint64_t hash = remote_hash(protocol, from->remote, remote_id, datagram);
	struct id_node *node = NULL;

	while ((node = id_table_find(&protocol->by_remote, hash, node))) {
		struct cm_connection *connection =
			container_of(node, struct cm_connection, by_remote);

		if (connection->remote_id == remote_id && connection->datagram == datagram &&
		    is_from(connection, from))
			return connection;
	}
	return NULL;
}

struct cm_connection *cm_find_remote_qpn(struct cm_protocol *protocol,
					 const struct mad_address *from, uint32_t qpn,
					 const struct cm_connection *but)
{
	uint64_t hash = remote_qpn_hash(protocol, from->remote, qpn);
	struct id_node *node = NULL;

	while ((node = id_table_find(&protocol->by_remote_qpn, hash, node))) {
		struct cm_connection *connection =
			container_of(node, struct cm_connection, by_remote_qpn);

		if (connection != but && connection->remote_qpn == qpn && is_from(connection, from))
			return connection;
	}
	return NULL;
}

struct cm_connection *cm_find_qpn(struct cm_protocol *protocol, uint32_t qpn)
{
	struct cm_connection *found = NULL;
	struct id_node *node = NULL;

	while ((node = id_table_find(&protocol->by_qpn, number_hash(protocol, qpn), node))) {
		struct cm_connection *connection = container_of(node, struct cm_connection, by_qpn);

		if (connection->local_qpn != qpn)
			continue;
		found = connection;
		if (found->state != CM_STATE_TIMEWAIT)
			break;
	}
	return found;
}

/* ---- life ---- */

/* A permutation of the numbers below 2^id_bits, or 2^(id_bits + 1), by the seed: four rounds of Feistel's. */
uint32_t cm_permute(const struct cm_protocol *protocol, uint32_t number)
{
	unsigned half = (protocol->id_bits + 1) / 2;
	uint32_t mask = (1u << half) - 1, left = number >> half & mask, right = number & mask, round, next;

	for (round = 1; round <= 4; round++) {
		next = left ^ ((uint32_t)id_hash(protocol->seed ^ round, right) & mask);
		left = right;
		right = next;
	}
	return left << half | right;
}

/*
 * Next communication ID, 0 if none is free. IDs follow a secret permutation: not reused soon, not
 * guessable from an earlier one.
 */
static uint32_t choose_id(struct cm_protocol *protocol)
{
	uint32_t id;

	if (protocol->by_id.count >= protocol->id_mask)
		return 0;
	do {
		do
			id = cm_permute(protocol, protocol->next_id++);
		while (id > protocol->id_mask);
		id |= protocol->id_base;
	} while (!id || cm_find_id(protocol, id));
	return id;
}

struct cm_connection *cm_connection_new(struct cm_protocol *protocol,
					const struct mad_address *address)
{
	uint32_t id = choose_id(protocol);
	struct cm_connection *connection;

	if (!id || timer_heap_reserve(&protocol->timers, protocol->count + 1))
		return NULL;
	connection = zeroed_new(sizeof(*connection));
	if (!connection)
		return NULL;
	connection->protocol = protocol;
	connection->address = *address;
	connection->state = CM_STATE_OVER;
	connection->local_id = id;
	timer_init(&connection->timer);
	id_table_insert(&protocol->by_id, &connection->by_id, number_hash(protocol, id));
	list_add_tail(&protocol->connections, &connection->node);
	protocol->count++;
	return connection;
}

void cm_connection_free(struct cm_connection *connection)
{
	struct cm_protocol *protocol = connection->protocol;
	struct cm_arrival *arrival;

	for (arrival = protocol->arrival; arrival; arrival = arrival->outer)
		if (arrival->connection == connection)
			arrival->connection = NULL;
	if (connection->listener)
		cm_listener_drops(connection);
	if (connection->state == CM_STATE_ANSWERED)
		protocol->answered--;
	cm_hide(connection);
	timer_set(&protocol->timers, &connection->timer, TIME_NEVER);
	cm_drop_kept(connection);
	list_remove(&connection->node);
	protocol->count--;
	free(connection);
}

void cm_forget(struct cm_connection *connection)
{
	cm_connection_free(connection);
}

/* A marker goes through the list, so that any connection may go while one is visited. */
void cm_for_each(struct cm_protocol *protocol,
		 void (*visit)(void *context, struct cm_connection *connection), void *context)
{
	struct cm_connection marker = { .protocol = NULL }, *connection;
	struct list *next = protocol->connections.next;

	while (next != &protocol->connections) {
		connection = list_entry(next, struct cm_connection, node);
		/* behind the connection: where to go on */
		marker.node.prev = next;
		marker.node.next = next->next;
		next->next->prev = &marker.node;
		next->next = &marker.node;
		if (connection->protocol && connection->state != CM_STATE_TIMEWAIT &&
		    connection->state != CM_STATE_ANSWERED && connection->state != CM_STATE_OVER)
			visit(context, connection);
		next = marker.node.next;
		list_remove(&marker.node);
	}
}

/* ---- queries ---- */

void cm_set_owner(struct cm_connection *connection, void *owner)
{
	connection->owner = owner;
	connection->taken = true;
}

uint32_t cm_local_id(const struct cm_connection *connection)
{
	return connection->local_id;
}

uint32_t cm_remote_qpn(const struct cm_connection *connection)
{
	return connection->remote_qpn;
}

const struct mad_address *cm_address(const struct cm_connection *connection)
{
	return &connection->address;
}

/* ---- calls that make connections ---- */

static void put_req(const struct cm_connection *connection, const struct cm_connect *connect,
		    struct cm_req *req)
{
	/* One hop: a subnet of its own; else LIDs mean nothing ("permissive"), as Linux says. */
	bool subnet_local = connect->hop_limit <= 1;

	req->vendor_id = connect->ece_vendor_id;
	req->service_id = connect->service_id;
	req->local_ca_guid = connection->local_ca_guid;
	req->local_qkey = connect->local_qkey;
	req->local_qpn = connect->local_qpn;
	req->initiator_depth = connect->initiator_depth;
	req->remote_response_timeout = req->local_response_timeout = connect->response_timeout;
	cm_req_set_transport(req, connect->transport);
	req->flow_control = connect->flow_control;
	req->starting_psn = connect->starting_psn;
	req->max_retries = connect->max_retries;
	req->pkey = connect->pkey;
	req->path_mtu = connect->path_mtu;
	req->local_lid = subnet_local ? connect->local_lid : 0xffff;
	req->remote_lid = subnet_local ? connect->remote_lid : 0xffff;
	memcpy(req->local_gid, connect->local_gid, 16);
	memcpy(req->remote_gid, connect->remote_gid, 16);
	req->flow_label = connect->flow_label;
	req->packet_rate = connect->packet_rate;
	req->traffic_class = connect->traffic_class;
	req->hop_limit = connect->hop_limit;
	req->service_level = connect->service_level;
	req->subnet_local = subnet_local;
	req->local_ack_timeout = connect->local_ack_timeout;
	if (connect->transport != CM_TRANSPORT_XRC) {	/* an XRC initiator does not respond */
		req->responder_resources = connect->responder_resources;
		req->retry_count = connect->retry_count;
		req->rnr_retry_count = connect->rnr_retry_count;
		req->srq = connect->srq;
	}
}

static struct cm_connection *active_connection(struct cm_protocol *protocol,
					       const struct mad_address *address, void *owner)
{
	struct cm_connection *connection = cm_connection_new(protocol, address);

	if (!connection)
		return NULL;
	connection->owner = owner;
	connection->taken = true;
	connection->active = true;
	connection->transaction_id = cm_transaction(connection);
	return connection;
}

/* Sends the first message, which is kept. */
static int connection_start(struct cm_connection *connection, const struct cm_message *message,
			    enum cm_state state, uint64_t now_ns)
{
	int err = cm_keep(connection, message);

	if (err)
		return err;
	cm_enter(connection, state, now_ns);
	cm_send(connection, message);
	connection->address.slot = 0;	/* repeated, it looks for its server anew */
	return 0;
}

int cm_connect(struct cm_protocol *protocol, const struct cm_connect *connect, void *owner,
	       uint64_t now_ns, struct cm_connection **made)
{
	struct cm_connection *connection;
	struct cm_message message;
	uint8_t guid[8];
	int err;

	if (connect->transport >= CM_TRANSPORT_NONE || connect->response_timeout > 31 ||
	    connect->max_retries > 15 || connect->local_qpn > 0xffffff || connect->local_ack_timeout > 31)
		return EINVAL;
	connection = active_connection(protocol, &connect->address, owner);
	if (!connection)
		return ENOMEM;
	memcpy(guid, &connect->local_ca_guid, sizeof(guid));
	connection->local_ca_guid = get_be64(guid);
	connection->service_id = connect->service_id;
	connection->local_qpn = connect->local_qpn;
	connection->transport = (uint8_t)connect->transport;
	connection->response_timeout = connect->response_timeout;
	connection->max_retries = connect->max_retries;
	cm_retry_patience(connection, connect->patience, now_ns);
	connection->timewait = connect->local_ack_timeout;
	if (connection->timewait < CM_TIMEWAIT_MIN)
		connection->timewait = CM_TIMEWAIT_MIN;
	if (connection->timewait > CM_TIMEWAIT_MAX)
		connection->timewait = CM_TIMEWAIT_MAX;
	cm_begin(connection, CM_MESSAGE_REQ, &message);
	message.attribute_modifier = connect->ece_options;
	put_req(connection, connect, &message.req);
	err = cm_put_private_data(&message, connect->private_data, connect->private_data_bytes);
	if (!err) {
		cm_index_qpn(connection);
		err = connection_start(connection, &message, CM_STATE_REQ_SENT, now_ns);
	}
	if (err)
		cm_connection_free(connection);
	else
		*made = connection;
	return err;
}

int cm_sidr(struct cm_protocol *protocol, const struct cm_sidr *sidr, void *owner, uint64_t now_ns,
	    struct cm_connection **made)
{
	struct cm_connection *connection;
	struct cm_message message;
	int err;

	if (sidr->response_timeout > 31 || sidr->max_retries > 15)
		return EINVAL;
	connection = active_connection(protocol, &sidr->address, owner);
	if (!connection)
		return ENOMEM;
	connection->datagram = true;
	connection->service_id = sidr->service_id;
	connection->response_timeout = sidr->response_timeout;
	connection->max_retries = sidr->max_retries;
	cm_retry_patience(connection, sidr->patience, now_ns);
	cm_begin(connection, CM_MESSAGE_SIDR_REQ, &message);
	message.sidr_req.service_id = sidr->service_id;
	message.sidr_req.pkey = sidr->pkey;
	err = cm_put_private_data(&message, sidr->private_data, sidr->private_data_bytes);
	if (!err)
		err = connection_start(connection, &message, CM_STATE_SIDR_SENT, now_ns);
	if (err)
		cm_connection_free(connection);
	else
		*made = connection;
	return err;
}

/* ---- calls on connections ---- */

int cm_accept(struct cm_connection *connection, const struct cm_accept *accept, uint64_t now_ns)
{
	struct cm_details details = { .now_ns = now_ns, .accept = accept };

	return cm_step(connection, CM_INPUT_ACCEPT, &details);
}

int cm_ready_to_use(struct cm_connection *connection, const void *private_data, uint8_t bytes,
		    uint64_t now_ns)
{
	struct cm_details details = { .now_ns = now_ns, .private_data = private_data,
				      .bytes = bytes };

	return cm_step(connection, CM_INPUT_READY, &details);
}

int cm_delay(struct cm_connection *connection, uint8_t service_timeout, const void *private_data,
	     uint8_t bytes, uint64_t now_ns)
{
	struct cm_details details = { .now_ns = now_ns, .private_data = private_data,
				      .bytes = bytes, .service_timeout = service_timeout };

	return cm_step(connection, CM_INPUT_DELAY, &details);
}

int cm_reject(struct cm_connection *connection, uint16_t reason, const void *info,
	      uint8_t info_bytes, const void *private_data, uint8_t bytes, uint64_t now_ns)
{
	struct cm_details details = { .now_ns = now_ns, .private_data = private_data,
				      .bytes = bytes, .reason = reason, .info = info,
				      .info_bytes = info_bytes };

	return cm_step(connection, CM_INPUT_REJECT, &details);
}

int cm_establish(struct cm_connection *connection, uint64_t now_ns)
{
	struct cm_details details = { .now_ns = now_ns };

	return cm_step(connection, CM_INPUT_ESTABLISH, &details);
}

int cm_disconnect(struct cm_connection *connection, const void *private_data, uint8_t bytes,
		  uint64_t now_ns)
{
	struct cm_details details = { .now_ns = now_ns, .private_data = private_data,
				      .bytes = bytes };

	return cm_step(connection, CM_INPUT_LEAVE, &details);
}

int cm_sidr_answer(struct cm_connection *connection, uint8_t status, uint32_t qpn, uint32_t qkey,
		   const void *private_data, uint8_t bytes, uint64_t now_ns)
{
	struct cm_details details = { .now_ns = now_ns, .private_data = private_data,
				      .bytes = bytes, .status = status, .qpn = qpn, .qkey = qkey };

	return cm_step(connection, CM_INPUT_ANSWER, &details);
}

void cm_peer_died(struct cm_connection *connection, uint64_t now_ns)
{
	struct cm_details details = { .now_ns = now_ns };

	cm_step(connection, CM_INPUT_DIED, &details);
}

void cm_abandon(struct cm_connection *connection, uint64_t now_ns)
{
	struct cm_details details = { .now_ns = now_ns, .reason = CM_REJECT_CONSUMER_DEFINED,
				      .status = CM_SIDR_REJECTED };

	connection->owner = NULL;
	connection->taken = true;
	connection->abandoned = true;
	cm_step(connection, CM_INPUT_ABANDON, &details);
}

/* ---- the end of the process ---- */

struct all_leaving {
	uint64_t now_ns;
	unsigned unanswered;
};

static void connection_leave(void *context, struct cm_connection *connection)
{
	struct all_leaving *leaving = context;

	if (connection->state == CM_STATE_ESTABLISHED)
		cm_disconnect(connection, NULL, 0, leaving->now_ns);
	if (connection->state != CM_STATE_DREQ_SENT)
		return;
	leaving->unanswered++;
	if (!connection->hurried)
		cm_retry_hurry(connection, leaving->now_ns);
	connection->hurried = true;
}

unsigned cm_leave(struct cm_protocol *protocol, uint64_t now_ns)
{
	struct all_leaving leaving = { .now_ns = now_ns };

	cm_for_each(protocol, connection_leave, &leaving);
	return leaving.unanswered;
}
