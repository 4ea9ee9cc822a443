/* SPDX-License-Identifier: BSD-2-Clause */
/* Step 13: datagrams. One QP for all peers; an address handle for each; 40 bytes before the data. */
#include "pair.h"

enum { QKEY = 0x1234, HEADER = 40 };

static struct ibv_qp *datagram_qp(struct pair *p)
{
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_UD, .send_cq = p->cq, .recv_cq = p->cq,
		.cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 } };
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = PORT, .qkey = QKEY };
	struct ibv_qp *qp = ibv_create_qp(p->pd, &init);

	must(!qp, "ibv_create_qp");
	must((errno = ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY)),
	     "ibv_modify_qp to INIT");
	attr.qp_state = IBV_QPS_RTR;		/* nobody to connect to */
	must((errno = ibv_modify_qp(qp, &attr, IBV_QP_STATE)), "ibv_modify_qp to RTR");
	attr.qp_state = IBV_QPS_RTS;
	must((errno = ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN)), "ibv_modify_qp to RTS");
	return qp;
}

static void send_text(struct pair *p, struct ibv_qp *qp, struct ibv_ah *ah, uint32_t qpn, uint32_t qkey,
		      const char *text)
{
	struct ibv_sge sge = { (uintptr_t)p->memory, (uint32_t)strlen(text) + 1, p->mr->lkey };
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1,
		.send_flags = IBV_SEND_SIGNALED, .wr.ud = { ah, qpn, qkey } }, *bad;
	struct ibv_wc wc;

	strcpy(p->memory, text);
	must((errno = ibv_post_send(qp, &wr, &bad)), "ibv_post_send");
	wc = pair_wait(p);
	printf("sent \"%s\": %s\n", text, ibv_wc_status_str(wc.status));
}

static void receive_at(struct pair *p, struct ibv_qp *qp, char *buffer)
{
	struct ibv_sge sge = { (uintptr_t)buffer, HEADER + 64, p->mr->lkey };
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;

	must((errno = ibv_post_recv(qp, &wr, &bad)), "ibv_post_recv");
}

int main(void)
{
	struct pair p;
	struct ibv_qp *left, *right;
	struct ibv_ah_attr attr = { .is_global = 1, .port_num = PORT,
				    .grh = { .sgid_index = GID_INDEX, .hop_limit = 64 } };
	struct ibv_ah *to_right, *back;
	struct ibv_wc wc;
	char *there;

	pair_open(&p);
	there = p.memory + BYTES;
	left = datagram_qp(&p);
	right = datagram_qp(&p);
	must(ibv_query_gid(p.context, PORT, GID_INDEX, &attr.grh.dgid), "ibv_query_gid");
	to_right = ibv_create_ah(p.pd, &attr);	/* where: the QP's number comes with each request */
	must(!to_right, "ibv_create_ah");
	receive_at(&p, right, there);
	send_text(&p, left, to_right, right->qp_num, QKEY + 1, "wrong key");
	send_text(&p, left, to_right, right->qp_num, QKEY, "hello");
	wc = pair_wait(&p);
	printf("%u bytes received: %d for the header, and \"%s\"\n", wc.byte_len, HEADER, there + HEADER);
	back = ibv_create_ah_from_wc(p.pd, &wc, (struct ibv_grh *)there, PORT);
	must(!back, "ibv_create_ah_from_wc");
	receive_at(&p, left, p.memory + 1024);
	send_text(&p, right, back, wc.src_qp, QKEY, "hello back");
	wc = pair_wait(&p);
	printf("the left side has \"%s\"\n", p.memory + 1024 + HEADER);
	must((errno = ibv_destroy_ah(to_right)) || (errno = ibv_destroy_ah(back)), "ibv_destroy_ah");
	must((errno = ibv_destroy_qp(left)) || (errno = ibv_destroy_qp(right)), "ibv_destroy_qp");
	pair_close(&p);
	return 0;
}
