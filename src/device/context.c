/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Opening and closing a device. What a closed context has left stays as long as another one of its file (file.c)
 * is open.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/log.h"
#include "device/internal.h"
#include "device/need.h"
#include "net/net.h"

static void free_queue(struct event_queue *queue)
{
	close(queue->fd);
	lock_destroy(&queue->lock);
	free(queue);
}

/* Of no file yet. */
static int context_new(const char *device_name, struct hca_context **made)
{
	struct hca_context *context = calloc(1, sizeof(*context));
	int err;

	if (!context)
		return ENOMEM;
	list_init(&context->node);
	list_init(&context->file_node);
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
	list_init(&context->wqs);
	list_init(&context->rwq_tables);
	list_init(&context->flows);
	list_init(&context->counters);
	list_init(&context->comp_counters);
	err = ENOMEM;
	context->async = malloc(sizeof(*context->async));
	if (!context->async)
		goto free_context;
	err = EMFILE;
	context->async_fd = event_fd_open();
	if (context->async_fd < 0)
		goto free_async;
	event_queue_init(context->async, context->async_fd, free_queue);
	err = hca_get(&context->hca);
	if (err)
		goto close_async;
	err = net_get_ports(&context->hca->net, device_name, context->ports, &context->port_count);
	if (err)
		goto put_hca;
	context->port = context->ports[0];
	roce_v1_follow(context->hca);
	*made = context;
	return 0;
put_hca:
	hca_put(context->hca);
close_async:
	event_queue_put(context->async);
	goto free_context;
free_async:
	free(context->async);
free_context:
	free(context);
	return err;
}

static void context_release(struct hca_context *context)
{
	struct hca *hca = context->hca;

	for (unsigned i = 0; i < context->port_count; i++)
		net_put_port(&hca->net, context->ports[i]);
	roce_v1_follow(hca);
	async_drop(context->async);
	event_queue_put(context->async);
	hca_put(hca);
	free(context);
}

/* It is open from now on. */
static void context_enter(struct hca_context *context, struct context_file *file, int command_fd)
{
	context->file = file;
	context->command_fd = command_fd;
	atomic_fetch_add(&file->open, 1);
	lock_acquire(&context->hca->objects);
	list_add_tail(&context->hca->contexts, &context->node);
	list_add_tail(&file->contexts, &context->file_node);
	lock_release(&context->hca->objects);
}

/* A device was opened, or not: limits that are too small for it, and for the peers to come. */
static void explain_limits(int err)
{
	struct rlimit files, space;

	if (!explaining())
		return;
	if (!getrlimit(RLIMIT_NOFILE, &files) && (err == EMFILE || files.rlim_cur < NEED_DESCRIPTORS))
		explain_refused("ibv_open_device", err ? err : EMFILE,
				      "ibv_open_device: a process needs %u descriptors and one "
				      "more for each peer of this "
				      "host, beside its own; the limit is %llu: ulimit -n 1024 "
				      "(RLIMIT_NOFILE)",
				      NEED_DESCRIPTORS, (unsigned long long)files.rlim_cur);
	if (err == ENOMEM && !getrlimit(RLIMIT_AS, &space) && space.rlim_cur != RLIM_INFINITY)
		explain_refused("ibv_open_device", err, "ibv_open_device: a process needs "
				"%u MiB of address space beside its own; the limit is %llu MiB: ulimit -v "
				      "unlimited (RLIMIT_AS)",
				      NEED_ADDRESS_MIB, (unsigned long long)(space.rlim_cur >> 20));
}

int hca_open(const char *device_name, struct hca_context **opened)
{
	struct hca_context *context;
	struct context_file *file;
	int err, fd;

	err = context_new(device_name, &context);
	explain_limits(err);
	if (err)
		return err;
	err = context_file_open(&file, &fd);
	if (err) {
		context_release(context);
		return err;
	}
	context_enter(context, file, fd);
	*opened = context;
	return 0;
}

int hca_import_device(struct hca_context *of, int command_fd, struct hca_context **opened)
{
	struct hca_context *context;
	int err;

	if (context_is_dead(of, "ibv_import_device"))
		return EIO;
	err = context_new(of->port->name, &context);
	if (err)
		return err;
	context_enter(context, of->file, command_fd);
	*opened = context;
	return 0;
}

/* A fork()ed child closes its copies of the descriptors and leaves the rest alone. */
bool hca_close(struct hca_context *context)
{
	struct context_file *file = context->file;
	bool abandoned = context->abandoned, last;
	struct list *node;

	close(context->command_fd);
	if (abandoned) {
		close(context->async_fd);
	} else {
		lock_acquire(&context->hca->objects);
		context->closed = true;
		lock_release(&context->hca->objects);
	}
	last = atomic_fetch_sub(&file->open, 1) == 1;	/* another thread may end all, from here on */
	if (!last || abandoned)
		return last;
	file_explain_left(file, context->hca);
	file_destroy_objects(file);
	while ((node = list_pop(&file->contexts))) {
		context = list_entry(node, struct hca_context, file_node);
		lock_acquire(&context->hca->objects);
		list_remove(&context->node);
		lock_release(&context->hca->objects);
		context_release(context);
	}
	free(file);
	return true;
}
