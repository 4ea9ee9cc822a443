/* SPDX-License-Identifier: BSD-2-Clause */
/* Step 15: receives shared by several queue pairs, and an event when they run low. */
#include "pair.h"

enum { RECEIVES = 4, LIMIT = 2 };

static struct ibv_qp *sharing_qp(struct pair *p, struct ibv_srq *srq)
{
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC, .send_cq = p->cq, .recv_cq = p->cq, .srq = srq,
		.cap = { .max_send_wr = 4, .max_send_sge = 1 } };	/* no receives of its own */
	struct ibv_qp *qp = ibv_create_qp(p->pd, &init);

	must(!qp, "ibv_create_qp");
	return qp;
}

static void send_from(struct pair *p, struct ibv_qp *qp)
{
	struct ibv_sge sge = { (uintptr_t)p->memory, 8, p->mr->lkey };
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1 }, *bad;

	must((errno = ibv_post_send(qp, &wr, &bad)), "ibv_post_send");
}

int main(void)
{
	struct pair p;
	struct ibv_srq_init_attr init = { .attr = { .max_wr = RECEIVES, .max_sge = 1 } };
	struct ibv_srq_attr limit = { .srq_limit = LIMIT };
	struct ibv_recv_wr receive = { .num_sge = 1 }, *bad;
	struct ibv_qp *sender[2], *receiver[2];
	struct ibv_async_event event;
	struct ibv_srq *srq;
	struct ibv_sge sge;
	struct ibv_wc wc;

	pair_open(&p);
	srq = ibv_create_srq(p.pd, &init);
	must(!srq, "ibv_create_srq");
	for (int i = 0; i < 2; i++) {
		sender[i] = pair_qp(&p);
		receiver[i] = sharing_qp(&p, srq);
		pair_connect(&p, sender[i], receiver[i]);
		pair_connect(&p, receiver[i], sender[i]);
	}
	receive.sg_list = &sge;
	for (int i = 0; i < RECEIVES; i++, receive.wr_id++) {
		sge = (struct ibv_sge){ (uintptr_t)p.memory + BYTES + 64 * i, 64, p.mr->lkey };
		must((errno = ibv_post_srq_recv(srq, &receive, &bad)), "ibv_post_srq_recv");
	}
	must((errno = ibv_modify_srq(srq, &limit, IBV_SRQ_LIMIT)), "ibv_modify_srq");
	for (int i = 0; i < 3; i++) {
		send_from(&p, sender[i % 2]);
		wc = pair_wait(&p);		/* in the order of arrival, whichever QP it came by */
		printf("receive %d of the SRQ: taken by receiver %d\n", (int)wc.wr_id,
		       wc.qp_num == receiver[1]->qp_num);
	}
	must(ibv_get_async_event(p.context, &event), "ibv_get_async_event");
	printf("event: %s: fewer than %d are left, post more\n", ibv_event_type_str(event.event_type), LIMIT);
	ibv_ack_async_event(&event);
	must((errno = ibv_query_srq(srq, &limit)), "ibv_query_srq");
	printf("the limit is %u now: ask again with ibv_modify_srq\n", limit.srq_limit);
	for (int i = 0; i < 2; i++)
		must((errno = ibv_destroy_qp(sender[i])) || (errno = ibv_destroy_qp(receiver[i])),
		     "ibv_destroy_qp");
	must((errno = ibv_destroy_srq(srq)), "ibv_destroy_srq");
	pair_close(&p);
	return 0;
}
