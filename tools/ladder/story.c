/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ladder-story NAME: one of the small programs that `verbatim ladder --demo` shows. Two processes,
 * server and client, that tell each other over a socket pair what other programs send over TCP. Public
 * verbs alone. Texts: story.def.
 *
 * Status 0: the story went as it is told; else a line says what did not.
 */
#include <errno.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { BUFFER = 4096, MESSAGE = 2500, CLIENT_PSN = 100, SERVER_PSN = 900, QKEY = 0x11111111, LIMIT_S = 20 };

/* What a side tells the other. */
struct card {
	uint32_t qpn, psn, rkey;
	uint64_t address;
	union ibv_gid gid;
};

struct side {
	const char *name;
	bool is_server;
	int fd;				/* to the other side */
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	struct card us, them;
	uint64_t buffer[BUFFER / 8];
};

static void story_fail(const struct side *side, const char *what, const char *why)
{
	fprintf(stderr, "ladder-story: %s: %s: %s\n", side->name, what, why);
	exit(1);
}

static void must(const struct side *side, int err, const char *what)
{
	if (err)
		story_fail(side, what, strerror(err));
}

static void *need(const struct side *side, void *pointer, const char *what)
{
	must(side, pointer ? 0 : errno, what);
	return pointer;
}

/* ---- the other side ---- */

static void story_tell(const struct side *side, const void *data, size_t bytes)
{
	if (write(side->fd, data, bytes) != (ssize_t)bytes)
		story_fail(side, "write to the other side", strerror(errno));
}

static void story_hear(const struct side *side, void *data, size_t bytes)
{
	if (recv(side->fd, data, bytes, MSG_WAITALL) != (ssize_t)bytes)
		story_fail(side, "wait for the other side", "it ended");
}

/* Both come to this point before either goes on. */
static void story_meet(const struct side *side)
{
	char word = 'm';

	story_tell(side, &word, 1);
	story_hear(side, &word, 1);
}

static void story_pause(unsigned us)
{
	nanosleep(&(struct timespec){ .tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000L }, NULL);
}

/* ---- queue pairs ---- */

static void story_open(struct side *side, enum ibv_qp_type type)
{
	struct ibv_device **list = need(side, ibv_get_device_list(NULL), "ibv_get_device_list");
	struct ibv_qp_init_attr attr = { .qp_type = type, .sq_sig_all = 1,
		.cap = { .max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 1, .max_recv_sge = 1 } };

	must(side, *list ? 0 : ENODEV, "the first device");
	side->context = need(side, ibv_open_device(*list), "ibv_open_device");
	side->pd = need(side, ibv_alloc_pd(side->context), "ibv_alloc_pd");
	side->mr = need(side, ibv_reg_mr(side->pd, side->buffer, BUFFER, IBV_ACCESS_LOCAL_WRITE |
					 IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
					 IBV_ACCESS_REMOTE_ATOMIC), "ibv_reg_mr");
	side->cq = need(side, ibv_create_cq(side->context, 16, NULL, NULL, 0), "ibv_create_cq");
	attr.send_cq = attr.recv_cq = side->cq;
	side->qp = need(side, ibv_create_qp(side->pd, &attr), "ibv_create_qp");
	side->us = (struct card){ .qpn = side->qp->qp_num, .psn = side->is_server ? SERVER_PSN : CLIENT_PSN,
				  .rkey = side->mr->rkey, .address = (uintptr_t)side->buffer };
	must(side, ibv_query_gid(side->context, 1, 1, &side->us.gid), "ibv_query_gid of index 1");
	story_tell(side, &side->us, sizeof(side->us));
	story_hear(side, &side->them, sizeof(side->them));
}

static void story_connect(struct side *side)
{
	struct ibv_qp_attr init = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags =
		IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC };
	struct ibv_qp_attr rtr = { .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024,
		.dest_qp_num = side->them.qpn, .rq_psn = side->them.psn, .max_dest_rd_atomic = 4,
		.min_rnr_timer = 14, .ah_attr = {
			.port_num = 1, .is_global = 1,
			.grh = { .dgid = side->them.gid, .sgid_index = 1, .hop_limit = 64 } } };
	struct ibv_qp_attr rts = { .qp_state = IBV_QPS_RTS, .sq_psn = side->us.psn, .timeout = 14, .retry_cnt = 7,
		.rnr_retry = 7, .max_rd_atomic = 4 };

	must(side, ibv_modify_qp(side->qp, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				 IBV_QP_ACCESS_FLAGS), "ibv_modify_qp to INIT");
	must(side, ibv_modify_qp(side->qp, &rtr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				 IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
	     "ibv_modify_qp to RTR");
	must(side, ibv_modify_qp(side->qp, &rts, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
				 IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC), "ibv_modify_qp to RTS");
}

static void story_receive(struct side *side, uint64_t id)
{
	struct ibv_sge sge = { (uintptr_t)side->buffer, BUFFER, side->mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = id, .sg_list = &sge, .num_sge = 1 }, *bad;

	must(side, ibv_post_recv(side->qp, &wr, &bad), "ibv_post_recv");
}

static void story_post(struct side *side, uint64_t id, enum ibv_wr_opcode opcode, uint32_t bytes, uint32_t rkey)
{
	struct ibv_sge sge = { (uintptr_t)side->buffer, bytes, side->mr->lkey };
	struct ibv_send_wr wr = { .wr_id = id, .opcode = opcode, .sg_list = &sge, .num_sge = 1,
		.imm_data = htobe32(0x2a), .wr.rdma = { side->them.address, rkey } }, *bad;

	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || opcode == IBV_WR_ATOMIC_CMP_AND_SWP) {
		wr.wr.atomic.remote_addr = side->them.address;
		wr.wr.atomic.rkey = rkey;
		wr.wr.atomic.compare_add = opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ? 5 : 45;
		wr.wr.atomic.swap = 1000;
	}
	must(side, ibv_post_send(side->qp, &wr, &bad), "ibv_post_send");
}

static void story_expect(struct side *side, uint64_t id, enum ibv_wc_status status)
{
	struct ibv_wc wc;
	int done;

	while (!(done = ibv_poll_cq(side->cq, 1, &wc)))
		story_pause(20);
	must(side, done < 0 ? EIO : 0, "ibv_poll_cq");
	if (wc.status != status || wc.wr_id != id)
		story_fail(side, "completion", ibv_wc_status_str(wc.status));
}

static void story_begin(struct side *side)
{
	story_open(side, IBV_QPT_RC);
	story_connect(side);
	strcpy((char *)side->buffer, side->is_server ? "the server's memory" : "hello from the client");
}

/* ---- the stories ---- */

static void tell_send(struct side *side)
{
	story_begin(side);
	if (side->is_server)
		story_receive(side, 1);
	story_meet(side);
	if (!side->is_server)
		story_post(side, 10, IBV_WR_SEND, MESSAGE, 0);
	story_expect(side, side->is_server ? 1 : 10, IBV_WC_SUCCESS);
}

static void tell_write(struct side *side)
{
	story_begin(side);
	if (side->is_server)
		story_receive(side, 1);
	story_meet(side);
	if (side->is_server) {
		story_expect(side, 1, IBV_WC_SUCCESS);
		return;
	}
	story_post(side, 10, IBV_WR_RDMA_WRITE, MESSAGE, side->them.rkey);
	story_expect(side, 10, IBV_WC_SUCCESS);
	story_post(side, 11, IBV_WR_RDMA_WRITE_WITH_IMM, 16, side->them.rkey);
	story_expect(side, 11, IBV_WC_SUCCESS);
}

static void tell_read(struct side *side)
{
	story_begin(side);
	story_meet(side);
	if (side->is_server)
		return;
	story_post(side, 10, IBV_WR_RDMA_READ, MESSAGE, side->them.rkey);
	story_expect(side, 10, IBV_WC_SUCCESS);
	story_post(side, 11, IBV_WR_RDMA_READ, 64, side->them.rkey);
	story_expect(side, 11, IBV_WC_SUCCESS);
}

static void tell_atomic(struct side *side)
{
	story_begin(side);
	if (side->is_server)
		side->buffer[0] = 40;
	story_meet(side);
	if (side->is_server)
		return;
	story_post(side, 10, IBV_WR_ATOMIC_FETCH_AND_ADD, 8, side->them.rkey);
	story_expect(side, 10, IBV_WC_SUCCESS);
	story_post(side, 11, IBV_WR_ATOMIC_CMP_AND_SWP, 8, side->them.rkey);
	story_expect(side, 11, IBV_WC_SUCCESS);
	if (side->buffer[0] != 45)
		story_fail(side, "compare-and-swap", "memory did not hold 45");
}

static void tell_lost_packet(struct side *side)
{
	story_begin(side);
	for (uint64_t id = 1; side->is_server && id <= 4; id++)
		story_receive(side, id);
	story_meet(side);
	for (uint64_t id = 10; !side->is_server && id < 14; id++)
		story_post(side, id, IBV_WR_SEND, 64, 0);
	for (uint64_t id = 0; id < 4; id++)
		story_expect(side, (side->is_server ? 1 : 10) + id, IBV_WC_SUCCESS);
}

static void tell_lost_ack(struct side *side)
{
	story_begin(side);
	if (side->is_server)
		story_receive(side, 1);
	story_meet(side);
	if (!side->is_server)
		story_post(side, 10, IBV_WR_SEND, 64, 0);
	story_expect(side, side->is_server ? 1 : 10, IBV_WC_SUCCESS);
}

static void tell_rnr(struct side *side)
{
	story_begin(side);
	story_meet(side);
	if (side->is_server) {
		story_pause(5000);
		story_receive(side, 1);
	} else {
		story_post(side, 10, IBV_WR_SEND, 64, 0);
	}
	story_expect(side, side->is_server ? 1 : 10, IBV_WC_SUCCESS);
}

static void tell_access_error(struct side *side)
{
	story_begin(side);
	story_meet(side);
	if (side->is_server)
		return;
	story_post(side, 10, IBV_WR_RDMA_WRITE, 64, side->them.rkey ^ 0x5a00);
	story_post(side, 11, IBV_WR_RDMA_WRITE, 64, side->them.rkey);
	story_expect(side, 10, IBV_WC_REM_ACCESS_ERR);
	story_expect(side, 11, IBV_WC_WR_FLUSH_ERR);
}

static void story_to_ready(struct side *side)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY };

	must(side, ibv_modify_qp(side->qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY),
	     "ibv_modify_qp to INIT");
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTR };
	must(side, ibv_modify_qp(side->qp, &attr, IBV_QP_STATE), "ibv_modify_qp to RTR");
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS, .sq_psn = side->us.psn };
	must(side, ibv_modify_qp(side->qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN), "ibv_modify_qp to RTS");
}

static void tell_datagram(struct side *side)
{
	struct ibv_ah_attr route = { .port_num = 1, .is_global = 1, .grh = { .sgid_index = 1, .hop_limit = 64 } };
	struct ibv_ah *ah;

	story_open(side, IBV_QPT_UD);
	story_to_ready(side);
	for (uint64_t id = 1; side->is_server && id <= 2; id++)
		story_receive(side, id);
	story_meet(side);
	if (side->is_server) {
		story_expect(side, 1, IBV_WC_SUCCESS);
		story_expect(side, 2, IBV_WC_SUCCESS);
		return;
	}
	route.grh.dgid = side->them.gid;
	ah = need(side, ibv_create_ah(side->pd, &route), "ibv_create_ah");
	for (uint64_t id = 10; id < 13; id++) {
		struct ibv_sge sge = { (uintptr_t)side->buffer, 64, side->mr->lkey };
		struct ibv_send_wr wr = { .wr_id = id, .opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1,
			.wr.ud = { ah, side->them.qpn, id == 11 ? 0xbad : QKEY } }, *bad;

		must(side, ibv_post_send(side->qp, &wr, &bad), "ibv_post_send");
		story_expect(side, id, IBV_WC_SUCCESS);
		story_pause(500);
	}
}

/* ---- rdma_cm ---- */

static void cm_check(const struct side *side, int result, const char *what)
{
	must(side, result ? errno : 0, what);
}

static struct rdma_cm_id *story_endpoint(struct side *side)
{
	struct rdma_addrinfo hints = { .ai_port_space = RDMA_PS_TCP,
				       .ai_flags = side->is_server ? RAI_PASSIVE : 0 };
	struct ibv_qp_init_attr attr = { .sq_sig_all = 1, .qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 } };
	struct rdma_addrinfo *info;
	struct rdma_cm_id *id;

	cm_check(side, rdma_getaddrinfo("127.0.0.1", "18517", &hints, &info), "rdma_getaddrinfo");
	cm_check(side, rdma_create_ep(&id, info, NULL, &attr), "rdma_create_ep");
	rdma_freeaddrinfo(info);
	return id;
}

static void cm_expect(struct side *side, struct ibv_wc *wc, int got)
{
	must(side, got == 1 ? 0 : EIO, "a completion");
	if (wc->status)
		story_fail(side, "completion", ibv_wc_status_str(wc->status));
}

static void cm_serve(struct side *side)
{
	struct rdma_cm_id *listener = story_endpoint(side), *id;
	struct ibv_mr *mr;
	struct ibv_wc wc;

	cm_check(side, rdma_listen(listener, 1), "rdma_listen");
	story_meet(side);
	cm_check(side, rdma_get_request(listener, &id), "rdma_get_request");
	mr = need(side, rdma_reg_msgs(id, side->buffer, BUFFER), "rdma_reg_msgs");
	cm_check(side, rdma_post_recv(id, NULL, side->buffer, BUFFER, mr), "rdma_post_recv");
	cm_check(side, rdma_accept(id, NULL), "rdma_accept");
	cm_expect(side, &wc, rdma_get_recv_comp(id, &wc));
	story_meet(side);
	cm_check(side, rdma_disconnect(id), "rdma_disconnect");
	rdma_dereg_mr(mr);
	rdma_destroy_ep(id);
	rdma_destroy_ep(listener);
}

static void cm_call(struct side *side)
{
	struct rdma_cm_id *id;
	struct ibv_mr *mr;
	struct ibv_wc wc;

	story_meet(side);
	id = story_endpoint(side);
	mr = need(side, rdma_reg_msgs(id, side->buffer, BUFFER), "rdma_reg_msgs");
	cm_check(side, rdma_connect(id, NULL), "rdma_connect");
	cm_check(side, rdma_post_send(id, NULL, side->buffer, 64, mr, 0), "rdma_post_send");
	cm_expect(side, &wc, rdma_get_send_comp(id, &wc));
	cm_check(side, rdma_disconnect(id), "rdma_disconnect");
	story_meet(side);
	rdma_dereg_mr(mr);
	rdma_destroy_ep(id);
}

static void tell_connection(struct side *side)
{
	side->is_server ? cm_serve(side) : cm_call(side);
}

/* ---- main ---- */

static const struct story {
	const char *name, *client_fault, *server_fault;
	void (*tell)(struct side *side);
} stories[] = {
#define STORY(id, name, title, client_fault, server_fault, lost, again, kind, text) \
	{ name, client_fault, server_fault, tell_##id },
#include "ladder/story.def"
#undef STORY
};

/* Faults are read when the device is opened; nothing has been opened yet. */
static void story_run(const struct story *story, struct side *side, const char *fault)
{
	alarm(LIMIT_S);
	if (*fault)
		setenv("VERBATIM_FAULT", fault, 1);
	story->tell(side);
	story_meet(side);
	/* Late packets are part of the story: answers to duplicates, for one. */
	story_pause(20000);
	if (side->qp)
		ibv_destroy_qp(side->qp);
}

static int story_both(const struct story *story)
{
	struct side server = { .name = "server", .is_server = true }, client = { .name = "client" };
	int fds[2], status = 0;
	pid_t child;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds))
		story_fail(&client, "socketpair", strerror(errno));
	child = fork();
	if (child < 0)
		story_fail(&client, "fork", strerror(errno));
	close(fds[child != 0]);
	server.fd = client.fd = fds[child == 0];
	if (!child) {
		story_run(story, &server, story->server_fault);
		return 0;
	}
	story_run(story, &client, story->client_fault);
	if (waitpid(child, &status, 0) != child || status)
		story_fail(&client, "the server", "failed");
	return 0;
}

int main(int argc, char **argv)
{
	for (size_t i = 0; argc == 2 && i < sizeof(stories) / sizeof(*stories); i++)
		if (!strcmp(argv[1], stories[i].name))
			return story_both(&stories[i]);
	fprintf(stderr, "ladder-story: which story? 'verbatim ladder --demo' runs them all\n");
	return 2;
}
