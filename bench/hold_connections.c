/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What connections cost that are held and not used: one listener and one client process set up N of
 * them by rdma_cm, send a message over each, then sleep. Prints, for both sides, the resident memory
 * and the file descriptors that a connection added, and the CPU time spent asleep.
 * Plain API. Usage: hold_connections [N [SECONDS [ADDRESS [PORT]]]]
 */
#include <errno.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <dirent.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "process_cost.h"

#define INFLIGHT	64
#define PATIENCE_MS	5000

static unsigned count = 10000, seconds = 5;
static const char *address = "127.0.0.1", *port = "18515", *role = "server";
static int sock;			/* to the other process */
static struct rdma_event_channel *channel;
static struct rdma_cm_id **ids;		/* of the established connections */
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_mr *mr;
static char memory[64];

static void must(int failed, const char *what)
{
	if (failed) {
		fprintf(stderr, "hold_connections: %s: %s: %m\n", role, what);
		exit(1);
	}
}

/* Both processes are here. */
static void meet(void)
{
	char byte = 0;

	must(send(sock, &byte, 1, MSG_NOSIGNAL) != 1, "send");
	must(recv(sock, &byte, 1, 0) != 1, "recv from the other process");
}

static long descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	long found = -3;		/* this one, . and .. */

	while (dir && readdir(dir))
		found++;
	if (dir)
		closedir(dir);
	return found;
}

/* A queue pair for @id, and a receive on it; the objects that all share come with the first. */
static void make_qp(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr attr = { .qp_type = IBV_QPT_RC, .cap = { 1, 1, 1, 1, 0 } };
	struct ibv_sge sge = { .addr = (uintptr_t)memory, .length = 8 };
	struct ibv_recv_wr *bad, wr = { .sg_list = &sge, .num_sge = 1 };

	if (!pd) {
		pd = ibv_alloc_pd(id->verbs);
		must(!pd, "ibv_alloc_pd");
		mr = ibv_reg_mr(pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE);
		must(!mr, "ibv_reg_mr");
		cq = ibv_create_cq(id->verbs, (int)count * 2, NULL, NULL, 0);
		must(!cq, "ibv_create_cq");
	}
	attr.send_cq = attr.recv_cq = cq;
	must(rdma_create_qp(id, pd, &attr), "rdma_create_qp");
	sge.lkey = mr->lkey;
	must(ibv_post_recv(id->qp, &wr, &bad), "ibv_post_recv");
}

/* The next event, acknowledged; its kind, and the ID that it is about. */
static enum rdma_cm_event_type next_event(struct rdma_cm_id **id)
{
	struct rdma_cm_event *event;
	enum rdma_cm_event_type kind;

	must(rdma_get_cm_event(channel, &event), "rdma_get_cm_event");
	kind = event->event;
	*id = event->id;
	if (event->status) {
		fprintf(stderr, "hold_connections: %s: %s, status %d\n", role,
			rdma_event_str(kind), event->status);
		exit(1);
	}
	must(rdma_ack_cm_event(event), "rdma_ack_cm_event");
	return kind;
}

static struct rdma_addrinfo *address_info(bool passive)
{
	struct rdma_addrinfo *found, hints = { .ai_port_space = RDMA_PS_TCP,
					       .ai_flags = passive ? RAI_PASSIVE : 0 };

	errno = EADDRNOTAVAIL;
	must(rdma_getaddrinfo((char *)address, (char *)port, &hints, &found),
	     "rdma_getaddrinfo");
	return found;
}

static void serve(void)
{
	struct rdma_conn_param param = { .rnr_retry_count = 7 };
	struct rdma_addrinfo *any = address_info(true);
	struct rdma_cm_id *listener, *id;

	must(rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP), "rdma_create_id");
	must(rdma_bind_addr(listener, any->ai_src_addr), "rdma_bind_addr");
	must(rdma_listen(listener, INFLIGHT), "rdma_listen");
	meet();
	for (unsigned established = 0; established < count;) {
		enum rdma_cm_event_type kind = next_event(&id);

		if (kind == RDMA_CM_EVENT_CONNECT_REQUEST) {
			make_qp(id);
			must(rdma_accept(id, &param), "rdma_accept");
		} else {
			must(kind != RDMA_CM_EVENT_ESTABLISHED, rdma_event_str(kind));
			ids[established++] = id;
		}
	}
}

static void start(const struct sockaddr *server)
{
	struct rdma_cm_id *id;

	must(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), "rdma_create_id");
	must(rdma_resolve_addr(id, NULL, (struct sockaddr *)server, PATIENCE_MS),
	     "rdma_resolve_addr");
}

static void connect_all(void)
{
	struct rdma_conn_param param = { .retry_count = 7, .rnr_retry_count = 7 };
	struct rdma_addrinfo *server = address_info(false);
	unsigned begun = 0, established = 0;
	struct rdma_cm_id *id;

	meet();
	for (; begun < INFLIGHT && begun < count; begun++)
		start(server->ai_dst_addr);
	while (established < count) {
		enum rdma_cm_event_type kind = next_event(&id);

		if (kind == RDMA_CM_EVENT_ADDR_RESOLVED) {
			make_qp(id);
			must(rdma_resolve_route(id, PATIENCE_MS), "rdma_resolve_route");
		} else if (kind == RDMA_CM_EVENT_ROUTE_RESOLVED) {
			must(rdma_connect(id, &param), "rdma_connect");
		} else {
			must(kind != RDMA_CM_EVENT_ESTABLISHED, rdma_event_str(kind));
			ids[established++] = id;
			if (begun < count)
				start(server->ai_dst_addr), begun++;
		}
	}
	rdma_freeaddrinfo(server);
}

/* Eight bytes over each connection, from the client: it proves that they are there. */
static void use_all(bool client)
{
	struct ibv_sge sge = { .addr = (uintptr_t)memory, .length = 8, .lkey = mr->lkey };
	struct ibv_send_wr *bad, wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND,
					.send_flags = IBV_SEND_SIGNALED };

	for (unsigned i = 0, done = 0; done < count;) {
		struct ibv_wc wc;

		if (client && i < count)
			must(ibv_post_send(ids[i++]->qp, &wr, &bad), "ibv_post_send");
		while (ibv_poll_cq(cq, 1, &wc) > 0) {
			errno = EIO;
			must(wc.status, ibv_wc_status_str(wc.status));
			done++;
		}
	}
}

static void report(long memory_before, long descriptors_before)
{
	double begin;

	sleep(1);			/* timers of the last exchange run out */
	begin = cpu_seconds();
	sleep(seconds);
	begin = cpu_seconds() - begin;
	printf("%s: connections %u\n%s: idle cpu %.4f %%\n%s: bytes per connection %ld\n"
	       "%s: descriptors added %ld\n", role, count, role, begin / seconds * 100, role,
	       (resident() - memory_before) / count, role, descriptors() - descriptors_before);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	int pair[2], status = 0;
	long memory_before, descriptors_before;
	pid_t child;

	count = argc > 1 ? (unsigned)atoi(argv[1]) : count;
	seconds = argc > 2 ? (unsigned)atoi(argv[2]) : seconds;
	address = argc > 3 ? argv[3] : address;
	port = argc > 4 ? argv[4] : port;
	ids = calloc(count, sizeof(*ids));
	must(!count || !seconds || !ids || socketpair(AF_UNIX, SOCK_STREAM, 0, pair), "start");
	child = fork();
	must(child < 0, "fork");
	role = child ? "server" : "client";
	sock = pair[!child];
	close(pair[!!child]);
	channel = rdma_create_event_channel();
	must(!channel, "rdma_create_event_channel");
	memset(ids, 1, count * sizeof(*ids));	/* resident before the count begins */
	memory_before = resident();
	descriptors_before = descriptors();
	child ? serve() : connect_all();
	meet();
	use_all(!child);
	meet();
	report(memory_before, descriptors_before);
	meet();				/* nobody disconnects while the other measures */
	if (child)
		must(waitpid(child, &status, 0) != child || status, "the client");
	return 0;
}
