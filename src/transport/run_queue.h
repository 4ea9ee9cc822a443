/* SPDX-License-Identifier: BSD-2-Clause */
/* QPs that have something to transmit, first come first served; each at most once. */
#ifndef VERBATIM_TRANSPORT_RUN_QUEUE_H
#define VERBATIM_TRANSPORT_RUN_QUEUE_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/list.h"
#include "base/lock.h"

struct qp;

struct run_queue {
	struct lock lock;
	struct list qps GUARDED_BY_MEMBER(lock);
	_Atomic unsigned count;		/* a hint, readable without the lock */
};

void run_queue_init(struct run_queue *queue);
void run_queue_add(struct run_queue *queue, struct qp *qp);
void run_queue_remove(struct run_queue *queue, struct qp *qp);
struct qp *run_queue_pop(struct run_queue *queue);	/* NULL when empty */

#endif
