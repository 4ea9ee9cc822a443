/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Decides, in one place, whether an access to memory is allowed, for local SGEs and for all
 * requests of peers (IBTA 10.6.3, 9.7.4.1.5..7), and explains refusals.
 *
 * On the path of every packet: two atomic additions on the entry's own cache line, no lock. The
 * head of mr.c explains why that is enough.
 */
#include <assert.h>
#include <stdio.h>

#include "object/mr_internal.h"
#include "object/placement.h"

/* What a peer can ask for: FLUSH to persistence, too, which a QP may permit and no region grants. */
#define ACCESS_REMOTE \
	(IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC | ACCESS_FLUSH_GLOBAL | \
	 ACCESS_FLUSH_PERSISTENT)
#define ACCESS_RIGHTS	(IBV_ACCESS_LOCAL_WRITE | ACCESS_REMOTE)

static bool in_bounds(const struct mr_entry *entry, uint64_t address, uint64_t length)
{
	uint64_t offset = address - entry->start;

	/* No sum is formed, so nothing can wrap. */
	return address >= entry->start && offset <= entry->length &&
	       length <= entry->length - offset;
}

static enum mr_fault access_check_region(const struct mr_entry *entry,
					 const struct mr_accessor *accessor, unsigned need,
					 uint64_t address, uint64_t length)
{
	if (entry->pd != accessor->pd)
		return MR_PD;
	if (entry->kind != MR_REGION) {
		if (entry->kind == MR_NULL)
			return need & ~entry->access ? MR_ACCESS : length > entry->length ? MR_BOUNDS : MR_OK;
		/* A window has only an rkey, and admits QPs of its PD, or (type 2) the QP it is bound on. */
		if (!entry->parent)
			return MR_UNBOUND;
		if (entry->kind == MR_WINDOW_2 && entry->qpn != accessor->qpn)
			return MR_QP;
		if (!need || need & ~(unsigned)ACCESS_REMOTE)
			return MR_ACCESS;
	}
	if (need & ~entry->access)
		return MR_ACCESS;
	if (!in_bounds(entry, address, length))
		return MR_BOUNDS;
	return MR_OK;
}

/* Where an access that was allowed finds @address. */
static void *access_host(const struct mr_entry *entry, unsigned need, uint64_t address)
{
	if (entry->kind == MR_NULL)
		return (void *)(uintptr_t)(need ? entry->start : entry->host);
	return (void *)(uintptr_t)(entry->host + (address - entry->start));
}

enum mr_fault mr_entry_judge(const struct mr_entry *entry, const struct mr_accessor *accessor, uint32_t key,
			     unsigned need, uint64_t address, uint64_t length, uint64_t *host)
{
	enum mr_fault fault = !key || mr_key_of(entry) != key ? MR_KEY :
			      access_check_region(entry, accessor, need, address, length);

	*host = fault == MR_OK ? (uintptr_t)access_host(entry, need, address) : 0;
	return fault;
}

uint32_t mr_entry_index(uint32_t key)
{
	return mr_index_of(key);
}

enum mr_fault mr_access_begin(struct mr_table *table, const struct mr_accessor *accessor,
			      uint32_t key, unsigned need, uint64_t address, uint64_t length,
			      struct mr_access *access)
{
	struct mr_entry *entry = &table->entry[mr_index_of(key)];
	enum mr_fault fault = MR_KEY;

	assert(!(need & ~(unsigned)ACCESS_RIGHTS));
	if (!key || mr_key_of(entry) != key)
		return MR_KEY;
	atomic_fetch_add_explicit(&entry->users, 1, memory_order_seq_cst);
	if (atomic_load_explicit(&entry->key, memory_order_seq_cst) == key)
		fault = access_check_region(entry, accessor, need, address, length);
	if (fault != MR_OK) {
		atomic_fetch_sub_explicit(&entry->users, 1, memory_order_release);
		return fault;
	}
	access->host = access_host(entry, need, address);
	access->entry = entry;
	return MR_OK;
}

enum mr_fault mr_access_move(struct mr_access *access, const struct mr_accessor *accessor,
			     uint32_t key, unsigned need, uint64_t address, uint64_t length)
{
	const struct mr_entry *entry = access->entry;
	enum mr_fault fault;

	/* Dead key: deregistration waits for this access; no new one may start. */
	if (atomic_load_explicit(&entry->key, memory_order_seq_cst) != key)
		return MR_KEY;
	fault = access_check_region(entry, accessor, need, address, length);
	if (fault == MR_OK)
		access->host = access_host(entry, need, address);
	return fault;
}

enum mr_fault mr_access_whole(struct mr_table *table, const struct mr_accessor *accessor, uint32_t key,
			      unsigned need)
{
	struct mr_entry *entry = &table->entry[mr_index_of(key)];
	enum mr_fault fault = MR_KEY;

	if (!key || mr_key_of(entry) != key)
		return MR_KEY;
	atomic_fetch_add_explicit(&entry->users, 1, memory_order_seq_cst);
	if (atomic_load_explicit(&entry->key, memory_order_seq_cst) == key)
		fault = access_check_region(entry, accessor, need, entry->start, 0);
	atomic_fetch_sub_explicit(&entry->users, 1, memory_order_release);
	return fault;
}

bool mr_describe(struct mr_table *table, uint32_t key, struct mr_description *description)
{
	struct mr_entry *entry = &table->entry[mr_index_of(key)];

	if (!key || mr_key_of(entry) != key)
		return false;
	atomic_fetch_add_explicit(&entry->users, 1, memory_order_seq_cst);
	if (atomic_load_explicit(&entry->key, memory_order_seq_cst) != key ||
	    entry->kind != MR_REGION) {
		atomic_fetch_sub_explicit(&entry->users, 1, memory_order_release);
		return false;
	}
	*description = (struct mr_description){ .entry = entry, .key = key, .access = entry->access,
						.pd = entry->pd, .start = entry->start,
						.length = entry->length, .host = entry->host,
						.block = atomic_load_explicit(
							&table->block[mr_index_of(key)],
							memory_order_acquire) };
	return true;
}

void mr_describe_end(struct mr_description *description)
{
	atomic_fetch_sub_explicit(&description->entry->users, 1, memory_order_release);
	description->entry = NULL;
}

bool mr_access_in_block(const struct mr_table *table, const struct mr_access *access)
{
	return atomic_load_explicit(&table->block[access->entry - table->entry], memory_order_relaxed);
}

void mr_access_end(struct mr_access *access)
{
	uint32_t before = atomic_fetch_sub_explicit(&access->entry->users, 1, memory_order_release);

	assert(before > 0);
	(void)before;
	access->entry = NULL;
}

void mr_keep(struct mr_table *table, const struct mr_access *access, uint32_t qpn, struct mr_kept *kept)
{
	struct mr_entry *entry = access->entry;
	uint32_t by = atomic_load_explicit(&entry->kept_by, memory_order_relaxed);

	/* Windows are invalidated under locks of QPs, so that nobody could wait for them. */
	if (entry->kind != MR_REGION || !table->end_kept)
		return;
	/* Of a QP that goes from region to region it is noted in each: no locked instruction then. */
	if (!by && atomic_compare_exchange_strong_explicit(&entry->kept_by, &by, qpn, memory_order_relaxed,
							   memory_order_relaxed))
		by = qpn;
	if (by != qpn && by != MR_KEPT_BY_SOME)
		atomic_store_explicit(&entry->kept_by, MR_KEPT_BY_SOME, memory_order_relaxed);
	*kept = (struct mr_kept){ .key = entry->last_key, .in_block = mr_access_in_block(table, access),
				  .start = entry->start, .length = entry->length, .host = entry->host };
}

const char *mr_access_text(unsigned access, char *text, size_t size)
{
	static const struct {
		unsigned bit;
		const char *name;
	} names[] = {
		{ IBV_ACCESS_LOCAL_WRITE,	"IBV_ACCESS_LOCAL_WRITE" },
		{ IBV_ACCESS_REMOTE_WRITE,	"IBV_ACCESS_REMOTE_WRITE" },
		{ IBV_ACCESS_REMOTE_READ,	"IBV_ACCESS_REMOTE_READ" },
		{ IBV_ACCESS_REMOTE_ATOMIC,	"IBV_ACCESS_REMOTE_ATOMIC" },
		{ IBV_ACCESS_MW_BIND,		"IBV_ACCESS_MW_BIND" },
		{ IBV_ACCESS_ZERO_BASED,	"IBV_ACCESS_ZERO_BASED" },
		{ ACCESS_FLUSH_GLOBAL,		"IBV_ACCESS_FLUSH_GLOBAL" },
		{ ACCESS_FLUSH_PERSISTENT,	"IBV_ACCESS_FLUSH_PERSISTENT" },
	};
	size_t used = 0;

	snprintf(text, size, "nothing");
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (!(access & names[i].bit) || used >= size)
			continue;
		used += (size_t)snprintf(text + used, size - used, "%s%s", used ? "|" : "",
					 names[i].name);
	}
	return text;
}

static const char *kind_text(const struct mr_entry *entry)
{
	return entry->kind == MR_REGION ? "region" : entry->kind == MR_NULL ? "null region" : "window";
}

static void explain_access(const struct mr_entry *entry, uint32_t key, unsigned need, char *line,
			   size_t size)
{
	char has[MR_ACCESS_TEXT_MAX], lacks[MR_ACCESS_TEXT_MAX];
	bool any = entry->access & ACCESS_RIGHTS;

	if (entry->kind == MR_NULL) {
		snprintf(line, size,
			 "key 0x%08x is of a null region, which has no rkey: peers cannot name it",
			 key);
		return;
	}
	if (entry->kind != MR_REGION && (!need || need & ~(unsigned)ACCESS_REMOTE)) {
		snprintf(line, size, "key 0x%08x is the rkey of a memory window, which is for "
			 "peers only: name the lkey of its region in SGEs", key);
		return;
	}
	mr_access_text(entry->access & ACCESS_RIGHTS, has, sizeof(has));
	mr_access_text(need & ~entry->access, lacks, sizeof(lacks));
	snprintf(line, size, "key 0x%08x is of a %s [0x%llx, +%llu) that grants %s%s%s: %s "
		 "it with that flag", key, kind_text(entry), (unsigned long long)entry->start,
		 (unsigned long long)entry->length, any ? has : "no right, thus not ",
		 any ? " but not " : "", lacks,
		 entry->kind == MR_REGION ? "register" : "bind");
}

static void explain_bounds(const struct mr_entry *entry, uint32_t key, uint64_t address,
			   uint64_t length, char *line, size_t size)
{
	const char *how = "ends past its end";

	if (address + (length ? length - 1 : 0) < address)
		how = "goes past 2^64";
	else if (address < entry->start)
		how = "begins before it";
	else if (address - entry->start >= entry->length)
		how = "begins past its end";
	snprintf(line, size, "key 0x%08x is of a %s [0x%llx, +%llu); the access [0x%llx, +%llu) "
		 "%s%s", key, kind_text(entry), (unsigned long long)entry->start,
		 (unsigned long long)entry->length, (unsigned long long)address,
		 (unsigned long long)length, how,
		 entry->access & IBV_ACCESS_ZERO_BASED ?
		 " (IBV_ACCESS_ZERO_BASED: addresses are offsets from its start)" : "");
}

void mr_explain(struct mr_table *table, const struct mr_accessor *accessor, uint32_t key,
		unsigned need, uint64_t address, uint64_t length, enum mr_fault fault, char *line,
		size_t size)
{
	static const char *const owner[] = { [MR_DOMAIN_QP] = "", [MR_DOMAIN_SRQ] = "the SRQ of ",
					     [MR_DOMAIN_WQ] = "the work queue of " };
	const struct mr_entry *entry = &table->entry[mr_index_of(key)];
	uint32_t reversed = __builtin_bswap32(key);

	lock_acquire(&table->lock);
	if (!key || mr_key_of(entry) != key)
		fault = MR_KEY;
	switch (fault) {
	case MR_KEY:
		if (reversed && mr_key_of(&table->entry[mr_index_of(reversed)]) == reversed)
			snprintf(line, size, "key 0x%08x has its bytes in the wrong order, 0x%08x names a %s "
				 "of this process: a key that was sent by htonl() is read by ntohl()", key,
				 reversed, kind_text(&table->entry[mr_index_of(reversed)]));
		else
			snprintf(line, size, "key 0x%08x (address 0x%llx length %llu) names no region or "
				 "window of this process: it was deregistered, or is not a key of this "
				 "process", key, (unsigned long long)address, (unsigned long long)length);
		break;
	case MR_PD:
		snprintf(line, size,
			 "key 0x%08x belongs to protection domain %u, %sqp 0x%06x to %u: "
			 "create both with one ibv_pd",
			 key, entry->pd, owner[accessor->domain], accessor->qpn, accessor->pd);
		break;
	case MR_ACCESS:
		explain_access(entry, key, need, line, size);
		break;
	case MR_BOUNDS:
		explain_bounds(entry, key, address, length, line, size);
		break;
	case MR_QP:
		snprintf(line, size, "key 0x%08x is of a type 2 window bound on qp 0x%06x, but was "
			 "used on qp 0x%06x", key, entry->qpn, accessor->qpn);
		break;
	case MR_UNBOUND:
		snprintf(line, size, "key 0x%08x is of a memory window that is not bound or was "
			 "invalidated: bind it first (IBV_WR_BIND_MW or ibv_bind_mw)", key);
		break;
	case MR_OK:
		snprintf(line, size, "key 0x%08x address 0x%llx length %llu: the access was allowed", key,
			 (unsigned long long)address, (unsigned long long)length);
	}
	lock_release(&table->lock);
}
