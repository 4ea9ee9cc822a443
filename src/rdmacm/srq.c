/* SPDX-License-Identifier: BSD-2-Clause */
/* rdma_create_srq(3), rdma_create_srq_ex(3), rdma_destroy_srq(3). */
#include <string.h>

#include "rdmacm/rdmacm.h"

/* What an XRC SRQ needs besides. 0, or -1 and errno. */
static int complete_xrc(struct id *id, struct ibv_srq_init_attr_ex *attr)
{
	if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_XRCD) || !attr->xrcd) {
		attr->xrcd = cm_device_xrcd(id->device);
		if (!attr->xrcd)
			return -1;
	}
	if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_CQ) || !attr->cq) {
		if (!id->public.recv_cq && id_create_cqs(id, 0, attr->attr.max_wr))
			return -1;
		attr->cq = id->public.recv_cq;
	}
	attr->comp_mask |= IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
	return 0;
}

int rdma_create_srq_ex(struct rdma_cm_id *public, struct ibv_srq_init_attr_ex *attr)
{
	CALL();
	struct id *id = to_id(public);

	if (!id || !attr || !(attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE))
		return refuse(EINVAL, "rdma_create_srq: no %s",
			      !id ? "id (null pointer)" : !attr ? "attributes (null pointer)" :
			      "IBV_SRQ_INIT_ATTR_TYPE in comp_mask");
	if (!id->device || public->srq)
		return refuse(EINVAL, "rdma_create_srq: the id %s", public->srq ?
			      "has an SRQ already" : "is not bound to a device: call "
			      "rdma_resolve_addr or rdma_bind_addr first");
	if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_PD) || !attr->pd) {
		attr->pd = public->pd;
		attr->comp_mask |= IBV_SRQ_INIT_ATTR_PD;
	}
	if (attr->srq_type == IBV_SRQT_XRC && complete_xrc(id, attr))
		return -1;
	public->srq = ibv_create_srq_ex(public->verbs, attr);
	if (!public->srq) {
		int err = errno;

		if (!public->qp)
			id_destroy_cqs(id);
		return result(err);
	}
	return 0;
}

int rdma_create_srq(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	CALL();
	struct ibv_srq_init_attr_ex extended = { 0 };
	int rc;

	if (!id || !attr)
		return refuse(EINVAL, "rdma_create_srq: no %s (null pointer)",
			      id ? "attributes" : "id");
	memcpy(&extended, attr, sizeof(*attr));
	extended.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD;
	extended.srq_type = id->qp_type == IBV_QPT_XRC_RECV ? IBV_SRQT_XRC : IBV_SRQT_BASIC;
	extended.pd = pd;
	rc = rdma_create_srq_ex(id, &extended);
	memcpy(attr, &extended, sizeof(*attr));
	return rc;
}

void rdma_destroy_srq(struct rdma_cm_id *id)
{
	CALL();

	if (!id || !id->srq)
		return;
	ibv_destroy_srq(id->srq);
	id->srq = NULL;
	if (!id->qp)
		id_destroy_cqs(to_id(id));
}
