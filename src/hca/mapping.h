/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Regions whose pages peers map. When a region is registered for remote access, the whole pages in it
 * may be exchanged for pages of this process's pool, a memfd that every peer on the host has mapped;
 * then a WRITE is a store, a READ a load, an atomic a locked instruction. docs/decisions/0010 says
 * when that is safe and why.
 */
#ifndef VERBATIM_HCA_MAPPING_H
#define VERBATIM_HCA_MAPPING_H

#include "hca/internal.h"

#define POOL_BYTES (UINT64_C(1) << 36)	/* of addresses; pages are made when touched */

struct mappings;

/* 0 or errno. */
int mappings_open(struct hca *hca);
/* Regions that are still mapped become private again. */
void mappings_close(struct hca *hca);
/* The pool, for peers. */
int mappings_pool_fd(const struct hca *hca);

/* Are regions mapped, ours by peers and theirs by us? */
bool mapping_is_wanted(const struct hca *hca);
/*
 * Pages of the pool that are nobody else's: zeros, at an address that is a multiple of @alignment (a
 * power of two) and of a page. Regions in them (mr->dm) are always mapped by peers. 0 or errno.
 */
int mapping_take(struct hca *hca, size_t bytes, size_t alignment, uint8_t **memory);
/* The same pages; no region lies in them any more. */
void mapping_give(struct hca *hca, uint8_t *memory);

/* @mr was registered, nobody has its key yet: map it if that is allowed and safe. */
void mapping_add(struct hca *hca, const struct mr *mr);
/* The region with that index is gone, nobody accesses it any more, no other has the index yet. */
void mapping_remove(struct hca *hca, uint32_t index);

/*
 * fork(): a child has its own copy of everything, as ever. The parent waits until the child has
 * exchanged the pool's pages for private ones. (vfork() and posix_spawn() do not come here.)
 */
void mappings_before_fork(struct hca *hca);
void mappings_after_fork_parent(struct hca *hca);
void mappings_after_fork_child(struct hca *hca);

#endif
