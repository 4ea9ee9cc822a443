/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sources of work. Whoever has a descriptor, a deadline or chores for the threads that make progress
 * registers a source; the worker, and a thread that waits in its place, know no others.
 *
 *	woken	a descriptor is readable: noted by the thread that woke, the worker or an application's
 *	turn	work of the worker alone, without locks: a descriptor is readable, a deadline has come,
 *		or it is due
 *	receive	in a round of progress, by the one thread that makes it: in each (source_poll()), or when
 *		woken() says so (source_set_due())
 *
 * All are registered before the worker runs, and stay as long as it does. Descriptors come and go.
 */
#ifndef VERBATIM_PLATFORM_SOURCE_H
#define VERBATIM_PLATFORM_SOURCE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define SOURCES_MAX 24u		/* a bit of the waiter each (platform/wait.h) */

struct source;
struct waiter;
struct receiver;		/* the caller's, for receive() */

/* Each may be NULL. A source without turn() is served by any thread that makes progress. */
struct source_ops {
	const char *name;
	void (*woken)(struct source *source);
	void (*turn)(struct source *source, bool ready, uint64_t now_ns);
	/* Any thread: a turn is due now. turn() makes it false. */
	bool (*is_due)(struct source *source);
	/*
	 * Any thread: when a turn is due; UINT64_MAX: never. Who makes it earlier sees to it that
	 * the worker looks again (engine/wake.h).
	 */
	uint64_t (*asked_ns)(struct source *source);
	/* The same, asked by the worker only. */
	uint64_t (*deadline_ns)(struct source *source);
	/* With the lock of progress: take what has come, in the order of the sources. */
	void (*receive)(struct source *source, struct receiver *receiver);
	/* Any thread, before it sleeps: has something come of which no descriptor tells? */
	bool (*pending)(struct source *source);
	/* In a fork()ed child: close descriptors, touch nothing else. */
	void (*abandon)(struct source *source);
};

struct source {
	const struct source_ops *ops;
	void *owner;
	uint32_t tag;		/* of its descriptors in the waiter */
};

struct sources {
	struct waiter *waiter;
	struct source *row[SOURCES_MAX + 1];	/* from 1 on: by the bit of the tag */
	unsigned count;
	uint32_t anyones;	/* tags of those without turn() */
	uint32_t pending;	/* of those that have pending() */
	_Atomic uint32_t polled;	/* of those that receive in each round: set by any thread */
	_Atomic uint32_t due;	/* of those that receive in the next one: set by any thread */
};

/* @waiter: opened before the first source_watch(). */
void sources_init(struct sources *sources, struct waiter *waiter);
void source_register(struct sources *sources, struct source *source, const struct source_ops *ops,
		     void *owner);
/* @fd, level-triggered for reading, is one of its descriptors. 0 or errno. */
int source_watch(struct sources *sources, const struct source *source, int fd);
void source_unwatch(struct sources *sources, int fd);

/* @ready: what the waiter returned. */
void sources_woken(const struct sources *sources, uint32_t ready);
/* By the worker. */
void sources_turn(const struct sources *sources, uint32_t ready, uint64_t now_ns);
uint64_t sources_deadline(const struct sources *sources);
/* By any thread: is a turn due, and when is the next one that was asked for? */
bool sources_are_due(const struct sources *sources);
uint64_t sources_asked(const struct sources *sources);
void sources_abandon(const struct sources *sources);

/* @source receives in each round from now on, or not. Any thread; seen by the next round. */
void source_poll(struct sources *sources, const struct source *source, bool each);
static inline bool source_is_polled(const struct sources *sources, const struct source *source)
{
	return atomic_load_explicit(&sources->polled, memory_order_relaxed) & source->tag;
}
/* It receives in the next round. Any thread. */
void source_set_due(struct sources *sources, const struct source *source);
/* A round: those that receive in each, those that are due, and those with the tags @also. */
void sources_receive(struct sources *sources, uint32_t also, struct receiver *receiver);
bool sources_are_pending(const struct sources *sources);

#endif
