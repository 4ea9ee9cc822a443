/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory windows: ibv_alloc_mw(3), ibv_bind_mw(3). Type 2 windows are bound by work requests. */
#include "verbs/check.h"
#include "verbs/verbs.h"

struct ibv_mw *mw_alloc_verb(struct ibv_pd *pd, enum ibv_mw_type type)
{
	CALL();
	struct pd *domain;
	struct mw *mw;
	int err;

	err = domain_pd("ibv_alloc_mw", pd, &domain);
	if (!err)
		err = verbs_asked(.kind = CHECK_MW, .call = "ibv_alloc_mw");
	if (!err)
		err = hca_alloc_mw(to_hca(pd->context), domain, type, &mw);
	if (err)
		return fail(err);
	mw->ibv.context = pd->context;
	verbs_checked_made(MW, "ibv_alloc_mw", mw, .context = CHECK_HANDLE(pd->context),
			   .pd = CHECK_HANDLE(domain), .number = mw->ibv.rkey);
	return &mw->ibv;
}

int mw_dealloc_verb(struct ibv_mw *mw)
{
	CALL();
	int err;

	verbs_checked_ending(MW, "ibv_dealloc_mw", mw);
	err = hca_dealloc_mw(to_hca(mw->context), to_mw(mw));
	verbs_checked_ended(MW, "ibv_dealloc_mw", mw, err);
	return err;
}

int mw_bind_verb(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind)
{
	CALL();

	if (!qp)
		return refuse_null("ibv_bind_mw", "qp");
	return (tsan_is_on() ? hca_tsan_bind_mw : hca_bind_mw)(to_qp(qp), to_mw(mw), bind);
}
