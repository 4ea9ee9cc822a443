/* SPDX-License-Identifier: BSD-2-Clause */
/* Multicast: joining attaches the QP. */
#include "rdmacm/rdmacm_test.h"

static struct sockaddr_in group = { .sin_family = AF_INET };

static void joined(enum rdma_cm_event_type kind, int status)
{
	struct endpoint *endpoint = to_id(id)->endpoint;
	struct endpoint_event event = {
		.kind = kind, .status = status, .datagram = true,
		.multicast = endpoint->multicast,
	};

	event.ud.qp_num = 0xffffff;
	event.ud.ah_attr.grh.dgid = group_gid;
	put_event(endpoint, event);
}

static void use_datagrams(void)
{
	group.sin_addr.s_addr = htonl(0xef090909);
	assert_int_equal(rdma_destroy_id(id), 0);
	assert_int_equal(rdma_create_id(channel, &id, NULL, RDMA_PS_UDP), 0);
	make_qp();
}

static void a_join_attaches_the_qp(void **state)
{
	struct rdma_cm_event *event;

	use_datagrams();
	assert_int_equal(rdma_join_multicast(id, (struct sockaddr *)&group, &group), 0);
	joined(RDMA_CM_EVENT_MULTICAST_JOIN, 0);
	event = next_event();
	assert_int_equal(event->event, RDMA_CM_EVENT_MULTICAST_JOIN);
	assert_ptr_equal(event->param.ud.private_data, &group);
	assert_int_equal(event->param.ud.qp_num, 0xffffff);
	rdma_ack_cm_event(event);
	assert_int_equal(rdma_leave_multicast(id, (struct sockaddr *)&group), 0);
	/* The library detached it: it cannot be detached again. */
	assert_int_not_equal(ibv_detach_mcast(id->qp, &group_gid, 0), 0);
	assert_int_equal(rdma_leave_multicast(id, (struct sockaddr *)&group), -1);
	assert_int_equal(errno, EADDRNOTAVAIL);
}

static void who_only_sends_is_not_attached(void **state)
{
	struct rdma_cm_join_mc_attr_ex attr = {
		.comp_mask = RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS,
		.join_flags = RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER,
		.addr = (struct sockaddr *)&group,
	};

	use_datagrams();
	assert_int_equal(rdma_join_multicast_ex(id, &attr, NULL), 0);
	joined(RDMA_CM_EVENT_MULTICAST_JOIN, 0);
	expect_event(RDMA_CM_EVENT_MULTICAST_JOIN, 0);
	assert_int_not_equal(ibv_detach_mcast(id->qp, &group_gid, 0), 0);
	attr.comp_mask = RDMA_CM_JOIN_MC_ATTR_ADDRESS;
	assert_int_equal(rdma_join_multicast_ex(id, &attr, NULL), -1);
	assert_int_equal(errno, EINVAL);
	attr.comp_mask = RDMA_CM_JOIN_MC_ATTR_RESERVED;
	assert_int_equal(rdma_join_multicast_ex(id, &attr, NULL), -1);
	assert_int_equal(errno, ENOTSUP);
}

static void leaving_withdraws_the_event_that_waits(void **state)
{
	use_datagrams();
	fake.join_error = EINVAL;
	assert_int_equal(rdma_join_multicast(id, (struct sockaddr *)&group, NULL), -1);
	assert_int_equal(errno, EINVAL);
	fake.join_error = 0;
	assert_int_equal(rdma_join_multicast(id, (struct sockaddr *)&group, NULL), 0);
	joined(RDMA_CM_EVENT_MULTICAST_ERROR, -ENODEV);
	assert_int_equal(rdma_leave_multicast(id, (struct sockaddr *)&group), 0);
	expect_no_event();
	assert_int_equal(to_id(id)->endpoint->held, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_join_attaches_the_qp),
		TEST(who_only_sends_is_not_attached),
		TEST(leaving_withdraws_the_event_that_waits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
