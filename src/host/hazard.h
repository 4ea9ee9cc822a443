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

/*
 * Publish, in any free slot of ours; @hint spreads those who do so at once. False: all are in use.
 * Claiming and publishing are one exchange, which is the full fence too (F3).
 */
static inline bool hazard_begin(struct hazard_table *table, uint32_t rkey, uint32_t qpn,
				unsigned hint, unsigned *slot)
{
	uint64_t use = (uint64_t)rkey << 32 | qpn;
	unsigned i;

	for (i = 0; i < HAZARDS; i++) {
		uint64_t none = 0;

		*slot = (hint + i) % HAZARDS;
		if (atomic_compare_exchange_strong(&table->slot[*slot].use, &none, use))
			return true;
	}
	return false;
}

static inline void hazard_end(struct hazard_table *table, unsigned slot)
{
	atomic_store_explicit(&table->slot[slot].use, 0, memory_order_release);	/* R3 */
}

/* Is anything in use? To be asked of one's own table. */
static inline bool hazard_any(const struct hazard_table *table)
{
	unsigned i;

	for (i = 0; i < HAZARDS; i++)
		if (atomic_load_explicit(&table->slot[i].use, memory_order_acquire))
			return true;
	return false;
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
