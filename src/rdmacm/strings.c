/* SPDX-License-Identifier: BSD-2-Clause */
/* rdma_event_str(3): the names of events, as they are in the header. */
#include <rdma/rdma_cma.h>

#define NAME(event) [event] = #event

static const char *const names[] = {
	NAME(RDMA_CM_EVENT_ADDR_RESOLVED),
	NAME(RDMA_CM_EVENT_ADDR_ERROR),
	NAME(RDMA_CM_EVENT_ROUTE_RESOLVED),
	NAME(RDMA_CM_EVENT_ROUTE_ERROR),
	NAME(RDMA_CM_EVENT_CONNECT_REQUEST),
	NAME(RDMA_CM_EVENT_CONNECT_RESPONSE),
	NAME(RDMA_CM_EVENT_CONNECT_ERROR),
	NAME(RDMA_CM_EVENT_UNREACHABLE),
	NAME(RDMA_CM_EVENT_REJECTED),
	NAME(RDMA_CM_EVENT_ESTABLISHED),
	NAME(RDMA_CM_EVENT_DISCONNECTED),
	NAME(RDMA_CM_EVENT_DEVICE_REMOVAL),
	NAME(RDMA_CM_EVENT_MULTICAST_JOIN),
	NAME(RDMA_CM_EVENT_MULTICAST_ERROR),
	NAME(RDMA_CM_EVENT_ADDR_CHANGE),
	NAME(RDMA_CM_EVENT_TIMEWAIT_EXIT),
};

const char *rdma_event_str(enum rdma_cm_event_type event)
{
	unsigned number = event;

	return number < sizeof(names) / sizeof(names[0]) ? names[number] : "UNKNOWN EVENT";
}
