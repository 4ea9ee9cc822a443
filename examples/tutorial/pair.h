/* SPDX-License-Identifier: BSD-2-Clause */
/* What steps 1 to 7 made: a device, a domain, a CQ, a region, two queue pairs that are connected. */
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PORT = 1, GID_INDEX = 1, FIRST_PSN = 0x1000, BYTES = 4096 };

struct pair {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_mr *mr;		/* of memory: BYTES for the left QP, BYTES for the right one */
	char *memory;
	struct ibv_qp *left, *right;
};

static inline void must(int failed, const char *what)
{
	if (failed) {
		fprintf(stderr, "%s: %s\n", what, strerror(errno));
		exit(1);
	}
}

static inline struct ibv_qp *pair_qp(struct pair *p)
{
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC, .send_cq = p->cq, .recv_cq = p->cq,
		.cap = { .max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 2, .max_recv_sge = 2 } };
	struct ibv_qp *qp = ibv_create_qp(p->pd, &init);

	must(!qp, "ibv_create_qp");
	return qp;
}

/* From RESET to RTS. */
static inline void pair_connect(struct pair *p, struct ibv_qp *qp, struct ibv_qp *peer)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = PORT,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
				   IBV_ACCESS_REMOTE_ATOMIC };

	must((errno = ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				    IBV_QP_ACCESS_FLAGS)), "ibv_modify_qp to INIT");
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer->qp_num, .rq_psn = FIRST_PSN, .max_dest_rd_atomic = 1,
		.min_rnr_timer = 12, .ah_attr = { .is_global = 1, .port_num = PORT,
			.grh = { .sgid_index = GID_INDEX, .hop_limit = 64 } } };
	must(ibv_query_gid(p->context, PORT, GID_INDEX, &attr.ah_attr.grh.dgid), "ibv_query_gid");
	must((errno = ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
				    IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				    IBV_QP_MIN_RNR_TIMER)), "ibv_modify_qp to RTR");
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS, .sq_psn = FIRST_PSN, .timeout = 14,
				     .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1 };
	must((errno = ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT |
				    IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC)),
	     "ibv_modify_qp to RTS");
}

static inline void pair_open(struct pair *p)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	must(!list || !list[0], "ibv_get_device_list");
	p->context = ibv_open_device(list[0]);
	must(!p->context, "ibv_open_device");
	ibv_free_device_list(list);
	p->pd = ibv_alloc_pd(p->context);
	p->channel = ibv_create_comp_channel(p->context);
	p->cq = ibv_create_cq(p->context, 32, NULL, p->channel, 0);
	must(!p->pd || !p->channel || !p->cq, "domain, channel, CQ");
	p->memory = aligned_alloc(4096, 2 * BYTES);
	must(!p->memory, "aligned_alloc");
	memset(p->memory, 0, 2 * BYTES);
	p->mr = ibv_reg_mr(p->pd, p->memory, 2 * BYTES, IBV_ACCESS_LOCAL_WRITE |
			   IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
			   IBV_ACCESS_REMOTE_ATOMIC);
	must(!p->mr, "ibv_reg_mr");
	p->left = pair_qp(p);
	p->right = pair_qp(p);
	pair_connect(p, p->left, p->right);
	pair_connect(p, p->right, p->left);
}

/* The next completion, by polling. */
static inline struct ibv_wc pair_wait(struct pair *p)
{
	struct ibv_wc wc;
	int found;

	do {
		found = ibv_poll_cq(p->cq, 1, &wc);
		must(found < 0, "ibv_poll_cq");
	} while (!found);
	return wc;
}

/* Step 12 says why in this order. */
static inline void pair_close(struct pair *p)
{
	must((errno = ibv_destroy_qp(p->left)) || (errno = ibv_destroy_qp(p->right)),
	     "ibv_destroy_qp");
	must((errno = ibv_dereg_mr(p->mr)), "ibv_dereg_mr");
	must((errno = ibv_destroy_cq(p->cq)), "ibv_destroy_cq");
	must((errno = ibv_destroy_comp_channel(p->channel)), "ibv_destroy_comp_channel");
	must((errno = ibv_dealloc_pd(p->pd)), "ibv_dealloc_pd");
	must(ibv_close_device(p->context), "ibv_close_device");
	free(p->memory);
}
