/* SPDX-License-Identifier: BSD-2-Clause */
/* Lookup: does a slot belong to this process? */
#ifndef VERBATIM_ENGINE_QP_TABLE_H
#define VERBATIM_ENGINE_QP_TABLE_H

#include "engine/engine.h"

/* Which of our slots @slot is; slot_count: it is another process's. */
static inline unsigned qp_table_slot(const struct qp_table *qps, uint32_t slot)
{
	unsigned i = 0;

	while (i < qps->slot_count && qps->slot[i].number != slot)
		i++;
	return i;
}

static inline bool engine_has_slot(const struct engine *engine, uint32_t slot)
{
	return qp_table_slot(&engine->qps, slot) < engine->qps.slot_count;
}

/* The process of this host that had @qpn. Calls the kernel: not under a lock. */
bool engine_has_ended(uint32_t qpn);
/*
 * Does the holder of @slot, another process of this host, send from the port of the slot alone? Likewise.
 * 0 or errno, explained as @who's.
 */
int engine_peer_has_port(const struct engine *engine, uint32_t slot, const char *who, bool *has);

#endif
