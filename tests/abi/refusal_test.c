/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What is not there is refused in the way its man page has it: every slot of the tables of verbs
 * can be called, the entry points of IBVERBS_1.0 and of vendor drivers exist and do no harm,
 * and null pointers are errors.
 */
#include "fixture.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdbool.h>

static void every_slot_of_the_tables_is_filled(void **state)
{
	struct verbs_context *verbs = verbs_get_ctx(context_of(state));
	const size_t end = offsetof(struct verbs_context, _ABI_placeholder3);
	void **slot = (void **)verbs, **ops = (void **)&verbs->context.ops;

	assert_non_null(verbs);
	for (size_t i = 0; i < end / sizeof(void *); i++)
		if (i * sizeof(void *) != offsetof(struct verbs_context, priv) && !slot[i])
			fail_msg("slot %zu of struct verbs_context is null", i);
	for (size_t i = 0; i < sizeof(struct ibv_context_ops) / sizeof(void *); i++)
		if (!ops[i])
			fail_msg("slot %zu of struct ibv_context_ops is null", i);
}

static void verbs_that_the_device_lacks_answer_not_supported(void **state)
{
	struct ibv_context *context = context_of(state);
	struct verbs_context *verbs = verbs_get_ctx(context);
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_flow_action_esp_attr esp = { .comp_mask = 0 };

	assert_non_null(pd);
	assert_refused(ibv_create_flow_action_esp(context, &esp), EOPNOTSUPP);
	assert_refused(ibv_reg_dmabuf_mr(pd, 0, 4096, 0, 0, 0), EOPNOTSUPP);
	assert_int_equal(verbs->modify_cq(NULL, NULL), EINVAL);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
}

static void calls_of_raw_packets_refuse_null_pointers(void **state)
{
	struct ibv_context *context = context_of(state);
	struct verbs_context *verbs = verbs_get_ctx(context);
	struct ibv_counters_init_attr counters = { .comp_mask = 1 };
	struct ibv_wq_init_attr wq = { .wq_type = IBV_WQT_RQ };

	assert_refused(verbs->create_wq(context, &wq), EINVAL);
	assert_refused(verbs->create_wq(context, NULL), EINVAL);
	assert_int_equal(verbs->modify_wq(NULL, NULL), EINVAL);
	assert_int_equal(verbs->destroy_wq(NULL), EINVAL);
	assert_refused(verbs->create_rwq_ind_table(context, NULL), EINVAL);
	assert_int_equal(verbs->destroy_rwq_ind_table(NULL), EINVAL);
	assert_refused(verbs->ibv_create_flow(NULL, NULL), EINVAL);
	assert_int_equal(verbs->ibv_destroy_flow(NULL), EINVAL);
	assert_refused(verbs->create_counters(context, &counters), EINVAL);
	assert_int_equal(verbs->attach_counters_point_flow(NULL, NULL, NULL), EINVAL);
	assert_int_equal(verbs->read_counters(NULL, NULL, 0, 0), EINVAL);
	assert_int_equal(verbs->destroy_counters(NULL), EINVAL);
	assert_int_equal(verbs->modify_qp_rate_limit(NULL, NULL), EINVAL);
}

static void xrc_refuses_masks_that_name_too_little(void **state)
{
	struct ibv_context *context = context_of(state);
	struct ibv_xrcd_init_attr attr = { .comp_mask = IBV_XRCD_INIT_ATTR_FD, .fd = -1 };
	struct ibv_qp_open_attr open = { .comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_TYPE };
	struct ibv_srq_init_attr basic = { .attr = { .max_wr = 1, .max_sge = 1 } };
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_srq *srq = ibv_create_srq(pd, &basic);
	struct ibv_xrcd *xrcd;
	uint32_t number;

	assert_non_null(srq);
	assert_refused(ibv_open_xrcd(context, &attr), EINVAL);
	assert_refused(ibv_open_xrcd(context, NULL), EINVAL);
	attr.comp_mask |= IBV_XRCD_INIT_ATTR_OFLAGS;
	attr.oflags = O_CREAT;
	xrcd = ibv_open_xrcd(context, &attr);
	assert_non_null(xrcd);
	assert_refused(ibv_open_qp(context, &open), EINVAL);
	open.comp_mask |= IBV_QP_OPEN_ATTR_XRCD;
	open.xrcd = xrcd;
	open.qp_type = IBV_QPT_RC;
	assert_refused(ibv_open_qp(context, &open), EINVAL);
	assert_int_equal(ibv_get_srq_num(srq, &number), EOPNOTSUPP);
	assert_int_equal(ibv_close_xrcd(xrcd), 0);
	assert_int_equal(ibv_destroy_srq(srq), 0);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
}

static void old_pointer_functions_refuse(void **state)
{
	static const char *const names[] = {
		"ibv_get_device_list", "ibv_get_device_name", "ibv_open_device", "ibv_alloc_pd",
		"ibv_reg_mr", "ibv_create_cq", "ibv_create_srq", "ibv_create_qp", "ibv_create_ah",
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		void *(*old)(void *, void *) = dlvsym(RTLD_DEFAULT, names[i], "IBVERBS_1.0");

		assert_non_null(old);
		assert_refused(old(NULL, NULL), EOPNOTSUPP);
	}
}

static void old_int_functions_refuse(void **state)
{
	static const char *const names[] = {
		"ibv_query_device", "ibv_query_port", "ibv_dealloc_pd", "ibv_dereg_mr", "ibv_resize_cq",
		"ibv_destroy_cq", "ibv_modify_srq", "ibv_query_srq", "ibv_destroy_srq", "ibv_query_qp",
		"ibv_modify_qp", "ibv_destroy_qp", "ibv_destroy_ah", "ibv_attach_mcast",
		"ibv_detach_mcast",
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		int (*old)(void *, void *) = dlvsym(RTLD_DEFAULT, names[i], "IBVERBS_1.0");

		assert_non_null(old);
		assert_int_equal(old(NULL, NULL), EOPNOTSUPP);
	}
}

/* As a vendor library of the release finds them; @driver is the name with the number in it. */
static void assert_node_refuses(const char *node, const char *driver)
{
	static const char *const names[] = {
		"ibv_cmd_get_context", "ibv_cmd_alloc_pd", "ibv_cmd_create_qp_ex2", "ibv_cmd_reg_mr",
		"execute_ioctl", "ibv_cmd_create_cq_ex2", "ibv_cmd_query_port_speed",
	};
	bool *allow = dlvsym(RTLD_DEFAULT, "verbs_allow_disassociate_destroy", node);
	void (*set_ops)(void *, void *) = dlvsym(RTLD_DEFAULT, "verbs_set_ops", node);
	void (*register_driver)(void *) = dlvsym(RTLD_DEFAULT, driver, node);
	void *(*open)(void *, void *) = dlvsym(RTLD_DEFAULT, "verbs_open_device", node);
	int (*export_dm)(void *) = dlvsym(RTLD_DEFAULT, "ibv_cmd_export_dmabuf_fd", node);

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		int (*command)(void *, void *) = dlvsym(RTLD_DEFAULT, names[i], node);

		assert_non_null(command);
		assert_int_equal(command(NULL, NULL), EOPNOTSUPP);
	}
	assert_non_null(allow);
	assert_false(*allow);
	set_ops(NULL, NULL);
	register_driver(NULL);
	assert_refused(open(NULL, NULL), EOPNOTSUPP);
	assert_minus_one(export_dm(NULL), EOPNOTSUPP);
}

static void commands_of_vendor_drivers_refuse(void **state)
{
	assert_node_refuses("IBVERBS_PRIVATE_34", "verbs_register_driver_34");
	assert_node_refuses("IBVERBS_PRIVATE_57", "verbs_register_driver_57");
	assert_node_refuses("IBVERBS_PRIVATE_59", "verbs_register_driver_59");
	assert_node_refuses("IBVERBS_PRIVATE_64", "verbs_register_driver_64");
}

/* Two that programs call, whatever release they are of (ibv_devinfo, perftest). */
static void private_calls_of_programs_work_at_each_version(void **state)
{
	static const char *const nodes[] = {
		"IBVERBS_PRIVATE_34", "IBVERBS_PRIVATE_57", "IBVERBS_PRIVATE_59", "IBVERBS_PRIVATE_64",
	};

	for (size_t i = 0; i < sizeof(nodes) / sizeof(nodes[0]); i++) {
		int (*type)(struct ibv_context *, uint8_t, unsigned, int *) =
			dlvsym(RTLD_DEFAULT, "ibv_query_gid_type", nodes[i]);
		const char *(*name)(int) = dlvsym(RTLD_DEFAULT, "ibv_wr_opcode_str", nodes[i]);
		int found = -1;

		assert_int_equal(type(context_of(state), 1, 0, &found), 0);
		assert_int_equal(found, 1);	/* RoCE v2, in sysfs */
		assert_string_equal(name(14), "flush");
	}
}

/* Of rdma-core 59 to 62; our headers may not know them. */
static void newer_calls_that_the_device_lacks_refuse(void **state)
{
	void *(*alloc)(void *, void *) = dlvsym(RTLD_DEFAULT, "ibv_alloc_dmah", "IBVERBS_1.15");
	int (*dealloc)(void *) = dlvsym(RTLD_DEFAULT, "ibv_dealloc_dmah", "IBVERBS_1.15");
	int (*export_dm)(void *) = dlvsym(RTLD_DEFAULT, "ibv_dm_export_dmabuf_fd", "IBVERBS_1.16");

	assert_refused(alloc(NULL, NULL), EOPNOTSUPP);
	assert_int_equal(dealloc(NULL), EOPNOTSUPP);
	assert_minus_one(export_dm(NULL), EOPNOTSUPP);
}

static void null_pointers_are_errors(void **state)
{
	struct ibv_context *context = context_of(state);
	struct verbs_context *verbs = verbs_get_ctx(context);
	struct ibv_qp_init_attr_ex qp_ex = { .qp_type = IBV_QPT_RC };
	struct ibv_qp_init_attr qp = { .qp_type = IBV_QPT_RC };
	struct ibv_pd *pd = ibv_alloc_pd(context);
	union ibv_gid gid;

	assert_refused(ibv_open_device(NULL), EINVAL);
	assert_minus_one(ibv_close_device(NULL), EINVAL);
	assert_refused(ibv_alloc_pd(NULL), EINVAL);
	assert_int_equal(ibv_dealloc_pd(NULL), EINVAL);
	assert_int_equal(ibv_dereg_mr(NULL), EINVAL);
	assert_refused(ibv_create_cq(NULL, 1, NULL, NULL, 0), EINVAL);
	assert_int_equal(ibv_destroy_cq(NULL), EINVAL);
	assert_refused(ibv_create_comp_channel(NULL), EINVAL);
	assert_refused(ibv_create_qp(pd, NULL), EINVAL);
	assert_refused(ibv_create_qp(NULL, &qp), EINVAL);
	assert_refused(ibv_create_qp(pd, &qp), EINVAL);		/* no CQs */
	assert_refused(verbs->create_qp_ex(context, &qp_ex), EINVAL);
	assert_int_equal(ibv_modify_qp(NULL, NULL, 0), EINVAL);
	assert_int_equal(ibv_destroy_qp(NULL), EINVAL);
	assert_refused(ibv_create_srq(pd, NULL), EINVAL);
	assert_refused(ibv_create_ah(pd, NULL), EINVAL);
	assert_int_equal(ibv_query_device(context, NULL), EINVAL);
	assert_minus_one(ibv_query_gid(NULL, 1, 0, &gid), EINVAL);
	assert_minus_one(ibv_get_async_event(context, NULL), EINVAL);
	assert_null(ibv_qp_to_qp_ex(NULL));
	ibv_free_device_list(NULL);
	ibv_ack_cq_events(NULL, 1);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
}

static void nonsense_is_refused(void **state)
{
	struct ibv_context *context = context_of(state);
	struct ibv_cq_init_attr_ex unknown = { .cqe = 4, .wc_flags = 1u << 30 };
	struct ibv_cq_init_attr_ex mask = { .cqe = 4, .comp_mask = 1u << 30 };
	struct ibv_cq_init_attr_ex none = { .cqe = 0 };
	struct ibv_query_device_ex_input input = { .comp_mask = 1 };
	struct ibv_device_attr_ex attr;
	struct ibv_port_attr port;

	assert_refused(ibv_create_cq(context, 0, NULL, NULL, 0), EINVAL);
	assert_refused(ibv_create_cq(context, -1, NULL, NULL, 0), EINVAL);
	assert_refused(ibv_create_cq(context, 1, NULL, NULL, context->num_comp_vectors), EINVAL);
	assert_refused(ibv_create_cq(context, 1, NULL, NULL, -1), EINVAL);
	assert_refused(ibv_create_cq_ex(context, &unknown), EOPNOTSUPP);
	assert_refused(ibv_create_cq_ex(context, &mask), EINVAL);
	assert_refused(ibv_create_cq_ex(context, &none), EINVAL);
	assert_int_equal(ibv_query_port(context, 0, &port), EINVAL);
	assert_int_equal(ibv_query_port(context, 2, &port), EINVAL);
	assert_int_equal(ibv_query_device_ex(context, &input, &attr), EINVAL);
	assert_minus_one(ibv_get_pkey_index(context, 1, 0x1234), ENOENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		test_with_device(every_slot_of_the_tables_is_filled),
		test_with_device(verbs_that_the_device_lacks_answer_not_supported),
		test_with_device(calls_of_raw_packets_refuse_null_pointers),
		test_with_device(xrc_refuses_masks_that_name_too_little),
		cmocka_unit_test(old_pointer_functions_refuse),
		cmocka_unit_test(old_int_functions_refuse),
		cmocka_unit_test(commands_of_vendor_drivers_refuse),
		test_with_device(private_calls_of_programs_work_at_each_version),
		cmocka_unit_test(newer_calls_that_the_device_lacks_refuse),
		test_with_device(null_pointers_are_errors),
		test_with_device(nonsense_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
