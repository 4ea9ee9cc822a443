/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * static_rate on a fabric: rates LID. What modify_qp and create_ah take and refuse, what query_qp says, and that
 * MESSAGES SENDs to the port's own LID at 2.5 Gb/s take no less than on such a link. For tests/fabric/data.
 */
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MESSAGES	60u
#define MESSAGE		65536u

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_mr *mr;
static uint16_t lid;

static _Noreturn void give_up(const char *what)
{
	perror(what);
	exit(1);
}

static struct ibv_qp *make_qp(void)
{
	struct ibv_qp_init_attr init = { .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .sq_sig_all = 1,
					 .cap = { .max_send_wr = MESSAGES, .max_recv_wr = MESSAGES,
						  .max_send_sge = 1, .max_recv_sge = 1 } };
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1 };
	struct ibv_qp *qp = ibv_create_qp(pd, &init);

	if (!qp || ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS))
		give_up("a QP");
	return qp;
}

static int connect_qp(struct ibv_qp *qp, uint8_t static_rate)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_4096, .dest_qp_num = qp->qp_num,
				    .min_rnr_timer = 12, .ah_attr = { .dlid = lid, .port_num = 1,
								      .static_rate = static_rate } };

	return ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				 IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

/* Milliseconds. */
static double send_all(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS, .timeout = 18, .retry_cnt = 7, .rnr_retry = 7 };
	struct ibv_sge sge = { (uintptr_t)mr->addr, MESSAGE, mr->lkey };
	struct ibv_send_wr send = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND }, *bad_send;
	struct ibv_recv_wr receive = { .sg_list = &sge, .num_sge = 1 }, *bad_receive;
	struct timespec begin, end;
	struct ibv_wc wc;

	if (ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				     IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC))
		give_up("RTS");
	for (unsigned i = 0; i < MESSAGES; i++)
		if (ibv_post_recv(qp, &receive, &bad_receive))
			give_up("ibv_post_recv");
	clock_gettime(CLOCK_MONOTONIC, &begin);
	for (unsigned i = 0; i < MESSAGES; i++)
		if (ibv_post_send(qp, &send, &bad_send))
			give_up("ibv_post_send");
	for (unsigned done = 0; done < 2 * MESSAGES; done++) {
		int got;

		do
			got = ibv_poll_cq(cq, 1, &wc);
		while (!got);
		if (got < 0 || wc.status) {
			fprintf(stderr, "completion: %s\n", ibv_wc_status_str(wc.status));
			exit(1);
		}
	}
	clock_gettime(CLOCK_MONOTONIC, &end);
	return (double)(end.tv_sec - begin.tv_sec) * 1e3 + (double)(end.tv_nsec - begin.tv_nsec) / 1e6;
}

static void try_rate(unsigned static_rate)
{
	struct ibv_ah_attr to = { .dlid = lid, .port_num = 1, .static_rate = (uint8_t)static_rate };
	struct ibv_qp *qp = make_qp();
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };
	int modified = connect_qp(qp, (uint8_t)static_rate);
	struct ibv_ah *ah = ibv_create_ah(pd, &to);
	int made = ah ? 0 : errno;

	if (ibv_query_qp(qp, &attr, IBV_QP_AV, &init))
		give_up("ibv_query_qp");
	printf("rate %u modify %d ah %d query %u\n", static_rate, modified, made, attr.ah_attr.static_rate);
	if (static_rate == IBV_RATE_2_5_GBPS)
		printf("bytes %u milliseconds %.1f\n", MESSAGES * MESSAGE, send_all(qp));
	if (ah)
		ibv_destroy_ah(ah);
	ibv_destroy_qp(qp);
}

int main(int argc, char **argv)
{
	static const unsigned rates[] = { 0, IBV_RATE_2_5_GBPS, IBV_RATE_100_GBPS, IBV_RATE_1200_GBPS, 1, 25,
					  255 };
	struct ibv_device **list = ibv_get_device_list(NULL);

	context = list && list[0] ? ibv_open_device(list[0]) : NULL;
	pd = context ? ibv_alloc_pd(context) : NULL;
	cq = context ? ibv_create_cq(context, 2 * MESSAGES, NULL, NULL, 0) : NULL;
	mr = pd ? ibv_reg_mr(pd, calloc(1, MESSAGE), MESSAGE, IBV_ACCESS_LOCAL_WRITE) : NULL;
	if (!cq || !mr || argc != 2)
		give_up("a device");
	lid = (uint16_t)strtoul(argv[1], NULL, 0);
	for (unsigned i = 0; i < sizeof(rates) / sizeof(rates[0]); i++)
		try_rate(rates[i]);
	return 0;
}
