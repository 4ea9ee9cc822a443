/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What ibv_modify_qp() wants for the next state of a connection's QP (rdma_init_qp_attr(3)): from
 * the path, and from what the two sides have agreed on so far.
 */
#include <errno.h>
#include <string.h>

#include "cm/endpoint/internal.h"

void attributes_ah(const struct endpoint *endpoint, struct ibv_ah_attr *attr)
{
	const struct endpoint_path *path = &endpoint->path;

	if (endpoint_is_ib(endpoint)) {
		ib_ah(endpoint, attr);
		return;
	}
	*attr = (struct ibv_ah_attr){
		.grh = { .dgid = path->dgid, .flow_label = path->flow_label,
			 .sgid_index = (uint8_t)endpoint->port->gid.gid_index,
			 .hop_limit = path->hop_limit, .traffic_class = path->traffic_class },
		.sl = path->service_level, .static_rate = path->rate, .is_global = 1,
		.port_num = endpoint->port->gid.port,
	};
}

/* Is there a request, so that its sides are known? */
static bool attributes_has_request(const struct endpoint *endpoint)
{
	return endpoint->state >= STATE_REQ_SENT && endpoint->state <= STATE_LEAVING &&
	       endpoint->connection;
}

static int to_init(const struct endpoint *endpoint, struct ibv_qp_attr *attr, int *mask)
	REQUIRES(agent.lock)
{
	uint16_t pkey_index = 0;
	int err = endpoint_is_ib(endpoint) ? ib_pkey_index(endpoint, &pkey_index) : 0;

	if (err)
		return err;
	attr->pkey_index = pkey_index;
	attr->port_num = endpoint->port->gid.port;
	*mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
	if (endpoint->qp_type == IBV_QPT_UD) {
		attr->qkey = endpoint->qkey;
		*mask |= IBV_QP_QKEY;
		return 0;
	}
	attr->qp_access_flags = 0;
	if (attributes_has_request(endpoint)) {
		attr->qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
		if (endpoint->terms.responder_resources)
			attr->qp_access_flags |= IBV_ACCESS_REMOTE_READ |
						 IBV_ACCESS_REMOTE_ATOMIC;
	}
	*mask |= IBV_QP_ACCESS_FLAGS;
	return 0;
}

static void attributes_to_rtr(const struct endpoint *endpoint, struct ibv_qp_attr *attr, int *mask)
	REQUIRES(agent.lock)
{
	const struct endpoint_terms *terms = &endpoint->terms;

	attributes_ah(endpoint, &attr->ah_attr);
	attr->ah_attr.static_rate = 0;
	attr->path_mtu = (enum ibv_mtu)endpoint->path.mtu;
	attr->dest_qp_num = terms->remote_qpn;
	attr->rq_psn = endpoint->starting_psn;
	*mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	if (endpoint->qp_type == IBV_QPT_RC || endpoint->qp_type == IBV_QPT_XRC_RECV) {
		attr->max_dest_rd_atomic = terms->responder_resources;
		attr->min_rnr_timer = 0;
		*mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	}
}

static void attributes_to_rts(const struct endpoint *endpoint, struct ibv_qp_attr *attr, int *mask)
{
	const struct endpoint_terms *terms = &endpoint->terms;
	uint8_t type = endpoint->qp_type;

	attr->sq_psn = terms->remote_psn;
	*mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
	if (type == IBV_QPT_RC || type == IBV_QPT_XRC_SEND) {
		attr->retry_cnt = terms->retry_count;
		attr->rnr_retry = terms->rnr_retry_count;
		attr->max_rd_atomic = terms->initiator_depth;
		*mask |= IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
	}
	if (type == IBV_QPT_RC || type == IBV_QPT_XRC_SEND || type == IBV_QPT_XRC_RECV) {
		attr->timeout = endpoint->ack_timeout_set ? endpoint->ack_timeout :
							    terms->ack_timeout;
		*mask |= IBV_QP_TIMEOUT;
	}
}

static int attributes_of(struct endpoint *endpoint, struct ibv_qp_attr *attr, int *mask)
	REQUIRES(agent.lock)
{
	bool knows_peer = attributes_has_request(endpoint) && endpoint->state != STATE_REQ_SENT;

	if (!endpoint->port)
		return EINVAL;
	if (attr->qp_state == IBV_QPS_INIT) {
		if (endpoint->qp_type == IBV_QPT_UD)
			qkey_default(endpoint);
		return to_init(endpoint, attr, mask);
	}
	if (attr->qp_state != IBV_QPS_RTR && attr->qp_state != IBV_QPS_RTS)
		return EINVAL;
	if (endpoint->qp_type == IBV_QPT_UD) {	/* the two ends do not know each other */
		*mask = IBV_QP_STATE;
		if (attr->qp_state == IBV_QPS_RTS) {
			attr->sq_psn = 0;
			*mask |= IBV_QP_SQ_PSN;
		}
		return 0;
	}
	if (!knows_peer)
		return EINVAL;
	if (attr->qp_state == IBV_QPS_RTR)
		attributes_to_rtr(endpoint, attr, mask);
	else
		attributes_to_rts(endpoint, attr, mask);
	return 0;
}

int endpoint_qp_attributes(struct endpoint *endpoint, struct ibv_qp_attr *attr, int *mask)
{
	int err;

	if (!endpoint_is_ours(endpoint))
		return ENODEV;
	agent_lock();
	channel_touch(endpoint);
	err = attributes_of(endpoint, attr, mask);
	agent_unlock();
	return err;
}
