/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * State transitions of an id's QP, with attributes from the connection manager: INIT at creation;
 * RTR and RTS when the peer is known (rdma_accept(), or CONNECT_RESPONSE); ERR at the end, which
 * flushes posted requests. A UD QP needs no peer and is in RTS at once.
 */
#include "rdmacm/rdmacm.h"

static int qp_state_move(struct id *id, struct ibv_qp *qp, struct ibv_qp_attr *attr,
			 enum ibv_qp_state state, int *mask)
{
	int err;

	attr->qp_state = state;
	err = endpoint_qp_attributes(id->endpoint, attr, mask);
	return err ? err : ibv_modify_qp(qp, attr, *mask);
}

int qp_to_init(struct id *id, struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = { 0 };
	int mask = 0;
	int err = qp_state_move(id, qp, &attr, IBV_QPS_INIT, &mask);

	if (err || !is_datagram(id))
		return err;
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTR };
	err = ibv_modify_qp(qp, &attr, IBV_QP_STATE);
	if (err)
		return err;
	attr.qp_state = IBV_QPS_RTS;
	attr.sq_psn = 0;
	return ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN);
}

/* @depth: of READs and atomics of the peer (RTR), or to it (RTS); RDMA_MAX_...: what the connection says. */
static int qp_state_advance(struct id *id, enum ibv_qp_state state, uint8_t depth)
{
	struct ibv_qp_attr attr = { .qp_state = state };
	int mask = 0;
	int err = endpoint_qp_attributes(id->endpoint, &attr, &mask);

	if (err)
		return err;
	if (state == IBV_QPS_RTR && depth != RDMA_MAX_RESP_RES)
		attr.max_dest_rd_atomic = depth;
	if (state == IBV_QPS_RTS && depth != RDMA_MAX_INIT_DEPTH)
		attr.max_rd_atomic = depth;
	return ibv_modify_qp(id->public.qp, &attr, mask);
}

int qp_to_rts(struct id *id, uint8_t responder_resources, uint8_t initiator_depth)
{
	struct ibv_qp_attr attr = { 0 };
	int mask = 0;
	int err;

	if (!id->public.qp)
		return 0;
	/* INIT once more: what the peer may do is known only now. */
	err = qp_state_move(id, id->public.qp, &attr, IBV_QPS_INIT, &mask);
	if (!err)
		err = qp_state_advance(id, IBV_QPS_RTR, responder_resources);
	return err ? err : qp_state_advance(id, IBV_QPS_RTS, initiator_depth);
}

int qp_to_error(struct id *id)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	return id->public.qp ? ibv_modify_qp(id->public.qp, &attr, IBV_QP_STATE) : 0;
}
