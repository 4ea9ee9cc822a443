/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The smallest whole RDMA program: one process writes into the memory of another, then sends a message.
 *	hello_verbs [-d DEVICE] [-g GID_INDEX]		the server waits
 *	hello_verbs [-d DEVICE] [-g GID_INDEX] SERVER	the client writes and sends
 * Start with main(), at the end. Build: gcc hello_verbs.c -o hello_verbs -libverbs
 */
#include <arpa/inet.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What each side must know of the other. It travels over TCP, as text. */
struct side {
	unsigned lid, qpn, psn, rkey;	/* InfiniBand address (0 on RoCE); queue pair; first packet; key */
	unsigned long long address;	/* of the buffer, in the process that owns it */
	union ibv_gid gid;		/* address on RoCE, written like an IPv6 address */
};

static void must(int err, const char *what)	/* for calls that return 0 or an errno */
{
	if (err)
		fprintf(stderr, "hello_verbs: %s: %s\n", what, strerror(err)), exit(1);
}

static void *need(void *pointer, const char *what)	/* for those that return NULL, set errno */
{
	must(pointer ? 0 : errno, what);
	return pointer;
}

static struct ibv_context *open_device(const char *name)
{
	struct ibv_device **list = need(ibv_get_device_list(NULL), "ibv_get_device_list");

	while (name && *list && strcmp(ibv_get_device_name(*list), name))
		list++;
	must(*list ? 0 : ENODEV, name ? name : "no RDMA device");
	return need(ibv_open_device(*list), "ibv_open_device");
}

static FILE *meet(const char *server)	/* by TCP: the client connects, the server waits for it */
{
	struct addrinfo *a, hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE };
	int fd = -1, on = 1, failed = 1;

	must(getaddrinfo(server, "18515", &hints, &a) ? EHOSTUNREACH : 0, "getaddrinfo");
	for (; a && failed; a = a->ai_next) {
		fd = socket(a->ai_family, a->ai_socktype, 0);
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
		failed = server ? connect(fd, a->ai_addr, a->ai_addrlen)
				: bind(fd, a->ai_addr, a->ai_addrlen) || listen(fd, 1);
	}
	must(failed ? errno : 0, server ? "connect" : "bind");
	return need(fdopen(server ? fd : accept(fd, NULL, NULL), "r"), "accept");
}

static void exchange(FILE *tcp, const struct side *us, struct side *them)
{
	char gid[INET6_ADDRSTRLEN];

	inet_ntop(AF_INET6, &us->gid, gid, sizeof(gid));
	dprintf(fileno(tcp), "%u %u %u %u %llu %s\n", us->lid, us->qpn, us->psn, us->rkey,
		us->address, gid);
	if (fscanf(tcp, "%u %u %u %u %llu %45s", &them->lid, &them->qpn, &them->psn, &them->rkey,
		   &them->address, gid) != 6 || inet_pton(AF_INET6, gid, &them->gid) != 1)
		must(EPROTO, "the other side left");
}

/*
 * A queue pair is made ready in three steps: INIT, ready to receive (RTR), ready to send (RTS).
 *	min_rnr_timer 12	who sends before we have a receive waits 0.64 ms (IBTA table 45)
 *	timeout 14		who hears nothing for 4.096 us * 2^14 = 67 ms sends again
 *	retry_cnt 7		seven times; then the request fails, and with it the queue pair
 *	rnr_retry 7		for ever, where the other side has no receive yet
 *	hop_limit 64		routers on the way, at most, as in IP
 */
static void connect_qp(struct ibv_qp *qp, int gid, const struct side *us, const struct side *them)
{
	struct ibv_qp_attr init = { .qp_state = IBV_QPS_INIT, .port_num = 1,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE };
	struct ibv_qp_attr rtr = { .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024,
		.dest_qp_num = them->qpn, .rq_psn = them->psn, .min_rnr_timer = 12, .ah_attr = {
			.dlid = them->lid, .port_num = 1, .is_global = gid >= 0, .grh = {
				.dgid = them->gid, .sgid_index = gid, .hop_limit = 64 } } };
	struct ibv_qp_attr rts = { .qp_state = IBV_QPS_RTS, .sq_psn = us->psn, .timeout = 14,
		.retry_cnt = 7, .rnr_retry = 7 };

	must(ibv_modify_qp(qp, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
			   IBV_QP_ACCESS_FLAGS), "ibv_modify_qp to INIT");
	must(ibv_modify_qp(qp, &rtr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
			   IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
	     "ibv_modify_qp to RTR");
	must(ibv_modify_qp(qp, &rts, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT |
			   IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC),
	     "ibv_modify_qp to RTS");
}

/* Every request that asks for it (IBV_SEND_SIGNALED), and every receive, ends with a completion. */
static void wait_for_completion(struct ibv_cq *cq)
{
	struct ibv_wc wc;
	int done;

	while ((done = ibv_poll_cq(cq, 1, &wc)) == 0)
		;
	must(done < 0 || wc.status ? EIO : 0, ibv_wc_status_str(wc.status));
}

/* Our text, which lies in @mr, goes into their memory; their program takes no part in it. */
static void rdma_write(struct ibv_qp *qp, struct ibv_mr *mr, const struct side *them)
{
	struct ibv_sge text = { (uintptr_t)strcpy(mr->addr, "hello verbs"), 12, mr->lkey };
	struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED,
		.sg_list = &text, .num_sge = 1, .wr.rdma = { them->address, them->rkey } }, *bad;

	must(ibv_post_send(qp, &wr, &bad), "ibv_post_send");
	wait_for_completion(qp->send_cq);
}

/* A message without data. It takes a receive there: so it tells that the WRITE before it is done. */
static void send_word(struct ibv_qp *qp)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED }, *bad;

	must(ibv_post_send(qp, &wr, &bad), "ibv_post_send");
	wait_for_completion(qp->send_cq);
}

/* Say where a message may go, before the other side can send it; this one has no data. */
static void expect_word(struct ibv_qp *qp)
{
	struct ibv_recv_wr wr = { .wr_id = 1 }, *bad;

	must(ibv_post_recv(qp, &wr, &bad), "ibv_post_recv");
}

int main(int argc, char **argv)
{
	struct side us = { .psn = getpid() & 0xffffff }, them;
	const char *device = NULL, *server;
	struct ibv_port_attr port;
	char buffer[64] = "";
	int option, gid = -1;

	while ((option = getopt(argc, argv, "d:g:")) != -1) {
		must(option == '?' ? EINVAL : 0, "[-d device] [-g gid index] [server]");
		option == 'd' ? (device = optarg) : (gid = atoi(optarg), optarg);
	}
	server = argv[optind];

	/* The device; memory that others may write; a queue of completions; a queue pair. */
	struct ibv_context *context = open_device(device);
	struct ibv_pd *pd = need(ibv_alloc_pd(context), "ibv_alloc_pd");
	struct ibv_mr *mr = need(ibv_reg_mr(pd, buffer, sizeof(buffer), IBV_ACCESS_LOCAL_WRITE |
					    IBV_ACCESS_REMOTE_WRITE), "ibv_reg_mr");
	struct ibv_cq *cq = need(ibv_create_cq(context, 1, NULL, NULL, 0), "ibv_create_cq");
	struct ibv_qp_init_attr attr = { .qp_type = IBV_QPT_RC, .send_cq = cq, .recv_cq = cq,
		.cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1 } };
	struct ibv_qp *qp = need(ibv_create_qp(pd, &attr), "ibv_create_qp");

	/* Who are we? On RoCE, GIDs are the addresses: index 1 is an IP address on most devices. */
	must(ibv_query_port(context, 1, &port), "ibv_query_port");
	if (gid < 0 && port.link_layer == IBV_LINK_LAYER_ETHERNET)
		gid = 1;
	must(gid >= 0 && ibv_query_gid(context, 1, gid, &us.gid) ? errno : 0, "ibv_query_gid");
	us.lid = port.lid, us.qpn = qp->qp_num, us.rkey = mr->rkey, us.address = (uintptr_t)buffer;

	FILE *tcp = meet(server);
	exchange(tcp, &us, &them);
	connect_qp(qp, gid, &us, &them);
	if (!server)
		expect_word(qp);
	exchange(tcp, &us, &them);	/* both are ready */
	if (server) {
		rdma_write(qp, mr, &them);
		send_word(qp);
	} else {
		wait_for_completion(cq);	/* of the receive */
	}
	printf(server ? "wrote: %s\n" : "the client wrote: %s\n", buffer);
	exchange(tcp, &us, &them);	/* neither side needs the other's queue pair any more */

	/* In the opposite order: what is in use cannot be destroyed (EBUSY). */
	must(ibv_destroy_qp(qp), "ibv_destroy_qp");
	must(ibv_destroy_cq(cq), "ibv_destroy_cq");
	must(ibv_dereg_mr(mr), "ibv_dereg_mr");
	must(ibv_dealloc_pd(pd), "ibv_dealloc_pd");
	must(ibv_close_device(context) ? errno : 0, "ibv_close_device");
	fclose(tcp);
}
