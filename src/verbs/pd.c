/* SPDX-License-Identifier: BSD-2-Clause */
/* ibv_alloc_pd(3), ibv_dealloc_pd(3), ibv_import_pd(3). Parent domains, which are PDs to programs: domain.c. */
#include "verbs/check.h"
#include "verbs/trace.h"
#include "verbs/verbs.h"

struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
	CALL();
	uint64_t began_ns = tracepoint_began_ns();
	struct pd *pd;
	int err;

	if (!context)
		return fail(refuse_null("ibv_alloc_pd", "context"));
	err = hca_alloc_pd(to_hca(context), &pd);
	verbs_traced("ibv_alloc_pd", began_ns, err, .device = context->device->name);
	if (err)
		return fail(err);
	pd->ibv.context = context;
	verbs_checked(.what = CHECK_MADE, .kind = CHECK_PD, .call = "ibv_alloc_pd",
		      .object = CHECK_HANDLE(pd), .context = CHECK_HANDLE(context));
	return &pd->ibv;
}

int ibv_dealloc_pd(struct ibv_pd *pd)
{
	CALL();
	uint64_t began_ns = tracepoint_began_ns();
	int err;

	if (!pd)
		return refuse_null("ibv_dealloc_pd", "pd");
	verbs_checked_ending(PD, "ibv_dealloc_pd", pd);
	err = domain_is_parent(pd) ? parent_domain_dealloc(pd) : hca_dealloc_pd(to_hca(pd->context), to_pd(pd));
	verbs_checked_ended(PD, "ibv_dealloc_pd", pd, err);
	verbs_traced("ibv_dealloc_pd", began_ns, err);
	return err;
}

struct ibv_pd *ibv_import_pd(struct ibv_context *context, uint32_t handle)
{
	CALL();
	struct pd *pd;
	int err;

	if (!context)
		return fail(refuse_null("ibv_import_pd", "context"));
	err = hca_import_pd(to_hca(context), handle, &pd);
	if (err)
		return fail(err);
	pd->ibv.context = context;
	return &pd->ibv;
}

void ibv_unimport_pd(struct ibv_pd *pd)
{
	CALL();

	if (!pd)
		errno = refuse_null("ibv_unimport_pd", "pd");
	else if (domain_is_parent(pd))
		parent_domain_dealloc(pd);
	else
		hca_unimport_pd(to_hca(pd->context), to_pd(pd));
}
