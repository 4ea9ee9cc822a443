/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Datagrams from each index of one port's P_Key table to each of another's, for tests/fabric/data:
 *	datagrams serve QPS [MLID MGID]		prints "at LID GID QPN...", and a line for each
 *datagram that came, until its input ends datagrams send QPS LID GID QPN...	to all of them, with
 *immediate data 16 * own index + theirs; then to those of the same index with a GRH, 256 more
 *	datagrams group LID GID			one to a group
 * A line: "got INDEX IMMEDIATE slid SLID sl SL bits BITS grh 0|1 bytes BYTES from GID".
 */
#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define QPS_MAX 16
#define RECEIVES 64
#define ROOM 128
#define QKEY 0x11111111
#define SL 3

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_mr *mr;
static struct ibv_qp *qp[QPS_MAX];
static uint8_t memory[QPS_MAX][RECEIVES][ROOM];

static void must(int failed, const char *what)
{
	if (failed)
		perror(what), exit(1);
}

static void receive(int index, int place)
{
	struct ibv_sge sge = {(uintptr_t)memory[index][place], ROOM, mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = (uint64_t)(index * RECEIVES + place),
				 .sg_list = &sge,
				 .num_sge = 1},
			   *bad;

	must(ibv_post_recv(qp[index], &wr, &bad), "ibv_post_recv");
}

static void make(int count)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	must(!list || !*list, "ibv_get_device_list");
	context = ibv_open_device(*list);
	must(!context, "ibv_open_device");
	pd = ibv_alloc_pd(context);
	cq = ibv_create_cq(context, QPS_MAX * RECEIVES + 1, NULL, NULL, 0);
	mr = ibv_reg_mr(pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE);
	must(!pd || !cq || !mr, "setting up");
	for (int i = 0; i < count; i++) {
		struct ibv_qp_init_attr init = {.qp_type = IBV_QPT_UD,
						.send_cq = cq,
						.recv_cq = cq,
						.cap = {.max_send_wr = 4,
							.max_recv_wr = RECEIVES,
							.max_send_sge = 1,
							.max_recv_sge = 1}};
		struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT,
					   .port_num = 1,
					   .pkey_index = (uint16_t)i,
					   .qkey = QKEY};

		qp[i] = ibv_create_qp(pd, &init);
		must(!qp[i], "ibv_create_qp");
		must(ibv_modify_qp(qp[i], &attr,
				   IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_QKEY),
		     "ibv_modify_qp to INIT");
		for (int place = 0; place < RECEIVES; place++)
			receive(i, place);
		attr.qp_state = IBV_QPS_RTR;
		must(ibv_modify_qp(qp[i], &attr, IBV_QP_STATE), "ibv_modify_qp to RTR");
		attr.qp_state = IBV_QPS_RTS;
		must(ibv_modify_qp(qp[i], &attr, IBV_QP_STATE | IBV_QP_SQ_PSN),
		     "ibv_modify_qp to RTS");
	}
}

static void report(const struct ibv_wc *wc)
{
	int index = (int)wc->wr_id / RECEIVES;
	char gid[INET6_ADDRSTRLEN] = "-";

	must(wc->status, ibv_wc_status_str(wc->status));
	if (wc->wc_flags & IBV_WC_GRH)
		inet_ntop(AF_INET6, memory[index][wc->wr_id % RECEIVES] + 8, gid, sizeof(gid));
	printf("got %d %u slid %u sl %u bits %u grh %d bytes %u from %s\n", index,
	       ntohl(wc->imm_data), wc->slid, wc->sl, wc->dlid_path_bits,
	       !!(wc->wc_flags & IBV_WC_GRH), wc->byte_len, gid);
}

static void serve(int argc, char **argv)
{
	int count = atoi(argv[2]);
	struct ibv_port_attr port;
	union ibv_gid gid;
	char text[INET6_ADDRSTRLEN];
	struct ibv_wc wc;

	make(count);
	must(ibv_query_port(context, 1, &port), "ibv_query_port");
	must(ibv_query_gid(context, 1, 0, &gid), "ibv_query_gid");
	if (argc > 4) {
		union ibv_gid group;

		must(inet_pton(AF_INET6, argv[4], &group) != 1, argv[4]);
		must(ibv_attach_mcast(qp[0], &group, (uint16_t)strtoul(argv[3], NULL, 0)),
		     "ibv_attach_mcast");
	}
	printf("at %u %s", port.lid, inet_ntop(AF_INET6, &gid, text, sizeof(text)));
	for (int i = 0; i < count; i++)
		printf(" %u", qp[i]->qp_num);
	printf("\n");
	fflush(stdout);
	for (struct pollfd input = {.fd = 0, .events = POLLIN}; !poll(&input, 1, 2);) {
		while (ibv_poll_cq(cq, 1, &wc) > 0)
			report(&wc);
		fflush(stdout);
	}
	while (ibv_poll_cq(cq, 1, &wc) > 0)
		report(&wc);
}

static void send_to(int from, const char *lid, const char *dgid, uint32_t qpn, uint32_t imm,
		    int grh)
{
	struct ibv_ah_attr attr = {.dlid = (uint16_t)strtoul(lid, NULL, 0),
				   .sl = SL,
				   .port_num = 1,
				   .is_global = (uint8_t)grh,
				   .grh.hop_limit = 1};
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND_WITH_IMM,
				 .send_flags = IBV_SEND_SIGNALED,
				 .imm_data = htonl(imm)},
			   *bad;
	struct ibv_wc wc;
	int done;

	must(inet_pton(AF_INET6, dgid, &attr.grh.dgid) != 1, dgid);
	wr.wr.ud.ah = ibv_create_ah(pd, &attr);
	must(!wr.wr.ud.ah, "ibv_create_ah");
	wr.wr.ud.remote_qpn = qpn;
	wr.wr.ud.remote_qkey = QKEY;
	must(ibv_post_send(qp[from], &wr, &bad), "ibv_post_send");
	while (!(done = ibv_poll_cq(cq, 1, &wc)))
		;
	must(done < 0 || wc.status, ibv_wc_status_str(wc.status));
	ibv_destroy_ah(wr.wr.ud.ah);
}

int main(int argc, char **argv)
{
	must(argc < 3, "serve, send or group");
	if (!strcmp(argv[1], "serve")) {
		serve(argc, argv);
	} else if (!strcmp(argv[1], "send")) {
		int count = atoi(argv[2]);

		make(count);
		for (int i = 0; i < count; i++)
			for (int j = 5; j < argc; j++)
				send_to(i, argv[3], argv[4], (uint32_t)atoi(argv[j]),
					(uint32_t)(16 * i + j - 5), 0);
		for (int i = 0; i < count && i + 5 < argc; i++)
			send_to(i, argv[3], argv[4], (uint32_t)atoi(argv[i + 5]),
				(uint32_t)(256 + 17 * i), 1);
	} else {
		make(1);
		send_to(0, argv[2], argv[3], 0xffffff, 999, 1);
	}
	return 0;
}
