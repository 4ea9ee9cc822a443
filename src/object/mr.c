/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The region table: indices and keys, registration, deregistration, re-registration.
 *
 * An entry is read without a lock by every access (access.c). The order of stores makes that safe:
 * to change an entry, its owner stores key 0, waits until users is 0, changes it, and stores the
 * key last; an access counts itself in users first and looks at the key again after. So either
 * the access sees the dead key, or the owner sees the access.
 *
 * A QP that has kept the region (struct mr_kept) is not counted, and looks at no key. It has kept it
 * while it was counted: so behind the wait for users the owner knows who has, and takes the lock of
 * each to end that. What the QP does there afterwards it does without the region; what it did
 * before, the lock puts in front.
 */
#include "object/mr.h"

#include <assert.h>
#include <errno.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/log.h"
#include "base/range.h"
#include "object/mr_internal.h"
#include "object/placement.h"

#define TRIES 64u	/* of random indices, before the next free one is taken */
#define TABLES_BYTES	(2 * MR_TABLE_SIZE * sizeof(void *))	/* regions, and their blocks */

#define ACCESS_REMOTE_CHANGE	(IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)
#define ACCESS_KNOWN \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
	 IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED | \
	 IBV_ACCESS_ON_DEMAND | IBV_ACCESS_HUGETLB | ACCESS_FLUSH_GLOBAL | IBV_ACCESS_OPTIONAL_RANGE)

int mr_table_init(struct mr_table *table, struct arena *arena, uint64_t seed)
{
	/* Zeros that cost nothing until they are touched. */
	void *tables = mmap(NULL, TABLES_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (tables == MAP_FAILED)
		return ENOMEM;
	lock_init(&table->lock);
	table->block = tables;
	table->mr = (void *)(table->block + MR_TABLE_SIZE);
	table->entry = arena_mr(arena);
	table->count = table->regions = 0;
	table->region_bytes = 0;
	table->end_kept = NULL;
	table->random = NULL;
	table->random_state = seed;
	return 0;
}

void mr_table_free(struct mr_table *table)
{
	lock_destroy(&table->lock);
	munmap(table->block, TABLES_BYTES);
	table->block = NULL;
	table->mr = NULL;
}

/* Unpredictable from known keys; in tests from a seed, by splitmix64. */
static uint64_t mr_next_random(struct mr_table *table) REQUIRES(table->lock)
{
	uint64_t z;

	if (table->random)
		return table->random();
	z = table->random_state += 0x9e3779b97f4a7c15u;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

int mr_entry_take(struct mr_table *table, uint32_t *index)
{
	struct mr_entry *entry;
	uint32_t at = 0, tries = 0;

	if (table->count == MR_TABLE_SIZE - 1)
		return ENOMEM;
	table->count++;
	do
		at = tries++ < TRIES ? (uint32_t)(mr_next_random(table) >> (64 - MR_INDEX_BITS)) :
				       (at + 1) % MR_TABLE_SIZE;
	while (!at || table->entry[at].kind != MR_FREE);	/* 0 stays unused: no key is 0, no parent */
	*index = at;
	entry = &table->entry[at];
	assert(!mr_key_of(entry));
	/* users and last_key stay: a late reader may be counting itself in and out of the dead entry. */
	entry->access = entry->pd = entry->qpn = entry->parent = 0;
	entry->start = entry->length = entry->host = 0;
	atomic_store_explicit(&entry->windows, 0, memory_order_relaxed);
	return 0;
}

void mr_entry_give(struct mr_table *table, uint32_t index)
{
	table->entry[index].kind = MR_FREE;
	table->count--;
}

uint32_t mr_key_make(struct mr_table *table, uint32_t index)
{
	uint32_t upper_count = 1u << (MR_TAG_BITS - MR_CONSUMER_BITS);
	uint32_t last = table->entry[index].last_key >> MR_CONSUMER_BITS;
	uint64_t random = mr_next_random(table);
	uint32_t step = 1 + (uint32_t)(random >> 32) % (upper_count - 1);
	uint32_t upper = (last + step) % upper_count;

	return index << MR_TAG_BITS | upper << MR_CONSUMER_BITS |
	       ((uint32_t)random & ((1u << MR_CONSUMER_BITS) - 1));
}

void mr_entry_publish(struct mr_entry *entry, uint32_t key)
{
	entry->last_key = key;
	atomic_store_explicit(&entry->key, key, memory_order_seq_cst);
}

void mr_entry_kill(struct mr_entry *entry)
{
	atomic_store_explicit(&entry->key, 0, memory_order_seq_cst);
}

void mr_entry_drain(const struct mr_entry *entry)
{
	while (atomic_load_explicit(&entry->users, memory_order_seq_cst))
		sched_yield();
}

/*
 * Wait until no access is in progress: first by our own threads, which may be granting the region
 * to another process; then by those processes. This may wait for a stopped process: so no lock is
 * held, and windows, which packets invalidate, are never granted (mr_describe).
 */
static void mr_wait_for_accesses(const struct mr_table *table, struct mr_entry *entry)
	EXCLUDES(table->lock)
{
	uint32_t by;

	mr_entry_drain(entry);
	by = atomic_exchange_explicit(&entry->kept_by, 0, memory_order_relaxed);
	if (by && table->end_kept)
		table->end_kept(table->keeper, by, entry->last_key);
	if (table->drain_peers)
		table->drain_peers(table->peers, entry->last_key);
}

static void forget_block(struct mr_table *table, uint32_t index)
{
	void *block = atomic_exchange_explicit(&table->block[index], NULL, memory_order_acq_rel);

	if (block && table->forget)
		table->forget(table->peers, block);
}

uint64_t mr_host(const struct mr_table *table, const struct mr *mr)
{
	return table->entry[mr_index_of(mr->ibv.lkey)].host;
}

void *mr_block(const struct mr_table *table, uint32_t key)
{
	return atomic_load_explicit(&table->block[mr_index_of(key)], memory_order_acquire);
}

void mr_set_block(struct mr_table *table, const struct mr *mr, void *block)
{
	/* After ibv_rereg_mr() peers may be asking for it already. */
	atomic_store_explicit(&table->block[mr_index_of(mr->ibv.lkey)], block, memory_order_release);
}

static int mr_check_access(const char *call, unsigned access)
{
	char text[MR_ACCESS_TEXT_MAX];

	if (access & ACCESS_FLUSH_PERSISTENT) {
		explain("%s: IBV_ACCESS_FLUSH_PERSISTENT needs persistent memory, which a "
			"software device has not: use IBV_ACCESS_FLUSH_GLOBAL", call);
		return EOPNOTSUPP;
	}
	if (access & ~(unsigned)ACCESS_KNOWN) {
		explain("%s: access 0x%x has unknown bits 0x%x", call, access,
			access & ~(unsigned)ACCESS_KNOWN);
		return EINVAL;
	}
	if (access & ACCESS_REMOTE_CHANGE && !(access & IBV_ACCESS_LOCAL_WRITE)) {
		explain("%s: access %s lets peers change memory that the device may not write: "
			"add IBV_ACCESS_LOCAL_WRITE", call,
			mr_access_text(access, text, sizeof(text)));
		return EINVAL;
	}
	return 0;
}

static uint64_t entry_bytes(const struct mr_entry *entry)
{
	return entry->kind == MR_NULL ? 0 : entry->length;
}

static void mr_enter(struct mr_table *table, uint32_t index, struct mr *mr) REQUIRES(table->lock)
{
	table->mr[index] = mr;
	table->regions++;
	table->region_bytes += entry_bytes(&table->entry[index]);
}

static void mr_leave(struct mr_table *table, uint32_t index) REQUIRES(table->lock)
{
	table->mr[index] = NULL;
	table->regions--;
	table->region_bytes -= entry_bytes(&table->entry[index]);
}

static int mr_check_range(const char *call, const void *address, size_t length, uint64_t iova)
{
	if (range_wraps((uintptr_t)address, length)) {
		explain("%s: address %p and length %zu go past the end of the address space", call,
			address, length);
		return EINVAL;
	}
	if (range_wraps(iova, length)) {
		explain("%s: iova 0x%llx and length %zu go past 2^64", call,
			(unsigned long long)iova, length);
		return EINVAL;
	}
	return 0;
}

static void mr_say_full(const char *call)
{
	explain("%s: all %u keys of the process are in use: deregister regions, or use fewer and larger ones",
		call, MR_TABLE_SIZE - 1);
}

int mr_register(struct mr_table *table, struct pd *pd, void *address, size_t length,
		uint64_t iova, unsigned access, struct mr *mr)
{
	uint64_t start = access & IBV_ACCESS_ZERO_BASED ? 0 : iova;
	struct mr_entry *entry;
	uint32_t index, key = 0;
	int err;

	err = mr_check_access("ibv_reg_mr", access);
	if (!err)
		err = mr_check_range("ibv_reg_mr", address, length, start);
	if (err)
		return err;

	lock_acquire(&table->lock);
	err = mr_entry_take(table, &index);
	if (!err) {
		entry = &table->entry[index];
		key = mr_key_make(table, index);
		entry->kind = MR_REGION;
		entry->access = access;
		entry->pd = pd->number;
		entry->start = start;
		entry->length = length;
		entry->host = (uintptr_t)address;
		mr_enter(table, index, mr);
		mr_entry_publish(entry, key);
	}
	lock_release(&table->lock);
	if (err) {
		mr_say_full("ibv_reg_mr");
		return err;
	}
	atomic_fetch_add(&pd->users, 1);
	mr->ibv.pd = &pd->ibv;
	mr->ibv.addr = address;
	mr->ibv.length = length;
	mr->ibv.handle = index;
	mr->ibv.lkey = mr->ibv.rkey = key;
	mr->access = access;
	return 0;
}

int mr_register_null(struct mr_table *table, struct pd *pd, const void *zeros, void *sink, struct mr *mr)
{
	struct mr_entry *entry;
	uint32_t index, key = 0;
	int err;

	lock_acquire(&table->lock);
	err = mr_entry_take(table, &index);
	if (!err) {
		entry = &table->entry[index];
		key = mr_key_make(table, index);
		entry->kind = MR_NULL;
		entry->access = IBV_ACCESS_LOCAL_WRITE;
		entry->pd = pd->number;
		entry->start = (uintptr_t)sink;
		entry->length = NULL_MR_BYTES;
		entry->host = (uintptr_t)zeros;
		mr_enter(table, index, mr);
		mr_entry_publish(entry, key);
	}
	lock_release(&table->lock);
	if (err) {
		mr_say_full("ibv_alloc_null_mr");
		return err;
	}
	atomic_fetch_add(&pd->users, 1);
	mr->ibv.pd = &pd->ibv;
	mr->ibv.addr = NULL;
	mr->ibv.length = SIZE_MAX;
	mr->ibv.handle = index;
	mr->ibv.lkey = key;
	mr->ibv.rkey = 0;
	mr->access = IBV_ACCESS_LOCAL_WRITE;
	return 0;
}

int mr_deregister(struct mr_table *table, struct mr *mr)
{
	uint32_t index = mr_index_of(mr->ibv.lkey);
	struct mr_entry *entry = &table->entry[index];
	uint32_t windows;

	lock_acquire(&table->lock);
	assert(mr_key_of(entry) == mr->ibv.lkey && (entry->kind == MR_REGION || entry->kind == MR_NULL));
	windows = atomic_load_explicit(&entry->windows, memory_order_relaxed);
	if (!windows)
		mr_entry_kill(entry);
	lock_release(&table->lock);
	if (windows) {
		explain_refused_of("ibv_dereg_mr", EBUSY, OF(MR, mr->ibv.lkey),
				"ibv_dereg_mr: %u memory windows are bound to the region with "
				"lkey 0x%08x: invalidate or deallocate them first", windows, mr->ibv.lkey);
		return EBUSY;
	}
	mr_wait_for_accesses(table, entry);
	forget_block(table, index);

	lock_acquire(&table->lock);
	mr_leave(table, index);
	mr_entry_give(table, index);
	lock_release(&table->lock);
	atomic_fetch_sub(&to_pd(mr->ibv.pd)->users, 1);
	return 0;
}

/* A region's new values. */
struct region {
	uint32_t access, pd;
	uint64_t start, length, host;
};

static int check_rereg(const struct mr *mr, int flags, const struct pd *pd, const void *address,
		       size_t length, unsigned access)
{
	if (!flags || flags & ~IBV_REREG_MR_FLAGS_SUPPORTED) {
		explain_refused("ibv_rereg_mr", EINVAL,
				"ibv_rereg_mr: invalid flags 0x%x: expected one or more of "
			"IBV_REREG_MR_CHANGE_TRANSLATION, _PD and _ACCESS", flags);
		return EINVAL;
	}
	if (flags & IBV_REREG_MR_CHANGE_PD && !pd) {
		explain_refused_of("ibv_rereg_mr", EINVAL, OF(MR, mr->ibv.lkey),
				"ibv_rereg_mr: lkey 0x%08x: IBV_REREG_MR_CHANGE_PD needs a pd",
				mr->ibv.lkey);
		return EINVAL;
	}
	if (flags & IBV_REREG_MR_CHANGE_TRANSLATION && (!address || !length)) {
		explain_refused_of("ibv_rereg_mr", EINVAL, OF(MR, mr->ibv.lkey),
				"ibv_rereg_mr: lkey 0x%08x: IBV_REREG_MR_CHANGE_TRANSLATION "
				"needs an address and a length", mr->ibv.lkey);
		return EINVAL;
	}
	return flags & IBV_REREG_MR_CHANGE_ACCESS ? mr_check_access("ibv_rereg_mr", access) : 0;
}

static struct region rereg_target(const struct mr_entry *entry, int flags, const struct pd *pd,
				  const void *address, size_t length, unsigned access)
{
	struct region new = { entry->access, entry->pd, entry->start, entry->length, entry->host };
	bool moved = flags & IBV_REREG_MR_CHANGE_TRANSLATION;

	if (flags & IBV_REREG_MR_CHANGE_ACCESS)
		new.access = access;
	if (flags & IBV_REREG_MR_CHANGE_PD)
		new.pd = pd->number;
	if (moved) {
		new.host = (uintptr_t)address;
		new.length = length;
	}
	if (new.access & IBV_ACCESS_ZERO_BASED)
		new.start = 0;
	else if (moved || entry->access & IBV_ACCESS_ZERO_BASED)
		new.start = new.host;
	return new;
}

int mr_reregister(struct mr_table *table, struct mr *mr, int flags, struct pd *pd,
		  void *address, size_t length, unsigned access)
{
	struct mr_entry *entry = &table->entry[mr_index_of(mr->ibv.lkey)];
	struct region new;
	int err;

	if (entry->kind == MR_NULL) {
		explain_refused_of("ibv_rereg_mr", EINVAL, OF(MR, mr->ibv.lkey),
				"ibv_rereg_mr: lkey 0x%08x is of a null region, which has "
				"nothing to change", mr->ibv.lkey);
		return EINVAL;
	}
	err = check_rereg(mr, flags, pd, address, length, access);
	if (!err && flags & IBV_REREG_MR_CHANGE_TRANSLATION)
		err = mr_check_range("ibv_rereg_mr", address, length, (uintptr_t)address);
	if (err)
		return err;

	lock_acquire(&table->lock);
	if (atomic_load_explicit(&entry->windows, memory_order_relaxed)) {
		err = EBUSY;
	} else {
		new = rereg_target(entry, flags, pd, address, length, access);
		mr_entry_kill(entry);
	}
	lock_release(&table->lock);
	if (!err) {
		mr_wait_for_accesses(table, entry);
		/* The memory it leaves is the application's alone, as after deregistration. */
		if (flags & IBV_REREG_MR_CHANGE_TRANSLATION)
			forget_block(table, mr_index_of(mr->ibv.lkey));
		lock_acquire(&table->lock);
		table->region_bytes += new.length - entry->length;
		entry->access = new.access;
		entry->pd = new.pd;
		entry->start = new.start;
		entry->length = new.length;
		entry->host = new.host;
		mr_entry_publish(entry, entry->last_key);
		lock_release(&table->lock);
	} else {
		explain_of(OF(MR, mr->ibv.lkey),
			"ibv_rereg_mr: memory windows are bound to the region with lkey 0x%08x: "
			"invalidate or deallocate them first", mr->ibv.lkey);
		return err;
	}
	mr->access = new.access;
	mr->ibv.addr = (void *)(uintptr_t)new.host;
	mr->ibv.length = new.length;
	if (flags & IBV_REREG_MR_CHANGE_PD) {
		atomic_fetch_add(&pd->users, 1);
		atomic_fetch_sub(&to_pd(mr->ibv.pd)->users, 1);
		mr->ibv.pd = &pd->ibv;
	}
	return 0;
}
