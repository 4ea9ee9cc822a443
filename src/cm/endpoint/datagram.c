/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Datagram endpoints: a service ID is resolved to a QP number and a Q_Key (SIDR, IBTA 12.11). There
 * is no connection: the side that asked receives ESTABLISHED, the other side nothing after its
 * accept.
 */
#include <errno.h>
#include <string.h>

#include "cm/endpoint/internal.h"
#include "platform/clock.h"

/* ---- the Q_Key of the QP: the first one set remains ---- */

uint32_t qkey_default(struct endpoint *endpoint)
{
	if (!endpoint->qkey)
		endpoint->qkey = endpoint->space == RDMA_PS_IPOIB ? QKEY_IPOIB : RDMA_UDP_QKEY;
	return endpoint->qkey;
}

static bool qkey_fits(const struct endpoint *endpoint, uint32_t qkey)
{
	return !endpoint->qkey || endpoint->qkey == qkey;
}

int qkey_set(struct endpoint *endpoint, uint32_t qkey)
{
	if (!qkey_fits(endpoint, qkey))
		return EINVAL;
	endpoint->qkey = qkey;
	return 0;
}

/* ---- the asking side ---- */

static int sidr_connect(struct endpoint *endpoint, const struct rdma_conn_param *parameters,
			const struct endpoint_ece *ece) REQUIRES(agent.lock)
{
	uint8_t data[sizeof(((struct cm_sidr_req *)0)->private_data)];
	size_t header = ip_cm_bytes(endpoint);
	struct cm_sidr request = {
		.service_id = address_service_id(&endpoint->destination, endpoint->space),
		.pkey = endpoint->path.pkey, .response_timeout = CM_RESPONSE_TIMEOUT,
		.max_retries = CM_MAX_RETRIES, .patience = CM_PATIENCE, .private_data = data,
	};

	(void)ece;
	if (explain_too_long("rdma_connect", parameters->private_data_len, sizeof(data) - header))
		return EINVAL;
	if (header)
		ip_cm_write(endpoint, data);
	if (parameters->private_data_len)
		memcpy(data + header, parameters->private_data, parameters->private_data_len);
	request.private_data_bytes = (uint8_t)(header + parameters->private_data_len);
	provider_describe_way(endpoint, &request.address);
	return cm_sidr(agent.protocol, &request, endpoint, clock_now_ns(), &endpoint->connection);
}

void datagram_reply(struct endpoint *endpoint, const struct cm_event *event)
{
	const struct cm_sidr_rep *rep = &event->message->sidr_rep;
	enum rdma_cm_event_type kind = RDMA_CM_EVENT_ESTABLISHED;
	struct queued_event *queued;
	int err = 0;
	bool failed = rep->status || !qkey_fits(endpoint, rep->qkey);

	if (!endpoint_take(endpoint, failed ? INPUT_SIDR_FAILED : INPUT_SIDR_REP))
		return;
	if (rep->status)
		kind = RDMA_CM_EVENT_UNREACHABLE;
	else if ((err = qkey_set(endpoint, rep->qkey)))
		kind = RDMA_CM_EVENT_ADDR_ERROR;
	queued = event_new(endpoint, kind, rep->private_data, sizeof(rep->private_data));
	if (!queued)
		return;
	queued->status = rep->status ? rep->status : -err;
	if (kind == RDMA_CM_EVENT_ESTABLISHED) {
		attributes_ah(endpoint, &queued->ud.ah_attr);
		queued->ud.qp_num = rep->qpn;
		queued->ud.qkey = rep->qkey;
	}
	event_post(queued);
}

/* ---- the asked side ---- */

void datagram_request(const struct cm_event *event)
{
	struct endpoint *listener = event->owner, *endpoint;
	const struct cm_sidr_req *req = &event->message->sidr_req;
	struct queued_event *queued;
	size_t header;

	if (listener->qp_type && listener->qp_type != IBV_QPT_UD) {
		cm_sidr_answer(event->connection, CM_SIDR_NO_QP, 0, 0, NULL, 0, clock_now_ns());
		return;
	}
	endpoint = request_endpoint(event, IBV_QPT_UD);
	if (!endpoint)
		return;
	endpoint_take(endpoint, INPUT_SIDR_REQ);
	if (endpoint->came_by)
		ib_request_take(endpoint, event->from, NULL);
	header = ip_cm_bytes(endpoint);
	queued = event_new(listener, RDMA_CM_EVENT_CONNECT_REQUEST, req->private_data + header,
			   sizeof(req->private_data) - header);
	if (!queued) {
		request_waits_no_more(listener);
		request_refuse(endpoint, CM_REJECT_NO_RESOURCES);
		return;
	}
	queued->endpoint = endpoint;
	queued->listener = listener;
	event_post(queued);
}

static int sidr_accept(struct endpoint *endpoint, const struct rdma_conn_param *parameters,
		       uint32_t qkey, const struct endpoint_ece *ece) REQUIRES(agent.lock)
{
	int err;

	(void)ece;
	if (explain_too_long("rdma_accept", parameters->private_data_len,
			     sizeof(((struct cm_sidr_rep *)0)->private_data)))
		return EINVAL;
	err = qkey ? qkey_set(endpoint, qkey) : 0;
	if (err)
		return err;
	return cm_sidr_answer(endpoint->connection, CM_SIDR_SUCCESS, endpoint->qp_num,
			      qkey_default(endpoint),
			      parameters->private_data, parameters->private_data_len,
			      clock_now_ns());
}

static int sidr_reject(struct endpoint *endpoint, const void *private_data, uint8_t bytes,
		       uint16_t reason)
	REQUIRES(agent.lock)
{
	(void)reason;
	if (explain_too_long("rdma_reject", bytes, sizeof(((struct cm_sidr_rep *)0)->private_data)))
		return EINVAL;
	return cm_sidr_answer(endpoint->connection, CM_SIDR_REJECTED, 0, 0, private_data, bytes,
			      clock_now_ns());
}

static void sidr_refuse(struct endpoint *endpoint, uint16_t reason) REQUIRES(agent.lock)
{
	(void)reason;
	cm_sidr_answer(endpoint->connection, CM_SIDR_REJECTED, 0, 0, NULL, 0, clock_now_ns());
}

/* No state in which there is an exchange allows the calls that are not here. */
const struct connection_provider provider_sidr = {
	.connects = ENDPOINT_CALL_ASK,
	.connect = sidr_connect,
	.accept = sidr_accept,
	.reject = sidr_reject,
	.refuse = sidr_refuse,
	.peer_died = provider_peer_died,
	.abandon = provider_abandon,
};
