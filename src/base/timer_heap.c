/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Binary min-heap of timers. slot[0] has the earliest deadline; each timer holds its position, so
 * that re-arming and disarming cost one walk up or down and no search.
 */
#include "base/timer_heap.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

void timer_init(struct timer *timer)
{
	timer->deadline_ns = TIME_NEVER;
	timer->position = 0;
}

int timer_heap_reserve(struct timer_heap *heap, size_t capacity)
{
	struct timer **slot;

	if (capacity <= heap->capacity)
		return 0;
	if (capacity > SIZE_MAX / 2 / sizeof(*slot))
		return ENOMEM;
	/* Doubling, so that adding QPs one by one does not copy the array each time. */
	if (capacity < 2 * heap->capacity)
		capacity = 2 * heap->capacity;
	slot = reallocarray(heap->slot, capacity, sizeof(*slot));
	if (!slot)
		return ENOMEM;
	heap->slot = slot;
	heap->capacity = capacity;
	return 0;
}

void timer_heap_free(struct timer_heap *heap)
{
	free(heap->slot);
	*heap = (struct timer_heap){ 0 };
}

static void timer_heap_place(struct timer_heap *heap, size_t position, struct timer *timer)
{
	heap->slot[position] = timer;
	timer->position = position;
}

/* Put @timer into the hole at @position, or higher up where its deadline belongs. */
static void sift_up(struct timer_heap *heap, size_t position, struct timer *timer)
{
	while (position > 0) {
		size_t parent = (position - 1) / 2;

		if (heap->slot[parent]->deadline_ns <= timer->deadline_ns)
			break;
		timer_heap_place(heap, position, heap->slot[parent]);
		position = parent;
	}
	timer_heap_place(heap, position, timer);
}

/* The same downwards. */
static void sift_down(struct timer_heap *heap, size_t position, struct timer *timer)
{
	for (;;) {
		size_t child = 2 * position + 1;

		if (child >= heap->count)
			break;
		if (child + 1 < heap->count &&
		    heap->slot[child + 1]->deadline_ns < heap->slot[child]->deadline_ns)
			child++;
		if (timer->deadline_ns <= heap->slot[child]->deadline_ns)
			break;
		timer_heap_place(heap, position, heap->slot[child]);
		position = child;
	}
	timer_heap_place(heap, position, timer);
}

static void timer_heap_take_out(struct timer_heap *heap, struct timer *timer)
{
	size_t hole = timer->position;
	struct timer *last = heap->slot[--heap->count];

	timer->deadline_ns = TIME_NEVER;
	if (last == timer)
		return;
	if (hole > 0 && last->deadline_ns < heap->slot[(hole - 1) / 2]->deadline_ns)
		sift_up(heap, hole, last);
	else
		sift_down(heap, hole, last);
}

void timer_set(struct timer_heap *heap, struct timer *timer, uint64_t deadline_ns)
{
	uint64_t before = timer->deadline_ns;

	if (deadline_ns == before)
		return;
	assert(before == TIME_NEVER || heap->slot[timer->position] == timer);
	if (deadline_ns == TIME_NEVER) {
		timer_heap_take_out(heap, timer);
		return;
	}
	timer->deadline_ns = deadline_ns;
	if (before == TIME_NEVER) {
		assert(heap->count < heap->capacity);
		sift_up(heap, heap->count++, timer);
	} else if (deadline_ns < before) {
		sift_up(heap, timer->position, timer);
	} else {
		sift_down(heap, timer->position, timer);
	}
}

uint64_t timer_heap_next(const struct timer_heap *heap)
{
	return heap->count ? heap->slot[0]->deadline_ns : TIME_NEVER;
}

struct timer *timer_heap_expire(struct timer_heap *heap, uint64_t now_ns)
{
	struct timer *timer;

	if (!heap->count || heap->slot[0]->deadline_ns > now_ns)
		return NULL;
	timer = heap->slot[0];
	timer_heap_take_out(heap, timer);
	return timer;
}
