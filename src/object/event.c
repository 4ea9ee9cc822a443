/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Event queues. The order that makes a wake-up impossible to lose: the node is in the queue before
 * its wake-up is noted, so a thread that the fd wakes finds it. The opposite, a count of the fd
 * without a node, is the surplus: event_queue_take() then returns NULL.
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
	atomic_store_explicit(&queue->surplus, 0, memory_order_relaxed);
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

static unsigned settle_locked(struct event_queue *queue, unsigned most) REQUIRES(queue->lock)
{
	unsigned surplus = atomic_load_explicit(&queue->surplus, memory_order_relaxed);

	if (most > surplus)
		most = surplus;
	atomic_store_explicit(&queue->surplus, surplus - most, memory_order_relaxed);
	return most;
}

struct list *event_queue_take_with(struct event_queue *queue, void (*taken)(struct list *node, void *argument),
				   void *argument)
{
	struct list *node;

	lock_acquire(&queue->lock);
	node = list_pop(&queue->events);
	if (!node)
		settle_locked(queue, 1);	/* the read was of an event that is withdrawn */
	else if (taken)
		taken(node, argument);
	lock_release(&queue->lock);
	return node;
}

struct list *event_queue_take(struct event_queue *queue)
{
	return event_queue_take_with(queue, NULL, NULL);
}

bool event_queue_cancel(struct event_queue *queue, struct list *node)
{
	bool queued;

	lock_acquire(&queue->lock);
	queued = event_is_queued(node);
	if (queued) {
		list_remove(node);
		/* S1: pairs with S2 in event_raise() (engine/deferred.c): one of both sees the other's count. */
		atomic_fetch_add(&queue->surplus, 1);
	}
	lock_release(&queue->lock);
	return queued;
}

unsigned event_queue_settle(struct event_queue *queue, unsigned most)
{
	unsigned settled;

	lock_acquire(&queue->lock);
	settled = settle_locked(queue, most);
	lock_release(&queue->lock);
	return settled;
}

bool event_queue_pending(struct event_queue *queue)
{
	bool pending;

	lock_acquire(&queue->lock);
	pending = !list_empty(&queue->events);
	lock_release(&queue->lock);
	return pending;
}
