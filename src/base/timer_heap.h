/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Timers: a binary heap of intrusive nodes by deadline. No clock of its own. The owner of the
 * heap serialises access. Capacity grows by timer_heap_reserve(), called where allocation is
 * allowed (one place per QP), so that arming never allocates.
 */
#ifndef VERBATIM_BASE_TIMER_HEAP_H
#define VERBATIM_BASE_TIMER_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TIME_NEVER UINT64_MAX	/* a deadline that does not come */

struct timer {
	uint64_t deadline_ns;	/* TIME_NEVER: not armed */
	size_t position;	/* in the heap, meaningful while armed */
};

struct timer_heap {
	struct timer **slot;
	size_t count, capacity;
};

void timer_init(struct timer *timer);
int timer_heap_reserve(struct timer_heap *heap, size_t capacity);	/* 0 or ENOMEM */
void timer_heap_free(struct timer_heap *heap);

/* Arm, re-arm, or (TIME_NEVER) disarm. */
void timer_set(struct timer_heap *heap, struct timer *timer, uint64_t deadline_ns);
static inline bool timer_armed(const struct timer *timer)
{
	return timer->deadline_ns != TIME_NEVER;
}

/* Earliest deadline, or TIME_NEVER. */
uint64_t timer_heap_next(const struct timer_heap *heap);
/* Takes out and returns a timer whose deadline is at or before @now; NULL if there is none. */
struct timer *timer_heap_expire(struct timer_heap *heap, uint64_t now_ns);

#endif
