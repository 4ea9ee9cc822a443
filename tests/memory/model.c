/* SPDX-License-Identifier: BSD-2-Clause */
/* The model of two connected queue pairs (model.h). */
#include "model.h"

#include <arpa/inet.h>

#define REMOTE_ALL (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)

uint32_t model_random(struct model *model, uint32_t below)
{
	uint64_t z = model->random += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return (uint32_t)((z ^ z >> 31) >> 16) % below;
}

static bool one_in(struct model *model, uint32_t n)
{
	return model_random(model, n) == 0;
}

void model_fill(struct model *model)
{
	unsigned side;
	size_t at;

	for (side = 0; side < 2; side++)
		for (at = 0; at < MODEL_BYTES; at += 4) {
			uint32_t word =
				(uint32_t)(model->random += 0x9e3779b97f4a7c15u) * 0x85ebca6bu;

			memcpy(model->end[side].memory + at, &word, 4);
		}
	model->ambiguous = false;
}

void model_init(struct model *model, uint64_t seed)
{
	static const struct region fresh[REGIONS] = {
		[FULL] = {true, false, 0, TARGET_BYTES, REMOTE_ALL},
		[READ_ONLY] = {true, false, 0, TARGET_BYTES, IBV_ACCESS_REMOTE_READ},
		[OTHER_PD] = {true, true, 0, TARGET_BYTES, REMOTE_ALL},
		[ODD] = {true, false, 1000, 100001, REMOTE_ALL},
	};
	unsigned side;

	memset(model, 0, sizeof(*model));
	model->random = seed * 1000003u + 17;
	model->next_id = 1;
	for (side = 0; side < 2; side++) {
		model->end[side].memory = malloc(MODEL_BYTES);
		memcpy(model->end[side].region, fresh, sizeof(fresh));
	}
	model_fill(model);
}

void model_reset(struct model *model)
{
	unsigned side;

	for (side = 0; side < 2; side++) {
		model->end[side].receives = 0;
		model->end[side].failed = false;
		model->end[side].region[WINDOW].alive = false;
	}
}

/* ---- what to do ---- */

static uint32_t random_size(struct model *model)
{
	static const uint32_t edge[] = {
		0,    1,    7,	   8,	  27,	 28,	29,    52,    63,    64,    65,
		255,  256,  257,   1023,  1024,	 1025,	2047,  2048,  2049,  4095,  4096,
		4097, 8192, 16383, 16384, 16385, 32767, 32768, 32769, 65535, 65536, 65537};

	return one_in(model, 4) ? model_random(model, 66000)
				: edge[model_random(model, sizeof(edge) / sizeof(edge[0]))];
}

/* Cut @bytes into pieces that lie one behind the other, or (of sources) anywhere. */
static unsigned cut(struct model *model, uint32_t at, uint32_t room, uint32_t bytes, bool anywhere,
		    struct piece *piece, unsigned max)
{
	unsigned pieces = 1 + model_random(model, max), i;

	if (!bytes)
		pieces = model_random(model, 2);
	for (i = 0; i < pieces; i++) {
		uint32_t part = i == pieces - 1 ? bytes : model_random(model, bytes + 1);

		piece[i] = (struct piece){at, part};
		if (anywhere)
			piece[i].at = at + model_random(model, room - part + 1);
		else
			at += part;
		bytes -= part;
	}
	return pieces;
}

static bool is_atomic(enum ibv_wr_opcode opcode)
{
	return opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

static bool is_send(enum ibv_wr_opcode opcode)
{
	return opcode == IBV_WR_SEND || opcode == IBV_WR_SEND_WITH_IMM ||
	       opcode == IBV_WR_SEND_WITH_INV;
}

bool op_takes_receive(const struct op *op)
{
	return is_send(op->opcode) || op->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

static void choose_place(struct model *model, const struct model_end *there, struct op *op)
{
	const struct region *region;
	uint32_t room;

	op->region = one_in(model, 3) ? (enum region_name)model_random(model, WINDOW + 1) : FULL;
	if (op->region == OTHER_PD && !one_in(model, 6))
		op->region = FULL;
	if (op->region == WINDOW && !there->region[WINDOW].alive && !one_in(model, 6))
		op->region = ODD;
	if (one_in(model, 100))
		op->region = DEAD;
	region =
		&there->region[op->region == DEAD || !there->region[op->region].bytes ? FULL
										      : op->region];
	room = region->bytes >= op->bytes ? region->bytes - op->bytes : 0;
	op->there = region->start + model_random(model, room + 1);
	if (is_atomic(op->opcode))
		op->there &= ~7u;
	if (one_in(model, 60)) /* out of bounds, or unaligned */
		op->there = region->start + region->bytes - model_random(model, op->bytes + 1) + 3;
	if (op->there + op->bytes > MODEL_BYTES)
		op->there = MODEL_BYTES - op->bytes;
}

struct op model_random_op(struct model *model, enum side from, unsigned number)
{
	static const enum ibv_wr_opcode kind[] = {IBV_WR_SEND,
						  IBV_WR_SEND_WITH_IMM,
						  IBV_WR_SEND_WITH_INV,
						  IBV_WR_RDMA_WRITE,
						  IBV_WR_RDMA_WRITE,
						  IBV_WR_RDMA_WRITE,
						  IBV_WR_RDMA_WRITE_WITH_IMM,
						  IBV_WR_RDMA_READ,
						  IBV_WR_RDMA_READ,
						  IBV_WR_ATOMIC_CMP_AND_SWP,
						  IBV_WR_ATOMIC_FETCH_AND_ADD};
	const struct model_end *there = &model->end[!from];
	struct op op = {.opcode = kind[model_random(model, sizeof(kind) / sizeof(kind[0]))]};
	bool in;

	if (op.opcode == IBV_WR_SEND_WITH_INV && !there->region[WINDOW].alive)
		op.opcode = IBV_WR_SEND;
	in = op.opcode == IBV_WR_RDMA_READ || is_atomic(op.opcode);
	op.bytes = is_atomic(op.opcode) ? 8 : random_size(model);
	op.imm = model_random(model, UINT32_MAX);
	op.compare_add = one_in(model, 2) ? 0 : model_random(model, 1000);
	op.swap = model_random(model, 1u << 30) * UINT64_C(0x100000001);
	op.is_signaled = !one_in(model, 3);
	op.is_solicited = one_in(model, 3);
	op.is_inline = !in && op.bytes <= 256 && one_in(model, 2);
	op.bad_lkey = !op.is_inline && op.bytes && one_in(model, 150);
	op.pieces = is_atomic(op.opcode) ? 1 : SGES_MAX;
	op.pieces = in ? cut(model, RESULT_AT + number * MESSAGE_MAX, MESSAGE_MAX, op.bytes, false,
			     op.piece, op.pieces)
		       : cut(model, SOURCE_AT, SOURCE_BYTES, op.bytes, true, op.piece, op.pieces);
	choose_place(model, there, &op);
	return op;
}

struct op model_large_op(struct model *model)
{
	struct op op = {.opcode = one_in(model, 2) ? IBV_WR_SEND : IBV_WR_SEND_WITH_IMM,
			.bytes = LARGE_MIN + model_random(model, LARGE_MAX - LARGE_MIN + 1),
			.imm = model_random(model, UINT32_MAX),
			.is_signaled = !one_in(model, 3)};

	op.pieces = cut(model, SOURCE_AT, SOURCE_BYTES, op.bytes, true, op.piece, SGES_MAX);
	return op;
}

struct receive model_large_receive(struct model *model)
{
	struct receive receive = {.id = model->next_id++};
	uint32_t bytes = one_in(model, 8) ? LARGE_MIN : LARGE_MAX;

	receive.pieces = cut(model, LARGE_RECEIVE_AT, LARGE_MAX, bytes, false, receive.piece,
			     RECEIVE_SGES_MAX);
	return receive;
}

struct receive model_random_receive(struct model *model, enum side side)
{
	struct receive receive = {.id = model->next_id++};
	unsigned place = (unsigned)(receive.id % RECEIVES_MAX);
	uint32_t bytes =
		one_in(model, 12) ? random_size(model) : MESSAGE_MAX - model_random(model, 100);

	receive.pieces = cut(model, RECEIVE_AT + place * MESSAGE_MAX, MESSAGE_MAX, bytes, false,
			     receive.piece, RECEIVE_SGES_MAX);
	return receive;
}

/* ---- what comes of it ---- */

void model_note_send(struct model *model, enum side side, uint64_t id, enum ibv_wc_status status,
		     enum ibv_wc_opcode opcode, uint32_t bytes)
{
	struct model_end *end = &model->end[side];

	end->sent[end->sents++] =
		(struct completion){.id = id, .status = status, .opcode = opcode, .bytes = bytes};
}

static struct receive pop_receive(struct model_end *end)
{
	struct receive first = end->receive[0];

	memmove(end->receive, end->receive + 1, --end->receives * sizeof(first));
	return first;
}

void model_flush_receives(struct model *model, enum side side)
{
	struct model_end *end = &model->end[side];

	end->failed = true;
	if (model->has_srq)
		end->receives = 0; /* the SRQ goes with its QP here, and nobody asks for them */
	while (end->receives)
		end->received[end->receiveds++] = (struct completion){
			.id = pop_receive(end).id, .status = IBV_WC_WR_FLUSH_ERR};
}

/* Both queue pairs fail, the peer's after @receive has failed, if any. */
static enum ibv_wc_status refuse(struct model *model, enum side from, enum ibv_wc_status status)
{
	model_flush_receives(model, !from);
	model->ambiguous = true;
	return status;
}

static uint32_t room_of(const struct receive *receive)
{
	uint32_t room = 0;
	unsigned i;

	for (i = 0; i < receive->pieces; i++)
		room += receive->piece[i].bytes;
	return room;
}

static void gather(const struct model_end *end, const struct op *op, uint8_t *data)
{
	unsigned i;

	for (i = 0; i < op->pieces; i++) {
		memcpy(data, end->memory + op->piece[i].at, op->piece[i].bytes);
		data += op->piece[i].bytes;
	}
}

static void scatter(struct model_end *end, const struct piece *piece, const uint8_t *data,
		    uint32_t bytes)
{
	for (; bytes; piece++) {
		uint32_t part = piece->bytes < bytes ? piece->bytes : bytes;

		memcpy(end->memory + piece->at, data, part);
		data += part;
		bytes -= part;
	}
}

static bool may_access(const struct model_end *there, const struct op *op)
{
	const struct region *region = &there->region[op->region];
	unsigned need = op->opcode == IBV_WR_RDMA_READ ? IBV_ACCESS_REMOTE_READ
			: is_atomic(op->opcode)	       ? IBV_ACCESS_REMOTE_ATOMIC
						       : IBV_ACCESS_REMOTE_WRITE;

	if (!op->bytes)
		return true;
	return op->region != DEAD && region->alive && !region->other_pd &&
	       (region->access & need) && op->there >= region->start &&
	       op->there - region->start <= region->bytes &&
	       op->bytes <= region->bytes - (op->there - region->start);
}

static void do_atomic(struct model_end *here, struct model_end *there, const struct op *op)
{
	uint64_t value, result;

	memcpy(&value, there->memory + op->there, 8);
	memcpy(here->memory + op->piece[0].at, &value, 8);
	result = value;
	if (op->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
		result = value + op->compare_add;
	else if (value == op->compare_add)
		result = op->swap;
	memcpy(there->memory + op->there, &result, 8);
}

/* The receive of a message that takes one; SUCCESS or the sender's status. */
static enum ibv_wc_status receive_message(struct model *model, enum side from, const struct op *op,
					  const uint8_t *data)
{
	struct model_end *there = &model->end[!from];
	struct completion *done = &there->received[there->receiveds];
	struct receive receive = pop_receive(there);
	bool write = op->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;

	there->receiveds++;
	*done = (struct completion){.id = receive.id,
				    .status = IBV_WC_SUCCESS,
				    .bytes = op->bytes,
				    .opcode = write ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV,
				    .imm = op->imm,
				    .has_imm = op->opcode == IBV_WR_SEND_WITH_IMM || write,
				    .has_invalidated = op->opcode == IBV_WR_SEND_WITH_INV};
	if (write)
		return IBV_WC_SUCCESS;
	if (op->bytes > room_of(&receive)) {
		done->status = IBV_WC_LOC_LEN_ERR;
		return refuse(model, from, IBV_WC_REM_INV_REQ_ERR);
	}
	scatter(there, receive.piece, data, op->bytes);
	if (op->opcode == IBV_WR_SEND_WITH_INV)
		there->region[WINDOW].alive = false;
	return IBV_WC_SUCCESS;
}

static enum ibv_wc_status carry_out(struct model *model, enum side from, const struct op *op)
{
	struct model_end *here = &model->end[from], *there = &model->end[!from];
	static uint8_t data[LARGE_MAX];

	if (op->bad_lkey) { /* found before the peer is asked */
		model->ambiguous = true;
		return IBV_WC_LOC_PROT_ERR;
	}
	if (is_atomic(op->opcode) && op->there & 7)
		return refuse(model, from, IBV_WC_REM_INV_REQ_ERR);
	if (!is_send(op->opcode) && !may_access(there, op)) {
		if (op_takes_receive(op) && there->receives)
			there->received[there->receiveds++] =
				(struct completion){.id = pop_receive(there).id,
						    .status = IBV_WC_LOC_ACCESS_ERR,
						    .or_flushed = model->is_late};
		return refuse(model, from, IBV_WC_REM_ACCESS_ERR);
	}
	if (op_takes_receive(op) && !there->receives) {
		model->ambiguous = true;
		return IBV_WC_RNR_RETRY_EXC_ERR;
	}
	if (is_atomic(op->opcode)) {
		do_atomic(here, there, op);
		return IBV_WC_SUCCESS;
	}
	if (op->opcode == IBV_WR_RDMA_READ) {
		scatter(here, op->piece, there->memory + op->there, op->bytes);
		return IBV_WC_SUCCESS;
	}
	gather(here, op, data);
	if (!is_send(op->opcode))
		memcpy(there->memory + op->there, data, op->bytes);
	return op_takes_receive(op) ? receive_message(model, from, op, data) : IBV_WC_SUCCESS;
}

static enum ibv_wc_opcode wc_opcode(enum ibv_wr_opcode opcode)
{
	switch (opcode) {
	case IBV_WR_RDMA_READ:
		return IBV_WC_RDMA_READ;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
		return IBV_WC_COMP_SWAP;
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		return IBV_WC_FETCH_ADD;
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		return IBV_WC_RDMA_WRITE;
	default:
		return IBV_WC_SEND;
	}
}

bool model_run(struct model *model, enum side from, const struct op *op, uint64_t id)
{
	bool in = op->opcode == IBV_WR_RDMA_READ || is_atomic(op->opcode);
	enum ibv_wc_status status = carry_out(model, from, op);

	if (op->is_signaled || status)
		model_note_send(model, from, id, status, wc_opcode(op->opcode),
				in ? op->bytes : UINT32_MAX);
	return status == IBV_WC_SUCCESS;
}
