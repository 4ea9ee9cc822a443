/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a QP that has met loss or congestion knows more than others: what its peer lacks (repair.h),
 * and what came early from it (early.h). Nearly all QPs never need it, so it is no part of a QP,
 * but comes from a pool of the process when it is needed first, and goes back when the QP is reset.
 * The pool also has the places of requests that came early. Both are bounded, and their memory is
 * not touched before something is lost. What finds the pool used up is repaired by going back, as
 * beside other implementations.
 */
#ifndef VERBATIM_TRANSPORT_RECOVERY_H
#define VERBATIM_TRANSPORT_RECOVERY_H

#include "base/lock.h"
#include "object/qp.h"
#include "transport/rate.h"
#include "transport/transport.h"
#include "wire/packet.h"

#define RECOVERY_QPS	4096u
#define EARLY_PLACES	1024u

enum repair_state { REPAIR_UNKNOWN, REPAIR_ASKED, REPAIR_YES, REPAIR_NO };

/* What the peer has of our requests behind a gap, as it says. */
struct repair {
	enum repair_state state;	/* does it hold? */
	uint8_t asks;			/* so many were not answered */
	bool ask_due;
	bool active;			/* of a report: */
	uint32_t ask_psn;
	uint32_t base_psn;		/* the peer waits for it, and holds those of @held behind it */
	uint32_t end_psn;		/* one past the last PSN that it holds */
	uint32_t from_psn;		/* gaps before it were sent again in this round ... */
	uint32_t mark_psn;		/* ... before anything from here on was sent */
	uint64_t held[4];
};

/* Requests of the peer that came behind a gap: places, by PSN. */
struct early {
	uint16_t first, last;		/* 1 + place; 0: none */
	uint16_t count;
	bool wanted;			/* the peer has asked: it sends again what we do not hold */
	bool answer_due, report_due;
	uint32_t ask_psn;
	uint64_t since_ns;		/* of the gap: when something was held behind it first */
};

/* Marks of congested switches: the peer is told (congestion.h). */
struct notice {
	bool due;
	uint64_t sent_ns;		/* the last CNP; 0: none was */
};

struct recovery {
	struct repair repair;
	struct early early;
	struct notice notice;
	struct rate rate;		/* rate.h */
	uint16_t next;			/* in the pool: 1 + number of the next free one */
};

struct early_place {
	struct packet packet;		/* its payload is @data */
	uint16_t next;			/* of the QP, or in the pool; as above */
	uint8_t data[PATH_MTU_MAX];
};

/* A list of free entries, and those that were never taken. */
struct recovery_free {
	uint16_t first;			/* 1 + number; 0: none */
	uint16_t used;			/* those from here on were never taken */
};

struct recovery_pool {
	struct lock lock;
	struct recovery *recovery;	/* [RECOVERY_QPS], each under its QP's lock */
	struct early_place *place;	/* [EARLY_PLACES], likewise */
	struct recovery_free recoveries GUARDED_BY_MEMBER(lock);
	struct recovery_free places GUARDED_BY_MEMBER(lock);
};

/* Setup calls. NULL: out of memory. */
struct recovery_pool *recovery_pool_new(void);
void recovery_pool_free(struct recovery_pool *pool);

/* NULL: the QP has met no loss. */
static inline struct recovery *recovery_of(const struct qp *qp) REQUIRES(qp->lock)
{
	uint16_t number = qp->requester.recovery;

	return __builtin_expect(number, 0) ? &qp->transport->recoveries->recovery[number - 1] : NULL;
}

/* The same, but from now on it has one. NULL: there is none left. */
struct recovery *recovery_need(struct qp *qp) REQUIRES(qp->lock);
/* Back to the pool, with all that it holds. */
void recovery_end(struct qp *qp) REQUIRES(qp->lock);

/* 1 + number of a free place; 0: none. */
uint16_t recovery_take_place(struct recovery_pool *pool);
/* A list of places, from @first to @last. */
void recovery_give_places(struct recovery_pool *pool, uint16_t first, uint16_t last);

#endif
