// SPDX-License-Identifier: BSD-2-Clause
/*
 * RC WRITEs that are looked at: tests/fabric/pulls and kills run it on two hosts of a fabric.
 *
 *	writes serve			prints "at LID QPN RKEY ADDRESS", reads the other's line, and waits
 *	writes send SECONDS [TIMEOUT]	the same, then writes a block, reads it back and compares, again and
 *					again; prints "wrote N" after each hundred, and at the end "good"
 *
 * Timeout 18, retry_cnt 7. A request that fails: "failed: WORDS". Asynchronous events: "event WORDS".
 */
#include <infiniband/verbs.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BLOCK (64u << 10)
#define WORDS (BLOCK / sizeof(uint64_t))

static struct ibv_cq *cq;
static struct ibv_qp *qp;
static struct ibv_mr *mr;
static uint64_t memory[3][WORDS]; /* what is sent, what came back, what the other writes */
static uint32_t rkey;
static uint64_t address;

static void need(int good, const char *what)
{
	if (good)
		return;
	printf("cannot: %s\n", what);
	exit(2);
}

static void *events(void *context)
{
	struct ibv_async_event event;

	while (!ibv_get_async_event(context, &event)) {
		printf("event %s\n", ibv_event_type_str(event.event_type));
		fflush(stdout);
		ibv_ack_async_event(&event);
	}
	return NULL;
}

static void set_up(uint8_t timeout)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = list && *list ? ibv_open_device(*list) : NULL;
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC,
					 .cap = { 4, 4, 1, 1, 0 } };
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1,
				    .qp_access_flags = IBV_ACCESS_REMOTE_WRITE |
						       IBV_ACCESS_REMOTE_READ };
	struct ibv_port_attr port;
	pthread_t thread;
	struct ibv_pd *pd;
	unsigned lid, qpn;
	char line[128];

	need(context && !ibv_query_port(context, 1, &port), "ibv_open_device");
	need(!pthread_create(&thread, NULL, events, context), "a thread");
	pd = ibv_alloc_pd(context);
	cq = ibv_create_cq(context, 8, NULL, NULL, 0);
	need(pd && cq, "a PD and a CQ");
	mr = ibv_reg_mr(pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE |
			IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
	init.send_cq = init.recv_cq = cq;
	qp = mr ? ibv_create_qp(pd, &init) : NULL;
	need(qp && !ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				  IBV_QP_ACCESS_FLAGS), "INIT");
	printf("at %u %u %u %" PRIu64 "\n", port.lid, qp->qp_num, mr->rkey,
	       (uint64_t)(uintptr_t)memory[2]);
	fflush(stdout);
	need(fgets(line, sizeof(line), stdin) &&
	     sscanf(line, "%u %u %u %" SCNu64, &lid, &qpn, &rkey, &address) == 4, "a line");
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_4096,
				     .dest_qp_num = qpn, .max_dest_rd_atomic = 1,
				     .min_rnr_timer = 12,
				     .ah_attr = { .dlid = (uint16_t)lid, .port_num = 1 } };
	need(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
			    IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
			    IBV_QP_MIN_RNR_TIMER), "RTR");
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS, .timeout = timeout, .retry_cnt = 7,
				     .rnr_retry = 7, .max_rd_atomic = 1 };
	need(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
			    IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC), "RTS");
}

static void request(enum ibv_wr_opcode opcode, void *data)
{
	struct ibv_sge sge = { (uintptr_t)data, BLOCK, mr->lkey };
	struct ibv_send_wr *bad, wr = { .opcode = opcode, .sg_list = &sge, .num_sge = 1,
					.send_flags = IBV_SEND_SIGNALED };
	struct ibv_wc wc;
	int got;

	wr.wr.rdma.remote_addr = address;
	wr.wr.rdma.rkey = rkey;
	need(!ibv_post_send(qp, &wr, &bad), "ibv_post_send");
	while (!(got = ibv_poll_cq(cq, 1, &wc)))
		;
	if (got == 1 && wc.status == IBV_WC_SUCCESS)
		return;
	printf("failed: %s\n", ibv_wc_status_str(wc.status));
	exit(1);
}

int main(int argc, char **argv)
{
	time_t end;

	need(argc >= 2, "writes serve|send SECONDS [TIMEOUT]");
	set_up(argc > 3 ? (uint8_t)atoi(argv[3]) : 18);
	if (argc < 3) {
		char line[16];

		while (fgets(line, sizeof(line), stdin))
			;
		return 0;
	}
	end = time(NULL) + atoi(argv[2]);
	for (uint64_t n = 1; time(NULL) < end; n++) {
		for (size_t i = 0; i < WORDS; i++)
			memory[0][i] = n * 0x9e3779b97f4a7c15u + i;
		request(IBV_WR_RDMA_WRITE, memory[0]);
		memset(memory[1], 0, BLOCK);
		request(IBV_WR_RDMA_READ, memory[1]);
		if (memcmp(memory[0], memory[1], BLOCK)) {
			printf("failed: block %" PRIu64 " came back with other bytes\n", n);
			return 1;
		}
		if (n % 100 == 0) {
			printf("wrote %" PRIu64 "\n", n);
			fflush(stdout);
		}
	}
	printf("good\n");
	return 0;
}
