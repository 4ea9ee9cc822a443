/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Hazards: what a process is accessing in another one's memory just now, told in memory that both
 * share, so that the owner can wait until nobody does (after it made the key invalid).
 *
 *	accessor			owner
 *	hazard = key			key becomes invalid
 *	full fence (F3)			full fence (F4)
 *	is the key valid? (else stop)	wait while any hazard names the key
 *	access
 *	hazard = 0 (R3, release)	(A3, acquire)
 *
 * One of the two sees the other. Each process writes its own hazards only; one that died naming a key
 * is recognised by its hang-up, not here.
 */
#ifndef VERBATIM_HOST_HAZARD_H
#define VERBATIM_HOST_HAZARD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define HAZARDS 16u	/* accesses of a process to another one at a time */

struct hazard_table {
	struct {
		_Alignas(64) _Atomic uint64_t use;	/* rkey << 32 | QPN of the owner's QP */
	} slot[HAZARDS];
};

/* Which of our slots are taken, by which thread whatever: in memory of our own. */
struct hazard_owner {
	struct hazard_table *table;
	_Atomic uint32_t taken;
};

/* Publish. False: HAZARDS accesses are under way. */
static inline bool hazard_begin(struct hazard_owner *owner, uint32_t rkey, uint32_t qpn,
				unsigned *slot)
{
	uint32_t taken = atomic_load_explicit(&owner->taken, memory_order_relaxed);
	unsigned free;

	do {
		free = (unsigned)__builtin_ctz(~taken);
		if (free >= HAZARDS)
			return false;
	} while (!atomic_compare_exchange_weak_explicit(&owner->taken, &taken, taken | 1u << free,
							memory_order_acquire,
							memory_order_relaxed));
	/* F3: on x86 the exchange is the fence, and cheaper than a store and one */
	atomic_exchange(&owner->table->slot[free].use, (uint64_t)rkey << 32 | qpn);
	atomic_thread_fence(memory_order_seq_cst);
	*slot = free;
	return true;
}

static inline void hazard_end(struct hazard_owner *owner, unsigned slot)
{
	atomic_store_explicit(&owner->table->slot[slot].use, 0, memory_order_release);	/* R3 */
	atomic_fetch_and_explicit(&owner->taken, ~(1u << slot), memory_order_release);
}

/* Does @table name this key (of whatever QP), or this QP (@rkey 0)? After a full fence (F4). */
static inline bool hazard_names(const struct hazard_table *table, uint32_t rkey, uint32_t qpn)
{
	unsigned i;

	for (i = 0; i < HAZARDS; i++) {
		uint64_t use = atomic_load_explicit(&table->slot[i].use, memory_order_acquire);	/* A3 */

		if (use && (rkey ? use >> 32 == rkey : (use & 0xffffffff) == qpn))
			return true;
	}
	return false;
}

#endif
