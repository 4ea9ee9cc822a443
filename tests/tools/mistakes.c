/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Programs that make one mistake each, so that VERBATIM_EXPLAIN=1 can say what it is:  mistakes NAME
 * They end by themselves, or by SIGALRM where the mistake is to wait for ever. `run` has what is said.
 */
#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define MUST(x) do { if (!(x)) { perror(#x); exit(1); } } while (0)
#define QKEY 0x1234

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_comp_channel *channel;
static struct ibv_cq *cq;
static struct ibv_mr *mr;
static union ibv_gid gid;
static uint8_t memory[4096];
static unsigned send_flags = IBV_SEND_SIGNALED;
static uint8_t depth = 1;

static void open_device(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	MUST(list && *list);
	for (; list[1] && strcmp(ibv_get_device_name(*list), "vb_lo"); list++)
		;
	MUST(context = ibv_open_device(*list));
	MUST(!ibv_query_gid(context, 1, 1, &gid));
	MUST(pd = ibv_alloc_pd(context));
	MUST(channel = ibv_create_comp_channel(context));
	MUST(cq = ibv_create_cq(context, 64, NULL, channel, 0));
	MUST(mr = ibv_reg_mr(pd, memory, sizeof(memory),
			IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE));
}

static struct ibv_qp *make_qp(enum ibv_qp_type type)
{
	struct ibv_qp_init_attr init = { .send_cq = cq, .recv_cq = cq, .qp_type = type,
					 .cap = { .max_send_wr = 16, .max_recv_wr = 16,
							.max_send_sge = 1,
						  .max_recv_sge = 1 } };
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY };
	struct ibv_qp *qp = ibv_create_qp(pd, &init);

	MUST(qp);
	MUST(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
			    (type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS)));
	return qp;
}

static struct ibv_ah_attr way(void)
{
	return (struct ibv_ah_attr){ .is_global = 1, .port_num = 1,
				     .grh = { .dgid = gid, .sgid_index = 1, .hop_limit = 64 } };
}

static void to_rtr(struct ibv_qp *qp, uint32_t dest, uint32_t psn)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTR, .ah_attr = way(), .path_mtu = IBV_MTU_1024,
				    .dest_qp_num = dest, .rq_psn = psn, .max_dest_rd_atomic = 1,
				    .min_rnr_timer = 12 };

	MUST(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
			    IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
}

static void to_rts(struct ibv_qp *qp, uint32_t psn, uint8_t timeout)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS, .sq_psn = psn, .timeout = timeout,
			.retry_cnt = 2,
				    .rnr_retry = 7, .max_rd_atomic = depth };

	MUST(!ibv_modify_qp(qp, &attr,
			IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
			    IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC));
}

static void send_to(struct ibv_qp *qp, uint32_t remote, uint32_t qkey)
{
	struct ibv_sge sge = { .addr = (uintptr_t)memory, .length = 64, .lkey = mr->lkey };
	struct ibv_send_wr *bad, wr = { .wr_id = 7, .sg_list = &sge, .num_sge = 1,
			.opcode = IBV_WR_SEND,
					.send_flags = send_flags };
	struct ibv_ah_attr attr = way();

	if (qp->qp_type == IBV_QPT_UD) {
		MUST(wr.wr.ud.ah = ibv_create_ah(pd, &attr));
		wr.wr.ud.remote_qpn = remote;
		wr.wr.ud.remote_qkey = qkey;
	}
	MUST(!ibv_post_send(qp, &wr, &bad));
}

static void receive_bytes(struct ibv_qp *qp, uint32_t bytes)
{
	struct ibv_sge sge = { .addr = (uintptr_t)memory + 1024, .length = bytes, .lkey = mr->lkey };
	struct ibv_recv_wr *bad, wr = { .sg_list = &sge, .num_sge = 1 };

	MUST(!ibv_post_recv(qp, &wr, &bad));
}

static void poll_until_done(void)
{
	struct ibv_wc wc;

	while (!ibv_poll_cq(cq, 1, &wc))
		;
	printf("status %d\n", wc.status);
}

/* What the requester is told is the same for all of these. */
static void mistake_between_rc(const char *name)
{
	struct ibv_qp *a = make_qp(IBV_QPT_RC), *b = make_qp(IBV_QPT_RC);
	uint32_t dest = strcmp(name, "qpn") ? b->qp_num : b->qp_num ^ 0x2000;

	to_rtr(a, dest, 0);
	if (strcmp(name, "init") && strcmp(name, "timeout"))
		to_rtr(b, a->qp_num, strcmp(name, "psn") ? 100 : 900);
	to_rts(a, 100, strcmp(name, "timeout") ? 12 : 0);
	send_to(a, 0, 0);
	poll_until_done();
}

static void mistake_with_ud(const char *name)
{
	struct ibv_qp *a = make_qp(IBV_QPT_UD), *b = make_qp(IBV_QPT_UD);
	struct ibv_qp_attr rtr = { .qp_state = IBV_QPS_RTR }, rts = { .qp_state = IBV_QPS_RTS };

	MUST(!ibv_modify_qp(a, &rtr, IBV_QP_STATE) && !ibv_modify_qp(b, &rtr, IBV_QP_STATE));
	MUST(!ibv_modify_qp(a, &rts, IBV_QP_STATE | IBV_QP_SQ_PSN));
	if (!strcmp(name, "grh"))
		receive_bytes(b, 64);
	send_to(a, b->qp_num, strcmp(name, "qkey") ? QKEY : QKEY + 1);
	poll_until_done();
	usleep(200000);
}

static void mistake_of_events(const char *name)
{
	struct ibv_qp *qp = make_qp(IBV_QPT_RC);
	struct ibv_cq *got;
	void *user;

	if (!strcmp(name, "event")) {
		ibv_get_cq_event(channel, &got, &user);
		return;
	}
	MUST(!ibv_req_notify_cq(cq, 0));
	to_rtr(qp, qp->qp_num, 100);
	to_rts(qp, 100, 14);
	receive_bytes(qp, 64);
	send_to(qp, 0, 0);
	MUST(!ibv_get_cq_event(channel, &got, &user));
	MUST(!ibv_destroy_qp(qp));
	ibv_destroy_cq(cq);
}

/* The peer is killed when it has told its QP number. */
static void mistake_to_kill(void)
{
	uint32_t number;
	struct ibv_qp *qp;
	int ends[2];
	pid_t pid;

	MUST(!pipe(ends));
	pid = fork();
	if (!pid) {
		open_device();
		number = make_qp(IBV_QPT_RC)->qp_num;
		MUST(write(ends[1], &number, sizeof(number)) == sizeof(number));
		for (;;)
			pause();
	}
	MUST(read(ends[0], &number, sizeof(number)) == sizeof(number));
	open_device();
	qp = make_qp(IBV_QPT_RC);
	to_rtr(qp, number, 100);
	to_rts(qp, 100, 12);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	send_to(qp, 0, 0);
	poll_until_done();
	usleep(300000);
}

/*
 * The mistake is the peer's, in a process of its own: only that process sees the packets, and tells ours. "other":
 * it is connected to a QP of ours that does not send.
 */
static void mistake_of_peer(const char *name)
{
	uint32_t number, ours[2];
	struct ibv_qp *qp;
	int down[2], up[2];
	pid_t pid;

	MUST(!pipe(down) && !pipe(up));
	pid = fork();
	if (!pid) {
		open_device();
		qp = make_qp(strcmp(name, "peer-type") ? IBV_QPT_RC : IBV_QPT_UC);
		MUST(write(up[1], &qp->qp_num, sizeof(number)) == sizeof(number));
		MUST(read(down[0], ours, sizeof(ours)) == sizeof(ours));
		if (!strcmp(name, "peer-psn"))
			to_rtr(qp, ours[0], 900);
		if (!strcmp(name, "peer-other"))
			to_rtr(qp, ours[1], 100);
		MUST(write(up[1], &number, 1) == 1);
		for (;;)
			pause();
	}
	open_device();
	qp = make_qp(IBV_QPT_RC);
	ours[0] = qp->qp_num;
	ours[1] = make_qp(IBV_QPT_RC)->qp_num;
	MUST(read(up[0], &number, sizeof(number)) == sizeof(number));
	MUST(write(down[1], ours, sizeof(ours)) == sizeof(ours));
	to_rtr(qp, number, 0);
	to_rts(qp, 100, 16);	/* time for the peer to say why, on a busy machine */
	MUST(read(up[0], &number, 1) == 1);
	send_to(qp, 0, 0);
	poll_until_done();
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static void wait_for_event(void)
{
	struct ibv_cq *got;
	void *user;

	MUST(!ibv_req_notify_cq(cq, 0));
	ibv_get_cq_event(channel, &got, &user);
}

/* Waits for completions that cannot come: "poll" by ibv_poll_cq, others by an event. */
static void mistake_of_waiting(const char *name)
{
	struct ibv_qp *a = make_qp(IBV_QPT_RC), *b = make_qp(IBV_QPT_RC);
	struct ibv_wc wc;

	if (!strcmp(name, "idle-init")) {
		receive_bytes(b, 64);
		wait_for_event();
	}
	to_rtr(a, b->qp_num, 0);
	to_rtr(b, a->qp_num, 100);
	to_rts(a, 100, 12);
	if (!strcmp(name, "idle-unsignaled")) {
		send_flags = 0;
		receive_bytes(b, 64);
		send_to(a, 0, 0);
		poll_until_done();	/* the receive's */
	}
	if (!strcmp(name, "idle-gone")) {
		receive_bytes(b, 64);
		MUST(!ibv_destroy_qp(a));
	}
	while (!strcmp(name, "idle-poll"))
		ibv_poll_cq(cq, 1, &wc);
	wait_for_event();
}

/* It waits for a message of a peer that was killed. */
static void mistake_to_receive(void)
{
	uint32_t number;
	struct ibv_qp *qp;
	int ends[2];
	pid_t pid;

	MUST(!pipe(ends));
	pid = fork();
	if (!pid) {
		open_device();
		number = make_qp(IBV_QPT_RC)->qp_num;
		MUST(write(ends[1], &number, sizeof(number)) == sizeof(number));
		for (;;)
			pause();
	}
	MUST(read(ends[0], &number, sizeof(number)) == sizeof(number));
	open_device();
	qp = make_qp(IBV_QPT_RC);
	to_rtr(qp, number, 100);
	receive_bytes(qp, 64);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	wait_for_event();
}

static void mistake_of_flags(void)
{
	struct ibv_qp *qp = make_qp(IBV_QPT_RC);

	to_rtr(qp, qp->qp_num, 100);
	to_rts(qp, 100, 14);
	receive_bytes(qp, 64);
	send_flags = 0x4000 | IBV_SEND_SIGNALED;
	send_to(qp, 0, 0);
	poll_until_done();
}

/* The event COMM_EST of a QP is never acknowledged. */
static void mistake_of_async(void)
{
	struct ibv_qp *a = make_qp(IBV_QPT_RC), *b = make_qp(IBV_QPT_RC);
	struct ibv_async_event event;

	to_rtr(a, b->qp_num, 0);
	to_rtr(b, a->qp_num, 100);
	to_rts(a, 100, 12);
	receive_bytes(b, 64);
	send_to(a, 0, 0);
	MUST(!ibv_get_async_event(context, &event));
	ibv_destroy_qp(b);
}

/* As rdma_connect() with a zeroed rdma_conn_param leaves it. */
static void mistake_of_depth(void)
{
	struct ibv_sge sge = { .addr = (uintptr_t)memory, .length = 64, .lkey = mr->lkey };
	struct ibv_send_wr *bad, wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_READ };
	struct ibv_qp *qp = make_qp(IBV_QPT_RC);

	to_rtr(qp, qp->qp_num, 100);
	depth = 0;
	to_rts(qp, 100, 14);
	printf("%d\n", ibv_post_send(qp, &wr, &bad));
}

static void mistake_after_destroy(void)
{
	struct ibv_qp *qp = make_qp(IBV_QPT_RC);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	MUST(!ibv_destroy_qp(qp));
	printf("%d\n", ibv_modify_qp(qp, &attr, IBV_QP_STATE));
}

/* To a multicast group from GID 0, which is no address of lo. */
static void mistake_of_group(void)
{
	struct ibv_ah_attr attr = way();

	attr.grh.sgid_index = 0;
	attr.grh.dgid = (union ibv_gid){ .raw = { 0xff, 0x0e, [15] = 9 } };
	MUST(!ibv_create_ah(pd, &attr));
}

/* "cm-ack" destroys an id whose event it has; "cm-next" waits for an event and has asked for none. */
static void mistake_with_ids(const char *name)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(7),
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct rdma_event_channel *events = rdma_create_event_channel();
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;

	MUST(events && !rdma_create_id(events, &id, NULL, RDMA_PS_TCP));
	MUST(!rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, 1000));
	MUST(!rdma_get_cm_event(events, &event));
	if (!strcmp(name, "cm-ack"))
		rdma_destroy_id(id);
	rdma_ack_cm_event(event);
	rdma_get_cm_event(events, &event);
}

static void mistake_of_order(void)
{
	struct rdma_event_channel *events = rdma_create_event_channel();
	struct rdma_conn_param parameters = { 0 };
	struct rdma_cm_id *id;

	MUST(events && !rdma_create_id(events, &id, NULL, RDMA_PS_TCP));
	rdma_resolve_route(id, 100);
	rdma_connect(id, &parameters);
}

int main(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : "";

	alarm(6);
	if (!strcmp(name, "killed")) {
		mistake_to_kill();
		return 0;
	}
	if (!strncmp(name, "peer-", 5)) {
		mistake_of_peer(name);
		return 0;
	}
	if (!strcmp(name, "channel")) {
		struct rdma_cm_event *event;

		rdma_get_cm_event(rdma_create_event_channel(), &event);
		return 0;
	}
	if (!strcmp(name, "order")) {
		mistake_of_order();
		return 0;
	}
	if (!strcmp(name, "cm-ack") || !strcmp(name, "cm-next")) {
		mistake_with_ids(name);
		return 0;
	}
	if (!strcmp(name, "receiver")) {
		mistake_to_receive();
		return 0;
	}
	open_device();
	if (!strncmp(name, "idle-", 5))
		mistake_of_waiting(name);
	else if (!strcmp(name, "flags"))
		mistake_of_flags();
	else if (!strcmp(name, "depth"))
		mistake_of_depth();
	else if (!strcmp(name, "group"))
		mistake_of_group();
	else if (!strcmp(name, "async"))
		mistake_of_async();
	else if (!strcmp(name, "destroyed"))
		mistake_after_destroy();
	else if (!strcmp(name, "close"))
		MUST(!ibv_close_device(context));
	else if (!strcmp(name, "init") || !strcmp(name, "psn") || !strcmp(name,
			"qpn") || !strcmp(name, "rnr") ||
	    !strcmp(name, "timeout"))
		mistake_between_rc(name);
	else if (!strcmp(name, "qkey") || !strcmp(name, "receive") || !strcmp(name, "grh"))
		mistake_with_ud(name);
	else if (!strcmp(name, "event") || !strcmp(name, "ack"))
		mistake_of_events(name);
	return 0;
}
