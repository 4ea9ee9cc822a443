/* SPDX-License-Identifier: BSD-2-Clause */
/* Connections over a faked link, with the real protocol. */
#include "cm/endpoint/fake_peers_test.h"

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

/* The address of the message that will be sent next. */
static struct mad_address next_to(void)
{
	assert_true(fake.first != fake.last);
	return fake.queue[fake.first % FAKE_QUEUE].to;
}

static void a_request_names_who_has_answered_one_until_it_is_repeated(void **test)
{
	struct endpoint *listener = listen_on(ip("127.0.0.1", 7999), 10), *first, *second, *elsewhere;

	first = call(ip("127.0.0.1", 7999));
	assert_int_equal(next_to().slot, 0);
	fake_deliver(0);
	listener->user = take(RDMA_CM_EVENT_CONNECT_REQUEST).endpoint;
	assert_int_equal(answer(listener->user), 0);
	fake_deliver(0);
	take(RDMA_CM_EVENT_CONNECT_RESPONSE);
	second = call(ip("127.0.0.1", 7999));
	assert_int_equal(next_to().slot, FAKE_SLOT);
	fake_deliver(~0ull);
	fake_tick(400000000ull);
	assert_int_equal(next_to().slot, 0);
	fake_deliver(~0ull);
	elsewhere = call(ip("10.0.0.2", 7999));
	assert_int_equal(next_to().slot, 0);
	endpoint_destroy(elsewhere);
	elsewhere = call(ip("127.0.0.1", 7983));	/* of the same place in the table */
	assert_int_equal(next_to().slot, 0);
	fake_deliver(~0ull);
	endpoint_destroy(elsewhere);
	endpoint_destroy(second);
	endpoint_destroy(listener->user);
	endpoint_destroy(listener);
	endpoint_destroy(first);
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

static void expect_of_all(struct pair pair, enum rdma_cm_event_type kind)
{
	unsigned seen = 0;

	for (unsigned i = 0; i < 3; i++) {
		const struct endpoint *endpoint = take(kind).endpoint;

		seen |= endpoint == pair.active	    ? 1
			: endpoint == pair.passive  ? 2
			: endpoint == pair.listener ? 4
						    : 0;
	}
	assert_int_equal(seen, 7);
	expect_none();
}

static void ids_are_told_what_becomes_of_their_interface(void **test)
{
	struct pair pair = connect_pair();
	struct net_change change = { .interface = pair.active->port->gid.interface_index + 1 };

	fake.ops->interface_changed(NULL, &change, clock_now_ns());
	expect_none();
	change.interface--;
	fake.ops->interface_changed(NULL, &change, clock_now_ns());
	expect_of_all(pair, RDMA_CM_EVENT_ADDR_CHANGE);
	change.gone = true;
	fake.ops->interface_changed(NULL, &change, clock_now_ns());
	expect_of_all(pair, RDMA_CM_EVENT_DEVICE_REMOVAL);
	destroy_pair(pair);
	fake.ops->interface_changed(NULL, &change, clock_now_ns());
}

/* As on Linux: it goes on with the devices that there are. */
static void a_listener_on_any_address_is_not_told_of_one_interface(void **test)
{
	struct endpoint *listener = listen_on(ip("0.0.0.0", 7471), 10);
	struct endpoint *bound = listen_on(ip("127.0.0.1", 7472), 10);
	struct net_change change = { .interface = bound->port->gid.interface_index, .gone = true };

	fake.ops->interface_changed(NULL, &change, clock_now_ns());
	assert_ptr_equal(take(RDMA_CM_EVENT_DEVICE_REMOVAL).endpoint, bound);
	expect_none();
	endpoint_destroy(bound);
	endpoint_destroy(listener);
}

static void a_peer_that_was_dead_already_is_noticed(void **test)
{
	struct endpoint *listener = listen_on(ip("127.0.0.1", 7471), 10);
	struct endpoint *active = call(ip("127.0.0.1", 7471)), *passive;

	fake_deliver(0);
	passive = take(RDMA_CM_EVENT_CONNECT_REQUEST).endpoint;
	fake.slot_gone = 0x8123 >> 14;
	assert_int_equal(answer(passive), 0);
	expect_none();			/* its last words may still be under way */
	fake_tick(2000000000ull);
	assert_int_equal(take(RDMA_CM_EVENT_UNREACHABLE).status, -ETIMEDOUT);
	endpoint_destroy(passive);
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

static void enhancements_of_both_sides_arrive(void **test)
{
	struct endpoint *listener = listen_on(ip("127.0.0.1", 7471), 10), *active = create();
	struct endpoint_ece ece = { .vendor_id = 0x123456, .options = 0x89abcdef };
	struct rdma_conn_param parameters = { .qp_num = 0x8123 };
	struct endpoint_event event;
	struct endpoint *passive;

	resolve_to(active, ip("127.0.0.1", 7471));
	assert_int_equal(endpoint_connect(active, &parameters, &ece), 0);
	fake_deliver(0);
	event = take(RDMA_CM_EVENT_CONNECT_REQUEST);
	assert_int_equal(event.ece.vendor_id, 0x123456);
	assert_int_equal(event.ece.options, 0x89abcdef);
	passive = event.endpoint;
	ece.vendor_id = 0x654321;
	parameters.qp_num = 0xc456;
	assert_int_equal(endpoint_accept(passive, &parameters, 0, &ece), 0);
	fake_deliver(0);
	event = take(RDMA_CM_EVENT_CONNECT_RESPONSE);
	assert_int_equal(event.ece.vendor_id, 0x654321);
	endpoint_destroy(passive);
	endpoint_destroy(active);
	endpoint_destroy(listener);
}

static void traffic_before_the_rtu_establishes(void **test)
{
	struct endpoint *listener = listen_on(ip("127.0.0.1", 7471), 10);
	struct endpoint *active = call(ip("127.0.0.1", 7471)), *passive;

	fake_deliver(0);
	passive = take(RDMA_CM_EVENT_CONNECT_REQUEST).endpoint;
	assert_int_equal(endpoint_notify(passive, IBV_EVENT_COMM_EST), EINVAL);
	assert_int_equal(answer(passive), 0);
	assert_int_equal(endpoint_notify(passive, IBV_EVENT_PATH_MIG), EINVAL);
	assert_int_equal(endpoint_notify(passive, IBV_EVENT_COMM_EST), 0);
	take(RDMA_CM_EVENT_ESTABLISHED);
	assert_int_equal(endpoint_notify(passive, IBV_EVENT_COMM_EST), EISCONN);
	fake_deliver(0);
	take(RDMA_CM_EVENT_CONNECT_RESPONSE);
	assert_int_equal(endpoint_established(active), 0);
	fake_deliver(0);
	expect_none();
	endpoint_destroy(passive);
	endpoint_destroy(active);
	endpoint_destroy(listener);
}

#define channel_test(name) cmocka_unit_test_setup_teardown(name, open_channel, close_channel)

int main(void)
{
	const struct CMUnitTest tests[] = {
		channel_test(connecting_shows_each_side_the_other),
		channel_test(a_request_names_who_has_answered_one_until_it_is_repeated),
		channel_test(the_attributes_of_both_queue_pairs_fit),
		channel_test(attributes_wait_for_what_is_known),
		channel_test(both_sides_hear_of_a_disconnect_once),
		channel_test(both_may_disconnect_at_the_same_time),
		channel_test(timewait_ends_with_an_event),
		channel_test(a_rejection_brings_its_reason_and_data),
		channel_test(nobody_at_all_is_unreachable),
		channel_test(any_message_may_be_lost_once),
		channel_test(private_data_has_its_limits),
		channel_test(gids_connect_without_an_ip_header),
		channel_test(the_death_of_a_peer_disconnects),
		channel_test(ids_are_told_what_becomes_of_their_interface),
		channel_test(a_listener_on_any_address_is_not_told_of_one_interface),
		channel_test(a_peer_that_was_dead_already_is_noticed),
		channel_test(endpoints_can_be_destroyed_in_every_state),
		channel_test(enhancements_of_both_sides_arrive),
		channel_test(traffic_before_the_rtu_establishes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
