/* SPDX-License-Identifier: BSD-2-Clause */
/* rdma_set_option(3). */
#include "rdmacm/rdmacm.h"

int rdma_set_option(struct rdma_cm_id *id, int level, int optname, void *optval, size_t optlen)
{
	CALL();

	if (!id || (!optval && optlen))
		return refuse(EINVAL, "rdma_set_option: no %s (null pointer)",
			      id ? "value" : "id");
	return result(endpoint_set_option(to_id(id)->endpoint, level, optname, optval, optlen));
}
