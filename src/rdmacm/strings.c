/* SPDX-License-Identifier: BSD-2-Clause */
/* rdma_event_str(3): the names of events, as they are in the header. */
#include "rdmacm/newer.h"

static const char *const names[] = {
#define EVENT(number, name) [number] = #name,
#include "cm/endpoint/event.def"
#undef EVENT
};

const char *rdma_event_str(enum rdma_cm_event_type event)
{
	unsigned number = event;

	return number < sizeof(names) / sizeof(names[0]) ? names[number] : "UNKNOWN EVENT";
}
