/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Calls that rdma-core 60 added (RDMACM_1.4), for programs that were linked to it: names are resolved
 * by rdma_getaddrinfo(3), which blocks, and by nothing else. Our headers may be older than the calls.
 */
#include "rdmacm/rdmacm.h"

int rdma_resolve_addrinfo(struct rdma_cm_id *id, const char *node, const char *service,
			  const struct rdma_addrinfo *hints);
int rdma_query_addrinfo(struct rdma_cm_id *id, struct rdma_addrinfo **info);
int rdma_write_cm_event(struct rdma_cm_id *id, enum rdma_cm_event_type event, int status, uint64_t arg);

int rdma_resolve_addrinfo(struct rdma_cm_id *id, const char *node, const char *service,
			  const struct rdma_addrinfo *hints)
{
	return refuse(EOPNOTSUPP, "rdma_resolve_addrinfo: not supported: use rdma_getaddrinfo, "
		      "which waits for the answer");
}

int rdma_query_addrinfo(struct rdma_cm_id *id, struct rdma_addrinfo **info)
{
	return refuse(EOPNOTSUPP, "rdma_query_addrinfo: not supported: use rdma_getaddrinfo");
}

int rdma_write_cm_event(struct rdma_cm_id *id, enum rdma_cm_event_type event, int status, uint64_t arg)
{
	CALL();

	return refuse(EOPNOTSUPP, "rdma_write_cm_event: not supported: only the connection manager "
		      "raises events; to wake a thread that polls the channel, poll another "
		      "descriptor with it");
}
