/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ibv_reg_mr(3), ibv_rereg_mr(3), ibv_dereg_mr(3) and their variants, ibv_import_mr(3), ibv_alloc_null_mr(3),
 * ibv_advise_mr(3).
 */
#include "verbs/check.h"
#include "verbs/trace.h"
#include "verbs/verbs.h"

/*
 * The flags of the optional range are hints; the hca accepts and ignores them. A zero-based
 * region is named by offsets from 0, whatever iova says.
 */
struct ibv_mr *mr_register_verb(const char *call, struct ibv_pd *pd, void *address, size_t length,
				uint64_t iova, unsigned access)
{
	uint64_t began_ns = tracepoint_began_ns();
	char names[TRACE_NAMES_MAX];
	struct pd *domain;
	struct mr *mr;
	int err;

	if (!pd)
		return fail(refuse_null(call, "pd"));
	if (access & IBV_ACCESS_ZERO_BASED)
		iova = 0;
	err = domain_pd(call, pd, &domain);
	if (err)
		return fail(err);
	if (check_is_on())
		err = verbs_check_asked_mr(call, length);
	if (!err)
		err = hca_reg_mr(to_hca(pd->context), domain, address, length, iova, access, &mr);
	verbs_traced(call, began_ns, err, .bytes = SOME(length),
		     .access = verbs_trace_access(access, names),
		     .rkey = SOME(err ? 0 : mr->ibv.rkey));
	if (err)
		return fail(err);
	mr->ibv.context = pd->context;
	if (check_is_on())
		verbs_check_mr(call, mr, domain, iova, length);
	return &mr->ibv;
}

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *address, size_t length, int access)
{
	CALL();

	return mr_register_verb("ibv_reg_mr", pd, address, length, (uintptr_t)address,
				(unsigned)access);
}

struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *address, size_t length, uint64_t iova,
			       int access)
{
	CALL();

	return mr_register_verb("ibv_reg_mr_iova", pd, address, length, iova, (unsigned)access);
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *address, size_t length, uint64_t iova,
				unsigned access)
{
	CALL();

	return mr_register_verb("ibv_reg_mr", pd, address, length, iova, access);
}

struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova,
				 int fd, int access)
{
	return fail(refuse_verb("ibv_reg_dmabuf_mr", "a software device cannot access memory of other "
				"devices; map the DMA-BUF and use ibv_reg_mr"));
}

/* Every failure leaves the region as it was, which is what IBV_REREG_MR_ERR_INPUT says. */
int ibv_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *address, size_t length,
		 int access)
{
	CALL();
	struct pd *domain = NULL;
	int err = 0;

	if (!mr || ((flags & IBV_REREG_MR_CHANGE_PD) && !pd))
		err = refuse_null("ibv_rereg_mr", mr ? "pd" : "mr");
	else if (flags & IBV_REREG_MR_CHANGE_PD)
		err = domain_pd("ibv_rereg_mr", pd, &domain);
	if (!err)
		err = hca_rereg_mr(to_hca(mr->context), to_mr(mr), flags, domain, address, length,
				   (unsigned)access);
	if (!err) {
		tsan_deregistered(mr->lkey);
		if (check_is_on())
			verbs_check_mr("ibv_rereg_mr", to_mr(mr),
				       domain ? domain : (struct pd *)mr->pd, (uintptr_t)mr->addr,
				       mr->length);
		return 0;
	}
	errno = err;
	return IBV_REREG_MR_ERR_INPUT;
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
	CALL();
	uint64_t began_ns = tracepoint_began_ns();
	uint32_t rkey;
	int err;

	if (!mr)
		return refuse_null("ibv_dereg_mr", "mr");
	rkey = mr->rkey;
	verbs_checked_ending(MR, "ibv_dereg_mr", mr);
	err = hca_dereg_mr(to_hca(mr->context), to_mr(mr));
	if (!err)
		tsan_deregistered(rkey);	/* the lkey, too */
	verbs_checked_ended(MR, "ibv_dereg_mr", mr, err);
	verbs_traced("ibv_dereg_mr", began_ns, err, .rkey = SOME(rkey));
	return err;
}

struct ibv_mr *ibv_import_mr(struct ibv_pd *pd, uint32_t handle)
{
	CALL();
	struct pd *domain;
	struct mr *mr;
	int err;

	if (!pd)
		return fail(refuse_null("ibv_import_mr", "pd"));
	err = domain_pd("ibv_import_mr", pd, &domain);
	if (!err)
		err = hca_import_mr(to_hca(pd->context), handle, &mr);
	if (err)
		return fail(err);
	mr->ibv.context = pd->context;
	mr->ibv.pd = pd;
	if (check_is_on())
		verbs_check_mr("ibv_import_mr", mr, NULL, 0, UINT64_MAX);
	return &mr->ibv;
}

void ibv_unimport_mr(struct ibv_mr *mr)
{
	CALL();

	if (!mr) {
		errno = refuse_null("ibv_unimport_mr", "mr");
	} else {
		verbs_checked_ended(MR, "ibv_unimport_mr", mr, 0);
		hca_unimport_mr(to_hca(mr->context), to_mr(mr));
	}
}

struct ibv_mr *mr_alloc_null_verb(struct ibv_pd *pd)
{
	CALL();
	struct pd *domain;
	struct mr *mr;
	int err;

	if (!pd)
		return fail(refuse_null("ibv_alloc_null_mr", "pd"));
	err = domain_pd("ibv_alloc_null_mr", pd, &domain);
	if (!err)
		err = hca_alloc_null_mr(to_hca(pd->context), domain, &mr);
	if (err)
		return fail(err);
	mr->ibv.context = pd->context;
	if (check_is_on())
		verbs_check_mr("ibv_alloc_null_mr", mr, domain, 0, UINT64_MAX);
	return &mr->ibv;
}

int mr_advise_verb(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags, struct ibv_sge *list,
		   uint32_t count)
{
	CALL();
	struct pd *domain;
	int err;

	if (!pd || (count && !list))
		return refuse_null("ibv_advise_mr", pd ? "sg_list" : "pd");
	err = domain_pd("ibv_advise_mr", pd, &domain);
	return err ? err : hca_advise_mr(to_hca(pd->context), domain, advice, flags, list, count);
}
