/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A queue of posted receives: the RQ of a QP, or an SRQ. A responder takes a receive out whole
 * (recv_queue_take) when a message needs one; its slot is free when the completion was polled (wqe_slots.h).
 */
#ifndef VERBATIM_OBJECT_RECV_QUEUE_H
#define VERBATIM_OBJECT_RECV_QUEUE_H

#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdint.h>

#include "base/lock.h"
#include "base/log.h"
#include "object/ring_memory.h"
#include "object/wqe_slots.h"

#define RECV_SGE_MAX 32u		/* of any queue */

struct recv_wqe {
	uint64_t wr_id;
	uint32_t sge_count;
	uint32_t number;		/* of its slot */
	struct ibv_sge sge[];
};

struct recv_queue {
	struct owned_lock lock;
	uint8_t *ring GUARDED_BY_MEMBER(lock);
	struct ring_memory memory;	/* of the ring: set before recv_queue_init() */
	size_t stride;			/* bytes of a slot; fixed */
	uint32_t size, max_sge;		/* max_sge is fixed; size changes under lock */
	uint32_t mask GUARDED_BY_MEMBER(lock);	/* slots of the ring - 1; they are a power of two */
	/*
	 * Posted, taken; head - tail are waiting. Head is stored under lock. So is tail, or under
	 * that of the QP whose queue it is. Loading head (acquire) pairs with the release in
	 * post_one(): in recv_queue_count() for a hint, in recv_queue_next() for the receive.
	 */
	_Atomic uint32_t head, tail;
	struct wqe_slots slots;
};

int recv_queue_init(struct recv_queue *queue, uint32_t size, uint32_t max_sge);
void recv_queue_fini(struct recv_queue *queue);
int recv_queue_resize(struct recv_queue *queue, uint32_t size);	/* 0, EINVAL (in use), ENOMEM */

/*
 * 0; EINVAL (too many SGEs), ENOMEM (full): *bad names the first refused, those before it stand.
 * The queue is of the QP, SRQ or work queue (@kind) of this @number, for explanations.
 */
int recv_queue_post_for(struct recv_queue *queue, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad,
			enum explain_kind kind, uint32_t number);
/* Copy the oldest into @wqe (room for max_sge SGEs) and remove it; false when there is none. */
bool recv_queue_take(struct recv_queue *queue, struct recv_wqe *wqe);
bool recv_queue_take_locked(struct recv_queue *queue, struct recv_wqe *wqe) REQUIRES(queue->lock);
/*
 * The oldest, where it lies, but for its number: that is recv_queue_next_number(). NULL: there is
 * none. Then it may be removed. For who holds the lock; and without it for who holds that of the QP
 * that the queue belongs to: nobody else takes from there, and its ring stays where it is.
 */
static inline const struct recv_wqe *recv_queue_next(const struct recv_queue *queue)
	REQUIRES(queue->lock)
{
	uint32_t tail = atomic_load_explicit(&queue->tail, memory_order_relaxed);

	if (tail == atomic_load_explicit(&queue->head, memory_order_acquire))	/* A10 */
		return NULL;
	return (const struct recv_wqe *)(queue->ring +
					 (size_t)(tail & queue->mask) * queue->stride);
}

static inline uint32_t recv_queue_next_number(const struct recv_queue *queue)
{
	return atomic_load_explicit(&queue->tail, memory_order_relaxed);
}

static inline void recv_queue_remove_next(struct recv_queue *queue)
{
	uint32_t tail = atomic_load_explicit(&queue->tail, memory_order_relaxed);

	atomic_store_explicit(&queue->tail, tail + 1, memory_order_release);
}

/* No completion of what was taken waits to be polled. */
static inline void recv_queue_emptied(struct recv_queue *queue)
{
	wqe_slots_free_to(&queue->slots, atomic_load_explicit(&queue->tail, memory_order_relaxed));
}

static inline uint32_t recv_queue_count(const struct recv_queue *queue)
{
	return atomic_load_explicit(&queue->head, memory_order_acquire) -
	       atomic_load_explicit(&queue->tail, memory_order_relaxed);
}

#endif
