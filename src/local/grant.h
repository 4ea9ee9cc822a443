/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Grants, as the owner of memory sees them: what the peer of one channel may use of ours. A grant is
 * of a region, made when the peer has presented its key on a QP that is connected to it, or of that QP.
 * Its id is a number that the peer quotes in hazards (hazard.h) and messages; alive[] in our side of the
 * channel says which ids hold. The peer reads alive[]; nothing of this table is in its sight.
 *
 *	id = serial << GRANT_INDEX_BITS | index		alive[index] == id: the grant holds
 *
 * To end a grant: grant_kill(), wait until no hazard of the peer names it, grant_free(). An id does not
 * come back soon: the serial of its index goes up.
 */
#ifndef VERBATIM_LOCAL_GRANT_H
#define VERBATIM_LOCAL_GRANT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/lock.h"

#define GRANT_INDEX_BITS	12
#define GRANTS_MAX		(1u << GRANT_INDEX_BITS)	/* of a channel; beyond: packets */
#define GRANT_BUCKETS		256u

enum grant_kind { GRANT_NONE, GRANT_REGION, GRANT_QP };

/* What our side of the channel says of our grants. */
struct grant_page {
	/*
	 * Stored (release) by grant_make(); 0 by grant_kill() and pairing_end(), before the full
	 * fence F4 and a look at the hazards; loaded by grant_is_alive() behind a hazard and F3.
	 */
	_Atomic uint32_t alive[GRANTS_MAX];
};

struct grant {
	uint32_t id;			/* the latest; 0: never used */
	uint32_t name;			/* key of the region, or number of our QP */
	uint8_t kind;			/* enum grant_kind; GRANT_NONE: free */
	bool dying;			/* killed, not freed */
	bool mapped;			/* the peer has the block's descriptor */
	uint16_t next;			/* index + 1 of the next in its bucket, or free; 0: none */
};

struct grants {
	struct lock lock;		/* a leaf */
	struct grant_page *page;
	uint16_t bucket[GRANT_BUCKETS] GUARDED_BY_MEMBER(lock);	/* index + 1 */
	uint16_t free, fresh;		/* @free: index + 1 of the first; indices never used start at @fresh */
	unsigned count GUARDED_BY_MEMBER(lock);
	_Atomic uint64_t last_qp;	/* the latest found, id << 32 | QPN: messages come one after another */
	struct grant grant[GRANTS_MAX] GUARDED_BY_MEMBER(lock);
};

/* @page: zeroed memory of our side. */
void grants_init(struct grants *grants, struct grant_page *page);
/* A new life of the channel, whose page is zeroed: there are none; ids go on. */
void grants_reset(struct grants *grants);
void grants_fini(struct grants *grants);

/* The grant of @name, made if there is none; 0: no room, or it is about to be freed. *fresh: it was made. */
uint32_t grant_get(struct grants *grants, enum grant_kind kind, uint32_t name, bool *fresh);
/* What a peer names by @id: false where that is no living grant of the kind. */
bool grant_find(struct grants *grants, enum grant_kind kind, uint32_t id, uint32_t *name);
/*
 * The QPN of a grant of a QP, mostly without the lock. The caller compares the grant with the QP's, under the
 * QP's lock (pairing.ours): nothing else is to be decided by it.
 */
bool grant_find_qp(struct grants *grants, uint32_t id, uint32_t *qpn);
/* The peer maps it from now on; returns whether it did before. */
bool grant_set_mapped(struct grants *grants, uint32_t id);
bool grant_is_mapped(struct grants *grants, enum grant_kind kind, uint32_t name);
/* The name of a living grant that the peer maps, from *@at on; *@at is behind it then. False: none. */
bool grant_next_mapped(struct grants *grants, unsigned *at, uint32_t *name);
/* It does not hold any more; 0: there is none. Its index stays taken until grant_free(). */
uint32_t grant_kill(struct grants *grants, enum grant_kind kind, uint32_t name);
void grant_free(struct grants *grants, uint32_t id);

static inline uint32_t grant_index(uint32_t id)
{
	return id & (GRANTS_MAX - 1);
}

/* For the accessor, with a hazard published (after F3): does the owner say that it holds? */
static inline bool grant_is_alive(const struct grant_page *page, uint32_t id)
{
	return atomic_load_explicit(&page->alive[grant_index(id)], memory_order_seq_cst) == id;
}

#endif
