/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Event queues (completion channels, asynchronous events of a context), and struct effects: wake-ups
 * that are due after the locks are dropped.
 *
 * A queue's fd is an eventfd in semaphore mode: its count is the number of events waiting. An
 * event is put in the queue under the locks. The fd is raised after unlocking: effects_apply(), or
 * progress_unlock() for events noted under engine->progress (engine/deferred.c). Each event raises it
 * once more, so that edge-triggered epoll tells of each.
 *
 *	count of the fd + raises to come + reads whose event is still to be taken == events + surplus
 *
 * An event that is withdrawn with its object adds one to the surplus. engine/deferred.c brings that
 * back to 0: by reading the fd, or by leaving out a raise. So the fd is readable only while an event
 * waits.
 */
#ifndef VERBATIM_OBJECT_EVENT_H
#define VERBATIM_OBJECT_EVENT_H

#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdint.h>

#include "base/list.h"
#include "base/lock.h"

struct event_queue {
	struct lock lock;
	/* struct comp_event or struct async_event */
	struct list events GUARDED_BY_MEMBER(lock);
	_Atomic unsigned surplus;	/* changes under the lock */
	int fd;				/* -1 in tests and the simulator */
	/*
	 * The owner's and one per pending wake-up. The last one to go (acq_rel in
	 * event_queue_put()) sees all earlier uses, and releases it.
	 */
	_Atomic uint32_t references;
	void (*release)(struct event_queue *queue);	/* called at 0 references */
	/* Under the engine's progress lock: how often it is to be raised then; 0: it is not in that list. */
	unsigned deferred_times;
	struct event_queue *next_deferred;
};

void event_queue_init(struct event_queue *queue, int fd, void (*release)(struct event_queue *));
void event_queue_get(struct event_queue *queue);
void event_queue_put(struct event_queue *queue);

struct comp_channel {
	struct ibv_comp_channel ibv;	/* first */
	struct event_queue queue;
	struct list node;
	void *owner;			/* hca_context */
};

/* A completion event: embedded in its CQ, so that none is ever allocated. */
struct comp_event {
	struct list node;		/* in the channel's queue, or alone */
};

/*
 * An asynchronous event. QPs, CQs and SRQs embed those they can raise (one of each kind is pending
 * at a time); port and device events are allocated when raised and freed when got.
 */
struct async_event {
	struct list node;
	struct ibv_async_event ibv;
	_Atomic uint32_t held;		/* got and not acknowledged */
	bool allocated;
};

/* Wake-ups due after unlocking. Bounded: the caller applies them before it can fill. */
#define EFFECTS_MAX 64
#define EFFECTS_PER_CALL 8	/* at most this many are added by one transport or object call */

struct effects {
	unsigned count;
	struct cq_poll *poll;		/* completions of that CQ may be given at once (object/cq.h); NULL: none */
	struct event_queue *wake[EFFECTS_MAX];	/* raise by 1 each; holds a reference */
};

static inline void effects_init(struct effects *effects)
{
	effects->count = 0;
	effects->poll = NULL;
}

static inline bool effects_full(const struct effects *effects)
{
	return effects->count > EFFECTS_MAX - EFFECTS_PER_CALL;
}

/*
 * Queue @node (unless it is queued already) and note that the fd has to be raised. A zeroed node
 * counts as one that is in no list. False: @effects is full and the event was not queued; only an
 * application that takes and re-arms faster than one call completes can cause that.
 */
bool event_queue_add(struct event_queue *queue, struct list *node, struct effects *effects);
bool event_queue_pending(struct event_queue *queue);
/* Take an event out (after the fd was read once); NULL if it was removed meanwhile. */
struct list *event_queue_take(struct event_queue *queue);
/* The same, and @taken (may be NULL) is called under the queue's lock: the event's object is still there. */
struct list *event_queue_take_with(struct event_queue *queue, void (*taken)(struct list *node, void *argument),
				   void *argument);
/* Remove @node if it is queued; returns whether it was: one more is in the surplus, then. */
bool event_queue_cancel(struct event_queue *queue, struct list *node);
/* Up to @most of the surplus are no longer; returns how many. */
unsigned event_queue_settle(struct event_queue *queue, unsigned most);

#endif
