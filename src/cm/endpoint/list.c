/* SPDX-License-Identifier: BSD-2-Clause */
/* The endpoints of this process as rows of a table, for statistics. */
#include <stdio.h>

#include "cm/endpoint/internal.h"

static const char *space_name(uint16_t space)
{
	switch (space) {
	case RDMA_PS_TCP:
		return "tcp";
	case RDMA_PS_UDP:
		return "udp";
	case RDMA_PS_IB:
		return "ib";
	case RDMA_PS_IPOIB:
		return "ipoib";
	default:
		return "unknown";
	}
}

/* Nothing changes: agent_unlock() has nothing to send. */
unsigned endpoint_list(uint64_t from, struct endpoint_row *rows, unsigned max)
{
	unsigned count = 0;
	struct list *node;

	lock_acquire(&agent.lock);
	if (agent.protocol)
		list_for_each(node, &agent.endpoints) {
			const struct endpoint *endpoint = list_entry(node, struct endpoint, node);
			struct endpoint_row *row = &rows[count];

			if (endpoint->number < from)
				continue;
			*row = (struct endpoint_row){ .number = endpoint->number, .qp_num = endpoint->qp_num,
						      .state = state_name(endpoint->state),
						      .space = space_name(endpoint->space) };
			if (endpoint->port)
				snprintf(row->device, sizeof(row->device), "%s", endpoint->port->gid.device);
			if (endpoint->source.family != AF_UNSPEC)
				address_write(&endpoint->source, &row->source);
			if (endpoint->destination.family != AF_UNSPEC)
				address_write(&endpoint->destination, &row->destination);
			if (++count == max)
				break;
		}
	lock_release(&agent.lock);
	return count;
}
