/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * For tests of what this layer does between the connection manager, which they play, and the
 * application: an ID with its event channel, for each test.
 */
#ifndef VERBATIM_RDMACM_RDMACM_TEST_H
#define VERBATIM_RDMACM_RDMACM_TEST_H

#include "rdmacm/fake_endpoint_test.h"

static struct sockaddr_in local = { .sin_family = AF_INET };
static struct rdma_event_channel *channel;
static struct rdma_cm_id *id;

static inline struct ibv_qp_init_attr small(enum ibv_qp_type type)
{
	return (struct ibv_qp_init_attr){
		.cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 },
		.qp_type = type,
	};
}

static inline int set_up(void **state)
{
	memset(&fake, 0, sizeof(fake));
	local.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	channel = rdma_create_event_channel();
	assert_non_null(channel);
	return rdma_create_id(channel, &id, &local, RDMA_PS_TCP);
}

/* Nothing is left behind, whatever the test did. */
static inline int tear_down(void **state)
{
	if (id) {
		rdma_destroy_qp(id);
		assert_int_equal(rdma_destroy_id(id), 0);
	}
	rdma_destroy_event_channel(channel);
	assert_int_equal(fake.open_channels, 0);
	assert_int_equal(fake.endpoints, 0);
	return 0;
}

static inline void resolve(void)
{
	assert_int_equal(rdma_bind_addr(id, (struct sockaddr *)&local), 0);
}

static inline void make_qp(void)
{
	struct ibv_qp_init_attr attr = small(id->qp_type);

	resolve();
	assert_int_equal(rdma_create_qp(id, NULL, &attr), 0);
	fake.qp = id->qp;
}

static inline struct rdma_cm_event *next_event(void)
{
	struct rdma_cm_event *event;

	assert_int_equal(rdma_get_cm_event(channel, &event), 0);
	return event;
}

static inline void expect_event(enum rdma_cm_event_type kind, int status)
{
	struct rdma_cm_event *event = next_event();

	assert_string_equal(rdma_event_str(event->event), rdma_event_str(kind));
	assert_int_equal(event->status, status);
	assert_ptr_equal(event->id, id);
	assert_int_equal(rdma_ack_cm_event(event), 0);
}

static inline void expect_no_event(void)
{
	struct rdma_cm_event *event;

	errno = 0;
	assert_int_equal(rdma_get_cm_event(channel, &event), -1);
	assert_int_equal(errno, EAGAIN);
}

static inline enum ibv_qp_state qp_state(void)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	assert_int_equal(ibv_query_qp(id->qp, &attr, IBV_QP_STATE, &init), 0);
	return attr.qp_state;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

#endif
