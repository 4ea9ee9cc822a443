/* SPDX-License-Identifier: BSD-2-Clause */
/* Requests that have not completed (work.h). */
#include "check/work.h"

#include <stdlib.h>
#include <string.h>

#define ROOM_LEAST 16u

struct check_work *check_queue_at(const struct check_queue *queue, uint32_t index)
{
	return &queue->work[(queue->head + index) & (queue->room - 1)];
}

bool check_queue_add(struct check_queue *queue, const struct check_record *post)
{
	struct check_work *work;

	if (queue->count == queue->room) {
		uint32_t room = queue->room ? 2 * queue->room : ROOM_LEAST;

		work = malloc(room * sizeof(*work));
		if (!work)
			return false;
		for (uint32_t i = 0; i < queue->count; i++)
			work[i] = *check_queue_at(queue, i);
		free(queue->work);
		queue->work = work;
		queue->room = room;
		queue->head = 0;
	}
	work = check_queue_at(queue, queue->count++);
	work->wr_id = post->wr_id;
	work->ah = post->ah;
	work->sequence = post->sequence;
	work->stack = post->stack;
	work->opcode = post->opcode;
	work->signaled = post->signaled;
	work->inlined = post->inlined;
	work->sges = post->sges < CHECK_WORK_SGES ? post->sges : CHECK_WORK_SGES;
	if (work->sges)
		memcpy(work->sge, post->sge, work->sges * sizeof(*work->sge));
	queue->signaled += post->signaled;
	return true;
}

uint32_t check_queue_drop_newest(struct check_queue *queue, uint32_t count)
{
	uint32_t signaled = 0;

	for (; count && queue->count; count--)
		signaled += check_queue_at(queue, --queue->count)->signaled;
	queue->signaled -= signaled;
	return signaled;
}

uint32_t check_queue_complete(struct check_queue *queue, uint64_t wr_id, bool flushed)
{
	uint32_t index, signaled = 0;

	for (index = 0; index < queue->count; index++) {
		const struct check_work *work = check_queue_at(queue, index);

		if (work->wr_id == wr_id && (work->signaled || flushed))
			break;
	}
	if (index == queue->count)
		return 0;
	for (uint32_t gone = index + 1; gone; gone--) {
		signaled += check_queue_at(queue, 0)->signaled;
		queue->head++;
		queue->count--;
	}
	queue->signaled -= signaled;
	return signaled;
}

bool check_queue_take(struct check_queue *queue, uint64_t wr_id)
{
	for (uint32_t index = 0; index < queue->count; index++) {
		if (check_queue_at(queue, index)->wr_id != wr_id)
			continue;
		queue->signaled -= check_queue_at(queue, index)->signaled;
		for (; index; index--)
			*check_queue_at(queue, index) = *check_queue_at(queue, index - 1);
		queue->head++;
		queue->count--;
		return true;
	}
	return false;
}

void check_queue_empty(struct check_queue *queue)
{
	queue->count = queue->signaled = queue->head = 0;
}

void check_queue_free(struct check_queue *queue)
{
	free(queue->work);
	memset(queue, 0, sizeof(*queue));
}
