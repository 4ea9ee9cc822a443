// SPDX-License-Identifier: BSD-2-Clause
/*
 * Datagrams of 4 KiB to many: to a group once, or to each by itself. For bench/groups.py.
 *
 *	group_rate receive MLID MGID			prints "LID QPN", acknowledges each window
 *	group_rate send MLID MGID ROUNDS LID QPN ...	prints "group N" and "unicast N": copies that came
 *							in a second, by turns
 *
 * A window is of 64 datagrams, numbered: that the next one begins says that all receivers have had all of it.
 */
#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define WINDOW 64u
#define RECEIVES (4 * WINDOW)
#define BYTES 4096u
#define GRH 40u
#define QKEY 0x33333333
#define PEERS_MAX 64
#define TURNS 9
#define LAST UINT32_MAX

static struct ibv_pd *pd;
static struct ibv_cq *send_cq, *receive_cq;
static struct ibv_comp_channel *channel;
static struct ibv_mr *mr;
static struct ibv_qp *qp;
static uint8_t memory[RECEIVES + 1][GRH + BYTES];	/* the last is sent */

static void need(int good, const char *what)
{
	if (good)
		return;
	fprintf(stderr, "group_rate: cannot: %s\n", what);
	exit(1);
}

static void receive(uint64_t at)
{
	struct ibv_sge sge = { (uintptr_t)memory[at], sizeof(memory[at]), mr->lkey };
	struct ibv_recv_wr *bad, wr = { .wr_id = at, .sg_list = &sge, .num_sge = 1 };

	need(!ibv_post_recv(qp, &wr, &bad), "ibv_post_recv");
}

static void set_up(struct ibv_port_attr *port)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = list && *list ? ibv_open_device(*list) : NULL;
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY };
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_UD, .cap = { 16, RECEIVES, 1, 1, 0 } };

	need(context && !ibv_query_port(context, 1, port), "ibv_open_device");
	pd = ibv_alloc_pd(context);
	channel = ibv_create_comp_channel(context);
	send_cq = ibv_create_cq(context, 16, NULL, NULL, 0);
	receive_cq = ibv_create_cq(context, RECEIVES, NULL, channel, 0);
	need(pd && channel && send_cq && receive_cq, "a PD, CQs");
	mr = ibv_reg_mr(pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE);
	init.send_cq = send_cq;
	init.recv_cq = receive_cq;
	qp = mr ? ibv_create_qp(pd, &init) : NULL;
	need(qp && !ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				  IBV_QP_QKEY), "INIT");
	attr.qp_state = IBV_QPS_RTR;
	need(!ibv_modify_qp(qp, &attr, IBV_QP_STATE), "RTR");
	attr.qp_state = IBV_QPS_RTS;
	need(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN), "RTS");
	for (unsigned i = 0; i < RECEIVES; i++)
		receive(i);
}

static struct ibv_ah *way_to(unsigned lid, const union ibv_gid *gid)
{
	struct ibv_ah_attr attr = { .dlid = (uint16_t)lid, .port_num = 1, .is_global = !!gid };
	struct ibv_ah *ah;

	if (gid)
		attr.grh.dgid = *gid;
	ah = ibv_create_ah(pd, &attr);
	need(!!ah, "ibv_create_ah");
	return ah;
}

static void send_to(struct ibv_ah *ah, unsigned qpn, unsigned bytes, uint32_t number)
{
	struct ibv_sge sge = { (uintptr_t)memory[RECEIVES], bytes, mr->lkey };
	struct ibv_send_wr *bad, wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND_WITH_IMM,
					.imm_data = htonl(number), .send_flags = IBV_SEND_SIGNALED,
					.wr.ud = { .ah = ah, .remote_qpn = qpn, .remote_qkey = QKEY } };
	struct ibv_wc wc;
	int got;

	need(!ibv_post_send(qp, &wr, &bad), "ibv_post_send");
	while (!(got = ibv_poll_cq(send_cq, 1, &wc)))
		;
	need(got == 1 && !wc.status, "a send");
}

/* The next datagram; sleeps until there is one. */
static struct ibv_wc take(void)
{
	struct ibv_cq *cq;
	struct ibv_wc wc;
	void *own;
	int got;

	while (!(got = ibv_poll_cq(receive_cq, 1, &wc))) {
		need(!ibv_req_notify_cq(receive_cq, 0), "ibv_req_notify_cq");
		got = ibv_poll_cq(receive_cq, 1, &wc);
		if (got)
			break;
		need(!ibv_get_cq_event(channel, &cq, &own), "ibv_get_cq_event");
		ibv_ack_cq_events(cq, 1);
	}
	need(got == 1 && !wc.status, "a receive");
	receive(wc.wr_id);
	return wc;
}

static void be_receiver(const union ibv_gid *group, unsigned mlid, unsigned lid)
{
	struct ibv_ah *sender = NULL;
	struct ibv_wc wc;

	need(!ibv_attach_mcast(qp, group, (uint16_t)mlid), "ibv_attach_mcast");
	printf("%u %u\n", lid, qp->qp_num);
	fflush(stdout);
	for (uint32_t number = 0;; number++) {
		wc = take();
		if (ntohl(wc.imm_data) == LAST)
			return;
		need(ntohl(wc.imm_data) == number && wc.byte_len == GRH + BYTES, "go on: one is missing");
		if (!sender)
			sender = way_to(wc.slid, NULL);
		if (number % WINDOW == WINDOW - 1)
			send_to(sender, wc.src_qp, 4, number);
	}
}

static double now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
	struct ibv_ah *ah[PEERS_MAX], *to_group;
	unsigned qpn[PEERS_MAX], peers, mlid;
	struct ibv_port_attr port;
	union ibv_gid group;
	uint32_t number = 0;

	need(argc >= 4 && inet_pton(AF_INET6, argv[3], &group) == 1,
	     "usage: group_rate receive|send MLID MGID ...");
	mlid = (unsigned)strtoul(argv[2], NULL, 0);
	set_up(&port);
	if (!strcmp(argv[1], "receive")) {
		be_receiver(&group, mlid, port.lid);
		return 0;
	}
	peers = argc > 6 ? (unsigned)(argc - 5) / 2 : 0;
	need(peers && peers <= PEERS_MAX, "usage: group_rate send MLID MGID ROUNDS LID QPN ...");
	for (unsigned i = 0; i < peers; i++) {
		ah[i] = way_to((unsigned)atoi(argv[5 + 2 * i]), NULL);
		qpn[i] = (unsigned)atoi(argv[6 + 2 * i]);
	}
	to_group = way_to(mlid, &group);
	for (unsigned turn = 0; turn < 2 * TURNS; turn++) {
		/* In the first turns peers get to know each other. */
		unsigned rounds = turn < 2 ? 4 : (unsigned)atoi(argv[4]);
		double begin_s = now_s();

		for (unsigned i = 0; i < rounds * WINDOW; i++, number++) {
			for (unsigned k = 0; turn & 1 && k < peers; k++)
				send_to(ah[k], qpn[k], BYTES, number);
			if (!(turn & 1))
				send_to(to_group, 0xffffff, BYTES, number);
			for (unsigned k = 0; number % WINDOW == WINDOW - 1 && k < peers; k++)
				take();
		}
		if (turn > 1)
			printf("%s %.0f\n", turn & 1 ? "unicast" : "group",
			       rounds * WINDOW * (double)peers / (now_s() - begin_s));
	}
	for (unsigned i = 0; i < peers; i++)
		send_to(ah[i], qpn[i], 4, LAST);
	return 0;
}
