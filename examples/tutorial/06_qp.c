/* SPDX-License-Identifier: BSD-2-Clause */
/* Step 6: a queue pair is two queues of requests, and a state. It is made in RESET, and moved to INIT. */
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void must(int failed, const char *what)
{
	if (failed) {
		perror(what);
		exit(1);
	}
}

static const char *state_name(struct ibv_qp *qp)
{
	static const char *const names[] = { "RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR" };
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	must((errno = ibv_query_qp(qp, &attr, IBV_QP_STATE, &init)), "ibv_query_qp");
	return names[attr.qp_state];
}

int main(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1,
				    .qp_access_flags = IBV_ACCESS_REMOTE_WRITE };
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC, .cap = {
		.max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 1, .max_recv_sge = 1 } };
	struct ibv_send_wr send = { .opcode = IBV_WR_SEND }, *bad_send;
	struct ibv_recv_wr receive = { .wr_id = 1 }, *bad_receive;
	struct ibv_context *context = list && list[0] ? ibv_open_device(list[0]) : NULL;
	struct ibv_qp *qp;

	must(!context, "ibv_open_device");
	ibv_free_device_list(list);
	init.send_cq = init.recv_cq = ibv_create_cq(context, 16, NULL, NULL, 0);
	must(!init.send_cq, "ibv_create_cq");
	qp = ibv_create_qp(ibv_alloc_pd(context), &init);
	must(!qp, "ibv_create_qp");
	printf("QP 0x%06x, state %s\n", qp->qp_num, state_name(qp));
	printf("post a receive: %s\n", strerror(ibv_post_recv(qp, &receive, &bad_receive)));

	/* INIT: port, partition and what peers may do. The mask says which attributes are meant. */
	must((errno = ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				    IBV_QP_ACCESS_FLAGS)), "ibv_modify_qp");
	printf("state %s\n", state_name(qp));

	/* Now receives may be posted, sends not yet: nobody is at the other end. */
	printf("post a receive: %s\n", strerror(ibv_post_recv(qp, &receive, &bad_receive)));
	printf("post a send: %s\n", strerror(ibv_post_send(qp, &send, &bad_send)));

	/* A QP cannot skip a state: to RTS the way is through RTR. */
	attr.qp_state = IBV_QPS_RTS;
	printf("straight to RTS: %s\n", strerror(ibv_modify_qp(qp, &attr, IBV_QP_STATE)));
	must((errno = ibv_destroy_qp(qp)), "ibv_destroy_qp");
	return 0;
}
