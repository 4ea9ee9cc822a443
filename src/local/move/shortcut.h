/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Posting by a shortcut (shortcut.c): while qp->shortcut stands, and all that was posted has been sent.
 * Inline, since each post takes it.
 */
#ifndef VERBATIM_LOCAL_MOVE_SHORTCUT_H
#define VERBATIM_LOCAL_MOVE_SHORTCUT_H

#include "local/local.h"
#include "object/qp.h"

/* Nothing was done; the request is in the send queue, and local_posted() has to be called; it is sent, or over. */
enum shortcut_outcome { SHORTCUT_NOT_TAKEN, SHORTCUT_POSTED, SHORTCUT_DONE };

/* Send, or execute, the newest request, which is in the send queue. False: nothing was done. */
bool local_take_posted(struct local *local, struct qp *qp, struct send_wqe *wqe, struct effects *effects)
	REQUIRES(qp->lock);
/* A WRITE is over when it is posted: executed from what the application has, its place there stays empty. */
bool local_write_at_once(struct local *local, struct qp *qp, const struct ibv_send_wr *wr, struct effects *effects)
	REQUIRES(qp->lock);

static inline enum shortcut_outcome local_take_shortcut(struct local *local, struct qp *qp,
							const struct ibv_send_wr *wr, struct effects *effects)
	REQUIRES(qp->lock)
{
	struct send_wqe *wqe;

	if (wr->opcode == IBV_WR_RDMA_WRITE && local_write_at_once(local, qp, wr, effects))
		return SHORTCUT_DONE;
	wqe = qp_post_plain(qp, wr);
	if (!wqe)
		return SHORTCUT_NOT_TAKEN;
	return local_take_posted(local, qp, wqe, effects) ? SHORTCUT_DONE : SHORTCUT_POSTED;
}

#endif
