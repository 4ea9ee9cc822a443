/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Homework, a skeleton: data that does not lie side by side, moved by packing it first and by
 *lists. It is complete but for three tasks; docs/tutorial/homework.md says what they are, `verbatim
 *homework check` whether they are done. homework layout BYTES				the pieces,
 *a line each: FROM LENGTH TO
 *	homework [-p PORT] METHOD BYTES MEMORY		the server waits for one client
 *	homework [-p PORT] METHOD BYTES MEMORY SERVER	the client: prints the microseconds of a
 *transfer METHOD: pack or lists. MEMORY: a file. Each side reads its memory from there; the server
 *writes it back. Build: gcc homework.c -o homework -lrdmacm -libverbs
 */
#include <errno.h>
#include <rdma/rdma_verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { PIECES_MAX = 4096, LIST = 16, DEPTH = 512, ROUNDS = 20 };

struct piece { /* offsets into the client's memory and the server's */
	size_t from, bytes, to;
};

struct place { /* the peer's memory and staging area */
	uint64_t memory, staging;
	uint32_t rkey;
};

static struct piece piece[PIECES_MAX];
static unsigned pieces;
static char *memory, *staging; /* staging: room for all pieces, side by side */
static size_t memory_bytes, bytes;
static struct rdma_cm_id *id;
static struct ibv_mr *mr;	  /* of memory, staging and notes */
static struct place *ours, *peer; /* the two notes: sent, received */
static unsigned outstanding;	  /* requests without a completion */

static void must(int failed, const char *what) /* calls return -1 or NULL, and set errno */
{
	if (failed)
		fprintf(stderr, "homework: %s: %s\n", what, strerror(errno)), exit(1);
}

static void add_piece(size_t from, size_t length, size_t to)
{
	errno = E2BIG;
	must(pieces == PIECES_MAX, "too many pieces");
	piece[pieces++] = (struct piece){from, length, to};
}

/* Until at most @left requests have no completion. */
static void complete_sends(unsigned left)
{
	struct ibv_wc wc;

	for (; outstanding > left; outstanding--) {
		must(rdma_get_send_comp(id, &wc) != 1, "rdma_get_send_comp");
		errno = ECONNRESET;
		must(wc.status, ibv_wc_status_str(wc.status));
	}
}

/* After each request, which has IBV_SEND_SIGNALED. */
static void posted(int failed, const char *what)
{
	must(failed, what);
	outstanding++;
	complete_sends(DEPTH - 1);
}

static void pack(void)
{
	char *at = staging;

	for (unsigned i = 0; i < pieces; at += piece[i++].bytes)
		memcpy(at, memory + piece[i].from, piece[i].bytes);
}

static void unpack(void)
{
	const char *at = staging;

	for (unsigned i = 0; i < pieces; at += piece[i++].bytes)
		memcpy(memory + piece[i].to, at, piece[i].bytes);
}

static void pack_send(void)
{
	pack();
	posted(rdma_post_write(id, NULL, staging, bytes, mr, IBV_SEND_SIGNALED, peer->staging,
			       peer->rkey),
	       "rdma_post_write");
}

/* Task 1: a layout of your own, of @total bytes in all: many pieces, which do not lie side by side.
 */
static void make_layout(size_t total)
{
	add_piece(0, total, 0);
}

/* Task 2: the client, without a copy: requests with lists of LIST elements (rdma_post_writev,
 * rdma_post_sendv). */
static void lists_send(void)
{
	pack_send();
}

/* Task 3: the server, before the client begins (receives with lists, rdma_post_recvv) ... */
static void lists_prepare(void)
{
}

/* ... and when all has been sent, or is ready to be read (rdma_post_readv). */
static void lists_finish(void)
{
	unpack();
}

static void expect_note(void)
{
	must(rdma_post_recv(id, peer, peer, sizeof(*peer), mr), "rdma_post_recv");
}

static void send_note(void)
{
	posted(rdma_post_send(id, NULL, ours, sizeof(*ours), mr, IBV_SEND_SIGNALED),
	       "rdma_post_send");
}

/* The next one; receives of data, which are not known by @peer, complete before it. */
static void await_note(void)
{
	struct ibv_wc wc = {.wr_id = 0};

	while (wc.wr_id != (uintptr_t)peer) {
		must(rdma_get_recv_comp(id, &wc) != 1, "rdma_get_recv_comp");
		errno = ECONNRESET;
		must(wc.status, ibv_wc_status_str(wc.status));
	}
}

static int compare(const void *a, const void *b)
{
	return *(const double *)a < *(const double *)b ? -1
						       : *(const double *)a > *(const double *)b;
}

static double now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return 1e6 * (double)now.tv_sec + 1e-3 * (double)now.tv_nsec;
}

static void client(int by_lists)
{
	double us[ROUNDS], begin;

	for (int round = 0; round < ROUNDS; round++) {
		await_note(); /* the server is ready */
		expect_note();
		begin = now_us();
		by_lists ? lists_send() : pack_send();
		send_note();
		await_note(); /* all of it is in place */
		us[round] = now_us() - begin;
		expect_note();
		complete_sends(0);
	}
	qsort(us, ROUNDS, sizeof(*us), compare);
	printf("%.2f\n", us[ROUNDS / 2]);
}

static void server(int by_lists)
{
	for (int round = 0; round < ROUNDS; round++) {
		if (by_lists)
			lists_prepare();
		expect_note();
		send_note();
		await_note(); /* the client has sent */
		by_lists ? lists_finish() : unpack();
		send_note();
		complete_sends(0);
	}
}

static void connect_to(const char *node, const char *port)
{
	struct rdma_addrinfo *info,
		hints = {.ai_flags = node ? 0 : RAI_PASSIVE, .ai_port_space = RDMA_PS_TCP};
	struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_RC,
					.sq_sig_all = 1,
					.cap = {.max_send_wr = DEPTH,
						.max_recv_wr = DEPTH,
						.max_send_sge = LIST,
						.max_recv_sge = LIST}};
	struct rdma_conn_param parameters = {
		.responder_resources = 1, .initiator_depth = 1, .rnr_retry_count = 7};
	size_t all = memory_bytes + bytes + 2 * sizeof(struct place);
	struct rdma_cm_id *listener;

	errno = EHOSTUNREACH;
	must(rdma_getaddrinfo(node, port, &hints, &info), "rdma_getaddrinfo");
	must(rdma_create_ep(&id, info, NULL, &attr), "rdma_create_ep");
	rdma_freeaddrinfo(info);
	if (!node) {
		listener = id;
		must(rdma_listen(listener, 1), "rdma_listen");
		must(rdma_get_request(listener, &id), "rdma_get_request");
	}
	mr = ibv_reg_mr(id->pd, ours, all,
			IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
	must(!mr, "ibv_reg_mr");
	*ours = (struct place){(uintptr_t)memory, (uintptr_t)staging, mr->rkey};
	if (node) {
		expect_note();
		expect_note();
	}
	must(node ? rdma_connect(id, &parameters) : rdma_accept(id, &parameters), "connecting");
}

/* Notes, memory and staging area in one allocation, and one region. */
static void read_memory(const char *path)
{
	FILE *file = fopen(path, "rb");

	must(!file || fseek(file, 0, SEEK_END) || (long)(memory_bytes = ftell(file)) < 0, path);
	ours = aligned_alloc(64, (2 * sizeof(*ours) + memory_bytes + bytes + 63) / 64 * 64);
	must(!ours, "aligned_alloc");
	peer = ours + 1;
	memory = (char *)(ours + 2);
	staging = memory + memory_bytes;
	rewind(file);
	must(fread(memory, 1, memory_bytes, file) != memory_bytes, path);
	fclose(file);
}

int main(int argc, char **argv)
{
	const char *port = "18520";
	int option, by_lists;
	FILE *file;

	while ((option = getopt(argc, argv, "p:")) == 'p')
		port = optarg;
	errno = EINVAL;
	must(option != -1 || argc - optind < 2, "[-p PORT] METHOD BYTES MEMORY [SERVER]");
	bytes = strtoul(argv[optind + 1], NULL, 10);
	make_layout(bytes);
	if (!strcmp(argv[optind], "layout")) {
		for (unsigned i = 0; i < pieces; i++)
			printf("%zu %zu %zu\n", piece[i].from, piece[i].bytes, piece[i].to);
		return 0;
	}
	by_lists = !strcmp(argv[optind], "lists");
	must(argc - optind < 3, "[-p PORT] METHOD BYTES MEMORY [SERVER]");
	read_memory(argv[optind + 2]);
	connect_to(argv[optind + 3], port);
	if (argv[optind + 3]) {
		client(by_lists);
		return 0;
	}
	server(by_lists);
	file = fopen(argv[optind + 2], "wb");
	must(!file || fwrite(memory, 1, memory_bytes, file) != memory_bytes || fclose(file),
	     argv[optind + 2]);
	return 0;
}
