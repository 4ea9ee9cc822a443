/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The largest message, 2^31 bytes, by each operation of a service between two processes: every byte
 *is compared. What the limit is, and that more is refused, is known by src/object/qp_post_test.c;
 *here such a message goes.
 *
 *	largest rc	SEND, WRITE, READ
 *	largest uc	SEND, WRITE
 */
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define BYTES (1ul << 31)
#define WORDS (BYTES / sizeof(uint64_t))

struct side {
	struct ibv_context *context;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	uint64_t *memory;
	int peer; /* the socket to it */
};

struct card { /* what the other side has to know */
	union ibv_gid gid;
	uint64_t address;
	uint32_t qpn, rkey;
};

static void must(int failed, const char *what)
{
	if (failed)
		fprintf(stderr, "largest: %s: %s\n", what, strerror(errno)), exit(1);
}

static uint64_t word(uint64_t seed, uint64_t i)
{
	return (i + seed) * 0x9e3779b97f4a7c15u;
}

static void fill(struct side *side, uint64_t seed)
{
	for (uint64_t i = 0; i < WORDS; i++)
		side->memory[i] = word(seed, i);
}

static void compare(const struct side *side, uint64_t seed, const char *what)
{
	for (uint64_t i = 0; i < WORDS; i++)
		if (side->memory[i] != word(seed, i))
			fprintf(stderr, "largest: %s: wrong at byte %llu\n", what,
				(unsigned long long)i * 8),
				exit(1);
	printf("%s: %lu bytes\n", what, BYTES);
	fflush(stdout);
}

/* Both sides come here before either goes on. */
static void meet(const struct side *side)
{
	char byte = 0;

	must(write(side->peer, &byte, 1) != 1 || read(side->peer, &byte, 1) != 1, "the other side");
}

static void modify(struct side *side, enum ibv_qp_state state, const struct card *card,
		   bool reliable)
{
	struct ibv_qp_attr attr = {.qp_state = state,
				   .port_num = 1,
				   .path_mtu = IBV_MTU_1024,
				   .max_rd_atomic = 1,
				   .max_dest_rd_atomic = 1,
				   .min_rnr_timer = 12,
				   .timeout = 14,
				   .retry_cnt = 7,
				   .rnr_retry = 7,
				   .qp_access_flags =
					   IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ};
	int mask = IBV_QP_STATE;

	if (state == IBV_QPS_INIT) {
		mask |= IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
	} else if (state == IBV_QPS_RTR) {
		attr.dest_qp_num = card->qpn;
		attr.ah_attr = (struct ibv_ah_attr){
			.is_global = 1,
			.port_num = 1,
			.grh = {.dgid = card->gid, .sgid_index = 1, .hop_limit = 1}};
		mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			(reliable ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0);
	} else {
		mask |= IBV_QP_SQ_PSN |
			(reliable ? IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
					    IBV_QP_MAX_QP_RD_ATOMIC
				  : 0);
	}
	errno = ibv_modify_qp(side->qp, &attr, mask);
	must(errno, "ibv_modify_qp");
}

static void open_side(struct side *side, int peer, bool reliable, struct card *theirs)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct card ours = {.qpn = 0};
	struct ibv_qp_init_attr attr = {
		.qp_type = reliable ? IBV_QPT_RC : IBV_QPT_UC,
		.sq_sig_all = 1,
		.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1}};
	struct ibv_pd *pd;

	must(!list || !list[0] || !(side->context = ibv_open_device(list[0])), "ibv_open_device");
	side->peer = peer;
	side->memory =
		mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	must(side->memory == MAP_FAILED, "mmap");
	must(!(pd = ibv_alloc_pd(side->context)), "ibv_alloc_pd");
	must(!(side->cq = ibv_create_cq(side->context, 2, NULL, NULL, 0)), "ibv_create_cq");
	side->mr = ibv_reg_mr(pd, side->memory, BYTES,
			      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				      IBV_ACCESS_REMOTE_READ);
	must(!side->mr, "ibv_reg_mr");
	attr.send_cq = attr.recv_cq = side->cq;
	must(!(side->qp = ibv_create_qp(pd, &attr)), "ibv_create_qp");
	must(ibv_query_gid(side->context, 1, 1, &ours.gid), "ibv_query_gid");
	ours.qpn = side->qp->qp_num;
	ours.rkey = side->mr->rkey;
	ours.address = (uintptr_t)side->memory;
	must(write(peer, &ours, sizeof(ours)) != sizeof(ours) ||
		     read(peer, theirs, sizeof(*theirs)) != sizeof(*theirs),
	     "the other side");
	modify(side, IBV_QPS_INIT, theirs, reliable);
	modify(side, IBV_QPS_RTR, theirs, reliable);
	modify(side, IBV_QPS_RTS, theirs, reliable);
	ibv_free_device_list(list);
}

static void complete(struct side *side, uint32_t bytes)
{
	struct ibv_wc wc;
	int count;

	while (!(count = ibv_poll_cq(side->cq, 1, &wc)))
		;
	errno = EIO;
	must(count != 1 || wc.status, count == 1 ? ibv_wc_status_str(wc.status) : "ibv_poll_cq");
	must(bytes && wc.byte_len != bytes, "byte_len");
}

static void request(struct side *side, enum ibv_wr_opcode opcode, const struct card *theirs)
{
	struct ibv_sge sge = {(uintptr_t)side->memory, (uint32_t)BYTES, side->mr->lkey};
	struct ibv_send_wr *bad, wr = {.sg_list = &sge,
				       .num_sge = 1,
				       .opcode = opcode,
				       .wr.rdma = {theirs->address, theirs->rkey}};

	errno = ibv_post_send(side->qp, &wr, &bad);
	must(errno, "ibv_post_send");
	complete(side, opcode == IBV_WR_RDMA_READ ? (uint32_t)BYTES : 0);
}

static void client(struct side *side, bool reliable, const struct card *theirs)
{
	fill(side, 1);
	meet(side); /* the receive is posted */
	request(side, IBV_WR_SEND, theirs);
	meet(side); /* compared */
	fill(side, 2);
	request(side, IBV_WR_RDMA_WRITE, theirs);
	meet(side);
	meet(side); /* compared, and filled anew */
	if (reliable) {
		request(side, IBV_WR_RDMA_READ, theirs);
		compare(side, 3, "READ");
	}
	meet(side);
}

/* Of UC nobody says when a WRITE has arrived: its last word does. */
static void await_word(const struct side *side, uint64_t seed)
{
	const volatile uint64_t *last = &side->memory[WORDS - 1];

	for (unsigned ms = 0; *last != word(seed, WORDS - 1) && ms < 60000; ms++)
		usleep(1000);
}

static void server(struct side *side)
{
	struct ibv_sge sge = {(uintptr_t)side->memory, (uint32_t)BYTES, side->mr->lkey};
	struct ibv_recv_wr *bad, wr = {.sg_list = &sge, .num_sge = 1};

	errno = ibv_post_recv(side->qp, &wr, &bad);
	must(errno, "ibv_post_recv");
	meet(side);
	complete(side, (uint32_t)BYTES);
	compare(side, 1, "SEND");
	meet(side);
	meet(side);
	await_word(side, 2);
	compare(side, 2, "WRITE");
	fill(side, 3);
	meet(side);
	meet(side);
}

int main(int argc, char **argv)
{
	bool reliable = argc == 2 && !strcmp(argv[1], "rc");
	struct side side = {.peer = -1};
	struct card theirs;
	int ends[2], status;
	pid_t child;

	errno = EINVAL;
	must(!reliable && (argc != 2 || strcmp(argv[1], "uc")), "rc or uc");
	must(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), "socketpair");
	must((child = fork()) < 0, "fork");
	close(ends[!child]);
	open_side(&side, ends[!!child], reliable, &theirs);
	if (!child) {
		server(&side);
		return 0;
	}
	client(&side, reliable, &theirs);
	must(waitpid(child, &status, 0) < 0, "waitpid");
	return status != 0;
}
