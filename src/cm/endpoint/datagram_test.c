/* SPDX-License-Identifier: BSD-2-Clause */
/* Datagram endpoints and multicast groups, over a faked link. */
#include "cm/endpoint/fake_peers_test.h"

static void a_service_id_resolves_to_a_queue_pair(void **test)
{
	struct endpoint *listener = listen_ud(), *active = create_ud(), *passive;
	struct rdma_conn_param reply = { .private_data = "here", .private_data_len = 4,
					 .qp_num = 0xc0de };
	struct endpoint_event event;

	resolve_to(active, ip("127.0.0.1", 7174));
	assert_int_equal(start_connecting(active, "where", 5), 0);
	fake_deliver(0);
	event = take(RDMA_CM_EVENT_CONNECT_REQUEST);
	assert_true(event.datagram);
	assert_int_equal(event.ud.private_data_len, 180);
	assert_memory_equal(event.private_data, "where", 6);
	passive = event.endpoint;
	assert_int_equal(endpoint_accept(passive, &reply, 0, NULL), 0);
	fake_deliver(0);
	event = take(RDMA_CM_EVENT_ESTABLISHED);
	assert_ptr_equal(event.endpoint, active);
	assert_int_equal(event.ud.qp_num, 0xc0de);
	assert_int_equal(event.ud.qkey, RDMA_UDP_QKEY);
	assert_int_equal(event.ud.private_data_len, 136);
	assert_memory_equal(event.private_data, "here", 5);
	assert_int_equal(event.ud.ah_attr.is_global, 1);
	assert_int_equal(event.ud.ah_attr.grh.sgid_index, 1);
	expect_none();
	endpoint_destroy(passive);
	endpoint_destroy(active);
	endpoint_destroy(listener);
}

static void a_refused_service_id_is_unreachable(void **test)
{
	struct endpoint *listener = listen_ud(), *active = create_ud(), *passive;

	resolve_to(active, ip("127.0.0.1", 7174));
	assert_int_equal(start_connecting(active, NULL, 0), 0);
	fake_deliver(0);
	passive = take(RDMA_CM_EVENT_CONNECT_REQUEST).endpoint;
	assert_int_equal(endpoint_reject(passive, NULL, 0, 0), 0);
	fake_deliver(0);
	assert_int_equal(take(RDMA_CM_EVENT_UNREACHABLE).status, CM_SIDR_REJECTED);
	endpoint_destroy(passive);
	endpoint_destroy(active);
	endpoint_destroy(listener);
}

static void a_question_beyond_the_backlog_is_refused_at_once(void **test)
{
	struct endpoint *listener = listen_ud(), *active[2] = { create_ud(), create_ud() };
	struct endpoint *passive;

	listener->room = 1;
	resolve_to(active[0], ip("127.0.0.1", 7174));
	resolve_to(active[1], ip("127.0.0.1", 7174));
	assert_int_equal(start_connecting(active[0], NULL, 0), 0);
	assert_int_equal(start_connecting(active[1], NULL, 0), 0);
	fake_deliver(0);
	passive = take(RDMA_CM_EVENT_CONNECT_REQUEST).endpoint;
	assert_int_equal(take(RDMA_CM_EVENT_UNREACHABLE).status, CM_SIDR_REJECTED);
	expect_none();
	assert_int_equal(listener->room, 1);
	endpoint_destroy(passive);
	endpoint_destroy(active[0]);
	endpoint_destroy(active[1]);
	endpoint_destroy(listener);
}

static void a_queue_pair_has_one_qkey(void **test)
{
	struct endpoint *listener = listen_ud(), *active = create_ud(), *passive;
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT };
	int mask;

	resolve_to(active, ip("127.0.0.1", 7174));
	assert_int_equal(endpoint_qp_attributes(active, &attr, &mask), 0);
	assert_int_equal(attr.qkey, RDMA_UDP_QKEY);
	assert_int_equal(start_connecting(active, NULL, 0), 0);
	fake_deliver(0);
	passive = take(RDMA_CM_EVENT_CONNECT_REQUEST).endpoint;
	assert_int_equal(endpoint_accept(passive, &(struct rdma_conn_param){ .qp_num = 1 }, 0x77,
					 NULL), 0);
	fake_deliver(0);
	assert_int_equal(take(RDMA_CM_EVENT_ADDR_ERROR).status, -EINVAL);
	endpoint_destroy(passive);
	endpoint_destroy(active);
	endpoint_destroy(listener);
}

static void a_group_is_its_ip_address(void **test)
{
	struct endpoint *endpoint = create_ud(), *other = create();
	const struct sockaddr *group = ip("239.77.0.1", 0);
	struct endpoint_event event;
	uint8_t mgid[16];
	union ibv_gid left;
	uint16_t left_lid;
	int user;

	fake_address("239.77.0.1", mgid);
	assert_int_equal(endpoint_join(endpoint, group, 0, &user), EINVAL);
	assert_int_equal(endpoint_resolve_address(endpoint, NULL, group, 1), 0);
	take(RDMA_CM_EVENT_ADDR_RESOLVED);
	assert_int_equal(endpoint_join(endpoint, group, RDMA_MC_JOIN_FLAG_FULLMEMBER, &user), 0);
	event = take(RDMA_CM_EVENT_MULTICAST_JOIN);
	assert_ptr_equal(event.multicast, &user);
	assert_int_equal(event.ud.qp_num, 0xffffff);
	assert_int_equal(event.ud.qkey, RDMA_UDP_QKEY);
	assert_memory_equal(event.ud.ah_attr.grh.dgid.raw, mgid, 16);
	assert_int_equal(endpoint_leave(endpoint, ip("239.77.0.2", 0), &left, &left_lid), ENOENT);
	assert_int_equal(endpoint_leave(endpoint, group, &left, &left_lid), 0);
	assert_memory_equal(left.raw, mgid, 16);
	assert_int_equal(endpoint_leave(endpoint, group, &left, &left_lid), ENOENT);
	assert_int_equal(endpoint_bind(other, ip("10.0.0.1", 1)), 0);
	assert_int_equal(endpoint_join(other, group, 0, NULL), EINVAL);
	endpoint_destroy(endpoint);
	endpoint_destroy(other);
}

#define channel_test(name) cmocka_unit_test_setup_teardown(name, open_channel, close_channel)

int main(void)
{
	const struct CMUnitTest tests[] = {
		channel_test(a_service_id_resolves_to_a_queue_pair),
		channel_test(a_refused_service_id_is_unreachable),
		channel_test(a_question_beyond_the_backlog_is_refused_at_once),
		channel_test(a_queue_pair_has_one_qkey),
		channel_test(a_group_is_its_ip_address),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
