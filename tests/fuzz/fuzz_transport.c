/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Fuzz target: a connected QP (RC, UC or UD; with an SRQ or not) against any sequence of packets,
 * messages, answers, posts, timeouts, transmits and state changes. The input is read as a script: an
 * operation, then its operands; packets are built from fields near those that are expected, so that
 * they get far.
 *
 * Nothing may crash (ASan, UBSan, asserts), write outside of the registered part of memory, send
 * a packet that does not parse, complete more than was posted, or lose its place: the invariants
 * of the queues and PSNs are checked after each step. Built on the simulator's host (src/sim);
 * the peer is a host that never answers: the input is the peer.
 */
#define UNGUARDED_MEMBERS	/* one thread: base/lock.h */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "input.h"
#include "sim/world/messages.h"
#include "sim/world/sim.h"
#include "wire/gaps.h"
#include "wire/aeth.h"
#include "wire/icrc.h"
#include "wire/psn.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length);

#define MEMORY_BYTES	16384u
#define OPEN_BYTES	8192u		/* of the middle: registered */
#define GUARD_BYTES	((MEMORY_BYTES - OPEN_BYTES) / 2)
#define GUARD_BYTE	0xa7
#define STEPS_MAX	400u
#define QUEUE		16u
#define SRQN		5u

struct world {
	struct sim *sim;
	struct sim_host *host, *peer;
	struct qp *qp;
	struct cq *send_cq, *recv_cq;
	struct srq *srq;
	struct xrcd *xrcd;		/* it is an XRC SRQ */
	struct mr *mr;
	struct mw mw;
	struct ah *ah;
	struct connect_options connect;
	uint32_t peer_qpn;
	uint64_t posted_sends, posted_recvs, completed_sends, completed_recvs;
	uint64_t token;			/* of the last message sent */
	struct input *input;		/* for what is fetched */
};

static uint8_t memory[MEMORY_BYTES];

#define require(truth) require_that((truth), #truth, __LINE__)

static void require_that(bool truth, const char *text, int line)
{
	if (truth)
		return;
	fprintf(stderr, "fuzz_transport.c:%d: not so: %s\n", line, text);
	abort();
}

static uint32_t next16(struct input *input)
{
	uint32_t high = next8(input);

	return high << 8 | next8(input);
}

static uint32_t next32(struct input *input)
{
	uint32_t high = next16(input);

	return high << 16 | next16(input);
}

/* ---- operands near what is expected ---- */

static uint32_t pick_key(struct world *world, struct input *input)
{
	uint8_t choice = next8(input);

	if (choice < 200)
		return world->mr->ibv.rkey;
	return choice < 230 ? world->mw.ibv.rkey : next32(input);
}

static uint64_t pick_address(struct input *input)
{
	uint8_t choice = next8(input);
	uint64_t base = (uintptr_t)memory + GUARD_BYTES;

	if (choice < 200)
		return base + next16(input) % OPEN_BYTES / (choice & 1 ? 1 : 8) * (choice & 1 ? 1 : 8);
	if (choice < 240)
		return base - 64 + next8(input) + (choice & 1 ? OPEN_BYTES : 0);
	return (uint64_t)next32(input) << 32 | next32(input);
}

static uint32_t pick_length(struct input *input)
{
	uint8_t choice = next8(input);

	if (choice < 100)
		return choice;
	return choice < 250 ? next16(input) % OPEN_BYTES : next32(input);
}

static uint32_t pick_psn(struct world *world, struct input *input, bool response)
{
	const struct qp *qp = world->qp;
	uint8_t choice = next8(input);
	uint32_t near = response ? qp->requester.una_psn : qp->responder.expected_psn;

	if (choice < 128)
		return near;
	if (choice < 250)
		return psn_add(near, (uint32_t)(choice - 189));
	return next32(input) & PSN_MASK;
}

/* ---- operations ---- */

static const struct opcode *pick_opcode(struct input *input)
{
	const struct opcode *op = NULL;
	uint8_t code = next8(input);

	while (!op)
		op = opcode_get(code++);
	return op;
}

static void fill_headers(struct world *world, struct input *input, struct packet *packet)
{
	unsigned headers = packet->op->headers;

	if (headers & HDR_XRC)
		packet->srqn = next8(input) < 230 ? SRQN : next32(input) & QPN_MASK;
	if (headers & HDR_RETH) {
		packet->reth.address = pick_address(input);
		packet->reth.rkey = pick_key(world, input);
		packet->reth.length = pick_length(input);
	}
	if (headers & HDR_ATOMIC) {
		packet->atomic.address = pick_address(input);
		packet->atomic.rkey = pick_key(world, input);
		packet->atomic.swap_add = next32(input);
	}
	if (headers & HDR_AETH) {
		packet->aeth.syndrome = next8(input);
		packet->aeth.msn = next8(input) < 200 ? next8(input) : next32(input) & PSN_MASK;
	}
	if (headers & HDR_DETH) {
		packet->deth.qkey = next8(input) < 230 ? world->connect.qkey : next32(input);
		packet->deth.source_qpn = world->peer_qpn;
	}
	if (headers & HDR_IETH)
		packet->invalidate_rkey = pick_key(world, input);
	if (headers & HDR_CNP) {
		packet->echo.present = next8(input) & 1;
		packet->echo.psn = psn_add(world->qp->requester.send_psn, (0u - next8(input) % 64) & PSN_MASK);
		packet->echo.qpn = next8(input) < 200 ? world->peer_qpn : next32(input) & QPN_MASK;
	}
}

/* What a Verbatim says of gaps, as a rule of what is near. */
static void pick_gaps(struct world *world, struct input *input, uint8_t *payload)
{
	struct gaps gaps = { .kind = (enum gaps_kind)(next8(input) % (GAPS_KINDS + 1)),
			     .qpn = next8(input) < 240 ? world->peer_qpn : next32(input) & QPN_MASK };

	for (unsigned i = 0; i < GAPS_REACH / 64; i++)
		gaps.held[i] = i && next8(input) < 128 ? 0 : (uint64_t)next32(input) << 32 | next32(input);
	gaps_write(&gaps, payload);
}

static size_t pick_payload(struct world *world, const struct packet *packet, struct input *input)
{
	uint32_t mtu = world->qp->mtu;
	uint8_t choice = next8(input);

	if (choice < 128)
		return packet->op->part == PART_FIRST || packet->op->part == PART_MIDDLE ? mtu : choice;
	if (choice < 200 && (packet->op->headers & HDR_RETH))
		return packet->reth.length < mtu ? packet->reth.length : mtu;
	return next16(input) % (PATH_MTU_MAX + 1);
}

static void receive_packet(struct world *world, struct input *input)
{
	struct icrc_header header = { .source_port = 0xc001, .destination_port = 4791,
				      .dont_fragment = true };
	struct packet packet = { .op = pick_opcode(input), .pkey = PKEY_DEFAULT, .migrated = true };
	uint8_t flags = next8(input), *bytes = malloc(PACKET_BYTES_MAX);
	size_t at;

	require(bytes != NULL);
	packet.solicited = flags & 1;
	packet.ack_request = flags & 2;
	packet.fecn = (flags & 0x0c) == 0x0c;
	packet.becn = (flags & 0x30) == 0x30;
	packet.echo_request = flags & 0x40;
	packet.imm_follows = flags & 0x20;
	packet.dest_qpn = world->qp->number;
	packet.psn = pick_psn(world, input, opcode_is_response(packet.op) || packet.op->verb == VERB_GAPS);
	fill_headers(world, input, &packet);
	packet.payload_bytes = packet.op->verb == VERB_GAPS ? GAPS_BYTES : pick_payload(world, &packet, input);
	at = packet_write_headers(&packet, bytes);
	memset(bytes + at, flags, packet.payload_bytes + packet_pad(packet.payload_bytes));
	if (packet.op->verb == VERB_GAPS && flags & 0x0f)
		pick_gaps(world, input, bytes + at);
	at += packet.payload_bytes + packet_pad(packet.payload_bytes);
	memcpy(header.source, world->peer->address + 12, 4);
	memcpy(header.destination, world->host->address + 12, 4);
	icrc_seal(&header, bytes, at);
	/* A packet may be parsed in a buffer of just its size. */
	bytes = realloc(bytes, at + ICRC_BYTES);
	if (packet_parse(bytes, at + ICRC_BYTES, &packet) == PARSE_OK)
		host_receive(world->host, world->peer, bytes, at + ICRC_BYTES, false);
	free(bytes);
}

/* ---- messages ---- */

/* Of a sender whose memory is there, or not. */
static bool copy_fetched(void *context, void *to, size_t bytes)
{
	struct world *world = context;
	uint8_t choice = next8(world->input);

	require(bytes > 0 && bytes <= OPEN_BYTES);
	if (choice >= 240)
		return false;
	memset(to, choice, bytes);
	return true;
}

/* What comes with a message: bytes that fit its head, as a rule. */
static uint8_t *pick_message_data(struct world *world, struct input *input,
				  const uint32_t head[MESSAGE_WORDS], uint8_t near, uint32_t *bytes)
{
	unsigned flags = head[2] >> 24, target = flags & MESSAGE_WRITE ? MESSAGE_TARGET_BYTES : 0;
	uint64_t address = pick_address(input);
	uint32_t rkey = pick_key(world, input);
	uint8_t *data;

	*bytes = target + (flags & MESSAGE_RENDEZVOUS
				   ? (head[1] >> 24) * (uint32_t)sizeof(struct message_piece)
				   : head[4]);
	if (near == 51)
		*bytes = near % 32;
	data = malloc(*bytes + 1);
	require(data != NULL);
	memset(data, near, *bytes);
	if (target && *bytes >= target) {
		memcpy(data, &address, 8);
		memcpy(data + 8, &rkey, 4);
	}
	return data;
}

static void hear_message(struct world *world, struct input *input)
{
	const struct responder *responder = &world->qp->responder;
	uint32_t head[MESSAGE_WORDS], bytes;
	struct local_message message;
	uint8_t *data, again = next8(input) % 4;
	uint8_t near = next8(input);

	head[0] = next32(input);	/* which QP: known before */
	head[1] = (near & 1 || near > 100 ? world->peer_qpn : next32(input) & QPN_MASK) |
		  (uint32_t)next8(input) << 24;
	head[2] = (near & 2 || near > 100 ? responder->message_sequence : next32(input) & PSN_MASK) |
		  (uint32_t)next8(input) << 24;
	head[3] = pick_key(world, input);
	head[4] = pick_length(input);
	/* What is carried fits the ring. */
	if (!(head[2] >> 24 & MESSAGE_RENDEZVOUS))
		head[4] %= 2 * OPEN_BYTES;
	data = pick_message_data(world, input, head, near, &bytes);
	if (message_parse(head, data, bytes, &message)) {
		enum message_fate fate;

		world->input = input;
		world->qp->route.loopback = near != 50;
		fate = host_receive_message(world->host, world->qp, &message);
		while (fate == MESSAGE_FETCH && again--)
			fate = host_fetch(world->host, world->qp, &message, copy_fetched, world);
	}
	free(data);
}

static void answer_message(struct world *world, struct input *input)
{
	uint8_t choice = next8(input);
	const struct qp *qp = world->qp;
	uint64_t token = world->token;

	/* The one that is due, as a rule. */
	if (choice < 230 && qp->requester.local_messages)
		token = send_queue_at(&qp->sq, qp->sq.tail + qp->requester.refused)->token;
	else
		token -= choice & 7;
	host_answer_message(world->host, world->qp, token, next8(input) & 1);
}

static void post_send(struct world *world, struct input *input)
{
	struct ibv_sge sge[4];
	struct ibv_send_wr wr = { .wr_id = world->posted_sends, .sg_list = sge };
	uint8_t shape = next8(input);
	int i;

	wr.opcode = (enum ibv_wr_opcode)(next8(input) % (IBV_WR_SEND_WITH_INV + 2));
	wr.send_flags = next8(input) & (IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED);
	wr.num_sge = shape & 3;
	for (i = 0; i < wr.num_sge; i++)
		sge[i] = (struct ibv_sge){ .addr = pick_address(input), .length = pick_length(input),
					   .lkey = pick_key(world, input) };
	wr.invalidate_rkey = pick_key(world, input);
	if (wr.opcode == IBV_WR_BIND_MW) {
		wr.bind_mw.mw = &world->mw.ibv;
		wr.bind_mw.rkey = ibv_inc_rkey(world->mw.ibv.rkey);
		wr.bind_mw.bind_info = (struct ibv_mw_bind_info){
			.mr = &world->mr->ibv, .addr = pick_address(input),
			.length = pick_length(input), .mw_access_flags = IBV_ACCESS_REMOTE_WRITE };
	} else if (world->qp->type == IBV_QPT_UD) {
		wr.wr.ud.ah = &world->ah->ibv;
		wr.wr.ud.remote_qpn = world->peer_qpn;
		wr.wr.ud.remote_qkey = next32(input);
	} else if (wr.opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
		   wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = pick_address(input);
		wr.wr.atomic.rkey = next32(input);
	} else {
		wr.wr.rdma.remote_addr = pick_address(input);
		wr.wr.rdma.rkey = next32(input);
	}
	if (!host_post_send(world->host, world->qp, &wr))
		world->posted_sends++;
}

static void post_recv(struct world *world, struct input *input)
{
	struct ibv_sge sge[4];
	struct ibv_recv_wr wr = { .wr_id = world->posted_recvs, .sg_list = sge,
				  .num_sge = next8(input) & 3 };
	int i, err;

	for (i = 0; i < wr.num_sge; i++)
		sge[i] = (struct ibv_sge){ .addr = pick_address(input), .length = pick_length(input),
					   .lkey = pick_key(world, input) };
	err = world->srq ? host_post_srq(world->host, world->srq, &wr) :
			   host_post_recv(world->host, world->qp, &wr);
	world->posted_recvs += !err;
}

static void pass_time(struct world *world, struct input *input)
{
	uint64_t until_ns = world->sim->now_ns + (1ull << next8(input) % 31);

	world->sim->handled_max = world->sim->handled + 20000;
	sim_run(world->sim, until_ns);
}

static void poll(struct world *world)
{
	struct ibv_wc wc[8];
	int n, i;

	while ((n = cq_take(world->send_cq, 8, wc)) > 0)
		for (i = 0; i < n; i++) {
			require(wc[i].wr_id >= world->completed_sends);
			require(wc[i].wr_id < world->posted_sends);
			world->completed_sends = wc[i].wr_id + 1;
		}
	while ((n = cq_take(world->recv_cq, 8, wc)) > 0)
		for (i = 0; i < n; i++) {
			require(wc[i].wr_id >= world->completed_recvs);
			require(wc[i].wr_id < world->posted_recvs);
			world->completed_recvs = wc[i].wr_id + 1;
		}
}

static void change_state(struct world *world, struct input *input)
{
	static const enum ibv_qp_state states[] = { IBV_QPS_ERR, IBV_QPS_SQD, IBV_QPS_RTS,
						    IBV_QPS_RTS };
	struct ibv_qp_attr attr = { .en_sqd_async_notify = 1 };
	uint8_t choice = next8(input);

	if (choice >= 64) {
		attr.qp_state = states[choice & 3];
		host_modify(world->host, world->qp, &attr, IBV_QP_STATE);
		return;
	}
	poll(world);
	host_modify_state(world->host, world->qp, IBV_QPS_RESET);
	cq_clean(world->send_cq, world->qp->number);
	if (!world->srq)
		cq_clean(world->recv_cq, world->qp->number);
	world->connect.psn[1] = next32(input) & PSN_MASK;
	host_connect(world->host, world->qp, world->peer, world->peer_qpn, &world->connect, 0);
}

/* ---- invariants ---- */

static void check_queues(const struct qp *qp)
{
	const struct send_queue *queue = &qp->sq;
	const struct requester *requester = &qp->requester;

	require(queue->sent - queue->tail <= queue->head - queue->tail);
	require(queue->head - queue->tail <= queue->size);
	if (!qp_is(qp, QP_RELIABLE))
		return;
	require(requester->local_messages <= queue->sent - queue->tail);
	require(requester->refused <= requester->local_messages);
	require(!requester->local_messages || requester->una_psn == requester->next_psn);
	require(psn_diff(requester->send_psn, requester->una_psn) >= 0);
	require(psn_diff(requester->next_psn, requester->send_psn) >= 0);
	require(requester->rd_outstanding <= qp->attr.max_rd_atomic);
	if (qp->path)
		require(qp->path->in_flight_bytes == requester->flight_bytes);
}

static void check_memory(void)
{
	size_t i;

	for (i = 0; i < GUARD_BYTES; i++)
		require(memory[i] == GUARD_BYTE && memory[MEMORY_BYTES - 1 - i] == GUARD_BYTE);
}

static void check(struct world *world)
{
	if (world->sim->failed)
		fprintf(stderr, "%s\n", world->sim->failure);
	require(!world->sim->failed);
	check_queues(world->qp);
	if (world->qp->state == IBV_QPS_ERR) {
		require(world->qp->sq.tail == world->qp->sq.head);
		require(world->srq || !recv_queue_count(&world->qp->rq));
		require(!world->qp->requester.flight_bytes);
	}
}

/* ---- the run ---- */

static void build(struct world *world, struct input *input)
{
	static const enum ibv_qp_type types[] = { IBV_QPT_RC, IBV_QPT_XRC_RECV, IBV_QPT_UC, IBV_QPT_UD };
	uint8_t shape = next8(input);
	enum ibv_qp_type type = types[shape & 3];

	memset(memory, GUARD_BYTE, sizeof(memory));
	memset(memory + GUARD_BYTES, 0, OPEN_BYTES);
	world->sim = sim_create(1);
	world->host = host_create(world->sim);
	world->peer = host_create(world->sim);
	world->peer->crashed = true;
	world->peer_qpn = 2u << QP_INDEX_BITS | 0x11;
	world->connect = connect_defaults();
	world->connect.mtu = IBV_MTU_256 + (shape >> 3) % 5;
	world->connect.psn[0] = 0xfffffd;
	world->connect.psn[1] = 0xfffff0;
	world->connect.rnr_retry = world->connect.retry_cnt = shape >> 6;
	world->send_cq = host_cq(world->host, 2 * QUEUE);
	world->recv_cq = host_cq(world->host, 2 * QUEUE);
	world->srq = shape & 4 || type == IBV_QPT_XRC_RECV ? host_srq(world->host, QUEUE, 4) : NULL;
	if (type == IBV_QPT_XRC_RECV)
		world->xrcd = host_xrcd(world->srq, SRQN, world->recv_cq);
	world->mr = host_mr(world->host, memory + GUARD_BYTES, OPEN_BYTES,
			    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
			    IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND);
	require(!mw_alloc(&world->host->mrs, &world->host->pd, IBV_MW_TYPE_2, &world->mw));
	world->qp = host_qp(world->host, &(struct qp_options){
		.type = type, .xrcd = world->xrcd, .send_cq = world->send_cq, .recv_cq = world->recv_cq,
		.srq = world->srq, .send_wrs = QUEUE, .recv_wrs = QUEUE });
	host_connect(world->host, world->qp, world->peer, world->peer_qpn, &world->connect, 0);
	world->ah = host_ah(world->host, world->peer);
}

static void tear_down(struct world *world)
{
	host_qp_destroy(world->host, world->qp);
	ah_put(world->ah);
	mw_free(&world->host->mrs, &world->mw);
	host_mr_free(world->host, world->mr);
	if (world->xrcd)
		xrcd_destroy(world->xrcd, world->srq);
	if (world->srq)
		srq_destroy(world->srq);
	cq_destroy(world->send_cq);
	cq_destroy(world->recv_cq);
	sim_destroy(world->sim);
}

static void step(struct world *world, struct input *input)
{
	switch (next8(input) % 22) {
	case 0:
	case 1:
	case 2:
		post_send(world, input);
		break;
	case 3:
	case 4:
		post_recv(world, input);
		break;
	case 5:
	case 6:
		pass_time(world, input);
		break;
	case 7:
		poll(world);
		break;
	case 8:
		change_state(world, input);
		break;
	case 9:
	case 10:
		hear_message(world, input);
		break;
	case 11:
	case 12:
		host_send_message(world->host, world->qp, ++world->token);
		break;
	case 13:
		answer_message(world, input);
		break;
	default:
		receive_packet(world, input);
		break;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
	struct input input = { .data = data, .left = length };
	struct world world = { .sim = NULL };
	unsigned steps = 0;

	build(&world, &input);
	while (input.left && steps++ < STEPS_MAX) {
		step(&world, &input);
		check(&world);
	}
	/* Whatever was left undone ends by itself, or waits for the peer for ever. */
	world.sim->handled_max = world.sim->handled + 100000;
	sim_run(world.sim, world.sim->now_ns + 60 * SECOND);
	check(&world);
	poll(&world);
	check_memory();
	tear_down(&world);
	return 0;
}
