// SPDX-License-Identifier: BSD-2-Clause
/*
 * What connected, idle queue pairs cost: two processes connect N RC QPs, send one message over each
 * in both directions, then sleep. Prints the CPU time spent asleep, how often a thread woke up, and
 * the resident memory that one QP added, of this process alone. Plain verbs.
 * Usage: idle_qps [QPS [SECONDS [GIDINDEX]]]
 */
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "process_cost.h"

static int count = 1000, seconds = 5, gid_index = 1, sock;
static bool parent;

static void must(const char *what, int failed)
{
	if (failed) {
		fprintf(stderr, "idle_qps: %s: %m\n", what);
		exit(1);
	}
}

static void exchange(const void *mine, void *theirs, size_t len)
{
	size_t got = 0;

	must("send", send(sock, mine, len, MSG_NOSIGNAL) != (ssize_t)len);
	while (got < len) {
		ssize_t n = recv(sock, (char *)theirs + got, len - got, 0);

		must("recv from the other process", n <= 0);
		got += n;
	}
}

/* How often threads of this process have left the processor, so were woken up. */
static long switches(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return usage.ru_nvcsw + usage.ru_nivcsw;
}

static void connect_qp(struct ibv_qp *qp, uint32_t peer, const union ibv_gid *gid)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT, .port_num = 1, .path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer, .max_dest_rd_atomic = 1, .max_rd_atomic = 1,
		.min_rnr_timer = 12, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7,
		.ah_attr = { .is_global = 1, .port_num = 1 },
	};

	attr.ah_attr.grh.dgid = *gid;
	attr.ah_attr.grh.sgid_index = gid_index;
	attr.ah_attr.grh.hop_limit = 64;
	must("INIT", ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				   IBV_QP_ACCESS_FLAGS));
	attr.qp_state = IBV_QPS_RTR;
	must("RTR", ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
				  IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				  IBV_QP_MIN_RNR_TIMER));
	attr.qp_state = IBV_QPS_RTS;
	must("RTS", ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT |
				  IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC));
}

/* One message of eight bytes over each QP, in both directions. */
static void use_all(struct ibv_qp **qp, struct ibv_cq *cq, struct ibv_mr *mr)
{
	struct ibv_sge sge = { .addr = (uintptr_t)mr->addr, .length = 8, .lkey = mr->lkey };
	struct ibv_recv_wr *bad_recv, recv_wr = { .sg_list = &sge, .num_sge = 1 };
	struct ibv_send_wr *bad_send, send_wr = { .sg_list = &sge, .num_sge = 1,
		.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED };
	char byte = 0;

	for (int i = 0; i < count; i++)
		must("ibv_post_recv", ibv_post_recv(qp[i], &recv_wr, &bad_recv));
	exchange(&byte, &byte, 1);
	for (int i = 0, done = 0; i < count || done < 2 * count;) {
		struct ibv_wc wc;

		if (i < count)
			must("ibv_post_send", ibv_post_send(qp[i++], &send_wr, &bad_send));
		while (ibv_poll_cq(cq, 1, &wc) > 0) {
			must(ibv_wc_status_str(wc.status), wc.status != IBV_WC_SUCCESS);
			done++;
		}
	}
	exchange(&byte, &byte, 1);
}

static void report(long before, long after, struct ibv_qp **qp, struct ibv_cq *cq,
		   struct ibv_mr *mr)
{
	double begin;
	long woken;

	use_all(qp, cq, mr);
	after = resident() > after ? resident() : after;
	sleep(1);			/* timers of the last exchange run out */
	woken = switches();
	begin = cpu_seconds();
	sleep(seconds);
	begin = cpu_seconds() - begin;
	woken = switches() - woken - 1;	/* but for this sleep */
	if (!parent)
		return;
	printf("qps %d\n", count);
	printf("idle cpu %.4f %%\n", begin / seconds * 100);
	printf("idle wake-ups %ld\n", woken);
	printf("bytes per qp %ld\n", (after - before) / count);
}

static void run(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = list && list[0] ? ibv_open_device(list[0]) : NULL;
	struct ibv_pd *pd = context ? ibv_alloc_pd(context) : NULL;
	struct ibv_cq *cq = pd ? ibv_create_cq(context, 4 * count, NULL, NULL, 0) : NULL;
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC, .send_cq = cq, .recv_cq = cq,
					 .cap = { 1, 1, 1, 1, 0 } };
	struct ibv_qp **qp = calloc(count, sizeof(*qp));
	uint32_t *mine = calloc(count, 4), *theirs = calloc(count, 4);
	static char memory[64];
	struct ibv_mr *mr = pd ? ibv_reg_mr(pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE) :
		NULL;
	union ibv_gid gid;
	long before, after;

	must("device", !cq || !mr || !qp || !mine || !theirs ||
	     ibv_query_gid(context, 1, gid_index, &gid));
	for (int i = 0; i < count; i++)
		mine[i] = theirs[i] = 1;	/* resident before the count begins */
	before = resident();
	for (int i = 0; i < count; i++) {
		qp[i] = ibv_create_qp(pd, &init);
		must("ibv_create_qp", !qp[i]);
		mine[i] = qp[i]->qp_num;
	}
	exchange(mine, theirs, 4 * count);
	exchange(&gid, &gid, sizeof(gid));
	for (int i = 0; i < count; i++)
		connect_qp(qp[i], theirs[i], &gid);
	after = resident();
	report(before, after, qp, cq, mr);
	ibv_close_device(context);
}

int main(int argc, char **argv)
{
	int pair[2];

	count = argc > 1 ? atoi(argv[1]) : count;
	seconds = argc > 2 ? atoi(argv[2]) : seconds;
	gid_index = argc > 3 ? atoi(argv[3]) : gid_index;
	must("socketpair", socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
	parent = fork() > 0;
	sock = pair[parent];
	close(pair[!parent]);
	run();
	return 0;
}
