// SPDX-License-Identifier: BSD-2-Clause
/*
 * From nothing to the first completion: list the devices, open one, make the objects, connect a
 * QP to itself, WRITE eight bytes, poll. Prints the milliseconds since the start after each step.
 * Plain verbs: it runs on any RDMA stack. Usage: open_first [GIDINDEX]
 */
#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static struct timespec start;

static double since_start_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (now.tv_sec - start.tv_sec) * 1e3 + (now.tv_nsec - start.tv_nsec) / 1e6;
}

static void step(const char *name, int failed)
{
	if (failed) {
		perror(name);
		exit(1);
	}
	printf("%-16s %8.3f ms\n", name, since_start_ms());
}

static int connect_to_itself(struct ibv_qp *qp, const union ibv_gid *gid, int gid_index)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT, .port_num = 1, .path_mtu = IBV_MTU_1024,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_LOCAL_WRITE,
		.dest_qp_num = qp->qp_num, .max_dest_rd_atomic = 1, .max_rd_atomic = 1,
		.min_rnr_timer = 12, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7,
		.ah_attr = { .is_global = 1, .port_num = 1 },
	};
	int err;

	attr.ah_attr.grh.dgid = *gid;
	attr.ah_attr.grh.sgid_index = gid_index;
	attr.ah_attr.grh.hop_limit = 64;
	err = ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
			    IBV_QP_ACCESS_FLAGS);
	attr.qp_state = IBV_QPS_RTR;
	err = err ? err : ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
					IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
					IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	attr.qp_state = IBV_QPS_RTS;
	return err ? err : ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT |
					 IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
					 IBV_QP_MAX_QP_RD_ATOMIC);
}

static int write_to_itself(struct ibv_qp *qp, struct ibv_mr *mr)
{
	struct ibv_sge sge = { .addr = (uintptr_t)mr->addr, .length = 8, .lkey = mr->lkey };
	struct ibv_send_wr *bad, wr = {
		.opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED,
		.sg_list = &sge, .num_sge = 1,
		.wr.rdma = { .remote_addr = (uintptr_t)mr->addr + 8, .rkey = mr->rkey },
	};
	struct ibv_wc wc = { .status = IBV_WC_GENERAL_ERR };
	int n;

	if (ibv_post_send(qp, &wr, &bad))
		return 1;
	while ((n = ibv_poll_cq(qp->send_cq, 1, &wc)) == 0)
		;
	return n < 0 || wc.status != IBV_WC_SUCCESS;
}

int main(int argc, char **argv)
{
	int gid_index = argc > 1 ? atoi(argv[1]) : 1;
	static char memory[4096];
	struct ibv_device **list;
	struct ibv_context *context;
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC, .cap = { 16, 16, 1, 1, 0 } };
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	struct ibv_qp *qp;
	union ibv_gid gid;

	clock_gettime(CLOCK_MONOTONIC, &start);
	list = ibv_get_device_list(NULL);
	step("device list", !list || !list[0]);
	context = ibv_open_device(list[0]);
	step("open", !context);
	pd = ibv_alloc_pd(context);
	mr = pd ? ibv_reg_mr(pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE |
			     IBV_ACCESS_REMOTE_WRITE) : NULL;
	step("region", !mr);
	init.send_cq = init.recv_cq = ibv_create_cq(context, 32, NULL, NULL, 0);
	qp = init.send_cq ? ibv_create_qp(pd, &init) : NULL;
	step("queue pair", !qp);
	step("connected", ibv_query_gid(context, 1, gid_index, &gid) ||
	     connect_to_itself(qp, &gid, gid_index));
	step("first completion", write_to_itself(qp, mr));
	return 0;
}
