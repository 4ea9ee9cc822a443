/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Right programs of several threads, of which ThreadSanitizer must say nothing: right CASE. Both
 * queue pairs are of one process, but for two_processes.
 */
#include <rdma/rdma_cma.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "program.h"

/* Posted by main, polled, read, written and posted again by another thread. */
static void *echo(void *unused)
{
	for (int i = 0; i < ROUNDS; i++) {
		poll_one(ends[1].cq);
		memcpy(ends[1].out.data, ends[1].in.data, BYTES);
		post_recv(ends[1].qp, &ends[1].in, 0);
		post_send(ends[1].qp, &ends[1].out);
		while (poll_one(ends[1].cq).opcode != IBV_WC_SEND)
			CHECK(0);
	}
	return NULL;
}

static void handed_over(void)
{
	pthread_t thread;

	make_ends(NULL);
	post_recv(ends[1].qp, &ends[1].in, 0);
	thread = start(echo, NULL);
	for (int i = 0; i < ROUNDS; i++) {
		post_recv(ends[0].qp, &ends[0].in, 0);
		memset(ends[0].out.data, i, BYTES);
		post_send(ends[0].qp, &ends[0].out);
		poll_one(ends[0].cq);
		poll_one(ends[0].cq);
		CHECK(ends[0].in.data[BYTES - 1] == (unsigned char)i);
	}
	join(thread);
	drop_ends();
}

static void *use_result(void *unused)
{
	for (int i = 0; i < ROUNDS; i++) {
		poll_one(ends[0].cq);
		sum += ends[0].out.data[0];
		memset(ends[0].out.data, i, BYTES);
		post_kind((unsigned)i % KINDS, ends[0].qp, &ends[0].out, &ends[1].in);
	}
	poll_one(ends[0].cq);
	return NULL;
}

/* One-sided: the poller is not the poster. */
static void one_sided(void)
{
	make_ends(NULL);
	memset(ends[0].out.data, 1, BYTES);
	post_kind(0, ends[0].qp, &ends[0].out, &ends[1].in);
	join(start(use_result, NULL));
	memset(ends[0].out.data, 2, BYTES);
	drop_ends();
}

/* Two threads poll one CQ, and hand work to a pool of two under a mutex. */
#define JOBS 8
static struct {
	pthread_mutex_t mutex;
	int waiting[JOBS], count, done;
	struct buffer in[JOBS], out[JOBS];
	struct ibv_srq *srq;
} pool = { .mutex = PTHREAD_MUTEX_INITIALIZER };
static _Atomic int polled, answered;

static void *pool_poll(void *unused)
{
	while (polled < ROUNDS) {
		struct ibv_wc wc;

		if (ibv_poll_cq(ends[1].cq, 1, &wc) != 1)
			continue;
		CHECK(wc.status == IBV_WC_SUCCESS);
		polled++;
		pthread_mutex_lock(&pool.mutex);
		pool.waiting[pool.count++] = (int)wc.wr_id;
		pthread_mutex_unlock(&pool.mutex);
	}
	return NULL;
}

static void *pool_work(void *unused)
{
	while (answered < ROUNDS) {
		int job = -1;

		pthread_mutex_lock(&pool.mutex);
		if (pool.count)
			job = pool.waiting[--pool.count];
		pthread_mutex_unlock(&pool.mutex);
		if (job < 0)
			continue;
		sum += pool.in[job].data[5];
		memset(pool.in[job].data, 0, BYTES);
		post_srq(pool.srq, &pool.in[job], (uint64_t)job);
		answered++;
	}
	return NULL;
}

static void pool_of_threads(void)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = DEPTH, .max_sge = 1 } };
	pthread_t thread[4];

	pool.srq = ibv_create_srq(pd, &attr);
	CHECK(pool.srq);
	make_ends(pool.srq);
	for (int i = 0; i < JOBS; i++) {
		make_buffer(&pool.in[i], BYTES);
		make_buffer(&pool.out[i], BYTES);
		post_srq(pool.srq, &pool.in[i], (uint64_t)i);
	}
	for (int i = 0; i < 4; i++)
		thread[i] = start(i < 2 ? pool_poll : pool_work, NULL);
	for (int i = 0; i < ROUNDS; i++) {
		struct buffer *out = &pool.out[i % JOBS];

		if (i >= JOBS)
			poll_one(ends[0].cq);
		memset(out->data, i, BYTES);
		post_send(ends[0].qp, out);
	}
	for (int i = 0; i < JOBS; i++)
		poll_one(ends[0].cq);
	for (int i = 0; i < 4; i++)
		join(thread[i]);
	drop_ends();
	CHECK(!ibv_destroy_srq(pool.srq));
	for (int i = 0; i < JOBS; i++) {
		drop_buffer(&pool.in[i]);
		drop_buffer(&pool.out[i]);
	}
}

/* The thread is there before the CQ, and knows it by its event alone. */
struct waiter {
	struct ibv_comp_channel *channel;
	int rounds;
};

static void *wait_for_events(void *argument)
{
	struct waiter *waiter = argument;

	for (int i = 0; i < ROUNDS; i++) {
		struct ibv_cq *cq;
		struct end *end;
		void *cq_context;

		CHECK(!ibv_get_cq_event(waiter->channel, &cq, &cq_context));
		end = cq_context;
		CHECK(end->cq == cq);
		ibv_ack_cq_events(cq, 1);
		CHECK(!ibv_req_notify_cq(cq, 0));
		CHECK(poll_one(cq).opcode == IBV_WC_RECV);
		sum += end->in.data[7];
		end->in.data[7] = 0;
		post_recv(end->qp, &end->in, 0);
	}
	return NULL;
}

static void events(void)
{
	struct waiter waiter = { .channel = ibv_create_comp_channel(context) };
	pthread_t thread;

	CHECK(waiter.channel);
	thread = start(wait_for_events, &waiter);
	make_end(&ends[0], NULL, NULL);
	make_end(&ends[1], waiter.channel, NULL);
	connect_qp(ends[0].qp, ends[1].qp->qp_num);
	connect_qp(ends[1].qp, ends[0].qp->qp_num);
	CHECK(!ibv_req_notify_cq(ends[1].cq, 0));
	post_recv(ends[1].qp, &ends[1].in, 0);
	for (int i = 0; i < ROUNDS; i++) {
		ends[0].out.data[7] = (unsigned char)i;
		post_send(ends[0].qp, &ends[0].out);
		poll_one(ends[0].cq);
	}
	join(thread);
	drop_ends();
	CHECK(!ibv_destroy_comp_channel(waiter.channel));
}

static void inline_data(void)
{
	make_ends(NULL);
	post_recv(ends[1].qp, &ends[1].in, 0);
	for (int i = 0; i < 4; i++) {
		post_wr(ends[0].qp, &ends[0].out, (struct ibv_send_wr){ .opcode = IBV_WR_RDMA_WRITE,
			.send_flags = IBV_SEND_INLINE | IBV_SEND_SIGNALED,
			.wr.rdma = { (uintptr_t)ends[1].out.data, ends[1].out.mr->rkey } }, 64);
		memset(ends[0].out.data, i, 64);
	}
	for (int i = 0; i < 4; i++)
		poll_one(ends[0].cq);
	drop_ends();
}

/* Buffers of requests that never complete: after destruction, RESET, or deregistration they are ours. */
static void torn_down(void)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };
	struct buffer more;

	make_ends(NULL);
	make_buffer(&more, 3u << 20);
	post_recv(ends[1].qp, &ends[1].in, 0);
	post_recv(ends[0].qp, &ends[0].in, 0);
	post_recv(ends[0].qp, &more, 0);
	drop_buffer(&more);
	CHECK(!ibv_modify_qp(ends[1].qp, &attr, IBV_QP_STATE));
	memset(ends[1].in.data, 1, BYTES);
	CHECK(!ibv_destroy_qp(ends[0].qp));
	memset(ends[0].in.data, 1, BYTES);
	ends[0].qp = make_qp(ends[0].cq, NULL);
	drop_ends();
}

/* Receives whose data nobody wants have one buffer; and their numbers change (SRQ). */
static struct buffer scratch;

static void *receive_scratch(void *argument)
{
	struct end *end = argument;

	for (int i = 0; i < ROUNDS; i++) {
		post_recv(end->qp, &scratch, 0);
		post_wr(end->qp, &end->out, (struct ibv_send_wr){ .opcode = IBV_WR_SEND,
			.send_flags = IBV_SEND_SIGNALED }, 64);
		poll_one(end->cq);
		poll_one(end->cq);
	}
	return NULL;
}

static void one_scratch_buffer(void)
{
	pthread_t thread[2];

	make_ends(NULL);
	make_buffer(&scratch, BYTES);
	for (int i = 0; i < 2; i++)
		thread[i] = start(receive_scratch, &ends[i]);
	for (int i = 0; i < 2; i++)
		join(thread[i]);
	drop_ends();
	drop_buffer(&scratch);
}

static void resized(void)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = 8, .max_sge = 1 } };
	struct ibv_srq_attr larger = { .max_wr = 2 * DEPTH };
	struct ibv_srq *srq = ibv_create_srq(pd, &attr);

	CHECK(srq);
	make_ends(srq);
	for (int i = 0; i < 3; i++) {
		post_srq(srq, &ends[1].in, 0);
		post_send(ends[0].qp, &ends[0].out);
		poll_one(ends[0].cq);
		poll_one(ends[1].cq);
	}
	post_srq(srq, &ends[1].in, 0);
	CHECK(!ibv_modify_srq(srq, &larger, IBV_SRQ_MAX_WR));
	post_send(ends[0].qp, &ends[0].out);
	poll_one(ends[0].cq);
	poll_one(ends[1].cq);
	sum += ends[1].in.data[0];
	drop_ends();
	CHECK(!ibv_destroy_srq(srq));
}

static void *build(void *argument)
{
	struct buffer *buffer = argument;

	memset(buffer->data, 5, BYTES);
	build_write(buffer);
	return NULL;
}

static void *read_extended(void *unused)
{
	for (int i = 0; i < 2; i++) {
		poll_extended();
		memset(((struct buffer *)(uintptr_t)read_ex->wr_id)->data, 6, BYTES);
		ibv_end_poll(read_ex);
	}
	return NULL;
}

static void extended(void)
{
	pthread_t thread[3];

	make_extended();
	thread[2] = start(read_extended, NULL);
	for (int i = 0; i < 2; i++)
		thread[i] = start(build, &built_from[i]);
	for (int i = 0; i < 3; i++)
		join(thread[i]);
	drop_extended();
}

/* librdmacm: a thread for the events of each end; contexts are known by events alone. */
struct peer {
	struct rdma_event_channel *channel;
	uint64_t greeting;		/* by who made the id */
	int done;
};
static struct peer server, client;

static void cm_qp(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr attr = { .qp_type = IBV_QPT_RC, .cap = { 4, 4, 1, 1, 0 } };

	CHECK(!rdma_create_qp(id, NULL, &attr));
}

static void *serve_events(void *unused)
{
	while (!server.done) {
		struct rdma_conn_param parameters = { 0 };
		struct rdma_cm_event *event;
		struct peer *peer;

		CHECK(!rdma_get_cm_event(server.channel, &event));
		peer = event->id->context;
		sum += (unsigned)peer->greeting;
		if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST) {
			cm_qp(event->id);
			CHECK(!rdma_accept(event->id, &parameters));
		} else if (event->event == RDMA_CM_EVENT_DISCONNECTED) {
			server.done = 1;
		}
		CHECK(!rdma_ack_cm_event(event));
	}
	return NULL;
}

static void *connect_by_events(void *unused)
{
	while (!client.done) {
		struct rdma_conn_param parameters = { 0 };
		struct rdma_cm_event *event;
		struct peer *peer;

		CHECK(!rdma_get_cm_event(client.channel, &event));
		peer = event->id->context;
		sum += (unsigned)peer->greeting;
		switch (event->event) {
		case RDMA_CM_EVENT_ADDR_RESOLVED:
			CHECK(!rdma_resolve_route(event->id, 2000));
			break;
		case RDMA_CM_EVENT_ROUTE_RESOLVED:
			cm_qp(event->id);
			CHECK(!rdma_connect(event->id, &parameters));
			break;
		case RDMA_CM_EVENT_ESTABLISHED:
			CHECK(!rdma_disconnect(event->id));
			break;
		case RDMA_CM_EVENT_DISCONNECTED:
			client.done = 1;
			break;
		default:
			CHECK(0);
		}
		CHECK(!rdma_ack_cm_event(event));
	}
	return NULL;
}

static void connections(void)
{
	struct sockaddr_storage address = { 0 };
	struct rdma_cm_id *listener, *id;
	pthread_t thread[2];
	struct rdma_addrinfo hints = { .ai_flags = RAI_PASSIVE, .ai_port_space = RDMA_PS_TCP }, *found;

	CHECK(!rdma_getaddrinfo("127.0.0.1", "0", &hints, &found));
	memcpy(&address, found->ai_src_addr, found->ai_src_len);
	rdma_freeaddrinfo(found);
	server.channel = rdma_create_event_channel();
	client.channel = rdma_create_event_channel();
	CHECK(server.channel && client.channel);
	thread[0] = start(serve_events, NULL);
	thread[1] = start(connect_by_events, NULL);
	server.greeting = 1;
	CHECK(!rdma_create_id(server.channel, &listener, &server, RDMA_PS_TCP));
	CHECK(!rdma_bind_addr(listener, (struct sockaddr *)&address) && !rdma_listen(listener, 4));
	client.greeting = 2;
	CHECK(!rdma_create_id(client.channel, &id, &client, RDMA_PS_TCP));
	CHECK(!rdma_resolve_addr(id, NULL, rdma_get_local_addr(listener), 2000));
	join(thread[0]);
	join(thread[1]);
	rdma_destroy_qp(id);
	CHECK(!rdma_destroy_id(id) && !rdma_destroy_id(listener));
	rdma_destroy_event_channel(client.channel);
}

/* What two_processes tell each other. */
struct told {
	uint32_t qpn, rkey;
	uint64_t address;
};

static void *read_replies(void *argument)
{
	for (int i = 0; i < ROUNDS; i++) {
		while (poll_one(ends[0].cq).opcode != IBV_WC_RECV)
			;
		sum += ends[0].in.data[1];
		ends[0].in.data[1] = 0;
		post_recv(ends[0].qp, &ends[0].in, 0);
		answered++;
	}
	return NULL;
}

static void two_processes(void)
{
	struct told own, peer;
	pthread_t thread;
	int fds[2], status;
	pid_t child;

	CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, fds));
	child = fork();
	open_device();
	make_end(&ends[0], NULL, NULL);
	own = (struct told){ ends[0].qp->qp_num, ends[0].out.mr->rkey, (uintptr_t)ends[0].out.data };
	CHECK(write(fds[!child], &own, sizeof(own)) == sizeof(own));
	CHECK(read(fds[!child], &peer, sizeof(peer)) == sizeof(peer));
	connect_qp(ends[0].qp, peer.qpn);
	post_recv(ends[0].qp, &ends[0].in, 0);
	CHECK(write(fds[!child], "", 1) == 1 && read(fds[!child], &status, 1) == 1);
	thread = start(read_replies, NULL);
	for (int i = 0; i < ROUNDS; i++) {
		post_wr(ends[0].qp, &ends[0].out, (struct ibv_send_wr){ .opcode = IBV_WR_SEND,
			.send_flags = IBV_SEND_INLINE | (i % 8 ? 0 : IBV_SEND_SIGNALED) }, 16);
		ends[0].out.data[1] = (unsigned char)i;
		while (answered <= i)
			;
	}
	join(thread);
	CHECK(write(fds[!child], "", 1) == 1 && read(fds[!child], &status, 1) == 1);
	drop_end(&ends[0]);
	if (!child)
		exit(0);
	CHECK(waitpid(child, &status, 0) == child && !status);
}

static const struct program_case cases[] = {
	CASE(handed_over),
	CASE(one_sided),
	CASE(pool_of_threads),
	CASE(events),
	CASE(inline_data),
	CASE(torn_down),
	CASE(one_scratch_buffer),
	CASE(resized),
	CASE(extended),
	CASE(connections),
	CASE_OF_TWO(two_processes),
};

int main(int argc, char **argv)
{
	return run_case(cases, sizeof(cases) / sizeof(*cases), argc, argv);
}
