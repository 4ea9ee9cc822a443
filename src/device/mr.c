/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory regions of a context; their rules are in object/mr.c. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "device/internal.h"
#include "platform/clock.h"
#include "platform/memory.h"

/* As Linux, which pins the pages for writing where the region may be written to: EFAULT. */
static int check_memory(const void *address, size_t length, unsigned access)
{
	bool writable = access & (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				  IBV_ACCESS_REMOTE_ATOMIC);

	if ((access & IBV_ACCESS_ON_DEMAND) || (uintptr_t)address + length < (uintptr_t)address)
		return 0;
	switch (memory_check(address, length, writable)) {
	case EFAULT:
		explain_refused("ibv_reg_mr", EFAULT,
				"ibv_reg_mr: parts of [%p, +%zu) are not mapped: allocate the "
				"memory first, or use IBV_ACCESS_ON_DEMAND", address, length);
		return EFAULT;
	case EACCES:
		explain_refused("ibv_reg_mr", EFAULT,
				"ibv_reg_mr: parts of [%p, +%zu) are not %s: change the "
				"mapping%s", address, length,
			writable ? "readable and writable" : "readable",
			writable ? ", or leave out IBV_ACCESS_LOCAL_WRITE" : "");
		return EFAULT;
	default:
		return 0;
	}
}

static struct mr *mr_original(struct mr *handle)
{
	return container_of(handle_original(&handle->handle), struct mr, handle);
}

static void mr_drop_handle(struct hca *hca, struct mr *handle)
{
	struct mr *mr = mr_original(handle);
	bool is_over = handle_drop(hca, &handle->handle, NULL);

	if (handle != mr)
		free(handle);
	if (is_over)
		free(mr);
}

int hca_reg_mr(struct hca_context *context, struct pd *pd, void *address, size_t length,
	       uint64_t iova, unsigned access, struct mr **registered)
{
	struct mr *mr;
	int err;

	if (context_is_dead(context, "ibv_reg_mr"))
		return EIO;
	err = check_memory(address, length, access);
	if (err)
		return err;
	fault_handler_install();	/* the application may have installed its own since */
	mr = calloc(1, sizeof(*mr));
	if (!mr)
		return ENOMEM;
	mr->owner = context;
	mr->made_ns = clock_coarse_ns();
	err = mr_register(&context->hca->mrs, pd, address, length, iova, access, mr);
	if (err) {
		free(mr);
		return err;
	}
	local_add_region(&context->hca->engine.local, mr);
	handle_init(context, &context->mrs, &mr->handle, mr->ibv.handle);
	*registered = mr;
	return 0;
}

int hca_rereg_mr(struct hca_context *context, struct mr *handle, int flags, struct pd *pd,
		 void *address, size_t length, unsigned access)
{
	struct mr *mr = mr_original(handle);
	int err;

	if (context_is_dead(context, "ibv_rereg_mr"))
		return EIO;
	if (mr->handle.destroyed) {
		explain_refused_of("ibv_rereg_mr", EINVAL, OF(MR, mr->ibv.lkey),
				"ibv_rereg_mr: lkey 0x%08x was deregistered by another handle to "
				"the region", mr->ibv.lkey);
		return EINVAL;
	}
	if (mr->dm) {
		explain_refused_of("ibv_rereg_mr", EINVAL, OF(MR, mr->ibv.lkey),
				"ibv_rereg_mr: lkey 0x%08x is of device memory, which cannot be "
				"reregistered: deregister it and use ibv_reg_dm_mr", mr->ibv.lkey);
		return EINVAL;
	}
	engine_catch_up(&context->hca->engine, false);
	err = mr_reregister(&context->hca->mrs, mr, flags, pd, address, length, access);
	if (!err && (flags & IBV_REREG_MR_CHANGE_TRANSLATION))
		local_add_region(&context->hca->engine.local, mr);
	if (!err)
		handle->ibv.length = mr->ibv.length;
	return err;
}

int hca_dereg_mr(struct hca_context *context, struct mr *handle)
{
	struct mr *mr = mr_original(handle);
	int err;

	if (context_is_dead(context, "ibv_dereg_mr"))
		return EIO;
	engine_catch_up(&context->hca->engine, false);
	err = handle_destroy(context->hca, &handle->handle, NULL, "ibv_dereg_mr");
	if (err)
		return err;
	err = mr_deregister(&context->hca->mrs, mr);
	if (err) {
		mr->handle.destroyed = false;
		return err;
	}
	if (mr->dm)
		atomic_fetch_sub(&mr->dm->regions, 1);
	mr_drop_handle(context->hca, handle);
	return 0;
}

/* Its address means nothing to who imports it: NULL (ibv_import_mr(3)). */
int hca_import_mr(struct hca_context *context, uint32_t number, struct mr **imported)
{
	struct mr *mr, *handle;
	int err;

	if (context_is_dead(context, "ibv_import_mr"))
		return EIO;
	handle = calloc(1, sizeof(*handle));
	if (!handle)
		return ENOMEM;
	err = handle_import(context, offsetof(struct hca_context, mrs), &handle->handle, number,
			"ibv_import_mr");
	if (err) {
		free(handle);
		return err;
	}
	mr = mr_original(handle);
	handle->ibv.handle = number;
	handle->ibv.length = mr->ibv.length;
	handle->ibv.lkey = mr->ibv.lkey;
	handle->ibv.rkey = mr->ibv.rkey;
	*imported = handle;
	return 0;
}

void hca_unimport_mr(struct hca_context *context, struct mr *handle)
{
	if (!context_is_dead(context, "ibv_unimport_mr"))
		mr_drop_handle(context->hca, handle);
}

/* ---- null regions ---- */

int hca_alloc_null_mr(struct hca_context *context, struct pd *pd, struct mr **registered)
{
	struct hca *hca = context->hca;
	struct mr *mr;
	int err;

	if (context_is_dead(context, "ibv_alloc_null_mr"))
		return EIO;
	mr = calloc(1, sizeof(*mr));
	if (!mr)
		return ENOMEM;
	mr->owner = context;
	mr->made_ns = clock_coarse_ns();
	/* For all null regions of the process: 8 GiB of address space, and 16 MiB of memory once written to. */
	lock_acquire(&hca->objects);
	err = hca->null_zeros ? 0 : memory_null(NULL_MR_BYTES, &hca->null_zeros, &hca->null_sink);
	lock_release(&hca->objects);
	if (err) {
		explain("ibv_alloc_null_mr: no %llu GiB of address space: %s: raise the limit (ulimit -v)",
			2 * (unsigned long long)NULL_MR_BYTES >> 30, strerror(err));
		err = ENOMEM;
	} else {
		err = mr_register_null(&hca->mrs, pd, hca->null_zeros, hca->null_sink, mr);
	}
	if (err) {
		free(mr);
		return err;
	}
	handle_init(context, &context->mrs, &mr->handle, mr->ibv.handle);
	*registered = mr;
	return 0;
}

/* ---- advice ---- */

static int advise_element(struct mr_table *table, const struct pd *pd, const struct ibv_sge *element,
			  unsigned need, bool faults)
{
	const struct mr_accessor accessor = { .pd = pd->number };
	struct mr_access access;
	enum mr_fault fault;
	char why[MR_LINE_BYTES];
	int err;

	if (!element->length)
		return 0;
	fault = mr_access_begin(table, &accessor, element->lkey, need, element->addr, element->length, &access);
	if (fault != MR_OK) {
		mr_explain(table, &accessor, element->lkey, need, element->addr, element->length, fault, why,
			   sizeof(why));
		explain_refused("ibv_advise_mr", EFAULT,
				"ibv_advise_mr: %s", why);
		return EFAULT;
	}
	err = faults ? memory_populate(access.host, element->length, need) : 0;
	mr_access_end(&access);
	if (!err)
		return 0;
	explain_refused_of("ibv_advise_mr", EFAULT, OF(MR, element->lkey),
			"ibv_advise_mr: parts of [0x%llx, +%u), lkey 0x%08x, are not mapped, or "
			"not for this: %s",
		(unsigned long long)element->addr, element->length, element->lkey, strerror(err));
	return EFAULT;
}

/* The pages are present when it returns, whether or not the flags ask for it. */
int hca_advise_mr(struct hca_context *context, const struct pd *pd, enum ibv_advise_mr_advice advice,
		  uint32_t flags, const struct ibv_sge *list, uint32_t count)
{
	const bool writes = advice == IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE;
	uint32_t i;
	int err = 0;

	if (context_is_dead(context, "ibv_advise_mr"))
		return EIO;
	if (!writes && advice != IBV_ADVISE_MR_ADVICE_PREFETCH &&
	    advice != IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT) {
		explain_refused("ibv_advise_mr", ENOTSUP,
				"ibv_advise_mr: unknown advice %u: expected "
				"IBV_ADVISE_MR_ADVICE_PREFETCH, _PREFETCH_WRITE or "
			"_PREFETCH_NO_FAULT", advice);
		return ENOTSUP;
	}
	if (flags & ~(uint32_t)IBV_ADVISE_MR_FLAG_FLUSH) {
		explain_refused("ibv_advise_mr", EINVAL,
				"ibv_advise_mr: flags 0x%x: only IBV_ADVISE_MR_FLAG_FLUSH (1) is "
				"known", flags);
		return EINVAL;
	}
	for (i = 0; i < count && !err; i++)
		err = advise_element(&context->hca->mrs, pd, &list[i], writes ? IBV_ACCESS_LOCAL_WRITE : 0,
				     advice != IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT);
	return err;
}
