/* SPDX-License-Identifier: BSD-2-Clause */
/* Completion channels: events, and waiting for them, which makes progress. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/call.h"
#include "base/log.h"
#include "device/internal.h"
#include "platform/clock.h"

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

	if (context_is_dead(context, "ibv_create_comp_channel"))
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

	if (context_is_dead(context, "ibv_destroy_comp_channel"))
		return EIO;
	lock_acquire(&context->hca->objects);
	users = channel->ibv.refcnt;
	if (!users)
		list_remove(&channel->node);
	lock_release(&context->hca->objects);
	if (users) {
		explain_refused("ibv_destroy_comp_channel", EBUSY,
				"ibv_destroy_comp_channel: %d CQs use the channel: destroy them "
				"first", users);
		return EBUSY;
	}
	event_queue_put(&channel->queue);
	return 0;
}

#define PATIENCE_NS 1000000000u

/*
 * The first CQ of the channel that no event can come from; NULL: events may come. @count: of all
 * its CQs.
 */
static const char *channel_objection(struct comp_channel *channel, uint32_t *number, unsigned *count)
{
	struct hca_context *context = channel->owner;
	const char *objection = NULL;
	bool waits = false;
	struct list *node;

	*count = 0;
	lock_acquire(&context->hca->objects);
	list_for_each(node, &context->cqs) {
		struct cq *cq = list_entry(node, struct cq, node);

		if (cq->channel != channel)
			continue;
		++*count;
		if (cq_is_armed(cq) && cq_is_empty(cq))
			waits = true;
		else if (!objection) {
			*number = cq->number;
			objection = cq_is_armed(cq) ? "has completions that came before "
					"ibv_req_notify_cq: call ibv_poll_cq after it, before waiting" :
				    "asks for no event: call ibv_req_notify_cq, then "
				    "ibv_poll_cq, before waiting";
		}
	}
	lock_release(&context->hca->objects);
	return waits ? NULL : objection;
}

/*
 * A wait for an event that cannot come, or has come and gone: for an event that may come, nothing
 * is said.
 */
static void channel_explain_wait(struct comp_channel *channel)
{
	unsigned count;
	uint32_t number = 0;
	const char *objection = channel_objection(channel, &number, &count);
	struct explain_object of = OF_NOTHING;
	char words[IDLE_WORDS];

	if (!count)
		explain("ibv_get_cq_event has waited for a second, but no CQ uses the channel: "
				"give it to ibv_create_cq");
	else if (objection)
		explain_of(OF(CQ, number),
			"ibv_get_cq_event has waited for a second, but cq %u %s",
			number, objection);
	else if (channel_cannot_complete(channel, words, &of))
		explain_of(of, "ibv_get_cq_event has waited for a second, and no completion can come: %s",
			   words);
}

/*
 * ETIMEDOUT: nothing came until then. Where handlers are not put off, poll() would not restart as
 * read() does.
 */
static int channel_wait_until(int fd, uint64_t until_ns)
{
	struct pollfd readable = { .fd = fd, .events = POLLIN };
	uint64_t now_ns = clock_now_ns();
	int flags = fcntl(fd, F_GETFL);

	if (!call_guarded || flags < 0 || flags & O_NONBLOCK)
		return 0;
	return call_poll(&readable, 1,
			until_ns > now_ns ? (int)((until_ns - now_ns) / 1000000) + 1 : 0) ? 0 : ETIMEDOUT;
}

/* Under the queue's lock: whoever destroys the CQ then knows that it has to wait for an acknowledgement. */
static void channel_count_got(struct list *node, void *unused)
{
	list_entry(node, struct cq, comp_event.node)->comp_events_got++;
}

int hca_get_cq_event(struct comp_channel *channel, struct cq **got)
{
	const struct hca_context *context = channel->owner;
	uint64_t patience_ns = explaining() ? clock_now_ns() + PATIENCE_NS : TIME_NEVER;

	/* A child of fork() would take the count of the parent's event. */
	if (context_is_dead(context, "ibv_get_cq_event"))
		return EIO;
	for (;;) {
		struct list *node;
		int err = wait_progress(&context->hca->engine, &channel->queue, patience_ns);

		if (!err && patience_ns != TIME_NEVER)
			err = channel_wait_until(channel->ibv.fd, patience_ns);
		if (err == ETIMEDOUT) {
			channel_explain_wait(channel);
			patience_ns = TIME_NEVER;
			continue;
		}
		if (!err)
			err = event_fd_wait(channel->ibv.fd);
		if (err == ERESTART)
			continue;
		if (err)
			return err;
		node = event_queue_take_with(&channel->queue, channel_count_got, NULL);
		if (node) {
			*got = container_of(node, struct cq, comp_event.node);
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
