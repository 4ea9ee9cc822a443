/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests to a listener: each becomes a new endpoint, which waits in the listener's channel as a
 * CONNECT_REQUEST. One that cannot work is rejected. An endpoint that the application has not seen is
 * freed when its peer gives up.
 *
 * The backlog counts requests whose event nobody has got yet, as Linux's does. What is beyond it is
 * dropped at first, so that the peer repeats it; when the application has not got an event for half a
 * second it is rejected. SIDR requests are refused at once.
 */
#include <errno.h>
#include <string.h>

#include "base/ip_addr.h"
#include "cm/endpoint/internal.h"
#include "platform/clock.h"

void request_waits_no_more(struct endpoint *listener)
{
	listener->room++;
	listener->full_ns = 0;
}

static void request_beyond_backlog(struct endpoint *listener, const struct cm_event *event)
	REQUIRES(agent.lock)
{
	uint64_t now_ns = clock_now_ns();
	bool datagram = event->kind == CM_EVENT_SIDR_REQ;

	*event->drop = gsi_drop(agent.gsi, DROP_CM_BACKLOG);
	if (!listener->full_ns)
		listener->full_ns = now_ns;
	if (!datagram && now_ns - listener->full_ns < CM_BACKLOG_PATIENCE_NS)
		return;
	explain_backlog(listener);
	if (datagram)
		cm_sidr_answer(event->connection, CM_SIDR_REJECTED, 0, 0, NULL, 0, now_ns);
	else
		cm_reject(event->connection, CM_REJECT_CONSUMER_DEFINED, NULL, 0, NULL, 0, now_ns);
}

struct endpoint *request_endpoint(const struct cm_event *event, uint8_t qp_type)
{
	struct endpoint *listener = event->owner, *endpoint;

	/* Dropped: the peer retransmits. */
	if (listener->channel->closed)
		return NULL;
	if (listener->room <= 0) {
		request_beyond_backlog(listener, event);
		return NULL;
	}
	endpoint = endpoint_new(listener->space, qp_type, listener->user);
	if (!endpoint)
		return NULL;
	if (!ip_cm_read(listener, event->message, event->from, endpoint)) {
		endpoint->connection = event->connection;
		cm_set_owner(event->connection, endpoint);
		request_refuse(endpoint, CM_REJECT_UNSUPPORTED);
		return NULL;
	}
	listener->room--;
	endpoint->offered = endpoint->unaccepted = true;
	endpoint->connection = event->connection;
	endpoint->tos = listener->tos;
	endpoint->tos_set = listener->tos_set;
	endpoint->afonly = listener->afonly;
	endpoint->came_by = event->from->ib.port;
	memcpy(endpoint->path.remote, event->from->remote, 16);
	endpoint->path.link = event->from->link;
	cm_set_owner(event->connection, endpoint);
	return endpoint;
}

/* The type of QP that answers a peer of this transport; false: a listener of another type. */
static bool answering_type(const struct endpoint *listener, enum cm_transport transport,
			   uint8_t *qp_type)
{
	switch (transport) {
	case CM_TRANSPORT_RC:
		*qp_type = IBV_QPT_RC;
		break;
	case CM_TRANSPORT_UC:
		*qp_type = IBV_QPT_UC;
		break;
	case CM_TRANSPORT_XRC:
		*qp_type = IBV_QPT_XRC_RECV;
		return !listener->qp_type || listener->qp_type == IBV_QPT_XRC_RECV ||
		       listener->qp_type == IBV_QPT_XRC_SEND;
	default:
		return false;
	}
	return !listener->qp_type || listener->qp_type == *qp_type;
}

static void request_queue(struct endpoint *listener, struct endpoint *endpoint,
			  const struct cm_message *message) REQUIRES(agent.lock)
{
	const struct cm_req *req = &message->req;
	size_t header = ip_cm_bytes(endpoint);
	struct queued_event *event = event_new(listener, RDMA_CM_EVENT_CONNECT_REQUEST,
					       req->private_data + header,
					       sizeof(req->private_data) - header);

	if (!event) {
		request_waits_no_more(listener);
		request_refuse(endpoint, CM_REJECT_NO_RESOURCES);
		return;
	}
	event->endpoint = endpoint;
	event->listener = listener;
	event->connection = (struct rdma_conn_param){
		.responder_resources = req->initiator_depth,
		.initiator_depth = req->responder_resources,
		.flow_control = req->flow_control, .retry_count = req->retry_count,
		.rnr_retry_count = req->rnr_retry_count, .srq = req->srq,
		.qp_num = req->local_qpn,
	};
	event->ece_vendor_id = req->vendor_id;
	event->ece_options = message->attribute_modifier;
	event_post(event);
}

void connection_request(const struct cm_event *event)
{
	struct endpoint *listener = event->owner, *endpoint;
	const struct cm_req *req = &event->message->req;
	struct endpoint_path *path;
	uint8_t qp_type = IBV_QPT_RC;
	bool fits = answering_type(listener, cm_req_transport(req), &qp_type);

	if (!fits) {
		cm_reject(event->connection, CM_REJECT_INVALID_TRANSPORT, NULL, 0, NULL, 0,
			  clock_now_ns());
		return;
	}
	if (event->from->link == ROUTE_IB && !ib_request_is_of_member(event))
		return;
	endpoint = request_endpoint(event, qp_type);
	if (!endpoint)
		return;
	endpoint_take(endpoint, INPUT_REQ);
	path = &endpoint->path;
	memcpy(path->dgid.raw, req->local_gid, 16);
	path->flow_label = req->flow_label;
	path->pkey = req->pkey;
	path->mtu = req->path_mtu;
	path->rate = req->packet_rate;
	path->hop_limit = req->hop_limit;
	path->traffic_class = endpoint->tos_set ? endpoint->tos : req->traffic_class;
	path->service_level = req->service_level;
	path->lifetime = req->local_ack_timeout ? req->local_ack_timeout - 1 : 0;
	endpoint->terms = (struct endpoint_terms){
		.remote_qpn = req->local_qpn, .remote_psn = req->starting_psn,
		.responder_resources = req->initiator_depth,
		.initiator_depth = req->responder_resources,
		.retry_count = req->retry_count, .rnr_retry_count = req->rnr_retry_count,
		.ack_timeout = req->local_ack_timeout,
	};
	if (endpoint->came_by)
		ib_request_take(endpoint, event->from, req);
	request_queue(listener, endpoint, event->message);
}

void request_refuse(struct endpoint *endpoint, uint16_t reason)
{
	if (endpoint->connection)
		provider_of(endpoint)->refuse(endpoint, reason);
	endpoint_free(endpoint);
}

/*
 * Which device it came to: by the GID that the peer wants to talk to, which it took from the
 * address that it resolved; asked for when the application takes the event, because interfaces are
 * not to be looked at by the thread that makes progress.
 */
int request_find_port(struct endpoint *endpoint)
{
	const uint8_t *address = endpoint->source.bytes;
	uint64_t now_ns = clock_now_ns();
	struct net_gid port;
	bool local;
	int err = 0;

	agent_lock();
	endpoint_set_port(endpoint, bound_port_recent(endpoint->path.link, address, now_ns));
	agent_unlock();
	if (!endpoint->port) {
		err = net_find_gid_of(gsi_net(agent.gsi), endpoint->path.link, address,
				      endpoint->source.scope, &port);
		if (err)
			return err;
		agent_lock();
		endpoint_set_port(endpoint, bound_port_get(&port, endpoint->path.link, address, now_ns));
		agent_unlock();
		if (!endpoint->port)
			return ENOMEM;
	}
	if (endpoint->port->gid.ib_port != endpoint->came_by)
		return EINVAL;		/* an address of another port than it came by */
	local = !endpoint->came_by &&
		(!memcmp(endpoint->path.remote, endpoint->port->gid.address, 16) ||
		 address_is_here(endpoint->path.remote, endpoint->source.scope));
	if (!local && !endpoint->came_by && ip_addr_is_localhost(address))
		return EINVAL;		/* another host says that it is for this one alone */
	agent_lock();
	endpoint->peer_local = local;
	if (endpoint->qp_type == IBV_QPT_UD && endpoint->came_by) {
		endpoint->path.mtu = (uint8_t)endpoint->port->gid.active_mtu;
	} else if (endpoint->qp_type == IBV_QPT_UD) {
		memcpy(endpoint->path.dgid.raw, endpoint->destination.bytes, 16);
		path_fill(endpoint);
	} else if (endpoint->path.mtu > (uint8_t)endpoint->port->gid.active_mtu) {
		err = EMSGSIZE;
	}
	agent_unlock();
	return err;
}
