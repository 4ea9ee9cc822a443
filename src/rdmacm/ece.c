/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rdma_set_local_ece(3), rdma_get_remote_ece(3): for programs that connect QPs of their own. The
 * options travel in messages of the CM and are not interpreted here.
 */
#include "rdmacm/rdmacm.h"

static int ece_check(const struct rdma_cm_id *id, const struct ibv_ece *ece, const char *call)
{
	if (!id || !ece)
		return refuse(EINVAL, "%s: no %s (null pointer)", call, id ? "ece" : "id");
	if (id->qp)
		return refuse(EINVAL, "%s: the id has a QP: the library negotiates its ECE", call);
	return 0;
}

int rdma_set_local_ece(struct rdma_cm_id *id, struct ibv_ece *ece)
{
	static const char call[] = "rdma_set_local_ece";

	if (ece_check(id, ece, call))
		return -1;
	if (!ece->vendor_id || ece->comp_mask)
		return refuse(EINVAL, "%s: vendor_id %u must not be 0, comp_mask 0x%x must be 0",
			      call, ece->vendor_id, ece->comp_mask);
	to_id(id)->local_ece.vendor_id = ece->vendor_id;
	to_id(id)->local_ece.options = ece->options;
	return 0;
}

int rdma_get_remote_ece(struct rdma_cm_id *id, struct ibv_ece *ece)
{
	if (ece_check(id, ece, "rdma_get_remote_ece"))
		return -1;
	ece->vendor_id = to_id(id)->remote_ece.vendor_id;
	ece->options = to_id(id)->remote_ece.options;
	ece->comp_mask = 0;
	return 0;
}
