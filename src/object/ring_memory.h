/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory of the rings of QPs, SRQs and CQs: ours, or the application's, where a parent domain has allocators
 * (ibv_alloc_parent_domain(3)).
 */
#ifndef VERBATIM_OBJECT_RING_MEMORY_H
#define VERBATIM_OBJECT_RING_MEMORY_H

#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RING_ALIGNMENT	64u

/* What a ring is for: the resource_type of the application's functions. */
enum ring_use { RING_OF_QP = 1, RING_OF_SRQ, RING_OF_CQ };

/* Of a parent domain, which stays while there are users. */
struct ring_allocator {
	/* NULL: the parent domain has none. */
	void *(*alloc)(struct ibv_pd *pd, void *context, size_t size, size_t alignment, uint64_t resource_type);
	void (*free)(struct ibv_pd *pd, void *context, void *memory, uint64_t resource_type);
	struct ibv_pd *pd;		/* the parent domain */
	void *context;
	_Atomic uint32_t users;		/* rings of what was made in the parent domain */
};

struct ring_memory {
	struct ring_allocator *allocator;	/* NULL: the memory is ours */
	uint8_t use;				/* enum ring_use */
	bool ours;				/* the allocator has none, or has declined */
};

/*
 * @memory says what for, and whose allocator to ask first (NULL: none). Zeroed; NULL: no memory. Calls the
 * application: no locks may be held.
 */
void *ring_memory_get(struct ring_memory *memory, size_t count, size_t bytes);
void ring_memory_put(const struct ring_memory *memory, void *ring);

#endif
