/* SPDX-License-Identifier: BSD-2-Clause */
/* Device memory: ibv_alloc_dm(3), ibv_memcpy_to_dm(3), ibv_reg_dm_mr(3), ibv_import_dm(3). */
#include "verbs/check.h"
#include "verbs/verbs.h"

static int copy_to_dm(struct ibv_dm *dm, uint64_t offset, const void *from, size_t length)
{
	return hca_copy_to_dm(to_dm(dm), offset, from, length);
}

static int copy_from_dm(void *to, struct ibv_dm *dm, uint64_t offset, size_t length)
{
	return hca_copy_from_dm(to, to_dm(dm), offset, length);
}

static struct ibv_dm *dm_finish(struct ibv_context *context, struct dm *dm)
{
	dm->ibv.context = context;
	dm->ibv.memcpy_to_dm = copy_to_dm;
	dm->ibv.memcpy_from_dm = copy_from_dm;
	return &dm->ibv;
}

struct ibv_dm *dm_alloc_verb(struct ibv_context *context, struct ibv_alloc_dm_attr *attr)
{
	CALL();
	struct dm *dm;
	int err;

	if (!context || !attr)
		return fail(refuse_null("ibv_alloc_dm", context ? "attr" : "context"));
	err = hca_alloc_dm(to_hca(context), attr, &dm);
	if (err)
		return fail(err);
	verbs_checked_made(DM, "ibv_alloc_dm", dm, .context = CHECK_HANDLE(context));
	return dm_finish(context, dm);
}

struct ibv_dm *ibv_import_dm(struct ibv_context *context, uint32_t handle)
{
	CALL();
	struct dm *dm;
	int err;

	if (!context)
		return fail(refuse_null("ibv_import_dm", "context"));
	err = hca_import_dm(to_hca(context), handle, &dm);
	return err ? fail(err) : dm_finish(context, dm);
}

void ibv_unimport_dm(struct ibv_dm *dm)
{
	CALL();

	if (!dm)
		errno = refuse_null("ibv_unimport_dm", "dm");
	else
		hca_unimport_dm(to_hca(dm->context), to_dm(dm));
}

int dm_free_verb(struct ibv_dm *dm)
{
	CALL();
	int err;

	if (!dm)
		return refuse_null("ibv_free_dm", "dm");
	verbs_checked_ending(DM, "ibv_free_dm", dm);
	err = hca_free_dm(to_hca(dm->context), to_dm(dm));
	verbs_checked_ended(DM, "ibv_free_dm", dm, err);
	return err;
}

struct ibv_mr *dm_reg_mr_verb(struct ibv_pd *pd, struct ibv_dm *dm, uint64_t offset, size_t length,
			      unsigned access)
{
	CALL();
	struct pd *domain;
	struct mr *mr;
	int err;

	if (!pd || !dm)
		return fail(refuse_null("ibv_reg_dm_mr", pd ? "dm" : "pd"));
	if (hca_file_number(to_hca(pd->context)) != hca_file_number(to_hca(dm->context))) {
		explain("ibv_reg_dm_mr: the device memory and the pd are of different contexts: use "
			"one ibv_context for both");
		return fail(EINVAL);
	}
	err = domain_pd("ibv_reg_dm_mr", pd, &domain);
	if (!err)
		err = hca_reg_dm_mr(to_hca(pd->context), domain, to_dm(dm), offset, length, access, &mr);
	if (err)
		return fail(err);
	mr->ibv.context = pd->context;
	if (check_is_on())
		verbs_check_mr("ibv_reg_dm_mr", mr, domain, 0, UINT64_MAX);
	return &mr->ibv;
}
