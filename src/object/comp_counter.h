/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Completion counters (ibv_create_comp_cntr(3), rdma-core 65): how many operations of the QPs that they
 * are attached to have completed, and how many of them in error. device/comp_counter.c makes and attaches
 * them; the transport counts, with the lock of the QP held, where an operation completes.
 *
 * Counted are operations that the application, or its peer, has requested: what was posted, whether it
 * is signaled or not, and READs and WRITEs of the peer. Atomics, windows, FLUSH and ATOMIC_WRITE have no
 * operation of their own in the interface and are counted nowhere.
 *
 * C1: the counter of successes is added to (release) when data is in its place; who reads it (acquire)
 * sees the data.
 */
#ifndef VERBATIM_OBJECT_COMP_COUNTER_H
#define VERBATIM_OBJECT_COMP_COUNTER_H

#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

/* The bits of enum ibv_qp_attach_comp_cntr_op, by number. */
enum comp_operation {
	COMP_SEND, COMP_RECV, COMP_READ, COMP_REMOTE_READ, COMP_WRITE, COMP_REMOTE_WRITE, COMP_OPERATIONS,
};

struct comp_counter {
	struct { struct ibv_context *context; uint32_t handle; } ibv;	/* first: as struct ibv_comp_cntr */
	bool bytes;			/* successes are counted in bytes; errors never */
	_Atomic uint64_t done, failed;
	_Atomic uint64_t seen;		/* done + failed when it was read last: a hint */
	_Atomic uint32_t users;		/* operations of QPs: destroy gives EBUSY unless 0 */
	void *owner;			/* hca_context */
	struct list node;		/* in its context's list: under hca.objects */
};

/* Of a QP, which holds a reference to each. */
struct comp_counters {
	struct comp_counter *of[COMP_OPERATIONS];	/* NULL: not counted */
};

static inline void comp_counter_add(const struct comp_counters *counters, enum comp_operation operation,
				    bool good, uint64_t operations, uint64_t bytes)
{
	struct comp_counter *counter = counters->of[operation];

	if (!counter)
		return;
	if (good)
		atomic_fetch_add_explicit(&counter->done, counter->bytes ? bytes : operations,
					  memory_order_release);	/* C1 */
	else
		atomic_fetch_add_explicit(&counter->failed, operations, memory_order_release);
}

#endif
