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
#include "object/event.h"

struct completion {
	struct ibv_wc wc;
	uint64_t timestamp_ns;		/* when it was pushed */
};

enum cq_armed { CQ_UNARMED, CQ_ARMED_SOLICITED, CQ_ARMED_ANY };

#define CQ_EX_SLOTS	48

struct cq {
	/* First. Behind our headers' struct ibv_cq_ex there are null pointers, as in struct qp. */
	union {
		struct ibv_cq_ex ibv;	/* begins like struct ibv_cq */
		void *ibv_slots[CQ_EX_SLOTS];
	};
	struct lock lock;
	struct completion *ring GUARDED_BY_MEMBER(lock);
	uint32_t size GUARDED_BY_MEMBER(lock);	/* entries; the application sees it as cqe */
	uint32_t mask GUARDED_BY_MEMBER(lock);	/* slots of the ring - 1; they are a power of two */
	/*
	 * Pushed and polled so far, stored under lock. cq_is_empty() loads head (acquire) without
	 * it: a thread that sees a completion there sees all that was written before the push (release
	 * in set_head()).
	 */
	_Atomic uint32_t head, tail;
	_Atomic uint32_t armed;		/* enum cq_armed; under lock, a hint without */
	/* no further completions; polling still drains */
	bool overflowed GUARDED_BY_MEMBER(lock);
	bool stamped;			/* completions carry the time */
	bool ignore_overrun;		/* IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN: drop the oldest */
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
	_Atomic uint32_t full_polls;
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
/* Take up to @count completions; returns how many. */
int cq_take(struct cq *cq, int count, struct ibv_wc *wc);
int cq_take_one(struct cq *cq, struct completion *completion);	/* 1 or 0 */

static inline bool cq_is_empty(const struct cq *cq)
{
	return atomic_load_explicit(&cq->head, memory_order_acquire) ==
	       atomic_load_explicit(&cq->tail, memory_order_relaxed);
}

static inline bool cq_is_armed(const struct cq *cq)
{
	return atomic_load_explicit(&cq->armed, memory_order_relaxed) != CQ_UNARMED;
}

/*
 * ibv_req_notify_cq: arm for the next completion (or solicited one) pushed after this call.
 * Arming for any is not weakened by arming for solicited.
 */
void cq_arm(struct cq *cq, bool solicited_only);
/* New size: EINVAL when more completions are waiting than fit; ENOMEM. */
int cq_resize(struct cq *cq, uint32_t size);
/*
 * Remove the completions of QP @qpn (destroy and reset of a QP). With an SRQ only those of the
 * send queue go (cq_clean_sends): a receive of the SRQ would be lost to the application.
 */
void cq_clean(struct cq *cq, uint32_t qpn);
void cq_clean_sends(struct cq *cq, uint32_t qpn);

#endif
