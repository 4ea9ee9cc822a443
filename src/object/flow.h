/* SPDX-License-Identifier: BSD-2-Clause */
/* Flows (ibv_create_flow(3)) and their counters (ibv_create_counters(3)). */
#ifndef VERBATIM_OBJECT_FLOW_H
#define VERBATIM_OBJECT_FLOW_H

#include <infiniband/verbs.h>
#include <stdatomic.h>

#include "base/list.h"
#include "ethernet/flow_rule.h"

struct qp;

#define FLOW_COUNTER_INDICES	16u	/* places that ibv_read_counters(3) reads */

/* What place @index of a counters object counts. */
enum flow_counted { COUNTED_NOTHING, COUNTED_PACKETS, COUNTED_BYTES };

struct flow_counters {
	struct ibv_counters ibv;	/* first */
	_Atomic uint64_t packets, bytes;
	_Atomic uint8_t place[FLOW_COUNTER_INDICES];	/* enum flow_counted */
	_Atomic uint32_t users;		/* flows */
	void *owner;			/* hca_context */
	struct list node;
};

static inline struct flow_counters *to_counters(struct ibv_counters *ibv)
{
	return (struct flow_counters *)ibv;
}

struct steered_flow {
	struct ibv_flow ibv;		/* first */
	struct flow_rule rule;		/* its counters hold references */
	struct qp *qp;			/* counts it as a user */
	struct list rule_node;		/* in the port's list, in order (engine/steer.c): under progress */
	struct list node;		/* in the context's list: under hca.objects */
};

#endif
