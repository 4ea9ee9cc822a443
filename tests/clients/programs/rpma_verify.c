/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Remote memory through librpma: rpma_verify server ADDRESS PORT offers 4 MiB; rpma_verify client ADDRESS PORT
 * writes to it, flushes, adds an atomic write, reads everything back and compares. Ordinary memory takes the
 * place of persistent memory.
 */
#include <errno.h>
#include <librpma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BYTES	(4u << 20)
#define PART	(256u << 10)

static void expect(int error, const char *call)
{
	if (!error)
		return;
	fprintf(stderr, "%s: %s (errno %s)\n", call, rpma_err_2str(error), strerror(errno));
	exit(1);
}
#define EXPECT(call)	expect(call, #call)

static struct rpma_peer *peer_of(const char *address, enum rpma_util_ibv_context_type type)
{
	struct ibv_context *context;
	struct rpma_peer *peer;

	EXPECT(rpma_utils_get_ibv_context(address, type, &context));
	EXPECT(rpma_peer_new(context, &peer));
	return peer;
}

static void await_event(struct rpma_conn *conn, enum rpma_conn_event wanted)
{
	enum rpma_conn_event event;

	EXPECT(rpma_conn_next_event(conn, &event));
	if (event == wanted)
		return;
	fprintf(stderr, "event %s, expected %s\n", rpma_utils_conn_event_2str(event),
		rpma_utils_conn_event_2str(wanted));
	exit(1);
}

static void leave(struct rpma_conn *conn, struct rpma_mr_local *mr, struct rpma_peer *peer, void *memory)
{
	EXPECT(rpma_conn_delete(&conn));
	EXPECT(rpma_mr_dereg(&mr));
	EXPECT(rpma_peer_delete(&peer));
	free(memory);
}

static void serve(const char *address, const char *port)
{
	struct rpma_peer *peer = peer_of(address, RPMA_UTIL_IBV_CONTEXT_LOCAL);
	void *memory = aligned_alloc(4096, BYTES);
	struct rpma_conn_private_data offer;
	struct rpma_conn_req *request;
	struct rpma_mr_local *mr;
	struct rpma_conn *conn;
	struct rpma_ep *ep;
	size_t size;

	EXPECT(rpma_mr_reg(peer, memory, BYTES, RPMA_MR_USAGE_READ_SRC | RPMA_MR_USAGE_WRITE_DST |
			   RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY, &mr));
	EXPECT(rpma_mr_get_descriptor_size(mr, &size));
	offer.ptr = malloc(size);
	offer.len = (uint8_t)size;
	EXPECT(rpma_mr_get_descriptor(mr, offer.ptr));
	EXPECT(rpma_ep_listen(peer, address, port, &ep));
	EXPECT(rpma_ep_next_conn_req(ep, NULL, &request));
	EXPECT(rpma_conn_req_connect(&request, &offer, &conn));
	await_event(conn, RPMA_CONN_ESTABLISHED);
	await_event(conn, RPMA_CONN_CLOSED);
	EXPECT(rpma_conn_disconnect(conn));
	EXPECT(rpma_ep_shutdown(&ep));
	free(offer.ptr);
	leave(conn, mr, peer, memory);
}

static void await_completion(struct rpma_conn *conn, const void *context)
{
	struct rpma_cq *cq;
	struct ibv_wc wc;
	int got;

	EXPECT(rpma_conn_get_cq(conn, &cq));
	do {
		EXPECT(rpma_cq_wait(cq));
		got = rpma_cq_get_wc(cq, 1, &wc, NULL);
	} while (got == RPMA_E_NO_COMPLETION);
	expect(got, "rpma_cq_get_wc");
	if (wc.status == IBV_WC_SUCCESS && wc.wr_id == (uintptr_t)context)
		return;
	fprintf(stderr, "completion of %llx with status %d\n", (unsigned long long)wc.wr_id, wc.status);
	exit(1);
}

static void use(const char *address, const char *port)
{
	struct rpma_peer *peer = peer_of(address, RPMA_UTIL_IBV_CONTEXT_REMOTE);
	unsigned char *memory = aligned_alloc(4096, 2 * BYTES);
	struct rpma_conn_private_data offer;
	struct rpma_conn_req *request;
	struct rpma_mr_remote *remote;
	struct rpma_mr_local *mr;
	struct rpma_conn *conn;
	size_t size;

	for (unsigned i = 0; i < BYTES; i++)
		memory[i] = (unsigned char)(i * 13 + i / 509);
	memset(memory + BYTES, 0, BYTES);
	EXPECT(rpma_mr_reg(peer, memory, 2 * BYTES, RPMA_MR_USAGE_WRITE_SRC | RPMA_MR_USAGE_READ_DST, &mr));
	EXPECT(rpma_conn_req_new(peer, address, port, NULL, &request));
	EXPECT(rpma_conn_req_connect(&request, NULL, &conn));
	await_event(conn, RPMA_CONN_ESTABLISHED);
	EXPECT(rpma_conn_get_private_data(conn, &offer));
	EXPECT(rpma_mr_remote_from_descriptor(offer.ptr, offer.len, &remote));
	EXPECT(rpma_mr_remote_get_size(remote, &size));
	if (size != BYTES) {
		fprintf(stderr, "the server offers %zu bytes\n", size);
		exit(1);
	}
	for (size_t at = 0; at < BYTES; at += PART) {
		EXPECT(rpma_write(conn, remote, at, mr, at, PART, RPMA_F_COMPLETION_ON_ERROR, NULL));
		EXPECT(rpma_flush(conn, remote, at, PART, RPMA_FLUSH_TYPE_VISIBILITY, RPMA_F_COMPLETION_ALWAYS,
				  memory + at));
		await_completion(conn, memory + at);
	}
	memcpy(memory + 64, "at once!", 8);
	EXPECT(rpma_atomic_write(conn, remote, 64, (char *)memory + 64, RPMA_F_COMPLETION_ALWAYS, NULL));
	await_completion(conn, NULL);
	EXPECT(rpma_read(conn, mr, BYTES, remote, 0, BYTES, RPMA_F_COMPLETION_ALWAYS, memory));
	await_completion(conn, memory);
	if (memcmp(memory, memory + BYTES, BYTES)) {
		fprintf(stderr, "what is read is not what was written\n");
		exit(1);
	}
	EXPECT(rpma_mr_remote_delete(&remote));
	EXPECT(rpma_conn_disconnect(conn));
	await_event(conn, RPMA_CONN_CLOSED);
	leave(conn, mr, peer, memory);
	printf("%u bytes: right\n", BYTES);
}

int main(int argc, char **argv)
{
	if (argc == 4 && !strcmp(argv[1], "server"))
		serve(argv[2], argv[3]);
	else if (argc == 4 && !strcmp(argv[1], "client"))
		use(argv[2], argv[3]);
	else
		return 2;
	return 0;
}
