/* SPDX-License-Identifier: BSD-2-Clause */
/* Address handles: the destination of datagrams, as the application gave it and as a route. */
#ifndef VERBATIM_OBJECT_AH_H
#define VERBATIM_OBJECT_AH_H

#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdint.h>

#include "base/list.h"
#include "object/pd.h"
#include "object/route.h"

struct ah_path;

struct ah {
	struct ibv_ah ibv;		/* first */
	struct ibv_ah_attr attr;	/* as given */
	struct route route;
	/*
	 * The application's and one per work request naming it. The last one to go (acq_rel in
	 * ah_put()) sees all earlier uses, and frees it.
	 */
	_Atomic uint32_t references;
	/* The transport's state of the way there, by peer process; freed by release(). */
	_Atomic(struct ah_path *) paths;
	void (*_Atomic release)(struct ah *ah);	/* NULL: there is nothing to free */
	struct list node;
};

static inline struct ah *to_ah(struct ibv_ah *ibv)
{
	return (struct ah *)ibv;
}

static inline void ah_get(struct ah *ah)
{
	atomic_fetch_add_explicit(&ah->references, 1, memory_order_relaxed);
}

void ah_put(struct ah *ah);	/* frees at 0 */

#endif
