/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Why a received packet was dropped, for its record: whoever drops one counts it, so the counter
 * that went up while it was received is the reason. Nothing else may count meanwhile in @counters.
 */
#ifndef VERBATIM_TRACE_DROPS_H
#define VERBATIM_TRACE_DROPS_H

#include "base/counters.h"
#include "trace/record.h"

struct trace_drops {
	uint64_t count[COUNTER_COUNT];	/* of some */
};

void trace_drops_begin(const struct counters *counters, struct trace_drops *drops);
/* enum counter; -1: it was not dropped. */
int trace_drops_end(const struct counters *counters, const struct trace_drops *drops);
/* The event, at the time of @record; @data begins with a BTH. */
void trace_drop(const struct trace_record *record, const uint8_t *data, enum counter reason);
/* Events: all counters that moved, as many as their names need. */
void trace_counters(const struct counters *counters);

#endif
