// SPDX-License-Identifier: BSD-2-Clause
/*
 * Processes and threads: fork in mid-traffic, a child that works on its own, threads that share
 * a CQ, a target that computes without ever calling the library.
 */
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "verify.h"

static void ping(struct link *link, int count)
{
	for (int i = 0; i < count; i++) {
		recv_op(link, i, NULL, 0);
		barrier(link->side);
		send_op(link, &(struct op){ .id = i, .opcode = IBV_WR_SEND });
		good_wc(link->send_cq, i);
		good_wc(link->recv_cq, i);
	}
}

/* What a child does in 0: nothing for a while; 1: exec; 2: open the device anew. */
static void child(struct side *side, int what)
{
	struct ibv_device **list;
	struct ibv_context *context;

	close(side->sock);
	if (what == 0) {
		pause_ms(300);
		_exit(0);
	}
	if (what == 1) {
		execlp("true", "true", NULL);
		_exit(3);
	}
	list = ibv_get_device_list(NULL);
	context = list && list[0] ? ibv_open_device(list[0]) : NULL;
	if (!context || !ibv_alloc_pd(context) || !ibv_create_cq(context, 4, NULL, NULL, 0))
		_exit(4);
	_exit(0);
}

/* The parent works on while its children live, and after they are gone. */
static void fork_in_traffic(struct side *side)
{
	struct link link;

	if (side->local)
		skip(side, "needs a process of its own");
	link_open(side, &link, &(struct link_options){ 0 });
	ping(&link, 20);
	for (int what = 0; what < 3; what++) {
		pid_t pid = fork();
		int status = 0;

		CHECK(pid >= 0, "fork: %m");
		if (!pid)
			child(side, what);
		ping(&link, 50);
		CHECK(waitpid(pid, &status, 0) == pid, "waitpid: %m");
		CHECK(WIFEXITED(status) && !WEXITSTATUS(status), "child %d: status 0x%x", what,
		      status);
		ping(&link, 50);
	}
	link_close(&link);
}

/* The server's child, not the server, talks to the client, over a device opened in the child. */
static void fork_then_work(struct side *side)
{
	pid_t pid;
	int status = 0;

	if (side->local)
		skip(side, "needs a process of its own");
	pid = side->server ? fork() : 0;
	CHECK(pid >= 0, "fork: %m");
	if (pid) {
		CHECK(waitpid(pid, &status, 0) == pid, "waitpid: %m");
		CHECK(WIFEXITED(status) && !WEXITSTATUS(status), "child: status 0x%x", status);
	} else {
		struct ibv_context *old = side->context;
		struct ibv_pd *old_pd = side->pd;
		struct link link;

		side->context = ibv_open_device(old->device);
		CHECK(side->context, "ibv_open_device in a child: %m");
		side->pd = ibv_alloc_pd(side->context);
		CHECK(side->pd, "ibv_alloc_pd: %m");
		link_open(side, &link, &(struct link_options){ 0 });
		ping(&link, 50);
		link_close(&link);
		OK(ibv_dealloc_pd(side->pd));
		OK(ibv_close_device(side->context));
		if (side->server)
			_exit(0);
		side->context = old;
		side->pd = old_pd;
	}
}

enum { THREADS = 4, EACH = 300 };

struct worker {
	struct link link;
	struct region *region;
	int index;
};

static void *work(void *arg)
{
	struct worker *w = arg;

	for (int i = 0; i < EACH; i++) {
		while (try_send(&w->link, &(struct op){ .id = w->index * 1000 + i, .sges = 1,
				.sge = { sge_of(w->region, w->index * 2000, 2000) },
				.opcode = IBV_WR_RDMA_WRITE, .rkey = w->region->peer_rkey,
				.address = w->region->peer_address + w->index * 2000 }))
			usleep(50);
	}
	return NULL;
}

/* Threads post to QPs of their own, one reaps the CQ they share: each QP's order is kept. */
static void threads_share_cq(struct side *side)
{
	struct ibv_cq *cq = ibv_create_cq(side->context, THREADS * EACH, NULL, NULL, 0);
	struct region out;
	struct worker worker[THREADS];
	pthread_t thread[THREADS];
	uint64_t next[THREADS] = { 0 };

	CHECK(cq, "ibv_create_cq: %m");
	region_create(side, &out, THREADS * 2000, ALL_ACCESS);
	region_exchange(side, &out);
	for (int t = 0; t < THREADS; t++) {
		worker[t] = (struct worker){ .region = &out, .index = t };
		link_open(side, &worker[t].link, &(struct link_options){ .send_cq = cq });
	}
	for (int t = 0; t < THREADS; t++)
		OK(pthread_create(&thread[t], NULL, work, &worker[t]));
	for (int i = 0; i < THREADS * EACH; i++) {
		struct ibv_wc wc = wait_wc(cq);
		uint64_t t = wc.wr_id / 1000;

		CHECK(wc.status == IBV_WC_SUCCESS, "%s", ibv_wc_status_str(wc.status));
		CHECK(t < THREADS && wc.wr_id % 1000 == next[t]++, "completion of %llu",
		      (unsigned long long)wc.wr_id);
	}
	for (int t = 0; t < THREADS; t++)
		OK(pthread_join(thread[t], NULL));
	barrier(side);
	for (int t = 0; t < THREADS; t++) {
		OK(ibv_destroy_qp(worker[t].link.qp));
		OK(ibv_destroy_cq(worker[t].link.recv_cq));
	}
	OK(ibv_destroy_cq(cq));
	region_destroy(&out);
}

/* The target spins on its own memory and calls nothing: WRITEs arrive all the same. */
static void target_spins(struct side *side)
{
	struct region region;
	struct link link;
	volatile uint8_t *last;

	region_create(side, &region, 5000, ALL_ACCESS);
	memset(region.mem, 0, 5000);
	region_exchange(side, &region);
	link_open(side, &link, &(struct link_options){ 0 });
	last = region.mem + 4999;
	for (int round = 1; round <= 100; round++) {
		if (side->server) {
			while (*last != round)
				;
			byte_check(region.mem, 5000, round, "behind the last byte");
			barrier(side);
			continue;
		}
		memset(region.mem, round, 5000);
		send_op(&link, &(struct op){ .id = round, .sges = 1, .rkey = region.peer_rkey,
			.sge = { sge_of(&region, 0, 5000) }, .opcode = IBV_WR_RDMA_WRITE,
			.address = region.peer_address });
		good_wc(link.send_cq, round);
		barrier(side);
	}
	link_close(&link);
	region_destroy(&region);
}

/* The target sleeps in the kernel, not in the library. */
static void target_sleeps(struct side *side)
{
	struct region region;
	struct link link;

	region_create(side, &region, 100000, ALL_ACCESS);
	region_exchange(side, &region);
	link_open(side, &link, &(struct link_options){ 0 });
	if (!side->server)
		for (int i = 0; i < 50; i++) {
			send_op(&link, &(struct op){ .id = i, .sges = 1, .rkey = region.peer_rkey,
				.sge = { sge_of(&region, 0, 100000) },
				.opcode = i % 2 ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE,
				.address = region.peer_address });
			good_wc(link.send_cq, i);
		}
	barrier(side);
	link_close(&link);
	region_destroy(&region);
}

const struct test process_tests[] = {
	{ "fork_in_traffic", fork_in_traffic, 0 },
	{ "fork_then_work", fork_then_work, 0 },
	{ "threads_share_cq", threads_share_cq, TAG_DATA },
	{ "target_spins", target_spins, TAG_DATA },
	{ "target_sleeps", target_sleeps, TAG_DATA },
	{ 0 }
};
