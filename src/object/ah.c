/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Lifetime of address handles. The application may destroy an AH while work requests that name
 * it are still queued; the last of them frees it.
 */
#include "object/ah.h"

#include <assert.h>
#include <stdlib.h>

void ah_put(struct ah *ah)
{
	uint32_t before = atomic_fetch_sub_explicit(&ah->references, 1, memory_order_acq_rel);
	void (*release)(struct ah *);

	assert(before > 0);
	if (before != 1)
		return;
	release = atomic_load_explicit(&ah->release, memory_order_relaxed);
	if (release)
		release(ah);
	free(ah);
}
