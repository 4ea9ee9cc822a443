/* SPDX-License-Identifier: BSD-2-Clause */
/* The counters of this process, read by the sysfs attributes of the verbs layer. */
#include "device/internal.h"
#include "device/observer.h"

const struct counters *hca_counters(const struct hca_context *context)
{
	return context->hca->engine.counters;
}
