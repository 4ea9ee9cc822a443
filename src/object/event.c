/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Event queues. The order that makes a wake-up impossible to lose: the node is in the queue before
 * its wake-up is noted, so a thread that the fd wakes finds it. The opposite, a count of the fd
 * without a node, happens after a cancel: event_queue_take() then returns NULL.
 */
#include "object/event.h"

#include <assert.h>

/* Objects come zeroed from calloc: a node that was never in a list has no neighbours. */
static bool event_is_queued(const struct list *node)
{
	return node->next && !list_empty(node);
}

void event_queue_init(struct event_queue *queue, int fd, void (*release)(struct event_queue *))
{
	lock_init(&queue->lock);
	list_init(&queue->events);
	queue->fd = fd;
	atomic_store_explicit(&queue->references, 1, memory_order_relaxed);
	queue->release = release;
	queue->deferred_times = 0;
}

void event_queue_get(struct event_queue *queue)
{
	atomic_fetch_add_explicit(&queue->references, 1, memory_order_relaxed);
}

void event_queue_put(struct event_queue *queue)
{
	uint32_t before = atomic_fetch_sub_explicit(&queue->references, 1, memory_order_acq_rel);

	assert(before > 0);
	if (before == 1 && queue->release)
		queue->release(queue);
}

bool event_queue_add(struct event_queue *queue, struct list *node, struct effects *effects)
{
	bool queued, room = effects->count < EFFECTS_MAX;

	lock_acquire(&queue->lock);
	queued = event_is_queued(node);
	if (!queued && room)
		list_add_tail(&queue->events, node);
	lock_release(&queue->lock);
	if (queued || !room)
		return queued;
	event_queue_get(queue);
	effects->wake[effects->count++] = queue;
	return true;
}

struct list *event_queue_take(struct event_queue *queue)
{
	struct list *node;

	lock_acquire(&queue->lock);
	node = list_pop(&queue->events);
	lock_release(&queue->lock);
	return node;
}

bool event_queue_cancel(struct event_queue *queue, struct list *node)
{
	bool queued;

	lock_acquire(&queue->lock);
	queued = event_is_queued(node);
	if (queued)
		list_remove(node);
	lock_release(&queue->lock);
	return queued;
}

bool event_queue_pending(struct event_queue *queue)
{
	bool pending;

	lock_acquire(&queue->lock);
	pending = !list_empty(&queue->events);
	lock_release(&queue->lock);
	return pending;
}
