/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shared receive queue (IBTA 10.2.9; ibv_create_srq(3)): a recv_queue with a limit event. An XRC SRQ has a
 * domain and a CQ as well (annex A14), a tag-matching one a CQ and a list of tags (ibv_post_srq_ops(3)).
 */
#ifndef VERBATIM_OBJECT_SRQ_H
#define VERBATIM_OBJECT_SRQ_H

#include <infiniband/verbs.h>
#include <stdatomic.h>

#include "base/list.h"
#include "object/event.h"
#include "object/recv_queue.h"

struct cq;
struct tag_list;
struct xrcd;

struct srq {
	struct ibv_srq ibv;		/* first */
	struct recv_queue queue;
	uint32_t limit;			/* 0: disarmed; under queue.lock */
	uint32_t pd;			/* number of its protection domain */
	struct event_queue *async;
	struct async_event limit_event;	/* IBV_EVENT_SRQ_LIMIT_REACHED */
	uint32_t async_events_got;
	_Atomic uint32_t users;		/* QPs */
	uint32_t number;
	void *owner;			/* hca_context */
	struct list node;
	/* XRC; NULL: a basic one */
	struct xrcd *xrcd;
	struct cq *cq;			/* completions of its receives; tag matching, too */
	struct list domain_node;	/* in xrcd->domain */
	bool is_down;			/* has left it: destruction waits for acknowledgements */
	struct tag_list *tags;		/* tag matching: under queue.lock; NULL: another one */
};

static inline struct srq *to_srq(struct ibv_srq *ibv)
{
	return (struct srq *)ibv;
}

/* ibv_post_srq_recv: as recv_queue_post_for(), explained with the SRQ's number. */
int srq_post(struct srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);

/* As recv_queue_take(); raises the limit event when fewer than the limit are left, once. */
bool srq_take(struct srq *srq, struct recv_wqe *wqe, struct effects *effects);
bool srq_take_locked(struct srq *srq, struct recv_wqe *wqe, struct effects *effects)
	REQUIRES(srq->queue.lock);
/*
 * ibv_post_srq_ops, of a tag-matching SRQ. 0; EINVAL, ENOMEM (list full, too many): *bad names the first refused,
 * those before it are done. Completions go to its CQ.
 */
int srq_post_ops(struct srq *srq, struct ibv_ops_wr *wr, struct ibv_ops_wr **bad, uint64_t now_ns,
		 struct effects *effects);

/*
 * ibv_modify_srq: IBV_SRQ_MAX_WR resizes, IBV_SRQ_LIMIT arms (the event comes at once when
 * fewer than the limit are posted). 0, EINVAL, ENOMEM; all or nothing.
 */
int srq_modify(struct srq *srq, const struct ibv_srq_attr *attr, int mask,
	       struct effects *effects);

#endif
