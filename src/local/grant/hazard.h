/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Hazards: the grants (grant.h) of another process's memory that a process is using at this moment,
 * published in its side of the channel, so that the owner can wait until no access is left.
 *
 *	accessor			owner
 *	hazard = grants			grant dies: alive[] = 0
 *	full fence (F3)			full fence (F4)
 *	are they alive? (else stop)	wait while any hazard names the grant
 *	access
 *	hazard = 0 (R3, release)	(A3, acquire)
 *
 * One of the two sees the other. Each process writes its own hazards only. The owner waits for a
 * bounded time: then it shuts the channel's guard page, without which no copy begins (drain.c).
 */
#ifndef VERBATIM_LOCAL_GRANT_HAZARD_H
#define VERBATIM_LOCAL_GRANT_HAZARD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define HAZARDS 16u	/* concurrent accesses of a process to another one */

struct hazard_table {
	struct {
		/*
		 * Region's grant << 32 | QP's grant. The exchange in hazard_begin() is a full fence
		 * (F3) before alive[] is looked at; its partner is F4, between alive[] and
		 * hazard_names(); or F7 for our own table. 0 is stored (R3) behind the access, and
		 * loaded (A3) by the owner before the memory gets another use.
		 */
		_Alignas(64) _Atomic uint64_t use;
	} slot[HAZARDS];
};

/*
 * Publish in any free slot of ours; @hint spreads concurrent threads. False: all are in use. One
 * exchange claims and publishes, and is the full fence (F3).
 */
static inline bool hazard_begin(struct hazard_table *table, uint32_t region, uint32_t qp,
				unsigned hint, unsigned *slot)
{
	uint64_t use = (uint64_t)region << 32 | qp;
	unsigned i;

	for (i = 0; i < HAZARDS; i++) {
		uint64_t none = 0;

		*slot = (hint + i) % HAZARDS;
		if (atomic_compare_exchange_strong_explicit(&table->slot[*slot].use, &none, use,
							    memory_order_seq_cst,	/* F3 */
							    memory_order_relaxed))
			return true;
	}
	return false;
}

static inline void hazard_end(struct hazard_table *table, unsigned slot)
{
	atomic_store_explicit(&table->slot[slot].use, 0, memory_order_release);	/* R3 */
}

/* Is any slot in use? For our own table. */
static inline bool hazard_any(const struct hazard_table *table)
{
	unsigned i;

	for (i = 0; i < HAZARDS; i++)
		if (atomic_load_explicit(&table->slot[i].use, memory_order_acquire))
			return true;
	return false;
}

/* Does @table name the grant @id, of a region or of a QP? After a full fence (F4, F7). */
static inline bool hazard_names(const struct hazard_table *table, uint32_t id)
{
	unsigned i;

	for (i = 0; i < HAZARDS; i++) {
		uint64_t use = atomic_load_explicit(&table->slot[i].use, memory_order_acquire);	/* A3 */

		if (use && (use >> 32 == id || (use & 0xffffffff) == id))
			return true;
	}
	return false;
}

#endif
