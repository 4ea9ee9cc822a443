/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * RDMA WRITEs of 8 bytes into device memory of another process of this host, each posted and polled for alone, for
 * callgrind: what post_one() and poll_one() take, by bench/trace_cost. Prints its process ID and waits for a line
 * before it posts those that count.
 */
#include <infiniband/verbs.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "pair.h"

#define WARM	200
#define COUNT	10000

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_qp *qp;
static struct ibv_mr *mr;
static _Alignas(64) char source[64];

static void open_device(struct end *end)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_qp_init_attr attr = { .qp_type = IBV_QPT_RC, .cap = { 16, 1, 1, 1, 0 } };

	expect(list && list[0], "a device");
	context = ibv_open_device(list[0]);
	expect(context && (pd = ibv_alloc_pd(context)), "ibv_open_device");
	cq = ibv_create_cq(context, 64, NULL, NULL, 0);
	expect(cq != NULL, "ibv_create_cq");
	attr.send_cq = attr.recv_cq = cq;
	qp = ibv_create_qp(pd, &attr);
	expect(qp && !ibv_query_gid(context, 1, 1, &end->gid), "ibv_create_qp");
	end->qpn = qp->qp_num;
}

static void serve(int fd)
{
	struct ibv_alloc_dm_attr attr = { .length = 4096 };
	struct end own, peer;
	struct ibv_dm *dm;
	char byte;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	open_device(&own);
	dm = ibv_alloc_dm(context, &attr);
	expect(dm != NULL, "ibv_alloc_dm");
	mr = ibv_reg_dm_mr(pd, dm, 0, 4096, IBV_ACCESS_ZERO_BASED | IBV_ACCESS_LOCAL_WRITE |
			   IBV_ACCESS_REMOTE_WRITE);
	expect(mr != NULL, "ibv_reg_dm_mr");
	own.rkey = mr->rkey;
	connect_to(qp, fd, &own, &peer);
	while (read(fd, &byte, 1) > 0)
		;
	_exit(0);
}

/* callgrind counts by these names. */
__attribute__((noinline)) void post_one(struct ibv_send_wr *wr);
__attribute__((noinline)) int poll_one(struct ibv_wc *wc);

void post_one(struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;

	expect(!ibv_post_send(qp, wr, &bad), "ibv_post_send");
}

int poll_one(struct ibv_wc *wc)
{
	return ibv_poll_cq(cq, 1, wc);
}

/* The names that are counted are called by the last of the two alone. */
static unsigned warm(struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;
	unsigned polls = 0;
	struct ibv_wc wc;

	for (unsigned n = 0; n < WARM; n++) {
		expect(!ibv_post_send(qp, wr, &bad), "ibv_post_send");
		while (!ibv_poll_cq(cq, 1, &wc))
			polls++;
		expect(wc.status == IBV_WC_SUCCESS, "a completion");
	}
	return polls;
}

static unsigned measure(struct ibv_send_wr *wr)
{
	unsigned polls = 0;
	struct ibv_wc wc;

	for (unsigned n = 0; n < COUNT; n++) {
		post_one(wr);
		do
			polls++;
		while (!poll_one(&wc));
		expect(wc.status == IBV_WC_SUCCESS, "a completion");
	}
	return polls;
}

int main(void)
{
	struct ibv_sge sge = { (uintptr_t)source, 8, 0 };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
				  .send_flags = IBV_SEND_SIGNALED };
	struct end own, peer;
	char line[16];
	int fds[2];

	expect(!socketpair(AF_UNIX, SOCK_STREAM, 0, fds), "socketpair");
	if (!fork())
		serve(fds[1]);
	open_device(&own);
	mr = ibv_reg_mr(pd, source, sizeof(source), IBV_ACCESS_LOCAL_WRITE);
	expect(mr != NULL, "ibv_reg_mr");
	sge.lkey = mr->lkey;
	connect_to(qp, fds[0], &own, &peer);
	wr.wr.rdma.rkey = peer.rkey;
	warm(&wr);
	printf("%d\n", (int)getpid());
	fflush(stdout);
	expect(fgets(line, sizeof(line), stdin) != NULL, "a line on the standard input");
	printf("%u WRITEs, %u polls\n", COUNT, measure(&wr));
	return 0;
}
