/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Calls on a connection: listen, connect, accept, reject, disconnect. The state (state.def) says
 * whether they are allowed, the endpoint's provider does what they say.
 */
#include <errno.h>

#include "cm/endpoint/internal.h"
#include "platform/clock.h"

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
		endpoint_move(endpoint, ENDPOINT_CALL_LISTEN);
	agent_unlock();
	if (err)
		return err;
	err = gsi_serve(agent.gsi, endpoint->claim);
	if (!err)
		return 0;
	agent_lock();
	cm_listener_free(endpoint->listener, clock_now_ns());
	endpoint->listener = NULL;
	endpoint_take(endpoint, INPUT_UNSERVED);
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

static const struct rdma_conn_param no_parameters;

int endpoint_connect(struct endpoint *endpoint, const struct rdma_conn_param *parameters,
		     const struct endpoint_ece *ece)
{
	const struct connection_provider *provider = provider_of(endpoint);
	int err;

	if (!parameters)
		parameters = &no_parameters;
	if (!endpoint_is_ours(endpoint))
		return ENODEV;
	agent_lock();
	err = endpoint_allowed(endpoint, provider->connects);
	if (!err) {
		endpoint->qp_num = parameters->qp_num;
		endpoint->srq = parameters->srq;
		err = provider->connect(endpoint, parameters, ece);
	}
	if (!err)
		endpoint_move(endpoint, provider->connects);
	agent_unlock();
	return err;
}

/* ---- accept, reject, establish, disconnect ---- */

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
		err = provider_of(endpoint)->accept(endpoint, parameters, qkey, ece);
	}
	if (!err) {
		endpoint_move(endpoint, ENDPOINT_CALL_ACCEPT);
		endpoint->unaccepted = false;
	}
	agent_unlock();
	if (!err && provider_of(endpoint)->is_watched)
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
	if (!err)
		err = provider_of(endpoint)->reject(endpoint, private_data, bytes, reason);
	if (!err)
		endpoint_move(endpoint, ENDPOINT_CALL_REJECT);
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
		err = provider_of(endpoint)->establish(endpoint);
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
		err = provider_of(endpoint)->notify(endpoint, event);
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
		/* Refused: the peer was faster, and DISCONNECTED is on its way. */
		if (!provider_of(endpoint)->disconnect(endpoint))
			endpoint_move(endpoint, ENDPOINT_CALL_DISCONNECT);
	}
	agent_unlock();
	return err;
}
