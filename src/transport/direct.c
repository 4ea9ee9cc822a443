/* SPDX-License-Identifier: BSD-2-Clause */
/* Requests that need no packets (direct.h). */
#include "transport/direct.h"

#include "transport/barrier.h"
#include "transport/internal.h"

static bool direct_nothing_outstanding(const struct qp *qp) REQUIRES(qp->lock)
{
	const struct requester *requester = &qp->requester;

	if (!qp_is(qp, QP_RELIABLE))
		return requester->barrier.state == BARRIER_PASSED && qp->sq.sent == qp->sq.tail;
	return qp->sq.sent == qp->sq.tail && requester->una_psn == requester->next_psn &&
	       !requester->rnr_until_ns && !requester->blocked;
}

struct send_wqe *transport_direct_next(struct qp *qp)
{
	struct send_wqe *wqe;

	if (qp->sq.tail == qp->sq.head || qp->state != IBV_QPS_RTS || !direct_nothing_outstanding(qp))
		return NULL;
	wqe = send_queue_at(&qp->sq, qp->sq.tail);
	if (!wr_is(wqe->opcode, WR_MAY_BE_DIRECT))
		return NULL;
	return !wqe_takes_resource(wqe) || qp->attr.max_rd_atomic ? wqe : NULL;
}

void transport_direct_prefer(struct qp *qp, bool prefer)
{
	qp->requester.prefers_direct = prefer;
}

void transport_direct_done(struct qp *qp, const struct ibv_send_wr *write, uint64_t now_ns,
			   struct effects *effects)
{
	struct qp_call call;

	qp_call_init_on(&call, qp, now_ns, effects);
	if (write)
		finish_at_once(&call, write);
	else
		finish_send(&call, IBV_WC_SUCCESS);
	if (!request_needs_packets(qp))
		qp->requester.packets_until = qp->sq.tail;
	if (qp->requester.completion_lost)
		qp_call_end(&call);
}
