/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The two tables of verbs that inline functions of <infiniband/verbs.h> call through: struct
 * ibv_context_ops and struct verbs_context. Every slot is filled, with the verb or with a
 * refusal as its man page describes, so that no program calls through a null pointer.
 */
#define VERBS_OUTER
#include "verbs/verbs.h"

/*
 * A verb that the device lacks. REFUSE_PTR: answers NULL and errno; REFUSE_INT: a positive errno.
 * The parameters are those of the slot; @why completes "not supported: ".
 */
#define REFUSE_PTR(type, name, why, ...) \
	static type *name##_refused(__VA_ARGS__) { return fail(refuse_verb("" #name, why)); }
#define REFUSE_INT(name, why, ...) \
	static int name##_refused(__VA_ARGS__) { return verb_result(refuse_verb("" #name, why)); }

static const char no_actions[] = "flow actions: this device does not encrypt (ESP)";

REFUSE_INT(modify_flow_action_esp, no_actions, struct ibv_flow_action *action,
	   struct ibv_flow_action_esp_attr *attr)
REFUSE_INT(destroy_flow_action, no_actions, struct ibv_flow_action *action)
REFUSE_PTR(struct ibv_flow_action, create_flow_action_esp, no_actions, struct ibv_context *context,
	   struct ibv_flow_action_esp_attr *attr)

/* Slots that no program's inline function has used since 2007. */
static void *compat_refused(void)
{
	return fail(refuse_verb("a verb of libibverbs 1.0",
				"the program was built before 2007; rebuild it"));
}

static void ops_placeholder(void)
{
}

static void fill_extended(struct verbs_context *context)
{
	context->query_port = port_query_verb;
	context->advise_mr = mr_advise_verb;
	context->alloc_null_mr = mr_alloc_null_verb;
	context->read_counters = counters_read_verb;
	context->attach_counters_point_flow = counters_attach_verb;
	context->create_counters = counters_create_verb;
	context->destroy_counters = counters_destroy_verb;
	context->reg_dm_mr = dm_reg_mr_verb;
	context->alloc_dm = dm_alloc_verb;
	context->free_dm = dm_free_verb;
	context->modify_flow_action_esp = modify_flow_action_esp_refused;
	context->destroy_flow_action = destroy_flow_action_refused;
	context->create_flow_action_esp = create_flow_action_esp_refused;
	context->modify_qp_rate_limit = qp_pace_verb;
	context->alloc_parent_domain = parent_domain_alloc;
	context->dealloc_td = td_dealloc;
	context->alloc_td = td_alloc;
	context->modify_cq = cq_modify_verb;
	context->post_srq_ops = srq_post_ops_verb;
	context->destroy_rwq_ind_table = rwq_table_destroy_verb;
	context->create_rwq_ind_table = rwq_table_create_verb;
	context->destroy_wq = wq_destroy_verb;
	context->modify_wq = wq_modify_verb;
	context->create_wq = wq_create_verb;
	context->query_rt_values = rt_values_verb;
	context->create_cq_ex = cq_create_ex_verb;
	context->query_device_ex = device_query_ex_verb;
	context->ibv_destroy_flow = flow_destroy_verb;
	context->ABI_placeholder2 = ops_placeholder;
	context->ibv_create_flow = flow_create_verb;
	context->ABI_placeholder1 = ops_placeholder;
	context->open_qp = qp_open_verb;
	context->create_qp_ex = qp_create_ex_verb;
	context->get_srq_num = srq_number_verb;
	context->create_srq_ex = srq_create_ex_verb;
	context->open_xrcd = xrcd_open_verb;
	context->close_xrcd = xrcd_close_verb;
}

/*
 * Wherever the slots of newer releases are: in front of our header's structure, or in it. The size that
 * programs look at, to know which slots there are, counts them.
 */
static void fill_newer(struct context *context)
{
	const size_t query_port = offsetof(struct context, ibv.query_port);
	struct newer_ops *newer = (void *)((char *)context + query_port - sizeof(*newer));

	newer->free_buf = ibv_free_buf;
	newer->alloc_buf = ibv_alloc_buf;
	newer->dm_export_dmabuf_fd = ibv_dm_export_dmabuf_fd;
	newer->reg_mr_ex = ibv_reg_mr_ex;
	newer->dealloc_dmah = ibv_dealloc_dmah;
	newer->alloc_dmah = ibv_alloc_dmah;
	context->ibv.sz = sizeof(*newer) + offsetof(struct context, ibv) + sizeof(context->ibv) - query_port;
}

void context_fill_ops(struct context *open)
{
	struct verbs_context *context = &open->ibv;
	struct ibv_context_ops *ops = &context->context.ops;
	const struct verbs_data *data = verbs_data();

	fill_newer(open);
	fill_extended(context);
	ops->_compat_query_device = ibv_query_device;
	ops->_compat_query_port = ibv_query_port;
	ops->_compat_alloc_pd = compat_refused;
	ops->_compat_dealloc_pd = compat_refused;
	ops->_compat_reg_mr = compat_refused;
	ops->_compat_rereg_mr = compat_refused;
	ops->_compat_dereg_mr = compat_refused;
	ops->_compat_create_cq = compat_refused;
	ops->_compat_cq_event = compat_refused;
	ops->_compat_resize_cq = compat_refused;
	ops->_compat_destroy_cq = compat_refused;
	ops->_compat_create_srq = compat_refused;
	ops->_compat_modify_srq = compat_refused;
	ops->_compat_query_srq = compat_refused;
	ops->_compat_destroy_srq = compat_refused;
	ops->_compat_create_qp = compat_refused;
	ops->_compat_query_qp = compat_refused;
	ops->_compat_modify_qp = compat_refused;
	ops->_compat_destroy_qp = compat_refused;
	ops->_compat_create_ah = compat_refused;
	ops->_compat_destroy_ah = compat_refused;
	ops->_compat_attach_mcast = compat_refused;
	ops->_compat_detach_mcast = compat_refused;
	ops->_compat_async_event = compat_refused;
	ops->alloc_mw = mw_alloc_verb;
	ops->bind_mw = mw_bind_verb;
	ops->dealloc_mw = mw_dealloc_verb;
	ops->poll_cq = data->poll_cq;
	ops->req_notify_cq = data->req_notify_cq;
	ops->post_srq_recv = data->post_srq_recv;
	ops->post_send = data->post_send;
	ops->post_recv = data->post_recv;
	if (tsan_is_on())
		tsan_watch_fork();
}
