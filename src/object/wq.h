/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Work queues (ibv_create_wq(3)): receive queues that belong to no QP, and tables of them, over which a QP of type
 * RAW_PACKET spreads its frames (receive side scaling).
 */
#ifndef VERBATIM_OBJECT_WQ_H
#define VERBATIM_OBJECT_WQ_H

#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/list.h"
#include "base/lock.h"
#include "ethernet/hash.h"
#include "object/event.h"
#include "object/recv_queue.h"

struct cq;
struct pd;

/* Of numbers of WQs in completions: no QP's number has it. */
#define WQ_NUMBER_BIT	0x1000000u

struct wq {
	struct ibv_wq ibv;		/* first */
	struct recv_queue queue;	/* has a lock of its own */
	struct lock lock;
	enum ibv_wq_state state GUARDED_BY_MEMBER(lock);
	struct recv_wqe *recv GUARDED_BY_MEMBER(lock);	/* the receive that is next, if taken */
	bool recv_taken GUARDED_BY_MEMBER(lock);
	_Atomic bool strips_vlan;
	struct pd *pd;
	struct cq *cq;
	struct event_queue *async;
	struct async_event fatal_event;	/* IBV_EVENT_WQ_FATAL */
	uint32_t async_events_got;
	_Atomic uint32_t users;		/* tables */
	uint32_t number;
	void *owner;			/* hca_context */
	struct list node;
};

static inline struct wq *to_wq(struct ibv_wq *ibv)
{
	return (struct wq *)ibv;
}

struct rwq_table {
	struct ibv_rwq_ind_table ibv;	/* first */
	_Atomic uint32_t users;		/* QPs */
	void *owner;			/* hca_context */
	struct list node;
	uint32_t mask;			/* entries - 1 */
	struct wq *wq[];
};

static inline struct rwq_table *to_rwq_table(struct ibv_rwq_ind_table *ibv)
{
	return (struct rwq_table *)ibv;
}

/* How a QP spreads its frames. */
struct receive_hash {
	struct rwq_table *table;	/* counted as its user */
	uint64_t fields;		/* enum ibv_rx_hash_fields */
	uint8_t key[HASH_KEY_BYTES];
};

#endif
