/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory regions and windows, and the one place that decides whether an access is allowed
 * (IBTA 10.6, 11.2.8; ibv_reg_mr(3), ibv_bind_mw(3)).
 *
 * lkey and rkey of a region are the same number: index << (32 - MR_INDEX_BITS) | tag. Index and tag
 * are random, so that keys cannot be guessed: trying all of them finds one of n regions every 2^32
 * / n tries. The tag changes at each use of an index. Of a window's tag the low 8 bits belong to
 * the consumer (ibv_inc_rkey): 24 bits of its key are unknown.
 *
 * An access in progress holds entry->users; deregistration marks the key dead first and then
 * waits for users to reach 0 (accesses are bounded copies, so this is short).
 */
#ifndef VERBATIM_OBJECT_MR_H
#define VERBATIM_OBJECT_MR_H

#include <infiniband/verbs.h>

#include "base/list.h"
#include "base/lock.h"
#include "object/arena.h"
#include "object/handle.h"
#include "object/pd.h"

/* Returns when no process with direct access to our memory uses @key. */
typedef void mr_drain_fn(void *peers, uint32_t key);

struct mr_table {
	struct lock lock;
	mr_drain_fn *drain_peers;	/* NULL: there are none */
	void (*forget)(void *peers, void *block);	/* a region that had it is gone, or moved elsewhere */
	void *peers;
	/*
	 * QP @qpn, or (MR_KEPT_BY_SOME) each one, uses a region by what it has kept of it: wait for
	 * its lock, and clear what is of @key. NULL: none keeps anything.
	 */
	void (*end_kept)(void *keeper, uint32_t qpn, uint32_t key);
	void *keeper;
	struct mr_entry *entry;		/* [MR_TABLE_SIZE], in the arena */
	/*
	 * [MR_TABLE_SIZE]: of regions; or NULL. Stored (release) by mr_set_block() behind what it
	 * points to, loaded (acquire) by mr_block() and mr_describe(); exchanged for NULL when it is
	 * given back.
	 */
	void *_Atomic *block;
	uint32_t count GUARDED_BY_MEMBER(lock);			/* of entries in use */
	/* For statistics. [MR_TABLE_SIZE]: the region of an index, from registration to deregistration. */
	struct mr **mr GUARDED_BY_MEMBER(lock);
	uint32_t regions GUARDED_BY_MEMBER(lock);
	uint64_t region_bytes GUARDED_BY_MEMBER(lock);	/* without null regions */
	uint64_t (*random)(void);	/* keys are made of it; NULL, in tests: of a seed */
	uint64_t random_state GUARDED_BY_MEMBER(lock);
};

struct dm;

struct mr {
	struct ibv_mr ibv;		/* first */
	uint32_t access;
	/* Set before it is registered: */
	struct dm *dm;			/* device memory that it lies in; NULL: memory of the application */
	void *owner;			/* hca_context */
	uint64_t made_ns;		/* when its key was made (coarse clock) */
	struct handle handle;
};

struct mw {
	struct ibv_mw ibv;		/* first */
	uint32_t index;			/* in the table; survives rkey changes */
	struct list node;
};

static inline struct mr *to_mr(struct ibv_mr *ibv)
{
	return (struct mr *)ibv;
}

static inline struct mw *to_mw(struct ibv_mw *ibv)
{
	return (struct mw *)ibv;
}

/* 0 or ENOMEM. @seed: as long as table->random is not set. */
int mr_table_init(struct mr_table *table, struct arena *arena, uint64_t seed);
void mr_table_free(struct mr_table *table);

/*
 * Users of a protection domain (pd->users) are counted here, for windows too.
 *
 * Register [@address, @address + @length) as @iova (ibv_reg_mr: iova == address;
 * IBV_ACCESS_ZERO_BASED: 0). Fills mr->ibv except context. 0, EINVAL (flags, wrap-around,
 * remote write or atomic without local write), ENOMEM (table full).
 */
int mr_register(struct mr_table *table, struct pd *pd, void *address, size_t length,
		uint64_t iova, unsigned access, struct mr *mr);
/*
 * A null region (ibv_alloc_null_mr(3)): any local address is in it. Reads get zeros, @zeros; what is written
 * goes to @sink. Both have NULL_MR_BYTES. Only the lkey is valid. 0 or ENOMEM.
 */
#define NULL_MR_BYTES	(UINT64_C(1) << 32)	/* more than any element of an SGE list has */
int mr_register_null(struct mr_table *table, struct pd *pd, const void *zeros, void *sink, struct mr *mr);
/* 0, or EBUSY while windows are bound to it. On return no access is in progress. */
int mr_deregister(struct mr_table *table, struct mr *mr);
/*
 * ibv_rereg_mr: @flags of enum ibv_rereg_mr_flags. The key stays; accesses are refused while it
 * lasts. 0, or EINVAL (a null region, too), EBUSY (windows bound): the region is as before then.
 */
int mr_reregister(struct mr_table *table, struct mr *mr, int flags, struct pd *pd,
		  void *address, size_t length, unsigned access);

/* Where the region's first byte lies in this process. */
uint64_t mr_host(const struct mr_table *table, const struct mr *mr);
/*
 * The block of its memory, for granting it (local/move/region.c); passed to table->forget() in the end.
 */
void mr_set_block(struct mr_table *table, const struct mr *mr, void *block);
/* Block of the current or last region at @key's index; NULL: none. */
void *mr_block(const struct mr_table *table, uint32_t key);

int mw_alloc(struct mr_table *table, struct pd *pd, enum ibv_mw_type type, struct mw *mw);
int mw_free(struct mr_table *table, struct mw *mw);

/* Why an access was refused; explanations are written from it (mr_explain). */
enum mr_fault {
	MR_OK,
	MR_KEY,		/* no such key, or dead */
	MR_PD,		/* of another protection domain */
	MR_ACCESS,	/* right not granted */
	MR_BOUNDS,	/* outside, or address + length wraps */
	MR_QP,		/* a type 2 window of another QP */
	MR_UNBOUND,	/* a window that is not bound */
};

/* An access in progress: where the memory is. Held only while copying. */
struct mr_access {
	void *host;
	struct mr_entry *entry;
};

/* Whose protection domain it is: keys of receives are looked up in that of their queue (IBTA 10.2.3). */
enum mr_domain { MR_DOMAIN_QP, MR_DOMAIN_SRQ, MR_DOMAIN_WQ };

/* The QP on whose behalf memory is accessed: its number, and the protection domain that counts. */
struct mr_accessor {
	uint32_t pd, qpn;
	enum mr_domain domain;		/* for explanations */
};

/*
 * May @accessor access [@address, @address + @length) by @key with the rights @need (a mask of
 * IBV_ACCESS_LOCAL_WRITE, REMOTE_READ, REMOTE_WRITE, REMOTE_ATOMIC, FLUSH_GLOBAL; 0 = local read)?
 * @length is over 0: accesses of no bytes are not checked (IBTA 9.4.3: ignore key and address).
 * On MR_OK *access is held until mr_access_end().
 */
enum mr_fault mr_access_begin(struct mr_table *table, const struct mr_accessor *accessor,
			      uint32_t key, unsigned need, uint64_t address, uint64_t length,
			      struct mr_access *access);
void mr_access_end(struct mr_access *access);

/*
 * A region that a QP uses again and again, remembered with the rights that it was used with. Under
 * the QP's lock, which stands for the count of users: as long as @key is set the region is what it
 * was, and deregistration, or a change of it, takes that lock to clear this before it goes on.
 */
struct mr_kept {
	uint32_t key;			/* 0: none, and @length is 0 */
	bool in_block;			/* mr_access_in_block() */
	uint64_t start, length, host;	/* as in struct mr_entry */
};
#define MR_KEPT_BY_SOME UINT32_MAX

/*
 * With the lock of QP @qpn, while the access that mr_access_begin() gave it is held: keep its
 * region. What is no region, or could not be taken back, is not kept.
 */
void mr_keep(struct mr_table *table, const struct mr_access *access, uint32_t qpn, struct mr_kept *kept);

/* Where [@address, +@length), not of 0 bytes, lies, for the rights that were kept; NULL: ask mr_access_begin(). */
static inline void *mr_kept_at(const struct mr_kept *kept, uint32_t key, uint64_t address, uint64_t length)
{
	uint64_t offset = address - kept->start;

	return kept->key == key && offset <= kept->length && length <= kept->length - offset ?
		       (void *)(uintptr_t)(kept->host + offset) : NULL;
}

static inline void mr_kept_clear(struct mr_kept *kept, uint32_t key)
{
	if (kept->key == key)
		*kept = (struct mr_kept){ 0 };
}
/* May @accessor do @need with all of what the key names, wherever it lies? Nothing is held. */
enum mr_fault mr_access_whole(struct mr_table *table, const struct mr_accessor *accessor, uint32_t key,
			      unsigned need);
/* Has the region of the access a block (mr_set_block())? */
bool mr_access_in_block(const struct mr_table *table, const struct mr_access *access);
/*
 * What mr_access_begin() would say of a copy of the entry of @key, of another process's table; *host: where that
 * process has @address. Nothing is held.
 */
enum mr_fault mr_entry_judge(const struct mr_entry *entry, const struct mr_accessor *accessor, uint32_t key,
			     unsigned need, uint64_t address, uint64_t length, uint64_t *host);
uint32_t mr_entry_index(uint32_t key);
/*
 * The same for an access that is held, by the same key, to other bytes: *access names them on MR_OK,
 * and stays as it was otherwise. Costs no locked instruction.
 */
enum mr_fault mr_access_move(struct mr_access *access, const struct mr_accessor *accessor,
			     uint32_t key, unsigned need, uint64_t address, uint64_t length);

/* The key of a window that has @old, after a bind with @wanted: only its low 8 bits are the consumer's. */
#define MR_CONSUMER_BITS 8
#define WINDOW_BYTES_MAX (UINT64_C(1) << 31)	/* of one bind: mlx5's limit */

static inline uint32_t mw_rkey(uint32_t old, uint32_t wanted)
{
	const uint32_t mask = (1u << MR_CONSUMER_BITS) - 1;

	return (old & ~mask) | (wanted & mask);
}

/* Send-queue operations on keys: 0 = done, else the fault, reported as MW_BIND_ERR or LOC_PROT. */
enum mr_fault mw_bind(struct mr_table *table, const struct mr_accessor *accessor, struct mw *mw,
		      uint32_t new_rkey, const struct ibv_mw_bind_info *info);
/*
 * Hold no access when calling these: they wait until the window is unused. They do not touch
 * mw->ibv.rkey, since they may run in another thread than the application's: qp_post_send has set
 * it.
 */
/* LOCAL_INV and SEND_WITH_INV: only type 2 windows bound on this QP may be invalidated. */
enum mr_fault mr_invalidate(struct mr_table *table, const struct mr_accessor *accessor,
			    uint32_t rkey);

/*
 * The region that a key names, for granting it to another process. Held, as by mr_access_begin(), until
 * mr_describe_end(). False: not a live region (windows never are: their invalidation does not wait
 * for other processes).
 */
struct mr_description {
	struct mr_entry *entry;
	uint32_t key, access, pd;
	uint64_t start, length, host;
	void *block;			/* what mr_set_block() gave; or NULL */
};
bool mr_describe(struct mr_table *table, uint32_t key, struct mr_description *description);
void mr_describe_end(struct mr_description *description);

#define MR_LINE_BYTES 320	/* room for a line of mr_explain() */
/* One line for explanations: key, address, length, and which bound or flag it violates. */
void mr_explain(struct mr_table *table, const struct mr_accessor *accessor, uint32_t key,
		unsigned need, uint64_t address, uint64_t length, enum mr_fault fault, char *line,
		size_t size);

#endif
