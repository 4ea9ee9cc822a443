/* SPDX-License-Identifier: BSD-2-Clause */
/* rdma_create_event_channel(3), rdma_destroy_event_channel(3). */
#include <errno.h>

#include "rdmacm/rdmacm.h"

struct rdma_event_channel *rdma_create_event_channel(void)
{
	CALL();
	struct cm_channel *channel;
	int err = cm_channel_open(&channel);

	if (err) {
		errno = err;
		return NULL;
	}
	return cm_channel_public(channel);
}

void rdma_destroy_event_channel(struct rdma_event_channel *channel)
{
	CALL();

	if (channel)
		cm_channel_close(cm_channel_of(channel));
}
