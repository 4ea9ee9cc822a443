/* SPDX-License-Identifier: BSD-2-Clause */
/* A program's side of its tally: tally.h. Callers take turns; counting needs none. */
#include "image/tally.h"

#include <string.h>

struct tally_entry *tally_find(struct tally *tally, const struct image_path *path, bool multicast)
{
	uint32_t used = atomic_load_explicit(&tally->used, memory_order_relaxed);
	struct tally_entry *entry;

	for (uint32_t i = 0; i < used && i < TALLY_ENTRIES; i++) {
		entry = &tally->entry[i];
		if (entry->crossings == path->crossings && entry->is_multicast == multicast &&
		    !memcmp(entry->exit, path->exit, path->crossings * sizeof(*path->exit)))
			return entry;
	}
	if (used >= TALLY_ENTRIES)
		return NULL;
	entry = &tally->entry[used];
	atomic_store_explicit(&entry->packets, 0, memory_order_relaxed);
	atomic_store_explicit(&entry->words, 0, memory_order_relaxed);
	atomic_store_explicit(&entry->waited_ns, 0, memory_order_relaxed);
	atomic_store_explicit(&entry->full_ns, 0, memory_order_relaxed);
	entry->crossings = (uint16_t)path->crossings;
	entry->is_multicast = multicast;
	memcpy(entry->exit, path->exit, path->crossings * sizeof(*path->exit));
	/* T1: pairs with T2 in the fabric's reading: who sees the number sees the path. */
	atomic_store_explicit(&tally->used, used + 1, memory_order_release);
	return entry;
}
