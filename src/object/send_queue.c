/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory of a send queue: slots of one stride, large enough for the SGEs, the inline data, or the word of an
 * ATOMIC_WRITE, whichever is more.
 */
#include "object/send_queue.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

#include "object/placement.h"
#include "object/ring.h"

int send_queue_init(struct send_queue *queue, uint32_t size, uint32_t max_sge,
		    uint32_t max_inline)
{
	size_t tail = max_sge * sizeof(struct ibv_sge), room;
	uint8_t *memory;

	if (size > RING_SIZE_MAX)
		return EINVAL;
	if (tail < max_inline)
		tail = max_inline;
	room = tail < PLACEMENT_WORD ? PLACEMENT_WORD : tail;
	queue->stride = (sizeof(struct send_wqe) + room + 7) / 8 * 8;
	queue->mask = ring_mask(size);
	memory = ring_memory_get(&queue->memory, (size_t)queue->mask + 2, queue->stride);
	if (!memory)
		return ENOMEM;
	queue->ring = memory + queue->stride;
	*send_queue_notes(queue) = (struct shortcut_notes){ 0 };
	queue->size = size;
	queue->max_sge = max_sge;
	/* Programs that asked for none send as much inline as an SGE takes: devices have that room. */
	queue->max_inline = tail;
	queue->head = queue->sent = queue->tail = 0;
	wqe_slots_init(&queue->slots);
	return 0;
}

void send_queue_fini(struct send_queue *queue)
{
	if (!queue->ring)
		return;
	for (; queue->tail != queue->head; queue->tail++) {
		struct send_wqe *wqe = send_queue_at(queue, queue->tail);

		if (wqe->ah)
			ah_put(wqe->ah);
	}
	ring_memory_put(&queue->memory, queue->ring - queue->stride);
	queue->ring = NULL;
}
