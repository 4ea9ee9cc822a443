/* SPDX-License-Identifier: BSD-2-Clause */
/* Step 9: sleep until something completes; and requests that complete without saying so. */
#include <pthread.h>
#include <unistd.h>
#include "pair.h"

/* Ask for an event, look once more, then sleep. In another order an event can be missed. */
static struct ibv_wc sleep_until_complete(struct pair *p)
{
	static int events;
	struct ibv_cq *cq;
	void *context;
	struct ibv_wc wc;
	int found = ibv_poll_cq(p->cq, 1, &wc);

	while (!found) {
		must((errno = ibv_req_notify_cq(p->cq, 0)), "ibv_req_notify_cq");
		found = ibv_poll_cq(p->cq, 1, &wc);
		if (found)
			break;			/* its event will come, too: one wake-up for nothing */
		must(ibv_get_cq_event(p->channel, &cq, &context), "ibv_get_cq_event");
		ibv_ack_cq_events(cq, 1);	/* or ibv_destroy_cq() would wait for it */
		if (!events++)
			printf("an event woke us\n");
		found = ibv_poll_cq(p->cq, 1, &wc);
	}
	must(found < 0, "ibv_poll_cq");
	return wc;
}

/* Four sends, and only the last is signaled: its completion stands for the three before it. */
static void *send_later(void *argument)
{
	struct pair *p = argument;
	struct ibv_sge sge = { (uintptr_t)p->memory, 8, p->mr->lkey };
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1 }, *bad;

	usleep(100000);
	for (wr.wr_id = 1; wr.wr_id <= 4; wr.wr_id++) {
		wr.send_flags = wr.wr_id == 4 ? IBV_SEND_SIGNALED : 0;
		must((errno = ibv_post_send(p->left, &wr, &bad)), "ibv_post_send");
	}
	return NULL;
}

int main(void)
{
	struct pair p;
	struct ibv_recv_wr receive = { .num_sge = 1 }, *bad;
	struct ibv_sge sge;
	struct ibv_wc wc;
	pthread_t thread;
	int sent = 0, received = 0;

	pair_open(&p);
	sge = (struct ibv_sge){ (uintptr_t)p.memory + BYTES, 64, p.mr->lkey };
	receive.sg_list = &sge;
	for (int i = 0; i < 4; i++, receive.wr_id++)
		must((errno = ibv_post_recv(p.right, &receive, &bad)), "ibv_post_recv");
	must((errno = pthread_create(&thread, NULL, send_later, &p)), "pthread_create");
	while (!sent || received < 4) {
		wc = sleep_until_complete(&p);
		must(wc.status, ibv_wc_status_str(wc.status));
		if (wc.opcode == IBV_WC_SEND)
			sent = (int)wc.wr_id;
		else
			received++;
	}
	printf("one completion for sends 1 to %d\n", sent);
	printf("%d completions for %d receives\n", received, received);
	pthread_join(thread, NULL);
	pair_close(&p);
	return 0;
}
