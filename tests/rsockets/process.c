/* SPDX-License-Identifier: BSD-2-Clause */
/* fork(), peers that are not ours, and what goes wrong in the program itself. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "pair.h"

/* The child's sockets are dead, its closing disturbs nobody, and it may open its own. */
static void child(struct pair *pair, int rs, int listener)
{
	char byte;

	FAILS(rrecv(rs, &byte, 1, 0), EBADF);
	FAILS(rsend(rs, "x", 1, 0), EBADF);
	OK(rclose(rs));
	OK(rclose(listener));
	FAILS(rclose(rs), EBADF);
	rs = rsocket(pair->address.ss_family, SOCK_STREAM, 0);
	OK(rs);
	OK(rconnect(rs, (struct sockaddr *)&pair->address, address_bytes(pair)));
	send_all(rs, 2, 0, 1000, 0);
	OK(rclose(rs));
	_exit(0);
}

static void forking(struct pair *pair)
{
	int listener, rs, second, status;
	pid_t pid;

	listener = open_listener(pair, NULL);
	rs = raccept(listener, NULL, NULL);
	OK(rs);
	receive_all(rs, 1, 0, 1000, 0);
	pid = fork();
	CHECK(pid >= 0, "%m");
	if (!pid)
		child(pair, rs, listener);
	second = raccept(listener, NULL, NULL);
	OK(second);
	receive_all(second, 2, 0, 1000, 0);
	expect_end(second);
	CHECK(waitpid(pid, &status, 0) == pid && !status, "the child: status 0x%x", status);
	send_all(rs, 3, 0, 100000, 0);
	OK(rclose(second));
	OK(rclose(rs));
	OK(rclose(listener));
}

static void undisturbed(struct pair *pair)
{
	int rs = meet(pair, NULL);

	send_all(rs, 1, 0, 1000, 0);
	receive_all(rs, 3, 0, 100000, 0);
	expect_end(rs);
	OK(rclose(rs));
}

/* ---- a peer that is no rsocket ---- */

static struct rdma_cm_event *next_event(struct rdma_event_channel *channel)
{
	struct rdma_cm_event *event;

	OK(rdma_get_cm_event(channel, &event));
	return event;
}

/* Connects with this private data; returns how it ended. */
static enum rdma_cm_event_type knock(struct pair *pair, const void *data, uint8_t length)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct ibv_qp_init_attr attr = { .qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1,
			 .max_recv_sge = 1 } };
	struct rdma_conn_param param = { .private_data = data, .private_data_len = length,
					 .retry_count = 7 };
	enum rdma_cm_event_type kind;
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;

	CHECK(channel, "%m");
	OK(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP));
	OK(rdma_resolve_addr(id, NULL, (struct sockaddr *)&pair->address, 2000));
	rdma_ack_cm_event(next_event(channel));
	OK(rdma_resolve_route(id, 2000));
	rdma_ack_cm_event(next_event(channel));
	OK(rdma_create_qp(id, NULL, &attr));
	OK(rdma_connect(id, &param));
	event = next_event(channel);
	kind = event->event;
	rdma_ack_cm_event(event);
	rdma_destroy_qp(id);
	rdma_destroy_id(id);
	rdma_destroy_event_channel(channel);
	return kind;
}

static void strangers(struct pair *pair)
{
	static const char theirs[] = { 1, 0, 0, 100, 0, 0, 0, 1 };
	char newer[32] = "VbRS\0\2", garbage[32];
	int rs;

	set_port(pair, (uint16_t)hear(pair));
	memset(garbage, 0xa5, sizeof(garbage));
	CHECK(knock(pair, theirs, sizeof(theirs)) == RDMA_CM_EVENT_REJECTED, "another protocol");
	CHECK(knock(pair, newer, sizeof(newer)) == RDMA_CM_EVENT_REJECTED, "another version");
	CHECK(knock(pair, garbage, sizeof(garbage)) == RDMA_CM_EVENT_REJECTED, "garbage");
	CHECK(knock(pair, NULL, 0) == RDMA_CM_EVENT_REJECTED, "nothing");
	rs = rsocket(pair->address.ss_family, SOCK_STREAM, 0);
	OK(rconnect(rs, (struct sockaddr *)&pair->address, address_bytes(pair)));
	expect_end(rs);
	OK(rclose(rs));
}

static void listener_of_strangers(struct pair *pair)
{
	OK(rclose(accept_one(pair, NULL)));
}

/* ---- closed under a sleeping thread ---- */

static void *read_one(void *argument)
{
	char byte;
	ssize_t n = rrecv(*(int *)argument, &byte, 1, 0);

	return (void *)(intptr_t)(n < 0 ? -errno : n);
}

static void close_while_blocked(struct pair *pair)
{
	int rs = meet(pair, NULL);
	pthread_t thread;
	void *result;

	CHECK(!pthread_create(&thread, NULL, read_one, &rs), "no thread");
	usleep(100000);
	OK(rclose(rs));
	pthread_join(thread, &result);
	CHECK((intptr_t)result == -EBADF || (intptr_t)result == 0, "%d", (int)(intptr_t)result);
}

static void expects_end(struct pair *pair)
{
	int rs = meet(pair, NULL);

	expect_end(rs);
	OK(rclose(rs));
}

const struct test process_tests[] = {
	{ "fork leaves the parent's sockets alone", forking, undisturbed },
	{ "peers that are no rsockets are rejected", listener_of_strangers, strangers },
	{ "rclose wakes who is blocked on the socket", close_while_blocked, expects_end },
	{ NULL, NULL, NULL },
};
