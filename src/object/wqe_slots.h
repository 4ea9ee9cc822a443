/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which slots of a work queue may be posted to. A slot is free again when the completion of its
 * request was polled, or that of a later request of the queue, as drivers of adapters count: not
 * when the request has completed. The queue's lock guards posting; what is polled is stored under
 * the lock of a CQ, and read without it.
 *
 * Each completion names the slots and the number of its request. It does not outlive them: a queue
 * that is emptied or destroyed takes its completions out of the CQ first (cq_clean()).
 */
#ifndef VERBATIM_OBJECT_WQE_SLOTS_H
#define VERBATIM_OBJECT_WQE_SLOTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct wqe_slots {
	/* Requests with numbers before this one have their slots back; of shared ones: so many have. */
	_Atomic uint32_t freed;
};

/* Of one request, in its completion. */
struct wqe_slot {
	struct wqe_slots *of;	/* NULL: of none */
	uint32_t number;
	bool shared;		/* completions of the queue come through several CQs, in any order */
};

static inline void wqe_slots_init(struct wqe_slots *slots)
{
	atomic_init(&slots->freed, 0);
}

/*
 * How many are taken, of a queue whose next request has number @head. A11: pairs with R11
 * in wqe_slot_free(). Who took the request has read its slot before the completion was
 * pushed.
 */
static inline uint32_t wqe_slots_used(const struct wqe_slots *slots, uint32_t head)
{
	return head - atomic_load_explicit(&slots->freed, memory_order_acquire);	/* A11 */
}

/* The completion was polled, or will never be. */
static inline __attribute__((always_inline)) void wqe_slot_free(const struct wqe_slot *slot)
{
	if (!slot->of)
		return;
	if (__builtin_expect(slot->shared, 0))
		atomic_fetch_add_explicit(&slot->of->freed, 1, memory_order_release);	/* R11 */
	else
		atomic_store_explicit(&slot->of->freed, slot->number + 1, memory_order_release); /* R11 */
}

/* No completion of a request before @number waits to be polled. */
static inline void wqe_slots_free_to(struct wqe_slots *slots, uint32_t number)
{
	atomic_store_explicit(&slots->freed, number, memory_order_release);
}

#endif
