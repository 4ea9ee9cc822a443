/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * SENDs to processes of this host as messages (transport/message.h), through the channels of the memory
 * link (link/memory.h): told by who posts, heard and settled by who drives.
 *
 * Small ones carry their data, which is copied twice. Of large ones the receiving process fetches it,
 * in one copy: from pages of the sender that it has mapped, or out of its address space. For that time
 * it names the sender's key as one in use (host/hazard.h).
 */
#ifndef VERBATIM_HCA_MESSAGE_H
#define VERBATIM_HCA_MESSAGE_H

#include "hca/internal.h"

/* Tell @wqe, the next request. False: it has to wait, or to go as packets. */
bool message_tell(struct hca *hca, struct qp *qp, const struct send_wqe *wqe) REQUIRES(qp->lock);

/*
 * While some are told: where somebody sleeps until they are settled, or requests wait behind them, or the
 * send queue drains, their answers are to wake us.
 */
void message_await(struct hca *hca, struct qp *qp) REQUIRES(qp->lock);

/* Its deadline has passed: has the peer got any farther? */
void message_look(struct hca *hca, struct qp *qp, uint64_t now_ns) REQUIRES(qp->lock);

/*
 * Hear what was told to us, up to some, and settle what we told. Returns how many messages were
 * executed. Cheap when there is nothing.
 */
unsigned messages_receive(struct hca *hca) REQUIRES(hca->drive);
/* Is anything to be settled, or heard? A hint without locks. */
bool messages_wait(const struct hca *hca);
/* The peer of @channel is gone, and its channel closed: what has no answer by now goes another way. */
void messages_lost(struct hca *hca, unsigned channel) REQUIRES(hca->drive);
/* The application is going to wait for completions: answers are to wake it. */
void messages_await(struct hca *hca);

#endif
