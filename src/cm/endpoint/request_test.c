/* SPDX-License-Identifier: BSD-2-Clause */
/* Listeners and what comes to them, over a faked link. */
#include <unistd.h>

#include "cm/endpoint/fake_peers_test.h"

static void *accept_soon(void *endpoint)
{
	usleep(1000);
	assert_int_equal(answer(endpoint), 0);
	return NULL;
}

static void call_often(struct endpoint **active, unsigned times)
{
	static uint32_t qpn = 0x8000;
	unsigned i;

	for (i = 0; i < times; i++) {
		active[i] = create();
		resolve_to(active[i], ip("127.0.0.1", 7471));
		assert_int_equal(endpoint_connect(active[i],
						  &(struct rdma_conn_param){ .qp_num = qpn++ },
						  NULL), 0);
	}
	fake_deliver(0);
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

static void a_full_backlog_drops_and_a_retry_finds_room(void **test)
{
	struct endpoint *listener, *first, *second, *passive[2];
	unsigned i;

	if (!is_withdrawn_from_fds())
		skip();
	listener = listen_on(ip("127.0.0.1", 7471), 1);
	first = call(ip("127.0.0.1", 7471));
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

static void call_more(struct endpoint **active, unsigned count, uint16_t port)
{
	for (unsigned i = 0; i < count; i++) {
		active[i] = create();
		resolve_to(active[i], ip("127.0.0.1", port));
	}
	for (unsigned i = 0; i < count; i++)
		assert_int_equal(endpoint_connect(active[i], &(struct rdma_conn_param){
						  .qp_num = 0x8200 + i }, NULL), 0);
	fake_deliver(0);
}

static void a_backlog_that_nobody_empties_rejects(void **test)
{
	struct endpoint *listener = listen_on(ip("127.0.0.1", 7471), 2), *active[5], *passive[2];
	struct endpoint_event event;
	unsigned i;

	call_more(active, 5, 7471);
	assert_int_equal(listener->room, 0);
	listener->full_ns -= 2 * (uint64_t)CM_BACKLOG_PATIENCE_NS;
	fake_tick(SECOND);
	fake_deliver(0);
	passive[0] = take(RDMA_CM_EVENT_CONNECT_REQUEST).endpoint;
	passive[1] = take(RDMA_CM_EVENT_CONNECT_REQUEST).endpoint;
	for (i = 2; i < 5; i++) {
		event = take(RDMA_CM_EVENT_REJECTED);
		assert_int_equal(event.status, CM_REJECT_CONSUMER_DEFINED);
	}
	expect_none();
	assert_int_equal(listener->room, 2);		/* there is room again */
	for (i = 0; i < 5; i++)
		endpoint_destroy(active[i]);
	endpoint_destroy(passive[0]);
	endpoint_destroy(passive[1]);
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

/* One step rejects them all. */
static void no_message_is_sent_under_the_lock_however_many_there_are(void **test)
{
	struct endpoint *listener = listen_on(ip("127.0.0.1", 7471), 0), *active[20];
	unsigned i;

	call_often(active, 20);
	fake.sent_locked = 0;
	endpoint_destroy(listener);
	assert_int_equal(fake.sent_locked, 0);
	assert_int_equal(fake_deliver(0), 20);
	for (i = 0; i < 20; i++) /* in their order */
		assert_ptr_equal(take(RDMA_CM_EVENT_REJECTED).endpoint, active[i]);
	for (i = 0; i < 20; i++)
		endpoint_destroy(active[i]);
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

static void a_path_mtu_that_is_too_large_is_rejected(void **test)
{
	struct endpoint *listener = listen_on(ip("127.0.0.1", 7471), 10), *active = create();
	struct ibv_path_data data = { .path = { .mtu = IBV_MTU_4096, .packetlifetime = 18 } };
	struct endpoint_event event;

	resolve_by(active, "127.0.0.1", 7471, &data);
	assert_int_equal(start_connecting(active, NULL, 0), 0);
	fake_deliver(0);
	assert_int_equal(cm_channel_take(channel, &event), EAGAIN);
	fake_deliver(0);
	assert_int_equal(take(RDMA_CM_EVENT_REJECTED).status, CM_REJECT_INVALID_MTU);
	endpoint_destroy(active);
	endpoint_destroy(listener);
}

/* What the private data says is the sender's word: where the packet came from is not. */
static void a_request_of_another_host_for_localhost_is_refused(void **test)
{
	struct endpoint *listener = listen_on(ip("127.0.0.1", 7471), 10);
	struct endpoint *active = call(ip("127.0.0.1", 7471));
	struct endpoint_event event;

	fake_address("10.0.0.2", fake.queue[fake.first % FAKE_QUEUE].to.local);
	fake_deliver(0);
	assert_int_equal(cm_channel_take(channel, &event), EAGAIN);
	fake_deliver(0);
	assert_int_equal(take(RDMA_CM_EVENT_REJECTED).status, CM_REJECT_INVALID_GID);
	endpoint_destroy(active);
	endpoint_destroy(listener);
}

static void a_listener_of_datagrams_takes_no_connections(void **test)
{
	struct endpoint *listener = create_as(RDMA_PS_IB, IBV_QPT_UD);
	struct endpoint *active = create_as(RDMA_PS_IB, IBV_QPT_RC);

	assert_int_equal(endpoint_bind(listener, gid("127.0.0.1", 0, 0)), 0);
	assert_int_equal(endpoint_listen(listener, 1), 0);
	resolve_to(active, gid("127.0.0.1", listener->source.service_id, UINT64_MAX));
	assert_int_equal(start_connecting(active, NULL, 0), 0);
	fake_deliver(0);
	assert_int_equal(take(RDMA_CM_EVENT_REJECTED).status, CM_REJECT_INVALID_TRANSPORT);
	endpoint_destroy(active);
	endpoint_destroy(listener);
}

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

#define LOOK_NS 5000000u	/* how long the next request waits at most (channel.c) */

/* Was the first one accepted by the time that the second was shown? Else all of the time has passed. */
static bool next_waits_for_the_first(void)
{
	struct endpoint *listener = listen_on(ip("127.0.0.1", 7471), 0), *active[2], *passive[2];
	uint64_t begin_ns;
	pthread_t thread;
	bool accepted;

	call_often(active, 2);
	passive[0] = take(RDMA_CM_EVENT_CONNECT_REQUEST).endpoint;
	begin_ns = clock_now_ns();
	pthread_create(&thread, NULL, accept_soon, passive[0]);
	passive[1] = take(RDMA_CM_EVENT_CONNECT_REQUEST).endpoint;
	accepted = passive[0]->state == STATE_ACCEPTED;
	assert_true(accepted || clock_now_ns() - begin_ns >= LOOK_NS);
	pthread_join(thread, NULL);
	endpoint_destroy(passive[0]);
	endpoint_destroy(passive[1]);
	endpoint_destroy(active[0]);
	endpoint_destroy(active[1]);
	endpoint_destroy(listener);
	return accepted;
}

/* Beside others the other thread may have no core for longer than that, but not a hundred times. */
static void the_next_request_waits_for_a_look_at_the_last(void **test)
{
	unsigned tries = 0;

	while (!next_waits_for_the_first())
		assert_true(++tries < 100);
}

static uint64_t time_to_collect(void)
{
	struct endpoint *listener = listen_on(ip("127.0.0.1", 7471), 0), *active[20], *passive[20];
	uint64_t before_ns, taken_ns;
	unsigned i;

	call_often(active, 20);
	for (i = 0; i < 5; i++)
		passive[i] = take(RDMA_CM_EVENT_CONNECT_REQUEST).endpoint;
	before_ns = clock_now_ns();
	for (; i < 20; i++)
		passive[i] = take(RDMA_CM_EVENT_CONNECT_REQUEST).endpoint;
	taken_ns = clock_now_ns() - before_ns;
	for (i = 0; i < 20; i++) {
		endpoint_destroy(passive[i]);
		endpoint_destroy(active[i]);
	}
	endpoint_destroy(listener);
	return taken_ns;
}

static void who_collects_requests_is_not_waited_for_any_more(void **test)
{
	unsigned tries = 0;

	/* Not 15 times 5 ms; on a busy machine not each time. */
	while (time_to_collect() > 40000000)
		assert_true(++tries < 20);
}

#define channel_test(name) cmocka_unit_test_setup_teardown(name, open_channel, close_channel)

int main(void)
{
	const struct CMUnitTest tests[] = {
		channel_test(nobody_listening_is_a_rejection),
		channel_test(a_server_may_be_late),
		channel_test(a_full_backlog_drops_and_a_retry_finds_room),
		channel_test(a_backlog_that_nobody_empties_rejects),
		channel_test(a_listener_takes_what_it_has_not_shown_with_it),
		channel_test(no_message_is_sent_under_the_lock_however_many_there_are),
		channel_test(a_shown_endpoint_outlives_its_listener),
		channel_test(a_request_whose_peer_gave_up_is_not_shown),
		channel_test(a_path_mtu_that_is_too_large_is_rejected),
		channel_test(a_request_of_another_host_for_localhost_is_refused),
		channel_test(a_listener_of_datagrams_takes_no_connections),
		channel_test(a_hundred_listeners_each_get_their_own),
		channel_test(requests_of_one_device_look_it_up_once),
		channel_test(the_next_request_waits_for_a_look_at_the_last),
		channel_test(who_collects_requests_is_not_waited_for_any_more),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
