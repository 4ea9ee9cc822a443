/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A thread whose cancellation is pending makes calls of libibverbs and librdmacm: those that do not wait are no
 * cancellation points, whatever they ask the kernel for; those that wait are, on entry and while they sleep.
 * Nothing stays behind: another thread's calls work. Prints TAP.
 */
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "ends.h"

#define TURNS	300
#define LIMIT_S	60		/* until a thread counts as hanging */

#define MUST(condition) do { if (!(condition)) { perror(#condition); exit(1); } } while (0)

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_comp_channel *channel;
static struct ibv_cq *cq;
static struct ibv_qp *left, *right;
static struct ibv_mr *mr;
static char memory[8192];
static union ibv_gid gid;
static struct rdma_event_channel *events;
static volatile bool reached, waiting;
static unsigned count, failed;

static void report(bool good, const char *kind, const char *name)
{
	count++;
	failed += !good;
	printf("%sok %u - %s: %s\n", good ? "" : "not ", count, kind, name);
	fflush(stdout);
}

static void raise_qp(struct ibv_qp *qp, const struct ibv_qp *peer)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1,
				    .qp_access_flags = IBV_ACCESS_REMOTE_WRITE };

	MUST(!ibv_modify_qp(qp, &attr,
			    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024,
				     .dest_qp_num = peer->qp_num, .max_dest_rd_atomic = 1, .min_rnr_timer = 12,
				     .ah_attr = { .is_global = 1, .port_num = 1,
						  .grh = { .dgid = gid, .sgid_index = 1, .hop_limit = 1 } } };
	MUST(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
			    IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7,
				     .max_rd_atomic = 1 };
	MUST(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
			    IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC));
}

static struct ibv_qp *make_qp(void)
{
	struct ibv_qp_init_attr attr = queues();

	attr.send_cq = attr.recv_cq = cq;
	return ibv_create_qp(pd, &attr);
}

static int write_and_poll(void)
{
	struct ibv_sge sge = { .addr = (uintptr_t)memory, .length = 64, .lkey = mr->lkey };
	struct ibv_send_wr *bad, wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
					.send_flags = IBV_SEND_SIGNALED };
	struct ibv_wc wc;
	int got;

	wr.wr.rdma.remote_addr = (uintptr_t)memory + 4096;
	wr.wr.rdma.rkey = mr->rkey;
	if (ibv_post_send(left, &wr, &bad))
		return -1;
	while (!(got = ibv_poll_cq(cq, 1, &wc)))
		sched_yield();
	return got == 1 ? (int)wc.status : -1;
}

/* ---- calls that do not wait ---- */

static void poll_empty(void)
{
	struct ibv_wc wc;

	ibv_poll_cq(cq, 1, &wc);
}

static void post_and_poll(void)
{
	write_and_poll();
}

static void arm(void)
{
	ibv_req_notify_cq(cq, 1);
}

static void refuse(void)
{
	struct ibv_send_wr *bad, wr = { .opcode = IBV_WR_RDMA_WRITE, .num_sge = 99 };

	ibv_post_send(left, &wr, &bad);		/* VERBATIM_EXPLAIN writes a line */
}

static void make_objects(void)
{
	struct ibv_cq *other = ibv_create_cq(context, 4, NULL, NULL, 0);
	struct ibv_mr *region = ibv_reg_mr(pd, memory, 4096, 0);
	struct ibv_qp *qp = make_qp();

	MUST(other && region && qp);
	raise_qp(qp, right);
	MUST(!ibv_destroy_qp(qp) && !ibv_dereg_mr(region) && !ibv_destroy_cq(other));
}

static void listen_and_end(void)
{
	struct sockaddr_in address = loopback(0);
	struct rdma_cm_id *id;

	MUST(!rdma_create_id(events, &id, NULL, RDMA_PS_TCP) && !rdma_bind_addr(id, (struct sockaddr *)&address) &&
	     !rdma_listen(id, 1) && !rdma_destroy_id(id));
}

static void open_and_close(void)
{
	struct ibv_context *other = ibv_open_device(context->device);

	MUST(other && !ibv_close_device(other));
}

/* ---- calls that wait ---- */

static void wait_for_completion(void)
{
	struct ibv_cq *got;
	void *unused;

	ibv_get_cq_event(channel, &got, &unused);
}

static void wait_for_cm_event(void)
{
	struct rdma_cm_event *event;

	rdma_get_cm_event(events, &event);
}

static void wait_for_async_event(void)
{
	struct ibv_async_event event;

	ibv_get_async_event(context, &event);
}

static const struct call {
	const char *name;
	void (*make)(void);
	int turns;
	bool waits;
} calls[] = {
	{ "ibv_poll_cq", poll_empty, TURNS, false },
	{ "ibv_post_send and ibv_poll_cq", post_and_poll, TURNS, false },
	{ "ibv_req_notify_cq", arm, TURNS, false },
	{ "a request that is refused", refuse, 3, false },
	{ "objects, and a queue pair that is connected", make_objects, 5, false },
	{ "rdma_listen", listen_and_end, 5, false },
	{ "ibv_open_device", open_and_close, 3, false },
	{ "ibv_get_cq_event", wait_for_completion, 1, true },
	{ "rdma_get_cm_event", wait_for_cm_event, 1, true },
	{ "ibv_get_async_event", wait_for_async_event, 1, true },
};

/* ---- threads ---- */

static void *call_cancelled(void *argument)
{
	const struct call *call = argument;
	int i;

	pthread_cancel(pthread_self());
	for (i = 0; i < call->turns; i++)
		call->make();
	reached = true;
	pthread_testcancel();
	return NULL;
}

static void *call_asleep(void *argument)
{
	const struct call *call = argument;

	waiting = true;
	call->make();
	reached = true;
	return NULL;
}

static bool is_cancelled(pthread_t thread)
{
	struct timespec until;
	void *result;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += LIMIT_S;
	if (pthread_timedjoin_np(thread, &result, &until)) {
		printf("# it hangs\n");
		exit(1);
	}
	return result == PTHREAD_CANCELED;
}

static void try(const struct call *call)
{
	pthread_t thread;

	reached = false;
	MUST(!pthread_create(&thread, NULL, call_cancelled, (void *)call));
	report(is_cancelled(thread) && reached == !call->waits,
	       call->waits ? "cancelled on entry" : "not cancelled inside", call->name);
	if (call->waits) {
		waiting = false;
		MUST(!pthread_create(&thread, NULL, call_asleep, (void *)call));
		while (!waiting)
			sched_yield();
		usleep(20000);		/* it may be before its sleep still: that is an entry, too */
		pthread_cancel(thread);
		report(is_cancelled(thread) && !reached, "cancelled asleep", call->name);
	}
	alarm(LIMIT_S);
	report(!write_and_poll(), "nothing stays behind", call->name);
	alarm(0);
}

int main(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	int i;

	for (i = 0; list && list[i] && strcmp(ibv_get_device_name(list[i]), "vb_lo"); i++)
		;
	MUST(list && list[i] && (context = ibv_open_device(list[i])) && !ibv_query_gid(context, 1, 1, &gid));
	MUST((pd = ibv_alloc_pd(context)) && (channel = ibv_create_comp_channel(context)) &&
	     (cq = ibv_create_cq(context, 64, NULL, channel, 0)) && (events = rdma_create_event_channel()) &&
	     (mr = ibv_reg_mr(pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)));
	MUST((left = make_qp()) && (right = make_qp()));
	raise_qp(left, right);
	raise_qp(right, left);
	for (i = 0; i < (int)(sizeof(calls) / sizeof(calls[0])); i++)
		try(&calls[i]);
	printf("1..%u\n", count);
	return failed > 0;
}
