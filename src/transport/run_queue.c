/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The run queue: QPs that have something to transmit, first come first served. A QP that is
 * queued already is not queued again, so membership is the list node alone.
 */
#include "transport/run_queue.h"

#include "object/qp.h"

void run_queue_init(struct run_queue *queue)
{
	lock_init(&queue->lock);
	list_init(&queue->qps);
	atomic_init(&queue->count, 0);
}

/* A QP that was never queued may have a node of zeroes. */
static bool run_queue_is_queued(const struct list *node)
{
	return node->next && !list_empty(node);
}

void run_queue_add(struct run_queue *queue, struct qp *qp)
{
	lock_acquire(&queue->lock);
	if (!run_queue_is_queued(&qp->ready_node)) {
		list_add_tail(&queue->qps, &qp->ready_node);
		atomic_fetch_add_explicit(&queue->count, 1, memory_order_relaxed);
	}
	lock_release(&queue->lock);
}

void run_queue_remove(struct run_queue *queue, struct qp *qp)
{
	lock_acquire(&queue->lock);
	if (run_queue_is_queued(&qp->ready_node)) {
		list_remove(&qp->ready_node);
		atomic_fetch_sub_explicit(&queue->count, 1, memory_order_relaxed);
	}
	lock_release(&queue->lock);
}

struct qp *run_queue_pop(struct run_queue *queue)
{
	struct qp *qp = NULL;
	struct list *node;

	lock_acquire(&queue->lock);
	node = list_pop(&queue->qps);
	if (node) {
		qp = list_entry(node, struct qp, ready_node);
		atomic_fetch_sub_explicit(&queue->count, 1, memory_order_relaxed);
	}
	lock_release(&queue->lock);
	return qp;
}
