/* SPDX-License-Identifier: BSD-2-Clause */
/* Protection domains of a context. */
#include <errno.h>
#include <stdlib.h>

#include "base/log.h"
#include "device/internal.h"

int hca_alloc_pd(struct hca_context *context, struct pd **allocated)
{
	struct pd *pd;

	if (context_is_dead(context, "alloc_pd"))
		return EIO;
	pd = calloc(1, sizeof(*pd));
	if (!pd)
		return ENOMEM;
	pd->number = object_number(context->hca);
	pd->ibv.handle = pd->number;
	object_enlist(context, &context->pds, &pd->node);
	*allocated = pd;
	return 0;
}

int hca_dealloc_pd(struct hca_context *context, struct pd *pd)
{
	uint32_t users = atomic_load(&pd->users);

	if (context_is_dead(context, "dealloc_pd"))
		return EIO;
	if (users) {
		explain("dealloc_pd: pd %u is in use by %u objects (MRs, MWs, QPs, SRQs, AHs): destroy "
			"them first", pd->number, users);
		return EBUSY;
	}
	object_delist(context, &pd->node);
	free(pd);
	return 0;
}
