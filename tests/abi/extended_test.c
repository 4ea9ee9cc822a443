/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Verbs beyond the first release of the ABI, as programs call them: what they accept, the errors of
 * their man pages, and what ibv_query_device_ex(3) promises of them. Without traffic.
 */
#include "fixture.h"

#include <string.h>

static struct ibv_device_attr_ex attributes_of(struct ibv_context *context)
{
	struct ibv_device_attr_ex attr;

	assert_int_equal(ibv_query_device_ex(context, NULL, &attr), 0);
	return attr;
}

static void cq_moderation_is_within_the_promised_limits(void **state)
{
	struct ibv_context *context = context_of(state);
	struct ibv_device_attr_ex device = attributes_of(context);
	struct ibv_cq *cq = ibv_create_cq(context, 16, NULL, NULL, 0);
	struct ibv_modify_cq_attr attr = { .attr_mask = IBV_CQ_ATTR_MODERATE };

	assert_non_null(cq);
	assert_int_equal(device.cq_mod_caps.max_cq_count, UINT16_MAX);
	assert_int_equal(device.cq_mod_caps.max_cq_period, UINT16_MAX);
	attr.moderate.cq_count = device.cq_mod_caps.max_cq_count;
	attr.moderate.cq_period = device.cq_mod_caps.max_cq_period;
	assert_int_equal(ibv_modify_cq(cq, &attr), 0);
	attr.moderate.cq_count = attr.moderate.cq_period = 0;
	assert_int_equal(ibv_modify_cq(cq, &attr), 0);
	assert_int_equal(ibv_modify_cq(cq, NULL), EINVAL);
	attr.attr_mask = 0;
	assert_int_equal(ibv_modify_cq(cq, &attr), EINVAL);
	attr.attr_mask = IBV_CQ_ATTR_MODERATE | IBV_CQ_ATTR_RESERVED;
	assert_int_equal(ibv_modify_cq(cq, &attr), EOPNOTSUPP);
	assert_int_equal(ibv_destroy_cq(cq), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		test_with_device(cq_moderation_is_within_the_promised_limits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
