/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Device memory: a block (local/block/block.h) whose address only the device knows, so that peers of this
 * host map regions that cover all of it. Without blocks it is anonymous memory, and its regions are
 * like all others.
 *
 * Regions are zero-based, as ibv_alloc_dm(3) says: the application names them by offsets.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/copy.h"
#include "base/log.h"
#include "device/internal.h"
#include "device/limits.h"
#include "local/block/block.h"
#include "object/dm.h"
#include "platform/clock.h"
#include "platform/memory.h"

static int dm_check_attr(const struct ibv_alloc_dm_attr *attr)
{
	if (attr->comp_mask) {
		explain_refused("ibv_alloc_dm", EINVAL,
				"ibv_alloc_dm: comp_mask 0x%x must be 0", attr->comp_mask);
		return EINVAL;
	}
	if (!attr->length || attr->length > LIMIT_DM_BYTES) {
		explain_refused("ibv_alloc_dm", EINVAL,
				"ibv_alloc_dm: invalid length %zu: expected 1 to %zu "
				"(max_dm_size)", attr->length,
			(size_t)LIMIT_DM_BYTES);
		return EINVAL;
	}
	if (attr->log_align_req > LIMIT_DM_LOG_ALIGN) {
		explain_refused("ibv_alloc_dm", EINVAL,
				"ibv_alloc_dm: invalid log_align_req %u (log2 of the alignment): "
				"expected 0 to "
			"%u", attr->log_align_req, LIMIT_DM_LOG_ALIGN);
		return EINVAL;
	}
	return 0;
}

/* What the process may have is shared by all its devices. */
static int dm_reserve(struct hca *hca, size_t bytes)
{
	uint64_t left;

	lock_acquire(&hca->objects);
	left = LIMIT_DM_BYTES - hca->dm_bytes;
	if (bytes <= left)
		hca->dm_bytes += bytes;
	lock_release(&hca->objects);
	if (bytes <= left)
		return 0;
	explain_refused("ibv_alloc_dm", ENOMEM,
			"ibv_alloc_dm: only %llu of %llu bytes of this process's device memory "
			"are left "
		"(allocated in pages of %u bytes): free some, or register ordinary memory",
		(unsigned long long)left, (unsigned long long)LIMIT_DM_BYTES, MEMORY_PAGE);
	return ENOMEM;
}

static void dm_unreserve(struct hca *hca, size_t bytes)
{
	lock_acquire(&hca->objects);
	hca->dm_bytes -= bytes;
	lock_release(&hca->objects);
}

int hca_alloc_dm(struct hca_context *context, const struct ibv_alloc_dm_attr *attr,
		 struct dm **allocated)
{
	struct hca *hca = context->hca;
	size_t alignment;
	void *memory;
	struct dm *dm;
	int err;

	if (context_is_dead(context, "ibv_alloc_dm"))
		return EIO;
	err = dm_check_attr(attr);
	if (err)
		return err;
	dm = calloc(1, sizeof(*dm));
	if (!dm)
		return ENOMEM;
	dm->length = attr->length;
	dm->bytes = (attr->length + MEMORY_PAGE - 1) & ~(size_t)(MEMORY_PAGE - 1);
	err = dm_reserve(hca, dm->bytes);
	if (err)
		goto free_dm;
	alignment = (size_t)1 << attr->log_align_req;
	if (alignment < MEMORY_PAGE)
		alignment = MEMORY_PAGE;
	dm->is_block = !block_alloc(dm->bytes, alignment, &memory);
	if (dm->is_block) {
		dm->memory = memory;
	} else {	/* it is memory like any other */
		err = memory_aligned(dm->bytes, alignment, &dm->memory);
		if (err) {
			explain("ibv_alloc_dm: cannot allocate %zu bytes: %s", dm->bytes, strerror(err));
			goto unreserve;
		}
	}
	dm->ibv.handle = object_number(hca);
	handle_init(context, &context->dms, &dm->handle, dm->ibv.handle);
	*allocated = dm;
	return 0;
unreserve:
	dm_unreserve(hca, dm->bytes);
free_dm:
	free(dm);
	return err;
}

static struct dm *dm_original(const struct dm *handle)
{
	return container_of(handle->handle.of ? handle->handle.of : &handle->handle, struct dm, handle);
}

/* The memory stays until the last handle is gone: other threads may be copying. */
static void dm_drop_handle(struct hca *hca, struct dm *handle)
{
	struct dm *dm = dm_original(handle);
	bool is_over = handle_drop(hca, &handle->handle, &dm->regions);

	if (handle != dm)
		free(handle);
	if (!is_over)
		return;
	if (!dm->is_block || !block_free(dm->memory))
		memory_release(dm->memory, dm->bytes, -1);
	dm_unreserve(hca, dm->bytes);
	free(dm);
}

int hca_free_dm(struct hca_context *context, struct dm *handle)
{
	struct dm *dm = dm_original(handle);
	int err;

	if (context_is_dead(context, "ibv_free_dm"))
		return EIO;
	err = handle_destroy(context->hca, &handle->handle, &dm->regions, "ibv_free_dm");
	if (err == EBUSY)
		explain("ibv_free_dm: %u regions are registered in the device memory: deregister them "
			"first", atomic_load(&dm->regions));
	if (!err)
		dm_drop_handle(context->hca, handle);
	return err;
}

int hca_import_dm(struct hca_context *context, uint32_t number, struct dm **imported)
{
	struct dm *handle;
	int err;

	if (context_is_dead(context, "ibv_import_dm"))
		return EIO;
	handle = calloc(1, sizeof(*handle));
	if (!handle)
		return ENOMEM;
	err = handle_import(context, offsetof(struct hca_context, dms), &handle->handle, number,
			"ibv_import_dm");
	if (err) {
		free(handle);
		return err;
	}
	handle->ibv.handle = number;
	*imported = handle;
	return 0;
}

void hca_unimport_dm(struct hca_context *context, struct dm *handle)
{
	if (!context_is_dead(context, "ibv_unimport_dm"))
		dm_drop_handle(context->hca, handle);
}

static int dm_check_range(const char *call, const struct dm *dm, uint64_t offset, size_t length)
{
	if (dm->handle.destroyed) {
		explain("%s: the device memory was freed by another handle to it", call);
		return EINVAL;
	}
	if (dm_has(dm, offset, length))
		return 0;
	explain("%s: [%llu, +%zu) is outside the device memory of %zu bytes", call,
		(unsigned long long)offset, length, dm->length);
	return EINVAL;
}

int hca_reg_dm_mr(struct hca_context *context, struct pd *pd, struct dm *handle, uint64_t offset,
		  size_t length, unsigned access, struct mr **registered)
{
	struct dm *dm = dm_original(handle);
	struct mr *mr;
	int err;

	if (context_is_dead(context, "ibv_reg_dm_mr"))
		return EIO;
	if (!(access & IBV_ACCESS_ZERO_BASED)) {
		explain_refused("ibv_reg_dm_mr", EINVAL,
				"ibv_reg_dm_mr: access 0x%x: device memory has no addresses, "
				"only offsets: add "
			"IBV_ACCESS_ZERO_BASED", access);
		return EINVAL;
	}
	err = dm_check_range("ibv_reg_dm_mr", dm, offset, length);
	if (err)
		return err;
	mr = calloc(1, sizeof(*mr));
	if (!mr)
		return ENOMEM;
	mr->dm = dm;
	mr->owner = context;
	mr->made_ns = clock_coarse_ns();
	err = mr_register(&context->hca->mrs, pd, dm->memory + offset, length, 0, access, mr);
	if (err) {
		free(mr);
		return err;
	}
	atomic_fetch_add(&dm->regions, 1);
	local_add_region(&context->hca->engine.local, mr);
	mr->ibv.addr = NULL;
	handle_init(context, &context->mrs, &mr->handle, mr->ibv.handle);
	*registered = mr;
	return 0;
}

/*
 * Works in a fork()ed child, too, on its own copy. The last 64 bytes become visible last, for
 * readers that poll them.
 */
int hca_copy_to_dm(struct dm *handle, uint64_t offset, const void *from, size_t length)
{
	struct dm *dm = dm_original(handle);
	int err = dm_check_range("ibv_memcpy_to_dm", dm, offset, length);

	return err ? err : copy_user_ordered(dm->memory + offset, from, length);
}

int hca_copy_from_dm(void *to, const struct dm *handle, uint64_t offset, size_t length)
{
	const struct dm *dm = dm_original(handle);
	int err = dm_check_range("ibv_memcpy_from_dm", dm, offset, length);

	return err ? err : copy_user(to, dm->memory + offset, length);
}
