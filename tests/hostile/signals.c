/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * exit() and _exit() in signal handlers, which interrupt calls at any instant: the process ends,
 * with the status that it gave, whatever the call was in the middle of.
 */
#include "hostile.h"

#include <signal.h>
#include <sys/wait.h>

#define END_S 30.0 /* one that hangs never ends */
#define STATUS 7
#define REGION_BYTES (64 * KIB)

struct loop {
	struct node node;
	struct link here, there; /* to each other, in this process */
	struct ibv_mr *mr;
};

/* ---- what is interrupted ---- */

static void loop_open(struct loop *loop)
{
	node_open(&loop->node);
	loop->mr = region_make(&loop->node, memory_make(MEMORY_ALIGNED, REGION_BYTES), REGION_BYTES,
			       REMOTE_ALL);
	link_make(&loop->here, &loop->node);
	link_make(&loop->there, &loop->node);
	link_set_region(&loop->there, loop->mr);
	loop->here.there = loop->there.here;
	loop->there.there = loop->here.here;
	link_raise(&loop->here, IBV_QPS_RTS);
	link_raise(&loop->there, IBV_QPS_RTS);
}

static void writes_and_polls(struct loop *loop)
{
	for (;;)
		CHECK(transfer(&loop->here, IBV_WR_RDMA_WRITE, loop->mr, 0, 4096, 4096) ==
		      IBV_WC_SUCCESS);
}

static void polls_in_vain(struct loop *loop)
{
	struct ibv_wc wc;

	for (;;)
		CHECK(!ibv_poll_cq(loop->node.cq, 1, &wc));
}

static void waits_for_events(struct loop *loop)
{
	struct ibv_cq *cq;
	struct ibv_wc wc;
	void *context;

	for (;;) {
		CHECK(!ibv_req_notify_cq(loop->node.cq, 0));
		CHECK(!post(&loop->here, IBV_WR_RDMA_WRITE, loop->mr, 0, 64, 4096, 1), "%m");
		CHECK(!ibv_get_cq_event(loop->node.channel, &cq, &context), "%m");
		ibv_ack_cq_events(cq, 1);
		while (ibv_poll_cq(cq, 1, &wc) == 1)
			CHECK(wc.status == IBV_WC_SUCCESS);
	}
}

static void registers(struct loop *loop)
{
	static char memory[REGION_BYTES];

	for (;;)
		CHECK(!ibv_dereg_mr(region_make(&loop->node, memory, sizeof(memory), REMOTE_ALL)),
		      "%m");
}

static void makes_queue_pairs(struct loop *loop)
{
	struct link link;

	for (;;) {
		link_make(&link, &loop->node);
		link.there = loop->there.here;
		link_raise(&link, IBV_QPS_RTS);
		CHECK(!ibv_destroy_qp(link.qp), "%m");
	}
}

static void opens_devices(struct loop *loop)
{
	struct node node;

	for (;;) {
		node_open(&node);
		node_close(&node);
	}
}

/* ---- the play ---- */

typedef void work_fn(struct loop *loop);

static void leave(int number)
{
	exit(STATUS);
}

static void leave_at_once(int number)
{
	_exit(STATUS);
}

static void victim(int ready, work_fn *work, bool at_once)
{
	struct loop loop;

	loop_open(&loop);
	signal(SIGINT, at_once ? leave_at_once : leave);
	CHECK(write(ready, "r", 1) == 1);
	work(&loop);
}

/* How it ended; -1: not in time. */
static int await_end(pid_t pid)
{
	double until_s = now() + END_S;
	int status;

	while (waitpid(pid, &status, WNOHANG) != pid) {
		if (now() > until_s) {
			kill(pid, SIGKILL);
			waitpid(pid, &status, 0);
			return -1;
		}
		usleep(200);
	}
	return status;
}

static void interrupt_once(work_fn *work, bool at_once, const char *what)
{
	int ready[2], status;
	char byte;
	pid_t pid;

	CHECK(!pipe(ready), "%m");
	fflush(NULL);
	pid = fork();
	CHECK(pid >= 0, "%m");
	if (!pid) {
		victim(ready[1], work, at_once);
		_exit(0);
	}
	close(ready[1]);
	CHECK(read(ready[0], &byte, 1) == 1, "%s: it does not begin", what);
	close(ready[0]);
	usleep((useconds_t)random_below(3000));
	kill(pid, SIGINT);
	status = await_end(pid);
	CHECK(status != -1, "%s: it does not end", what);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == STATUS, "%s: status %x", what,
	      (unsigned)status);
}

static void interrupt(bool at_once)
{
	static const struct {
		work_fn *work;
		const char *what;
	} call[] = {
		{writes_and_polls, "writing"},	  {polls_in_vain, "polling"},
		{waits_for_events, "waiting"},	  {registers, "registering"},
		{makes_queue_pairs, "making QPs"}, {opens_devices, "opening"},
	};
	unsigned i, times = long_run ? 600 : 60;

	for (i = 0; i < times; i++)
		interrupt_once(call[i % 6].work, at_once, call[i % 6].what);
}

static void exit_in_handler(void)
{
	interrupt(false);
}

static void at_once_in_handler(void)
{
	interrupt(true);
}

const struct hostile_case signal_cases[] = {
	{"exit-in-handler", "exit() in a signal handler ends the process", exit_in_handler},
	{"_exit-in-handler", "so does _exit()", at_once_in_handler},
	{0},
};
