/* SPDX-License-Identifier: BSD-2-Clause */
/* Step 7: connect two queue pairs. Both are ours here, so that nothing has to be exchanged. */
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>

enum { PORT = 1, GID_INDEX = 1, FIRST_PSN = 0x1000 };

static void must(int failed, const char *what)
{
	if (failed) {
		perror(what);
		exit(1);
	}
}

static struct ibv_qp *qp_in_init(struct ibv_pd *pd, struct ibv_cq *cq)
{
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC, .send_cq = cq, .recv_cq = cq,
		.cap = { .max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 1, .max_recv_sge = 1 } };
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = PORT,
				    .qp_access_flags = IBV_ACCESS_REMOTE_WRITE };
	struct ibv_qp *qp = ibv_create_qp(pd, &init);

	must(!qp, "ibv_create_qp");
	must((errno = ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				    IBV_QP_ACCESS_FLAGS)), "ibv_modify_qp to INIT");
	return qp;
}

/* What a QP has to know of its peer: the number, the GID, and where its packets start to count. */
static void connect_to(struct ibv_qp *qp, uint32_t peer_qpn, union ibv_gid peer_gid)
{
	struct ibv_qp_attr attr = {
		/* RTR, ready to receive: who is there, and how large are packets? */
		.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = peer_qpn,
		.rq_psn = FIRST_PSN, .max_dest_rd_atomic = 1, .min_rnr_timer = 12,
		.ah_attr = { .is_global = 1, .port_num = PORT, .grh = {
			.dgid = peer_gid, .sgid_index = GID_INDEX, .hop_limit = 64 } },
	};

	must((errno = ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
				    IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				    IBV_QP_MIN_RNR_TIMER)), "ibv_modify_qp to RTR");
	/* RTS, ready to send: how long to wait for an answer (4.096 us * 2^timeout), how often? */
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS, .sq_psn = FIRST_PSN, .timeout = 14,
				     .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1 };
	must((errno = ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT |
				    IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC)),
	     "ibv_modify_qp to RTS");
	printf("QP 0x%06x sends to QP 0x%06x\n", qp->qp_num, peer_qpn);
}

int main(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = list && list[0] ? ibv_open_device(list[0]) : NULL;
	struct ibv_pd *pd = context ? ibv_alloc_pd(context) : NULL;
	struct ibv_cq *cq = pd ? ibv_create_cq(context, 32, NULL, NULL, 0) : NULL;
	struct ibv_qp *left, *right;
	union ibv_gid gid;

	must(!cq, "device, domain or CQ");
	must(ibv_query_gid(context, PORT, GID_INDEX, &gid), "ibv_query_gid");
	left = qp_in_init(pd, cq);
	right = qp_in_init(pd, cq);

	/* Between two hosts these numbers travel over TCP, or rdma_cm carries them (step 11). */
	connect_to(left, right->qp_num, gid);
	connect_to(right, left->qp_num, gid);
	printf("connected\n");
	return ibv_destroy_qp(left) || ibv_destroy_qp(right);
}
