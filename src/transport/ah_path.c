/* SPDX-License-Identifier: BSD-2-Clause */
/* Paths of address handles. See ah_path.h. */
#include "transport/ah_path.h"

#include <stdlib.h>
#include <string.h>

#include "object/arena.h"
#include "wire/packet.h"

struct ah_path {
	struct ah_path *next;
	struct path *path;
	struct path_table *table;
	uint32_t slot;
};

/* Slot 0 is never a Verbatim process: such peers are never asked for echoes. */
static uint32_t slot_of(uint32_t qpn)
{
	return qpn_slot(qpn);
}

static void ah_path_release(struct ah *ah)
{
	struct ah_path *entry = atomic_load_explicit(&ah->paths, memory_order_relaxed), *next;

	for (; entry; entry = next) {
		next = entry->next;
		path_put(entry->table, entry->path);
		free(entry);
	}
}

/* R1: synchronizes with A1, so that a found entry is seen whole. */
struct path *ah_path_find(const struct ah *ah, uint32_t qpn)
{
	const struct ah_path *entry = atomic_load_explicit(&ah->paths, memory_order_acquire);
	uint32_t slot = slot_of(qpn);

	for (; entry; entry = entry->next)
		if (entry->slot == slot)
			return entry->path;
	return NULL;
}

static struct ah_path *entry_new(const struct ah *ah, uint32_t slot, struct path_table *table)
{
	struct path_key key = { .slot = slot };
	struct ah_path *entry = malloc(sizeof(*entry));

	if (!entry)
		return NULL;
	if (slot == slot_of(QPN_MULTICAST))
		key = path_key_of_group(path_group(ah->route.destination));
	else
		memcpy(key.destination, ah->route.destination, sizeof(key.destination));
	*entry = (struct ah_path){ .table = table, .slot = slot, .path = path_get(table, &key) };
	if (!entry->path) {
		free(entry);
		return NULL;
	}
	return entry;
}

/*
 * Two threads may add an entry for the same slot: both name the same path, the newer is found.
 * Without memory there is no path, and these datagrams are not flow controlled.
 */
void ah_path_prepare(struct ah *ah, uint32_t qpn, struct path_table *table)
{
	struct ah_path *entry;

	if (slot_of(qpn) == 0 || ah_path_find(ah, qpn))
		return;
	entry = entry_new(ah, slot_of(qpn), table);
	if (!entry)
		return;
	atomic_store_explicit(&ah->release, ah_path_release, memory_order_relaxed);
	entry->next = atomic_load_explicit(&ah->paths, memory_order_relaxed);
	/* A1: synchronizes with R1. */
	while (!atomic_compare_exchange_weak_explicit(&ah->paths, &entry->next, entry,
						      memory_order_release, memory_order_relaxed))
		;
}
