/* SPDX-License-Identifier: BSD-2-Clause */
/* rdma_create_event_channel(3), rdma_destroy_event_channel(3). */
#include <stdlib.h>

#include "rdmacm/rdmacm.h"

struct rdma_event_channel *rdma_create_event_channel(void)
{
	CALL();
	struct cm_event_channel *channel = calloc(1, sizeof(*channel));
	int err;

	if (!channel)
		return NULL;
	err = cm_channel_open(&channel->cm);
	if (err) {
		free(channel);
		errno = err;
		return NULL;
	}
	channel->public.fd = cm_channel_fd(channel->cm);
	return &channel->public;
}

void rdma_destroy_event_channel(struct rdma_event_channel *channel)
{
	CALL();

	if (!channel)
		return;
	cm_channel_close(to_channel(channel)->cm);
	free(to_channel(channel));
}
