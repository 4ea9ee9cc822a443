/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Completion queues (IBTA 11.2.6, 11.4.2; ibv_create_cq(3), ibv_poll_cq(3),
 * ibv_req_notify_cq(3)): a ring of completions, the arming of its channel, overflow.
 */
#ifndef VERBATIM_OBJECT_CQ_H
#define VERBATIM_OBJECT_CQ_H

#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdint.h>

#include "base/list.h"
#include "base/lock.h"
#include "base/timer_heap.h"
#include "object/event.h"
#include "object/ring_memory.h"
#include "object/wqe_slots.h"

struct completion {
	struct ibv_wc wc;
	uint64_t timestamp_ns;		/* when it was pushed */
	union {				/* what only ibv_create_cq_ex(3) has a way to read */
		struct { uint32_t flow_tag; uint16_t cvlan; } frame;	/* a receive of RAW_PACKET */
		uint64_t tag;		/* of tag matching; its priv is in wc.src_qp */
	};
	struct wqe_slot slot;		/* free when it was polled */
};

enum cq_armed { CQ_UNARMED, CQ_ARMED_SOLICITED, CQ_ARMED_ANY };

#define CQ_EX_SLOTS	48

/*
 * ibv_modify_cq: of completions that find the CQ armed for any, the event waits until @count have
 * come (0: for the period only) or until @period_ns after the first of them (0: for the count only).
 */
struct cq_moderation {
	uint32_t count;
	uint64_t period_ns;
};

/*
 * A completion queue, with what polling, notification and destruction need.
 * Large: it begins with the structure that the application holds, and has what three locks guard:
 * its own, poll_lock, and that of its event queues.
 */
struct cq {
	/* First. Behind our headers' struct ibv_cq_ex there are null pointers, as in struct qp. */
	union {
		struct ibv_cq_ex ibv;	/* begins like struct ibv_cq */
		void *ibv_slots[CQ_EX_SLOTS];
	};
	struct owned_lock lock;
	struct completion *ring GUARDED_BY_MEMBER(lock);
	struct ring_memory memory;	/* of the ring: set before cq_init() */
	uint32_t size GUARDED_BY_MEMBER(lock);	/* entries; the application sees it as cqe */
	uint32_t mask GUARDED_BY_MEMBER(lock);	/* slots of the ring - 1; they are a power of two */
	/*
	 * Pushed and polled so far, stored under lock. cq_is_empty() loads head (acquire) without
	 * it: a thread that sees a completion there sees all that was written before the push (release
	 * in set_head()).
	 */
	_Atomic uint32_t head, tail;
	_Atomic uint32_t armed;		/* enum cq_armed; under lock, a hint without */
	uint32_t solicited_end GUARDED_BY_MEMBER(lock);	/* head behind the last solicited or failed one */
	uint32_t notified GUARDED_BY_MEMBER(lock);	/* head when the last event was raised */
	/* no further completions; polling still drains */
	bool overflowed GUARDED_BY_MEMBER(lock);
	struct cq_moderation moderation GUARDED_BY_MEMBER(lock);
	uint32_t moderated GUARDED_BY_MEMBER(lock);	/* completions whose event waits */
	/* A period has begun: cq_period_begins() tells the owner of the timer. Set under lock. */
	_Atomic bool period_begins;
	struct timer timer;		/* its end; under engine_timers.lock */
	bool has_timer;			/* it has its place in the heap; under hca.objects */
	bool stamped;			/* completions carry the time */
	uint64_t last_stamp_ns GUARDED_BY_MEMBER(lock);	/* the next one is no earlier */
	bool ignore_overrun;		/* IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN: drop the oldest */
	bool single_threaded;		/* one thread polls, resizes and destroys QPs: it takes no lock to poll */
	struct comp_channel *channel;	/* NULL: none */
	struct comp_event comp_event;
	uint32_t comp_events_got;	/* by ibv_get_cq_event; destroy waits for as many acks */
	struct event_queue *async;	/* its context's */
	struct async_event error_event;	/* IBV_EVENT_CQ_ERR */
	uint32_t async_events_got;
	_Atomic uint32_t users;		/* QPs: destroy gives EBUSY unless 0 */
	uint32_t number;
	struct list node;
	/* cq_ex polling (verbs layer): completion under the cursor, entries still to come */
	struct completion current;
	void *owner;			/* hca_context */
	struct lock poll_lock;		/* held between start_poll and end_poll */
	_Atomic uint32_t empty_polls;	/* in a row: a hint */
	_Atomic uint32_t yield_every;	/* after so many of them the core is offered to others */
	_Atomic uint32_t full_polls;
	_Atomic uint64_t empty_since_ns;	/* to explain a wait that cannot end; once */
	_Atomic bool empty_explained;
};

/*
 * A poll under way, of a CQ that was empty. A completion that comes meanwhile is written where the application
 * reads it, if the CQ is empty still.
 */
struct cq_poll {
	struct cq *cq;
	struct ibv_wc *wc;		/* [count], of which got are written */
	int count, got;
};

static inline struct cq *to_cq(struct ibv_cq *ibv)
{
	return (struct cq *)ibv;
}

int cq_init(struct cq *cq, uint32_t size);	/* of a zeroed cq: ring, locks, cqe; 0 or ENOMEM */
void cq_fini(struct cq *cq);

/*
 * Push a completion; raises the channel when armed for it (@solicited: a solicited or failed
 * one). On overflow the completion is lost, the CQ is in error and IBV_EVENT_CQ_ERR is raised
 * once: returns false then, and the caller moves the QP to ERR.
 */
bool cq_push(struct cq *cq, const struct ibv_wc *wc, bool solicited, uint64_t now_ns,
	     struct effects *effects);
/* The same of the request that has @slot. */
bool cq_push_slot(struct cq *cq, const struct ibv_wc *wc, struct wqe_slot slot, bool solicited, uint64_t now_ns,
		  struct effects *effects);
/* The same with all that a completion has; its timestamp is written here. */
bool cq_push_full(struct cq *cq, const struct completion *completion, bool solicited, uint64_t now_ns,
		  struct effects *effects);
/* A full CQ drops its oldest completion, if it was asked to; else it is in error, and false. */
bool cq_make_room(struct cq *cq, struct effects *effects) REQUIRES(cq->lock);

static inline bool cq_is_empty(const struct cq *cq)
{
	return atomic_load_explicit(&cq->head, memory_order_acquire) ==	/* A12 */
	       atomic_load_explicit(&cq->tail, memory_order_relaxed);
}

static inline bool cq_is_armed(const struct cq *cq)
{
	return atomic_load_explicit(&cq->armed, memory_order_relaxed) != CQ_UNARMED;
}

/* Is there room for one more completion? None follows the one that was lost. */
static inline __attribute__((always_inline)) bool cq_has_room(const struct cq *cq) REQUIRES(cq->lock)
{
	/* Acquire pairs with the release of a consumer without the lock: its reads of the slot are over. */
	return !cq->overflowed &&
	       atomic_load_explicit(&cq->head, memory_order_relaxed) -
		       atomic_load_explicit(&cq->tail, memory_order_acquire) < cq->size;
}

/*
 * The same in two steps, for who writes the completion, all of it, where it will be read: its place,
 * with the CQ locked, or NULL where cq_push() is false; and its publication.
 */
static inline struct completion *cq_push_begin(struct cq *cq, struct effects *effects)
	TRY_ACQUIRES(true, cq->lock)
{
	lock_acquire(&cq->lock);
	if (__builtin_expect(cq_has_room(cq), 1) || cq_make_room(cq, effects))
		return &cq->ring[atomic_load_explicit(&cq->head, memory_order_relaxed) & cq->mask];
	lock_release_plain(&cq->lock);
	return NULL;
}

/*
 * In place of the second, where @effects names a poll of the CQ, nothing precedes the completion and
 * nobody waits for an event: where to write what ibv_poll_cq() gives. NULL: not so.
 */
static inline struct ibv_wc *cq_push_polled(struct cq *cq, const struct effects *effects) REQUIRES(cq->lock)
{
	const struct cq_poll *poll = effects->poll;

	return poll && poll->cq == cq && poll->got < poll->count && cq_is_empty(cq) && !cq_is_armed(cq) ?
		       &poll->wc[poll->got] : NULL;
}
void cq_push_given(struct cq *cq, struct cq_poll *poll, const struct wqe_slot *slot) RELEASES(cq->lock);
void cq_push_end(struct cq *cq, struct completion *completion, bool solicited, struct effects *effects)
	RELEASES(cq->lock);
/*
 * Completions of receives in a row: no event is due and none would be, since nobody waits for one.
 * True: the CQ is locked, until cq_row_end(). cq_row_next(): the place for one more, where @poll (NULL: none,
 * else one of this CQ) has room and nothing precedes it, or in the ring; NULL: there is none.
 * cq_row_push() publishes what was written there; @slot is its request's.
 */
bool cq_row_begin(struct cq *cq) TRY_ACQUIRES(true, cq->lock);
struct ibv_wc *cq_row_next(struct cq *cq, const struct cq_poll *poll) REQUIRES(cq->lock);
void cq_row_push(struct cq *cq, struct cq_poll *poll, struct ibv_wc *wc, const struct wqe_slot *slot,
		 bool solicited) REQUIRES(cq->lock);
void cq_row_end(struct cq *cq) RELEASES(cq->lock);
/* Take up to @count completions, and free the slots of their requests; returns how many. */
int cq_take(struct cq *cq, int count, struct ibv_wc *wc);
int cq_take_one(struct cq *cq, struct completion *completion);	/* 1 or 0 */

/*
 * ibv_req_notify_cq: arm for the next completion (or solicited one). One that waits already, and came behind the
 * last event, raises the event at once, as with mlx5 and mlx4, whose doorbell says how far the application has
 * polled. What an event was raised for raises no other: who arms before polling gets one each (perftest -e).
 * Arming for any is not weakened by arming for solicited.
 */
void cq_arm(struct cq *cq, bool solicited_only, struct effects *effects);
/*
 * ibv_modify_cq. An event that waits is raised now: it is not known any more for how long it should
 * have waited.
 */
void cq_moderate(struct cq *cq, const struct cq_moderation *moderation, struct effects *effects);
/* After cq_push(): is the timer to be set to the end of a period that begins now? Asked once. */
static inline bool cq_period_begins(struct cq *cq)
{
	return atomic_load_explicit(&cq->period_begins, memory_order_relaxed) &&
	       atomic_exchange_explicit(&cq->period_begins, false, memory_order_relaxed);
}
uint64_t cq_period_ns(struct cq *cq);
/* The timer has expired: raise the event that waits, if any. */
void cq_period_ended(struct cq *cq, struct effects *effects);
/* Raise no event from now on, until it is armed again. */
void cq_disarm(struct cq *cq);
/* New size: EINVAL when more completions are waiting than fit; ENOMEM. */
int cq_resize(struct cq *cq, uint32_t size);
/*
 * Remove the completions of QP @qpn (destroy and reset of a QP), or those of one queue (destroy of an SRQ that
 * has a CQ). Slots of an SRQ are free then: its receives are lost to the application, as with mlx5 and mlx4.
 */
void cq_clean(struct cq *cq, uint32_t qpn);
void cq_clean_slots(struct cq *cq, const struct wqe_slots *slots);

#endif
