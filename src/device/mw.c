/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory windows of a context; their rules are in object/mw.c. */
#include <errno.h>
#include <stdlib.h>

#include "device/internal.h"

int hca_alloc_mw(struct hca_context *context, struct pd *pd, enum ibv_mw_type type,
		 struct mw **allocated)
{
	struct mw *mw;
	int err;

	if (context_is_dead(context, "ibv_alloc_mw"))
		return EIO;
	mw = calloc(1, sizeof(*mw));
	if (!mw)
		return ENOMEM;
	err = mw_alloc(&context->hca->mrs, pd, type, mw);
	if (err) {
		free(mw);
		return err;
	}
	object_enlist(context, &context->mws, &mw->node);
	*allocated = mw;
	return 0;
}

int hca_dealloc_mw(struct hca_context *context, struct mw *mw)
{
	int err;

	if (context_is_dead(context, "ibv_dealloc_mw"))
		return EIO;
	err = mw_free(&context->hca->mrs, mw);
	if (err)
		return err;
	object_delist(context, &mw->node);
	free(mw);
	return 0;
}

int hca_bind_mw(struct qp *qp, struct mw *mw, struct ibv_mw_bind *bind)
{
	struct ibv_send_wr *bad, wr = { .wr_id = bind->wr_id, .opcode = IBV_WR_BIND_MW,
					.send_flags = bind->send_flags };
	struct ibv_mr *mr = bind->bind_info.mr;

	/* As mlx5 does: type 1 knows no offsets. */
	if ((bind->bind_info.mw_access_flags & IBV_ACCESS_ZERO_BASED) ||
	    (mr && to_mr(mr)->access & IBV_ACCESS_ZERO_BASED)) {
		explain_refused("ibv_bind_mw", EINVAL,
				"ibv_bind_mw: neither a window of type 1 nor its region can be zero "
				"based: bind one of type 2 by IBV_WR_BIND_MW");
		return EINVAL;
	}
	wr.bind_mw.mw = &mw->ibv;
	wr.bind_mw.rkey = ibv_inc_rkey(mw->ibv.rkey);
	wr.bind_mw.bind_info = bind->bind_info;
	return hca_post_send(qp, &wr, &bad);
}
