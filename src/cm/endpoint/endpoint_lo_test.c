/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Endpoints on the real QP1 of this host, over lo: both sides in this process, or one in a child.
 * Skipped where lo is down.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "cm/endpoint/internal.h"
#include "platform/clock.h"

#define PATIENCE_MS	10000

/* The thread sanitizer allows no threads in the child of a fork() with threads. */
#if defined(__SANITIZE_THREAD__)
#define MAY_FORK false
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define MAY_FORK false
#endif
#endif
#ifndef MAY_FORK
#define MAY_FORK true
#endif

static struct cm_channel *channel;

static const struct sockaddr *at(const char *text, uint16_t port)
{
	static struct sockaddr_in rings[8];
	static unsigned next;
	struct sockaddr_in *out = &rings[next++ % 8];

	*out = (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons(port) };
	inet_pton(AF_INET, text, &out->sin_addr);
	return (struct sockaddr *)out;
}

static uint16_t port_of(struct endpoint *endpoint)
{
	struct endpoint_info info;

	endpoint_query(endpoint, &info);
	return ntohs(((struct sockaddr_in *)&info.source)->sin_port);
}

static int setup(void **test)
{
	return cm_channel_open(&channel);
}

static int teardown(void **test)
{
	cm_channel_close(channel);
	return 0;
}

static void next_event(struct endpoint_event *event)
{
	while (cm_channel_take(channel, event)) {
		struct pollfd entry = { .fd = cm_channel_fd(channel), .events = POLLIN };

		assert_int_equal(poll(&entry, 1, PATIENCE_MS), 1);
	}
	endpoint_event_ack(event);
}

static struct endpoint_event take(enum rdma_cm_event_type kind)
{
	struct endpoint_event event;

	next_event(&event);
	assert_int_equal(event.kind, kind);
	return event;
}

static struct endpoint *create(void)
{
	struct endpoint *endpoint;

	assert_int_equal(endpoint_create(channel, RDMA_PS_TCP, IBV_QPT_RC, NULL, &endpoint), 0);
	return endpoint;
}

static struct endpoint *serve(uint16_t port)
{
	struct endpoint *listener = create();

	assert_int_equal(endpoint_bind(listener, at("127.0.0.1", port)), 0);
	assert_int_equal(endpoint_listen(listener, 0), 0);
	return listener;
}

static struct endpoint *call(uint16_t port, uint32_t qpn, const char *text)
{
	struct rdma_conn_param parameters = { .qp_num = qpn, .private_data = text,
					      .private_data_len = (uint8_t)strlen(text) };
	struct endpoint *endpoint = create();

	assert_int_equal(endpoint_resolve_address(endpoint, NULL, at("127.0.0.1", port), 1), 0);
	take(RDMA_CM_EVENT_ADDR_RESOLVED);
	assert_int_equal(endpoint_resolve_route(endpoint, 1), 0);
	take(RDMA_CM_EVENT_ROUTE_RESOLVED);
	assert_int_equal(endpoint_connect(endpoint, &parameters, NULL), 0);
	return endpoint;
}

/* QP numbers of a slot that is ours, so that they mean what they do with real QPs. */
static uint32_t qpn(uint32_t index)
{
	return gsi_slot(agent.gsi) << 14 | index;
}

static int answer(struct endpoint *endpoint, uint32_t number, const char *text)
{
	struct rdma_conn_param parameters = { .qp_num = number, .private_data = text,
					      .private_data_len = (uint8_t)strlen(text) };

	return endpoint_accept(endpoint, &parameters, 0, NULL);
}

static void connections_carry_data_both_ways_and_end(void **test)
{
	struct endpoint *listener = serve(0);
	struct endpoint *active = call(port_of(listener), qpn(1), "ping"), *passive;
	struct endpoint_event event = take(RDMA_CM_EVENT_CONNECT_REQUEST);
	struct endpoint_info info;

	passive = event.endpoint;
	assert_string_equal((const char *)event.private_data, "ping");
	endpoint_query(passive, &info);
	assert_string_equal(info.device, "vb_lo");
	assert_int_equal(answer(passive, qpn(2), "pong"), 0);
	event = take(RDMA_CM_EVENT_CONNECT_RESPONSE);
	assert_string_equal((const char *)event.private_data, "pong");
	assert_int_equal(endpoint_established(active), 0);
	take(RDMA_CM_EVENT_ESTABLISHED);
	assert_int_equal(endpoint_disconnect(passive), 0);
	take(RDMA_CM_EVENT_DISCONNECTED);
	take(RDMA_CM_EVENT_DISCONNECTED);
	endpoint_destroy(passive);
	endpoint_destroy(active);
	endpoint_destroy(listener);
}

static void refusals_arrive(void **test)
{
	struct endpoint *listener = serve(0), *active = call(port_of(listener), qpn(3), "");
	struct endpoint *passive = take(RDMA_CM_EVENT_CONNECT_REQUEST).endpoint;
	uint16_t port = port_of(listener);

	assert_int_equal(endpoint_reject(passive, "no", 3, 0), 0);
	assert_int_equal(take(RDMA_CM_EVENT_REJECTED).status, CM_REJECT_CONSUMER_DEFINED);
	endpoint_destroy(passive);
	endpoint_destroy(active);
	endpoint_destroy(listener);
	active = call(port, qpn(4), "");
	assert_int_equal(take(RDMA_CM_EVENT_REJECTED).status, CM_REJECT_INVALID_SERVICE_ID);
	endpoint_destroy(active);
}

static pid_t fork_or_skip(struct endpoint *listener)
{
	pid_t child = MAY_FORK ? fork() : -1;

	if (child < 0) {
		if (listener)
			endpoint_destroy(listener);
		skip();
	}
	return child;
}

static void ports_conflict_between_processes(void **test)
{
	struct endpoint *listener = serve(0);
	uint16_t port = port_of(listener);
	int status;
	pid_t child = fork_or_skip(listener);

	if (!child) {
		struct endpoint *other;
		struct cm_channel *own;
		int err = cm_channel_open(&own);

		if (!err)
			err = endpoint_create(own, RDMA_PS_TCP, IBV_QPT_RC, NULL, &other);
		if (!err)
			err = endpoint_bind(other, at("127.0.0.1", port));
		_exit(err);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(WEXITSTATUS(status), EADDRINUSE);
	endpoint_destroy(listener);
	listener = serve(port);
	endpoint_destroy(listener);
}

/* In a child: what it inherited is dead and says so. */
static void endpoints_of_the_parent_are_dead_in_a_child(void **test)
{
	struct endpoint *listener = serve(0);
	int status;
	pid_t child = fork_or_skip(listener);

	if (!child) {
		struct endpoint_event event;
		bool right = endpoint_listen(listener, 0) == ENODEV &&
			     cm_channel_take(channel, &event) == ENODEV;

		endpoint_destroy(listener);
		cm_channel_close(channel);
		right = right && !cm_channel_open(&channel);
		_exit(right ? 0 : 1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	endpoint_destroy(call(port_of(listener), qpn(5), ""));
	endpoint_destroy(listener);
}

/* A server in a child of ours, which dies with a connection. */
static void serve_and_die(int ready)
{
	struct endpoint *listener;
	uint16_t port;

	if (cm_channel_open(&channel))
		_exit(1);
	listener = serve(0);
	port = port_of(listener);
	if (write(ready, &port, sizeof(port)) != sizeof(port))
		_exit(1);
	answer(take(RDMA_CM_EVENT_CONNECT_REQUEST).endpoint, qpn(6), "");
	take(RDMA_CM_EVENT_ESTABLISHED);
	if (write(ready, &port, sizeof(port)) != sizeof(port))
		_exit(1);
	pause();
	_exit(1);
}

static void a_killed_peer_disconnects_at_once(void **test)
{
	struct endpoint *active;
	int ready[2], status;
	uint64_t killed_ns;
	uint16_t port;
	pid_t child;

	assert_int_equal(pipe(ready), 0);
	child = fork_or_skip(NULL);
	if (!child)
		serve_and_die(ready[1]);
	close(ready[1]);
	assert_int_equal(read(ready[0], &port, sizeof(port)), sizeof(port));
	active = call(port, qpn(7), "");
	take(RDMA_CM_EVENT_CONNECT_RESPONSE);
	assert_int_equal(endpoint_established(active), 0);
	assert_int_equal(read(ready[0], &port, sizeof(port)), sizeof(port));
	kill(child, SIGKILL);
	killed_ns = clock_now_ns();
	take(RDMA_CM_EVENT_DISCONNECTED);
	assert_in_range(clock_now_ns() - killed_ns, 0, 10000000000u);	/* and not by timeouts of requests */
	waitpid(child, &status, 0);
	endpoint_destroy(active);
	close(ready[0]);
}

static void a_hundred_listeners_get_their_own(void **test)
{
	struct endpoint *listener[100], *active;
	unsigned i;

	for (i = 0; i < 100; i++)
		listener[i] = serve(0);
	for (i = 0; i < 100; i += 9) {
		struct endpoint_event event;

		active = call(port_of(listener[i]), qpn(100 + i), "");
		event = take(RDMA_CM_EVENT_CONNECT_REQUEST);
		assert_ptr_equal(event.listener, listener[i]);
		endpoint_destroy(event.endpoint);
		take(RDMA_CM_EVENT_REJECTED);
		endpoint_destroy(active);
	}
	for (i = 0; i < 100; i++)
		endpoint_destroy(listener[i]);
}

static void a_migrated_listener_brings_its_requests_along(void **test)
{
	struct endpoint *listener = serve(0), *active = call(port_of(listener), qpn(8), "");
	struct cm_channel *old = channel, *new;
	struct endpoint *passive;
	uint32_t taken;

	assert_int_equal(cm_channel_open(&new), 0);
	assert_int_equal(endpoint_migrate(listener, new, &taken), 0);
	channel = new;
	passive = take(RDMA_CM_EVENT_CONNECT_REQUEST).endpoint;
	assert_int_equal(answer(passive, qpn(9), ""), 0);
	channel = old;
	take(RDMA_CM_EVENT_CONNECT_RESPONSE);
	assert_int_equal(endpoint_established(active), 0);
	channel = new;
	take(RDMA_CM_EVENT_ESTABLISHED);
	endpoint_destroy(listener);
	endpoint_destroy(passive);
	cm_channel_close(new);
	channel = old;
	take(RDMA_CM_EVENT_DISCONNECTED);
	endpoint_destroy(active);
}

static void destroyed_endpoints_say_nothing_more(void **test)
{
	unsigned i;

	for (i = 0; i < 20; i++) {
		struct endpoint *listener = serve(0);
		struct endpoint *active = call(port_of(listener), qpn(200 + i), "");
		struct endpoint_event event;

		if (i & 1)
			usleep(i * 100);
		endpoint_destroy(active);
		endpoint_destroy(listener);
		assert_int_equal(cm_channel_take(channel, &event), EAGAIN);
	}
}

static bool has_lo(void)
{
	struct endpoint *endpoint;
	bool has = !setup(NULL);

	if (!has)
		return false;
	endpoint = create();
	has = !endpoint_bind(endpoint, at("127.0.0.1", 0));
	endpoint_destroy(endpoint);
	teardown(NULL);
	return has;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(connections_carry_data_both_ways_and_end),
		cmocka_unit_test(refusals_arrive),
		cmocka_unit_test(ports_conflict_between_processes),
		cmocka_unit_test(endpoints_of_the_parent_are_dead_in_a_child),
		cmocka_unit_test(a_killed_peer_disconnects_at_once),
		cmocka_unit_test(a_hundred_listeners_get_their_own),
		cmocka_unit_test(a_migrated_listener_brings_its_requests_along),
		cmocka_unit_test(destroyed_endpoints_say_nothing_more),
	};

	if (!has_lo()) {
		printf("SKIPPED: lo is down, or no device\n");
		return 77;
	}
	return cmocka_run_group_tests(tests, setup, teardown);
}
