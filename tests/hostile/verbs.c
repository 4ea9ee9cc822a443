/* SPDX-License-Identifier: BSD-2-Clause */
/* Verbs as any program uses them, and an honest exchange that compares all of its data. */
#include "hostile.h"

#include <errno.h>
#include <sched.h>
#include <sys/mman.h>

/* ---- objects ---- */

void node_open(struct node *node)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	CHECK(list && list[0], "no device");
	node->context = ibv_open_device(list[0]);
	CHECK(node->context, "%m");
	ibv_free_device_list(list);
	node->pd = ibv_alloc_pd(node->context);
	CHECK(node->pd, "%m");
	node->channel = ibv_create_comp_channel(node->context);
	CHECK(node->channel, "%m");
	node->cq = ibv_create_cq(node->context, CQ_ENTRIES, NULL, node->channel, 0);
	CHECK(node->cq, "%m");
}

void node_close(struct node *node)
{
	CHECK(!ibv_destroy_cq(node->cq), "%m");
	CHECK(!ibv_destroy_comp_channel(node->channel), "%m");
	CHECK(!ibv_dealloc_pd(node->pd), "%m");
	CHECK(!ibv_close_device(node->context), "%m");
}

const char *const memory_kind_name[MEMORY_KINDS] = {"mmap", "posix_memalign", "malloc"};

char *memory_make(enum memory_kind kind, size_t bytes)
{
	void *memory = NULL;

	switch (kind) {
	case MEMORY_MMAP:
		memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			      0);
		CHECK(memory != MAP_FAILED, "%m");
		break;
	case MEMORY_ALIGNED:
		CHECK(!posix_memalign(&memory, PAGE, bytes));
		break;
	default:
		memory = malloc(bytes + 40);
		CHECK(memory);
		memory = (char *)memory + 24; /* not where a page begins, whatever malloc does */
	}
	memset(memory, 0, bytes);
	return memory;
}

void memory_free(enum memory_kind kind, char *memory, size_t bytes)
{
	if (kind == MEMORY_MMAP)
		CHECK(!munmap(memory, bytes), "%m");
	else
		free(kind == MEMORY_HEAP ? memory - 24 : memory);
}

struct ibv_mr *region_make(struct node *node, void *memory, size_t bytes, unsigned access)
{
	struct ibv_mr *mr = ibv_reg_mr(node->pd, memory, bytes, access);

	CHECK(mr, "%m");
	return mr;
}

/* ---- queue pairs ---- */

void link_make(struct link *link, struct node *node)
{
	struct ibv_qp_init_attr attr = {.send_cq = node->cq,
					.recv_cq = node->cq,
					.qp_type = IBV_QPT_RC,
					.cap = {.max_send_wr = 64,
						.max_recv_wr = 64,
						.max_send_sge = 4,
						.max_recv_sge = 4,
						.max_inline_data = 64}};

	*link = (struct link){.node = node,
			      .mtu = IBV_MTU_4096,
			      .timeout = 14,
			      .retry_count = 7,
			      .rnr_retry = 7,
			      .access = REMOTE_ALL};
	link->qp = ibv_create_qp(node->pd, &attr);
	CHECK(link->qp, "%m");
	link->here.qpn = link->qp->qp_num;
	link->here.psn = random_u() & 0xffffff;
	CHECK(!ibv_query_gid(node->context, 1, 1, &link->here.gid), "%m");
}

void link_set_region(struct link *link, const struct ibv_mr *mr)
{
	link->here.rkey = mr ? mr->rkey : 0;
	link->here.memory = mr ? (uintptr_t)mr->addr : 0;
	link->here.bytes = mr ? mr->length : 0;
}

void link_exchange(struct cast *cast, int who, struct link *link)
{
	tell(cast, who, &link->here, sizeof(link->here));
	hear(cast, who, &link->there, sizeof(link->there));
}

static void raise_to_init(struct link *link)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = link->access};

	CHECK(!ibv_modify_qp(link->qp, &attr,
			     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
	      "%m");
}

static void raise_to_rtr(struct link *link)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = link->mtu,
		.dest_qp_num = link->there.qpn,
		.rq_psn = link->there.psn,
		.max_dest_rd_atomic = 16,
		.min_rnr_timer = 1,
		.ah_attr = {.is_global = 1,
			    .port_num = 1,
			    .grh = {.dgid = link->there.gid, .sgid_index = 1, .hop_limit = 64}}};

	CHECK(!ibv_modify_qp(link->qp, &attr,
			     IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				     IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				     IBV_QP_MIN_RNR_TIMER),
	      "%m");
}

static void raise_to_rts(struct link *link)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS,
				   .timeout = link->timeout,
				   .retry_cnt = link->retry_count,
				   .rnr_retry = link->rnr_retry,
				   .sq_psn = link->here.psn,
				   .max_rd_atomic = 16};

	CHECK(!ibv_modify_qp(link->qp, &attr,
			     IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				     IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC),
	      "%m");
}

/* From the state that it is in. */
void link_raise(struct link *link, enum ibv_qp_state up_to)
{
	if (link->qp->state == IBV_QPS_RESET)
		raise_to_init(link);
	if (up_to >= IBV_QPS_RTR && link->qp->state == IBV_QPS_INIT)
		raise_to_rtr(link);
	if (up_to >= IBV_QPS_RTS && link->qp->state == IBV_QPS_RTR)
		raise_to_rts(link);
}

void link_connect(struct cast *cast, int who, struct link *link, struct node *node,
		  const struct ibv_mr *mr)
{
	link_make(link, node);
	link_set_region(link, mr);
	link_exchange(cast, who, link);
	link_raise(link, IBV_QPS_RTS);
	meet(cast, who);
}

/* ---- work ---- */

int post(struct link *link, enum ibv_wr_opcode opcode, const struct ibv_mr *mr, size_t offset,
	 uint32_t bytes, uint64_t there, uint64_t id)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)mr->addr + offset, .length = bytes, .lkey = mr->lkey};
	struct ibv_send_wr *bad, wr = {.wr_id = id,
				       .sg_list = &sge,
				       .num_sge = 1,
				       .opcode = opcode,
				       .send_flags = IBV_SEND_SIGNALED};

	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || opcode == IBV_WR_ATOMIC_CMP_AND_SWP) {
		wr.wr.atomic.remote_addr = link->there.memory + there;
		wr.wr.atomic.rkey = link->there.rkey;
		wr.wr.atomic.compare_add = 1;
	} else {
		wr.wr.rdma.remote_addr = link->there.memory + there;
		wr.wr.rdma.rkey = link->there.rkey;
	}
	return ibv_post_send(link->qp, &wr, &bad);
}

int post_receive(struct link *link, const struct ibv_mr *mr, size_t offset, uint32_t bytes,
		 uint64_t id)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)mr->addr + offset, .length = bytes, .lkey = mr->lkey};
	struct ibv_recv_wr *bad, wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1};

	return ibv_post_recv(link->qp, &wr, &bad);
}

bool get(struct node *node, struct ibv_wc *wc, double limit_s)
{
	double until_s = now() + limit_s;
	unsigned empty = 0;
	int got;

	while (!(got = ibv_poll_cq(node->cq, 1, wc)) && now() < until_s)
		if (++empty % 1024 == 0)
			sched_yield();
	CHECK(got >= 0, "%m");
	return got == 1;
}

enum ibv_wc_status transfer(struct link *link, enum ibv_wr_opcode opcode, const struct ibv_mr *mr,
			    size_t offset, uint32_t bytes, uint64_t there)
{
	uint64_t id = 0x700000000000 + link->next_id++;
	struct ibv_wc wc;
	int err = post(link, opcode, mr, offset, bytes, there, id);

	CHECK(!err, "%s", strerror(err));
	CHECK(get(link->node, &wc, COMPLETE_S), "no completion of opcode %d within %d s",
	      (int)opcode, COMPLETE_S);
	CHECK(wc.wr_id == id, "completion of %llx, not %llx", (unsigned long long)wc.wr_id,
	      (unsigned long long)id);
	return wc.status;
}

/* ---- an honest exchange ---- */

/*
 * The memory of both: what is written and sent | what is read and received | the word to add to.
 * Behind it lies a piece that nobody may touch.
 */
#define PIECE (16 * KIB)
#define RESULT_AT PIECE
#define WORD_AT (2 * PIECE)
#define QUIET_AT (WORD_AT + PAGE)
#define LAST_ROUND 0x6c617374u

static void steady_open(struct cast *cast, int who, struct steady *steady, struct node *node)
{
	size_t i;

	memset(steady, 0, sizeof(*steady));
	steady->memory = memory_make(MEMORY_ALIGNED, STEADY_BYTES);
	steady->shadow = malloc(STEADY_BYTES);
	CHECK(steady->shadow);
	for (i = QUIET_AT; i < STEADY_BYTES; i++)
		steady->memory[i] = (char)random_u();
	memcpy(steady->shadow, steady->memory, STEADY_BYTES);
	steady->mr = region_make(node, steady->memory, STEADY_BYTES, REMOTE_ALL);
	link_make(&steady->link, node);
	steady->link.timeout = 16; /* 0.3 s: there may be little of the processor for us */
	link_set_region(&steady->link, steady->mr);
	link_exchange(cast, who, &steady->link);
	link_raise(&steady->link, IBV_QPS_RTS);
	meet(cast, who);
}

static void steady_compare(struct steady *steady)
{
	CHECK(!memcmp(steady->memory + QUIET_AT, steady->shadow + QUIET_AT,
		      STEADY_BYTES - QUIET_AT),
	      "bytes that nobody was to write have changed");
}

static void steady_close(struct steady *steady)
{
	steady_compare(steady);
	CHECK(!ibv_destroy_qp(steady->link.qp), "%m");
	CHECK(!ibv_dereg_mr(steady->mr), "%m");
	free(steady->memory);
	free(steady->shadow);
}

void steady_connect(struct cast *cast, int who, struct steady *steady, struct node *node)
{
	steady_open(cast, who, steady, node);
}

static void must_do(struct steady *steady, enum ibv_wr_opcode opcode, size_t at, uint32_t bytes,
		    uint64_t there)
{
	double begin_s = now();
	enum ibv_wc_status status = transfer(&steady->link, opcode, steady->mr, at, bytes, there);

	CHECK(status == IBV_WC_SUCCESS, "opcode %d, round %llu: %s", (int)opcode,
	      (unsigned long long)steady->rounds, ibv_wc_status_str(status));
	if (now() - begin_s > steady->slowest_s)
		steady->slowest_s = now() - begin_s;
}

static void steady_round(struct steady *steady)
{
	uint32_t bytes = (uint32_t)random_below(PIECE) + 1, i;
	uint64_t added, to_write = random_below(PIECE - bytes + 1);

	for (i = 0; i < bytes; i++)
		steady->memory[i] = (char)random_u();
	must_do(steady, IBV_WR_RDMA_WRITE, 0, bytes, to_write);
	must_do(steady, IBV_WR_RDMA_READ, RESULT_AT, bytes, to_write);
	CHECK(!memcmp(steady->memory, steady->memory + RESULT_AT, bytes),
	      "round %llu: %u bytes read are not those written", (unsigned long long)steady->rounds,
	      bytes);
	must_do(steady, IBV_WR_ATOMIC_FETCH_AND_ADD, WORD_AT, 8, WORD_AT);
	memcpy(&added, steady->memory + WORD_AT, sizeof(added));
	CHECK(added == steady->rounds, "%llu was added to %llu times", (unsigned long long)added,
	      (unsigned long long)steady->rounds);
}

/* A message of up to a piece, and its echo. */
static void steady_send(struct steady *steady, uint32_t bytes)
{
	struct ibv_wc wc;
	unsigned sends = 0, receives = 0;
	double begin_s = now();

	memset(steady->memory + RESULT_AT, 0, bytes);
	CHECK(!post_receive(&steady->link, steady->mr, RESULT_AT, PIECE, 1));
	CHECK(!post(&steady->link, IBV_WR_SEND, steady->mr, 0, bytes, 0, 2));
	while (sends + receives < 2) {
		CHECK(get(steady->link.node, &wc, COMPLETE_S), "no echo within %d s", COMPLETE_S);
		CHECK(wc.status == IBV_WC_SUCCESS, "round %llu: %s",
		      (unsigned long long)steady->rounds, ibv_wc_status_str(wc.status));
		CHECK(wc.wr_id == 1 || wc.wr_id == 2, "a completion that nobody waits for");
		sends += wc.wr_id == 2;
		receives += wc.wr_id == 1;
		CHECK(wc.wr_id == 2 || wc.byte_len == bytes, "%u bytes came, not %u", wc.byte_len,
		      bytes);
	}
	CHECK(!memcmp(steady->memory, steady->memory + RESULT_AT, bytes), "not the echo");
	if (now() - begin_s > steady->slowest_s)
		steady->slowest_s = now() - begin_s;
}

void steady_drive(struct steady *steady, double seconds)
{
	double until_s = now() + seconds;

	do {
		steady_round(steady);
		steady_send(steady, (uint32_t)random_below(PIECE) + 1);
		steady_compare(steady);
		steady->rounds++;
	} while (now() < until_s);
}

void steady_end(struct cast *cast, int who, struct steady *steady)
{
	uint32_t last = LAST_ROUND;

	memcpy(steady->memory, &last, sizeof(last));
	steady_send(steady, sizeof(last));
	meet(cast, who);
	steady_close(steady);
}

/* What has come goes back. True: it was the driver's last word. */
static bool echo_one(struct steady *steady, uint32_t bytes)
{
	uint32_t last = 0;

	if (bytes == sizeof(last))
		memcpy(&last, steady->memory + RESULT_AT, sizeof(last));
	if (last != LAST_ROUND) /* the next comes when the echo has arrived: not into its data */
		CHECK(!post_receive(&steady->link, steady->mr, RESULT_AT, PIECE, 1));
	CHECK(!post(&steady->link, IBV_WR_SEND, steady->mr, RESULT_AT, bytes, 0, 2));
	return last == LAST_ROUND;
}

void steady_echo(struct cast *cast, int who, struct node *node)
{
	struct steady steady;
	struct ibv_wc wc;
	bool last = false;
	int unsent = 0;

	steady_open(cast, who, &steady, node);
	CHECK(!post_receive(&steady.link, steady.mr, RESULT_AT, PIECE, 1));
	while (!last || unsent) {
		CHECK(get(node, &wc, COMPLETE_S), "nothing came for %d s", COMPLETE_S);
		CHECK(wc.status == IBV_WC_SUCCESS, "%s: %s", wc.wr_id == 1 ? "receive" : "echo",
		      ibv_wc_status_str(wc.status));
		CHECK(wc.wr_id == 1 || (wc.wr_id == 2 && unsent), "a completion too many");
		if (wc.wr_id == 1)
			last = echo_one(&steady, wc.byte_len);
		unsent += wc.wr_id == 1 ? 1 : -1;
	}
	meet(cast, who);
	steady_close(&steady);
}

/* ---- a peer that uses keys ---- */

struct target {
	uint32_t rkey;
	uint64_t memory, bytes;
};

/* An ordinary peer: for each target it is told, it writes @bytes of a pattern there and reads them.
 */
void writing_peer(struct cast *cast)
{
	struct target target;
	struct node node;
	struct link link;
	struct ibv_mr *mr;
	char *memory;
	size_t i;

	become_user(0);
	node_open(&node);
	memory = memory_make(MEMORY_MMAP, 2 * MIB);
	mr = region_make(&node, memory, 2 * MIB, REMOTE_ALL);
	link_connect(cast, 0, &link, &node, mr);
	for (;;) {
		hear(cast, 0, &target, sizeof(target));
		if (!target.bytes)
			break;
		for (i = 0; i < target.bytes; i++)
			memory[i] = (char)(i * 7 + target.rkey);
		link.there.rkey = target.rkey;
		link.there.memory = target.memory;
		CHECK(transfer(&link, IBV_WR_RDMA_WRITE, mr, 0, (uint32_t)target.bytes, 0) ==
		      IBV_WC_SUCCESS);
		CHECK(transfer(&link, IBV_WR_RDMA_READ, mr, MIB, (uint32_t)target.bytes, 0) ==
		      IBV_WC_SUCCESS);
		CHECK(!memcmp(memory, memory + MIB, target.bytes));
		cue(cast, 0);
	}
}

/* The peer writes there; what it wrote is there. */
void be_written(struct cast *cast, struct ibv_mr *mr, size_t offset, size_t bytes)
{
	struct target target = {mr->rkey, (uintptr_t)mr->addr + offset, bytes};
	const char *memory = (char *)mr->addr + offset;
	size_t i;

	tell(cast, 1, &target, sizeof(target));
	await_cue(cast, 1);
	for (i = 0; i < bytes; i++)
		CHECK(memory[i] == (char)(i * 7 + mr->rkey), "byte %zu of a peer's WRITE is %d", i,
		      memory[i]);
}

void dismiss_writing_peer(struct cast *cast)
{
	struct target none = {0};

	tell(cast, 1, &none, sizeof(none));
}
