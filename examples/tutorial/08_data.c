/* SPDX-License-Identifier: BSD-2-Clause */
/* Step 8: the four ways of data: SEND, WRITE, READ, atomic. Left asks, right is asked. */
#include "pair.h"

static void post(struct pair *p, struct ibv_send_wr *wr, const char *what)
{
	struct ibv_send_wr *bad;
	struct ibv_wc wc;

	wr->send_flags = IBV_SEND_SIGNALED;
	must((errno = ibv_post_send(p->left, wr, &bad)), "ibv_post_send");
	wc = pair_wait(p);
	printf("%-6s completed on the left: %s\n", what, ibv_wc_status_str(wc.status));
}

int main(void)
{
	struct pair p;
	struct ibv_recv_wr receive = { .wr_id = 1, .num_sge = 1 }, *bad;
	struct ibv_send_wr wr = { .num_sge = 1 };
	struct ibv_sge left, right;
	char *there;
	struct ibv_wc wc;
	uint64_t counter = 41;

	pair_open(&p);
	there = p.memory + BYTES;		/* the right QP's half */
	left = (struct ibv_sge){ (uintptr_t)p.memory, 16, p.mr->lkey };
	right = (struct ibv_sge){ (uintptr_t)there, 64, p.mr->lkey };

	/* SEND: the receiver says where it goes, so a receive has to be there before. */
	strcpy(p.memory, "by SEND");
	receive.sg_list = &right;
	must((errno = ibv_post_recv(p.right, &receive, &bad)), "ibv_post_recv");
	wr.sg_list = &left;
	wr.opcode = IBV_WR_SEND;
	post(&p, &wr, "SEND");
	wc = pair_wait(&p);
	printf("       completed on the right: %u bytes, \"%s\"\n", wc.byte_len, there);

	/* WRITE: the sender says where it goes. The right side's program takes no part in it. */
	strcpy(p.memory, "by WRITE");
	wr.opcode = IBV_WR_RDMA_WRITE;
	wr.wr.rdma.remote_addr = (uintptr_t)there + 64;
	wr.wr.rdma.rkey = p.mr->rkey;
	post(&p, &wr, "WRITE");
	printf("       on the right there is \"%s\", and no completion\n", there + 64);

	/* READ: the other way, again without the right side's program. */
	strcpy(there + 128, "by READ");
	wr.opcode = IBV_WR_RDMA_READ;
	wr.wr.rdma.remote_addr = (uintptr_t)there + 128;
	post(&p, &wr, "READ");
	printf("       on the left there is \"%s\"\n", p.memory);

	/* Atomic: 8 bytes, aligned. The old value comes back, nobody else gets in between. */
	memcpy(there + 256, &counter, sizeof(counter));
	left.length = sizeof(counter);
	wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
	wr.wr.atomic.remote_addr = (uintptr_t)there + 256;
	wr.wr.atomic.rkey = p.mr->rkey;
	wr.wr.atomic.compare_add = 1;
	post(&p, &wr, "ATOMIC");
	memcpy(&counter, there + 256, sizeof(counter));
	printf("       was %llu, is %llu\n", (unsigned long long)*(uint64_t *)p.memory,
	       (unsigned long long)counter);
	pair_close(&p);
	return 0;
}
