/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One process writes into the memory of another, as in hello_verbs. What is done by hand there (find
 * the device, exchange addresses, connect the queue pairs) rdma_cm does, and reports as events.
 *	hello_cm [-p PORT]		the server waits for one client
 *	hello_cm [-p PORT] SERVER	the client writes
 * The comments in client() and server() are the steps of rdma_cm(7), in its order.
 * Build: gcc hello_cm.c -o hello_cm -lrdmacm -libverbs
 */
#include <arpa/inet.h>
#include <errno.h>
#include <rdma/rdma_verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char buffer[64];

struct target {			/* the server's private data, in network order */
	uint64_t address;
	uint32_t rkey;
};

static struct ibv_qp_init_attr qp_attr = {	/* without CQs: rdma_create_qp makes them */
	.qp_type = IBV_QPT_RC, .cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1 } };

static void must(int failed, const char *what)	/* calls return -1 or NULL, and set errno */
{
	if (failed)
		fprintf(stderr, "hello_cm: %s: %s\n", what, strerror(errno)), exit(1);
}

/* Wait for the event that has to come next. All others that can come are ways to fail. */
static struct rdma_cm_event *await(struct rdma_event_channel *channel,
				   enum rdma_cm_event_type wanted)
{
	struct rdma_cm_event *event;

	must(rdma_get_cm_event(channel, &event), "rdma_get_cm_event");
	if (event->event != wanted)	/* status: -errno; 8 when it is that nobody listens there */
		fprintf(stderr, "hello_cm: received %s (status %d), expected %s\n",
			rdma_event_str(event->event), event->status, rdma_event_str(wanted)),
			exit(1);
	return event;
}

/* Our text goes into the server's memory; its program takes no part in it. */
static void transfer(struct rdma_cm_id *id, const struct target *target)
{
	struct ibv_mr *mr = rdma_reg_msgs(id, buffer, sizeof(buffer));
	struct ibv_wc wc;

	must(!mr, "rdma_reg_msgs");
	strcpy(buffer, "hello rdma_cm");
	must(rdma_post_write(id, NULL, buffer, strlen(buffer) + 1, mr, IBV_SEND_SIGNALED,
			     be64toh(target->address), ntohl(target->rkey)), "rdma_post_write");
	must(rdma_get_send_comp(id, &wc) != 1, "rdma_get_send_comp");
	errno = EIO;
	must(wc.status, ibv_wc_status_str(wc.status));
	printf("wrote: %s\n", buffer);
	rdma_dereg_mr(mr);
}

static void client(const char *server, const char *port)
{
	struct rdma_conn_param param = { .retry_count = 7, .rnr_retry_count = 7 };
	struct rdma_addrinfo *info, hints = { .ai_port_space = RDMA_PS_TCP };
	struct rdma_event_channel *channel;
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;
	struct target target;

	errno = EHOSTUNREACH;		/* for it may return an EAI_ code instead */
	must(rdma_getaddrinfo(server, port, &hints, &info), server);
	channel = rdma_create_event_channel();
	must(!channel, "rdma_create_event_channel");
	must(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), "rdma_create_id");

	/* Which of our devices leads there? From now on id->verbs is that device. */
	must(rdma_resolve_addr(id, NULL, info->ai_dst_addr, 2000), "rdma_resolve_addr");
	rdma_ack_cm_event(await(channel, RDMA_CM_EVENT_ADDR_RESOLVED));
	must(rdma_create_qp(id, NULL, &qp_attr), "rdma_create_qp");
	must(rdma_resolve_route(id, 2000), "rdma_resolve_route");
	rdma_ack_cm_event(await(channel, RDMA_CM_EVENT_ROUTE_RESOLVED));

	/* A request goes out (REQ); the answer (REP) holds what the server handed to rdma_accept. */
	must(rdma_connect(id, &param), "rdma_connect");
	event = await(channel, RDMA_CM_EVENT_ESTABLISHED);
	must(event->param.conn.private_data_len < sizeof(target), "private data");
	memcpy(&target, event->param.conn.private_data, sizeof(target));	/* goes with the ack */
	rdma_ack_cm_event(event);
	transfer(id, &target);

	/* Says so to the server (DREQ), and flushes the queues. */
	must(rdma_disconnect(id), "rdma_disconnect");
	rdma_ack_cm_event(await(channel, RDMA_CM_EVENT_DISCONNECTED));
	rdma_destroy_qp(id);
	must(rdma_destroy_id(id), "rdma_destroy_id");
	rdma_destroy_event_channel(channel);
}

static void server(const char *port)
{
	struct sockaddr_in any = { .sin_family = AF_INET, .sin_port = htons(atoi(port)) };
	struct rdma_conn_param param = { .rnr_retry_count = 7 };
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_event *event;
	struct rdma_cm_id *listener, *id;
	struct target target;
	struct ibv_mr *mr;

	must(!channel, "rdma_create_event_channel");
	must(rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP), "rdma_create_id");
	must(rdma_bind_addr(listener, (struct sockaddr *)&any), "rdma_bind_addr");
	must(rdma_listen(listener, 1), "rdma_listen");

	/* Each request brings an id of its own, which is bound to the device that it came to. */
	event = await(channel, RDMA_CM_EVENT_CONNECT_REQUEST);
	id = event->id;
	must(rdma_create_qp(id, NULL, &qp_attr), "rdma_create_qp");
	mr = rdma_reg_write(id, buffer, sizeof(buffer));
	must(!mr, "rdma_reg_write");
	target.address = htobe64((uintptr_t)buffer), target.rkey = htonl(mr->rkey);
	param.private_data = &target, param.private_data_len = sizeof(target);
	must(rdma_accept(id, &param), "rdma_accept");
	rdma_ack_cm_event(event);
	rdma_ack_cm_event(await(channel, RDMA_CM_EVENT_ESTABLISHED));

	/* The client writes, and leaves: nothing else tells us that it is done. */
	rdma_ack_cm_event(await(channel, RDMA_CM_EVENT_DISCONNECTED));
	must(rdma_disconnect(id), "rdma_disconnect");
	printf("the client wrote: %s\n", buffer);
	rdma_dereg_mr(mr);
	rdma_destroy_qp(id);
	must(rdma_destroy_id(id) || rdma_destroy_id(listener), "rdma_destroy_id");
	rdma_destroy_event_channel(channel);
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
