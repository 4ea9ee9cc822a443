/* SPDX-License-Identifier: BSD-2-Clause */
/* Counters of this process and of the host, read by the sysfs attributes of the verbs layer. */
#include "device/internal.h"
#include "device/observer.h"
#include "trace/drops.h"
#include "trace/trace.h"

const struct counters *hca_counters(const struct hca_context *context)
{
	return context->hca->engine.counters;
}

void hca_read_host_counters(const struct hca_context *context, uint64_t values[COUNTER_COUNT])
{
	const struct hca_observer *observer = hca_observer_of();
	unsigned i;

	for (i = 0; i < COUNTER_COUNT; i++)
		values[i] = counter_get(context->hca->engine.counters, i);
	if (observer)
		observer->add_others(context->port->name, values);
}

/* Of those that moved; as many events as their names need. */
void hca_trace_counters(const struct hca *hca)
{
	if (trace_wants(TRACE_DROPS))
		trace_counters(hca->engine.counters);
}
