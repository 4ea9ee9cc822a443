/* SPDX-License-Identifier: BSD-2-Clause */
/* What rdma-core 60 added to <rdma/rdma_cma.h>; ours may be compiled with an older header. */
#ifndef VERBATIM_RDMACM_NEWER_H
#define VERBATIM_RDMACM_NEWER_H

#include <rdma/rdma_cma.h>
#include <stdint.h>

int rdma_resolve_addrinfo(struct rdma_cm_id *id, const char *node, const char *service,
			  const struct rdma_addrinfo *hints);
int rdma_query_addrinfo(struct rdma_cm_id *id, struct rdma_addrinfo **info);
int rdma_write_cm_event(struct rdma_cm_id *id, enum rdma_cm_event_type event, int status, uint64_t arg);

/* Of enum rdma_cm_event_type. An event of the last kind has the argument first in its param. */
enum { NEWER_EVENT_ADDRINFO_RESOLVED = 16, NEWER_EVENT_ADDRINFO_ERROR = 17, NEWER_EVENT_USER = 18 };

/* Of rdma_addrinfo.ai_flags: who is to be asked. */
enum { NEWER_RAI_SA = 0x10, NEWER_RAI_DNS = 0x20 };

#endif
