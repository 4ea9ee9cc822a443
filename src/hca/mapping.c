/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Regions in the pool (mapping.h). An extent is a run of pages that was exchanged; regions that lie in
 * one share it, and with the last of them its pages become private again.
 *
 * Exchanging pages is safe while nobody writes to them: not another thread of the application (there
 * is none, or VERBATIM_MEMORY=mapped vouches for it), not a peer (nobody has the key yet, and no other
 * region covers them), not a signal handler (blocked). The way back needs no such care.
 */
#include "hca/mapping.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/log.h"
#include "object/mr_internal.h"
#include "platform/memory.h"
#include "platform/memory_swap.h"

#define REGION_BYTES_MAX	(UINT64_C(1) << 32)
#define REGIONS_MAX		4096u	/* beyond these, looking for overlaps costs too much */
#define OUR_THREADS		1u	/* the worker */
#define ACCESS_REMOTE \
	(IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)

struct extent {
	struct list node;		/* by pool offset */
	uintptr_t start;
	uint64_t bytes, pool;
	uint32_t regions;
};

struct mappings {
	struct lock lock;
	struct list extents;
	int pool_fd;
	int fork_pipe[2];		/* between before_fork and after_fork */
	bool forking;
};

int mappings_pool_fd(const struct hca *hca)
{
	return hca->mappings->pool_fd;
}

/* ---- extents ---- */

enum overlap { OVERLAP_NONE, OVERLAP_INSIDE, OVERLAP_PARTLY };

static enum overlap find_overlap(struct mappings *mappings, uintptr_t start, uint64_t bytes,
				 struct extent **found) REQUIRES(mappings->lock)
{
	struct list *node;

	list_for_each(node, &mappings->extents) {
		struct extent *extent = list_entry(node, struct extent, node);

		if (start >= extent->start + extent->bytes || extent->start >= start + bytes)
			continue;
		*found = extent;
		return start >= extent->start && start + bytes <= extent->start + extent->bytes ?
			       OVERLAP_INSIDE : OVERLAP_PARTLY;
	}
	return OVERLAP_NONE;
}

/* A gap of the pool, first fit; the extents are in its order. NULL: no memory, or none is left. */
static struct extent *make_extent(struct mappings *mappings, uintptr_t start, uint64_t bytes)
	REQUIRES(mappings->lock)
{
	struct extent *extent = malloc(sizeof(*extent));
	uint64_t pool = 0;
	struct list *node;

	if (!extent)
		return NULL;
	list_for_each(node, &mappings->extents) {
		const struct extent *next = list_entry(node, struct extent, node);

		if (next->pool - pool >= bytes)
			break;
		pool = next->pool + next->bytes;
	}
	if (POOL_BYTES - pool < bytes) {
		free(extent);
		return NULL;
	}
	*extent = (struct extent){ .start = start, .bytes = bytes, .pool = pool };
	list_add_tail(node, &extent->node);	/* before @node */
	return extent;
}

/* ---- may it be mapped? ---- */

static bool writers_are_known(const struct hca *hca)
{
	return !strcmp(hca->config.memory, "mapped") ||
	       memory_thread_count() == 1 + OUR_THREADS;
}

/* Does another region lie over these pages? A peer may be writing to it just now. */
static bool other_region_covers(struct hca *hca, uint32_t self, uintptr_t start, uint64_t bytes)
{
	const struct mr_entry *entry = arena_mr(hca->arena);
	uint32_t count, i;
	bool found = false;

	lock_acquire(&hca->mrs.lock);
	count = hca->mrs.fresh;
	for (i = 0; i < count && count <= REGIONS_MAX && !found; i++)
		found = i != self && mr_key_of(&entry[i]) && entry[i].kind == MR_REGION &&
			entry[i].host < start + bytes && start < entry[i].host + entry[i].length;
	lock_release(&hca->mrs.lock);
	return found || count > REGIONS_MAX;
}

static struct extent *exchange(struct hca *hca, uint32_t index, uintptr_t start, uint64_t bytes)
	REQUIRES(hca->mappings->lock)
{
	struct mappings *mappings = hca->mappings;
	struct extent *extent;
	int err;

	if (!writers_are_known(hca) || other_region_covers(hca, index, start, bytes) ||
	    !memory_is_ordinary((void *)start, bytes, mappings->pool_fd))
		return NULL;
	extent = make_extent(hca->mappings, start, bytes);
	if (!extent)
		return NULL;
	err = memory_share((void *)start, bytes, mappings->pool_fd, extent->pool);
	if (!err)
		return extent;
	log_info("region at %p is not mapped by peers: error %d", (void *)start, err);
	memory_punch(mappings->pool_fd, extent->pool, bytes);
	list_remove(&extent->node);
	free(extent);
	return NULL;
}

static struct extent *extent_for(struct hca *hca, uint32_t index, uintptr_t start, uint64_t bytes)
	REQUIRES(hca->mappings->lock)
{
	struct extent *extent = NULL;

	switch (find_overlap(hca->mappings, start, bytes, &extent)) {
	case OVERLAP_INSIDE:
		return extent;
	case OVERLAP_PARTLY:
		return NULL;
	case OVERLAP_NONE:
		break;
	}
	return exchange(hca, index, start, bytes);
}

static void publish(struct hca *hca, uint32_t index, const struct extent *extent, uintptr_t start,
		    uint64_t bytes)
{
	struct mr_mapping *mapping = arena_mapping(hca->arena) + index;

	mapping->first = start;
	mapping->pool = extent->pool + (start - extent->start);
	atomic_store_explicit(&mapping->bytes, bytes, memory_order_release);
}

/* Not where each packet is to be seen (VERBATIM_TRACE), and not where other ways are asked for. */
static bool is_wanted(const struct hca *hca)
{
	return hca->mappings && hca->memory == hca->memory_inner &&
	       strcmp(hca->config.memory, "copy") && strcmp(hca->config.memory, "ring");
}

void mapping_add(struct hca *hca, const struct mr *mr)
{
	uintptr_t address = (uintptr_t)mr->ibv.addr;
	uintptr_t start = (address + MEMORY_PAGE - 1) & ~(uintptr_t)(MEMORY_PAGE - 1);
	uintptr_t end = (address + mr->ibv.length) & ~(uintptr_t)(MEMORY_PAGE - 1);
	uint32_t index = mr_index_of(mr->ibv.lkey);
	struct extent *extent;

	if (!is_wanted(hca) || !(mr->access & ACCESS_REMOTE) || !address || end <= start ||
	    end - start > REGION_BYTES_MAX)
		return;
	lock_acquire(&hca->mappings->lock);
	extent = extent_for(hca, index, start, end - start);
	if (extent) {
		extent->regions++;
		publish(hca, index, extent, start, end - start);
		counter_add(hca->counters, COUNTER_MAPPED_REGIONS, 1);
	}
	lock_release(&hca->mappings->lock);
}

/* ---- the way back ---- */

static void dissolve(struct mappings *mappings, struct extent *extent) REQUIRES(mappings->lock)
{
	int err = memory_unshare(mappings->pool_fd, extent->pool, extent->bytes);

	if (err) {
		/* Its place in the pool is lost, its content is not. */
		log_warn("memory at %p stays shared: error %d", (void *)extent->start, err);
		return;
	}
	memory_punch(mappings->pool_fd, extent->pool, extent->bytes);
	list_remove(&extent->node);
	free(extent);
}

void mapping_remove(struct hca *hca, uint32_t index)
{
	struct mr_mapping *mapping;
	struct extent *extent = NULL;
	uint64_t bytes;

	if (!hca->mappings)
		return;
	mapping = arena_mapping(hca->arena) + index;
	bytes = atomic_load_explicit(&mapping->bytes, memory_order_relaxed);
	if (!bytes)
		return;
	lock_acquire(&hca->mappings->lock);
	atomic_store_explicit(&mapping->bytes, 0, memory_order_relaxed);
	if (find_overlap(hca->mappings, mapping->first, bytes, &extent) != OVERLAP_NONE &&
	    --extent->regions == 0)
		dissolve(hca->mappings, extent);
	lock_release(&hca->mappings->lock);
}

/* ---- fork ---- */

void mappings_before_fork(struct hca *hca) UNCHECKED_LOCKS
{
	struct mappings *mappings = hca->mappings;

	if (!mappings)
		return;
	lock_acquire(&mappings->lock);
	mappings->forking = !list_empty(&mappings->extents) && !pipe(mappings->fork_pipe);
}

void mappings_after_fork_parent(struct hca *hca) UNCHECKED_LOCKS
{
	struct mappings *mappings = hca->mappings;
	char byte;

	if (!mappings)
		return;
	if (mappings->forking) {
		close(mappings->fork_pipe[1]);
		/* The end of the pipe: the child is ready, or dead. */
		while (read(mappings->fork_pipe[0], &byte, 1) < 0 && errno == EINTR)
			;
		close(mappings->fork_pipe[0]);
	}
	lock_release(&mappings->lock);
}

void mappings_after_fork_child(struct hca *hca) UNCHECKED_LOCKS
{
	struct mappings *mappings = hca->mappings;

	if (!mappings)
		return;
	memory_unshare(mappings->pool_fd, 0, POOL_BYTES);
	if (mappings->forking) {
		close(mappings->fork_pipe[0]);
		close(mappings->fork_pipe[1]);
	}
	close(mappings->pool_fd);
}

/* ---- begin and end ---- */

int mappings_open(struct hca *hca)
{
	struct mappings *mappings = calloc(1, sizeof(*mappings));
	struct rlimit limit;
	void *pool;
	int err;

	if (!mappings)
		return ENOMEM;
	/* A file beyond this limit would be answered by a signal. */
	if (getrlimit(RLIMIT_FSIZE, &limit) || limit.rlim_cur < POOL_BYTES)
		err = EFBIG;
	else
		err = memory_shared("verbatim-pool", POOL_BYTES, &pool, &mappings->pool_fd);
	if (err) {
		free(mappings);
		return err;
	}
	memory_release(pool, POOL_BYTES, -1);
	lock_init(&mappings->lock);
	list_init(&mappings->extents);
	hca->mappings = mappings;
	return 0;
}

void mappings_close(struct hca *hca)
{
	struct mappings *mappings = hca->mappings;

	if (!mappings)
		return;
	lock_acquire(&mappings->lock);
	memory_unshare(mappings->pool_fd, 0, POOL_BYTES);
	while (!list_empty(&mappings->extents)) {
		struct extent *extent = list_entry(mappings->extents.next, struct extent, node);

		list_remove(&extent->node);
		free(extent);
	}
	lock_release(&mappings->lock);
	lock_destroy(&mappings->lock);
	close(mappings->pool_fd);
	free(mappings);
	hca->mappings = NULL;
}
