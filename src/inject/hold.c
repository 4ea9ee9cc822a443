/* SPDX-License-Identifier: BSD-2-Clause */
/* Packets that are held back (hold.h): a pool, and a heap for each direction. */
#include "inject/hold.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int hold_init(struct hold *hold)
{
	unsigned i;

	memset(hold, 0, sizeof(*hold));
	list_init(&hold->free);
	list_init(&hold->overtaken);
	hold->held = calloc(HOLD_PACKETS, sizeof(*hold->held));
	hold->bytes = malloc((size_t)HOLD_PACKETS * HOLD_BYTES);	/* touched as it is used */
	if (!hold->held || !hold->bytes || timer_heap_reserve(&hold->heap[0], HOLD_PACKETS) ||
	    timer_heap_reserve(&hold->heap[1], HOLD_PACKETS))
		return ENOMEM;
	for (i = HOLD_PACKETS; i-- > 0;) {
		timer_init(&hold->held[i].timer);
		list_add_tail(&hold->free, &hold->held[i].node);
	}
	return 0;
}

void hold_fini(struct hold *hold)
{
	timer_heap_free(&hold->heap[0]);
	timer_heap_free(&hold->heap[1]);
	free(hold->held);
	free(hold->bytes);
}

struct held *hold_add(struct hold *hold, const struct datagram *datagram, bool outbound, uint32_t qp,
		      uint64_t due_ns, unsigned overtakers)
{
	struct held *held;

	if (list_empty(&hold->free) || datagram->bytes > HOLD_BYTES)
		return NULL;
	held = list_entry(list_pop(&hold->free), struct held, node);
	held->datagram = *datagram;
	held->datagram.data = hold->bytes + (size_t)(held - hold->held) * HOLD_BYTES;
	held->datagram.segment_bytes = 0;
	memcpy(held->datagram.data, datagram->data, datagram->bytes);
	held->overtakers = overtakers;
	held->outbound = outbound;
	held->qp = qp;
	if (overtakers)
		list_add_tail(&hold->overtaken, &held->node);
	else
		list_init(&held->node);
	timer_set(&hold->heap[outbound], &held->timer, due_ns);
	hold->count++;
	return held;
}

void hold_passed(struct hold *hold, bool outbound, uint32_t qp)
{
	struct list *node, *following;

	list_for_each_safe(node, following, &hold->overtaken) {
		struct held *held = list_entry(node, struct held, node);

		if (held->outbound != outbound || held->qp != qp || --held->overtakers)
			continue;
		list_remove(&held->node);
		timer_set(&hold->heap[outbound], &held->timer, 0);
	}
}

struct held *hold_take(struct hold *hold, bool outbound, uint64_t now_ns)
{
	struct timer *timer = timer_heap_expire(&hold->heap[outbound], now_ns);
	struct held *held;

	if (!timer)
		return NULL;
	held = container_of(timer, struct held, timer);
	if (held->overtakers)
		list_remove(&held->node);
	held->overtakers = 0;
	return held;
}

void hold_release(struct hold *hold, struct held *held)
{
	list_add_tail(&hold->free, &held->node);
	hold->count--;
}

uint64_t hold_next(const struct hold *hold, bool outbound)
{
	return timer_heap_next(&hold->heap[outbound]);
}
