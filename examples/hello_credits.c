/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Flow control in the application. The server has WINDOW receives; the client counts how many of them it
 * has used, and waits for credits, which come back in messages of the server's. So no message ever finds
 * an empty receive queue: rnr_retry_count is 0, and a single RNR NAK would end the connection.
 *	hello_credits [-p PORT]			the server waits for one client
 *	hello_credits [-p PORT] SERVER		the client sends MESSAGES messages
 * Build: gcc hello_credits.c -o hello_credits -lrdmacm -libverbs
 */
#include <errno.h>
#include <rdma/rdma_verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WINDOW = 8, MESSAGES = 1000 };

struct message {
	unsigned number;		/* of the client's message; 0: it only returns credits */
	unsigned credits;		/* receives that were posted again since the last one */
};

/* Of the client's receives at most two are used: each half of the window comes back in one message. */
static struct message in[WINDOW], out;

static void must(int failed, const char *what)	/* calls return -1 or NULL, and set errno */
{
	if (failed)
		fprintf(stderr, "hello_credits: %s: %s\n", what, strerror(errno)), exit(1);
}

static struct rdma_cm_id *endpoint(const char *node, const char *port)
{
	struct rdma_addrinfo *info, hints = { .ai_flags = node ? 0 : RAI_PASSIVE,
					      .ai_port_space = RDMA_PS_TCP };
	struct ibv_qp_init_attr attr = { .qp_type = IBV_QPT_RC, .sq_sig_all = 1,
		.cap = { .max_send_wr = 1, .max_recv_wr = WINDOW, .max_send_sge = 1, .max_recv_sge = 1 } };
	struct rdma_cm_id *id;

	errno = EHOSTUNREACH;
	must(rdma_getaddrinfo(node, port, &hints, &info), "rdma_getaddrinfo");
	must(rdma_create_ep(&id, info, NULL, &attr), "rdma_create_ep");
	rdma_freeaddrinfo(info);
	return id;
}

static struct ibv_mr *region(struct rdma_cm_id *id, void *memory, size_t bytes)
{
	struct ibv_mr *mr = rdma_reg_msgs(id, memory, bytes);

	must(!mr, "rdma_reg_msgs");
	return mr;
}

static void expect(struct rdma_cm_id *id, struct message *message, struct ibv_mr *mr)
{
	must(rdma_post_recv(id, message, message, sizeof(*message), mr), "rdma_post_recv");
}

/* The next message; its receive is to be posted again by the caller, when it has read it. */
static struct message *receive(struct rdma_cm_id *id)
{
	struct ibv_wc wc;

	must(rdma_get_recv_comp(id, &wc) != 1, "rdma_get_recv_comp");
	errno = ECONNRESET;
	must(wc.status, ibv_wc_status_str(wc.status));
	return (struct message *)(uintptr_t)wc.wr_id;
}

static void send_message(struct rdma_cm_id *id, struct ibv_mr *mr, unsigned number, unsigned credits)
{
	struct ibv_wc wc;

	out = (struct message){ number, credits };
	must(rdma_post_send(id, NULL, &out, sizeof(out), mr, 0), "rdma_post_send");
	must(rdma_get_send_comp(id, &wc) != 1, "rdma_get_send_comp");
	errno = ECONNRESET;
	must(wc.status, ibv_wc_status_str(wc.status));
}

static void client(struct rdma_cm_id *id)
{
	struct ibv_mr *ours = region(id, in, sizeof(in)), *mr = region(id, &out, sizeof(out));
	struct rdma_conn_param parameters = { .rnr_retry_count = 0 };
	unsigned credits = WINDOW, waits = 0;

	for (int i = 0; i < WINDOW; i++)
		expect(id, &in[i], ours);
	must(rdma_connect(id, &parameters), "rdma_connect");
	for (unsigned number = 1; number <= MESSAGES; number++) {
		while (!credits) {
			struct message *message = receive(id);

			credits += message->credits;
			waits++;
			expect(id, message, ours);
		}
		send_message(id, mr, number, 0);
		credits--;
	}
	printf("sent %d messages, waited for credits: %s\n", MESSAGES, waits ? "yes" : "no");
	must(rdma_disconnect(id), "rdma_disconnect");
	rdma_dereg_mr(ours);
	rdma_dereg_mr(mr);
}

static void server(struct rdma_cm_id *listener)
{
	struct rdma_conn_param parameters = { .rnr_retry_count = 0 };
	struct ibv_mr *ours, *mr;
	unsigned posted_again = 0;
	struct rdma_cm_id *id;

	must(rdma_listen(listener, 1), "rdma_listen");
	must(rdma_get_request(listener, &id), "rdma_get_request");
	ours = region(id, in, sizeof(in));
	mr = region(id, &out, sizeof(out));
	for (int i = 0; i < WINDOW; i++)
		expect(id, &in[i], ours);		/* before the client may send */
	must(rdma_accept(id, &parameters), "rdma_accept");
	for (unsigned number = 1; number <= MESSAGES; number++) {
		struct message *message = receive(id);

		errno = EPROTO;
		must(message->number != number, "the messages are out of order");
		expect(id, message, ours);		/* first the receive, then the credit for it */
		if (++posted_again == WINDOW / 2 && number < MESSAGES) {
			send_message(id, mr, 0, posted_again);
			posted_again = 0;
		}
	}
	printf("received %d messages with %d receives\n", MESSAGES, WINDOW);
	must(rdma_disconnect(id), "rdma_disconnect");
	rdma_dereg_mr(ours);
	rdma_dereg_mr(mr);
	rdma_destroy_ep(id);
}

int main(int argc, char **argv)
{
	const char *port = "18519";
	struct rdma_cm_id *id;
	int option;

	while ((option = getopt(argc, argv, "p:")) == 'p')
		port = optarg;
	errno = EINVAL;
	must(option != -1, "[-p port] [server]");
	id = endpoint(argv[optind], port);
	if (argv[optind])
		client(id);
	else
		server(id);
	rdma_destroy_ep(id);
	return 0;
}
