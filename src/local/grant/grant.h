/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Grants, from the owner's side: the right of one channel's peer to use memory of this process. A
 * grant is for a region, made when the peer presents its key on a QP connected to it, or for that
 * QP. The peer quotes the grant's id in hazards (hazard.h) and messages; alive[] in our side of the
 * channel tells which ids are valid. The peer reads alive[], but never sees this table.
 *
 *	id = serial << GRANT_INDEX_BITS | index		alive[index] == id: the grant holds
 *
 * To end a grant: grant_kill(), wait until no hazard of the peer names it, grant_free(). Ids are
 * not reused soon: each use of an index increments its serial.
 */
#ifndef VERBATIM_LOCAL_GRANT_GRANT_H
#define VERBATIM_LOCAL_GRANT_GRANT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/lock.h"

#define GRANT_INDEX_BITS	12
#define GRANTS_MAX		(1u << GRANT_INDEX_BITS)	/* of a channel; beyond: packets */
#define GRANT_BUCKETS		256u

enum grant_kind { GRANT_NONE, GRANT_REGION, GRANT_QP };

/* Our grants, as our side of the channel shows them. */
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
	_Atomic uint64_t last_qp;	/* last one found, id << 32 | QPN: a cache */
	struct grant grant[GRANTS_MAX] GUARDED_BY_MEMBER(lock);
};

/* @page: zeroed memory of our side. */
void grants_init(struct grants *grants, struct grant_page *page);
/* A new life of the channel, whose page is zeroed: no grants; ids continue. */
void grants_reset(struct grants *grants);
void grants_fini(struct grants *grants);

/*
 * The grant of @name, made if there is none; 0: no room, or it is about to be freed. *fresh: it was
 * made.
 */
uint32_t grant_get(struct grants *grants, enum grant_kind kind, uint32_t name, bool *fresh);
/* Look up the @id that a peer names. False: not a live grant of that kind. */
bool grant_find(struct grants *grants, enum grant_kind kind, uint32_t id, uint32_t *name);
/*
 * The QPN of a QP's grant, mostly without the lock. Only a hint: the caller compares the grant with
 * pairing.ours, under the QP's lock.
 */
bool grant_find_qp(struct grants *grants, uint32_t id, uint32_t *qpn);
/* Note that the peer maps it; returns whether it did before. */
bool grant_set_mapped(struct grants *grants, uint32_t id);
bool grant_is_mapped(struct grants *grants, enum grant_kind kind, uint32_t name);
/*
 * The name of the next live grant, from *@at on, that the peer maps; advances *@at past it. False:
 * none.
 */
bool grant_next_mapped(struct grants *grants, unsigned *at, uint32_t *name);
/* The name of the next grant of a QP, from *@at on, that the QP has ended; advances *@at past it. False: none. */
bool grant_next_ended(struct grants *grants, unsigned *at, uint32_t *name);
/* End the grant and return its id; 0: there is none. Its index stays taken until grant_free(). */
uint32_t grant_kill(struct grants *grants, enum grant_kind kind, uint32_t name);
void grant_free(struct grants *grants, uint32_t id);

static inline uint32_t grant_index(uint32_t id)
{
	return id & (GRANTS_MAX - 1);
}

/* For the accessor, after publishing a hazard (F3): is the grant still valid? */
static inline bool grant_is_alive(const struct grant_page *page, uint32_t id)
{
	return atomic_load_explicit(&page->alive[grant_index(id)], memory_order_seq_cst) == id;	/* L3 */
}

#endif
