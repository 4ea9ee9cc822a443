/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * PDs, MRs and DMs, to which the application may hold several handles (ibv_import_pd(3) and the like):
 *
 *	original	the structure of the object itself: its handle is the first
 *	import		a structure of its own, which leads to the original
 *
 * As in Linux, the object ends when it is destroyed by any of them, and each is freed by destroying or unimporting
 * it: the structure of a destroyed object stays until the last handle is gone.
 */
#ifndef VERBATIM_OBJECT_HANDLE_H
#define VERBATIM_OBJECT_HANDLE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

struct handle {
	struct list node;		/* in its context's objects, under hca->objects */
	struct handle *of;		/* of an import: that of the original; else NULL */
	/* Of the original: */
	uint32_t number;		/* ibv_pd.handle and the like */
	uint32_t count;			/* handles that the application holds; under hca->objects */
	_Atomic bool destroyed;		/* set under hca->objects */
};

static inline struct handle *handle_original(struct handle *handle)
{
	return handle->of ? handle->of : handle;
}

#endif
