/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The arena: one block of memory of this process that holds the region table, the state of QPs that
 * is read without their locks, and the counters. No other process sees it.
 *
 *	header | counters | mr_entry[MR_TABLE_SIZE] | qp_access[QP_TABLE_SIZE]
 *
 * Only touched pages cost memory.
 */
#ifndef VERBATIM_OBJECT_ARENA_H
#define VERBATIM_OBJECT_ARENA_H

#include <assert.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/counters.h"
#include "wire/qpn.h"

#define ARENA_MAGIC	0x56425241u	/* "VBRA" */
#define ARENA_VERSION	3u

#define MR_INDEX_BITS	18
#define MR_TABLE_SIZE	(1u << MR_INDEX_BITS)
#define QP_SLOTS	8u			/* that a process may hold (host/slot.h) */
#define QP_TABLE_SIZE	(QP_SLOTS * QP_PER_SLOT)

/* What each QP counts (qp_counter.def). */
enum qp_counter {
#define QP_COUNTER(id, name) QP_COUNTER_##id,
#define QP_COUNTS(id, row)
#include "object/qp_counter.def"
#undef QP_COUNTER
#undef QP_COUNTS
	QP_COUNTERS, QP_COUNTER_NONE = QP_COUNTERS
};

enum mr_kind { MR_FREE, MR_REGION, MR_WINDOW_1, MR_WINDOW_2, MR_NULL };

/* A region or window. Written by the owner under mr_table->lock; key is written last. */
struct mr_entry {
	/*
	 * Full 32-bit key while alive, 0 when dead. An access increments @users, then loads @key
	 * (mr_access_begin(), mr_describe()); deregistration stores 0, then loads @users
	 * (mr_entry_kill(), mr_entry_drain()). All four are seq_cst: one of the two sees the other.
	 * mr_entry_publish() stores it behind the fields below.
	 */
	_Atomic uint32_t key;
	uint32_t kind;			/* enum mr_kind */
	uint32_t access;		/* enum ibv_access_flags */
	uint32_t pd;			/* number of the protection domain */
	uint64_t start;			/* first address as named in SGEs and on the wire;
					 * MR_NULL: what takes writes */
	uint64_t length;		/* bytes */
	uint64_t host;			/* where @start lies in the owner's address space; MR_NULL: zeros */
	uint32_t qpn;			/* MR_WINDOW_2: the QP it is bound on; else 0 */
	uint32_t parent;		/* windows: index of the region bound to */
	_Atomic uint32_t windows;	/* regions: windows bound */
	/*
	 * Accesses in progress: deregistration waits for 0, and sees then (release) that they are
	 * over.
	 */
	_Atomic uint32_t users;
	uint32_t last_key;		/* of the index's latest use: the next tag differs */
	/*
	 * Regions: number of the QP that keeps it (struct mr_kept), MR_KEPT_BY_SOME of several; 0: none
	 * does. Stored with @users raised, read when they are 0.
	 */
	_Atomic uint32_t kept_by;
};
static_assert(sizeof(struct mr_entry) == 64, "an entry is a cache line");

/* State of a QP that is read without its lock. */
struct qp_access {
	_Atomic uint32_t qpn;		/* 0: none */
	/*
	 * enum ibv_qp_state. Stored under qp->lock (qp_set_state()), loaded by qp_post_recv() and
	 * device/qp_post.c as a hint.
	 */
	_Atomic uint32_t state;
	/* qp_access_flags: stored under qp->lock, not loaded yet */
	_Atomic uint32_t access;
	uint32_t pd;
	uint32_t type;			/* enum ibv_qp_type */
	uint32_t dest_qpn;
	_Atomic uint32_t established;	/* in RTR: the first packet has come (COMM_EST was raised) */
	_Atomic uint32_t tally[QP_COUNTERS];	/* stored under qp->lock, read by statistics */
	_Atomic uint32_t last_error;	/* enum ibv_wc_status: of what failed by itself; 0: nothing has */
};
static_assert(sizeof(struct qp_access) == 64, "an entry is a cache line");

struct arena {
	uint32_t magic, version;
	uint64_t bytes;			/* of the whole arena */
	uint64_t counters_offset, mr_offset, qp_offset;
	uint32_t counter_count, mr_count, qp_count, pid;
};

/* Bytes to allocate (zeroed) for an arena. */
size_t arena_bytes(void);
/* Lay out a zeroed block of arena_bytes() at @memory; returns it. */
struct arena *arena_init(void *memory, uint32_t pid);

static inline struct counters *arena_counters(struct arena *arena)
{
	return (struct counters *)((char *)arena + arena->counters_offset);
}

static inline struct mr_entry *arena_mr(struct arena *arena)
{
	return (struct mr_entry *)((char *)arena + arena->mr_offset);
}

static inline struct qp_access *arena_qp(struct arena *arena)
{
	return (struct qp_access *)((char *)arena + arena->qp_offset);
}

#endif
