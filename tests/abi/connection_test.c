/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * librdmacm as a program has it: both ends of connections in one process, over lo. What the clients
 * of tests/clients do not look at: limits, events of each end, waiting, signals, who is told what.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
/* After those that it needs. */
#include <cmocka.h>

#define PATIENCE_MS 10000

/* Of librdmacm 60; our headers may not know them. */
extern int rdma_resolve_addrinfo(struct rdma_cm_id *id, const char *node, const char *service,
				 const struct rdma_addrinfo *hints);
extern int rdma_query_addrinfo(struct rdma_cm_id *id, struct rdma_addrinfo **info);
extern int rdma_write_cm_event(struct rdma_cm_id *id, enum rdma_cm_event_type event, int status, uint64_t arg);

static struct rdma_event_channel *channel;
static struct rdma_cm_id *listener, *client, *server;
static struct sockaddr_in address;

/* The next event of the channel, which has to be this one, of this id (NULL: of any). */
static struct rdma_cm_event *take(enum rdma_cm_event_type kind, struct rdma_cm_id *id)
{
	struct pollfd readable = { .fd = channel->fd, .events = POLLIN };
	struct rdma_cm_event *event;

	assert_int_equal(poll(&readable, 1, PATIENCE_MS), 1);
	assert_int_equal(rdma_get_cm_event(channel, &event), 0);
	assert_string_equal(rdma_event_str(event->event), rdma_event_str(kind));
	if (id)
		assert_ptr_equal(event->id, id);
	return event;
}

static void expect(enum rdma_cm_event_type kind, struct rdma_cm_id *id, int status)
{
	struct rdma_cm_event *event = take(kind, id);

	assert_int_equal(event->status, status);
	assert_int_equal(rdma_ack_cm_event(event), 0);
}

static void listen_somewhere(void)
{
	address = (struct sockaddr_in){ .sin_family = AF_INET };
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(rdma_create_id(channel, &listener, &address, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_bind_addr(listener, (struct sockaddr *)&address), 0);
	assert_int_equal(rdma_listen(listener, 4), 0);
	address.sin_port = rdma_get_src_port(listener);
	assert_int_not_equal(address.sin_port, 0);
}

static int set_up(void **state)
{
	channel = rdma_create_event_channel();
	assert_non_null(channel);
	listener = client = server = NULL;
	listen_somewhere();
	return 0;
}

static void end(struct rdma_cm_id **id)
{
	if (!*id)
		return;
	rdma_destroy_qp(*id);
	assert_int_equal(rdma_destroy_id(*id), 0);
	*id = NULL;
}

static int tear_down(void **state)
{
	end(&client);
	end(&server);
	end(&listener);
	rdma_destroy_event_channel(channel);	/* or NULL */
	return 0;
}

static void make_qp(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr attr = {
		.cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RC,
	};

	assert_int_equal(rdma_create_qp(id, NULL, &attr), 0);
}

static void resolve(void)
{
	assert_int_equal(rdma_create_id(channel, &client, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_resolve_addr(client, NULL, (struct sockaddr *)&address, 1000), 0);
	expect(RDMA_CM_EVENT_ADDR_RESOLVED, client, 0);
	assert_int_equal(rdma_resolve_route(client, 1000), 0);
	expect(RDMA_CM_EVENT_ROUTE_RESOLVED, client, 0);
	make_qp(client);
}

/* Up to CONNECT_REQUEST, which is left to the caller. */
static struct rdma_cm_event *call(struct rdma_conn_param *parameters)
{
	struct rdma_cm_event *event;

	resolve();
	assert_int_equal(rdma_connect(client, parameters), 0);
	event = take(RDMA_CM_EVENT_CONNECT_REQUEST, NULL);
	assert_ptr_equal(event->listen_id, listener);
	server = event->id;
	assert_ptr_equal(server->context, &address);
	return event;
}

/* ESTABLISHED of both ends, in whatever order. */
static void expect_established(void)
{
	struct rdma_cm_event *first = take(RDMA_CM_EVENT_ESTABLISHED, NULL);
	struct rdma_cm_id *other = first->id == client ? server : client;

	assert_true(first->id == client || first->id == server);
	rdma_ack_cm_event(first);
	expect(RDMA_CM_EVENT_ESTABLISHED, other, 0);
}

static void connect_both(void)
{
	rdma_ack_cm_event(call(NULL));
	make_qp(server);
	assert_int_equal(rdma_accept(server, NULL), 0);
	expect_established();
}

static void each_end_sees_the_others_parameters(void **state)
{
	char hello[56] = "fifty-six bytes fit beside the header of annex A11";
	struct rdma_conn_param parameters = {
		.private_data = hello, .private_data_len = sizeof(hello),
		.responder_resources = 3, .initiator_depth = 2,
		.retry_count = 5, .rnr_retry_count = 6, .flow_control = 1,
	}, *seen;
	struct rdma_cm_event *event = call(&parameters);

	seen = &event->param.conn;
	assert_true(seen->private_data_len >= sizeof(hello));
	assert_memory_equal(seen->private_data, hello, sizeof(hello));
	assert_int_equal(seen->responder_resources, 2);
	assert_int_equal(seen->initiator_depth, 3);
	assert_int_equal(seen->retry_count, 5);
	assert_int_equal(seen->rnr_retry_count, 6);
	assert_int_equal(seen->qp_num, client->qp->qp_num);
	assert_int_equal(seen->srq, 0);
	assert_int_equal(rdma_get_dst_port(server), rdma_get_src_port(client));
	assert_int_equal(rdma_get_src_port(server), address.sin_port);
	rdma_ack_cm_event(event);
	make_qp(server);
	parameters.private_data = "welcome";
	parameters.private_data_len = 8;
	parameters.responder_resources = parameters.initiator_depth = 1;
	assert_int_equal(rdma_accept(server, &parameters), 0);
	event = take(RDMA_CM_EVENT_ESTABLISHED, client);
	assert_string_equal(event->param.conn.private_data, "welcome");
	assert_int_equal(event->param.conn.qp_num, server->qp->qp_num);
	rdma_ack_cm_event(event);
	expect(RDMA_CM_EVENT_ESTABLISHED, server, 0);
}

static void more_private_data_is_refused(void **state)
{
	char hello[57] = "";
	struct rdma_conn_param parameters = { .private_data = hello, .private_data_len = 57 };

	resolve();
	assert_int_equal(rdma_connect(client, &parameters), -1);
	assert_int_equal(errno, EINVAL);
}

static void a_reject_carries_private_data(void **state)
{
	struct rdma_cm_event *event = call(NULL);

	rdma_ack_cm_event(event);
	assert_int_equal(rdma_reject(server, "no", 3), 0);
	event = take(RDMA_CM_EVENT_REJECTED, client);
	assert_int_equal(event->status, 28);
	assert_string_equal(event->param.conn.private_data, "no");
	rdma_ack_cm_event(event);
}

static void nobody_listens(void **state)
{
	end(&listener);
	resolve();
	assert_int_equal(rdma_connect(client, NULL), 0);
	expect(RDMA_CM_EVENT_REJECTED, client, 8);
}

static void both_ends_learn_of_a_disconnect(void **state)
{
	struct ibv_wc wc;
	char buffer[8];
	struct ibv_mr *mr;

	connect_both();
	mr = rdma_reg_msgs(server, buffer, sizeof(buffer));
	assert_int_equal(rdma_post_recv(server, NULL, buffer, sizeof(buffer), mr), 0);
	assert_int_equal(rdma_disconnect(client), 0);
	for (int told = 0; told < 2; told++)
		rdma_ack_cm_event(take(RDMA_CM_EVENT_DISCONNECTED, NULL));
	assert_int_equal(rdma_disconnect(server), 0);
	assert_int_equal(rdma_get_recv_comp(server, &wc), 1);
	assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(rdma_dereg_mr(mr), 0);
}

static void destroying_an_end_disconnects_the_other(void **state)
{
	connect_both();
	end(&server);
	expect(RDMA_CM_EVENT_DISCONNECTED, client, 0);
}

static void a_listener_that_goes_refuses_who_waits(void **state)
{
	struct pollfd readable = { .fd = channel->fd, .events = POLLIN };

	resolve();
	assert_int_equal(rdma_connect(client, NULL), 0);
	assert_int_equal(poll(&readable, 1, PATIENCE_MS), 1);	/* the request, not taken */
	end(&listener);
	expect(RDMA_CM_EVENT_REJECTED, client, 28);
}

static void a_port_has_one_owner(void **state)
{
	assert_int_equal(rdma_create_id(channel, &server, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_bind_addr(server, (struct sockaddr *)&address), -1);
	assert_int_equal(errno, EADDRINUSE);
	end(&listener);
	assert_int_equal(rdma_bind_addr(server, (struct sockaddr *)&address), 0);
}

static void an_address_of_nobody_is_refused(void **state)
{
	struct sockaddr_in foreign = { .sin_family = AF_INET };

	foreign.sin_addr.s_addr = htonl(0xcb007163);	/* 203.0.113.99, of documentation */
	assert_int_equal(rdma_create_id(channel, &server, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_bind_addr(server, (struct sockaddr *)&foreign), -1);
	assert_true(errno == EADDRNOTAVAIL || errno == ENODEV);
}

static void calls_out_of_turn_are_refused(void **state)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTR };
	int mask;

	assert_int_equal(rdma_create_id(channel, &client, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_resolve_route(client, 100), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(rdma_connect(client, NULL), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(rdma_disconnect(client), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(rdma_init_qp_attr(client, &attr, &mask), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(rdma_accept(listener, NULL), -1);
	assert_int_equal(errno, EINVAL);
}

/* ---- waiting ---- */

static void an_empty_channel_is_not_readable(void **state)
{
	struct pollfd readable = { .fd = channel->fd, .events = POLLIN };
	struct rdma_cm_event *event;

	assert_int_equal(poll(&readable, 1, 0), 0);
	assert_int_equal(fcntl(channel->fd, F_SETFL, fcntl(channel->fd, F_GETFL) | O_NONBLOCK), 0);
	assert_int_equal(rdma_get_cm_event(channel, &event), -1);
	assert_int_equal(errno, EAGAIN);
	connect_both();
	assert_int_equal(poll(&readable, 1, 0), 0);
}

static void ignore_signal(int number)
{
}

struct waiting {
	pthread_t thread;
	_Atomic int state;	/* 1: about to wait, 2: back */
	int rc, err;
	struct rdma_cm_event *event;
};

static void *wait_in_thread(void *argument)
{
	struct waiting *waiting = argument;

	waiting->state = 1;
	waiting->rc = rdma_get_cm_event(channel, &waiting->event);
	waiting->err = errno;
	waiting->state = 2;
	return NULL;
}

/* Start waiting in a thread and hit it with a signal whose handler has these flags. */
static void interrupt(struct waiting *waiting, int flags)
{
	struct sigaction action = { .sa_handler = ignore_signal, .sa_flags = flags };

	sigemptyset(&action.sa_mask);
	sigaction(SIGUSR1, &action, NULL);
	assert_int_equal(pthread_create(&waiting->thread, NULL, wait_in_thread, waiting), 0);
	while (waiting->state == 0)
		usleep(1000);
	/* Until it sleeps: too early a signal ends nothing. Where none does: a few. */
	for (int i = 0; i < (flags & SA_RESTART ? 20 : 6000) && waiting->state != 2; i++) {
		usleep(10000);
		pthread_kill(waiting->thread, SIGUSR1);
	}
}

static void a_signal_ends_the_wait(void **state)
{
	struct waiting waiting = { 0 };

	interrupt(&waiting, 0);
	assert_int_equal(pthread_join(waiting.thread, NULL), 0);
	assert_int_equal(waiting.rc, -1);
	assert_int_equal(waiting.err, EINTR);
}

static void a_signal_that_restarts_calls_does_not(void **state)
{
	struct waiting waiting = { 0 };

	interrupt(&waiting, SA_RESTART);
	assert_int_equal(waiting.state, 1);
	assert_int_equal(rdma_create_id(channel, &client, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_resolve_addr(client, NULL, (struct sockaddr *)&address, 1000), 0);
	assert_int_equal(pthread_join(waiting.thread, NULL), 0);
	assert_int_equal(waiting.rc, 0);
	assert_int_equal(waiting.event->event, RDMA_CM_EVENT_ADDR_RESOLVED);
	rdma_ack_cm_event(waiting.event);
}

static void *destroy_in_thread(void *argument)
{
	struct waiting *waiting = argument;

	waiting->state = 1;
	waiting->rc = rdma_destroy_id(client);
	waiting->state = 2;
	return NULL;
}

static void destroying_waits_for_acknowledgements(void **state)
{
	struct waiting waiting = { 0 };
	struct rdma_cm_event *event;

	assert_int_equal(rdma_create_id(channel, &client, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_resolve_addr(client, NULL, (struct sockaddr *)&address, 1000), 0);
	event = take(RDMA_CM_EVENT_ADDR_RESOLVED, client);
	assert_int_equal(pthread_create(&waiting.thread, NULL, destroy_in_thread, &waiting), 0);
	usleep(50000);
	assert_int_not_equal(waiting.state, 2);
	rdma_ack_cm_event(event);
	assert_int_equal(pthread_join(waiting.thread, NULL), 0);
	assert_int_equal(waiting.rc, 0);
	client = NULL;
}

/* ---- the synchronous way ---- */

static struct ibv_qp_init_attr ep_attributes = {
	.cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 },
};

static void *serve(void *argument)
{
	struct rdma_cm_id *passive = argument, *id;
	char buffer[32];
	struct ibv_mr *mr;
	struct ibv_wc wc;

	assert_int_equal(rdma_get_request(passive, &id), 0);
	assert_non_null(id->qp);
	assert_int_equal(id->event->event, RDMA_CM_EVENT_CONNECT_REQUEST);
	mr = rdma_reg_msgs(id, buffer, sizeof(buffer));
	assert_int_equal(rdma_post_recv(id, NULL, buffer, sizeof(buffer), mr), 0);
	assert_int_equal(rdma_accept(id, NULL), 0);
	assert_int_equal(id->event->event, RDMA_CM_EVENT_ESTABLISHED);
	assert_int_equal(rdma_get_recv_comp(id, &wc), 1);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_string_equal(buffer, "synchronous");
	assert_int_equal(rdma_disconnect(id), 0);
	rdma_dereg_mr(mr);
	rdma_destroy_ep(id);
	return NULL;
}

static struct rdma_addrinfo *look_up(const char *port, int flags)
{
	struct rdma_addrinfo hints = { .ai_flags = flags, .ai_port_space = RDMA_PS_TCP }, *info;

	assert_int_equal(rdma_getaddrinfo("127.0.0.1", port, &hints, &info), 0);
	return info;
}

static void endpoints_talk_without_a_channel(void **state)
{
	struct rdma_addrinfo *info = look_up("0", RAI_PASSIVE);
	struct ibv_qp_init_attr attr = ep_attributes;
	char text[] = "synchronous", port[8];
	struct rdma_cm_id *passive, *active;
	pthread_t thread;
	struct ibv_mr *mr;
	struct ibv_wc wc;

	assert_int_equal(rdma_create_ep(&passive, info, NULL, &attr), 0);
	rdma_freeaddrinfo(info);
	assert_int_equal(rdma_listen(passive, 1), 0);
	assert_int_equal(pthread_create(&thread, NULL, serve, passive), 0);
	snprintf(port, sizeof(port), "%u", ntohs(rdma_get_src_port(passive)));
	info = look_up(port, 0);
	assert_int_equal(rdma_create_ep(&active, info, NULL, &attr), 0);
	rdma_freeaddrinfo(info);
	assert_int_equal(rdma_connect(active, NULL), 0);
	mr = rdma_reg_msgs(active, text, sizeof(text));
	assert_int_equal(rdma_post_send(active, NULL, text, sizeof(text), mr, IBV_SEND_SIGNALED), 0);
	assert_int_equal(rdma_get_send_comp(active, &wc), 1);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(rdma_disconnect(active), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	rdma_dereg_mr(mr);
	rdma_destroy_ep(active);
	rdma_destroy_ep(passive);
}

static void a_synchronous_call_says_why_it_failed(void **state)
{
	struct ibv_qp_init_attr attr = ep_attributes;
	struct rdma_addrinfo *info;
	struct rdma_cm_id *active;
	char port[8];

	snprintf(port, sizeof(port), "%u", ntohs(address.sin_port));
	end(&listener);
	info = look_up(port, 0);
	assert_int_equal(rdma_create_ep(&active, info, NULL, &attr), 0);
	rdma_freeaddrinfo(info);
	assert_int_equal(rdma_connect(active, NULL), -1);
	assert_int_equal(errno, ECONNREFUSED);
	assert_int_equal(active->event->event, RDMA_CM_EVENT_REJECTED);
	rdma_destroy_ep(active);
}


/* Kinds of events in rdma-core 60 and later; our headers may not have them. */
#define ADDRINFO_RESOLVED	((enum rdma_cm_event_type)16)
#define USER_EVENT		((enum rdma_cm_event_type)18)

static void a_name_that_was_looked_up_with_an_event_can_be_connected_to(void **state)
{
	struct rdma_addrinfo hints = { .ai_port_space = RDMA_PS_TCP }, *info;
	char port[8];

	snprintf(port, sizeof(port), "%u", ntohs(address.sin_port));
	assert_int_equal(rdma_create_id(channel, &client, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_resolve_addrinfo(client, "127.0.0.1", port, &hints), 0);
	expect(ADDRINFO_RESOLVED, client, 0);
	assert_int_equal(rdma_query_addrinfo(client, &info), 0);
	assert_memory_equal(info->ai_dst_addr, &address, sizeof(address));
	assert_int_equal(rdma_resolve_addr(client, info->ai_src_addr, info->ai_dst_addr, 1000), 0);
	expect(RDMA_CM_EVENT_ADDR_RESOLVED, client, 0);
	rdma_freeaddrinfo(info);
}

static void *write_an_event(void *id)
{
	usleep(20000);
	return rdma_write_cm_event(id, USER_EVENT, 7, 0x1122334455667788) ? id : NULL;
}

static void a_thread_that_waits_for_events_is_woken_by_one_of_the_applications(void **state)
{
	struct rdma_cm_event *event;
	pthread_t thread;
	void *failed;
	uint64_t arg;

	assert_int_equal(pthread_create(&thread, NULL, write_an_event, listener), 0);
	assert_int_equal(rdma_get_cm_event(channel, &event), 0);
	assert_int_equal(event->event, USER_EVENT);
	assert_int_equal(event->status, 7);
	assert_ptr_equal(event->id, listener);
	memcpy(&arg, &event->param, sizeof(arg));	/* param.arg of later headers */
	assert_true(arg == 0x1122334455667788);
	assert_int_equal(rdma_ack_cm_event(event), 0);
	assert_int_equal(pthread_join(thread, &failed), 0);
	assert_null(failed);
}

/* The other thread of rping: main() destroys the channel, and it asks for the next event. */
static void *late_asker(void *asked)
{
	struct rdma_cm_event *event;
	int *err = asked;

	*err = rdma_get_cm_event(channel, &event) ? errno : 0;
	return NULL;
}

static void a_destroyed_channel_is_not_there(void **state)
{
	struct rdma_cm_id *id;
	pthread_t thread;
	int err = 0;

	end(&listener);
	assert_int_equal(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(channel);
	assert_int_equal(pthread_create(&thread, NULL, late_asker, &err), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(err, EBADF);
	rdma_destroy_event_channel(channel);	/* nothing to destroy */
	channel = NULL;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_name_that_was_looked_up_with_an_event_can_be_connected_to),
		TEST(a_thread_that_waits_for_events_is_woken_by_one_of_the_applications),
		TEST(a_destroyed_channel_is_not_there),
		TEST(each_end_sees_the_others_parameters),
		TEST(more_private_data_is_refused),
		TEST(a_reject_carries_private_data),
		TEST(nobody_listens),
		TEST(both_ends_learn_of_a_disconnect),
		TEST(destroying_an_end_disconnects_the_other),
		TEST(a_listener_that_goes_refuses_who_waits),
		TEST(a_port_has_one_owner),
		TEST(an_address_of_nobody_is_refused),
		TEST(calls_out_of_turn_are_refused),
		TEST(an_empty_channel_is_not_readable),
		TEST(a_signal_ends_the_wait),
		TEST(a_signal_that_restarts_calls_does_not),
		TEST(destroying_waits_for_acknowledgements),
		TEST(endpoints_talk_without_a_channel),
		TEST(a_synchronous_call_says_why_it_failed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
