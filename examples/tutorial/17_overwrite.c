/* SPDX-License-Identifier: BSD-2-Clause */
/* Step 17: a WRITE asks nobody. It goes over data that was not read yet, unless the programs see to it. */
#include "pair.h"

struct slot {
	uint32_t number;		/* of the message in it, 0: none. The last that is written */
	char text[60];
};

/* Puts a message into the right side's slot. */
static void write_message(struct pair *p, uint32_t number, const char *text)
{
	struct slot *ours = (struct slot *)p->memory;
	struct ibv_sge sge = { (uintptr_t)ours, sizeof(*ours), p->mr->lkey };
	struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_WRITE, .sg_list = &sge, .num_sge = 1,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { (uintptr_t)p->memory + BYTES, p->mr->rkey } }, *bad;

	ours->number = number;
	strcpy(ours->text, text);
	must((errno = ibv_post_send(p->left, &wr, &bad)), "ibv_post_send");
	must(pair_wait(p).status, "WRITE");
}

/* Tells the left side how many messages the right side has read: by a WRITE, too. */
static void return_credit(struct pair *p, uint64_t read)
{
	uint64_t *count = (uint64_t *)(p->memory + BYTES + 1024);
	struct ibv_sge sge = { (uintptr_t)count, sizeof(*count), p->mr->lkey };
	struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_WRITE, .sg_list = &sge, .num_sge = 1,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { (uintptr_t)p->memory + 1024, p->mr->rkey } }, *bad;

	*count = read;
	must((errno = ibv_post_send(p->right, &wr, &bad)), "ibv_post_send");
	must(pair_wait(p).status, "WRITE");
}

int main(void)
{
	struct pair p;
	struct slot *slot;
	volatile uint64_t *credit;
	uint64_t sent = 0;

	pair_open(&p);
	slot = (struct slot *)(p.memory + BYTES);
	credit = (uint64_t *)(p.memory + 1024);

	write_message(&p, 1, "first");
	write_message(&p, 2, "second");		/* the right side was busy */
	printf("without credits: the right side finds message %u, \"%s\"\n", slot->number, slot->text);

	for (uint32_t number = 1; number <= 3; number++) {
		while (sent - *credit >= 1)	/* one slot: wait until it was read */
			;
		write_message(&p, number, number % 2 ? "odd" : "even");
		sent++;
		printf("with credits: the right side finds message %u, \"%s\"\n", slot->number, slot->text);
		return_credit(&p, number);
	}
	pair_close(&p);
	return 0;
}
