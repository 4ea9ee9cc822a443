/* SPDX-License-Identifier: BSD-2-Clause */
/* Step 10: what goes wrong, how it is told, and how a queue pair comes back. */
#include "pair.h"

static void write_with_key(struct pair *p, uint64_t wr_id, uint32_t rkey)
{
	struct ibv_sge sge = { (uintptr_t)p->memory, 8, p->mr->lkey };
	struct ibv_send_wr *bad, wr = { .wr_id = wr_id, .opcode = IBV_WR_RDMA_WRITE,
		.sg_list = &sge, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { (uintptr_t)p->memory + BYTES, rkey } };

	must((errno = ibv_post_send(p->left, &wr, &bad)), "ibv_post_send");
}

static void print_next(struct pair *p)
{
	struct ibv_wc wc = pair_wait(p);

	/* Of a completion in error wr_id, status, qp_num and vendor_err count, nothing else. */
	printf("request %llu: %s\n", (unsigned long long)wc.wr_id, ibv_wc_status_str(wc.status));
}

static enum ibv_qp_state state_of(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	must((errno = ibv_query_qp(qp, &attr, IBV_QP_STATE, &init)), "ibv_query_qp");
	return attr.qp_state;
}

int main(void)
{
	struct ibv_qp_attr reset = { .qp_state = IBV_QPS_RESET };
	struct pair p;

	pair_open(&p);

	/* 1. A call is refused: an errno, at once, and nothing has happened. */
	struct ibv_send_wr *bad, wrong = { .opcode = IBV_WR_SEND, .num_sge = 100 };

	printf("100 pieces: %s\n", strerror(ibv_post_send(p.left, &wrong, &bad)));

	/* 2. A request fails later: its completion says so, and the QP is in ERR. */
	write_with_key(&p, 1, p.mr->rkey + 1);
	print_next(&p);
	printf("the left QP is in ERR: %s\n", state_of(p.left) == IBV_QPS_ERR ? "yes" : "no");

	/* 3. What is posted in ERR completes, flushed. Nothing gets lost in silence. */
	write_with_key(&p, 2, p.mr->rkey);
	print_next(&p);

	/* 4. The only way out is RESET, on both sides: PSNs have to agree again. */
	must((errno = ibv_modify_qp(p.left, &reset, IBV_QP_STATE)), "ibv_modify_qp to RESET");
	must((errno = ibv_modify_qp(p.right, &reset, IBV_QP_STATE)), "ibv_modify_qp to RESET");
	pair_connect(&p, p.left, p.right);
	pair_connect(&p, p.right, p.left);
	write_with_key(&p, 3, p.mr->rkey);
	print_next(&p);
	pair_close(&p);
	return 0;
}
