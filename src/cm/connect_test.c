/* SPDX-License-Identifier: BSD-2-Clause */
/* Connections and datagram endpoints over a faked link, with the real protocol. */
#include "cm/fake_peers_test.h"

#include <unistd.h>

#define SECOND 1000000000ull

static struct endpoint *listen_ud(void)
{
	struct endpoint *listener = create_ud();

	assert_int_equal(endpoint_bind(listener, ip("127.0.0.1", 7174)), 0);
	assert_int_equal(endpoint_listen(listener, 10), 0);
	return listener;
}

static void connecting_shows_each_side_the_other(void **test)
{
	struct endpoint *listener = listen_on(ip("127.0.0.1", 7471), 10), *active = create();
	struct endpoint_event event;
	struct endpoint_info info;
	struct rdma_conn_param reply = { .private_data = "pong", .private_data_len = 4,
					 .responder_resources = 4, .initiator_depth = 2,
					 .rnr_retry_count = 6, .qp_num = 0xc456 };

	endpoint_set_user(listener, &listener);
	resolve_to(active, ip("127.0.0.1", 7471));
	assert_int_equal(start_connecting(active, "ping", 4), 0);
	fake_deliver(0);
	event = take(RDMA_CM_EVENT_CONNECT_REQUEST);
	assert_ptr_equal(event.listener, listener);
	assert_ptr_equal(event.user, &listener);
	assert_int_equal(event.connection.private_data_len, 56);
	assert_memory_equal(event.private_data, "ping\0\0", 6);
	assert_int_equal(event.connection.responder_resources, 5);
	assert_int_equal(event.connection.initiator_depth, 3);
	assert_int_equal(event.connection.retry_count, 7);
	assert_int_equal(event.connection.rnr_retry_count, 7);
	assert_int_equal(event.connection.flow_control, 1);
	assert_int_equal(event.connection.qp_num, 0x8123);
	endpoint_query(event.endpoint, &info);
	assert_string_equal(info.device, "vb_lo");
	assert_int_equal(((struct sockaddr_in *)&info.source)->sin_port, htons(7471));
	assert_int_not_equal(((struct sockaddr_in *)&info.destination)->sin_port, 0);
	assert_int_equal(endpoint_accept(event.endpoint, &reply, 0, NULL), 0);
	fake_deliver(0);
	listener->user = event.endpoint;
	event = take(RDMA_CM_EVENT_CONNECT_RESPONSE);
	assert_ptr_equal(event.endpoint, active);
	assert_int_equal(event.connection.private_data_len, 196);
	assert_memory_equal(event.private_data, "pong\0\0", 6);
	assert_int_equal(event.connection.responder_resources, 2);
	assert_int_equal(event.connection.initiator_depth, 4);
	assert_int_equal(event.connection.rnr_retry_count, 6);
	assert_int_equal(event.connection.qp_num, 0xc456);
	assert_int_equal(endpoint_established(active), 0);
	fake_deliver(0);
	take(RDMA_CM_EVENT_ESTABLISHED);
	expect_none();
	endpoint_destroy(listener->user);
	endpoint_destroy(listener);
	endpoint_destroy(active);
}

static void the_attributes_of_both_queue_pairs_fit(void **test)
{
	struct pair pair = connect_pair();
	struct ibv_qp_attr active = { .qp_state = IBV_QPS_RTR }, passive = active;
	int mask;

	assert_int_equal(endpoint_qp_attributes(pair.active, &active, &mask), 0);
	assert_int_equal(mask, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
			 IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	assert_int_equal(endpoint_qp_attributes(pair.passive, &passive, &mask), 0);
	assert_int_equal(active.dest_qp_num, 0xc456);
	assert_int_equal(passive.dest_qp_num, 0x8123);
	assert_int_equal(active.path_mtu, passive.path_mtu);
	assert_int_equal(active.max_dest_rd_atomic, 2);
	assert_int_equal(passive.max_dest_rd_atomic, 4);
	assert_int_equal(active.ah_attr.grh.sgid_index, 1);
	active.qp_state = passive.qp_state = IBV_QPS_RTS;
	assert_int_equal(endpoint_qp_attributes(pair.active, &active, &mask), 0);
	assert_int_equal(endpoint_qp_attributes(pair.passive, &passive, &mask), 0);
	assert_int_equal(mask, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			 IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_TIMEOUT);
	assert_int_equal(active.sq_psn, passive.rq_psn);
	assert_int_equal(passive.sq_psn, active.rq_psn);
	assert_int_equal(active.retry_cnt, 7);
	assert_int_equal(passive.retry_cnt, 7);
	assert_int_equal(active.rnr_retry, 6);
	assert_int_equal(passive.rnr_retry, 7);
	assert_int_equal(active.timeout, 19);
	assert_int_equal(passive.timeout, 19);
	active.qp_state = IBV_QPS_INIT;
	assert_int_equal(endpoint_qp_attributes(pair.active, &active, &mask), 0);
	assert_int_equal(active.qp_access_flags, IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
			 IBV_ACCESS_REMOTE_ATOMIC);
	destroy_pair(pair);
}

static void attributes_wait_for_what_is_known(void **test)
{
	struct endpoint *endpoint = create();
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT };
	int mask;

	assert_int_equal(endpoint_qp_attributes(endpoint, &attr, &mask), EINVAL);
	resolve_to(endpoint, ip("10.0.0.2", 1));
	assert_int_equal(endpoint_qp_attributes(endpoint, &attr, &mask), 0);
	assert_int_equal(mask, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
			 IBV_QP_ACCESS_FLAGS);
	attr.qp_state = IBV_QPS_RTR;
	assert_int_equal(endpoint_qp_attributes(endpoint, &attr, &mask), EINVAL);
	endpoint_destroy(endpoint);
}

static void both_sides_hear_of_a_disconnect_once(void **test)
{
	struct pair pair = connect_pair();

	assert_int_equal(endpoint_disconnect(pair.active), 0);
	assert_int_equal(endpoint_disconnect(pair.active), 0);
	fake_deliver(0);
	take(RDMA_CM_EVENT_DISCONNECTED);
	take(RDMA_CM_EVENT_DISCONNECTED);
	assert_int_equal(endpoint_disconnect(pair.passive), 0);
	fake_deliver(0);
	expect_none();
	destroy_pair(pair);
}

static void both_may_disconnect_at_the_same_time(void **test)
{
	struct pair pair = connect_pair();

	assert_int_equal(endpoint_disconnect(pair.active), 0);
	assert_int_equal(endpoint_disconnect(pair.passive), 0);
	fake_deliver(0);
	take(RDMA_CM_EVENT_DISCONNECTED);
	take(RDMA_CM_EVENT_DISCONNECTED);
	expect_none();
	destroy_pair(pair);
}

static void timewait_ends_with_an_event(void **test)
{
	struct pair pair = connect_pair();

	assert_int_equal(endpoint_disconnect(pair.active), 0);
	fake_deliver(0);
	take(RDMA_CM_EVENT_DISCONNECTED);
	take(RDMA_CM_EVENT_DISCONNECTED);
	fake_tick(60 * SECOND);
	take(RDMA_CM_EVENT_TIMEWAIT_EXIT);
	take(RDMA_CM_EVENT_TIMEWAIT_EXIT);
	expect_none();
	destroy_pair(pair);
}

static void a_rejection_brings_its_reason_and_data(void **test)
{
	struct endpoint *listener = listen_on(ip("127.0.0.1", 7471), 10);
	struct endpoint *active = call(ip("127.0.0.1", 7471)), *passive;
	struct endpoint_event event;

	fake_deliver(0);
	passive = take(RDMA_CM_EVENT_CONNECT_REQUEST).endpoint;
	assert_int_equal(endpoint_reject(passive, "no", 2, 0), 0);
	assert_int_equal(endpoint_accept(passive, NULL, 0, NULL), EINVAL);
	fake_deliver(0);
	event = take(RDMA_CM_EVENT_REJECTED);
	assert_ptr_equal(event.endpoint, active);
	assert_int_equal(event.status, 28);
	assert_int_equal(event.connection.private_data_len, 148);
	assert_memory_equal(event.private_data, "no\0", 3);
	assert_int_equal(endpoint_established(active), EINVAL);
	endpoint_destroy(passive);
	endpoint_destroy(active);
	endpoint_destroy(listener);
}

static void nobody_listening_is_a_rejection(void **test)
{
	struct endpoint *active = call(ip("127.0.0.1", 7471));

	fake_deliver(0);
	expect_none();
	usleep(140000);		/* it is believed after some time only */
	fake_tick(0);
	fake_deliver(0);
	assert_int_equal(take(RDMA_CM_EVENT_REJECTED).status, 8);
	endpoint_destroy(active);
}

/* perftest -R destroys a listener and listens anew while its client connects again. */
static void a_server_may_be_late(void **test)
{
	struct endpoint *active = call(ip("127.0.0.1", 7471)), *datagram = create_ud();
	struct endpoint *listener, *service;

	resolve_to(datagram, ip("127.0.0.1", 7174));
	assert_int_equal(start_connecting(datagram, NULL, 0), 0);
	fake_deliver(0);
	fake_tick(SECOND / 100);
	fake_deliver(0);
	listener = listen_on(ip("127.0.0.1", 7471), 10);
	service = listen_ud();
	fake_tick(SECOND / 50);
	fake_deliver(0);
	endpoint_destroy(take(RDMA_CM_EVENT_CONNECT_REQUEST).endpoint);
	endpoint_destroy(take(RDMA_CM_EVENT_CONNECT_REQUEST).endpoint);
	endpoint_destroy(active);
	endpoint_destroy(datagram);
	endpoint_destroy(listener);
	endpoint_destroy(service);
}

static void nobody_at_all_is_unreachable(void **test)
{
	struct endpoint *bounced = call(ip("10.0.0.2", 7471)), *silent;
	unsigned i;

	fake_bounce();
	assert_int_equal(take(RDMA_CM_EVENT_UNREACHABLE).status, -ETIMEDOUT);
	silent = call(ip("10.0.0.2", 7471));
	for (i = 0; i < 200; i++) {
		fake_deliver(~0ull);
		fake_tick(i * SECOND);
	}
	assert_int_equal(take(RDMA_CM_EVENT_UNREACHABLE).status, -ETIMEDOUT);
	expect_none();
	endpoint_destroy(bounced);
	endpoint_destroy(silent);
}

static void any_message_may_be_lost_once(void **test)
{
	unsigned lost, i;

	for (lost = 0; lost < 8; lost++) {
		struct endpoint *listener = listen_on(ip("127.0.0.1", 7471), 10);
		struct endpoint *active = call(ip("127.0.0.1", 7471)), *passive = NULL;
		struct endpoint_event event;
		unsigned ends = 0;
		uint64_t mask = 1ull << lost;

		for (i = 0; i < 400 && ends < 2; i++) {
			unsigned n = fake_deliver(mask);

			mask = n < 64 ? mask >> n : 0;
			if (!n)
				fake_tick(i * SECOND / 4);
			while (!cm_channel_take(channel, &event)) {
				if (event.kind == RDMA_CM_EVENT_CONNECT_REQUEST) {
					assert_null(passive);
					passive = event.endpoint;
					answer(passive);
				} else if (event.kind == RDMA_CM_EVENT_CONNECT_RESPONSE) {
					assert_int_equal(endpoint_established(active), 0);
				} else if (event.kind == RDMA_CM_EVENT_ESTABLISHED) {
					endpoint_disconnect(passive);
				} else {
					assert_true(event.kind == RDMA_CM_EVENT_DISCONNECTED ||
						    event.kind == RDMA_CM_EVENT_TIMEWAIT_EXIT);
					ends += event.kind == RDMA_CM_EVENT_DISCONNECTED;
				}
				endpoint_event_ack(&event);
			}
		}
		assert_int_equal(ends, 2);
		endpoint_destroy(active);
		endpoint_destroy(passive);
		endpoint_destroy(listener);
		for (i = 0; i < 100; i++) {	/* or stale connections would be found */
			fake_deliver(~0ull);
			fake_tick((600 + i * 60) * SECOND);
		}
	}
}

static void a_full_backlog_drops_and_a_retry_finds_room(void **test)
{
	struct endpoint *listener = listen_on(ip("127.0.0.1", 7471), 1);
	struct endpoint *first = call(ip("127.0.0.1", 7471)), *second, *passive[2];
	unsigned i;

	second = create();
	resolve_to(second, ip("127.0.0.1", 7471));
	second->qp_num = 0;
	assert_int_equal(endpoint_connect(second, &(struct rdma_conn_param){ .qp_num = 0x8200 },
					  NULL), 0);
	fake_deliver(0);
	passive[0] = take(RDMA_CM_EVENT_CONNECT_REQUEST).endpoint;
	expect_none();
	for (i = 0; i < 40 && !is_readable(channel); i++) {
		fake_tick(i * SECOND);
		fake_deliver(0);
	}
	passive[1] = take(RDMA_CM_EVENT_CONNECT_REQUEST).endpoint;
	endpoint_destroy(passive[0]);
	endpoint_destroy(passive[1]);
	endpoint_destroy(first);
	endpoint_destroy(second);
	endpoint_destroy(listener);
}

static void private_data_has_its_limits(void **test)
{
	static const uint8_t data[255];
	struct endpoint *listener = listen_on(ip("127.0.0.1", 7471), 10), *active = create();
	struct endpoint *passive;
	struct rdma_conn_param parameters = { .private_data = data, .private_data_len = 197 };

	resolve_to(active, ip("127.0.0.1", 7471));
	assert_int_equal(start_connecting(active, data, 57), EINVAL);
	assert_int_equal(start_connecting(active, data, 56), 0);
	fake_deliver(0);
	passive = take(RDMA_CM_EVENT_CONNECT_REQUEST).endpoint;
	assert_int_equal(endpoint_accept(passive, &parameters, 0, NULL), EINVAL);
	assert_int_equal(endpoint_reject(passive, data, 149, 0), EINVAL);
	parameters.private_data_len = 196;
	assert_int_equal(endpoint_accept(passive, &parameters, 0, NULL), 0);
	endpoint_destroy(passive);
	endpoint_destroy(active);
	endpoint_destroy(listener);
}

static void gids_connect_without_an_ip_header(void **test)
{
	const struct sockaddr *there = gid("10.0.0.1", 0x1060000 + 7471, UINT64_MAX);
	struct endpoint *listener = listen_on(gid(NULL, 0x1060000 + 7471, UINT64_MAX), 10);
	struct endpoint *active = create();
	struct endpoint_event event;
	struct endpoint_info info;

	resolve_to(active, there);
	assert_int_equal(start_connecting(active, "ping", 4), 0);
	fake_deliver(0);
	event = take(RDMA_CM_EVENT_CONNECT_REQUEST);
	assert_int_equal(event.connection.private_data_len, 92);
	assert_memory_equal(event.private_data, "ping\0", 5);
	endpoint_query(event.endpoint, &info);
	assert_int_equal(info.source.ss_family, AF_IB);
	assert_string_equal(info.device, "vb_eth0");
	assert_memory_equal(&((struct sockaddr_ib *)&info.destination)->sib_addr, &info.sgid, 16);
	endpoint_destroy(event.endpoint);
	endpoint_destroy(active);
	endpoint_destroy(listener);
}

/* ---- who goes away ---- */

static void the_death_of_a_peer_disconnects(void **test)
{
	struct pair pair = connect_pair();

	assert_int_equal(fake.watched, 2);	/* slots 2 and 3 of the QPNs */
	fake.ops->peer_gone(NULL, 0x8123 >> 14, clock_now_ns());
	assert_ptr_equal(take(RDMA_CM_EVENT_DISCONNECTED).endpoint, pair.passive);
	fake.ops->peer_gone(NULL, 77, clock_now_ns());
	expect_none();
	fake.ops->qp_failed(NULL, 0x8123, clock_now_ns());
	assert_ptr_equal(take(RDMA_CM_EVENT_DISCONNECTED).endpoint, pair.active);
	fake_deliver(0);
	expect_none();
	destroy_pair(pair);
}

static void a_peer_that_was_dead_already_is_noticed(void **test)
{
	struct endpoint *listener = listen_on(ip("127.0.0.1", 7471), 10);
	struct endpoint *active = call(ip("127.0.0.1", 7471)), *passive;

	fake_deliver(0);
	passive = take(RDMA_CM_EVENT_CONNECT_REQUEST).endpoint;
	fake.slot_gone = 0x8123 >> 14;
	assert_int_equal(answer(passive), 0);
	assert_int_equal(take(RDMA_CM_EVENT_UNREACHABLE).status, -ETIMEDOUT);
	endpoint_destroy(passive);
	endpoint_destroy(active);
	endpoint_destroy(listener);
}

static void a_listener_takes_what_it_has_not_shown_with_it(void **test)
{
	struct endpoint *listener = listen_on(ip("127.0.0.1", 7471), 10);
	struct endpoint *active = call(ip("127.0.0.1", 7471));

	fake_deliver(0);
	endpoint_destroy(listener);
	fake_deliver(0);
	assert_ptr_equal(take(RDMA_CM_EVENT_REJECTED).endpoint, active);
	expect_none();
	endpoint_destroy(active);
}

static void a_shown_endpoint_outlives_its_listener(void **test)
{
	struct endpoint *listener = listen_on(ip("127.0.0.1", 7471), 10);
	struct endpoint *active = call(ip("127.0.0.1", 7471)), *passive;

	fake_deliver(0);
	passive = take(RDMA_CM_EVENT_CONNECT_REQUEST).endpoint;
	endpoint_destroy(listener);
	assert_int_equal(answer(passive), 0);
	fake_deliver(0);
	take(RDMA_CM_EVENT_CONNECT_RESPONSE);
	endpoint_destroy(passive);
	endpoint_destroy(active);
}

static void a_request_whose_peer_gave_up_is_not_shown(void **test)
{
	struct endpoint *listener = listen_on(ip("127.0.0.1", 7471), 1);
	struct endpoint *active = call(ip("127.0.0.1", 7471));

	fake_deliver(0);
	endpoint_destroy(active);
	fake_deliver(0);
	assert_int_equal(cm_channel_take(channel, &(struct endpoint_event){ .status = 0 }),
			 EAGAIN);
	active = call(ip("127.0.0.1", 7471));
	fake_deliver(0);
	endpoint_destroy(take(RDMA_CM_EVENT_CONNECT_REQUEST).endpoint);
	endpoint_destroy(active);
	endpoint_destroy(listener);
}

/* Walk a pair to step @step of its life, then destroy one side, the other, both. */
static void endpoints_can_be_destroyed_in_every_state(void **test)
{
	unsigned step, who, i;

	for (step = 0; step < 8; step++)
		for (who = 0; who < 3; who++) {
			struct endpoint *listener = listen_on(ip("127.0.0.1", 7471), 10);
			struct endpoint *active = create(), *passive = NULL;
			struct endpoint_event event;

			if (step > 0)
				resolve_to(active, ip("127.0.0.1", 7471));
			if (step > 1)
				start_connecting(active, NULL, 0);
			if (step > 2)
				fake_deliver(0);
			if (step > 3)
				passive = take(RDMA_CM_EVENT_CONNECT_REQUEST).endpoint;
			if (step > 4)
				answer(passive);
			if (step > 5)
				fake_deliver(0);
			if (step > 6) {
				take(RDMA_CM_EVENT_CONNECT_RESPONSE);
				endpoint_established(active);
			}
			if (who != 1)
				endpoint_destroy(active);
			if (who != 0 && passive)
				endpoint_destroy(passive);
			fake_deliver(0);
			while (!cm_channel_take(channel, &event)) {
				endpoint_event_ack(&event);
				if (event.kind == RDMA_CM_EVENT_CONNECT_REQUEST)
					endpoint_destroy(event.endpoint);
			}
			if (who == 1)
				endpoint_destroy(active);
			if (who == 0 && passive)
				endpoint_destroy(passive);
			endpoint_destroy(listener);
			for (i = 0; i < 100; i++) {
				fake_deliver(~0ull);
				fake_tick((i + 1) * 60 * SECOND);
			}
			expect_none();
		}
}

/* ---- many ---- */

static void a_hundred_listeners_each_get_their_own(void **test)
{
	struct endpoint *listener[100], *active[100];
	unsigned i;

	for (i = 0; i < 100; i++)
		listener[i] = listen_on(ip(i & 1 ? "0.0.0.0" : "127.0.0.1", (uint16_t)(8000 + i)),
					0);
	for (i = 0; i < 100; i++) {
		active[i] = create();
		resolve_to(active[i], ip("127.0.0.1", (uint16_t)(8000 + i)));
		assert_int_equal(endpoint_connect(active[i],
						  &(struct rdma_conn_param){ .qp_num = 0x8000 + i },
						  NULL), 0);
	}
	fake_deliver(0);
	for (i = 0; i < 100; i++) {
		struct endpoint_event event = take(RDMA_CM_EVENT_CONNECT_REQUEST);

		assert_ptr_equal(event.listener, listener[event.connection.qp_num - 0x8000]);
		endpoint_destroy(event.endpoint);
	}
	for (i = 0; i < 100; i++) {
		endpoint_destroy(listener[i]);
		endpoint_destroy(active[i]);
	}
}

static void requests_of_one_device_look_it_up_once(void **test)
{
	struct endpoint *listener = listen_on(ip("0.0.0.0", 7471), 0), *active[50];
	unsigned i, before;

	for (i = 0; i < 50; i++) {
		active[i] = create();
		resolve_to(active[i], ip("127.0.0.1", 7471));
		endpoint_connect(active[i], &(struct rdma_conn_param){ .qp_num = 0x8000 + i },
				 NULL);
	}
	fake_deliver(0);
	before = fake.looked_up;
	for (i = 0; i < 50; i++)
		endpoint_destroy(take(RDMA_CM_EVENT_CONNECT_REQUEST).endpoint);
	assert_in_range(fake.looked_up - before, 0, 1);
	for (i = 0; i < 50; i++)
		endpoint_destroy(active[i]);
	endpoint_destroy(listener);
}

/* ---- datagrams ---- */

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
	assert_int_equal(endpoint_leave(endpoint, ip("239.77.0.2", 0), &left), ENOENT);
	assert_int_equal(endpoint_leave(endpoint, group, &left), 0);
	assert_memory_equal(left.raw, mgid, 16);
	assert_int_equal(endpoint_leave(endpoint, group, &left), ENOENT);
	assert_int_equal(endpoint_bind(other, ip("10.0.0.1", 1)), 0);
	assert_int_equal(endpoint_join(other, group, 0, NULL), EINVAL);
	endpoint_destroy(endpoint);
	endpoint_destroy(other);
}

#define channel_test(name) cmocka_unit_test_setup_teardown(name, open_channel, close_channel)

int main(void)
{
	const struct CMUnitTest tests[] = {
		channel_test(connecting_shows_each_side_the_other),
		channel_test(the_attributes_of_both_queue_pairs_fit),
		channel_test(attributes_wait_for_what_is_known),
		channel_test(both_sides_hear_of_a_disconnect_once),
		channel_test(both_may_disconnect_at_the_same_time),
		channel_test(timewait_ends_with_an_event),
		channel_test(a_rejection_brings_its_reason_and_data),
		channel_test(nobody_listening_is_a_rejection),
		channel_test(a_server_may_be_late),
		channel_test(nobody_at_all_is_unreachable),
		channel_test(any_message_may_be_lost_once),
		channel_test(a_full_backlog_drops_and_a_retry_finds_room),
		channel_test(private_data_has_its_limits),
		channel_test(gids_connect_without_an_ip_header),
		channel_test(the_death_of_a_peer_disconnects),
		channel_test(a_peer_that_was_dead_already_is_noticed),
		channel_test(a_listener_takes_what_it_has_not_shown_with_it),
		channel_test(a_shown_endpoint_outlives_its_listener),
		channel_test(a_request_whose_peer_gave_up_is_not_shown),
		channel_test(endpoints_can_be_destroyed_in_every_state),
		channel_test(a_hundred_listeners_each_get_their_own),
		channel_test(requests_of_one_device_look_it_up_once),
		channel_test(a_service_id_resolves_to_a_queue_pair),
		channel_test(a_refused_service_id_is_unreachable),
		channel_test(a_queue_pair_has_one_qkey),
		channel_test(a_group_is_its_ip_address),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
