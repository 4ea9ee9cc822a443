/* SPDX-License-Identifier: BSD-2-Clause */
/* Step 12: the end. Objects go in the opposite order, and what is in use stays. */
#include "pair.h"

static void say(const char *what, int err)
{
	printf("%-38s %s\n", what, strerror(err));
}

int main(void)
{
	struct pair p;
	struct ibv_qp_attr error = { .qp_state = IBV_QPS_ERR };
	struct ibv_recv_wr receive = { .wr_id = 5 }, *bad;
	struct ibv_cq *cq;
	void *context;
	struct ibv_wc wc;

	pair_open(&p);
	must((errno = ibv_post_recv(p.right, &receive, &bad)), "ibv_post_recv");
	must((errno = ibv_req_notify_cq(p.cq, 0)), "ibv_req_notify_cq");

	/* Requests that are still there: in ERR they complete, and their memory is ours again. */
	must((errno = ibv_modify_qp(p.right, &error, IBV_QP_STATE)), "ibv_modify_qp to ERR");
	wc = pair_wait(&p);
	printf("receive %llu: %s\n", (unsigned long long)wc.wr_id, ibv_wc_status_str(wc.status));

	/* An event that was fetched and not acknowledged would keep ibv_destroy_cq() waiting. */
	must(ibv_get_cq_event(p.channel, &cq, &context), "ibv_get_cq_event");
	ibv_ack_cq_events(cq, 1);

	/* The wrong order is refused, and does no harm. */
	say("the CQ, while queue pairs use it:", ibv_destroy_cq(p.cq));
	say("the domain, with all that is in it:", ibv_dealloc_pd(p.pd));

	/* From the leaves to the root: QP, MR, CQ, channel, PD, context. */
	say("the left QP:", ibv_destroy_qp(p.left));
	say("the right QP:", ibv_destroy_qp(p.right));
	say("the region:", ibv_dereg_mr(p.mr));
	say("the CQ:", ibv_destroy_cq(p.cq));
	say("its channel:", ibv_destroy_comp_channel(p.channel));
	say("the domain:", ibv_dealloc_pd(p.pd));
	say("the device:", ibv_close_device(p.context));
	free(p.memory);		/* not before the region: until then others may write there */
	return 0;
}
