/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory of rings: the application's where it gives some, zeroed, and given back to it. */
#include "object/ring_memory.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"

void *ring_memory_get(struct ring_memory *memory, size_t count, size_t bytes)
{
	struct ring_allocator *allocator = memory->allocator;
	void *ring;

	if (!allocator)
		return calloc(count, bytes);
	ring = allocator->alloc ? allocator->alloc(allocator->pd, allocator->context, count * bytes,
						   RING_ALIGNMENT, memory->use) :
				  IBV_ALLOCATOR_USE_DEFAULT;
	memory->ours = ring == IBV_ALLOCATOR_USE_DEFAULT;
	if (memory->ours)
		ring = calloc(count, bytes);
	else if (!ring)
		explain("the allocator of the parent domain has no %zu bytes", count * bytes);
	if (!ring)
		return NULL;
	atomic_fetch_add(&allocator->users, 1);
	return memory->ours ? ring : memset(ring, 0, count * bytes);
}

void ring_memory_put(const struct ring_memory *memory, void *ring)
{
	struct ring_allocator *allocator = memory->allocator;

	if (!allocator) {
		free(ring);
		return;
	}
	if (!ring)
		return;
	if (memory->ours)
		free(ring);
	else
		allocator->free(allocator->pd, allocator->context, ring, memory->use);
	atomic_fetch_sub(&allocator->users, 1);
}
