/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One-sided requests that are carried out without packets: RDMA WRITE and READ to a process whose
 * memory we can reach (local/onesided.c does it). Here is which request may go that way, and how it
 * ends. The peer's transport knows nothing of them: they take no PSN and no message sequence number.
 *
 * A request goes directly only while none is unanswered: then order among requests holds by itself.
 * Whatever stands against it (a key that is refused, memory that is gone), it goes as packets, and
 * the peer's responder says what there is to say. So there is one place for errors.
 */
#ifndef VERBATIM_TRANSPORT_DIRECT_H
#define VERBATIM_TRANSPORT_DIRECT_H

#include "transport/transport.h"

/* The next request, if it may; else NULL. */
struct send_wqe *transport_direct_next(struct qp *qp) REQUIRES(qp->lock);
/*
 * Can such requests be expected to go directly? Then a stream of them does not go on as packets for
 * ever, each waiting for none before it: after a while it is held until all is answered.
 */
void transport_direct_prefer(struct qp *qp, bool prefer) REQUIRES(qp->lock);
/* A stream of packets is under way, and goes on. */
static inline bool transport_is_streaming(const struct qp *qp) REQUIRES(qp->lock)
{
	return qp->sq.sent != qp->sq.tail && !qp->requester.prefers_direct;
}
/* It was carried out: complete it. */
void transport_direct_done(struct qp *qp, uint64_t now_ns, struct effects *effects)
	REQUIRES(qp->lock);

#endif
