/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Completion counters as programs that are compiled with rdma-core 65 see them: structures, what each call
 * answers, errno. What is counted is in tests/clients/verify/counter.c, between two processes.
 */
#include "fixture.h"

struct ibv_comp_cntr;
struct caps { uint64_t max_value; uint32_t max_counters, supported_qp_attach_ops; };
struct init_attr { uint32_t comp_mask, type, flags; };
struct attach_attr { uint32_t comp_mask, op_mask; };
struct counter { struct ibv_context *context; uint32_t handle; };

extern int _ibv_query_comp_cntr_caps(struct ibv_context *context, struct caps *caps, size_t size);
extern struct counter *ibv_create_comp_cntr(struct ibv_context *context, struct init_attr *attr);
extern int ibv_destroy_comp_cntr(struct counter *counter);
extern int ibv_set_comp_cntr(struct counter *counter, uint64_t value);
extern int ibv_set_err_comp_cntr(struct counter *counter, uint64_t value);
extern int ibv_inc_comp_cntr(struct counter *counter, uint64_t amount);
extern int ibv_inc_err_comp_cntr(struct counter *counter, uint64_t amount);
extern int ibv_read_comp_cntr(struct counter *counter, uint64_t *value);
extern int ibv_read_err_comp_cntr(struct counter *counter, uint64_t *value);
extern int ibv_qp_attach_comp_cntr(struct ibv_qp *qp, struct counter *counter, struct attach_attr *attr);
extern int ibv_export_buf_dmabuf_fd(void *buf);

#define expect_values(counter, expected, expected_err)                                  \
	do {                                                                           \
		uint64_t value_ = 7, err_ = 7;                                         \
		assert_int_equal(ibv_read_comp_cntr(counter, &value_), 0);             \
		assert_int_equal(ibv_read_err_comp_cntr(counter, &err_), 0);           \
		assert_true(value_ == (expected) && err_ == (expected_err));           \
	} while (0)

static void the_device_says_what_it_counts(void **state)
{
	struct ibv_context *context = context_of(state);
	struct { struct caps caps; uint8_t later[8]; } caps;

	memset(&caps, 0xaa, sizeof(caps));
	assert_int_equal(_ibv_query_comp_cntr_caps(context, &caps.caps, sizeof(caps)), 0);
	assert_true(caps.caps.max_value == UINT64_MAX);
	assert_true(caps.caps.max_counters >= 1024);
	assert_int_equal(caps.caps.supported_qp_attach_ops, 0x3f);
	assert_int_equal(caps.later[0] | caps.later[7], 0);
	memset(&caps, 0xaa, sizeof(caps));
	assert_int_equal(_ibv_query_comp_cntr_caps(context, &caps.caps, 8), 0);
	assert_int_equal(caps.caps.max_counters, 0xaaaaaaaa);
	assert_int_equal(_ibv_query_comp_cntr_caps(context, NULL, 16), EINVAL);
}

static void two_values_are_set_increased_and_read(void **state)
{
	struct ibv_context *context = context_of(state);
	struct counter *counter = ibv_create_comp_cntr(context, &(struct init_attr){ 0 });

	assert_non_null(counter);
	assert_ptr_equal(counter->context, context);
	assert_int_not_equal(counter->handle, 0);
	expect_values(counter, 0, 0);
	assert_int_equal(ibv_set_comp_cntr(counter, UINT64_MAX), 0);
	assert_int_equal(ibv_inc_err_comp_cntr(counter, 3), 0);
	expect_values(counter, UINT64_MAX, 3);
	assert_int_equal(ibv_inc_comp_cntr(counter, 2), 0);	/* wraps */
	assert_int_equal(ibv_set_err_comp_cntr(counter, 9), 0);
	expect_values(counter, 1, 9);
	assert_int_equal(ibv_read_comp_cntr(counter, NULL), EINVAL);
	counter->handle++;
	assert_int_equal(ibv_destroy_comp_cntr(counter), ENOENT);	/* an adapter finds it by its number */
	counter->handle--;
	assert_int_equal(ibv_destroy_comp_cntr(counter), 0);
	errno = 0;
	assert_int_equal(ibv_destroy_comp_cntr(counter), EINVAL);	/* it is no more */
	assert_int_equal(errno, EINVAL);
}

static void what_is_not_known_is_refused(void **state)
{
	struct ibv_context *context = context_of(state);

	assert_refused(ibv_create_comp_cntr(context, &(struct init_attr){ .comp_mask = 1 }), EOPNOTSUPP);
	assert_refused(ibv_create_comp_cntr(context, &(struct init_attr){ .flags = 1 }), EOPNOTSUPP);
	assert_refused(ibv_create_comp_cntr(context, &(struct init_attr){ .type = 2 }), EOPNOTSUPP);
	assert_refused(ibv_create_comp_cntr(context, NULL), EINVAL);
	assert_refused(ibv_create_comp_cntr(NULL, &(struct init_attr){ 0 }), EINVAL);
	assert_minus_one(ibv_export_buf_dmabuf_fd(NULL), EINVAL);
}

static struct ibv_qp *counter_qp(struct ibv_context *context, struct ibv_pd **pd, struct ibv_cq **cq)
{
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC, .cap = { 4, 4, 1, 1, 0 } };

	*pd = ibv_alloc_pd(context);
	*cq = ibv_create_cq(context, 16, NULL, NULL, 0);
	assert_non_null(*pd);
	assert_non_null(*cq);
	init.send_cq = init.recv_cq = *cq;
	return ibv_create_qp(*pd, &init);
}

static void a_counter_is_attached_until_the_qp_is_destroyed(void **state)
{
	struct ibv_context *context = context_of(state);
	struct counter *one = ibv_create_comp_cntr(context, &(struct init_attr){ 0 });
	struct counter *two = ibv_create_comp_cntr(context, &(struct init_attr){ .type = 1 });
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1 };
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp = counter_qp(context, &pd, &cq);

	assert_non_null(one);
	assert_non_null(two);
	assert_non_null(qp);
	assert_int_equal(ibv_qp_attach_comp_cntr(qp, one, &(struct attach_attr){ .op_mask = 0 }), EINVAL);
	assert_int_equal(ibv_qp_attach_comp_cntr(qp, one, &(struct attach_attr){ 1, 1 }), EINVAL);
	assert_int_equal(ibv_qp_attach_comp_cntr(qp, one, &(struct attach_attr){ .op_mask = 64 }), EOPNOTSUPP);
	assert_int_equal(ibv_qp_attach_comp_cntr(qp, NULL, &(struct attach_attr){ .op_mask = 1 }), EINVAL);
	assert_int_equal(ibv_qp_attach_comp_cntr(qp, one, NULL), EINVAL);
	assert_int_equal(ibv_qp_attach_comp_cntr(qp, one, &(struct attach_attr){ .op_mask = 3 }), 0);
	assert_int_equal(ibv_qp_attach_comp_cntr(qp, two, &(struct attach_attr){ .op_mask = 6 }), EBUSY);
	assert_int_equal(ibv_qp_attach_comp_cntr(qp, two, &(struct attach_attr){ .op_mask = 4 }), 0);
	/* Once more, for another operation: one QP, two attachments. */
	assert_int_equal(ibv_qp_attach_comp_cntr(qp, one, &(struct attach_attr){ .op_mask = 8 }), 0);
	assert_int_equal(ibv_destroy_comp_cntr(one), EBUSY);
	assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				       IBV_QP_ACCESS_FLAGS), 0);
	assert_int_equal(ibv_qp_attach_comp_cntr(qp, two, &(struct attach_attr){ .op_mask = 32 }), 0);
	attr.qp_state = IBV_QPS_ERR;
	assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
	assert_int_equal(ibv_qp_attach_comp_cntr(qp, two, &(struct attach_attr){ .op_mask = 16 }), EINVAL);
	assert_int_equal(ibv_destroy_comp_cntr(two), EBUSY);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_comp_cntr(one), 0);
	assert_int_equal(ibv_destroy_comp_cntr(two), 0);
	assert_int_equal(ibv_destroy_cq(cq), 0);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
}

static void a_counter_of_another_device_is_refused(void **state)
{
	struct ibv_context *context = context_of(state), *other;
	struct counter *counter;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp = counter_qp(context, &pd, &cq);

	assert_non_null(qp);
	other = ibv_open_device(context->device);
	assert_non_null(other);
	counter = ibv_create_comp_cntr(other, &(struct init_attr){ 0 });
	assert_non_null(counter);
	assert_int_equal(ibv_qp_attach_comp_cntr(qp, counter, &(struct attach_attr){ .op_mask = 1 }), EINVAL);
	assert_int_equal(ibv_close_device(other), 0);	/* with the counter */
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_cq(cq), 0);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		test_with_device(the_device_says_what_it_counts),
		test_with_device(two_values_are_set_increased_and_read),
		test_with_device(what_is_not_known_is_refused),
		test_with_device(a_counter_is_attached_until_the_qp_is_destroyed),
		test_with_device(a_counter_of_another_device_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
