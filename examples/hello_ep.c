/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The shortest way to a connection: rdma_create_ep makes the ID, finds the device and the route and
 * creates the queue pair in one call, and without an event channel each call waits until it is done.
 * The client sends a message, the server answers with another.
 *	hello_ep [-p PORT]		the server waits for one client
 *	hello_ep [-p PORT] SERVER	the client
 * Build: gcc hello_ep.c -o hello_ep -lrdmacm -libverbs
 */
#include <errno.h>
#include <netdb.h>
#include <rdma/rdma_verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char in[64], out[64];

static void must(int failed, const char *what)	/* calls return -1 or NULL, and set errno */
{
	if (failed)
		fprintf(stderr, "hello_ep: %s: %s\n", what, strerror(errno)), exit(1);
}

/* An endpoint that leads to @node, or on which we can listen when that is NULL. */
static struct rdma_cm_id *endpoint(const char *node, const char *port)
{
	struct rdma_addrinfo *info, hints = { .ai_flags = node ? 0 : RAI_PASSIVE,
					      .ai_port_space = RDMA_PS_TCP };
	struct ibv_qp_init_attr attr = {	/* the QP's; a listener keeps it for its connections */
		.qp_type = IBV_QPT_RC, .sq_sig_all = 1, .cap = { .max_send_wr = 1, .max_recv_wr = 1,
			.max_send_sge = 1, .max_recv_sge = 1 } };
	struct rdma_cm_id *id;

	errno = EHOSTUNREACH;		/* for it may return an EAI_ code instead */
	must(rdma_getaddrinfo(node, port, &hints, &info), "rdma_getaddrinfo");
	must(rdma_create_ep(&id, info, NULL, &attr), "rdma_create_ep");
	rdma_freeaddrinfo(info);
	return id;
}

/* What comes first needs a receive before it can come: so it is posted before we connect. */
static struct ibv_mr *expect_message(struct rdma_cm_id *id)
{
	struct ibv_mr *mr = rdma_reg_msgs(id, in, sizeof(in));

	must(!mr, "rdma_reg_msgs");
	must(rdma_post_recv(id, NULL, in, sizeof(in), mr), "rdma_post_recv");
	return mr;
}

static void receive_message(struct rdma_cm_id *id)
{
	struct ibv_wc wc;

	must(rdma_get_recv_comp(id, &wc) != 1, "rdma_get_recv_comp");	/* sleeps until there is one */
	errno = ECONNRESET;
	must(wc.status, ibv_wc_status_str(wc.status));
	printf("received: %.*s\n", (int)wc.byte_len, in);
}

static void send_message(struct rdma_cm_id *id, const char *text)
{
	struct ibv_mr *mr = rdma_reg_msgs(id, out, sizeof(out));
	struct ibv_wc wc;

	must(!mr, "rdma_reg_msgs");
	strcpy(out, text);
	must(rdma_post_send(id, NULL, out, strlen(out), mr, 0), "rdma_post_send");
	must(rdma_get_send_comp(id, &wc) != 1, "rdma_get_send_comp");
	errno = ECONNRESET;
	must(wc.status, ibv_wc_status_str(wc.status));
	rdma_dereg_mr(mr);
}

static void client(const char *server, const char *port)
{
	struct rdma_cm_id *id = endpoint(server, port);
	struct ibv_mr *mr = expect_message(id);

	must(rdma_connect(id, NULL), "rdma_connect");
	send_message(id, "hello from the client");
	receive_message(id);
	must(rdma_disconnect(id), "rdma_disconnect");
	rdma_dereg_mr(mr);
	rdma_destroy_ep(id);			/* the queue pair too */
}

static void server(const char *port)
{
	struct rdma_cm_id *listener = endpoint(NULL, port), *id;
	struct ibv_mr *mr;

	must(rdma_listen(listener, 1), "rdma_listen");
	must(rdma_get_request(listener, &id), "rdma_get_request");	/* with its queue pair */
	mr = expect_message(id);
	must(rdma_accept(id, NULL), "rdma_accept");
	receive_message(id);
	send_message(id, "hello from the server");
	must(rdma_disconnect(id), "rdma_disconnect");
	rdma_dereg_mr(mr);
	rdma_destroy_ep(id);
	rdma_destroy_ep(listener);
}

int main(int argc, char **argv)
{
	const char *port = "18515";
	int option;

	while ((option = getopt(argc, argv, "p:")) == 'p')
		port = optarg;
	errno = EINVAL;
	must(option != -1, "[-p port] [server]");
	argv[optind] ? client(argv[optind], port) : server(port);
}
