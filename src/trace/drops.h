/* SPDX-License-Identifier: BSD-2-Clause */
/* Drops and counters as events of a trace. */
#ifndef VERBATIM_TRACE_DROPS_H
#define VERBATIM_TRACE_DROPS_H

#include "base/counters.h"
#include "trace/record.h"
#include "tracepoint/drop.h"

/* The event, at the time of @record; @data begins with a BTH. */
void trace_drop(const struct trace_record *record, const uint8_t *data, enum drop why);
/* Events: all counters that moved, as many as their names need. */
void trace_counters(const struct counters *counters);

#endif
