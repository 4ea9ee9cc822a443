/* SPDX-License-Identifier: BSD-2-Clause */
/* Completion channels: events, and waiting for them, which makes progress. */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/call.h"
#include "base/log.h"
#include "device/internal.h"

static void free_channel(struct event_queue *queue)
{
	struct comp_channel *channel = container_of(queue, struct comp_channel, queue);

	close(queue->fd);
	lock_destroy(&queue->lock);
	free(channel);
}

int hca_create_comp_channel(struct hca_context *context, struct comp_channel **created)
{
	struct comp_channel *channel;
	int fd;

	if (context_is_dead(context, "create_comp_channel"))
		return EIO;
	channel = calloc(1, sizeof(*channel));
	if (!channel)
		return ENOMEM;
	fd = event_fd_open();
	if (fd < 0) {
		free(channel);
		return errno;
	}
	event_queue_init(&channel->queue, fd, free_channel);
	channel->ibv.fd = fd;
	channel->owner = context;
	lock_acquire(&context->hca->objects);
	list_add_tail(&context->channels, &channel->node);
	lock_release(&context->hca->objects);
	*created = channel;
	return 0;
}

int hca_destroy_comp_channel(struct hca_context *context, struct comp_channel *channel)
{
	int users;

	if (context_is_dead(context, "destroy_comp_channel"))
		return EIO;
	lock_acquire(&context->hca->objects);
	users = channel->ibv.refcnt;
	if (!users)
		list_remove(&channel->node);
	lock_release(&context->hca->objects);
	if (users) {
		explain("destroy_comp_channel: %d CQs use the channel: destroy them first", users);
		return EBUSY;
	}
	event_queue_put(&channel->queue);
	return 0;
}

int hca_get_cq_event(struct comp_channel *channel, struct cq **got)
{
	const struct hca_context *context = channel->owner;

	for (;;) {
		struct list *node;
		int err = context->abandoned ? 0 : wait_progress(&context->hca->engine, &channel->queue);

		if (!err)
			err = event_fd_wait(channel->ibv.fd);
		if (err == ERESTART)
			continue;
		if (err)
			return err;
		node = event_queue_take(&channel->queue);
		if (node) {
			struct cq *cq = container_of(node, struct cq, comp_event.node);

			pthread_mutex_lock(&cq->ibv.mutex);
			cq->comp_events_got++;
			pthread_mutex_unlock(&cq->ibv.mutex);
			*got = cq;
			return 0;
		}
	}
}

void hca_ack_cq_events(struct cq *cq, unsigned count)
{
	pthread_mutex_lock(&cq->ibv.mutex);
	cq->ibv.comp_events_completed += count;
	pthread_cond_signal(&cq->ibv.cond);
	pthread_mutex_unlock(&cq->ibv.mutex);
}
