/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Posted receives. A slot is written whole by the post and read whole by the take, both under
 * the queue's lock; the counters are atomic only so that they can be read without it.
 */
#include "object/recv_queue.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/inline.h"
#include "base/log.h"
#include "object/ring.h"

int recv_queue_init(struct recv_queue *queue, uint32_t size, uint32_t max_sge)
{
	if (size > RING_SIZE_MAX)
		return EINVAL;
	lock_init(&queue->lock);
	queue->stride = sizeof(struct recv_wqe) + max_sge * sizeof(struct ibv_sge);
	queue->mask = ring_mask(size);
	queue->ring = ring_memory_get(&queue->memory, (size_t)queue->mask + 1, queue->stride);
	if (!queue->ring)
		return ENOMEM;
	queue->size = size;
	queue->max_sge = max_sge;
	atomic_store_explicit(&queue->head, 0, memory_order_relaxed);
	atomic_store_explicit(&queue->tail, 0, memory_order_relaxed);
	wqe_slots_init(&queue->slots);
	return 0;
}

/* Also of a zeroed queue. */
void recv_queue_fini(struct recv_queue *queue)
{
	lock_destroy(&queue->lock);
	ring_memory_put(&queue->memory, queue->ring);
	queue->ring = NULL;
}

static struct recv_wqe *recv_queue_slot(uint8_t *ring, uint32_t number, uint32_t mask,
					size_t stride)
{
	return (struct recv_wqe *)(ring + (size_t)(number & mask) * stride);
}

static uint32_t recv_queue_head_of(const struct recv_queue *queue)
{
	return atomic_load_explicit(&queue->head, memory_order_relaxed);
}

static uint32_t recv_queue_tail_of(const struct recv_queue *queue)
{
	return atomic_load_explicit(&queue->tail, memory_order_relaxed);
}

int recv_queue_resize(struct recv_queue *queue, uint32_t size)
{
	struct ring_memory memory = queue->memory;
	uint32_t waiting, mask, i;
	uint8_t *unused;
	int err = 0;

	if (size > RING_SIZE_MAX)
		return EINVAL;
	mask = ring_mask(size);
	unused = ring_memory_get(&memory, (size_t)mask + 1, queue->stride);
	if (!unused)
		return ENOMEM;
	lock_acquire(&queue->lock);
	waiting = recv_queue_head_of(queue) - recv_queue_tail_of(queue);
	if (waiting > size) {
		err = EINVAL;
	} else {
		uint8_t *old = queue->ring;

		for (i = 0; i < waiting; i++)
			memcpy(recv_queue_slot(unused, i, mask, queue->stride),
			       recv_queue_slot(old, recv_queue_tail_of(queue) + i, queue->mask,
					       queue->stride),
			       queue->stride);
		struct ring_memory of_old = queue->memory;

		queue->ring = unused;
		queue->memory = memory;
		memory = of_old;
		queue->size = size;
		queue->mask = mask;
		/* Slots of receives that were taken stay taken until they are polled, meanwhile too. */
		atomic_fetch_sub_explicit(&queue->slots.freed, recv_queue_tail_of(queue),
					  memory_order_relaxed);
		atomic_store_explicit(&queue->tail, 0, memory_order_relaxed);
		atomic_store_explicit(&queue->head, waiting, memory_order_release);
		unused = old;
	}
	lock_release(&queue->lock);
	ring_memory_put(&memory, unused);
	if (err)
		explain("%u receives are posted, more than the new size %u of the queue",
			waiting, size);
	return err;
}

static int recv_queue_post_one(struct recv_queue *queue, const struct ibv_recv_wr *wr)
	REQUIRES(queue->lock)
{
	uint32_t head = recv_queue_head_of(queue);
	struct recv_wqe *wqe;

	if (wr->num_sge < 0 || (uint32_t)wr->num_sge > queue->max_sge)
		return EINVAL;
	if (wr->num_sge && !wr->sg_list)
		return EINVAL;
	if (wqe_slots_used(&queue->slots, head) >= queue->size)
		return ENOMEM;
	wqe = recv_queue_slot(queue->ring, head, queue->mask, queue->stride);
	wqe->wr_id = wr->wr_id;
	wqe->sge_count = (uint32_t)wr->num_sge;
	if (wr->num_sge == 1)
		wqe->sge[0] = *wr->sg_list;
	else if (wr->num_sge)
		memcpy(wqe->sge, wr->sg_list, (size_t)wr->num_sge * sizeof(wqe->sge[0]));
	atomic_store_explicit(&queue->head, head + 1, memory_order_release);	/* R10 */
	return 0;
}

static const char *const posts[EXPLAIN_KIND_COUNT] = {
	[EXPLAIN_QP] = "post_recv: qp",
	[EXPLAIN_SRQ] = "post_srq_recv: srq",
	[EXPLAIN_WQ] = "post_wq_recv: wq",
};

static APART void explain_refusal(const struct recv_queue *queue, const struct ibv_recv_wr *wr,
				  int err, enum explain_kind kind, uint32_t number)
{
	const struct explain_object of = { kind, true, number, wr->wr_id };
	uint32_t waiting = recv_queue_count(queue);

	/* What was taken has completed, or is about to. */
	if (err == ENOMEM && waiting >= queue->size)
		explain_about("ENOMEM ibv_post_recv", of,
			      "%s 0x%06x: the queue is full with %u receives (wr_id 0x%llx "
			      "was not posted); create it with a larger max_recv_wr or max_wr, or "
			      "post after some have completed",
			      posts[kind], number, queue->size, (unsigned long long)wr->wr_id);
	else if (err == ENOMEM)
		explain_about("ENOMEM ibv_post_recv", of,
			      "%s 0x%06x: the queue is full with %u receives (wr_id 0x%llx "
			      "was not posted; for messages are waiting: %u); a slot is free when "
			      "the completion of its receive was polled: poll",
			      posts[kind], number, queue->size, (unsigned long long)wr->wr_id, waiting);
	else if (wr->num_sge > 0 && !wr->sg_list)
		explain_of(of, "%s 0x%06x: wr_id 0x%llx has num_sge %d but sg_list is NULL",
			posts[kind], number, (unsigned long long)wr->wr_id, wr->num_sge);
	else
		explain_of(of,
			"%s 0x%06x: wr_id 0x%llx has num_sge %d, not in 0..%u: create the queue "
			"with a larger max_recv_sge or max_sge", posts[kind], number,
			(unsigned long long)wr->wr_id, wr->num_sge, queue->max_sge);
}

int recv_queue_post_for(struct recv_queue *queue, struct ibv_recv_wr *wr,
			struct ibv_recv_wr **bad, enum explain_kind kind, uint32_t number)
{
	int err = 0;

	lock_acquire(&queue->lock);
	while (wr) {
		err = recv_queue_post_one(queue, wr);
		if (err)
			break;
		wr = wr->next;
	}
	lock_release(&queue->lock);
	if (err) {
		*bad = wr;
		explain_refusal(queue, wr, err, kind, number);
	}
	return err;
}

bool recv_queue_take_locked(struct recv_queue *queue, struct recv_wqe *wqe)
{
	uint32_t tail = recv_queue_tail_of(queue);
	const struct recv_wqe *oldest;

	if (tail == recv_queue_head_of(queue))
		return false;
	oldest = recv_queue_slot(queue->ring, tail, queue->mask, queue->stride);
	memcpy(wqe, oldest, sizeof(*wqe) + oldest->sge_count * sizeof(wqe->sge[0]));
	wqe->number = tail;
	atomic_store_explicit(&queue->tail, tail + 1, memory_order_release);
	return true;
}

bool recv_queue_take(struct recv_queue *queue, struct recv_wqe *wqe)
{
	bool taken;

	lock_acquire(&queue->lock);
	taken = recv_queue_take_locked(queue, wqe);
	lock_release(&queue->lock);
	return taken;
}
