/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The calls of rdma/rdma_verbs.h that wrap verbs, and those of librdmacm beside them that make what they
 * use: vectors, READs and WRITEs, datagrams, a shared receive queue, rdma_establish(3). Two endpoints in
 * one process, over lo; the data decide.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
/* After those that it needs. */
#include <cmocka.h>

enum { DATA = 6000, GRH_SPACE = 40, PATIENCE_MS = 30000 };

static struct rdma_cm_id *listener, *client, *server;
static struct ibv_mr *client_mr, *server_mr;
static uint8_t client_data[DATA], server_data[DATA];
static char port[8];

static struct ibv_qp_init_attr attributes(void)
{
	return (struct ibv_qp_init_attr){
		.cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 3, .max_recv_sge = 3 },
		.qp_type = IBV_QPT_RC, .sq_sig_all = 1,
	};
}

static struct rdma_addrinfo *addresses(enum rdma_port_space space, int flags)
{
	struct rdma_addrinfo hints = { .ai_port_space = space, .ai_flags = flags }, *found;

	assert_int_equal(rdma_getaddrinfo("127.0.0.1", flags & RAI_PASSIVE ? NULL : port, &hints,
					  &found), 0);
	return found;
}

static void listen_in(enum rdma_port_space space)
{
	struct rdma_addrinfo *found = addresses(space, RAI_PASSIVE);
	struct ibv_qp_init_attr attr = attributes();

	assert_int_equal(rdma_create_ep(&listener, found, NULL, &attr), 0);
	rdma_freeaddrinfo(found);
	assert_int_equal(rdma_listen(listener, 1), 0);
	snprintf(port, sizeof(port), "%u", ntohs(rdma_get_src_port(listener)));
}

static void *connect_client(void *parameters)
{
	return (void *)(intptr_t)(rdma_connect(client, parameters) ? errno : 0);
}

/* An unconnected client, and its request at the server with a receive posted by @prepare. */
static void connect_by(enum rdma_port_space space, void (*prepare)(void))
{
	struct rdma_conn_param parameters = { .responder_resources = 4, .initiator_depth = 4,
					      .rnr_retry_count = 7 };
	struct ibv_qp_init_attr attr = attributes();
	struct rdma_addrinfo *found;
	pthread_t thread;
	void *failed;

	listen_in(space);
	found = addresses(space, 0);
	assert_int_equal(rdma_create_ep(&client, found, NULL, &attr), 0);
	rdma_freeaddrinfo(found);
	assert_int_equal(pthread_create(&thread, NULL, connect_client, &parameters), 0);
	assert_int_equal(rdma_get_request(listener, &server), 0);
	if (prepare)
		prepare();
	assert_int_equal(rdma_accept(server, &parameters), 0);
	pthread_join(thread, &failed);
	assert_int_equal((intptr_t)failed, 0);
}

static void fill(void)
{
	for (int i = 0; i < DATA; i++) {
		client_data[i] = (uint8_t)(i * 7 + 1);
		server_data[i] = (uint8_t)(i * 13 + 5);
	}
}

static int set_up(void **state)
{
	listener = client = server = NULL;
	client_mr = server_mr = NULL;
	fill();
	return 0;
}

static int tear_down(void **state)
{
	if (client_mr)
		rdma_dereg_mr(client_mr);
	if (server_mr)
		rdma_dereg_mr(server_mr);
	if (client)
		rdma_destroy_ep(client);
	if (server)
		rdma_destroy_ep(server);
	if (listener)
		rdma_destroy_ep(listener);
	return 0;
}

static void expect_sent(struct rdma_cm_id *id, enum ibv_wc_opcode opcode, void *context)
{
	struct ibv_wc wc;

	assert_int_equal(rdma_get_send_comp(id, &wc), 1);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.opcode, opcode);
	assert_ptr_equal((void *)(uintptr_t)wc.wr_id, context);
}

static void expect_received(struct rdma_cm_id *id, uint32_t bytes, void *context)
{
	struct ibv_wc wc;

	assert_int_equal(rdma_get_recv_comp(id, &wc), 1);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.byte_len, bytes);
	assert_ptr_equal((void *)(uintptr_t)wc.wr_id, context);
}

/* Bytes [@at, @at + @length) of @data, which @mr has registered. */
static struct ibv_sge piece(const uint8_t *data, const struct ibv_mr *mr, uint32_t at, uint32_t length)
{
	return (struct ibv_sge){ .addr = (uintptr_t)data + at, .length = length, .lkey = mr->lkey };
}

static void read_takes_what_reg_read_gives(void **state)
{
	connect_by(RDMA_PS_TCP, NULL);
	server_mr = rdma_reg_read(server, server_data, DATA);
	client_mr = rdma_reg_msgs(client, client_data, DATA);
	assert_non_null(server_mr);
	assert_non_null(client_mr);
	assert_int_equal(rdma_post_read(client, &client_mr, client_data, DATA, client_mr, 0,
					(uintptr_t)server_data, server_mr->rkey), 0);
	expect_sent(client, IBV_WC_RDMA_READ, &client_mr);
	assert_memory_equal(client_data, server_data, DATA);
}

static void reg_read_does_not_give_the_right_to_write(void **state)
{
	struct ibv_wc wc;

	connect_by(RDMA_PS_TCP, NULL);
	server_mr = rdma_reg_read(server, server_data, DATA);
	client_mr = rdma_reg_msgs(client, client_data, DATA);
	assert_int_equal(rdma_post_write(client, NULL, client_data, 8, client_mr, 0, (uintptr_t)server_data,
					 server_mr->rkey), 0);
	assert_int_equal(rdma_get_send_comp(client, &wc), 1);
	assert_int_equal(wc.status, IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(server_data[0], 5);
}

static void readv_scatters_and_writev_gathers(void **state)
{
	struct ibv_sge pieces[3];

	connect_by(RDMA_PS_TCP, NULL);
	server_mr = ibv_reg_mr(server->pd, server_data, DATA,
			       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE);
	client_mr = rdma_reg_msgs(client, client_data, DATA);
	pieces[0] = piece(client_data, client_mr, 5000, 100);
	pieces[1] = piece(client_data, client_mr, 0, 7);
	pieces[2] = piece(client_data, client_mr, 1000, 3000);
	assert_int_equal(rdma_post_readv(client, pieces, pieces, 3, 0, (uintptr_t)server_data,
					 server_mr->rkey), 0);
	expect_sent(client, IBV_WC_RDMA_READ, pieces);
	assert_memory_equal(client_data + 5000, server_data, 100);
	assert_memory_equal(client_data, server_data + 100, 7);
	assert_memory_equal(client_data + 1000, server_data + 107, 3000);
	fill();
	assert_int_equal(rdma_post_writev(client, pieces, pieces, 3, 0, (uintptr_t)server_data,
					  server_mr->rkey), 0);
	expect_sent(client, IBV_WC_RDMA_WRITE, pieces);
	assert_memory_equal(server_data, client_data + 5000, 100);
	assert_memory_equal(server_data + 100, client_data, 7);
	assert_memory_equal(server_data + 107, client_data + 1000, 3000);
	assert_int_equal(server_data[3107], (uint8_t)(3107 * 13 + 5));
}

static void post_vector_of_receives(void)
{
	struct ibv_sge pieces[2];

	server_mr = rdma_reg_msgs(server, server_data, DATA);
	assert_non_null(server_mr);
	pieces[0] = piece(server_data, server_mr, 10, 90);
	pieces[1] = piece(server_data, server_mr, 500, 4000);
	assert_int_equal(rdma_post_recvv(server, &server_mr, pieces, 2), 0);
}

static void sendv_gathers_and_recvv_scatters(void **state)
{
	struct ibv_sge pieces[2];

	connect_by(RDMA_PS_TCP, post_vector_of_receives);
	client_mr = rdma_reg_msgs(client, client_data, DATA);
	pieces[0] = piece(client_data, client_mr, 4000, 1500);
	pieces[1] = piece(client_data, client_mr, 1, 50);
	assert_int_equal(rdma_post_sendv(client, pieces, pieces, 2, 0), 0);
	expect_sent(client, IBV_WC_SEND, pieces);
	expect_received(server, 1550, &server_mr);
	assert_memory_equal(server_data + 10, client_data + 4000, 90);
	assert_memory_equal(server_data + 500, client_data + 4090, 1410);
	assert_memory_equal(server_data + 1910, client_data + 1, 50);
}

static void post_datagram_receive(void)
{
	server_mr = rdma_reg_msgs(server, server_data, DATA);
	assert_int_equal(rdma_post_recv(server, &server_mr, server_data, DATA, server_mr), 0);
}

static void ud_send_reaches_the_qp_that_the_response_names(void **state)
{
	struct ibv_ah *ah;

	connect_by(RDMA_PS_UDP, post_datagram_receive);
	client_mr = rdma_reg_msgs(client, client_data, DATA);
	assert_int_equal(client->event->event, RDMA_CM_EVENT_ESTABLISHED);
	ah = ibv_create_ah(client->pd, &client->event->param.ud.ah_attr);
	assert_non_null(ah);
	assert_int_equal(client->event->param.ud.qp_num, server->qp->qp_num);
	assert_int_equal(rdma_post_ud_send(client, ah, client_data, 700, client_mr, 0, ah,
					   client->event->param.ud.qp_num), 0);
	expect_sent(client, IBV_WC_SEND, ah);
	expect_received(server, 700 + GRH_SPACE, &server_mr);
	assert_memory_equal(server_data + GRH_SPACE, client_data, 700);
	assert_int_equal(ibv_destroy_ah(ah), 0);
}

/* ---- with an event channel ---- */

static struct rdma_event_channel *channel;
static struct sockaddr_in address;

static struct rdma_cm_event *take(enum rdma_cm_event_type kind)
{
	struct pollfd readable = { .fd = channel->fd, .events = POLLIN };
	struct rdma_cm_event *event;

	assert_int_equal(poll(&readable, 1, PATIENCE_MS), 1);
	assert_int_equal(rdma_get_cm_event(channel, &event), 0);
	assert_string_equal(rdma_event_str(event->event), rdma_event_str(kind));
	return event;
}

static void expect(enum rdma_cm_event_type kind)
{
	assert_int_equal(rdma_ack_cm_event(take(kind)), 0);
}

static int set_up_channel(void **state)
{
	set_up(state);
	channel = rdma_create_event_channel();
	assert_non_null(channel);
	address = (struct sockaddr_in){ .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	assert_int_equal(rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_bind_addr(listener, (struct sockaddr *)&address), 0);
	assert_int_equal(rdma_listen(listener, 2), 0);
	address.sin_port = rdma_get_src_port(listener);
	assert_int_equal(rdma_create_id(channel, &client, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_resolve_addr(client, NULL, (struct sockaddr *)&address, 5000), 0);
	expect(RDMA_CM_EVENT_ADDR_RESOLVED);
	assert_int_equal(rdma_resolve_route(client, 5000), 0);
	expect(RDMA_CM_EVENT_ROUTE_RESOLVED);
	return 0;
}

static int tear_down_channel(void **state)
{
	struct rdma_cm_id *ids[] = { client, server, listener };

	if (client_mr)
		rdma_dereg_mr(client_mr);
	if (server_mr)
		rdma_dereg_mr(server_mr);
	for (int i = 0; i < 3; i++) {
		if (!ids[i])
			continue;
		rdma_destroy_qp(ids[i]);
		rdma_destroy_srq(ids[i]);
		assert_int_equal(rdma_destroy_id(ids[i]), 0);
	}
	rdma_destroy_event_channel(channel);
	return 0;
}

/* CONNECT_REQUEST is acknowledged, its id is the server. */
static void connect_request(struct rdma_conn_param *parameters)
{
	struct rdma_cm_event *event;

	assert_int_equal(rdma_connect(client, parameters), 0);
	event = take(RDMA_CM_EVENT_CONNECT_REQUEST);
	server = event->id;
	assert_int_equal(rdma_ack_cm_event(event), 0);
}

static void create_srq_ex_makes_the_queue_that_receives_go_to(void **state)
{
	struct rdma_conn_param parameters = { .rnr_retry_count = 7 };
	struct ibv_qp_init_attr attr = attributes(), same = attributes();
	struct ibv_srq_init_attr_ex srq = { .attr = { .max_wr = 4, .max_sge = 2 }, .srq_type = IBV_SRQT_BASIC,
					    .comp_mask = IBV_SRQ_INIT_ATTR_TYPE };

	assert_int_equal(rdma_create_qp(client, NULL, &attr), 0);
	connect_request(&parameters);
	assert_int_equal(rdma_create_srq_ex(server, &srq), 0);
	assert_non_null(server->srq);
	assert_int_equal(rdma_create_srq_ex(server, &srq), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(rdma_create_qp(server, NULL, &same), 0);
	assert_ptr_equal(server->qp->srq, server->srq);
	server_mr = rdma_reg_msgs(server, server_data, DATA);
	client_mr = rdma_reg_msgs(client, client_data, DATA);
	assert_int_equal(rdma_post_recv(server, &server_mr, server_data, DATA, server_mr), 0);
	assert_int_equal(rdma_accept(server, &parameters), 0);
	expect(RDMA_CM_EVENT_ESTABLISHED);
	expect(RDMA_CM_EVENT_ESTABLISHED);
	assert_int_equal(rdma_post_send(client, NULL, client_data, DATA, client_mr, 0), 0);
	expect_sent(client, IBV_WC_SEND, NULL);
	expect_received(server, DATA, &server_mr);
	assert_memory_equal(server_data, client_data, DATA);
}

/* To the state by the attributes that rdma_init_qp_attr() gives. */
static void move(struct ibv_qp *qp, enum ibv_qp_state to)
{
	struct ibv_qp_attr attr = { .qp_state = to };
	int mask;

	assert_int_equal(rdma_init_qp_attr(client, &attr, &mask), 0);
	assert_int_equal(ibv_modify_qp(qp, &attr, mask), 0);
}

static void establish_ends_a_connection_of_a_qp_that_the_application_made(void **state)
{
	struct rdma_conn_param parameters = { .rnr_retry_count = 7 };
	struct ibv_qp_init_attr attr = attributes(), own = attributes();
	struct ibv_pd *pd = ibv_alloc_pd(client->verbs);
	struct ibv_cq *cq = ibv_create_cq(client->verbs, 8, NULL, NULL, 0);
	struct rdma_cm_event *event;
	struct ibv_qp *qp;

	own.send_cq = own.recv_cq = cq;
	qp = ibv_create_qp(pd, &own);
	assert_non_null(qp);
	move(qp, IBV_QPS_INIT);
	parameters.qp_num = qp->qp_num;
	connect_request(&parameters);
	assert_int_equal(rdma_create_qp(server, NULL, &attr), 0);
	assert_int_equal(rdma_accept(server, NULL), 0);
	event = take(RDMA_CM_EVENT_CONNECT_RESPONSE);
	assert_ptr_equal(event->id, client);
	rdma_ack_cm_event(event);
	move(qp, IBV_QPS_RTR);
	move(qp, IBV_QPS_RTS);
	assert_int_equal(rdma_establish(client), 0);
	event = take(RDMA_CM_EVENT_ESTABLISHED);
	assert_ptr_equal(event->id, server);
	rdma_ack_cm_event(event);
	assert_int_equal(rdma_establish(server), -1);	/* has a QP: the library does it */
	assert_int_equal(errno, EINVAL);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_cq(cq), 0);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
#define CHANNEL_TEST(name) cmocka_unit_test_setup_teardown(name, set_up_channel, tear_down_channel)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(read_takes_what_reg_read_gives),
		TEST(reg_read_does_not_give_the_right_to_write),
		TEST(readv_scatters_and_writev_gathers),
		TEST(sendv_gathers_and_recvv_scatters),
		TEST(ud_send_reaches_the_qp_that_the_response_names),
		CHANNEL_TEST(create_srq_ex_makes_the_queue_that_receives_go_to),
		CHANNEL_TEST(establish_ends_a_connection_of_a_qp_that_the_application_made),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
