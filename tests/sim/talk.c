/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Planning and posting of a conversation (talk.h); its checkers are in oracle.c.
 */
#include <endian.h>
#include <stdlib.h>

#include "object/placement.h"
#include "oracle.h"

static uint32_t or_default(uint32_t value, uint32_t otherwise)
{
	return value ? value : otherwise;
}

static void *must(void *memory)
{
	if (!memory)
		abort();
	return memory;
}

static void fill_defaults(struct talk_options *options)
{
	options->messages_max = or_default(options->messages_max, 64);
	options->receives_max = or_default(options->receives_max, 64);
	if (!options->memory_bytes)
		options->memory_bytes = 256 * 1024;
	options->receive_bytes = or_default(options->receive_bytes, 8192);
	options->send_wrs = or_default(options->send_wrs, options->messages_max);
	options->recv_wrs = or_default(options->recv_wrs, options->receives_max);
}

static void init_side(struct talk *talk, unsigned index, struct sim_host *host)
{
	const struct talk_options *options = &talk->options;
	struct side *side = &talk->side[index];
	uint32_t cq_size = or_default(options->cq_size[index],
				      options->messages_max + options->receives_max + 1);

	side->talk = talk;
	side->peer = &talk->side[!index];
	side->index = index;
	side->host = host;
	side->depth = options->send_wrs;
	side->receive_bytes = options->receive_bytes;
	side->send_cq = host_cq(host, cq_size);
	side->recv_cq = host_cq(host, cq_size);
	if (options->use_srq && index)
		side->srq = host_srq(host, options->recv_wrs, PIECES_MAX + 1);
	side->qp = host_qp(host, &(struct qp_options){
		.type = options->type, .send_cq = side->send_cq, .recv_cq = side->recv_cq,
		.srq = side->srq, .sges = PIECES_MAX + 1, .send_wrs = options->send_wrs,
		.recv_wrs = options->recv_wrs });
	side->qpn = side->qp->number;
	memory_init(&side->memory, host, options->memory_bytes,
		    (options->messages_max * 2 + options->receives_max * 2) * PIECES_MAX + 1);
	side->messages = must(calloc(options->messages_max, sizeof(*side->messages)));
	side->receives = must(calloc(options->receives_max, sizeof(*side->receives)));
	side->counter = memory_take(&side->memory, 8, 1, 8);
	span_set(&side->memory, &side->counter, CONTENT_ANY, 0);
	side->counter_value = 1000;
	span_write64(&side->memory, &side->counter, side->counter_value);
}

struct talk *talk_create(struct sim_host *a, struct sim_host *b, const struct talk_options *options)
{
	struct talk *talk = must(calloc(1, sizeof(*talk)));
	struct sim_host *host[2] = { a, b };
	unsigned i;

	talk->sim = a->sim;
	talk->options = *options;
	talk->next_key = 1 + 1000 * sim_below(a->sim, 1000000);
	fill_defaults(&talk->options);
	init_side(talk, 0, a);
	init_side(talk, 1, b);
	for (i = 0; i < 2; i++) {
		host_connect(host[i], talk->side[i].qp, host[!i], talk->side[!i].qpn,
			     &talk->options.connect, i);
		if (options->type == IBV_QPT_UD)
			talk->ah[i] = host_ah(host[i], host[!i]);
	}
	return talk;
}

static void fini_side(struct side *side)
{
	uint32_t i;

	if (!side->destroyed)
		host_qp_destroy(side->host, side->qp);
	for (i = 0; i < side->planned; i++)
		if (side->messages[i].own_mr)
			host_mr_free(side->peer->host, side->messages[i].own_mr);
	if (side->srq)
		srq_destroy(side->srq);
	cq_destroy(side->send_cq);
	cq_destroy(side->recv_cq);
	free(side->messages);
	free(side->receives);
}

void talk_destroy(struct talk *talk)
{
	unsigned i;

	for (i = 0; i < 2; i++)
		fini_side(&talk->side[i]);
	for (i = 0; i < 2; i++) {
		memory_fini(&talk->side[i].memory);
		if (talk->ah[i])
			ah_put(talk->ah[i]);
	}
	free(talk);
}

/* ---- planning ---- */

bool message_consumes(const struct message *message)
{
	switch (message->opcode) {
	case IBV_WR_SEND:
	case IBV_WR_SEND_WITH_IMM:
	case IBV_WR_SEND_WITH_INV:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		return true;
	default:
		return false;
	}
}

static struct message *new_message(struct talk *talk, unsigned index)
{
	struct side *side = &talk->side[index];
	struct message *message = &side->messages[side->planned];

	if (side->planned == talk->options.messages_max)
		abort();
	message->number = side->planned++;
	message->key = talk->next_key++;
	message->imm = message->key ^ 0x80000000u;
	return message;
}

static bool is_write(enum ibv_wr_opcode opcode)
{
	return opcode == IBV_WR_RDMA_WRITE || opcode == IBV_WR_RDMA_WRITE_WITH_IMM ||
	       (int)opcode == WR_ATOMIC_WRITE;
}

struct message *talk_plan(struct talk *talk, unsigned index, enum ibv_wr_opcode opcode,
			  uint32_t length, unsigned flags, unsigned pieces)
{
	struct message *message = new_message(talk, index);
	struct memory *own = &talk->side[index].memory, *other = &talk->side[!index].memory;

	message->opcode = opcode;
	message->length = length;
	message->flags = flags;
	if (opcode == IBV_WR_LOCAL_INV || opcode == IBV_WR_BIND_MW)
		return message;
	message->local = memory_take(own, length, pieces, 1);
	if (is_write(opcode) || opcode == IBV_WR_RDMA_READ) {
		message->remote = memory_take(other, length, 1, (int)opcode == WR_ATOMIC_WRITE ? 8 : 1);
		message->rkey = other->mr->ibv.rkey;
	}
	if (opcode == IBV_WR_RDMA_READ) {
		span_fill(other, &message->remote, message->key);
	} else {
		span_fill(own, &message->local, message->key);
	}
	return message;
}

struct message *talk_plan_atomic(struct talk *talk, unsigned index, bool compare, unsigned flags)
{
	struct side *peer = &talk->side[!index];
	struct message *message = new_message(talk, index);
	struct memory *own = &talk->side[index].memory;

	message->opcode = compare ? IBV_WR_ATOMIC_CMP_AND_SWP : IBV_WR_ATOMIC_FETCH_AND_ADD;
	message->length = 8;
	message->flags = flags;
	message->local = memory_take(own, 8, 1, 8);
	message->remote = peer->counter;
	message->rkey = peer->memory.mr->ibv.rkey;
	message->original = peer->counter_value;
	if (compare) {
		bool differs = sim_chance(talk->sim, MILLION / 2);

		message->compare_add = peer->counter_value + differs;
		message->swap = message->key;
		if (!differs)
			peer->counter_value = message->swap;
	} else {
		message->compare_add = 1 + message->key % 1000;
		peer->counter_value += message->compare_add;
	}
	message->after = peer->counter_value;
	return message;
}

struct message *talk_plan_flush(struct talk *talk, unsigned index, bool whole, unsigned flags)
{
	struct side *peer = &talk->side[!index];
	struct message *message = new_message(talk, index);

	message->opcode = (enum ibv_wr_opcode)WR_FLUSH;
	message->flags = flags;
	message->remote = peer->counter;
	message->rkey = peer->memory.mr->ibv.rkey;
	message->swap = (whole ? FLUSH_LEVEL_MR : FLUSH_LEVEL_RANGE) << 8 | FLUSH_GLOBAL;
	return message;
}

static void plan_receive(struct side *side, struct receive *receive, unsigned pieces)
{
	enum ibv_qp_type type = side->talk->options.type;

	if (type == IBV_QPT_UD) {
		receive->grh = memory_take(&side->memory, GRH_BYTES, 1, 1);
		span_set(&side->memory, &receive->grh, CONTENT_ANY, 0);
	}
	receive->span = memory_take(&side->memory, side->receive_bytes, pieces, 1);
	/* Which message takes it is known beforehand only with RC and a queue of one's own. */
	if (type != IBV_QPT_RC || side->srq)
		span_set(&side->memory, &receive->span, CONTENT_ANY, 0);
}

void talk_plan_receives(struct talk *talk, unsigned index, uint32_t count, unsigned pieces)
{
	struct side *side = &talk->side[index];

	while (count--) {
		if (side->receives_planned == talk->options.receives_max)
			abort();
		plan_receive(side, &side->receives[side->receives_planned++], pieces);
	}
}

void talk_plan_all_receives(struct talk *talk, unsigned pieces)
{
	unsigned index;
	uint32_t i, count;

	for (index = 0; index < 2; index++) {
		const struct side *peer = &talk->side[!index];

		for (i = count = 0; i < peer->planned; i++)
			count += message_consumes(&peer->messages[i]);
		talk_plan_receives(talk, index, count, pieces);
	}
}

/* ---- posting ---- */

static void fill_wr(struct side *side, struct message *message, struct ibv_send_wr *wr)
{
	wr->wr_id = message->number;
	wr->opcode = message->opcode;
	wr->send_flags = message->flags;
	wr->imm_data = htobe32(message->imm);
	if (message->opcode == IBV_WR_SEND_WITH_INV || message->opcode == IBV_WR_LOCAL_INV)
		wr->invalidate_rkey = message->rkey;
	if (message->opcode == IBV_WR_BIND_MW) {
		wr->bind_mw.mw = &message->mw->ibv;
		wr->bind_mw.rkey = message->rkey;
		wr->bind_mw.bind_info = (struct ibv_mw_bind_info){
			.mr = &side->memory.mr->ibv, .addr = (uintptr_t)side->memory.data,
			.length = side->memory.bytes, .mw_access_flags = IBV_ACCESS_REMOTE_WRITE };
	}
	if (is_write(message->opcode) || message->opcode == IBV_WR_RDMA_READ) {
		wr->wr.rdma.remote_addr = span_address(&side->peer->memory, &message->remote);
		wr->wr.rdma.rkey = message->rkey;
	}
	if (message->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
	    message->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr->wr.atomic.remote_addr = span_address(&side->peer->memory, &message->remote);
		wr->wr.atomic.rkey = message->rkey;
		wr->wr.atomic.compare_add = message->compare_add;
		wr->wr.atomic.swap = message->swap;
	}
	if ((int)message->opcode == WR_FLUSH) {
		wr->send_flags |= SEND_BUILT;
		wr->wr.atomic.remote_addr = span_address(&side->peer->memory, &message->remote);
		wr->wr.atomic.rkey = message->rkey;
		wr->wr.atomic.compare_add = 8;
		wr->wr.atomic.swap = message->swap;
	}
	if (side->talk->options.type == IBV_QPT_UD) {
		wr->wr.ud.ah = &side->talk->ah[side->index]->ibv;
		wr->wr.ud.remote_qpn = side->peer->qpn;
		wr->wr.ud.remote_qkey = side->talk->options.connect.qkey;
	}
}

static void post_message(struct side *side)
{
	struct message *message = &side->messages[side->posted];
	struct ibv_send_wr wr = { .next = NULL };
	struct ibv_sge sge[PIECES_MAX];
	int err;

	fill_wr(side, message, &wr);
	wr.sg_list = sge;
	wr.num_sge = span_sges(&side->memory, &message->local, sge);
	oracle_posted(side, message);
	side->posted++;
	err = host_post_send(side->host, side->qp, &wr);
	if (err)
		sim_fail(side->talk->sim, "side %u: post_send of message %u: error %d", side->index,
			 message->number, err);
}

bool talk_post_receive(struct side *side)
{
	struct ibv_recv_wr wr = { .next = NULL };
	struct ibv_sge sge[PIECES_MAX + 1];
	struct receive *receive;
	int err, grh;

	if (side->receives_posted == side->receives_planned || side->destroyed)
		return false;
	receive = &side->receives[side->receives_posted];
	grh = span_sges(&side->memory, &receive->grh, sge);
	wr.wr_id = side->receives_posted++;
	wr.sg_list = sge;
	wr.num_sge = grh + span_sges(&side->memory, &receive->span, sge + grh);
	err = side->srq ? host_post_srq(side->host, side->srq, &wr) :
			  host_post_recv(side->host, side->qp, &wr);
	if (err)
		sim_fail(side->talk->sim, "side %u: post_recv: error %d", side->index, err);
	return true;
}

static bool receives_full(const struct side *side)
{
	return side->receives_posted - side->receives_done >= side->talk->options.recv_wrs;
}

static void late_receive(struct sim *sim, void *argument)
{
	struct side *side = argument;

	if (receives_full(side))
		side->late_begun = false;	/* again when one has completed */
	else if (talk_post_receive(side))
		sim_call_at(sim, sim->now_ns + side->late_receives_ns, late_receive, side);
}

static void post_receives(struct side *side)
{
	if (!side->late_receives_ns) {
		while (!receives_full(side) && talk_post_receive(side))
			;
	} else if (!side->late_begun && !receives_full(side)) {
		side->late_begun = true;
		sim_call_at(side->talk->sim, side->talk->sim->now_ns + side->late_receives_ns,
			    late_receive, side);
	}
}

static void post_messages(struct side *side)
{
	while (!side->destroyed && side->posted < side->planned &&
	       side->posted - side->completed < side->depth &&
	       side->next_post_ns <= side->talk->sim->now_ns)
		post_message(side);
}

static void poll(struct side *side)
{
	struct ibv_wc wc[16];
	int n, i;

	if (side->deaf || side->host->crashed)
		return;
	while ((n = cq_take(side->recv_cq, 16, wc)) > 0)
		for (i = 0; i < n; i++)
			oracle_received(side, &wc[i]);
	while ((n = cq_take(side->send_cq, 16, wc)) > 0)
		for (i = 0; i < n; i++)
			oracle_sent(side, &wc[i]);
}

void talk_progress(struct talk *talk)
{
	unsigned i;

	for (i = 0; i < 2; i++)
		poll(&talk->side[i]);
	for (i = 0; i < 2; i++) {
		if (talk->side[i].host->crashed)
			continue;
		post_receives(&talk->side[i]);
		post_messages(&talk->side[i]);
	}
}

void talk_application(struct sim *sim, void *argument)
{
	struct talk *talk;

	for (talk = argument; talk; talk = talk->next)
		talk_progress(talk);
}

/* What changes when an application does something. */
static uint64_t activity(const struct talk *talk)
{
	uint64_t sum = 0;

	for (; talk; talk = talk->next)
		sum += talk->side[0].posted + talk->side[0].completed + talk->side[0].receives_posted +
		       talk->side[0].receives_done + talk->side[1].posted + talk->side[1].completed +
		       talk->side[1].receives_posted + talk->side[1].receives_done;
	return sum;
}

bool talk_run(struct talk *talk)
{
	struct talk *each;
	uint64_t before;

	talk->sim->application = talk_application;
	talk->sim->application_argument = talk;
	do {
		before = activity(talk);
		talk_application(talk->sim, talk);
		if (!sim_run(talk->sim, TIME_NEVER - 1))
			return false;
	} while (activity(talk) != before);
	for (each = talk; each; each = each->next)
		talk_check_end(each);
	return !talk->sim->failed;
}
