/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Opening and closing a device.
 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/log.h"
#include "device/internal.h"
#include "net/net.h"

static void free_queue(struct event_queue *queue)
{
	close(queue->fd);
	lock_destroy(&queue->lock);
	free(queue);
}

static int open_fds(struct hca_context *context)
{
	context->command_fd = event_fd_open();
	context->async_fd = event_fd_open();
	context->async = malloc(sizeof(*context->async));
	if (context->command_fd < 0 || context->async_fd < 0 || !context->async)
		return context->async ? EMFILE : ENOMEM;
	event_queue_init(context->async, context->async_fd, free_queue);
	return 0;
}

static void init_lists(struct hca_context *context)
{
	list_init(&context->node);
	list_init(&context->pds);
	list_init(&context->mrs);
	list_init(&context->mws);
	list_init(&context->dms);
	list_init(&context->ahs);
	list_init(&context->channels);
	list_init(&context->cqs);
	list_init(&context->srqs);
	list_init(&context->xrcds);
	list_init(&context->qps);
}

int hca_open(const char *device_name, struct hca_context **opened)
{
	struct hca_context *context = calloc(1, sizeof(*context));
	int err;

	if (!context)
		return ENOMEM;
	init_lists(context);
	err = open_fds(context);
	if (err)
		goto close_fds;
	err = hca_get(&context->hca);
	if (err)
		goto close_fds;
	err = net_get_port(&context->hca->net, device_name, &context->port);
	if (err)
		goto put_hca;
	lock_acquire(&context->hca->objects);
	list_add_tail(&context->hca->contexts, &context->node);
	lock_release(&context->hca->objects);
	*opened = context;
	return 0;
put_hca:
	hca_put(context->hca);
close_fds:
	if (context->command_fd >= 0)
		close(context->command_fd);
	if (context->async_fd >= 0)
		close(context->async_fd);
	free(context->async);
	free(context);
	return err;
}

/* A fork()ed child closes its copies of the descriptors and leaves the rest alone. */
static void close_in_child(struct hca_context *context)
{
	close(context->async_fd);
	close(context->command_fd);
}

void hca_close(struct hca_context *context)
{
	struct hca *hca = context->hca;

	if (context->abandoned) {
		close_in_child(context);
		return;
	}
	context_destroy_objects(context);
	lock_acquire(&hca->objects);
	list_remove(&context->node);
	lock_release(&hca->objects);
	net_put_port(&hca->net, context->port);
	async_drop(context->async);
	event_queue_put(context->async);
	close(context->command_fd);
	hca_put(hca);
	free(context);
}
