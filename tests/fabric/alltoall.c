// SPDX-License-Identifier: BSD-2-Clause
/*
 * All to all, each byte looked at: tests/fabric/crowd runs it in many processes of many hosts.
 *
 *	alltoall RANK RANKS ROUNDS BYTES [rc|xrc|ud]
 *
 * prints "at LID RKEY ADDRESS UD_QPN SRQ QPN QPN ...", an RC QP for each rank, and reads such a line
 * of each rank; prints "connected", and reads one line more when all have. Then in each round, to
 * each rank and itself: an RC WRITE, an RC SEND behind it, a datagram. What a SEND tells of is
 * there, whole. The next round begins when this one's messages have come from all: of two areas
 * to write to, one is always free. At the end "good"; "failed: WHY" when something is wrong, or
 * nothing comes for two minutes.
 *
 * xrc: instead of an RC QP one that sends and one that receives for each rank, whose numbers follow
 * those of the others; the SRQ is one of an XRC domain. ud: BURST datagrams of 4 KiB to each rank and
 * nothing else, of which all come, in their order, as in a lossless subnet whose receivers have
 * receives: the QP of a rank has as many as two rounds bring.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RANKS_MAX 256
#define SEND_BYTES 64u
#define DATAGRAM_MAX 4096u
#define BURST 4u
#define GRH 40u
#define QKEY 0x22222222
#define PATIENCE_MS 120000

enum kind { WROTE, SENT, DATAGRAM_SENT, MESSAGE, DATAGRAM_CAME };

struct peer {
	unsigned lid, rkey, ud_qpn, srq, qpn, back;	/* back: XRC, of its QP that sends to us */
	uint64_t address;
	struct ibv_ah *ah;
};

static struct ibv_context *context;
static struct ibv_comp_channel *channel;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_srq *srq;
/* rc: to each rank; xrc: in[] receives of each, else the same. */
static struct ibv_qp *rc[RANKS_MAX], *in[RANKS_MAX], *ud;
static struct ibv_xrcd *xrcd;
static struct ibv_mr *mr;
static struct peer peers[RANKS_MAX];
static unsigned rank, ranks, rounds, burst = 1;
static size_t bytes, datagram_bytes = 1024;
static bool xrc, ud_only;
/* In one region, in this order: what others write, of two rounds; what is written, sent; what comes. */
static uint8_t *written, *block, *message, *datagram, *messages, *datagrams;
/* Of two rounds: has this kind come from a rank? */
static uint8_t came[2][2][RANKS_MAX];
static unsigned missing[2], completed;

static void need(int good, const char *what)
{
	if (good)
		return;
	printf("failed: rank %u: %s\n", rank, what);
	fflush(stdout);
	exit(1);
}

/* Blocks grow: in the first rounds peers do not know each other, and packets go by the fabric's process. */
static size_t bytes_of(unsigned round)
{
	size_t size = bytes >> (round < 3 ? 3 - round : 0);

	return size ? size : 1;
}

/* Different for each pair, round and kind. */
static void fill(uint8_t *data, size_t size, unsigned from, unsigned to, unsigned round, enum kind kind)
{
	uint64_t value = ((uint64_t)from << 40 | (uint64_t)to << 24 | round << 4 | kind) + 1;

	value *= 0x9e3779b97f4a7c15u;
	for (size_t i = 0; i < size; i++) {
		value ^= value << 13, value ^= value >> 7, value ^= value << 17;
		data[i] = (uint8_t)(value >> 32);
	}
}

static void look(const uint8_t *data, size_t size, unsigned from, unsigned round, enum kind kind, const char *name)
{
	uint8_t right[1 << 16];
	char what[120];

	fill(right, size, from, rank, round, kind);
	for (size_t i = 0; i < size; i++)
		if (data[i] != right[i]) {
			snprintf(what, sizeof(what), "round %u: byte %zu of the %s from rank %u is wrong",
				 round, i, name, from);
			need(0, what);
		}
}

static uint64_t id_of(enum kind kind, unsigned index)
{
	return (uint64_t)kind << 32 | index;
}

static void receive(enum kind kind, unsigned index)
{
	size_t size = kind == MESSAGE ? SEND_BYTES : GRH + datagram_bytes;
	uint8_t *data = kind == MESSAGE ? messages : datagrams;
	struct ibv_sge sge = { (uintptr_t)(data + index * size), (uint32_t)size, mr->lkey };
	struct ibv_recv_wr *bad, wr = { .wr_id = id_of(kind, index), .sg_list = &sge, .num_sge = 1 };

	need(!(kind == MESSAGE ? ibv_post_srq_recv(srq, &wr, &bad) : ibv_post_recv(ud, &wr, &bad)), "a receive");
}

static struct ibv_qp *make_qp(struct ibv_qp_init_attr_ex *init)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1,
				    .qp_access_flags = IBV_ACCESS_REMOTE_WRITE };
	struct ibv_qp *qp = ibv_create_qp_ex(context, init);

	need(qp && !ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
	     "a QP in INIT");
	return qp;
}

static void make_qps(void)
{
	struct ibv_qp_init_attr_ex init = {
		.comp_mask = IBV_QP_INIT_ATTR_PD, .pd = pd, .qp_type = xrc ? IBV_QPT_XRC_SEND : IBV_QPT_RC,
		.send_cq = cq, .recv_cq = xrc ? NULL : cq, .srq = xrc ? NULL : srq,
		.cap = { .max_send_wr = 4, .max_send_sge = 1 } };
	struct ibv_qp_init_attr_ex receives = { .comp_mask = IBV_QP_INIT_ATTR_XRCD, .qp_type = IBV_QPT_XRC_RECV,
						.xrcd = xrcd };

	for (unsigned i = 0; i < ranks && !ud_only; i++) {
		rc[i] = make_qp(&init);
		in[i] = xrc ? make_qp(&receives) : rc[i];
	}
}

static void make_srq(void)
{
	struct ibv_srq_init_attr_ex init = {
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD, .srq_type = IBV_SRQT_BASIC, .pd = pd,
		.attr = { .max_wr = 2 * ranks, .max_sge = 1 } };
	struct ibv_xrcd_init_attr domain = { .comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
					     .fd = -1, .oflags = O_CREAT };

	if (xrc) {
		xrcd = ibv_open_xrcd(context, &domain);
		init.comp_mask |= IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
		init.srq_type = IBV_SRQT_XRC;
		init.xrcd = xrcd;
		init.cq = cq;
	}
	srq = ibv_create_srq_ex(context, &init);
	need(!!srq, "an SRQ");
}

static void make_ud(void)
{
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_UD, .send_cq = cq, .recv_cq = cq,
					 .cap = { burst * ranks, 2 * burst * ranks, 1, 1, 0 } };
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY };

	ud = ibv_create_qp(pd, &init);
	need(ud && !ibv_modify_qp(ud, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY),
	     "a UD QP in INIT");
	attr.qp_state = IBV_QPS_RTR;
	need(!ibv_modify_qp(ud, &attr, IBV_QP_STATE), "a UD QP in RTR");
	attr.qp_state = IBV_QPS_RTS;
	need(!ibv_modify_qp(ud, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN), "a UD QP in RTS");
}

static void set_up(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	size_t all = ((ud_only ? 0 : 3 * bytes) + 3 * SEND_BYTES + burst * (datagram_bytes +
		      2 * (GRH + datagram_bytes))) * ranks;

	context = list && *list ? ibv_open_device(*list) : NULL;
	need(!!context, "ibv_open_device");
	pd = ibv_alloc_pd(context);
	channel = ibv_create_comp_channel(context);
	cq = ibv_create_cq(context, 4 * (int)((1 + burst) * ranks), NULL, channel, 0);
	written = aligned_alloc(4096, (all + 4095) & ~(size_t)4095);
	need(pd && channel && cq && written, "a PD, a CQ, memory");
	make_srq();
	memset(written, 0, all);
	block = written + (ud_only ? 0 : 2 * bytes * ranks);
	message = block + (ud_only ? 0 : bytes * ranks);
	datagram = message + SEND_BYTES * ranks;
	messages = datagram + burst * datagram_bytes * ranks;
	datagrams = messages + 2 * SEND_BYTES * ranks;
	mr = ibv_reg_mr(pd, written, all, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	need(!!mr, "ibv_reg_mr");
	make_qps();
	make_ud();
	for (unsigned i = 0; i < 2 * ranks; i++)
		receive(MESSAGE, i);
	for (unsigned i = 0; i < 2 * burst * ranks; i++)
		receive(DATAGRAM_CAME, i);
}

/* The line of a rank; ours has QPs for all, theirs one for us. */
static void read_peer(struct peer *peer)
{
	static char line[64 + 24 * RANKS_MAX];
	char *at = line;

	need(!!fgets(line, sizeof(line), stdin), "the line of a rank");
	peer->lid = (unsigned)strtoul(at, &at, 10);
	peer->rkey = (unsigned)strtoul(at, &at, 10);
	peer->address = strtoull(at, &at, 10);
	peer->ud_qpn = (unsigned)strtoul(at, &at, 10);
	peer->srq = (unsigned)strtoul(at, &at, 10);
	for (unsigned i = 0; i < ranks && !ud_only; i++) {
		unsigned qpn = (unsigned)strtoul(at, &at, 10);

		peer->qpn = i == rank ? qpn : peer->qpn;
	}
	peer->back = peer->qpn;
	for (unsigned i = 0; i < ranks && xrc; i++) {
		unsigned qpn = (unsigned)strtoul(at, &at, 10);

		peer->back = i == rank ? qpn : peer->back;
	}
	need(ud_only || (peer->qpn && peer->back), "the line of a rank");
}

static void to_rts(struct ibv_qp *qp, const struct ibv_ah_attr *ah, uint32_t dest)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_4096, .dest_qp_num = dest,
				    .min_rnr_timer = 12, .ah_attr = *ah };
	bool sends = qp->qp_type != IBV_QPT_XRC_RECV, receives = qp->qp_type != IBV_QPT_XRC_SEND;

	need(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
			    IBV_QP_RQ_PSN |
			    (receives ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0)), "RTR");
	/* 17 s: nothing is lost here, and a peer among so many may wait for a processor that long. */
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS, .timeout = 22, .retry_cnt = 7, .rnr_retry = 7 };
	need(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT |
			    (sends ? IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC : 0)), "RTS");
}

static void connect_to(struct peer *peer, unsigned to)
{
	struct ibv_ah_attr attr = { .dlid = (uint16_t)peer->lid, .port_num = 1 };

	peer->ah = ibv_create_ah(pd, &attr);
	need(!!peer->ah, "ibv_create_ah");
	if (ud_only)
		return;
	to_rts(rc[to], &attr, peer->qpn);
	if (xrc)
		to_rts(in[to], &attr, peer->back);
}

static void send_datagrams(unsigned to, unsigned round)
{
	struct peer *peer = &peers[to];

	for (unsigned i = 0; i < burst; i++) {
		uint8_t *data = datagram + (to * burst + i) * datagram_bytes;
		struct ibv_sge sge = { (uintptr_t)data, (uint32_t)datagram_bytes, mr->lkey };
		struct ibv_send_wr *bad, wr = {
			.wr_id = id_of(DATAGRAM_SENT, to), .sg_list = &sge, .num_sge = 1,
			.opcode = IBV_WR_SEND_WITH_IMM, .send_flags = IBV_SEND_SIGNALED,
			.imm_data = htobe32(round << 8 | rank),
			.wr.ud = { .ah = peer->ah, .remote_qpn = peer->ud_qpn, .remote_qkey = QKEY } };

		fill(data, datagram_bytes, rank, to, round * BURST + i, DATAGRAM_SENT);
		need(!ibv_post_send(ud, &wr, &bad), "ibv_post_send");
	}
}

static void send_to(unsigned to, unsigned round)
{
	struct peer *peer = &peers[to];
	struct ibv_sge sge[2] = {
		{ (uintptr_t)(block + to * bytes), (uint32_t)bytes_of(round), mr->lkey },
		{ (uintptr_t)(message + to * SEND_BYTES), SEND_BYTES, mr->lkey },
	};
	struct ibv_send_wr *bad, wr[2] = {
		{ .wr_id = id_of(WROTE, to), .next = &wr[1], .sg_list = &sge[0], .num_sge = 1,
		  .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED },
		{ .wr_id = id_of(SENT, to), .sg_list = &sge[1], .num_sge = 1, .opcode = IBV_WR_SEND_WITH_IMM,
		  .send_flags = IBV_SEND_SIGNALED, .imm_data = htobe32(round << 8 | rank) },
	};

	send_datagrams(to, round);
	if (ud_only)
		return;
	fill(block + to * bytes, bytes_of(round), rank, to, round, WROTE);
	fill(message + to * SEND_BYTES, SEND_BYTES, rank, to, round, SENT);
	wr[0].wr.rdma.remote_addr = peer->address + ((round & 1) * ranks + rank) * bytes;
	wr[0].wr.rdma.rkey = peer->rkey;
	for (unsigned i = 0; i < 2 && xrc; i++)
		wr[i].qp_type.xrc.remote_srqn = peer->srq;
	need(!ibv_post_send(rc[to], &wr[0], &bad), "ibv_post_send");
}

static void take(const struct ibv_wc *wc, unsigned round)
{
	enum kind kind = (enum kind)(wc->wr_id >> 32);
	unsigned index = (unsigned)wc->wr_id, from, which, turn;
	char what[100];

	if (wc->status) {
		snprintf(what, sizeof(what), "round %u: kind %u, %u: %s", round, kind, index,
			 ibv_wc_status_str(wc->status));
		need(0, what);
	}
	if (kind < MESSAGE) {
		completed++;
		return;
	}
	from = be32toh(wc->imm_data) & 0xff;
	which = be32toh(wc->imm_data) >> 8;
	need(from < ranks && (which == round || which == round + 1), "a message of another round");
	turn = came[which & 1][kind == MESSAGE][from]++;
	need(turn < (kind == MESSAGE ? 1 : burst), "a message twice");
	missing[which & 1]--;
	if (kind == MESSAGE) {
		need(wc->qp_num == in[from]->qp_num && wc->byte_len == SEND_BYTES,
		     "a message of another QP, or size");
		look(messages + index * SEND_BYTES, SEND_BYTES, from, which, SENT, "SEND");
		look(written + ((which & 1) * ranks + from) * bytes, bytes_of(which), from, which, WROTE, "WRITE");
	} else {
		need(wc->slid == peers[from].lid && wc->src_qp == peers[from].ud_qpn &&
		     wc->byte_len == GRH + datagram_bytes, "a datagram from elsewhere");
		look(datagrams + index * (GRH + datagram_bytes) + GRH, datagram_bytes, from, which * BURST + turn,
		     DATAGRAM_SENT, "datagram");
	}
	receive(kind, index);
}

/* Requests of ours. */
static unsigned in_a_round(void)
{
	return ranks * (ud_only ? burst : 3);
}

/* Sleeps until something has come. */
static void wait_for_event(unsigned round)
{
	struct pollfd ready = { .fd = channel->fd, .events = POLLIN };
	struct ibv_cq *which;
	void *own;

	if (poll(&ready, 1, PATIENCE_MS) == 1) {
		need(!ibv_get_cq_event(channel, &which, &own), "ibv_get_cq_event");
		ibv_ack_cq_events(which, 1);
		return;
	}
	printf("failed: rank %u: round %u: nothing comes; of %u requests %u have completed; missing:", rank, round,
	       in_a_round(), completed);
	for (unsigned i = 0; i < ranks; i++)
		for (unsigned kind = 0; kind < 2; kind++)
			if (came[round & 1][kind][i] < (kind ? !ud_only : burst))
				printf(" %s from %u", kind ? "SEND" : "datagram", i);
	printf("\n");
	exit(1);
}

static void run_round(unsigned round)
{
	struct ibv_wc wc[32];
	int got;

	completed = 0;
	for (unsigned i = 0; i < ranks; i++)
		send_to((rank + i) % ranks, round);
	while (completed < in_a_round() || missing[round & 1]) {
		got = ibv_poll_cq(cq, 32, wc);
		need(got >= 0, "ibv_poll_cq");
		for (int i = 0; i < got; i++)
			take(&wc[i], round);
		if (got)
			continue;
		need(!ibv_req_notify_cq(cq, 0), "ibv_req_notify_cq");
		got = ibv_poll_cq(cq, 1, wc);
		if (got > 0)
			take(wc, round);
		else
			wait_for_event(round);
	}
	memset(came[round & 1], 0, sizeof(came[0]));
	missing[round & 1] = ranks * (ud_only ? burst : 2);
}

int main(int argc, char **argv)
{
	struct ibv_port_attr port;
	uint32_t srq_number = 0;
	char line[16];

	need(argc == 5 || argc == 6, "usage: alltoall RANK RANKS ROUNDS BYTES [rc|xrc|ud]");
	xrc = argc > 5 && !strcmp(argv[5], "xrc");
	ud_only = argc > 5 && !strcmp(argv[5], "ud");
	if (ud_only) {
		burst = BURST;
		datagram_bytes = DATAGRAM_MAX;
	}
	rank = (unsigned)atoi(argv[1]);
	ranks = (unsigned)atoi(argv[2]);
	rounds = (unsigned)atoi(argv[3]);
	bytes = (size_t)atol(argv[4]);
	need(ranks && ranks <= RANKS_MAX && rank < ranks && bytes && bytes <= 1 << 16,
	     "usage: up to 256 ranks, 64 KiB");
	set_up();
	need(!ibv_query_port(context, 1, &port), "ibv_query_port");
	need(!xrc || !ibv_get_srq_num(srq, &srq_number), "ibv_get_srq_num");
	printf("at %u %u %" PRIu64 " %u %u", port.lid, mr->rkey, (uint64_t)(uintptr_t)written, ud->qp_num,
	       srq_number);
	for (unsigned i = 0; i < ranks && !ud_only; i++)
		printf(" %u", in[i]->qp_num);
	for (unsigned i = 0; i < ranks && xrc; i++)
		printf(" %u", rc[i]->qp_num);
	printf("\n");
	fflush(stdout);
	for (unsigned i = 0; i < ranks; i++)
		read_peer(&peers[i]);
	for (unsigned i = 0; i < ranks; i++)
		connect_to(&peers[i], i);
	missing[0] = missing[1] = ranks * (ud_only ? burst : 2);
	printf("connected\n");
	fflush(stdout);
	need(!!fgets(line, sizeof(line), stdin), "a line to begin");
	for (unsigned round = 0; round < rounds; round++)
		run_round(round);
	printf("good\n");
	fflush(stdout);
	/* The last acknowledgements of the others are ours to give. */
	if (fgets(line, sizeof(line), stdin))
		return 1;
	return 0;
}
