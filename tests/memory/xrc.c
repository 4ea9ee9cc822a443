/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * XRC inside a host: requests name an SRQ, whose protection domain says what memory they reach and whose CQ says
 * where receives complete. The same random conversation in each mode and over UDP, checked against a model of
 * the target's memory after each batch.
 *
 *	LEFT	one XRC_SEND QP
 *	RIGHT	one XRC_RECV QP; SRQs A and B, each with a protection domain, a CQ and a region of its own,
 *		both regions over the same memory; a third SRQ of another XRC domain
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>

#include "device/internal.h"
#include "local/grant/control.h"
#include "local/channel/peer.h"
#include "local/channel/ring.h"
#include "pair.h"
#include "transport/message.h"
#include "verbs/verbs.h"

#define TARGET_BYTES	98304u		/* what WRITEs, READs and atomics reach */
#define MESSAGE_MAX	40000u
#define BATCH		4u
#define BYTES		(TARGET_BYTES + BATCH * MESSAGE_MAX)
#define BATCHES		120u

enum name { A, B, FOREIGN, NAMES };

/* RIGHT's, as LEFT is told. */
struct offer {
	uint32_t srqn[NAMES], rkey[NAMES];
};

struct target {
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_srq *srq;
	struct ibv_mr *mr;
	struct ibv_xrcd *domain;
};

struct op {
	enum ibv_wr_opcode opcode;
	enum name srq, region;
	uint32_t bytes, at, imm;
};

struct talk {
	struct end *end;
	uint64_t random;
	struct target target[NAMES];	/* RIGHT */
	struct offer offer;
	uint8_t *model;			/* RIGHT's memory, in both ends */
	struct op op[BATCH];
	unsigned count, good;		/* requests of a batch; those before the first that fails */
	unsigned number;		/* of the batch */
};

/* ---- what both ends know ---- */

static uint32_t any(struct talk *talk, uint32_t below)
{
	uint64_t z = talk->random += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	return (uint32_t)((z ^ z >> 27) >> 16) % below;
}

static bool is_send(const struct op *op)
{
	return op->opcode == IBV_WR_SEND || op->opcode == IBV_WR_SEND_WITH_IMM;
}

static bool takes_receive(const struct op *op)
{
	return is_send(op) || op->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

static bool succeeds(const struct op *op)
{
	return op->srq != FOREIGN && (is_send(op) || !op->bytes || op->srq == op->region);
}

static struct op random_op(struct talk *talk)
{
	static const enum ibv_wr_opcode kind[] = {
		IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE,
		IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD };
	static const uint32_t edge[] = { 0, 1, 8, 12, 13, 24, 25, 28, 64, 1024, 2048, 2049, 4097, 32768, 32769 };
	struct op op = { .opcode = kind[any(talk, sizeof(kind) / sizeof(kind[0]))],
			 .srq = (enum name)any(talk, 2), .imm = any(talk, UINT32_MAX),
			 .bytes = any(talk, 3) ? edge[any(talk, sizeof(edge) / sizeof(edge[0]))] :
						 any(talk, MESSAGE_MAX) };

	op.region = any(talk, 30) ? op.srq : (enum name)any(talk, NAMES);
	if (!any(talk, 60))
		op.srq = FOREIGN;
	if (op.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
		op.bytes = 8;
	op.at = any(talk, TARGET_BYTES - op.bytes) & ~7u;
	return op;
}

/* LEFT's data of a request. */
static void fill(struct talk *talk, unsigned i, uint8_t *data)
{
	for (uint32_t at = 0; at < talk->op[i].bytes; at++)
		data[at] = (uint8_t)(at * 7 + talk->op[i].imm + (at >> 8));
}

static void run_model(struct talk *talk, unsigned i)
{
	const struct op *op = &talk->op[i];
	uint64_t value;

	switch (op->opcode) {
	case IBV_WR_SEND:
	case IBV_WR_SEND_WITH_IMM:
		fill(talk, i, talk->model + TARGET_BYTES + i * MESSAGE_MAX);
		break;
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		fill(talk, i, talk->model + op->at);
		break;
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		memcpy(&value, talk->model + op->at, 8);
		value += op->imm;
		memcpy(talk->model + op->at, &value, 8);
		break;
	default:
		break;
	}
}

static void next_batch(struct talk *talk)
{
	talk->count = 1 + any(talk, BATCH);
	talk->good = talk->count;
	for (unsigned i = 0; i < talk->count; i++) {
		talk->op[i] = random_op(talk);
		if (talk->good == talk->count && !succeeds(&talk->op[i]))
			talk->good = i;
	}
}

/* ---- LEFT ---- */

static void make_sender(struct end *end)
{
	struct ibv_qp_init_attr attr = { .send_cq = end->cq, .qp_type = IBV_QPT_XRC_SEND,
					 .cap = { .max_send_wr = 16, .max_send_sge = 1 } };

	end->qp = ibv_create_qp(end->pd, &attr);
	CHECK(end->qp, "%m");
}

static void post_to(struct talk *talk, unsigned i)
{
	struct end *end = talk->end;
	const struct op *op = &talk->op[i];
	struct ibv_sge sge = { (uintptr_t)end->memory + i * MESSAGE_MAX, op->bytes, end->mr->lkey };
	struct ibv_send_wr *bad, wr = { .wr_id = i, .sg_list = &sge, .num_sge = 1, .opcode = op->opcode,
					/* a WRITE might overtake a READ before it */
					.send_flags = IBV_SEND_SIGNALED | IBV_SEND_FENCE,
					.imm_data = htonl(op->imm),
					.qp_type.xrc.remote_srqn = talk->offer.srqn[op->srq] };

	if (op->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = end->there.memory + op->at;
		wr.wr.atomic.rkey = talk->offer.rkey[op->region];
		wr.wr.atomic.compare_add = op->imm;
	} else {
		wr.wr.rdma.remote_addr = end->there.memory + op->at;
		wr.wr.rdma.rkey = talk->offer.rkey[op->region];
	}
	CHECK(!ibv_post_send(end->qp, &wr, &bad), "%m");
}

/* READs behind WRITEs: against the model as it is when each is executed. */
static void compare_read(struct talk *talk, unsigned i)
{
	const uint8_t *data = (uint8_t *)talk->end->memory + i * MESSAGE_MAX;

	if (talk->op[i].opcode == IBV_WR_RDMA_READ || talk->op[i].opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
		CHECK(!memcmp(data, talk->model + talk->op[i].at, talk->op[i].bytes), "batch %u, request %u",
		      talk->number, i);
}

static enum ibv_wc_status status_of(const struct talk *talk, unsigned i)
{
	if (i != talk->good)
		return i < talk->good ? IBV_WC_SUCCESS : IBV_WC_WR_FLUSH_ERR;
	return talk->op[i].srq == FOREIGN ? IBV_WC_REM_INV_REQ_ERR : IBV_WC_REM_ACCESS_ERR;
}

static void send_batch(struct talk *talk)
{
	struct ibv_wc wc;
	unsigned i;

	for (i = 0; i < talk->count; i++)
		fill(talk, i, (uint8_t *)talk->end->memory + i * MESSAGE_MAX);
	for (i = 0; i < talk->count; i++)
		post_to(talk, i);
	for (i = 0; i < talk->count; i++) {
		CHECK(get(talk->end, &wc, 20), "batch %u, request %u does not complete", talk->number, i);
		CHECK(wc.wr_id == i && wc.status == status_of(talk, i), "batch %u: request %u: %s and not %s",
		      talk->number, (unsigned)wc.wr_id, ibv_wc_status_str(wc.status),
		      ibv_wc_status_str(status_of(talk, i)));
		if (i < talk->good) {
			compare_read(talk, i);
			run_model(talk, i);
		}
	}
}

/* ---- RIGHT ---- */

static struct ibv_xrcd *make_domain(struct end *end)
{
	struct ibv_xrcd_init_attr attr = { .comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
					   .fd = -1, .oflags = O_CREAT };
	struct ibv_xrcd *domain = ibv_open_xrcd(end->context, &attr);

	CHECK(domain, "%m");
	return domain;
}

static void make_srq(struct talk *talk, enum name name)
{
	struct target *target = &talk->target[name];
	struct ibv_srq_init_attr_ex attr = {
		.attr = { .max_wr = 16, .max_sge = 1 }, .srq_type = IBV_SRQT_XRC, .pd = target->pd,
		.xrcd = target->domain, .cq = target->cq,
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD |
			     IBV_SRQ_INIT_ATTR_CQ };

	target->srq = ibv_create_srq_ex(talk->end->context, &attr);
	CHECK(target->srq && !ibv_get_srq_num(target->srq, &talk->offer.srqn[name]), "%m");
}

static void make_targets(struct talk *talk)
{
	struct end *end = talk->end;

	for (unsigned i = 0; i < NAMES; i++) {
		struct target *target = &talk->target[i];

		target->pd = ibv_alloc_pd(end->context);
		target->cq = ibv_create_cq(end->context, 64, NULL, NULL, 0);
		CHECK(target->pd && target->cq, "%m");
		target->mr = ibv_reg_mr(target->pd, end->memory, BYTES, ALL_ACCESS);
		CHECK(target->mr, "%m");
		talk->offer.rkey[i] = target->mr->rkey;
		target->domain = i == B ? talk->target[A].domain : make_domain(end);
		make_srq(talk, (enum name)i);
	}
}

static void make_receiver(struct talk *talk)
{
	struct ibv_qp_init_attr_ex attr = { .qp_type = IBV_QPT_XRC_RECV, .xrcd = talk->target[A].domain,
					    .comp_mask = IBV_QP_INIT_ATTR_XRCD };

	talk->end->qp = ibv_create_qp_ex(talk->end->context, &attr);
	CHECK(talk->end->qp, "%m");
}

static void post_receives(struct talk *talk)
{
	for (unsigned i = 0; i < talk->count; i++) {
		struct target *target = &talk->target[talk->op[i].srq];
		struct ibv_sge sge = {
			(uintptr_t)talk->end->memory + TARGET_BYTES + i * MESSAGE_MAX, MESSAGE_MAX,
			target->mr->lkey };
		struct ibv_recv_wr *bad, wr = { .wr_id = i, .sg_list = &sge, .num_sge = 1 };

		if (takes_receive(&talk->op[i]))
			CHECK(!ibv_post_srq_recv(target->srq, &wr, &bad), "%m");
	}
}

static void await_receive(struct talk *talk, unsigned i)
{
	const struct op *op = &talk->op[i];
	double until = now() + LIMIT_S;
	struct ibv_wc wc;

	while (!ibv_poll_cq(talk->target[op->srq].cq, 1, &wc))
		CHECK(now() < until, "batch %u: request %u has not arrived", talk->number, i);
	CHECK(wc.wr_id == i && !wc.status && wc.byte_len == op->bytes, "batch %u: receive %u: %s, %u bytes",
	      talk->number, (unsigned)wc.wr_id, ibv_wc_status_str(wc.status), wc.byte_len);
	CHECK(wc.qp_num == talk->end->qp->qp_num);
	CHECK(!!(wc.wc_flags & IBV_WC_WITH_IMM) == (op->opcode != IBV_WR_SEND), "batch %u", talk->number);
	CHECK(op->opcode == IBV_WR_SEND || ntohl(wc.imm_data) == op->imm, "batch %u", talk->number);
}

static void receive_batch(struct talk *talk)
{
	unsigned i;

	for (i = 0; i < talk->good; i++) {
		if (takes_receive(&talk->op[i]))
			await_receive(talk, i);
		run_model(talk, i);
	}
}

/* Receives that nothing took go with their SRQs; others have other numbers. */
static void renew_srqs(struct talk *talk)
{
	for (unsigned i = A; i <= B; i++) {
		CHECK(!ibv_destroy_srq(talk->target[i].srq), "%m");
		make_srq(talk, (enum name)i);
	}
}

static void free_targets(struct talk *talk)
{
	for (unsigned i = 0; i < NAMES; i++) {
		struct target *target = &talk->target[i];

		CHECK(!ibv_destroy_srq(target->srq), "%m");
		CHECK(!ibv_dereg_mr(target->mr) && !ibv_destroy_cq(target->cq), "%m");
		CHECK(!ibv_dealloc_pd(target->pd), "%m");
	}
	CHECK(!ibv_close_xrcd(talk->target[A].domain) && !ibv_close_xrcd(talk->target[FOREIGN].domain), "%m");
}

/* ---- both ---- */

static void tell_offer(struct talk *talk)
{
	if (talk->end->side == RIGHT)
		tell(talk->end->peer, &talk->offer, sizeof(talk->offer));
	else
		CHECK(hear(talk->end->peer, &talk->offer, sizeof(talk->offer)));
}

static void begin(struct talk *talk, struct end *end)
{
	*talk = (struct talk){ .end = end, .random = 4711, .model = calloc(1, BYTES) };
	CHECK(talk->model, "%m");
	end_open(end, BYTES, ALL_ACCESS);
	if (end->side == RIGHT) {
		make_targets(talk);
		make_receiver(talk);
	} else {
		make_sender(end);
	}
	end_connect(end);
	tell_offer(talk);
}

static void finish(struct talk *talk)
{
	struct end *end = talk->end;

	meet(end);
	CHECK(!ibv_destroy_qp(end->qp), "%m");
	end->qp = NULL;
	if (end->side == RIGHT)
		free_targets(talk);
	end_close(end);
	free(talk->model);
}

static bool goes_without_packets(void)
{
	const char *mode = getenv("VERBATIM_MEMORY");

	return strcmp(mode, "ring") && strcmp(mode, "off");
}

static void check_ways(const struct end *end)
{
	static const enum counter ways[] = { COUNTER_LOCAL_SEND, COUNTER_LOCAL_WRITE, COUNTER_LOCAL_READ };

	for (unsigned i = 0; i < 3; i++)
		CHECK(!counter_here(ways[i]) == !goes_without_packets(), "way %u: %s", i, counters_here());
	CHECK(!counter_here(COUNTER_LOCAL_ATOMIC) == !end->has_blocks, "%s", counters_here());
}

static void do_batch(struct talk *talk)
{
	struct end *end = talk->end;

	next_batch(talk);
	if (end->side == RIGHT)
		post_receives(talk);
	meet(end);
	if (end->side == RIGHT)
		receive_batch(talk);
	else
		send_batch(talk);
	meet(end);
	CHECK(end->side == LEFT || !memcmp(end->memory, talk->model, BYTES), "batch %u: memory differs",
	      talk->number);
	if (talk->good == talk->count && any(talk, 20))
		return;
	/* Now and then although nothing failed: the QPs stay connected, and name other SRQs. */
	if (end->side == RIGHT)
		renew_srqs(talk);
	tell_offer(talk);
	if (talk->good < talk->count)
		end_connect(end);
}

static void talks(struct end *end, void *argument)
{
	struct talk talk;

	begin(&talk, end);
	for (talk.number = 0; talk.number < BATCHES; talk.number++)
		do_batch(&talk);
	if (end->side == LEFT)
		check_ways(end);
	finish(&talk);
}

static bool each_mode_does_what_udp_does(void)
{
	return pair_run_in_each_mode(talks, talks, NULL, 60);
}

/* ---- an SRQ that is gone ---- */

static enum ibv_wc_status do_one(struct talk *talk, struct op op)
{
	struct ibv_wc wc;

	talk->op[0] = op;
	post_to(talk, 0);
	CHECK(get(talk->end, &wc, 20), "no completion");
	return wc.status;
}

static uint64_t direct_writes(struct talk *talk)
{
	static const struct op op = { .opcode = IBV_WR_RDMA_WRITE, .bytes = 8 };
	double until = now() + LIMIT_S;

	while (goes_without_packets() && !counter_here(COUNTER_LOCAL_WRITE)) {
		CHECK(now() < until, "all goes as packets");
		CHECK(do_one(talk, op) == IBV_WC_SUCCESS);
	}
	return counter_here(COUNTER_LOCAL_WRITE);
}

static void names_what_is_gone(struct end *end, void *argument)
{
	static const struct op op = { .opcode = IBV_WR_RDMA_WRITE, .bytes = 8 };
	struct talk talk;
	uint64_t before;

	begin(&talk, end);
	before = end->side == LEFT ? direct_writes(&talk) : 0;
	meet(end);
	if (end->side == RIGHT) {
		CHECK(!ibv_destroy_srq(talk.target[A].srq), "%m");
		memset(end->memory, 0x55, 8);
	}
	meet(end);
	if (end->side == LEFT) {
		memset(end->memory, 0xaa, 8);
		CHECK(do_one(&talk, op) == IBV_WC_REM_INV_REQ_ERR);
		CHECK(counter_here(COUNTER_LOCAL_WRITE) == before, "a WRITE that names no SRQ goes directly");
	}
	meet(end);
	CHECK(end->side == LEFT || end->memory[0] == 0x55, "it was written");
	if (end->side == RIGHT)
		make_srq(&talk, A);
	finish(&talk);
}

static bool nothing_reaches_memory_by_an_srq_that_is_gone(void)
{
	return pair_run_in_each_mode(names_what_is_gone, names_what_is_gone, NULL, 60);
}

/* ---- lies ---- */

/* Ask, as no requester would, by our grant of their QP. */
static void ask(struct end *end, enum control_kind kind, uint32_t key, uint32_t srqn)
{
	struct control control = { .kind = kind, .key = key, .srqn = srqn, .qpn = end->qp->qp_num,
				   .owner_qpn = end->there.qpn };
	struct local *local = &to_hca(end->context)->hca->engine.local;
	struct peer *peer = peer_of_slot(local, qpn_slot(end->there.qpn));
	struct qp *qp = to_qp(end->qp);
	double until = now() + LIMIT_S;
	struct ibv_wc wc;

	pair_lock(&qp->lock);
	control.qp = qp->pairing.theirs;
	qp->pairing.asked_srqn = kind == CONTROL_ASK_SRQ ? srqn : 0;
	pair_unlock(&qp->lock);
	CHECK(peer && control.qp);
	while (!control_send(local, peer, &control, 0)) {
		CHECK(now() < until, "the ring is full");
		CHECK(!ibv_poll_cq(end->cq, 1, &wc));
	}
}

static bool learns(struct end *end, uint32_t key, uint32_t srqn, double limit_s)
{
	struct local *local = &to_hca(end->context)->hca->engine.local;
	struct peer *peer = peer_of_slot(local, qpn_slot(end->there.qpn));
	struct qp *qp = to_qp(end->qp);
	struct peer_region region;
	double until = now() + limit_s;
	struct ibv_wc wc;
	bool known = false;

	while (!known && now() < until) {
		CHECK(!ibv_poll_cq(end->cq, 1, &wc));
		pair_lock(&qp->lock);
		known = key ? peer_region_find(peer->regions, key, &region) :
			      qp->targets->entry[srqn % PAIRING_TARGETS].srqn == srqn;
		pair_unlock(&qp->lock);
	}
	return known;
}

static void lies(struct end *end, void *argument)
{
	const struct offer *offer;
	struct talk talk;

	begin(&talk, end);
	offer = &talk.offer;
	if (end->side == LEFT) {
		direct_writes(&talk);
		ask(end, CONTROL_ASK_SRQ, 0, offer->srqn[FOREIGN]);
		CHECK(!learns(end, 0, offer->srqn[FOREIGN], 0.1), "an SRQ of another domain");
		ask(end, CONTROL_ASK_KEY, offer->rkey[FOREIGN], offer->srqn[FOREIGN]);
		CHECK(!learns(end, offer->rkey[FOREIGN], 0, 0.1), "memory of another domain's SRQ");
		ask(end, CONTROL_ASK_KEY, offer->rkey[B], offer->srqn[A]);
		CHECK(!learns(end, offer->rkey[B], 0, 0.1), "memory of another SRQ");
		ask(end, CONTROL_ASK_SRQ, 0, offer->srqn[B]);
		CHECK(learns(end, 0, offer->srqn[B], 20), "an SRQ of the domain");
		ask(end, CONTROL_ASK_KEY, offer->rkey[B], offer->srqn[B]);
		CHECK(learns(end, offer->rkey[B], 0, 20), "its memory");
	}
	meet(end);
	CHECK(end->side == LEFT || counter_here(COUNTER_RX_KEY) >= 2, "%s", counters_here());
	finish(&talk);
}

static bool a_peer_that_asks_learns_of_srqs_of_its_domain_alone(void)
{
	return pair_run("auto", lies, lies, NULL, 60);
}

/* ---- forged messages ---- */

#define FORGED	0xeeu		/* their data */

/* As no requester would: a SEND or WRITE of 8 bytes in the ring, the first that RIGHT's QP would execute. */
struct forgery {
	const char *what;
	unsigned flags;
	uint32_t srqn, rkey;
	unsigned missing;	/* bytes at the end */
	uint32_t grant;		/* added to the QP's */
};

static void put(struct ring_room *room, size_t *at, const void *what, size_t bytes, size_t most)
{
	if (*at + bytes <= most)
		memcpy(room->data + *at, what, bytes);
	*at += bytes;
}

static void forge(struct end *end, const struct forgery *forgery)
{
	struct local *local = &to_hca(end->context)->hca->engine.local;
	struct peer *peer = peer_of_slot(local, qpn_slot(end->there.qpn));
	bool xrc = forgery->flags & MESSAGE_XRC, write = forgery->flags & MESSAGE_WRITE;
	size_t bytes = (xrc ? 4 : 0) + (write ? MESSAGE_TARGET_BYTES : 0) + 8 - forgery->missing, at = 0;
	uint64_t data = 0x0101010101010101u * FORGED, target[2] = { end->there.memory, forgery->rkey };
	struct qp *qp = to_qp(end->qp);
	double until = now() + LIMIT_S;
	struct ring_room room;
	struct ibv_wc wc;
	uint32_t grant;

	/* Before the ring's lock, as the device takes them. */
	pair_lock(&qp->lock);
	grant = qp->pairing.theirs + forgery->grant;
	pair_unlock(&qp->lock);
	while (ring_send_begin(local->channel_link, peer->channel, bytes, &room)) {
		CHECK(now() < until, "the ring is full");
		CHECK(!ibv_poll_cq(end->cq, 1, &wc));
	}
	room.head[0] = grant;
	room.head[1] = end->qp->qp_num;
	room.head[2] = forgery->flags << 24;
	room.head[3] = 0;
	room.head[4] = 8;
	if (xrc)
		put(&room, &at, &forgery->srqn, 4, bytes);
	if (write)
		put(&room, &at, target, MESSAGE_TARGET_BYTES, bytes);
	put(&room, &at, &data, 8, bytes);
	ring_send_end(local->channel_link, &room, CONTROL_OWNER(0));
	ring_wake_peers(local->channel_link);
}

/* In RIGHT: nothing has come, and nothing was written. */
static void check_untouched(struct talk *talk, const char *what)
{
	struct ibv_wc wc;

	for (unsigned i = 0; i < NAMES; i++)
		CHECK(!ibv_poll_cq(talk->target[i].cq, 1, &wc), "%s: a receive of SRQ %u has completed", what, i);
	for (unsigned i = 0; i < BYTES; i++)
		CHECK((uint8_t)talk->end->memory[i] != FORGED, "%s: byte %u was written", what, i);
}

static void one_receive_each(struct talk *talk)
{
	for (unsigned i = 0; i < NAMES; i++) {
		struct target *target = &talk->target[i];
		struct ibv_sge sge = {
			(uintptr_t)talk->end->memory + TARGET_BYTES, MESSAGE_MAX, target->mr->lkey };
		struct ibv_recv_wr *bad, wr = { .wr_id = i, .sg_list = &sge, .num_sge = 1 };

		CHECK(!ibv_post_srq_recv(target->srq, &wr, &bad), "%m");
	}
}

/* An honest request behind each: the QP lives on. */
static void forge_and_look(struct talk *talk, const struct forgery *forgery)
{
	static const struct op honest = { .opcode = IBV_WR_RDMA_WRITE, .bytes = 8, .at = 64 };

	if (talk->end->side == LEFT) {
		forge(talk->end, forgery);
		CHECK(do_one(talk, honest) == IBV_WC_SUCCESS, "%s", forgery->what);
		usleep(2000);
	}
	meet(talk->end);
	if (talk->end->side == RIGHT)
		check_untouched(talk, forgery->what);
	meet(talk->end);
}

static void forge_all(struct talk *talk)
{
	const uint32_t *srqn = talk->offer.srqn, *rkey = talk->offer.rkey;
	const struct forgery forgery[] = {
		{ "an SRQ of another domain", MESSAGE_XRC, srqn[FOREIGN], 0, 0, 0 },
		{ "the same, with immediate data", MESSAGE_XRC | MESSAGE_IMM, srqn[FOREIGN], 0, 0, 0 },
		{ "the same, a WRITE", MESSAGE_XRC | MESSAGE_WRITE, srqn[FOREIGN], rkey[FOREIGN], 0, 0 },
		{ "the same, and the key of ours", MESSAGE_XRC | MESSAGE_WRITE | MESSAGE_IMM,
		  srqn[FOREIGN], rkey[A], 0, 0 },
		{ "the key of another SRQ's domain", MESSAGE_XRC | MESSAGE_WRITE, srqn[A], rkey[FOREIGN], 0, 0 },
		{ "no SRQ", MESSAGE_XRC, 0, 0, 0, 0 },
		{ "the greatest number", MESSAGE_XRC, UINT32_MAX, 0, 0, 0 },
		{ "a number of more than 24 bits", MESSAGE_XRC, srqn[A] | 1u << 24, 0, 0, 0 },
		{ "an SRQ that there is not", MESSAGE_XRC, srqn[FOREIGN] + 1, 0, 0, 0 },
		{ "a number of another process", MESSAGE_XRC, srqn[A] ^ 1u << 23, 0, 0, 0 },
		{ "the number of the QP", MESSAGE_XRC, talk->end->there.qpn, 0, 0, 0 },
		{ "no number", 0, 0, 0, 0, 0 },
		{ "no number, a WRITE", MESSAGE_WRITE, 0, rkey[A], 0, 0 },
		{ "half a number", MESSAGE_XRC, srqn[A], 0, 10, 0 },
		{ "half a target", MESSAGE_XRC | MESSAGE_WRITE, srqn[A], rkey[A], 12, 0 },
		{ "less data than announced", MESSAGE_XRC, srqn[A], 0, 1, 0 },
		{ "another grant", MESSAGE_XRC, srqn[A], 0, 0, 1 },
		{ "flags that exclude each other", MESSAGE_XRC | MESSAGE_IMM | MESSAGE_INVALIDATE,
		  srqn[A], 0, 0, 0 },
		{ "unknown flags", MESSAGE_XRC | 0xc0, srqn[A], 0, 0, 0 },
	};

	for (unsigned i = 0; i < sizeof(forgery) / sizeof(forgery[0]); i++)
		forge_and_look(talk, &forgery[i]);
}

/* What is right is executed: so the others were refused for what is wrong in them. */
static void forge_a_good_one(struct talk *talk)
{
	const struct forgery good = { "a good one", MESSAGE_XRC, talk->offer.srqn[B], 0, 0, 0 };
	double until = now() + LIMIT_S;
	struct ibv_wc wc;

	if (talk->end->side == LEFT) {
		forge(talk->end, &good);
	} else {
		while (!ibv_poll_cq(talk->target[B].cq, 1, &wc))
			CHECK(now() < until, "it has not come");
		CHECK(!wc.status && wc.byte_len == 8 && wc.wr_id == B, "%s", ibv_wc_status_str(wc.status));
		CHECK((uint8_t)talk->end->memory[TARGET_BYTES] == FORGED);
		memset(talk->end->memory + TARGET_BYTES, 0, 8);
		check_untouched(talk, "any of them");	/* messages come in order: none is on its way */
	}
	meet(talk->end);
}

static void forges(struct end *end, void *argument)
{
	struct talk talk;

	begin(&talk, end);
	if (end->side == LEFT)
		direct_writes(&talk);
	else
		one_receive_each(&talk);
	meet(end);
	forge_all(&talk);
	forge_a_good_one(&talk);
	finish(&talk);
}

static bool forged_messages_reach_no_other_srq(void)
{
	return pair_run("copy", forges, forges, NULL, 60) && pair_run("mapped", forges, forges, NULL, 60);
}

int main(int argc, char **argv)
{
#define TEST(name) {#name, name}
	const struct test tests[] = {
		TEST(each_mode_does_what_udp_does),
		TEST(nothing_reaches_memory_by_an_srq_that_is_gone),
		TEST(a_peer_that_asks_learns_of_srqs_of_its_domain_alone),
		TEST(forged_messages_reach_no_other_srq),
	};

	return run_tests(argc, argv, tests, sizeof(tests) / sizeof(tests[0]));
}
