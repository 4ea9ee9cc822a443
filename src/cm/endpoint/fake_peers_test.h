/* SPDX-License-Identifier: BSD-2-Clause */
/* For tests of endpoints: addresses, endpoints and events in few words, on fake_hca_test.h. */
#ifndef VERBATIM_CM_ENDPOINT_FAKE_PEERS_TEST_H
#define VERBATIM_CM_ENDPOINT_FAKE_PEERS_TEST_H

#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "cm/endpoint/fake_hca_test.h"
#include "platform/withdrawn_test.h"

#define SECOND 1000000000ull

static struct cm_channel *channel;

static inline int open_channel(void **test)
{
	memset(&fake, 0, sizeof(fake));
	return cm_channel_open(&channel);
}

/* Whatever a test did: nothing is left behind. */
static inline int close_channel(void **test)
{
	unsigned i;

	cm_channel_close(channel);
	for (i = 0; i < 64; i++) {	/* let timewait pass, so that the agent can stop */
		fake_deliver(~0ull);
		fake_tick(3600000000000ull * (i + 1));
	}
	fake_deliver(~0ull);
	assert_int_equal(cm_channel_open(&channel), 0);
	cm_channel_close(channel);
	assert_int_equal(fake.opened, 0);
	assert_int_equal(fake.claims, 0);
	assert_int_equal(fake.watched, fake.unwatched);
	assert_true(list_empty(&agent.ports));
	return 0;
}

static inline const struct sockaddr *ip(const char *text, uint16_t port)
{
	static struct sockaddr_storage rings[8];
	static unsigned next;
	struct sockaddr_storage *out = &rings[next++ % 8];
	struct endpoint_address address = { .port = port, .family = AF_INET };
	struct in6_addr v6;

	if (inet_pton(AF_INET6, text, &v6) == 1) {
		address.family = AF_INET6;
		memcpy(address.bytes, &v6, 16);
	} else {
		fake_address(text, address.bytes);
	}
	address_write(&address, out);
	return (struct sockaddr *)out;
}

static inline const struct sockaddr *gid(const char *text, uint64_t service_id, uint64_t mask)
{
	static struct sockaddr_storage rings[4];
	static unsigned next;
	struct sockaddr_storage *out = &rings[next++ % 4];
	struct endpoint_address address = { .family = AF_IB, .service_id = service_id,
					    .mask = mask, .pkey = 0xffff };

	if (text)
		fake_address(text, address.bytes);
	address_write(&address, out);
	return (struct sockaddr *)out;
}

static inline struct endpoint *create_as(enum rdma_port_space space, enum ibv_qp_type type)
{
	struct endpoint *endpoint;

	assert_int_equal(endpoint_create(channel, space, type, NULL, &endpoint), 0);
	return endpoint;
}

static inline struct endpoint *create(void)
{
	return create_as(RDMA_PS_TCP, IBV_QPT_RC);
}

static inline struct endpoint *create_ud(void)
{
	return create_as(RDMA_PS_UDP, IBV_QPT_UD);
}

static inline bool is_readable(const struct cm_channel *of)
{
	struct pollfd entry = { .fd = cm_channel_fd(of), .events = POLLIN };

	return poll(&entry, 1, 0) == 1;
}

/* The next event, which must be of @kind; acknowledged already. */
static inline struct endpoint_event take(enum rdma_cm_event_type kind)
{
	struct endpoint_event event;

	assert_true(is_readable(channel));
	assert_int_equal(cm_channel_take(channel, &event), 0);
	assert_int_equal(event.kind, kind);
	endpoint_event_ack(&event);
	if (event.connection.private_data)
		event.connection.private_data = event.private_data;
	return event;
}

static inline void expect_none(void)
{
	struct endpoint_event event;

	assert_int_equal(cm_channel_take(channel, &event), EAGAIN);
	assert_false(is_readable(channel) && is_withdrawn_from_fds());
}

static inline struct endpoint *listen_on(const struct sockaddr *address, int backlog)
{
	struct endpoint *listener = create();

	assert_int_equal(endpoint_bind(listener, address), 0);
	assert_int_equal(endpoint_listen(listener, backlog), 0);
	return listener;
}

static inline struct endpoint *listen_ud(void)
{
	struct endpoint *listener = create_ud();

	assert_int_equal(endpoint_bind(listener, ip("127.0.0.1", 7174)), 0);
	assert_int_equal(endpoint_listen(listener, 10), 0);
	return listener;
}

static inline void resolve_to(struct endpoint *endpoint, const struct sockaddr *address)
{
	assert_int_equal(endpoint_resolve_address(endpoint, NULL, address, 1000), 0);
	take(RDMA_CM_EVENT_ADDR_RESOLVED);
	assert_int_equal(endpoint_resolve_route(endpoint, 1000), 0);
	take(RDMA_CM_EVENT_ROUTE_RESOLVED);
}

/* The same, with a path that the application gives: from @path's other fields, to @text. */
static inline void resolve_by(struct endpoint *endpoint, const char *text, uint16_t port,
			      struct ibv_path_data *path)
{
	fake_address(text, path->path.dgid.raw);
	path->flags = IBV_PATH_FLAG_GMP | IBV_PATH_FLAG_PRIMARY | IBV_PATH_FLAG_BIDIRECTIONAL;
	path->path.pkey = htobe16(0xffff);
	assert_int_equal(endpoint_resolve_address(endpoint, NULL, ip(text, port), 1), 0);
	take(RDMA_CM_EVENT_ADDR_RESOLVED);
	assert_int_equal(endpoint_set_option(endpoint, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, path,
					     sizeof(*path)), 0);
	take(RDMA_CM_EVENT_ROUTE_RESOLVED);
}

static inline int start_connecting(struct endpoint *endpoint, const void *data, uint8_t bytes)
{
	struct rdma_conn_param parameters = {
		.private_data = data, .private_data_len = bytes, .responder_resources = 3,
		.initiator_depth = 5, .retry_count = 9, .rnr_retry_count = 7, .qp_num = 0x8123,
		.flow_control = 1,
	};

	return endpoint_connect(endpoint, &parameters, NULL);
}

static inline struct endpoint *call(const struct sockaddr *address)
{
	struct endpoint *endpoint = create();

	resolve_to(endpoint, address);
	assert_int_equal(start_connecting(endpoint, NULL, 0), 0);
	return endpoint;
}

static inline int answer(struct endpoint *endpoint)
{
	struct rdma_conn_param parameters = { .responder_resources = 4, .initiator_depth = 2,
					      .rnr_retry_count = 6, .qp_num = 0xc456 };

	return endpoint_accept(endpoint, &parameters, 0, NULL);
}

struct pair {
	struct endpoint *listener, *active, *passive;
};

static inline struct pair connect_pair(void)
{
	struct pair pair = { .listener = listen_on(ip("127.0.0.1", 7471), 10) };

	pair.active = call(ip("127.0.0.1", 7471));
	fake_deliver(0);
	pair.passive = take(RDMA_CM_EVENT_CONNECT_REQUEST).endpoint;
	assert_int_equal(answer(pair.passive), 0);
	fake_deliver(0);
	take(RDMA_CM_EVENT_CONNECT_RESPONSE);
	assert_int_equal(endpoint_established(pair.active), 0);
	fake_deliver(0);
	assert_ptr_equal(take(RDMA_CM_EVENT_ESTABLISHED).endpoint, pair.passive);
	return pair;
}

static inline void destroy_pair(struct pair pair)
{
	endpoint_destroy(pair.active);
	endpoint_destroy(pair.passive);
	endpoint_destroy(pair.listener);
}

#endif
