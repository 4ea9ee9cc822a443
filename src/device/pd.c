/* SPDX-License-Identifier: BSD-2-Clause */
/* Protection domains of a context. */
#include <errno.h>
#include <stdlib.h>

#include "base/log.h"
#include "device/internal.h"

static struct pd *pd_original(struct pd *handle)
{
	return container_of(handle_original(&handle->handle), struct pd, handle);
}

static void pd_drop_handle(struct hca *hca, struct pd *handle)
{
	struct pd *pd = pd_original(handle);
	bool is_over = handle_drop(hca, &handle->handle, &pd->users);

	if (handle != pd)
		free(handle);
	if (is_over) {
		object_unreserve(hca, OBJECT_PD);
		free(pd);
	}
}

int hca_alloc_pd(struct hca_context *context, struct pd **allocated)
{
	struct pd *pd;
	int err;

	if (context_is_dead(context, "ibv_alloc_pd"))
		return EIO;
	err = object_reserve(context->hca, OBJECT_PD, "ibv_alloc_pd");
	if (err)
		return err;
	pd = calloc(1, sizeof(*pd));
	if (!pd) {
		object_unreserve(context->hca, OBJECT_PD);
		return ENOMEM;
	}
	pd->number = object_number(context->hca);
	pd->ibv.handle = pd->number;
	handle_init(context, &context->pds, &pd->handle, pd->ibv.handle);
	*allocated = pd;
	return 0;
}

int hca_pd_of(const char *call, struct pd *handle, struct pd **pd)
{
	struct pd *original = pd_original(handle);

	if (original->handle.destroyed) {
		explain_of(OF(PD, original->number),
			"%s: pd %u was deallocated by another handle to it: ibv_unimport_pd() "
			"is all that is left",
			call, original->number);
		return EINVAL;
	}
	*pd = original;
	return 0;
}

int hca_dealloc_pd(struct hca_context *context, struct pd *handle)
{
	struct pd *pd = pd_original(handle);
	int err;

	if (context_is_dead(context, "ibv_dealloc_pd"))
		return EIO;
	err = handle_destroy(context->hca, &handle->handle, &pd->users, "ibv_dealloc_pd");
	if (err == EBUSY)
		explain_of(OF(PD, pd->number),
			"ibv_dealloc_pd: pd %u is in use by %u objects (MRs, MWs, QPs, SRQs, "
				"AHs): destroy them first", pd->number, atomic_load(&pd->users));
	if (!err)
		pd_drop_handle(context->hca, handle);
	return err;
}

int hca_import_pd(struct hca_context *context, uint32_t number, struct pd **imported)
{
	struct pd *handle;
	int err;

	if (context_is_dead(context, "ibv_import_pd"))
		return EIO;
	handle = calloc(1, sizeof(*handle));
	if (!handle)
		return ENOMEM;
	err = handle_import(context, offsetof(struct hca_context, pds), &handle->handle, number,
			"ibv_import_pd");
	if (err) {
		free(handle);
		return err;
	}
	handle->ibv.handle = number;
	handle->number = pd_original(handle)->number;
	*imported = handle;
	return 0;
}

void hca_unimport_pd(struct hca_context *context, struct pd *handle)
{
	if (!context_is_dead(context, "ibv_unimport_pd"))
		pd_drop_handle(context->hca, handle);
}
