/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests of a queue that were posted and have not completed, as far as the program knows: it has
 * not polled their completions. Oldest first.
 */
#ifndef VERBATIM_CHECK_WORK_H
#define VERBATIM_CHECK_WORK_H

#include "check/record.h"

#define CHECK_WORK_SGES 4u /* that are kept, of each request */

struct check_work {
	uint64_t wr_id, ah, sequence;
	uint32_t stack, sges, opcode;
	bool signaled, inlined;
	struct check_sge sge[CHECK_WORK_SGES];
};

struct check_queue {
	struct check_work *work;	/* a ring of @room, a power of two; NULL: none yet */
	uint32_t head, count, room;
	uint32_t signaled;	/* of those */
};

/* False: no memory, and the queue is as it was. */
bool check_queue_add(struct check_queue *queue, const struct check_record *post);
struct check_work *check_queue_at(const struct check_queue *queue, uint32_t index);
/* Takes back the newest @count. Returns how many of them were signaled. */
uint32_t check_queue_drop_newest(struct check_queue *queue, uint32_t count);
/*
 * A completion of a send queue says that all before it are done, too. @flushed: this one has been
 * signaled or not. Returns how many signaled ones went.
 */
uint32_t check_queue_complete(struct check_queue *queue, uint64_t wr_id, bool flushed);
/* A receive, which may be any one of a shared queue. False: there is none with that wr_id. */
bool check_queue_take(struct check_queue *queue, uint64_t wr_id);
void check_queue_empty(struct check_queue *queue);
void check_queue_free(struct check_queue *queue);

#endif
