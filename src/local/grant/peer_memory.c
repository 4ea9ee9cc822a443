/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The table of one peer's regions (peer_memory.h). The grant's index is the entry's; keys are
 * mapped to it by a hash without chains: of two keys that collide the later one is found.
 *
 * One thread changes an entry: version 0, fields, version (R9, release). A reader loads the version
 * (A9, acquire), the fields, and the version again: equal versions mean consistent fields. Versions
 * are ours and never repeat; grant ids are the peer's, and may. A mapping is removed when its entry
 * is gone and no hazard of ours names its grant: a reader publishes its hazard before its last look
 * at the version.
 */
#include "local/grant/peer_memory.h"

#include <stdlib.h>
#include <unistd.h>

#include "platform/memory.h"

#define KEYS_SIZE	(2 * GRANTS_MAX)
#define ASKED_SIZE	256u
#define ASK_EVERY	64u		/* uses of an unknown key between questions */

struct entry {
	/*
	 * 0: there is none. Stored (R9, release) by peer_region_add() behind the other fields,
	 * loaded (A9) by entry_read() before and after it reads them; peer_region_holds() checks
	 * again, behind a hazard, that entry_clear() has not stored 0.
	 */
	_Atomic uint64_t version;
	_Atomic uint32_t id, key, pd, access;
	_Atomic uint64_t start, length, host, block, block_bytes;
	uint8_t *_Atomic block_mapped;
	_Atomic bool writable;
};

struct retired {
	struct retired *next;
	uint32_t id;
	uint8_t *mapped;
	size_t bytes;
};

struct asked {
	_Atomic uint32_t key, uses;
};

struct peer_memory {
	const struct grant_page *alive;
	const struct hazard_table *hazards;
	struct retired *retired;
	uint64_t versions;		/* so far */
	_Atomic unsigned mapped;	/* entries whose block is */
	/* + 1; stored behind the entry, which is checked anyway */
	_Atomic uint16_t index_of[KEYS_SIZE];
	struct asked asked[ASKED_SIZE];
	struct entry entry[GRANTS_MAX];
};

#define LOAD(field)		atomic_load_explicit(&(field), memory_order_relaxed)
#define STORE(field, value)	atomic_store_explicit(&(field), value, memory_order_relaxed)

struct peer_memory *peer_memory_new(const struct grant_page *alive, const struct hazard_table *hazards)
{
	struct peer_memory *memory = calloc(1, sizeof(*memory));

	if (memory) {
		memory->alive = alive;
		memory->hazards = hazards;
	}
	return memory;
}

static unsigned hash_of(uint32_t key)
{
	return (key * 0x9e3779b1u) >> 19;
}
_Static_assert(KEYS_SIZE == 1u << 13, "hash_of() gives 13 bits");

/* ---- lookup ---- */

static bool entry_read(const struct entry *entry, struct peer_region *region)
{
	uint64_t skip;

	region->version = atomic_load_explicit(&entry->version, memory_order_acquire);	/* A9 */
	if (!region->version)
		return false;
	region->id = LOAD(entry->id);
	region->key = LOAD(entry->key);
	region->pd = LOAD(entry->pd);
	region->access = LOAD(entry->access);
	region->start = LOAD(entry->start);
	region->length = LOAD(entry->length);
	region->host = LOAD(entry->host);
	region->block = LOAD(entry->block);
	region->block_bytes = LOAD(entry->block_bytes);
	region->block_mapped = LOAD(entry->block_mapped);
	region->writable = LOAD(entry->writable);
	atomic_thread_fence(memory_order_acquire);
	if (LOAD(entry->version) != region->version)
		return false;
	skip = region->host - region->block;
	region->mapped = region->block_mapped ? region->block_mapped + skip : NULL;
	return true;
}

bool peer_region_find(const struct peer_memory *memory, uint32_t key, struct peer_region *region)
{
	uint16_t index = atomic_load_explicit(&memory->index_of[hash_of(key)], memory_order_acquire);

	/* KEY_GONE may be lost when the ring is full, so alive[] decides. */
	return index && entry_read(&memory->entry[index - 1], region) && region->key == key &&
	       grant_is_alive(memory->alive, region->id);
}

bool peer_region_by_id(const struct peer_memory *memory, uint32_t id, struct peer_region *region)
{
	return entry_read(&memory->entry[grant_index(id)], region) && region->id == id;
}

bool peer_version_holds(const struct peer_memory *memory, uint32_t id, uint64_t version)
{
	return atomic_load_explicit(&memory->entry[grant_index(id)].version, memory_order_seq_cst) ==	/* L3 */
		       version && grant_is_alive(memory->alive, id);
}

bool peer_region_holds(const struct peer_memory *memory, const struct peer_region *region)
{
	return peer_version_holds(memory, region->id, region->version);
}

bool peer_regions_mapped(const struct peer_memory *memory)
{
	return LOAD(memory->mapped) != 0;
}

/* Approximate: keys share places, and threads race for the count. */
bool peer_key_try_ask(struct peer_memory *memory, uint32_t key)
{
	struct asked *asked = &memory->asked[hash_of(key) % ASKED_SIZE];
	uint32_t uses = LOAD(asked->uses) + 1;

	if (LOAD(asked->key) != key) {
		STORE(asked->key, key);
		uses = 0;
	}
	STORE(asked->uses, uses);
	return uses % ASK_EVERY == 0;
}

void peer_keys_ask_again(struct peer_memory *memory)
{
	unsigned i;

	for (i = 0; i < ASKED_SIZE; i++)
		STORE(memory->asked[i].key, 0);
}

/* ---- changes ---- */

static void peer_memory_sweep(struct peer_memory *memory)
{
	struct retired **link = &memory->retired, *retired;

	atomic_thread_fence(memory_order_seq_cst);	/* F7: versions were cleared before */
	while ((retired = *link)) {
		if (hazard_names(memory->hazards, retired->id)) {
			link = &retired->next;
			continue;
		}
		*link = retired->next;
		memory_release(retired->mapped, retired->bytes, -1);
		free(retired);
	}
}

static void entry_clear(struct peer_memory *memory, struct entry *entry)
{
	uint8_t *mapped = LOAD(entry->block_mapped);

	if (!LOAD(entry->version))
		return;
	atomic_store_explicit(&entry->version, 0, memory_order_seq_cst);
	if (mapped) {
		struct retired *retired = malloc(sizeof(*retired));

		/* Without memory for the note it stays mapped, which is harmless. */
		if (retired) {
			*retired = (struct retired){ memory->retired, LOAD(entry->id), mapped,
						     LOAD(entry->block_bytes) };
			memory->retired = retired;
		}
		STORE(memory->mapped, LOAD(memory->mapped) - 1);
	}
	STORE(entry->block_mapped, NULL);
}

void peer_region_add(struct peer_memory *memory, const struct control *control, int fd)
{
	struct entry *entry = &memory->entry[grant_index(control->region)];
	void *mapped = NULL;

	entry_clear(memory, entry);
	peer_memory_sweep(memory);
	/* On failure the region is accessed by copies. */
	if (!control->mapped || fd < 0 ||
	    memory_map_sealed(fd, control->block_bytes, control->mapped == 1, &mapped))
		mapped = NULL;
	atomic_thread_fence(memory_order_release);	/* version 0 before the fields */
	STORE(entry->id, control->region);
	STORE(entry->key, control->key);
	STORE(entry->pd, control->pd);
	STORE(entry->access, control->access);
	STORE(entry->start, control->start);
	STORE(entry->length, control->length);
	STORE(entry->host, control->host);
	STORE(entry->block, control->block);
	STORE(entry->block_bytes, control->block_bytes);
	STORE(entry->block_mapped, mapped);
	if (mapped)
		STORE(memory->mapped, LOAD(memory->mapped) + 1);
	STORE(entry->writable, control->mapped == 1);
	atomic_store_explicit(&entry->version, ++memory->versions, memory_order_release);	/* R9 */
	atomic_store_explicit(&memory->index_of[hash_of(control->key)],
			      (uint16_t)(grant_index(control->region) + 1), memory_order_release);
	if (fd >= 0)
		close(fd);
}

void peer_region_remove(struct peer_memory *memory, uint32_t id)
{
	struct entry *entry = &memory->entry[grant_index(id)];

	if (LOAD(entry->version) && LOAD(entry->id) == id)
		entry_clear(memory, entry);
	peer_memory_sweep(memory);
}

void peer_memory_reset(struct peer_memory *memory)
{
	unsigned i;

	for (i = 0; i < GRANTS_MAX; i++)
		entry_clear(memory, &memory->entry[i]);
	peer_memory_sweep(memory);
	peer_keys_ask_again(memory);
}

void peer_memory_free(struct peer_memory *memory)
{
	struct retired *retired;
	unsigned i;

	for (i = 0; i < GRANTS_MAX; i++)
		if (LOAD(memory->entry[i].block_mapped))
			memory_release(LOAD(memory->entry[i].block_mapped),
				       LOAD(memory->entry[i].block_bytes), -1);
	while ((retired = memory->retired)) {
		memory->retired = retired->next;
		memory_release(retired->mapped, retired->bytes, -1);
		free(retired);
	}
	free(memory);
}
