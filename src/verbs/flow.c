/* SPDX-License-Identifier: BSD-2-Clause */
/* Flow steering and its counters: ibv_create_flow(3), ibv_create_counters(3),
 * ibv_attach_counters_point_flow(3). */
#include "verbs/check.h"
#include "verbs/verbs.h"

struct ibv_flow *flow_create_verb(struct ibv_qp *qp, struct ibv_flow_attr *attr)
{
	CALL();
	struct steered_flow *flow;
	int err;

	if (!qp || !attr)
		return fail(refuse_null("ibv_create_flow", qp ? "flow_attr" : "qp"));
	err = hca_create_flow(to_hca(qp->context), to_qp(qp), attr, &flow);
	if (err)
		return fail(err);
	flow->ibv.context = qp->context;
	verbs_checked_made(FLOW, "ibv_create_flow", flow, .context = CHECK_HANDLE(qp->context),
			   .other = CHECK_HANDLE(qp));
	return &flow->ibv;
}

int flow_destroy_verb(struct ibv_flow *flow)
{
	CALL();
	int err;

	if (!flow)
		return refuse_null("ibv_destroy_flow", "flow_id");
	verbs_checked_ending(FLOW, "ibv_destroy_flow", flow);
	err = hca_destroy_flow(to_hca(flow->context), (struct steered_flow *)flow);
	verbs_checked_ended(FLOW, "ibv_destroy_flow", flow, err);
	return err;
}

struct ibv_counters *counters_create_verb(struct ibv_context *context, struct ibv_counters_init_attr *attr)
{
	CALL();
	struct flow_counters *counters;
	int err;

	if (!context || !attr)
		return fail(refuse_null("ibv_create_counters", context ? "init_attr" : "context"));
	if (attr->comp_mask) {
		explain("ibv_create_counters: comp_mask 0x%x must be 0", attr->comp_mask);
		return fail(EINVAL);
	}
	err = hca_create_counters(to_hca(context), &counters);
	if (err)
		return fail(err);
	counters->ibv.context = context;
	verbs_checked_made(COUNTERS, "ibv_create_counters", counters,
			   .context = CHECK_HANDLE(context));
	return &counters->ibv;
}

int counters_destroy_verb(struct ibv_counters *counters)
{
	CALL();
	int err;

	if (!counters)
		return refuse_null("ibv_destroy_counters", "counters");
	verbs_checked_ending(COUNTERS, "ibv_destroy_counters", counters);
	err = hca_destroy_counters(to_hca(counters->context), to_counters(counters));
	verbs_checked_ended(COUNTERS, "ibv_destroy_counters", counters, err);
	return err;
}

/* Whichever flow is named: what a counters object counts is what all its flows
 * (IBV_FLOW_SPEC_ACTION_COUNT) see. */
int counters_attach_verb(struct ibv_counters *counters, struct ibv_counter_attach_attr *attr,
			 struct ibv_flow *flow)
{
	CALL();

	if (!counters || !attr)
		return refuse_null("ibv_attach_counters_point_flow", counters ? "attr" : "counters");
	return hca_attach_counters(to_counters(counters), attr);
}

int counters_read_verb(struct ibv_counters *counters, uint64_t *values, uint32_t count, uint32_t flags)
{
	CALL();

	if (!counters || !values)
		return refuse_null("ibv_read_counters", counters ? "counters_value" : "counters");
	if (flags & ~(uint32_t)IBV_READ_COUNTERS_ATTR_PREFER_CACHED) {
		explain_refused("ibv_read_counters", EINVAL,
				"ibv_read_counters: flags 0x%x has unknown bits", flags);
		return EINVAL;
	}
	return hca_read_counters(to_counters(counters), values, count);
}
