/* SPDX-License-Identifier: BSD-2-Clause */
/* Step 11: two processes, connected by rdma_cm: addresses and ports instead of numbers and GIDs. */
#include <errno.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char buffer[64];
static struct ibv_qp_init_attr attr = { .qp_type = IBV_QPT_RC, .sq_sig_all = 1, .cap = {
	.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1,
	.max_inline_data = sizeof(buffer) } };

static void must(int failed, const char *what)
{
	if (failed) {
		fprintf(stderr, "%s: %s\n", what, strerror(errno));
		exit(1);
	}
}

/* Ids and queue pairs in one call each: rdma_create_ep() does what step 7 did by hand. */
static void serve(int port_pipe)
{
	struct rdma_addrinfo *info, hints = { .ai_flags = RAI_PASSIVE, .ai_port_space = RDMA_PS_TCP };
	struct rdma_cm_id *listener, *id;
	struct ibv_wc wc;
	struct ibv_mr *mr;
	uint16_t port;

	must(rdma_getaddrinfo("127.0.0.1", NULL, &hints, &info), "rdma_getaddrinfo");
	must(rdma_create_ep(&listener, info, NULL, &attr), "rdma_create_ep");
	must(rdma_listen(listener, 1), "rdma_listen");
	port = ntohs(rdma_get_src_port(listener));
	must(write(port_pipe, &port, sizeof(port)) < 0, "write");
	must(rdma_get_request(listener, &id), "rdma_get_request");
	mr = rdma_reg_msgs(id, buffer, sizeof(buffer));
	must(!mr, "rdma_reg_msgs");
	/* The receive before the accept: the client may send as soon as it is accepted. */
	must(rdma_post_recv(id, NULL, buffer, sizeof(buffer), mr), "rdma_post_recv");
	must(rdma_accept(id, NULL), "rdma_accept");
	must(rdma_get_recv_comp(id, &wc) != 1 || wc.status, "receive");
	printf("server: got \"%s\"\n", buffer);
	rdma_disconnect(id);
	rdma_dereg_mr(mr);
	rdma_destroy_ep(id);
	rdma_destroy_ep(listener);
	exit(0);
}

int main(void)
{
	struct rdma_addrinfo *info, hints = { .ai_port_space = RDMA_PS_TCP };
	struct rdma_cm_id *id;
	struct ibv_wc wc;
	int ends[2], status;
	char service[8];
	uint16_t port;

	must(pipe(ends), "pipe");
	if (fork() == 0)	/* before the first verb: a child cannot use its parent's objects */
		serve(ends[1]);
	must(read(ends[0], &port, sizeof(port)) != sizeof(port), "no server");
	snprintf(service, sizeof(service), "%u", port);
	must(rdma_getaddrinfo("127.0.0.1", service, &hints, &info), "rdma_getaddrinfo");
	must(rdma_create_ep(&id, info, NULL, &attr), "rdma_create_ep");
	must(rdma_connect(id, NULL), "rdma_connect");
	printf("client: connected\n");
	fflush(stdout);
	strcpy(buffer, "hello by rdma_cm");
	must(rdma_post_send(id, NULL, buffer, sizeof(buffer), NULL, IBV_SEND_INLINE), "rdma_post_send");
	must(rdma_get_send_comp(id, &wc) != 1 || wc.status, "send");
	wait(&status);
	rdma_disconnect(id);
	rdma_destroy_ep(id);
	return WEXITSTATUS(status);
}
