/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One peer's regions that were granted to us (control.h), by key and by grant, with their blocks
 * that are mapped here. The thread that holds the progress lock writes; any thread looks up,
 * without a lock.
 *
 *	peer_region_find	copies the entry of the key
 *	hazard_begin		names its grant, and the QP's
 *	peer_region_holds	checks that it is unchanged and alive	-> access -> hazard_end
 */
#ifndef VERBATIM_LOCAL_GRANT_PEER_MEMORY_H
#define VERBATIM_LOCAL_GRANT_PEER_MEMORY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "local/grant/control.h"
#include "local/grant/grant.h"
#include "local/grant/hazard.h"

/* A consistent copy of an entry. */
struct peer_region {
	uint64_t version;		/* changes with each message of the peer about it */
	uint32_t id, key, pd, access;
	uint64_t start, length;		/* addresses as named by requests */
	uint64_t host;			/* in the owner's address space */
	uint8_t *mapped;		/* where @start is mapped here; NULL: not */
	uint64_t block, block_bytes;	/* all of the mapping: where in the owner's space */
	uint8_t *block_mapped;
	bool writable;
};

struct peer_memory;

/* @alive: the peer's, of its side; @hazards: ours. NULL: no memory. */
struct peer_memory *peer_memory_new(const struct grant_page *alive, const struct hazard_table *hazards);
/* A new life of the channel: nothing is known. No hazard of ours is left. */
void peer_memory_reset(struct peer_memory *memory);
/* When no thread uses it any more. */
void peer_memory_free(struct peer_memory *memory);

/* Any thread. False: not known, or it has ended. */
bool peer_region_find(const struct peer_memory *memory, uint32_t key, struct peer_region *region);
bool peer_region_by_id(const struct peer_memory *memory, uint32_t id, struct peer_region *region);
/* After a hazard that names it. True: it may be accessed as in @region until the hazard ends. */
bool peer_region_holds(const struct peer_memory *memory, const struct peer_region *region);
/* The same of what was copied from the region with this @id and @version. */
bool peer_version_holds(const struct peer_memory *memory, uint32_t id, uint64_t version);
/* Is any region of the peer mapped here? */
bool peer_regions_mapped(const struct peer_memory *memory);
/* Count a use of an unknown key. True: ask for the key now; false: it was asked for lately. */
bool peer_key_try_ask(struct peer_memory *memory, uint32_t key);
/* Questions got lost: each key may be asked for at its next use. */
void peer_keys_ask_again(struct peer_memory *memory);

/* With the progress lock. @fd: the block's descriptor, ours to close; -1: none. */
void peer_region_add(struct peer_memory *memory, const struct control *control, int fd);
void peer_region_remove(struct peer_memory *memory, uint32_t id);

#endif
