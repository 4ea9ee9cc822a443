/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory regions of a context; their rules are in object/mr.c. */
#include <errno.h>
#include <stdlib.h>

#include "base/log.h"
#include "device/internal.h"
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
		explain("reg_mr: parts of [%p, +%zu) are not mapped: allocate the memory first, or "
			"use IBV_ACCESS_ON_DEMAND", address, length);
		return EFAULT;
	case EACCES:
		explain("reg_mr: parts of [%p, +%zu) are not %s: change the mapping%s", address, length,
			writable ? "readable and writable" : "readable",
			writable ? ", or leave out IBV_ACCESS_LOCAL_WRITE" : "");
		return EFAULT;
	default:
		return 0;
	}
}

int hca_reg_mr(struct hca_context *context, struct pd *pd, void *address, size_t length,
	       uint64_t iova, unsigned access, struct mr **registered)
{
	struct mr *mr;
	int err;

	if (context_is_dead(context, "reg_mr"))
		return EIO;
	err = check_memory(address, length, access);
	if (err)
		return err;
	fault_handler_install();	/* the application may have installed its own since */
	mr = calloc(1, sizeof(*mr));
	if (!mr)
		return ENOMEM;
	err = mr_register(&context->hca->mrs, pd, address, length, iova, access, mr);
	if (err) {
		free(mr);
		return err;
	}
	local_add_region(&context->hca->engine.local, mr);
	object_enlist(context, &context->mrs, &mr->node);
	*registered = mr;
	return 0;
}

int hca_rereg_mr(struct hca_context *context, struct mr *mr, int flags, struct pd *pd,
		 void *address, size_t length, unsigned access)
{
	int err;

	if (context_is_dead(context, "rereg_mr"))
		return EIO;
	if (mr->dm) {
		explain("rereg_mr: lkey 0x%08x is of device memory, which cannot be reregistered: "
			"deregister it and use ibv_reg_dm_mr", mr->ibv.lkey);
		return EINVAL;
	}
	err = mr_reregister(&context->hca->mrs, mr, flags, pd, address, length, access);
	if (!err && (flags & IBV_REREG_MR_CHANGE_TRANSLATION))
		local_add_region(&context->hca->engine.local, mr);
	return err;
}

int hca_dereg_mr(struct hca_context *context, struct mr *mr)
{
	int err;

	if (context_is_dead(context, "dereg_mr"))
		return EIO;
	err = mr_deregister(&context->hca->mrs, mr);
	if (err)
		return err;
	object_delist(context, &mr->node);
	if (mr->dm)
		atomic_fetch_sub(&mr->dm->regions, 1);
	free(mr);
	return 0;
}
