/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Regions in the pool (mapping.h). An extent is a run of pages that was exchanged; regions that lie in
 * one share it, and with the last of them its pages become private again. Device memory (dm.c) has
 * extents of its own, in which nothing is exchanged.
 *
 * Exchanging pages is safe while nobody writes to them: not another thread of the application (there
 * is none, or VERBATIM_MEMORY=mapped vouches for it), not a peer (nobody has the key yet, and no other
 * region covers them), not a signal handler (blocked). The way back needs no such care.
 */
#include "hca/mapping.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "object/mr_internal.h"
#include "platform/memory.h"
#include "platform/memory_swap.h"

#define REGION_BYTES_MAX	(UINT64_C(1) << 32)
#define LOCAL_BYTES_MIN		(UINT64_C(64) << 10)	/* of regions without remote rights */
#define LOCAL_BYTES_MAX		(UINT64_C(256) << 20)
#define REGIONS_MAX		4096u	/* beyond these, looking for overlaps costs too much */
#define OUR_THREADS		1u	/* the worker */
#define RECLAIM_AT		64u	/* retired extents worth a look at /proc/self/maps */
#define RETIRED_MAX		1024u	/* each is a mapping, of which a process may have 65530 */
#define ACCESS_REMOTE \
	(IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)

struct extent {
	struct list node;		/* by pool offset */
	uintptr_t start;
	uint64_t bytes, pool;
	uint32_t regions;		/* 0: its pages could not be made private, and will be */
	bool own;			/* device memory: no page was exchanged, none becomes private */
	bool retired;			/* its pages are private, its place in the pool is not free */
	bool doubtful;			/* becoming private has failed once: halfway, perhaps */
	bool mapped;			/* reclaim() */
};

struct mappings {
	struct lock lock;
	struct list extents;
	unsigned retired, reclaim_at, stuck;
	int pool_fd;
	int fork_pipe[2];		/* made with the first extent: at fork() it may be too late */
	bool has_pipe, forking;
};

int mappings_pool_fd(const struct hca *hca)
{
	return hca->mappings ? hca->mappings->pool_fd : -1;
}

static bool has_fork_pipe(struct mappings *mappings) REQUIRES(mappings->lock)
{
	if (!mappings->has_pipe)
		mappings->has_pipe = !pipe2(mappings->fork_pipe, O_CLOEXEC);
	return mappings->has_pipe;
}

/* ---- extents ---- */

enum overlap { OVERLAP_NONE, OVERLAP_INSIDE, OVERLAP_PARTLY };

static enum overlap find_overlap(struct mappings *mappings, uintptr_t start, uint64_t bytes,
				 struct extent **found) REQUIRES(mappings->lock)
{
	struct list *node;

	list_for_each(node, &mappings->extents) {
		struct extent *extent = list_entry(node, struct extent, node);

		if (extent->retired || start >= extent->start + extent->bytes ||
		    extent->start >= start + bytes)
			continue;
		*found = extent;
		return start >= extent->start && start + bytes <= extent->start + extent->bytes ?
			       OVERLAP_INSIDE : OVERLAP_PARTLY;
	}
	return OVERLAP_NONE;
}

static void remove_extent(struct mappings *mappings, struct extent *extent) REQUIRES(mappings->lock)
{
	mappings->retired -= extent->retired;
	list_remove(&extent->node);
	free(extent);
}

/* A mapping of the pool: the retired extents under it are in use. */
static void note_mapped(void *context, uint64_t offset, uint64_t bytes)
{
	struct mappings *mappings = context;
	struct list *node;

	list_for_each(node, &mappings->extents) {
		struct extent *extent = list_entry(node, struct extent, node);

		if (extent->pool < offset + bytes && offset < extent->pool + extent->bytes)
			extent->mapped = true;
	}
}

/* Places of retired extents that nobody in this process maps any more can be used again. */
static void reclaim(struct mappings *mappings) REQUIRES(mappings->lock)
{
	struct list *node, *next;

	list_for_each(node, &mappings->extents)
		list_entry(node, struct extent, node)->mapped = false;
	if (memory_each_mapping(mappings->pool_fd, note_mapped, mappings))
		return;
	for (node = mappings->extents.next; node != &mappings->extents; node = next) {
		struct extent *extent = list_entry(node, struct extent, node);

		next = node->next;
		if (extent->retired && !extent->mapped)
			remove_extent(mappings, extent);
	}
	mappings->reclaim_at = mappings->retired + RECLAIM_AT;
}

/* A gap of the pool, first fit; the extents are in its order. UINT64_MAX: there is none. */
static uint64_t find_gap(struct mappings *mappings, uint64_t bytes, struct list **before)
	REQUIRES(mappings->lock)
{
	uint64_t pool = 0;
	struct list *node;

	list_for_each(node, &mappings->extents) {
		const struct extent *next = list_entry(node, struct extent, node);

		if (next->pool - pool >= bytes)
			break;
		pool = next->pool + next->bytes;
	}
	*before = node;
	return POOL_BYTES - pool >= bytes ? pool : UINT64_MAX;
}

/* NULL: no memory, or no place is left. */
static struct extent *make_extent(struct mappings *mappings, uint64_t bytes)
	REQUIRES(mappings->lock)
{
	struct extent *extent;
	struct list *node;
	uint64_t pool;

	if (mappings->retired >= mappings->reclaim_at)
		reclaim(mappings);
	pool = find_gap(mappings, bytes, &node);
	if (pool == UINT64_MAX && mappings->retired) {
		reclaim(mappings);
		pool = find_gap(mappings, bytes, &node);
	}
	extent = pool == UINT64_MAX ? NULL : malloc(sizeof(*extent));
	if (!extent)
		return NULL;
	*extent = (struct extent){ .bytes = bytes, .pool = pool };
	list_add_tail(node, &extent->node);	/* before @node */
	return extent;
}

/* ---- may it be mapped? ---- */

/* The calling thread is the application's only one. */
static bool is_alone(void)
{
	unsigned count = memory_thread_count();

	return count && count <= 1 + OUR_THREADS;
}

static bool writers_are_known(const struct hca *hca)
{
	return !strcmp(hca->config.memory, "mapped") || is_alone();
}

/*
 * Does another region lie over these pages? A peer may be writing to it just now, even if its key is
 * dead already: whoever deregisters it may still be waiting for that peer.
 */
static bool other_region_covers(struct hca *hca, uint32_t self, uintptr_t start, uint64_t bytes)
{
	const struct mr_entry *entry = arena_mr(hca->arena);
	uint32_t count, i;
	bool found = false;

	lock_acquire(&hca->mrs.lock);
	count = hca->mrs.fresh;
	for (i = 0; i < count && count <= REGIONS_MAX && !found; i++)
		found = i != self && entry[i].kind == MR_REGION &&
			entry[i].host < start + bytes && start < entry[i].host + entry[i].length;
	lock_release(&hca->mrs.lock);
	return found || count > REGIONS_MAX;
}

static struct extent *exchange(struct hca *hca, uint32_t index, uintptr_t start, uint64_t bytes)
	REQUIRES(hca->mappings->lock)
{
	int pool_fd = hca->mappings->pool_fd;
	struct extent *extent;
	int err;

	if (!has_fork_pipe(hca->mappings) || !writers_are_known(hca) ||
	    other_region_covers(hca, index, start, bytes) ||
	    !memory_is_ordinary((void *)start, bytes, pool_fd))
		return NULL;
	extent = make_extent(hca->mappings, bytes);
	if (!extent)
		return NULL;
	extent->start = start;
	err = hca->mappings->retired >= RETIRED_MAX ? ENOSPC :
	      memory_share((void *)start, bytes, pool_fd, extent->pool);
	if (!err)
		return extent;
	log_info("region at %p is not mapped by peers: error %d", (void *)start, err);
	memory_punch(pool_fd, extent->pool, bytes);
	remove_extent(hca->mappings, extent);
	return NULL;
}

static struct extent *extent_for(struct hca *hca, uint32_t index, uintptr_t start, uint64_t bytes)
	REQUIRES(hca->mappings->lock)
{
	struct extent *extent = NULL;

	switch (find_overlap(hca->mappings, start, bytes, &extent)) {
	case OVERLAP_INSIDE:
		if (extent->own)
			return extent;
		/* Memory that was unmapped while registered may be other memory by now. */
		return memory_is_shared((void *)start, bytes, hca->mappings->pool_fd,
					extent->pool + (start - extent->start)) ? extent : NULL;
	case OVERLAP_PARTLY:
		return NULL;
	case OVERLAP_NONE:
		break;
	}
	return exchange(hca, index, start, bytes);
}

/* ---- the way back ---- */

/* @index: of the region that was the last in it. */
static void dissolve(struct hca *hca, uint32_t index, struct extent *extent)
	REQUIRES(hca->mappings->lock)
{
	struct mappings *mappings = hca->mappings;
	bool quiet = is_alone() && !other_region_covers(hca, index, extent->start, extent->bytes);
	bool stays;
	int err = memory_unshare(mappings->pool_fd, extent->pool, extent->bytes, quiet, &stays);

	if (err) {
		log_warn("memory at %p stays shared for now: error %d", (void *)extent->start, err);
		extent->doubtful = true;
		mappings->stuck++;
		return;
	}
	memory_punch(mappings->pool_fd, extent->pool, extent->bytes);
	if (!stays && !extent->doubtful) {
		remove_extent(hca->mappings, extent);
		return;
	}
	extent->retired = true;
	mappings->retired++;
}

/* What could not be made private before (no descriptor was to be had, or no memory). */
static void retry_stuck(struct hca *hca) REQUIRES(hca->mappings->lock)
{
	struct mappings *mappings = hca->mappings;
	struct list *node, *next;

	if (!mappings->stuck)
		return;
	mappings->stuck = 0;
	for (node = mappings->extents.next; node != &mappings->extents; node = next) {
		struct extent *extent = list_entry(node, struct extent, node);

		next = node->next;
		if (!extent->regions && !extent->retired && !extent->own)
			dissolve(hca, 0, extent);
	}
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
	    --extent->regions == 0 && !extent->own)
		dissolve(hca, index, extent);
	lock_release(&hca->mappings->lock);
}

/* ---- a new region ---- */

static void publish(struct hca *hca, uint32_t index, const struct extent *extent, uintptr_t start,
		    uint64_t bytes)
{
	struct mr_mapping *mapping = arena_mapping(hca->arena) + index;

	mapping->first = start;
	mapping->pool = extent->pool + (start - extent->start);
	atomic_store_explicit(&mapping->bytes, bytes, memory_order_release);
}

/* Not where each packet is to be seen (VERBATIM_TRACE), and not where other ways are asked for. */
bool mapping_is_wanted(const struct hca *hca)
{
	return hca->mappings && hca->direct && strcmp(hca->config.memory, "copy");
}

/*
 * Peers read and write where they have a right to; of what has no such rights they fetch large
 * messages (message.h), which is worth an exchange of some pages, but not of many.
 */
static bool is_worth_it(const struct mr *mr)
{
	return (mr->access & ACCESS_REMOTE) ||
	       (mr->ibv.length >= LOCAL_BYTES_MIN && mr->ibv.length <= LOCAL_BYTES_MAX);
}

void mapping_add(struct hca *hca, const struct mr *mr)
{
	uintptr_t address = (uintptr_t)mr->ibv.addr, last = MEMORY_PAGE - 1;
	/* The whole pages in it; of device memory the whole pages that it lies in. */
	uintptr_t start = (address + (mr->dm ? 0 : last)) & ~last;
	uintptr_t end = (address + mr->ibv.length + (mr->dm ? last : 0)) & ~last;
	uint32_t index = mr_index_of(mr->ibv.lkey);
	struct extent *extent;

	if (!mapping_is_wanted(hca) || !is_worth_it(mr) || !address || end <= start ||
	    end - start > REGION_BYTES_MAX)
		return;
	lock_acquire(&hca->mappings->lock);
	retry_stuck(hca);
	extent = extent_for(hca, index, start, end - start);
	if (extent) {
		extent->regions++;
		publish(hca, index, extent, start, end - start);
		counter_add(hca->counters, COUNTER_MAPPED_REGIONS, 1);
	}
	lock_release(&hca->mappings->lock);
}

/* ---- device memory ---- */

int mapping_take(struct hca *hca, size_t bytes, size_t alignment, uint8_t **memory)
{
	struct mappings *mappings = hca->mappings;
	struct extent *extent;
	int err = ENOMEM;

	lock_acquire(&mappings->lock);
	extent = has_fork_pipe(mappings) ? make_extent(mappings, bytes) : NULL;
	if (extent) {
		extent->own = true;
		err = memory_aligned(mappings->pool_fd, extent->pool, bytes, alignment, memory);
		if (err)
			remove_extent(mappings, extent);
		else
			extent->start = (uintptr_t)*memory;
	}
	lock_release(&mappings->lock);
	return err;
}

void mapping_give(struct hca *hca, uint8_t *memory)
{
	struct mappings *mappings = hca->mappings;
	struct extent *extent = NULL;

	lock_acquire(&mappings->lock);
	if (find_overlap(mappings, (uintptr_t)memory, 1, &extent) == OVERLAP_INSIDE && extent->own) {
		memory_release(memory, extent->bytes, -1);
		memory_punch(mappings->pool_fd, extent->pool, extent->bytes);
		remove_extent(mappings, extent);
	}
	lock_release(&mappings->lock);
}

/* ---- fork ---- */

/*
 * The parent waits for a byte, or for the end of the pipe if the child dies before. (Not for the end
 * alone: whoever else inherited the pipe, by a clone() that runs no handlers, may keep it open.)
 */
void mappings_before_fork(struct hca *hca) UNCHECKED_LOCKS
{
	struct mappings *mappings = hca->mappings;

	if (!mappings)
		return;
	lock_acquire(&mappings->lock);
	mappings->forking = !list_empty(&mappings->extents) && has_fork_pipe(mappings);
}

void mappings_after_fork_parent(struct hca *hca) UNCHECKED_LOCKS
{
	struct mappings *mappings = hca->mappings;
	char byte;

	if (!mappings)
		return;
	if (mappings->forking) {
		close(mappings->fork_pipe[1]);
		while (read(mappings->fork_pipe[0], &byte, 1) < 0 && errno == EINTR)
			;
		close(mappings->fork_pipe[0]);
		mappings->has_pipe = false;
		has_fork_pipe(mappings);
	}
	lock_release(&mappings->lock);
}

void mappings_after_fork_child(struct hca *hca) UNCHECKED_LOCKS
{
	struct mappings *mappings = hca->mappings;
	int err;

	if (!mappings)
		return;
	if (mappings->has_pipe)
		close(mappings->fork_pipe[0]);	/* first: a descriptor is needed to read /proc */
	err = memory_leave(mappings->pool_fd);
	if (err)
		log_error("fork: the child shares registered memory with its parent: error %d", err);
	if (mappings->forking && write(mappings->fork_pipe[1], "", 1) < 0)
		log_debug("fork: the parent is gone");
	if (mappings->has_pipe)
		close(mappings->fork_pipe[1]);
	close(mappings->pool_fd);
}

/* ---- begin and end ---- */

int mappings_open(struct hca *hca)
{
	struct mappings *mappings = calloc(1, sizeof(*mappings));
	void *pool;
	int err;

	if (!mappings)
		return ENOMEM;
	err = memory_shared("verbatim-pool", POOL_BYTES, &pool, &mappings->pool_fd);
	if (err) {
		free(mappings);
		return err;
	}
	memory_release(pool, POOL_BYTES, -1);
	lock_init(&mappings->lock);
	list_init(&mappings->extents);
	mappings->reclaim_at = RECLAIM_AT;
	hca->mappings = mappings;
	return 0;
}

void mappings_close(struct hca *hca)
{
	struct mappings *mappings = hca->mappings;
	bool stays;

	if (!mappings)
		return;
	lock_acquire(&mappings->lock);
	if (!list_empty(&mappings->extents))
		memory_unshare(mappings->pool_fd, 0, POOL_BYTES, is_alone(), &stays);
	while (!list_empty(&mappings->extents))
		remove_extent(mappings, list_entry(mappings->extents.next, struct extent, node));
	if (mappings->has_pipe) {
		close(mappings->fork_pipe[0]);
		close(mappings->fork_pipe[1]);
	}
	lock_release(&mappings->lock);
	lock_destroy(&mappings->lock);
	close(mappings->pool_fd);
	free(mappings);
	hca->mappings = NULL;
}
