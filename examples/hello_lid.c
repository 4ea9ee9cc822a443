/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two processes talk by LID, as InfiniBand courses show it: no GID, no routing header (is_global
 * 0). It needs a port of InfiniBand whose LID a subnet manager has set, an adapter's or one of a
 * virtual fabric:
 *	verbatim fabric lab.topo --name lab --sm
 *	VERBATIM_FABRIC=lab VERBATIM_NODE=host1 verbatim run ./hello_lid
 *	VERBATIM_FABRIC=lab VERBATIM_NODE=host4 verbatim run ./hello_lid 127.0.0.1
 *
 *	hello_lid [-p PORT] [-l SERVICE_LEVEL]		the server waits, and answers
 *	hello_lid [-p PORT] [-l SERVICE_LEVEL] SERVER	the client sends first
 * Start with main(), at the end. Build: gcc hello_lid.c -o hello_lid -libverbs
 */
#include <errno.h>
#include <infiniband/verbs.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct end {			/* what the other side has to know of us; it goes over TCP, as text */
	unsigned lid;		/* of the port, from the subnet manager */
	unsigned qpn, psn;	/* the queue pair, and the number of its first packet */
};

static void must(int err, const char *what)
{
	if (err)
		fprintf(stderr, "hello_lid: %s: %s\n", what, strerror(err)), exit(1);
}

static void *need(void *pointer, const char *what)
{
	must(pointer ? 0 : errno, what);
	return pointer;
}

static FILE *meet(const char *server)
{
	struct addrinfo *a, hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE };
	int fd, on = 1, failed;

	must(getaddrinfo(server, "18519", &hints, &a) ? EHOSTUNREACH : 0, "getaddrinfo");
	do {
		fd = socket(a->ai_family, a->ai_socktype, 0);
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
		failed = server ? connect(fd, a->ai_addr, a->ai_addrlen)
				: bind(fd, a->ai_addr, a->ai_addrlen) || listen(fd, 1);
	} while (failed && (a = a->ai_next));
	must(failed ? errno : 0, server ? "connect" : "bind");
	return need(fdopen(server ? fd : accept(fd, NULL, NULL), "r"), "accept");
}

static void exchange(FILE *tcp, const struct end *us, struct end *them)
{
	dprintf(fileno(tcp), "%u %u %u\n", us->lid, us->qpn, us->psn);
	if (fscanf(tcp, "%u %u %u", &them->lid, &them->qpn, &them->psn) != 3)
		must(EPROTO, "the other side left");
}

/* RESET to INIT: the queue pair is of this port and partition; receives can be posted. */
static void to_init(struct ibv_qp *qp, int port)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .pkey_index = 0, .port_num = port,
		.qp_access_flags = 0 };

	must(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
			   IBV_QP_ACCESS_FLAGS), "ibv_modify_qp to INIT");
}

/* INIT to RTR, ready to receive: who the peer is, and the way there, which a LID is enough for. */
static void to_rtr(struct ibv_qp *qp, int port, int sl, enum ibv_mtu mtu, const struct end *them)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTR, .path_mtu = mtu,
		.dest_qp_num = them->qpn, .rq_psn = them->psn,
		.max_dest_rd_atomic = 1,	/* READs and atomics of the peer at a time */
		.min_rnr_timer = 12,		/* 0.64 ms: it waits so long for a receive */
		.ah_attr = { .is_global = 0, .dlid = them->lid, .sl = sl, .src_path_bits = 0,
			.port_num = port } };

	must(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
			   IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
	     "ibv_modify_qp to RTR");
}

/* RTR to RTS, ready to send: how patient we are. */
static void to_rts(struct ibv_qp *qp, const struct end *us)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS,
		.timeout = 14,			/* 4.096 us * 2^14 = 67 ms without an answer ... */
		.retry_cnt = 7,			/* ... seven times: the request fails */
		.rnr_retry = 7,			/* for ever, while there is no receive */
		.sq_psn = us->psn, .max_rd_atomic = 1 };

	must(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
			   IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC),
	     "ibv_modify_qp to RTS");
}

static void wait_for_completion(struct ibv_cq *cq)
{
	struct ibv_wc wc;
	int done;

	while ((done = ibv_poll_cq(cq, 1, &wc)) == 0)
		;
	must(done < 0 || wc.status ? EIO : 0, ibv_wc_status_str(wc.status));
}

static void expect(struct ibv_qp *qp, struct ibv_mr *mr)
{
	struct ibv_sge room = { (uintptr_t)mr->addr, (uint32_t)mr->length, mr->lkey };
	struct ibv_recv_wr wr = { .sg_list = &room, .num_sge = 1 }, *bad;

	must(ibv_post_recv(qp, &wr, &bad), "ibv_post_recv");
}

static void say(struct ibv_qp *qp, struct ibv_mr *mr, const char *text)
{
	struct ibv_sge words = { (uintptr_t)strcpy(mr->addr, text), (uint32_t)strlen(text) + 1, mr->lkey };
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED,
		.sg_list = &words, .num_sge = 1 }, *bad;

	must(ibv_post_send(qp, &wr, &bad), "ibv_post_send");
	wait_for_completion(qp->send_cq);
}

int main(int argc, char **argv)
{
	struct end us = { .psn = getpid() & 0xffffff }, them;
	char inbox[64] = "", outbox[64] = "";
	int option, port = 1, sl = 0;
	struct ibv_port_attr attr;
	const char *server;

	while ((option = getopt(argc, argv, "p:l:")) != -1) {
		must(option == '?' ? EINVAL : 0, "[-p port] [-l service level] [server]");
		*(option == 'p' ? &port : &sl) = atoi(optarg);
	}
	server = argv[optind];

	struct ibv_device **list = need(ibv_get_device_list(NULL), "ibv_get_device_list");
	must(*list ? 0 : ENODEV, "no RDMA device");
	struct ibv_context *context = need(ibv_open_device(*list), "ibv_open_device");
	ibv_free_device_list(list);
	must(ibv_query_port(context, port, &attr), "ibv_query_port");
	printf("port %d: LID %u, the subnet manager is at LID %u\n", port, attr.lid, attr.sm_lid);

	struct ibv_pd *pd = need(ibv_alloc_pd(context), "ibv_alloc_pd");
	struct ibv_mr *in = need(ibv_reg_mr(pd, inbox, sizeof(inbox), IBV_ACCESS_LOCAL_WRITE), "ibv_reg_mr");
	struct ibv_mr *out = need(ibv_reg_mr(pd, outbox, sizeof(outbox), 0), "ibv_reg_mr");
	struct ibv_cq *sent = need(ibv_create_cq(context, 1, NULL, NULL, 0), "ibv_create_cq");
	struct ibv_cq *received = need(ibv_create_cq(context, 1, NULL, NULL, 0), "ibv_create_cq");
	struct ibv_qp_init_attr qp_attr = { .qp_type = IBV_QPT_RC, .send_cq = sent, .recv_cq = received,
		.cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 } };
	struct ibv_qp *qp = need(ibv_create_qp(pd, &qp_attr), "ibv_create_qp");

	us.lid = attr.lid, us.qpn = qp->qp_num;
	to_init(qp, port);
	expect(qp, in);

	FILE *tcp = meet(server);
	exchange(tcp, &us, &them);
	to_rtr(qp, port, sl, attr.active_mtu, &them);
	to_rts(qp, &us);
	exchange(tcp, &us, &them);	/* both are ready */
	if (server)
		say(qp, out, "hello from the client");
	wait_for_completion(received);
	printf("from LID %u: %s\n", them.lid, inbox);
	if (!server)
		say(qp, out, "hello from the server");
	exchange(tcp, &us, &them);	/* neither side needs the other's queue pair any more */

	must(ibv_destroy_qp(qp), "ibv_destroy_qp");
	must(ibv_destroy_cq(sent), "ibv_destroy_cq");
	must(ibv_destroy_cq(received), "ibv_destroy_cq");
	must(ibv_dereg_mr(in), "ibv_dereg_mr");
	must(ibv_dereg_mr(out), "ibv_dereg_mr");
	must(ibv_dealloc_pd(pd), "ibv_dealloc_pd");
	must(ibv_close_device(context) ? errno : 0, "ibv_close_device");
	fclose(tcp);
}
