/* SPDX-License-Identifier: BSD-2-Clause */
/* Event queues that are raised after the locks have been dropped, and fds of events that are withdrawn. */
#include "base/inline.h"
#include "engine/engine.h"
#include "engine/wake.h"

/*
 * Reads of the fd what is in the surplus. What is not there to be read is still to be raised, or was read by a
 * thread that will find no event: those settle it. Where the kernel has no read that never blocks, one spurious
 * wake-up is left.
 */
static void event_settle(struct event_queue *queue)
{
	/* S2: pairs with S1. */
	while (atomic_load(&queue->surplus) && !event_fd_take_now(queue->fd))
		if (!event_queue_settle(queue, 1))
			event_fd_raise(queue->fd);	/* another thread was faster: this one was an event's */
}

static void event_raise(struct event_queue *queue, unsigned times)
{
	if (atomic_load_explicit(&queue->surplus, memory_order_relaxed))
		times -= event_queue_settle(queue, times);
	while (times--)
		event_fd_raise(queue->fd);
	event_settle(queue);	/* withdrawn since, by one who found nothing to read */
}

void event_withdraw(struct event_queue *queue, struct list *node)
{
	if (event_queue_cancel(queue, node))
		event_settle(queue);
}

void effects_apply(struct effects *effects)
{
	unsigned i;

	for (i = 0; i < effects->count; i++) {
		event_raise(effects->wake[i], 1);
		event_queue_put(effects->wake[i]);
	}
	effects->count = 0;
}

void effects_defer(void *owner, struct effects *effects)
{
	struct deferred_list *list = &((struct engine *)owner)->deferred;
	unsigned i;

	for (i = 0; i < effects->count; i++) {
		struct event_queue *queue = effects->wake[i];

		if (queue->deferred_times++) {
			event_queue_put(queue);		/* the first one's reference will do */
			continue;
		}
		queue->next_deferred = NULL;
		if (list->first)
			list->last->next_deferred = queue;
		else
			list->first = queue;
		list->last = queue;
	}
	effects->count = 0;
}

/* A queue that is to be raised so often. */
struct deferred {
	struct event_queue *queue;
	unsigned times;
};

/* More than there is room for here are taken when the first have been raised. */
static APART void unlock_raising(struct engine *engine) RELEASES(engine->progress)
{
	struct deferred deferred[ENGINE_DEFERRED_MAX];
	unsigned count;
	bool more;
	unsigned i;

	for (;;) {
		count = 0;
		while (engine->deferred.first && count < ENGINE_DEFERRED_MAX) {
			struct event_queue *queue = engine->deferred.first;

			engine->deferred.first = queue->next_deferred;
			deferred[count++] = (struct deferred){ queue, queue->deferred_times };
			queue->deferred_times = 0;
		}
		more = engine->deferred.first;
		lock_release(&engine->progress);
		for (i = 0; i < count; i++) {
			event_raise(deferred[i].queue, deferred[i].times);
			event_queue_put(deferred[i].queue);
		}
		if (!more)
			break;
		lock_acquire(&engine->progress);
	}
}

void progress_unlock(struct engine *engine)
{
	if (engine->deferred.first)
		unlock_raising(engine);
	else
		lock_release(&engine->progress);
	engine_after_unlock(engine);
}
