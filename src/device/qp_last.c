/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The last packets of a QP that is reset or destroyed: the ACK of its last message, and datagrams
 * that were posted.
 */
#include "device/internal.h"
#include "platform/clock.h"
#include "platform/wait.h"

#define ANSWERED_NS	50000000u	/* a copy that is under way may take some of it */
#define FINAL_ACKS	2u
#define LEAVE_NS	150000000u	/* longer than the flow control holds a datagram back */
#define LEAVE_STEP_NS	200000u

void qp_wait_for_tx(struct qp *qp)
{
	bool running;

	do {
		lock_acquire(&qp->lock);
		running = qp->tx_running;
		lock_release(&qp->lock);
		if (running)
			thread_yield();
	} while (running);
}

bool hca_loses_packets(struct hca *hca)
{
	static const enum counter sign[] = { COUNTER_RETRANSMIT, COUNTER_TIMEOUT, COUNTER_PROBE,
					     COUNTER_TX_SEQ_NAK, COUNTER_RX_DUPLICATE };
	unsigned i;

	for (i = 0; i < sizeof(sign) / sizeof(sign[0]); i++)
		if (counter_get(hca->engine.counters, sign[i]))
			return true;
	return false;
}

/* Another thread transmits for the QP, and has not come to what is due. */
static bool is_being_answered(struct qp *qp)
{
	bool due;

	lock_acquire(&qp->lock);
	due = qp->tx_running && transport_answer_is_due(qp);
	lock_release(&qp->lock);
	return due;
}

/*
 * Before a QP stops answering: the ACK of its last message may still be due, and if it gets lost
 * the peer fails a message that arrived. On a lossy network the last ACK is sent three times, in
 * separate datagrams.
 */
void qp_send_final_ack(struct hca *hca, struct qp *qp)
{
	uint64_t until_ns = clock_now_ns() + ANSWERED_NS;
	unsigned n = hca_loses_packets(hca) ? FINAL_ACKS : 0;
	bool due = true;

	tx_run(&hca->engine, qp);
	while (is_being_answered(qp) && clock_now_ns() < until_ns)
		thread_yield();
	while (n-- && due) {
		lock_acquire(&qp->lock);
		due = transport_final_ack(qp);
		lock_release(&qp->lock);
		if (due)
			tx_run(&hca->engine, qp);
	}
}

static bool has_unsent(struct qp *qp)
{
	bool unsent;

	lock_acquire(&qp->lock);
	unsent = qp->state == IBV_QPS_RTS && qp->sq.sent != qp->sq.head;
	lock_release(&qp->lock);
	return unsent;
}

/*
 * Datagrams that were posted leave at once on a NIC, and programs destroy the QP without waiting for
 * completions (mckey). Ours may be held back by the flow control, for a moment.
 */
void qp_let_datagrams_leave(struct hca *hca, struct qp *qp)
{
	uint64_t until_ns = clock_now_ns() + LEAVE_NS;

	if (!qp_is(qp, QP_DATAGRAM))
		return;
	while (has_unsent(qp) && clock_now_ns() < until_ns) {
		thread_sleep_ns(LEAVE_STEP_NS);
		tx_run(&hca->engine, qp);
	}
}

void qps_send_final_acks(struct hca *hca)
{
	struct list *context_node, *node;

	lock_acquire(&hca->objects);
	list_for_each(context_node, &hca->contexts) {
		struct hca_context *context = list_entry(context_node, struct hca_context, node);

		list_for_each(node, &context->qps) {
			struct qp *qp = list_entry(node, struct qp, node);

			if (!qp->is_down)
				qp_send_final_ack(hca, qp);
		}
	}
	lock_release(&hca->objects);
}
