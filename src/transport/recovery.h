/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a QP that has met loss or congestion knows more than others: what its peer lacks (repair.h)
 * and what came early from it (early.h); and marks and its rate (congestion.h). Nearly all QPs
 * never need either, so they are no part of a QP, but come from a pool of the process when they are
 * needed first, and go back when the QP is reset or fails. The pool also has the places of requests
 * that came early. All three are bounded, each by itself: where all QPs are marked, losses are
 * repaired as before. Their memory is zeros that nobody writes to before something is lost or
 * marked, which costs 5 MB of addresses, and of memory only where the program locks what it will
 * map (MCL_FUTURE). What finds no recovery left is repaired by going back, as beside other
 * implementations.
 */
#ifndef VERBATIM_TRANSPORT_RECOVERY_H
#define VERBATIM_TRANSPORT_RECOVERY_H

#include "base/lock.h"
#include "object/qp.h"
#include "transport/rate.h"
#include "transport/transport.h"
#include "wire/packet.h"

#define RECOVERY_QPS	4096u
#define CONGESTION_QPS	4096u
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
	uint32_t freed_psn;		/* what is held before it has no share of the window ... */
	uint32_t freed_bytes;		/* ... of so many bytes, which are not answered yet */
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
	uint16_t next;			/* in the pool: 1 + number of the next free one */
};

struct congestion {
	struct notice notice;
	struct rate rate;		/* rate.h */
	uint16_t next;			/* as above */
};

struct early_place {
	struct packet packet;		/* its payload is @data */
	uint16_t next;			/* of the QP, or in the pool; as above */
	uint8_t data[PATH_MTU_MAX];
};

/* Of an array: a list of free entries, and those that were never taken. */
struct recovery_free {
	uint16_t first;			/* 1 + number; 0: none */
	uint16_t used, size;		/* those from @used on were never taken */
	uint16_t *next;			/* of entry 0, and of the others each ... */
	size_t stride;			/* ... so many bytes further on */
};

struct recovery_pool {
	struct lock lock;
	struct recovery *recovery;	/* [RECOVERY_QPS], each under its QP's lock */
	struct congestion *congestion;	/* [CONGESTION_QPS], likewise */
	struct early_place *place;	/* [EARLY_PLACES], likewise */
	struct recovery_free recoveries GUARDED_BY_MEMBER(lock);
	struct recovery_free congestions GUARDED_BY_MEMBER(lock);
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

/* NULL: it was neither marked nor told of marks at the least window. */
static inline struct congestion *congestion_of(const struct qp *qp) REQUIRES(qp->lock)
{
	uint16_t number = qp->requester.congestion;

	return __builtin_expect(number, 0) ? &qp->transport->recoveries->congestion[number - 1] : NULL;
}

/* The same, but from now on it has one. NULL: there is none left. */
struct recovery *recovery_need(struct qp *qp) REQUIRES(qp->lock);
struct congestion *congestion_need(struct qp *qp) REQUIRES(qp->lock);
/* Both back to the pool, with all that they hold. */
void recovery_end(struct qp *qp) REQUIRES(qp->lock);

/* 1 + number of a free place; 0: none. */
uint16_t recovery_take_place(struct recovery_pool *pool);
/* A list of places, from @first to @last. */
void recovery_give_places(struct recovery_pool *pool, uint16_t first, uint16_t last);

#endif
