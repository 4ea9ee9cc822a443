/* SPDX-License-Identifier: BSD-2-Clause */
/* Step 18: the loop of a program that sleeps, and messages that come in each of its gaps. */
#include <unistd.h>
#include "pair.h"

/* To the right side. It has come when this returns. */
static void message(struct pair *p)
{
	struct ibv_sge sge = { (uintptr_t)p->memory, 8, p->mr->lkey };
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1 }, *bad;

	must((errno = ibv_post_send(p->left, &wr, &bad)), "ibv_post_send");
	usleep(100000);
}

static void sleep_until_event(struct pair *p)
{
	struct ibv_cq *cq;
	void *context;

	must(ibv_get_cq_event(p->channel, &cq, &context), "ibv_get_cq_event");
	ibv_ack_cq_events(cq, 1);
}

static void arm(struct pair *p)
{
	must((errno = ibv_req_notify_cq(p->cq, 0)), "ibv_req_notify_cq");
}

/* Until the CQ is empty. How many messages there were. */
static int drain(struct pair *p)
{
	struct ibv_wc wc;
	int found, messages = 0;

	while ((found = ibv_poll_cq(p->cq, 1, &wc)) > 0) {
		must(wc.status, ibv_wc_status_str(wc.status));
		messages++;
	}
	must(found < 0, "ibv_poll_cq");
	return messages;
}

int main(void)
{
	struct pair p;
	struct ibv_recv_wr receive = { .num_sge = 1 }, *bad;
	struct ibv_sge sge;

	pair_open(&p);
	sge = (struct ibv_sge){ (uintptr_t)p.memory + BYTES, 64, p.mr->lkey };
	receive.sg_list = &sge;
	for (; receive.wr_id < 8; receive.wr_id++)
		must((errno = ibv_post_recv(p.right, &receive, &bad)), "ibv_post_recv");
	arm(&p);
	for (int event = 1; event <= 3; event++) {
		if (event < 3)
			message(&p);	/* armed and drained: it raises the event */
		sleep_until_event(&p);
		if (event == 2)
			message(&p);	/* not armed: it raises none */
		arm(&p);
		if (event == 2)
			message(&p);	/* armed again, not yet drained */
		printf("event %d: %d messages\n", event, drain(&p));
	}
	pair_close(&p);
	return 0;
}
