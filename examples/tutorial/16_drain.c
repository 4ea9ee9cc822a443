/* SPDX-License-Identifier: BSD-2-Clause */
/* Step 16: SQD, the state that lets a queue pair finish, change, and go on. */
#include "pair.h"

static void post(struct pair *p, uint64_t id)
{
	struct ibv_sge sge = { (uintptr_t)p->memory, 64, p->mr->lkey };
	struct ibv_send_wr wr = { .wr_id = id, .opcode = IBV_WR_RDMA_WRITE, .sg_list = &sge, .num_sge = 1,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { (uintptr_t)p->memory + BYTES, p->mr->rkey } }, *bad;

	must((errno = ibv_post_send(p->left, &wr, &bad)), "ibv_post_send");
}

static void show(struct pair *p)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	must((errno = ibv_query_qp(p->left, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT, &init)), "ibv_query_qp");
	printf("state %s, draining %d, timeout %d\n", attr.qp_state == IBV_QPS_SQD ? "SQD" :
	       attr.qp_state == IBV_QPS_RTS ? "RTS" : "another", attr.sq_draining, attr.timeout);
}

int main(void)
{
	struct pair p;
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1 };
	struct ibv_async_event event;
	struct ibv_wc wc;

	pair_open(&p);
	post(&p, 1);
	must((errno = ibv_modify_qp(p.left, &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY)),
	     "ibv_modify_qp to SQD");
	post(&p, 2);			/* taken, and kept until RTS */
	must(ibv_get_async_event(p.context, &event), "ibv_get_async_event");
	printf("event: %s\n", ibv_event_type_str(event.event_type));
	ibv_ack_async_event(&event);
	show(&p);
	wc = pair_wait(&p);
	printf("request %d: %s\n", (int)wc.wr_id, ibv_wc_status_str(wc.status));

	/* Nothing is on its way: what could not change in RTS may change here. */
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_SQD, .timeout = 18 };
	must((errno = ibv_modify_qp(p.left, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT)), "ibv_modify_qp in SQD");
	attr.qp_state = IBV_QPS_RTS;
	must((errno = ibv_modify_qp(p.left, &attr, IBV_QP_STATE)), "ibv_modify_qp to RTS");
	show(&p);
	wc = pair_wait(&p);
	printf("request %d: %s\n", (int)wc.wr_id, ibv_wc_status_str(wc.status));
	pair_close(&p);
	return 0;
}
