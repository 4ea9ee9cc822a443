/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The provider of connections over InfiniBand's connection manager (cm/protocol): what calls say in
 * its messages, and its events, translated into those of the application (requests: request.c). The
 * roles in messages are the sender's, those in events the receiver's: its initiator depth is our
 * responder resources.
 */
#include <errno.h>
#include <string.h>

#include "cm/endpoint/internal.h"
#include "platform/clock.h"
#include "wire/qpn.h"

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

/* ---- servers on this host ---- */

/*
 * Which process has answered a REQ: the next one for the same service goes to it directly. It hands on what is
 * another's by now.
 */
#define SERVERS_KNOWN	16u

static struct known_server {
	uint64_t service_id;
	uint8_t address[16];
	uint16_t slot;
} known_servers[SERVERS_KNOWN];		/* by the service ID's last bits; under agent.lock */

static struct known_server *server_place(const struct endpoint *endpoint, struct known_server *wanted)
{
	*wanted = (struct known_server){ address_service_id(&endpoint->destination, endpoint->space) };
	memcpy(wanted->address, endpoint->path.remote, 16);
	return &known_servers[wanted->service_id % SERVERS_KNOWN];
}

/* ---- calls ---- */

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

void provider_describe_way(const struct endpoint *endpoint, struct mad_address *way)
{
	if (endpoint_is_ib(endpoint)) {
		ib_describe_way(endpoint, way);
		return;
	}
	*way = (struct mad_address){
		.link = endpoint->peer_local ? 0 : endpoint->port->gid.link,
		.interface = endpoint->port->gid.interface_index,
		.flow_label = endpoint->path.flow_label,
		.traffic_class = endpoint->path.traffic_class,
		.hop_limit = endpoint->path.hop_limit,
	};
	memcpy(way->local, endpoint->port->gid.address, 16);
	memcpy(way->remote, endpoint->path.remote, 16);
}

static int cm_provider_connect(struct endpoint *endpoint, const struct rdma_conn_param *parameters,
			       const struct endpoint_ece *ece) REQUIRES(agent.lock)
{
	uint8_t data[sizeof(((struct cm_req *)0)->private_data)];
	const struct endpoint_path *path = &endpoint->path;
	size_t header = ip_cm_bytes(endpoint);
	struct known_server wanted, *server = server_place(endpoint, &wanted);
	struct cm_connect request;

	if (explain_too_long("rdma_connect", parameters->private_data_len, sizeof(data) - header))
		return EINVAL;
	request = (struct cm_connect){
		.service_id = wanted.service_id, .local_ca_guid = endpoint->port->gid.guid,
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
		.patience = CM_PATIENCE, .local_lid = path->slid, .remote_lid = path->dlid,
	};
	memcpy(request.local_gid, endpoint->port->gid.gid.raw, 16);
	memcpy(request.remote_gid, path->dgid.raw, 16);
	provider_describe_way(endpoint, &request.address);
	if (endpoint->peer_local && server->service_id == wanted.service_id &&
	    !memcmp(server->address, wanted.address, 16))
		request.address.slot = server->slot;
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

static int cm_provider_accept(struct endpoint *endpoint, const struct rdma_conn_param *parameters,
			      uint32_t qkey, const struct endpoint_ece *ece) REQUIRES(agent.lock)
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

	(void)qkey;
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
	return 0;
}

static int cm_provider_reject(struct endpoint *endpoint, const void *private_data, uint8_t bytes,
			      uint16_t reason)
	REQUIRES(agent.lock)
{
	if (explain_too_long("rdma_reject", bytes, sizeof(((struct cm_rej *)0)->private_data)))
		return EINVAL;
	return cm_reject(endpoint->connection,
			 reason ? reason : (uint16_t)CM_REJECT_CONSUMER_DEFINED, NULL, 0,
			 private_data, bytes, clock_now_ns());
}

static void cm_provider_refuse(struct endpoint *endpoint, uint16_t reason) REQUIRES(agent.lock)
{
	uint8_t mtu = (uint8_t)(endpoint->port ? endpoint->port->gid.active_mtu : 0);
	bool say = reason == CM_REJECT_INVALID_MTU;	/* what would do (12.6.7.2) */

	cm_reject(endpoint->connection, reason, say ? &mtu : NULL, say, NULL, 0, clock_now_ns());
}

static int cm_provider_establish(struct endpoint *endpoint) REQUIRES(agent.lock)
{
	return cm_ready_to_use(endpoint->connection, NULL, 0, clock_now_ns());
}

static int cm_provider_notify(struct endpoint *endpoint, enum ibv_event_type event)
	REQUIRES(agent.lock)
{
	if (event != IBV_EVENT_COMM_EST)
		return EINVAL;
	return cm_establish(endpoint->connection, clock_now_ns());
}

static int cm_provider_disconnect(struct endpoint *endpoint) REQUIRES(agent.lock)
{
	return cm_disconnect(endpoint->connection, NULL, 0, clock_now_ns());
}

void provider_peer_died(struct endpoint *endpoint, uint64_t now_ns)
{
	cm_peer_died(endpoint->connection, now_ns);
}

void provider_abandon(struct endpoint *endpoint)
{
	cm_abandon(endpoint->connection, clock_now_ns());
	endpoint->connection = NULL;
}

const struct connection_provider provider_cm = {
	.connects = ENDPOINT_CALL_CONNECT,
	.is_watched = true,
	.connect = cm_provider_connect,
	.accept = cm_provider_accept,
	.reject = cm_provider_reject,
	.refuse = cm_provider_refuse,
	.establish = cm_provider_establish,
	.notify = cm_provider_notify,
	.disconnect = cm_provider_disconnect,
	.peer_died = provider_peer_died,
	.abandon = provider_abandon,
};

/* ---- what becomes of connections ---- */

static void connect_reply(struct endpoint *endpoint, const struct cm_message *message)
	REQUIRES(agent.lock)
{
	const struct cm_rep *rep = &message->rep;
	struct endpoint_terms *terms = &endpoint->terms;
	struct known_server known, *server;
	struct queued_event *event;

	if (endpoint->peer_local) {
		server = server_place(endpoint, &known);
		known.slot = (uint16_t)comm_id_slot(rep->local_comm_id);
		*server = known;
	}
	terms->remote_qpn = cm_rep_qpn(rep, transport_of(endpoint->qp_type));
	terms->remote_psn = rep->starting_psn;
	terms->responder_resources = rep->initiator_depth;
	terms->initiator_depth = rep->responder_resources;
	terms->rnr_retry_count = rep->rnr_retry_count;
	terms->ack_timeout = ack_timeout(rep->target_ack_delay, endpoint->path.lifetime);
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

static const struct {
	enum cm_event_kind kind;
	enum endpoint_input input;
} inputs[] = {
	{ CM_EVENT_REP, INPUT_REP }, { CM_EVENT_RTU, INPUT_RTU }, { CM_EVENT_REJ, INPUT_REJ },
	{ CM_EVENT_TIMEOUT, INPUT_TIMEOUT }, { CM_EVENT_UNREACHABLE, INPUT_TIMEOUT },
	{ CM_EVENT_DREQ, INPUT_DREQ }, { CM_EVENT_DREP, INPUT_DREQ },
	{ CM_EVENT_TIMEWAIT_EXIT, INPUT_TIMEWAIT_EXIT },
};

/* The event of the application for the state that was entered by @event; see state.def. */
static void connect_report(struct endpoint *endpoint, const struct cm_event *event)
	REQUIRES(agent.lock)
{
	struct queued_event *rejected;
	const struct cm_rej *rej;

	switch ((enum endpoint_state)endpoint->state) {
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
		if (event->kind != CM_EVENT_REJ) {
			event_post_status(endpoint, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT);
			break;
		}
		if (endpoint->muted)
			break;
		rej = &event->message->rej;
		rejected = event_new(endpoint, RDMA_CM_EVENT_REJECTED, rej->private_data,
				     sizeof(rej->private_data));
		if (!rejected)
			break;
		rejected->status = rej->reason;
		event_post(rejected);
	}
}

void connection_event(void *host, const struct cm_event *event)
{
	struct endpoint *endpoint = event->owner;
	enum endpoint_input input = INPUT_COUNT;

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
	if (event->kind == CM_EVENT_SIDR_REP) {
		datagram_reply(endpoint, event);
		return;
	}
	for (unsigned i = 0; i < sizeof(inputs) / sizeof(inputs[0]); i++)
		if (inputs[i].kind == event->kind)
			input = inputs[i].input;
	if (!endpoint_take(endpoint, input))
		return;
	if (event->kind == CM_EVENT_REP)
		connect_reply(endpoint, event->message);
	else if (endpoint->request)
		event_withdraw_request(endpoint);
	else if (!endpoint->unaccepted)
		connect_report(endpoint, event);
}
