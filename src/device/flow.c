/* SPDX-License-Identifier: BSD-2-Clause */
/* Flows of a context, and what counts their frames: ibv_create_flow(3), ibv_create_counters(3). */
#include <errno.h>
#include <stdlib.h>

#include "base/log.h"
#include "device/internal.h"
#include "engine/steer.h"

/* ---- flows ---- */

/* What the flow uses has a user more (@by 1) or less (-1). */
static void flow_count_user(const struct steered_flow *flow, int by)
{
	atomic_fetch_add(&flow->qp->flows, (uint32_t)by);
	for (unsigned i = 0; i < flow->rule.counters; i++)
		atomic_fetch_add(&to_counters(flow->rule.counter[i])->users, (uint32_t)by);
}

int hca_create_flow(struct hca_context *context, struct qp *qp, const struct ibv_flow_attr *attr,
		    struct steered_flow **created)
{
	struct hca *hca = context->hca;
	struct steered_flow *flow;
	int err;

	if (context_is_dead(context, "ibv_create_flow"))
		return EIO;
	if (!qp->ethernet) {
		explain_refused_of("ibv_create_flow", EINVAL, OF(QP, qp->number),
				"ibv_create_flow: qp 0x%06x is of type %s: Ethernet frames go to "
				"QPs of type RAW_PACKET",
			qp->number, qp_type_name(qp->type));
		return EINVAL;
	}
	flow = calloc(1, sizeof(*flow));
	if (!flow)
		return ENOMEM;
	flow->qp = qp;
	err = flow_rule_of(attr, &flow->rule);
	if (err)
		goto free_flow;
	flow_count_user(flow, 1);	/* before the first frame is counted */
	lock_acquire(&hca->engine.progress);
	err = steer_add(&hca->engine, flow);
	lock_release(&hca->engine.progress);
	if (err)
		goto release;
	flow->ibv.handle = object_number(hca);
	object_enlist(context, &context->flows, &flow->node);
	*created = flow;
	return 0;
release:
	flow_count_user(flow, -1);
free_flow:
	free(flow);
	return err;
}

int hca_destroy_flow(struct hca_context *context, struct steered_flow *flow)
{
	struct hca *hca = context->hca;

	if (context_is_dead(context, "ibv_destroy_flow"))
		return EIO;
	lock_acquire(&hca->engine.progress);
	steer_remove(&hca->engine, flow);
	lock_release(&hca->engine.progress);
	object_delist(context, &flow->node);
	flow_count_user(flow, -1);
	free(flow);
	return 0;
}

/* ---- counters ---- */

int hca_create_counters(struct hca_context *context, struct flow_counters **created)
{
	struct flow_counters *counters;

	if (context_is_dead(context, "ibv_create_counters"))
		return EIO;
	counters = calloc(1, sizeof(*counters));
	if (!counters)
		return ENOMEM;
	counters->owner = context;
	object_enlist(context, &context->counters, &counters->node);
	*created = counters;
	return 0;
}

int hca_attach_counters(struct flow_counters *counters, const struct ibv_counter_attach_attr *attr)
{
	const enum flow_counted counted = attr->counter_desc == IBV_COUNTER_PACKETS ? COUNTED_PACKETS :
					  attr->counter_desc == IBV_COUNTER_BYTES   ? COUNTED_BYTES :
										      COUNTED_NOTHING;
	uint8_t nothing = COUNTED_NOTHING;

	if (context_is_dead(counters->owner, "ibv_attach_counters_point_flow"))
		return EIO;
	if (attr->comp_mask || counted == COUNTED_NOTHING || attr->index >= FLOW_COUNTER_INDICES) {
		explain_refused("ibv_attach_counters_point_flow", EINVAL,
				"ibv_attach_counters_point_flow: comp_mask 0x%x must be 0, "
				"counter_desc %d IBV_COUNTER_PACKETS or "
			"_BYTES, index %u less than %u",
			attr->comp_mask, (int)attr->counter_desc, attr->index,
			FLOW_COUNTER_INDICES);
		return EINVAL;
	}
	if (!atomic_compare_exchange_strong(&counters->place[attr->index], &nothing, (uint8_t)counted)) {
		explain_refused("ibv_attach_counters_point_flow", EBUSY,
				"ibv_attach_counters_point_flow: index %u has a counter already",
				attr->index);
		return EBUSY;
	}
	return 0;
}

/* Places that nothing was attached to read as 0. */
int hca_read_counters(const struct flow_counters *counters, uint64_t *values, uint32_t count)
{
	if (context_is_dead(counters->owner, "ibv_read_counters"))
		return EIO;
	if (!count || count > FLOW_COUNTER_INDICES) {
		explain_refused("ibv_read_counters", EINVAL,
				"ibv_read_counters: ncounters %u must be 1 to %u", count,
				FLOW_COUNTER_INDICES);
		return EINVAL;
	}
	for (uint32_t i = 0; i < count; i++) {
		const uint8_t counted = atomic_load(&counters->place[i]);

		values[i] = counted == COUNTED_PACKETS
				    ? atomic_load_explicit(&counters->packets, memory_order_relaxed)
			    : counted == COUNTED_BYTES
				    ? atomic_load_explicit(&counters->bytes, memory_order_relaxed)
				    : 0;
	}
	return 0;
}

int hca_destroy_counters(struct hca_context *context, struct flow_counters *counters)
{
	uint32_t users = atomic_load(&counters->users);

	if (context_is_dead(context, "ibv_destroy_counters"))
		return EIO;
	if (users) {
		explain_refused("ibv_destroy_counters", EBUSY,
				"ibv_destroy_counters: %u flows count in it: destroy them first",
				users);
		return EBUSY;
	}
	object_delist(context, &counters->node);
	free(counters);
	return 0;
}
