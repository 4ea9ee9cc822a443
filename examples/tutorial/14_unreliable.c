/* SPDX-License-Identifier: BSD-2-Clause */
/* Step 14: an unreliable connection. Nobody answers, so nobody knows what was lost. */
#include "pair.h"

static struct ibv_qp *unreliable_qp(struct pair *p)
{
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_UC, .send_cq = p->cq, .recv_cq = p->cq,
		.cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 } };
	struct ibv_qp *qp = ibv_create_qp(p->pd, &init);

	must(!qp, "ibv_create_qp");
	return qp;
}

/* As for RC, without all that concerns answers: READs, retries, timeouts. */
static void unreliable_connect(struct pair *p, struct ibv_qp *qp, struct ibv_qp *peer)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = PORT,
				    .qp_access_flags = IBV_ACCESS_REMOTE_WRITE };

	must((errno = ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				    IBV_QP_ACCESS_FLAGS)), "ibv_modify_qp to INIT");
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer->qp_num, .rq_psn = FIRST_PSN, .ah_attr = { .is_global = 1, .port_num = PORT,
			.grh = { .sgid_index = GID_INDEX, .hop_limit = 64 } } };
	must(ibv_query_gid(p->context, PORT, GID_INDEX, &attr.ah_attr.grh.dgid), "ibv_query_gid");
	must((errno = ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
				    IBV_QP_DEST_QPN | IBV_QP_RQ_PSN)), "ibv_modify_qp to RTR");
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS, .sq_psn = FIRST_PSN };
	must((errno = ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN)), "ibv_modify_qp to RTS");
}

static void post(struct pair *p, struct ibv_qp *qp, struct ibv_send_wr *wr, const char *text)
{
	struct ibv_sge sge = { (uintptr_t)p->memory, (uint32_t)strlen(text) + 1, p->mr->lkey };
	struct ibv_send_wr *bad;
	struct ibv_wc wc;

	strcpy(p->memory, text);
	wr->sg_list = &sge;
	wr->num_sge = 1;
	wr->send_flags = IBV_SEND_SIGNALED;
	must((errno = ibv_post_send(qp, wr, &bad)), "ibv_post_send");
	wc = pair_wait(p);
	printf("%s \"%s\": %s\n", wr->opcode == IBV_WR_SEND ? "SEND " : "WRITE", text,
	       ibv_wc_status_str(wc.status));
}

int main(void)
{
	struct pair p;
	struct ibv_send_wr send = { .opcode = IBV_WR_SEND }, write = { .opcode = IBV_WR_RDMA_WRITE };
	struct ibv_recv_wr receive = { .num_sge = 1 }, *bad;
	struct ibv_qp *left, *right;
	volatile char *there;
	struct ibv_sge sge;

	pair_open(&p);
	there = p.memory + BYTES;
	sge = (struct ibv_sge){ (uintptr_t)there, 64, p.mr->lkey };
	left = unreliable_qp(&p);
	right = unreliable_qp(&p);
	unreliable_connect(&p, left, right);
	unreliable_connect(&p, right, left);
	post(&p, left, &send, "one");		/* the right side has no receive */
	write.wr.rdma.remote_addr = (uintptr_t)there + 64;
	write.wr.rdma.rkey = p.mr->rkey;
	post(&p, left, &write, "written");	/* packets stay in order: when it is there, "one" has passed */
	while (there[64 + 7] != '\0' || there[64] != 'w')
		;
	receive.sg_list = &sge;
	must((errno = ibv_post_recv(right, &receive, &bad)), "ibv_post_recv");
	post(&p, left, &send, "two");
	pair_wait(&p);
	printf("the right side has \"%s\" and \"%s\"\n", (char *)there, (char *)there + 64);
	must((errno = ibv_destroy_qp(left)) || (errno = ibv_destroy_qp(right)), "ibv_destroy_qp");
	pair_close(&p);
	return 0;
}
