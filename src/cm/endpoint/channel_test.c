/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Event channels: the fd is readable if an event can be got, and only then, whatever became of the peers, ids and
 * groups that events are of; and each event is an edge for epoll.
 */
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "cm/endpoint/fake_peers_test.h"

static struct cm_channel *served;	/* of listeners; clients use @channel */

static int open_channels(void **test)
{
	return open_channel(test) || cm_channel_open(&served);
}

static int close_channels(void **test)
{
	cm_channel_close(served);
	return close_channel(test);
}

static struct endpoint *serve(uint16_t port)
{
	struct endpoint *listener = listen_on(ip("127.0.0.1", port), 10);
	uint32_t taken;

	assert_int_equal(endpoint_migrate(listener, served, &taken), 0);
	return listener;
}

static struct endpoint *ask(uint16_t port)
{
	static uint32_t qpn = 0x8000;
	struct endpoint *endpoint = create();

	resolve_to(endpoint, ip("127.0.0.1", port));
	assert_int_equal(endpoint_connect(endpoint, &(struct rdma_conn_param){ .qp_num = qpn++ }, NULL), 0);
	fake_deliver(0);
	return endpoint;
}

/* The next event of @served, acknowledged; NULL: none, and the fd says so, too. */
static struct endpoint *next_of(struct cm_channel *of, enum rdma_cm_event_type *kind)
{
	bool readable = is_readable(of);
	struct endpoint_event event;
	int err = cm_channel_take(of, &event);

	if (is_withdrawn_from_fds() || !readable)
		assert_int_equal(err, readable ? 0 : EAGAIN);
	if (err)
		return NULL;
	*kind = event.kind;
	endpoint_event_ack(&event);
	return event.endpoint;
}

static void expect_silence(void)
{
	enum rdma_cm_event_type kind;

	assert_null(next_of(served, &kind));
}

static struct endpoint *next_request(void)
{
	enum rdma_cm_event_type kind = RDMA_CM_EVENT_ADDR_ERROR;
	struct endpoint *endpoint = next_of(served, &kind);

	assert_non_null(endpoint);
	assert_int_equal(kind, RDMA_CM_EVENT_CONNECT_REQUEST);
	return endpoint;
}

static void a_request_whose_client_gave_up_is_withdrawn(void **test)
{
	struct endpoint *listener = serve(7471), *client[3], *passive;
	int room = listener->room;

	for (unsigned i = 0; i < 3; i++)
		client[i] = ask(7471);
	assert_int_equal(listener->room, room - 3);
	endpoint_destroy(client[0]);
	endpoint_destroy(client[2]);
	fake_deliver(0);
	assert_int_equal(listener->room, room - 1);
	passive = next_request();
	expect_silence();
	assert_int_equal(listener->room, room);
	endpoint_destroy(passive);
	endpoint_destroy(client[1]);
	endpoint_destroy(listener);
}

/* Of SIDR there is no such message: its request stays. */
static void a_request_that_was_got_tells_nothing_before_it_is_accepted(void **test)
{
	struct endpoint *listener = serve(7471), *client = ask(7471), *passive = next_request();

	endpoint_destroy(client);
	fake_deliver(0);
	expect_silence();
	assert_int_equal(answer(passive), EINVAL);
	for (unsigned i = 0; i < 20; i++)
		fake_tick(i * SECOND);
	expect_silence();
	endpoint_destroy(passive);
	endpoint_destroy(listener);
}

static void events_of_ids_that_go_are_withdrawn(void **test)
{
	struct pair pair = connect_pair();

	assert_int_equal(endpoint_disconnect(pair.active), 0);
	fake_deliver(0);
	fake_deliver(0);
	assert_true(is_readable(channel));
	endpoint_destroy(pair.active);
	endpoint_destroy(pair.passive);
	expect_none();
	endpoint_destroy(pair.listener);
}

static void a_join_that_was_left_before_it_was_told_of_is_withdrawn(void **test)
{
	const struct sockaddr *group = ip("239.77.0.1", 0);
	struct endpoint *endpoint = create_ud();
	union ibv_gid left;
	uint16_t left_lid;
	int user, other;

	assert_int_equal(endpoint_bind(endpoint, ip("127.0.0.1", 0)), 0);
	assert_int_equal(endpoint_join(endpoint, group, RDMA_MC_JOIN_FLAG_FULLMEMBER, &user), 0);
	assert_int_equal(endpoint_leave(endpoint, group, &left, &left_lid), 0);
	expect_none();
	assert_int_equal(endpoint_join(endpoint, group, RDMA_MC_JOIN_FLAG_FULLMEMBER, &user), 0);
	assert_int_equal(endpoint_join(endpoint, ip("239.77.0.2", 0), RDMA_MC_JOIN_FLAG_FULLMEMBER, &other), 0);
	assert_int_equal(endpoint_leave(endpoint, group, &left, &left_lid), 0);
	assert_ptr_equal(take(RDMA_CM_EVENT_MULTICAST_JOIN).multicast, &other);
	expect_none();
	endpoint_destroy(endpoint);
}

/* The application has CONNECT_ERROR, which the library made of CONNECT_RESPONSE. */
static void a_muted_endpoint_tells_no_end(void **test)
{
	struct pair pair = connect_pair();

	assert_int_equal(endpoint_disconnect(pair.passive), 0);
	fake_deliver(0);
	assert_true(is_readable(channel));
	endpoint_mute(pair.active);
	fake_deliver(0);
	assert_ptr_equal(take(RDMA_CM_EVENT_DISCONNECTED).endpoint, pair.passive);
	expect_none();
	endpoint_destroy(pair.passive);
	endpoint_destroy(pair.listener);
	endpoint_destroy(pair.active);
}

static bool epoll_tells(int epoll_fd)
{
	struct epoll_event event;

	return epoll_wait(epoll_fd, &event, 1, 0) == 1;
}

static void each_event_is_an_edge(void **test)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLET };
	struct endpoint *listener = serve(7471), *client[3], *passive[2];
	int epoll_fd = epoll_create1(0);

	assert_int_equal(epoll_ctl(epoll_fd, EPOLL_CTL_ADD, cm_channel_fd(served), &event), 0);
	for (unsigned i = 0; i < 2; i++) {
		client[i] = ask(7471);
		assert_true(epoll_tells(epoll_fd));
		assert_false(epoll_tells(epoll_fd));
	}
	endpoint_destroy(client[0]);
	endpoint_destroy(client[1]);
	fake_deliver(0);
	expect_silence();
	client[2] = ask(7471);
	assert_true(epoll_tells(epoll_fd));
	passive[0] = next_request();
	expect_silence();
	endpoint_destroy(passive[0]);
	endpoint_destroy(client[2]);
	endpoint_destroy(listener);
	close(epoll_fd);
}

/* Threads that wait write the count back while others take events. */
static void a_wait_leaves_the_fd_as_it_found_it(void **test)
{
	struct endpoint *listener, *client, *passive;

	if (!is_withdrawn_from_fds())
		skip();
	listener = serve(7471);
	for (unsigned i = 0; i < 3; i++) {
		client = ask(7471);
		for (unsigned n = 0; n < 3; n++)
			assert_int_equal(cm_channel_wait(served), 0);
		passive = next_request();
		expect_silence();
		endpoint_destroy(passive);
		endpoint_destroy(client);
		fcntl(cm_channel_fd(served), F_SETFL, O_NONBLOCK);
		assert_int_equal(cm_channel_wait(served), EAGAIN);
		fake_deliver(0);
	}
	endpoint_destroy(listener);
}

static unsigned reads;

/* In place of the C library's. */
ssize_t preadv2(int fd, const struct iovec *iov, int count, off_t offset, int flags)
{
	reads += fd == cm_channel_fd(served);
	return syscall(SYS_preadv2, (long)fd, iov, (long)count, (long)offset, 0l, (long)flags);
}

static void events_that_queue_cost_a_read_in_all(void **test)
{
	struct endpoint *listener = serve(7471), *client[3], *passive[3];

	reads = 0;
	for (unsigned i = 0; i < 3; i++)
		client[i] = ask(7471);
	assert_int_equal(reads, 0);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(reads, 0);
		passive[i] = next_request();
	}
	assert_int_equal(reads, 1);
	expect_silence();
	for (unsigned i = 0; i < 3; i++) {
		endpoint_destroy(passive[i]);
		endpoint_destroy(client[i]);
	}
	endpoint_destroy(listener);
}

#define CLIENTS	6u

static unsigned pick(uint32_t *seed, unsigned below)
{
	*seed = *seed * 1664525u + 1013904223u;
	return (*seed >> 8) % below;
}

/* Random lives of clients, their servers and the two channels that a listener moves between. */
static void an_fd_is_readable_if_and_only_if_an_event_can_be_got(void **test)
{
	unsigned got = 0, gave_up = 0;

	if (!is_withdrawn_from_fds())
		skip();
	for (uint32_t seed = 1; seed <= 60; seed++) {
		struct endpoint *listener = serve(7471), *client[CLIENTS] = { NULL }, *passive[64];
		enum rdma_cm_event_type kind;
		unsigned passives = 0;
		uint32_t random = seed;

		for (unsigned step = 0; step < 60; step++) {
			unsigned n = pick(&random, CLIENTS);

			switch (pick(&random, 6)) {
			case 0:
			case 1:
				if (!client[n] && !is_readable(channel))
					client[n] = ask(7471);
				break;
			case 2:
				if (!client[n])
					break;
				gave_up++;
				endpoint_destroy(client[n]);
				client[n] = NULL;
				break;
			case 3:
				if (passives == 64)
					break;
				passive[passives] = next_of(served, &kind);
				if (passive[passives] && kind == RDMA_CM_EVENT_CONNECT_REQUEST) {
					got++;
					passives++;
				}
				break;
			case 4:
				if (passives && pick(&random, 2))
					endpoint_destroy(passive[--passives]);
				else if (passives)
					answer(passive[passives - 1]);
				break;
			default:
				fake_deliver(0);
			}
		}
		for (unsigned n = 0; n < CLIENTS; n++)
			if (client[n])
				endpoint_destroy(client[n]);
		while (passives)
			endpoint_destroy(passive[--passives]);
		fake_deliver(0);
		while (next_of(channel, &kind))
			;
		endpoint_destroy(listener);
		expect_silence();
		fake_tick(seed * 3600 * SECOND);
		fake_deliver(0);
	}
	assert_true(got > 30 && gave_up > 100);
}

#define channel_test(name) cmocka_unit_test_setup_teardown(name, open_channels, close_channels)

int main(void)
{
	const struct CMUnitTest tests[] = {
		channel_test(a_request_whose_client_gave_up_is_withdrawn),
		channel_test(a_request_that_was_got_tells_nothing_before_it_is_accepted),
		channel_test(events_of_ids_that_go_are_withdrawn),
		channel_test(a_join_that_was_left_before_it_was_told_of_is_withdrawn),
		channel_test(a_muted_endpoint_tells_no_end),
		channel_test(each_event_is_an_edge),
		channel_test(a_wait_leaves_the_fd_as_it_found_it),
		channel_test(events_that_queue_cost_a_read_in_all),
		channel_test(an_fd_is_readable_if_and_only_if_an_event_can_be_got),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
