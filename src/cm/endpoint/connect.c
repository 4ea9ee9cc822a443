/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connections: listen, connect, accept, reject, disconnect; and events of the protocol, translated
 * into events of the application (requests: request.c). The roles in messages are the sender's,
 * those in events the receiver's: its initiator depth is our responder resources.
 */
#include <errno.h>
#include <string.h>

#include "cm/endpoint/internal.h"
#include "platform/clock.h"

static uint8_t at_most_7(uint8_t count)
{
	return count < 7 ? count : 7;
}

/*
 * How long a QP waits for an acknowledgement (12.7.34): twice the life of a packet and the time
 * that the other CA takes; sums of powers of two, rounded up to one.
 */
static uint8_t ack_timeout(uint8_t ack_delay, uint8_t lifetime)
{
	uint8_t trip = lifetime + 1, sum;

	if (trip >= ack_delay)
		sum = trip + (ack_delay >= trip - 1);
	else
		sum = ack_delay + (trip >= ack_delay - 1);
	return sum < 31 ? sum : 31;
}

/* ---- listen ---- */

static int start_listening(struct endpoint *endpoint, int backlog)
{
	static const uint8_t any[16];
	const struct endpoint_address *source = &endpoint->source;
	int err;

	endpoint->backlog = backlog > 0 && backlog < CM_BACKLOG_MAX ? backlog : CM_BACKLOG_MAX;
	endpoint->room = endpoint->backlog;
	agent_lock();
	err = cm_listen(agent.protocol, address_service_id(source, endpoint->space),
			address_is_any(source) ? any : source->bytes, ports_family(endpoint),
			endpoint, &endpoint->listener);
	if (!err)	/* requests can come as soon as they are handed on to us */
		endpoint->state = STATE_LISTENING;
	agent_unlock();
	if (err)
		return err;
	err = gsi_serve(agent.gsi, endpoint->claim);
	if (!err)
		return 0;
	agent_lock();
	cm_listener_free(endpoint->listener, clock_now_ns());
	endpoint->listener = NULL;
	endpoint->state = STATE_BOUND;
	agent_unlock();
	return err;
}

int endpoint_listen(struct endpoint *endpoint, int backlog)
{
	struct sockaddr_in any = { .sin_family = AF_INET };
	int err;

	if (endpoint->state == STATE_NEW) {
		err = endpoint_bind(endpoint, (struct sockaddr *)&any);
		if (err)
			return err;
	}
	err = endpoint_enter(endpoint, ENDPOINT_CALL_LISTEN);
	if (err)
		return err;
	err = ports_take_to_listen(endpoint);
	if (!err)
		err = start_listening(endpoint, backlog);
	explain_address("rdma_listen", &endpoint->source, err);
	agent_lock();
	endpoint->busy = false;
	agent_unlock();
	return err;
}

/* ---- connect ---- */

static enum cm_transport transport_of(uint8_t qp_type)
{
	switch (qp_type) {
	case IBV_QPT_UC:
		return CM_TRANSPORT_UC;
	case IBV_QPT_XRC_SEND:
	case IBV_QPT_XRC_RECV:
		return CM_TRANSPORT_XRC;
	default:
		return CM_TRANSPORT_RC;
	}
}

static void describe_way(const struct endpoint *endpoint, struct mad_address *way)
{
	*way = (struct mad_address){
		.interface = endpoint->port->gid.interface_index,
		.flow_label = endpoint->path.flow_label,
		.traffic_class = endpoint->path.traffic_class,
		.hop_limit = endpoint->path.hop_limit,
	};
	memcpy(way->local, endpoint->port->gid.address, 16);
	memcpy(way->remote, endpoint->path.remote, 16);
}

static void describe_request(const struct endpoint *endpoint,
			     const struct rdma_conn_param *parameters, struct cm_connect *request)
{
	const struct endpoint_path *path = &endpoint->path;

	*request = (struct cm_connect){
		.service_id = address_service_id(&endpoint->destination, endpoint->space),
		.local_ca_guid = endpoint->port->gid.guid,
		.local_qpn = endpoint->qp_num, .starting_psn = endpoint->starting_psn,
		.transport = transport_of(endpoint->qp_type),
		.responder_resources = parameters->responder_resources,
		.initiator_depth = parameters->initiator_depth,
		.retry_count = at_most_7(parameters->retry_count),
		.rnr_retry_count = at_most_7(parameters->rnr_retry_count),
		.flow_control = parameters->flow_control, .srq = endpoint->srq,
		.path_mtu = path->mtu, .packet_rate = path->rate,
		.local_ack_timeout = ack_timeout(CM_LOCAL_ACK_DELAY, path->lifetime),
		.service_level = path->service_level, .traffic_class = path->traffic_class,
		.hop_limit = path->hop_limit, .flow_label = path->flow_label, .pkey = path->pkey,
		.response_timeout = CM_RESPONSE_TIMEOUT, .max_retries = CM_MAX_RETRIES,
		.patience = CM_PATIENCE,
	};
	memcpy(request->local_gid, endpoint->port->gid.gid.raw, 16);
	memcpy(request->remote_gid, path->dgid.raw, 16);
	describe_way(endpoint, &request->address);
}

static int connect_send_request(struct endpoint *endpoint, const struct rdma_conn_param *parameters,
				const struct endpoint_ece *ece) REQUIRES(agent.lock)
{
	uint8_t data[sizeof(((struct cm_req *)0)->private_data)];
	size_t header = ip_cm_bytes(endpoint);
	struct cm_connect request;

	if (explain_too_long("rdma_connect", parameters->private_data_len, sizeof(data) - header))
		return EINVAL;
	describe_request(endpoint, parameters, &request);
	if (ece) {
		request.ece_vendor_id = ece->vendor_id;
		request.ece_options = ece->options;
	}
	if (header)
		ip_cm_write(endpoint, data);
	if (parameters->private_data_len)
		memcpy(data + header, parameters->private_data, parameters->private_data_len);
	request.private_data = data;
	request.private_data_bytes = (uint8_t)(header + parameters->private_data_len);
	endpoint->terms = (struct endpoint_terms){
		.responder_resources = request.responder_resources,
		.initiator_depth = request.initiator_depth,
		.retry_count = request.retry_count, .rnr_retry_count = request.rnr_retry_count,
		.ack_timeout = request.local_ack_timeout,
	};
	return cm_connect(agent.protocol, &request, endpoint, clock_now_ns(),
			  &endpoint->connection);
}

static const struct rdma_conn_param no_parameters;

int endpoint_connect(struct endpoint *endpoint, const struct rdma_conn_param *parameters,
		     const struct endpoint_ece *ece)
{
	int err;

	if (!parameters)
		parameters = &no_parameters;
	if (!endpoint_is_ours(endpoint))
		return ENODEV;
	agent_lock();
	err = endpoint_allowed(endpoint, ENDPOINT_CALL_CONNECT);
	if (!err) {
		endpoint->qp_num = parameters->qp_num;
		endpoint->srq = parameters->srq;
		err = endpoint->qp_type == IBV_QPT_UD
			      ? datagram_ask(endpoint, parameters)
			      : connect_send_request(endpoint, parameters, ece);
	}
	if (!err)
		endpoint->state =
			endpoint->qp_type == IBV_QPT_UD ? STATE_SIDR_SENT : STATE_REQ_SENT;
	agent_unlock();
	return err;
}

/* ---- accept, reject, establish, disconnect ---- */

static int send_reply(struct endpoint *endpoint, const struct rdma_conn_param *parameters,
		      const struct endpoint_ece *ece) REQUIRES(agent.lock)
{
	struct cm_accept reply = {
		.local_qpn = endpoint->qp_num, .starting_psn = endpoint->starting_psn,
		.local_ca_guid = endpoint->port->gid.guid,
		.responder_resources = parameters->responder_resources,
		.initiator_depth = parameters->initiator_depth,
		.rnr_retry_count = at_most_7(parameters->rnr_retry_count),
		.target_ack_delay = CM_LOCAL_ACK_DELAY,
		.flow_control = parameters->flow_control,
		.srq = endpoint->srq || endpoint->qp_type == IBV_QPT_XRC_RECV,
		.private_data = parameters->private_data,
		.private_data_bytes = parameters->private_data_len,
	};
	int err;

	if (explain_too_long("rdma_accept", parameters->private_data_len,
			     sizeof(((struct cm_rep *)0)->private_data)))
		return EINVAL;
	if (ece) {
		reply.ece_vendor_id = ece->vendor_id;
		reply.ece_options = ece->options;
	}
	err = cm_accept(endpoint->connection, &reply, clock_now_ns());
	if (err)
		return err;
	endpoint->terms.responder_resources = reply.responder_resources;
	endpoint->terms.initiator_depth = reply.initiator_depth;
	endpoint->state = STATE_ACCEPTED;
	endpoint->unaccepted = false;
	return 0;
}

int endpoint_accept(struct endpoint *endpoint, const struct rdma_conn_param *parameters,
		    uint32_t qkey, const struct endpoint_ece *ece)
{
	struct rdma_conn_param offered = { .qp_num = endpoint->qp_num };
	int err;

	if (!endpoint_is_ours(endpoint))
		return ENODEV;
	agent_lock();
	channel_touch(endpoint);
	offered.responder_resources = endpoint->terms.responder_resources;
	offered.initiator_depth = endpoint->terms.initiator_depth;
	if (!parameters)
		parameters = &offered;
	err = endpoint_allowed(endpoint, ENDPOINT_CALL_ACCEPT);
	if (!err) {
		endpoint->qp_num = parameters->qp_num;
		endpoint->srq = parameters->srq;
		err = endpoint->state == STATE_SIDR_RECEIVED
			      ? datagram_answer(endpoint, CM_SIDR_SUCCESS, qkey,
						parameters->private_data,
						parameters->private_data_len)
			      : send_reply(endpoint, parameters, ece);
	}
	agent_unlock();
	if (!err && endpoint->qp_type != IBV_QPT_UD)
		agent_watch(endpoint);
	return err;
}

int endpoint_reject(struct endpoint *endpoint, const void *private_data, uint8_t bytes,
		    uint16_t reason)
{
	int err;

	if (!endpoint_is_ours(endpoint))
		return ENODEV;
	agent_lock();
	channel_touch(endpoint);
	err = endpoint_allowed(endpoint, ENDPOINT_CALL_REJECT);
	if (!err && endpoint->state == STATE_SIDR_RECEIVED) {
		err = datagram_answer(endpoint, CM_SIDR_REJECTED, 0, private_data, bytes);
	} else if (!err) {
		err = explain_too_long("rdma_reject", bytes,
				       sizeof(((struct cm_rej *)0)->private_data));
		if (!err)
			err = cm_reject(endpoint->connection, reason ? reason :
					(uint16_t)CM_REJECT_CONSUMER_DEFINED, NULL, 0,
					private_data, bytes, clock_now_ns());
		if (!err)
			endpoint->state = STATE_FAILED;
	}
	agent_unlock();
	return err;
}

int endpoint_established(struct endpoint *endpoint)
{
	int err;

	if (!endpoint_is_ours(endpoint))
		return ENODEV;
	agent_lock();
	err = endpoint_allowed(endpoint, ENDPOINT_CALL_ESTABLISH);
	if (!err)
		err = cm_ready_to_use(endpoint->connection, NULL, 0, clock_now_ns());
	if (!err)
		endpoint_move(endpoint, ENDPOINT_CALL_ESTABLISH);
	agent_unlock();
	if (!err)
		agent_watch(endpoint);
	return err;
}

/* The event that the QP saw something before the RTU came: ESTABLISHED follows from the protocol. */
int endpoint_notify(struct endpoint *endpoint, enum ibv_event_type event)
{
	int err;

	if (!endpoint_is_ours(endpoint))
		return ENODEV;
	agent_lock();
	err = endpoint_allowed(endpoint, ENDPOINT_CALL_NOTIFY);
	if (!err)
		err = event == IBV_EVENT_COMM_EST ?
		      cm_establish(endpoint->connection, clock_now_ns()) : EINVAL;
	agent_unlock();
	return err;
}

int endpoint_disconnect(struct endpoint *endpoint)
{
	int err;

	if (!endpoint_is_ours(endpoint))
		return ENODEV;
	agent_lock();
	err = endpoint_allowed(endpoint, ENDPOINT_CALL_DISCONNECT);
	if (!err && state_after_call(endpoint->state, ENDPOINT_CALL_DISCONNECT) == STATE_LEAVING &&
	    endpoint->state != STATE_LEAVING) {
		err = cm_disconnect(endpoint->connection, NULL, 0, clock_now_ns());
		if (!err)
			endpoint->state = STATE_LEAVING;
		else
			err = 0;	/* the peer was faster: DISCONNECTED is on its way */
	}
	agent_unlock();
	return err;
}

/* ---- what becomes of connections ---- */

static void connect_reply(struct endpoint *endpoint, const struct cm_message *message)
	REQUIRES(agent.lock)
{
	const struct cm_rep *rep = &message->rep;
	struct endpoint_terms *terms = &endpoint->terms;
	struct queued_event *event;

	terms->remote_qpn = cm_rep_qpn(rep, transport_of(endpoint->qp_type));
	terms->remote_psn = rep->starting_psn;
	terms->responder_resources = rep->initiator_depth;
	terms->initiator_depth = rep->responder_resources;
	terms->rnr_retry_count = rep->rnr_retry_count;
	terms->ack_timeout = ack_timeout(rep->target_ack_delay, endpoint->path.lifetime);
	endpoint->state = STATE_REP_RECEIVED;
	event = event_new(endpoint, RDMA_CM_EVENT_CONNECT_RESPONSE, rep->private_data,
			  sizeof(rep->private_data));
	if (!event)
		return;
	event->connection = (struct rdma_conn_param){
		.responder_resources = rep->initiator_depth,
		.initiator_depth = rep->responder_resources,
		.flow_control = rep->flow_control, .rnr_retry_count = rep->rnr_retry_count,
		.srq = rep->srq, .qp_num = terms->remote_qpn,
	};
	event->ece_vendor_id = cm_rep_vendor_id(rep);
	event->ece_options = message->attribute_modifier;
	event_post(event);
}

static void connect_rejected(struct endpoint *endpoint, const struct cm_message *message)
	REQUIRES(agent.lock)
{
	const struct cm_rej *rej = &message->rej;
	struct queued_event *event = event_new(endpoint, RDMA_CM_EVENT_REJECTED,
					       rej->private_data, sizeof(rej->private_data));

	if (!event)
		return;
	event->status = rej->reason;
	event_post(event);
}

static const struct {
	enum cm_event_kind kind;
	enum endpoint_input input;
} inputs[] = {
	{ CM_EVENT_REP, INPUT_REP }, { CM_EVENT_RTU, INPUT_RTU }, { CM_EVENT_REJ, INPUT_REJ },
	{ CM_EVENT_TIMEOUT, INPUT_TIMEOUT }, { CM_EVENT_UNREACHABLE, INPUT_TIMEOUT },
	{ CM_EVENT_DREQ, INPUT_DREQ }, { CM_EVENT_DREP, INPUT_DREQ },
	{ CM_EVENT_TIMEWAIT_EXIT, INPUT_TIMEWAIT_EXIT }, { CM_EVENT_SIDR_REP, INPUT_SIDR_REP },
};

static enum endpoint_input connect_input(const struct cm_event *event)
{
	unsigned i;

	for (i = 0; i < sizeof(inputs) / sizeof(inputs[0]); i++)
		if (inputs[i].kind == event->kind)
			break;
	if (i == sizeof(inputs) / sizeof(inputs[0]))
		return INPUT_COUNT;
	if (inputs[i].input == INPUT_SIDR_REP && event->message->sidr_rep.status)
		return INPUT_SIDR_FAILED;
	return inputs[i].input;
}

/* The event of the application for entering @next by @event; see state.def. */
static void connect_report(struct endpoint *endpoint, enum endpoint_state next,
			   const struct cm_event *event) REQUIRES(agent.lock)
{
	switch (next) {
	case STATE_CONNECTED:
		event_post_status(endpoint, RDMA_CM_EVENT_ESTABLISHED, 0);
		break;
	case STATE_DISCONNECTED:
		if (endpoint->muted)
			break;
		event_post_status(endpoint, RDMA_CM_EVENT_DISCONNECTED, 0);
		break;
	case STATE_TIMEWAIT_OVER:
		event_post_status(endpoint, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
		break;
	default:
		if (event->kind == CM_EVENT_REJ && !endpoint->muted)
			connect_rejected(endpoint, event->message);
		else if (event->kind == CM_EVENT_REJ)
			break;
		else
			event_post_status(endpoint, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT);
	}
}

void connection_event(void *host, const struct cm_event *event)
{
	struct endpoint *endpoint = event->owner;
	enum endpoint_state next;

	if (event->kind == CM_EVENT_REQ) {
		connection_request(event);
		return;
	}
	if (event->kind == CM_EVENT_SIDR_REQ) {
		datagram_request(event);
		return;
	}
	if (!endpoint)
		return;
	next = state_after_input(endpoint->state, connect_input(event));
	if (next == STATE_IGNORE)
		return;
	if (next == STATE_REP_RECEIVED) {
		connect_reply(endpoint, event->message);
		return;
	}
	if (event->kind == CM_EVENT_SIDR_REP) {
		datagram_reply(endpoint, event);
		return;
	}
	endpoint->state = (uint8_t)next;
	if (endpoint->request)
		event_withdraw_request(endpoint);
	else if (!endpoint->unaccepted)
		connect_report(endpoint, next, event);
}
