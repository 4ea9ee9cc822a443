/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One-sided requests executed without packets: RDMA WRITE, READ and atomics on a process whose
 * memory we can access (local/move/onesided.c). This file decides which request may go that way, and
 * completes it. The peer's transport does not see such requests: they take no PSN and no message
 * sequence number.
 *
 * A request goes directly only while none is unanswered, which keeps requests in order; of UC, only
 * WRITEs, and only while no packet is under way (barrier.h). On any objection (a refused key, unmapped
 * memory) it goes as packets, and the peer's responder reports the error, or drops them (UC): a direct
 * request itself never fails.
 */
#ifndef VERBATIM_TRANSPORT_DIRECT_H
#define VERBATIM_TRANSPORT_DIRECT_H

#include "transport/transport.h"

/* The next request if it may go directly; else NULL. */
struct send_wqe *transport_direct_next(struct qp *qp) REQUIRES(qp->lock);
/*
 * @prefer: requests are expected to go directly. Then a stream of packets, which never waits by
 * itself, is held after a while until everything is answered.
 */
void transport_direct_prefer(struct qp *qp, bool prefer) REQUIRES(qp->lock);
/* Is a stream of packets under way that will not be held? */
static inline bool transport_is_streaming(const struct qp *qp) REQUIRES(qp->lock)
{
	return qp->sq.sent != qp->sq.tail && !qp->requester.prefers_direct;
}
/*
 * The request was executed: complete it. The caller goes on to the next one, and in the end asks
 * transport_ready() or transmits: nothing is put in the run queue. @write: NULL, or a WRITE of one
 * SGE that is not in the send queue, where no request waits.
 */
void transport_direct_done(struct qp *qp, const struct ibv_send_wr *write, uint64_t now_ns,
			   struct effects *effects) REQUIRES(qp->lock);

#endif
