/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The calls of libibverbs, on a QP that is connected to another one: in one round of this process, in the next of
 * a child of ours, which is reached through memory and answers until its socket is closed.
 */
#include "storm.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define DEPTH		64
#define BYTES		256
#define MARK		4711u
#define WAIT_NS		5000000000ull

struct ibv_context *context;

static struct ibv_pd *pd;
static struct ibv_mr *mr;
static struct ibv_comp_channel *channel, *idle_channel;
static struct ibv_cq *cq, *idle_cq;
static struct ibv_cq_ex *cq_ex;
static struct ibv_srq *srq;
static struct ibv_qp *here, *there;
static pid_t peer_pid;
static int peer_fd = -1;

/* What the two ends tell each other. */
static struct place {
	uint32_t qpn, key;
	uint64_t address;
} place;
static union ibv_gid gid;
static uint8_t memory[2 * 4096] __attribute__((aligned(4096)));
static uint8_t more[4096] __attribute__((aligned(4096)));

/* What steps make, until another step or round takes it. */
static struct ibv_pd *new_pd;
static struct ibv_mr *new_mr;
static struct ibv_mw *new_mw;
static struct ibv_ah *new_ah;
static struct ibv_qp *new_qp;
static struct ibv_cq *new_cq;
static struct ibv_srq *new_srq;
static struct ibv_comp_channel *new_channel;
static struct ibv_context *new_context;

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static struct ibv_qp *make_qp(struct ibv_srq *receives)
{
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = IBV_QPT_RC, .send_cq = cq, .recv_cq = cq, .srq = receives,
		.cap = { .max_send_wr = DEPTH, .max_recv_wr = DEPTH, .max_send_sge = 1,
			 .max_recv_sge = 1, .max_inline_data = 64 },
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = pd, .send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE,
	};

	return ibv_create_qp_ex(context, &attr);
}

static int to_rts(struct ibv_qp *qp, uint32_t peer)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT, .port_num = 1,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
				   IBV_ACCESS_REMOTE_ATOMIC,
		.path_mtu = IBV_MTU_1024, .dest_qp_num = peer, .max_dest_rd_atomic = 4,
		.max_rd_atomic = 4, .min_rnr_timer = 1, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7,
		.ah_attr = { .is_global = 1, .port_num = 1, .grh = { .dgid = gid, .hop_limit = 64 } },
	};

	if (ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
			  IBV_QP_ACCESS_FLAGS))
		return -1;
	attr.qp_state = IBV_QPS_RTR;
	if (ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
			  IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER))
		return -1;
	attr.qp_state = IBV_QPS_RTS;
	return ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
			     IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

static struct ibv_context *open_first(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *opened = list && *list ? ibv_open_device(*list) : NULL;

	if (list)
		ibv_free_device_list(list);
	return opened;
}

static void open_objects(void)
{
	struct ibv_cq_init_attr_ex extended = { .cqe = 16 };
	struct ibv_srq_init_attr shared = { .attr = { .max_wr = DEPTH, .max_sge = 1 } };

	NEED(context = open_first());
	for (int i = 0; i < 8 && !*(uint32_t *)(gid.raw + 12); i++)
		NEED(!ibv_query_gid(context, 1, i, &gid));
	NEED(pd = ibv_alloc_pd(context));
	NEED(mr = ibv_reg_mr(pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE |
			     IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
			     IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND));
	NEED(channel = ibv_create_comp_channel(context));
	NEED(idle_channel = ibv_create_comp_channel(context));
	NEED(cq = ibv_create_cq(context, 8 * DEPTH, NULL, channel, 0));
	NEED(idle_cq = ibv_create_cq(context, 1, NULL, idle_channel, 0));
	NEED(cq_ex = ibv_create_cq_ex(context, &extended));
	NEED(srq = ibv_create_srq(pd, &shared));
}

static struct place place_of(const struct ibv_qp *qp)
{
	return (struct place){ .qpn = qp->qp_num, .key = mr->rkey,
			       .address = (uintptr_t)memory + 4096 };
}

/* ---- the other end ---- */

static int receive(void)
{
	struct ibv_sge sge = { .addr = (uintptr_t)memory + 4096, .length = BYTES,
			       .lkey = mr->lkey };
	struct ibv_recv_wr *bad, wr = { .sg_list = &sge, .num_sge = 1 };

	return there ? ibv_post_recv(there, &wr, &bad) : 0;
}

static void swap(const struct ibv_qp *qp)
{
	struct place ours = place_of(qp);

	NEED(write(peer_fd, &ours, sizeof(ours)) == sizeof(ours));
	NEED(read(peer_fd, &place, sizeof(place)) == sizeof(place));
}

static void __attribute__((noreturn)) be_peer(void)
{
	struct ibv_wc wc[8];
	char byte;

	open_objects();
	NEED(there = make_qp(NULL));
	swap(there);
	NEED(!to_rts(there, place.qpn));
	NEED(write(peer_fd, "", 1) == 1);
	while (recv(peer_fd, &byte, 1, MSG_DONTWAIT) < 0)
		for (int i = 0; i < 100; i++) {
			receive();
			ibv_poll_cq(cq, 8, wc);
		}
	_exit(0);
}

/* Before we open anything. */
static void start_peer(void)
{
	int ends[2];

	NEED(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends));
	peer_pid = fork();
	peer_fd = ends[peer_pid != 0];
	close(ends[peer_pid == 0]);
	if (!peer_pid)
		be_peer();
}

void verbs_open(void)
{
	static unsigned round;
	char ready;

	there = NULL;
	if (round++ % 2)
		start_peer();
	open_objects();
	NEED(here = make_qp(NULL));
	if (peer_fd >= 0) {
		swap(here);
		NEED(!to_rts(here, place.qpn));
		NEED(read(peer_fd, &ready, 1) == 1);
		return;
	}
	NEED(there = make_qp(NULL));
	place = place_of(there);
	NEED(!to_rts(here, there->qp_num));
	NEED(!to_rts(there, here->qp_num));
}

/* ---- posting and polling ---- */

static int post(enum ibv_wr_opcode opcode, uint64_t id, unsigned flags)
{
	struct ibv_sge sge = { .addr = (uintptr_t)memory, .lkey = mr->lkey,
			       .length = opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ? 8 : BYTES };
	struct ibv_send_wr *bad, wr = { .wr_id = id, .sg_list = &sge, .num_sge = 1,
					.opcode = opcode, .send_flags = flags };

	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = place.address;
		wr.wr.atomic.rkey = place.key;
		wr.wr.atomic.compare_add = 1;
	} else {
		wr.wr.rdma.remote_addr = place.address;
		wr.wr.rdma.rkey = place.key;
	}
	return ibv_post_send(here, &wr, &bad);
}

static void poll_some(void)
{
	struct ibv_wc wc[8];

	ibv_poll_cq(cq, 8, wc);
}

static void step_send(void)
{
	receive();
	post(IBV_WR_SEND, 0, IBV_SEND_SIGNALED);
	poll_some();
}

static void step_write(void)
{
	post(IBV_WR_RDMA_WRITE, 0, IBV_SEND_SIGNALED);
	poll_some();
}

static void step_read(void)
{
	post(IBV_WR_RDMA_READ, 0, IBV_SEND_SIGNALED);
	poll_some();
}

static void step_atomic(void)
{
	post(IBV_WR_ATOMIC_FETCH_AND_ADD, 0, IBV_SEND_SIGNALED);
	poll_some();
}

static void step_receive(void)
{
	receive();
}

static void step_srq_receive(void)
{
	struct ibv_sge sge = { .addr = (uintptr_t)memory, .length = BYTES, .lkey = mr->lkey };
	struct ibv_recv_wr *bad, wr = { .sg_list = &sge, .num_sge = 1 };

	ibv_post_srq_recv(srq, &wr, &bad);
}

static void step_poll(void)
{
	poll_some();
}

/* A handler cannot leave between start and complete: it is put off until then. */
static void step_builder(void)
{
	struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(here);

	ibv_wr_start(qp);
	qp->wr_id = 0;
	qp->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_rdma_write(qp, place.key, place.address);
	ibv_wr_set_sge(qp, mr->lkey, (uintptr_t)memory, BYTES);
	if (storm_random() % 4)
		ibv_wr_complete(qp);
	else
		ibv_wr_abort(qp);
	poll_some();
}

static void step_extended_poll(void)
{
	struct ibv_poll_cq_attr attr = { 0 };

	if (!ibv_start_poll(cq_ex, &attr)) {
		ibv_next_poll(cq_ex);
		ibv_end_poll(cq_ex);
	}
}

static void step_events(void)
{
	struct ibv_cq *of;
	void *user;

	ibv_req_notify_cq(cq, 0);
	post(IBV_WR_RDMA_WRITE, 0, IBV_SEND_SIGNALED);
	if (!ibv_get_cq_event(channel, &of, &user))
		ibv_ack_cq_events(of, 1);
	poll_some();
}

static void step_wait_for_event(void)
{
	struct ibv_cq *of;
	void *user;

	ibv_req_notify_cq(idle_cq, 0);
	ibv_get_cq_event(idle_channel, &of, &user);
}

static void step_wait_for_async_event(void)
{
	struct ibv_async_event event;

	if (!ibv_get_async_event(context, &event))
		ibv_ack_async_event(&event);
}

/* ---- objects ---- */

static void step_pd(void)
{
	if (new_pd)
		ibv_dealloc_pd(TAKE(new_pd));
	new_pd = ibv_alloc_pd(context);
}

static void step_mr(void)
{
	if (new_mr)
		ibv_dereg_mr(TAKE(new_mr));
	new_mr = ibv_reg_mr(pd, more, sizeof(more), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	if (new_mr)
		ibv_rereg_mr(new_mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
			     IBV_ACCESS_LOCAL_WRITE);
}

static void step_mw(void)
{
	if (new_mw)
		ibv_dealloc_mw(TAKE(new_mw));
	new_mw = ibv_alloc_mw(pd, IBV_MW_TYPE_2);
}

static void step_ah(void)
{
	struct ibv_ah_attr attr = { .is_global = 1, .port_num = 1,
				    .grh = { .dgid = gid, .hop_limit = 1 } };

	if (new_ah)
		ibv_destroy_ah(TAKE(new_ah));
	new_ah = ibv_create_ah(pd, &attr);
}

static void step_qp(void)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	if (new_qp)
		ibv_destroy_qp(TAKE(new_qp));
	new_qp = make_qp(storm_random() % 2 ? srq : NULL);
	if (!new_qp || to_rts(new_qp, new_qp->qp_num))
		return;
	ibv_query_qp(new_qp, &attr, IBV_QP_STATE, &init);
	attr.qp_state = IBV_QPS_ERR;
	ibv_modify_qp(new_qp, &attr, IBV_QP_STATE);
}

static void step_cq(void)
{
	struct ibv_modify_cq_attr moderate = { IBV_CQ_ATTR_MODERATE, { 4, 100 } };

	if (new_cq)
		ibv_destroy_cq(TAKE(new_cq));
	new_cq = ibv_create_cq(context, 16, NULL, idle_channel, 0);
	if (!new_cq)
		return;
	ibv_resize_cq(new_cq, 32);
	ibv_modify_cq(new_cq, &moderate);
}

static void step_srq(void)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = 16, .max_sge = 1 } };
	struct ibv_srq_attr attr = { .srq_limit = 4 };

	if (new_srq)
		ibv_destroy_srq(TAKE(new_srq));
	new_srq = ibv_create_srq(pd, &init);
	if (!new_srq)
		return;
	ibv_modify_srq(new_srq, &attr, IBV_SRQ_LIMIT);
	ibv_query_srq(new_srq, &attr);
}

static void step_channel(void)
{
	if (new_channel)
		ibv_destroy_comp_channel(TAKE(new_channel));
	new_channel = ibv_create_comp_channel(context);
}

static void step_query(void)
{
	struct ibv_device_attr device;
	struct ibv_port_attr port;
	union ibv_gid entry;

	ibv_query_device(context, &device);
	ibv_query_port(context, 1, &port);
	ibv_query_gid(context, 1, 0, &entry);
}

static void step_open(void)
{
	if (new_context)
		ibv_close_device(TAKE(new_context));
	new_context = open_first();
}

/* The C library's fork() holds locks of its own, around our handlers of it and in between. */
static void step_fork(void)
{
	pid_t child;

	storm_stays = true;
	child = fork();
	if (!child)
		_exit(0);
	storm_stays = false;
	for (int i = 0; i < 100; i++)
		step_query();
	while (child > 0 && waitpid(-1, NULL, WNOHANG) > 0)
		;
}

const struct step verbs_steps[] = {
	{ "ibv_post_send of a SEND", step_send }, { "ibv_post_send of a WRITE", step_write },
	{ "ibv_post_send of a READ", step_read }, { "ibv_post_send of an atomic", step_atomic },
	{ "ibv_post_recv", step_receive }, { "ibv_post_srq_recv", step_srq_receive },
	{ "ibv_poll_cq", step_poll }, { "ibv_wr_*", step_builder },
	{ "ibv_start_poll", step_extended_poll }, { "ibv_get_cq_event", step_events },
	{ "ibv_get_cq_event, nothing comes", step_wait_for_event },
	{ "ibv_get_async_event", step_wait_for_async_event }, { "PDs", step_pd },
	{ "memory regions", step_mr }, { "memory windows", step_mw }, { "address handles", step_ah },
	{ "QPs", step_qp }, { "CQs", step_cq }, { "SRQs", step_srq },
	{ "completion channels", step_channel }, { "queries", step_query },
	{ "ibv_open_device", step_open }, { "fork", step_fork }, { NULL, NULL },
};

/* ---- afterwards ---- */

/* All that was posted ends, and a message behind it goes through. */
void verbs_check(void)
{
	uint64_t end_ns = now_ns() + WAIT_NS;
	bool posted = false, sent = false;
	struct ibv_wc wc;

	while (!sent && now_ns() < end_ns) {
		receive();
		if (!posted)
			posted = !post(IBV_WR_SEND, MARK, IBV_SEND_SIGNALED);
		while (ibv_poll_cq(cq, 1, &wc) > 0) {
			if (wc.status != IBV_WC_SUCCESS && wc.status != IBV_WC_WR_FLUSH_ERR)
				NEED(!"a completion with an error");
			if (wc.wr_id == MARK)
				sent = wc.status == IBV_WC_SUCCESS;
		}
	}
	NEED(posted);
	NEED(sent);
	/* Once more each of the locks that a step may have left. */
	step_query();
	step_builder();
	step_extended_poll();
	step_pd();
	step_mr();
	step_mw();
	step_ah();
	step_qp();
	step_cq();
	step_srq();
	step_channel();
	step_open();
	NEED(new_pd && new_mr && new_mw && new_ah && new_qp && new_cq && new_srq && new_channel &&
	     new_context);
}

void verbs_close(void)
{
	NEED(!ibv_close_device(TAKE(new_context)));
	NEED(!ibv_dereg_mr(TAKE(new_mr)));
	NEED(!ibv_dealloc_mw(TAKE(new_mw)));
	NEED(!ibv_destroy_ah(TAKE(new_ah)));
	NEED(!ibv_destroy_qp(TAKE(new_qp)));
	NEED(!ibv_destroy_cq(TAKE(new_cq)));
	NEED(!ibv_destroy_srq(TAKE(new_srq)));
	NEED(!ibv_destroy_comp_channel(TAKE(new_channel)));
	NEED(!ibv_dealloc_pd(TAKE(new_pd)));
	NEED(!ibv_destroy_qp(here));
	NEED(!there || !ibv_destroy_qp(there));
	if (peer_fd >= 0) {
		close(peer_fd);
		peer_fd = -1;
		waitpid(peer_pid, NULL, 0);
	}
	/* The device takes what is left, with what lost its pointer when a handler left. */
	NEED(!ibv_close_device(context));
}
