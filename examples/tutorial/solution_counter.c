/* SPDX-License-Identifier: BSD-2-Clause */
/* Exercise 2 of step 12: clients count in the server's memory, and its program only looks. */
#include <errno.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CLIENTS = 3, ADDS = 1000 };

struct target {			/* private data of the accept: where the counter is */
	uint64_t address;
	uint32_t rkey;
};

static struct ibv_qp_init_attr attr = { .qp_type = IBV_QPT_RC, .sq_sig_all = 1, .cap = {
	.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 } };

static void must(int failed, const char *what)
{
	if (failed) {
		fprintf(stderr, "%s: %s\n", what, strerror(errno));
		exit(1);
	}
}

static void count(const char *port)
{
	struct rdma_conn_param param = { .initiator_depth = 1, .retry_count = 7 };
	struct rdma_addrinfo *info, hints = { .ai_port_space = RDMA_PS_TCP };
	struct ibv_send_wr *bad, wr = { .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD, .num_sge = 1 };
	struct target target;
	struct rdma_cm_id *id;
	struct ibv_sge sge;
	struct ibv_mr *mr;
	struct ibv_wc wc;
	uint64_t old;

	must(rdma_getaddrinfo("127.0.0.1", port, &hints, &info), "rdma_getaddrinfo");
	must(rdma_create_ep(&id, info, NULL, &attr), "rdma_create_ep");
	mr = rdma_reg_msgs(id, &old, sizeof(old));
	must(!mr || rdma_connect(id, &param), "rdma_connect");
	memcpy(&target, id->event->param.conn.private_data, sizeof(target));
	sge = (struct ibv_sge){ (uintptr_t)&old, sizeof(old), mr->lkey };
	wr.sg_list = &sge;
	wr.wr.atomic.remote_addr = target.address;
	wr.wr.atomic.rkey = target.rkey;
	wr.wr.atomic.compare_add = 1;
	for (int i = 0; i < ADDS; i++)
		must((errno = ibv_post_send(id->qp, &wr, &bad)) ||
		     rdma_get_send_comp(id, &wc) != 1 || wc.status, "FETCH_AND_ADD");
	rdma_disconnect(id);
	exit(0);
}

int main(void)
{
	struct rdma_addrinfo *info, hints = { .ai_flags = RAI_PASSIVE, .ai_port_space = RDMA_PS_TCP };
	static volatile uint64_t counter;
	struct rdma_cm_id *listener, *id[CLIENTS];
	struct target target = { .address = (uintptr_t)&counter };
	struct rdma_conn_param param = { .responder_resources = 1, .private_data = &target,
					 .private_data_len = sizeof(target) };
	int ends[2];
	char port[8] = "";
	pid_t clients[CLIENTS];

	must(pipe(ends), "pipe");
	for (int i = 0; i < CLIENTS; i++)
		if (!(clients[i] = fork()))
			must(read(ends[0], port, sizeof(port)) <= 0, "read"), count(port);
	must(rdma_getaddrinfo("127.0.0.1", NULL, &hints, &info), "rdma_getaddrinfo");
	must(rdma_create_ep(&listener, info, NULL, &attr), "rdma_create_ep");
	must(rdma_listen(listener, CLIENTS), "rdma_listen");
	snprintf(port, sizeof(port), "%u", ntohs(rdma_get_src_port(listener)));
	for (int i = 0; i < CLIENTS; i++)
		must(write(ends[1], port, sizeof(port)) != sizeof(port), "write");
	for (int i = 0; i < CLIENTS; i++) {
		struct ibv_mr *mr;

		must(rdma_get_request(listener, &id[i]), "rdma_get_request");
		mr = ibv_reg_mr(id[i]->pd, (void *)&counter, sizeof(counter),
				IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC);
		must(!mr, "ibv_reg_mr");
		target.rkey = mr->rkey;
		must(rdma_accept(id[i], &param), "rdma_accept");
	}
	for (int i = 0; i < CLIENTS; i++)
		waitpid(clients[i], NULL, 0);
	printf("%d clients added to %llu\n", CLIENTS, (unsigned long long)counter);
	return counter != CLIENTS * ADDS;
}
