/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sources of work. Whoever has a descriptor, a deadline or chores for the threads that make progress
 * registers a source; the worker, and a thread that waits in its place, know no others.
 *
 *	woken	a descriptor is readable: noted by the thread that woke, the worker or an application's
 *	turn	work of the worker alone, without locks: a descriptor is readable, a deadline has come,
 *		or it is due
 *
 * All are registered before the worker runs, and stay as long as it does. Descriptors come and go.
 */
#ifndef VERBATIM_PLATFORM_SOURCE_H
#define VERBATIM_PLATFORM_SOURCE_H

#include <stdbool.h>
#include <stdint.h>

#define SOURCES_MAX 24u		/* a bit of the waiter each (platform/wait.h) */

struct source;
struct waiter;

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
	struct source *row[SOURCES_MAX];
	unsigned count;
	uint32_t anyones;	/* tags of those without turn() */
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

#endif
