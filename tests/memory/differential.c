/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The same random conversation in each mode of the memory path and over UDP, checked against the
 * model (model.h) after every step: completions of both ends, in order, and all memory of both.
 *
 * memory_differential [--seed N] [--mode MODE] [--steps N] replays; seeds.txt has those that are
 * always run.
 */
#include <arpa/inet.h>
#include <sys/mman.h>

#include "model.h"

#define STEPS 200u
/* Of each mode. */
#if defined(THREAD_SANITIZER)
#define SEEDS_USUAL 1u
#define SEEDS_LONG 8u
#elif defined(ADDRESS_SANITIZER)
#define SEEDS_USUAL 2u
#define SEEDS_LONG 20u
#else
#define SEEDS_USUAL 2u
#define SEEDS_LONG 60u
#endif

struct plan {
	const char *mode;
	uint64_t seed;
	unsigned steps;
};

/* One end of it. */
struct player {
	struct end *end;
	struct model *model;
	struct ibv_pd *other_pd;
	struct ibv_mr *mr[REGIONS], *local;
	struct ibv_mw *window;
	struct ibv_srq *srq;
	char *target; /* the first TARGET_BYTES of the model's memory; what is behind is end->memory's */
	uint64_t their_target;
	uint32_t key[REGIONS], their_key[REGIONS];
	unsigned step;
};

/* ---- objects ---- */

static struct model_end *mine(struct player *player)
{
	return &player->model->end[player->end->side];
}

static void register_one(struct player *player, unsigned name)
{
	const struct region *region = &mine(player)->region[name];
	int access = (int)region->access | IBV_ACCESS_LOCAL_WRITE |
		     (name == FULL ? IBV_ACCESS_MW_BIND : 0);

	player->mr[name] = ibv_reg_mr(region->other_pd ? player->other_pd : player->end->pd,
				      player->target + region->start, region->bytes, access);
	CHECK(player->mr[name], "%m");
	player->key[name] = player->mr[name]->rkey;
}

static void exchange_keys(struct player *player)
{
	tell(player->end->peer, player->key, sizeof(player->key));
	CHECK(hear(player->end->peer, player->their_key, sizeof(player->their_key)));
	tell(player->end->peer, &player->target, sizeof(player->target));
	CHECK(hear(player->end->peer, &player->their_target, sizeof(player->their_target)));
}

static void renew_window(struct player *player)
{
	if (player->window)
		CHECK(!ibv_dealloc_mw(player->window), "%m");
	player->window = ibv_alloc_mw(player->end->pd, IBV_MW_TYPE_2);
	CHECK(player->window, "%m");
	player->key[WINDOW] = player->window->rkey;
}

static void copy_model(struct player *player)
{
	memcpy(player->target, mine(player)->memory, TARGET_BYTES);
	memcpy(player->end->memory + TARGET_BYTES, mine(player)->memory + TARGET_BYTES,
	       MODEL_BYTES - TARGET_BYTES);
}

/* Where the model's memory and ours differ first; MODEL_BYTES: nowhere. */
static size_t find_difference(struct player *player)
{
	const uint8_t *model = mine(player)->memory;
	size_t at;

	if (!memcmp(player->target, model, TARGET_BYTES) &&
	    !memcmp(player->end->memory + TARGET_BYTES, model + TARGET_BYTES,
		    MODEL_BYTES - TARGET_BYTES))
		return MODEL_BYTES;
	for (at = 0; at < TARGET_BYTES && (uint8_t)player->target[at] == model[at]; at++)
		;
	for (; at >= TARGET_BYTES && (uint8_t)player->end->memory[at] == model[at]; at++)
		;
	return at;
}

static void set_up(struct player *player)
{
	struct end *end = player->end;
	unsigned name;

	end_open(end, MODEL_BYTES, 0);
	CHECK(!ibv_dereg_mr(end->mr), "%m");
	end->mr = NULL;
	player->target = end_memory(end, TARGET_BYTES);
	player->other_pd = ibv_alloc_pd(end->context);
	for (name = FULL; name <= ODD; name++)
		register_one(player, name);
	player->local = ibv_reg_mr(end->pd, end->memory + SOURCE_AT, MODEL_BYTES - SOURCE_AT,
				   IBV_ACCESS_LOCAL_WRITE);
	CHECK(player->local && player->other_pd, "%m");
	player->key[DEAD] = player->key[FULL] ^ 0x15;
	renew_window(player);
	copy_model(player);
}

/* A QP with an SRQ or without, as the model has it. */
static void make_qp(struct player *player)
{
	struct ibv_srq_init_attr srq = {
		.attr = {.max_wr = 2 * RECEIVES_MAX, .max_sge = RECEIVE_SGES_MAX}};

	if (player->model->has_srq) {
		player->srq = ibv_create_srq(player->end->pd, &srq);
		CHECK(player->srq, "%m");
	}
	end_make_qp_with(player->end, player->srq);
}

static void destroy_qp(struct player *player)
{
	CHECK(!ibv_destroy_qp(player->end->qp));
	player->end->qp = NULL;
	CHECK(!player->srq || !ibv_destroy_srq(player->srq), "%m");
	player->srq = NULL;
}

static void tear_down(struct player *player)
{
	unsigned name;

	destroy_qp(player);
	CHECK(!ibv_dealloc_mw(player->window));
	for (name = FULL; name <= ODD; name++)
		CHECK(!ibv_dereg_mr(player->mr[name]));
	CHECK(!ibv_dereg_mr(player->local));
	CHECK(!ibv_dealloc_pd(player->other_pd));
	CHECK(find_difference(player) == MODEL_BYTES, "memory at the end");
	end_close(player->end);
}

/* ---- posting ---- */

static void post_op(struct player *player, const struct op *op, uint64_t id)
{
	struct end *end = player->end;
	struct ibv_sge sge[SGES_MAX];
	struct ibv_send_wr *bad, wr = {.wr_id = id,
				       .sg_list = sge,
				       .num_sge = (int)op->pieces,
				       .opcode = op->opcode};
	unsigned i;

	for (i = 0; i < op->pieces; i++)
		sge[i] = (struct ibv_sge){
			(uintptr_t)end->memory + op->piece[i].at, op->piece[i].bytes,
			op->bad_lkey ? player->local->lkey ^ 1 : player->local->lkey};
	wr.send_flags = (op->is_signaled ? IBV_SEND_SIGNALED : 0) |
			(op->is_solicited ? IBV_SEND_SOLICITED : 0) |
			(op->is_inline ? IBV_SEND_INLINE : 0) |
			(op->is_fenced ? IBV_SEND_FENCE : 0);
	if (op->opcode == IBV_WR_SEND_WITH_INV)
		wr.invalidate_rkey = player->their_key[WINDOW];
	else
		wr.imm_data = htonl(op->imm);
	if (op->opcode == IBV_WR_ATOMIC_CMP_AND_SWP || op->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = player->their_target + op->there;
		wr.wr.atomic.rkey = player->their_key[op->region];
		wr.wr.atomic.compare_add = op->compare_add;
		wr.wr.atomic.swap = op->swap;
	} else {
		wr.wr.rdma.remote_addr = player->their_target + op->there;
		wr.wr.rdma.rkey = player->their_key[op->region];
	}
	CHECK(!ibv_post_send(end->qp, &wr, &bad), "step %u: %m", player->step);
}

static void post_one_receive(struct player *player, const struct receive *receive)
{
	struct ibv_sge sge[RECEIVE_SGES_MAX];
	struct ibv_recv_wr *bad,
		wr = {.wr_id = receive->id, .sg_list = sge, .num_sge = (int)receive->pieces};
	unsigned i;

	for (i = 0; i < receive->pieces; i++)
		sge[i] = (struct ibv_sge){(uintptr_t)player->end->memory + receive->piece[i].at,
					  receive->piece[i].bytes, player->local->lkey};
	CHECK(player->srq ? !ibv_post_srq_recv(player->srq, &wr, &bad)
			  : !ibv_post_recv(player->end->qp, &wr, &bad),
	      "step %u: %m", player->step);
}

/* ---- comparing ---- */

static void compare(struct player *player, const struct ibv_wc *wc,
		    const struct completion *expected)
{
	CHECK(wc->wr_id == expected->id, "step %u: completion of %llu and not of %llu",
	      player->step, (unsigned long long)wc->wr_id, (unsigned long long)expected->id);
	CHECK(wc->status == expected->status ||
		      (expected->or_flushed && wc->status == IBV_WC_WR_FLUSH_ERR),
	      "step %u, request %llu: %s and not %s", player->step, (unsigned long long)wc->wr_id,
	      ibv_wc_status_str(wc->status), ibv_wc_status_str(expected->status));
	if (wc->status)
		return;
	CHECK(wc->opcode == expected->opcode, "step %u: opcode %d and not %d", player->step,
	      wc->opcode, expected->opcode);
	CHECK(expected->bytes == UINT32_MAX || wc->byte_len == expected->bytes,
	      "step %u: %u bytes and not %u", player->step, wc->byte_len, expected->bytes);
	CHECK(!!(wc->wc_flags & IBV_WC_WITH_IMM) == expected->has_imm, "step %u", player->step);
	CHECK(!expected->has_imm || ntohl(wc->imm_data) == expected->imm, "step %u: immediate data",
	      player->step);
	CHECK(!!(wc->wc_flags & IBV_WC_WITH_INV) == expected->has_invalidated, "step %u",
	      player->step);
	CHECK(!expected->has_invalidated || wc->invalidated_rkey == player->key[WINDOW], "step %u",
	      player->step);
}

static bool is_of_receive(const struct model_end *end, const struct ibv_wc *wc, unsigned seen)
{
	return seen < end->receiveds && end->received[seen].id == wc->wr_id;
}

/* Sends and receives share the CQ; each kind comes in its order. */
static void check_completions(struct player *player)
{
	struct model_end *end = mine(player);
	unsigned sent = 0, received = 0;
	struct ibv_wc wc;

	while (sent < end->sents || received < end->receiveds) {
		CHECK(get(player->end, &wc, 20), "step %u: %u of %u sends, %u of %u receives came",
		      player->step, sent, end->sents, received, end->receiveds);
		if (is_of_receive(end, &wc, received))
			compare(player, &wc, &end->received[received++]);
		else if (sent < end->sents)
			compare(player, &wc, &end->sent[sent++]);
		else
			CHECK(false, "step %u: unexpected completion %llu: %s", player->step,
			      (unsigned long long)wc.wr_id, ibv_wc_status_str(wc.status));
	}
}

static void check_step(struct player *player)
{
	struct model_end *left = &player->model->end[LEFT], *right = &player->model->end[RIGHT];
	struct ibv_wc wc;

	check_completions(player);
	meet(player->end);
	CHECK(ibv_poll_cq(player->end->cq, 1, &wc) == 0,
	      "step %u: one completion too many: %llu %s", player->step,
	      (unsigned long long)wc.wr_id, ibv_wc_status_str(wc.status));
	CHECK(player->model->ambiguous || find_difference(player) == MODEL_BYTES,
	      "step %u: memory differs at %zu", player->step, find_difference(player));
	left->sents = left->receiveds = right->sents = right->receiveds = 0;
}

/* ---- steps ---- */

static void connect_anew(struct player *player)
{
	struct model *model = player->model;

	model->rnr_retry = model_random(model, 3) ? 7 : 0;
	player->end->rnr_retry = model->rnr_retry;
	player->end->mtu = (enum ibv_mtu)(IBV_MTU_256 + model_random(model, 5));
	model_reset(model);
	model_fill(model);
	/* Another one, or the same from RESET on. */
	if (player->end->qp && (player->srq || model_random(model, 3) == 0))
		destroy_qp(player);
	if (!player->end->qp) {
		model->has_srq = model_random(model, 3) == 0;
		make_qp(player);
	}
	end_raise(player->end, IBV_QPS_INIT);
	renew_window(player);
	copy_model(player);
	end_connect(player->end);
}

static void add_receives(struct player *player, enum side side, unsigned count, bool large,
			 bool post_them)
{
	struct model *model = player->model;
	struct model_end *end = &model->end[side];

	for (; count && end->receives < RECEIVES_MAX; count--, large = false) {
		struct receive receive =
			large ? model_large_receive(model) : model_random_receive(model, side);

		end->receive[end->receives++] = receive;
		if (post_them && player->end->side == side)
			post_one_receive(player, &receive);
	}
}

struct batch {
	enum side from;
	struct op op[BATCH_MAX];
	uint64_t id[BATCH_MAX];
	unsigned count, receives;
	bool late;  /* they are posted after the requests */
	bool large; /* the first one is a large SEND */
};

static struct batch random_batch(struct model *model)
{
	struct batch batch = {.from = (enum side)model_random(model, 2),
			      .count = 1 + model_random(model, BATCH_MAX)};
	bool fence = false;
	unsigned i;

	batch.large = !model->end[!batch.from].receives && model_random(model, 20) == 0;
	batch.late = model->rnr_retry && model_random(model, 4) == 0;
	for (i = 0; i < batch.count; i++) {
		struct op *op = &batch.op[i];

		*op = batch.large && !i ? model_large_op(model)
					: model_random_op(model, batch.from, i);
		/* Only one of them may use up the window. */
		if (i && op->opcode == IBV_WR_SEND_WITH_INV)
			op->opcode = IBV_WR_SEND;
		/* One that is refused takes a receive if that was there in time; of an SRQ nobody would hear. */
		if (batch.late && model->has_srq && op->opcode == IBV_WR_RDMA_WRITE_WITH_IMM)
			op->opcode = IBV_WR_RDMA_WRITE;
		op->is_fenced = fence;
		fence = fence || op->opcode == IBV_WR_RDMA_READ ||
			op->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
			op->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
		batch.receives += op_takes_receive(op);
		batch.id[i] = model->next_id++;
	}
	batch.op[batch.count - 1].is_signaled = true;
	if (!model->rnr_retry && batch.receives && model_random(model, 8) == 0)
		batch.receives = 0;
	return batch;
}

/* What was posted behind the request that failed. */
static void flush_rest(struct model *model, const struct batch *batch, unsigned failed)
{
	unsigned i;

	for (i = failed + 1; i < batch->count; i++)
		model_note_send(model, batch->from, batch->id[i], IBV_WC_WR_FLUSH_ERR, IBV_WC_SEND,
				0);
}

static void run_batch(struct player *player)
{
	struct model *model = player->model;
	struct batch batch = random_batch(model);
	struct model_end *there = &model->end[!batch.from];
	bool is_sender = player->end->side == batch.from, good = true;
	unsigned old = there->receives, i;

	model->is_late = batch.late;
	add_receives(player, !batch.from, batch.receives > old ? batch.receives - old : 0,
		     batch.large, !batch.late);
	meet(player->end);
	if (is_sender)
		for (i = 0; i < batch.count; i++)
			post_op(player, &batch.op[i], batch.id[i]);
	if (batch.late) {
		meet(player->end);
		for (i = old; i < there->receives && !is_sender; i++)
			post_one_receive(player, &there->receive[i]);
	}
	for (i = 0; i < batch.count && good; i++)
		good = model_run(model, batch.from, &batch.op[i], batch.id[i]);
	if (!good) {
		flush_rest(model, &batch, i - 1);
		model_flush_receives(model, batch.from);
	}
	check_step(player);
	if (good)
		return;
	/* And what is posted in the error state. */
	batch.op[0] = (struct op){.opcode = IBV_WR_SEND};
	model_note_send(model, batch.from, model->next_id, IBV_WC_WR_FLUSH_ERR, IBV_WC_SEND, 0);
	if (is_sender)
		post_op(player, &batch.op[0], model->next_id);
	model->next_id++;
	if (there->failed) {
		add_receives(player, !batch.from, 1, false, true);
		model_flush_receives(model, !batch.from);
	}
	check_step(player);
	connect_anew(player);
}

static void bind_window(struct player *player)
{
	struct model *model = player->model;
	enum side side = (enum side)model_random(model, 2);
	uint32_t start = model_random(model, TARGET_BYTES / 2),
		 bytes = 1 + model_random(model, TARGET_BYTES / 2);
	bool mine_it_is = player->end->side == side;
	struct region *region = &model->end[side].region[WINDOW];
	uint64_t id = model->next_id++;

	if (region->alive) { /* a type 2 window that is bound is invalidated first */
		struct ibv_send_wr *bad, wr = {.wr_id = id,
					       .opcode = IBV_WR_LOCAL_INV,
					       .send_flags = IBV_SEND_SIGNALED,
					       .invalidate_rkey = player->key[WINDOW]};

		if (mine_it_is)
			CHECK(!ibv_post_send(player->end->qp, &wr, &bad), "%m");
		region->alive = false;
		model_note_send(model, side, id, IBV_WC_SUCCESS, IBV_WC_LOCAL_INV, UINT32_MAX);
	} else {
		struct ibv_send_wr *bad, wr = {.wr_id = id,
					       .opcode = IBV_WR_BIND_MW,
					       .send_flags = IBV_SEND_SIGNALED};

		*region = (struct region){
			true, false, start, bytes,
			IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
				(model_random(model, 2) ? IBV_ACCESS_REMOTE_ATOMIC : 0)};
		wr.bind_mw.mw = player->window;
		wr.bind_mw.rkey = ibv_inc_rkey(player->key[WINDOW]);
		wr.bind_mw.bind_info =
			(struct ibv_mw_bind_info){.mr = player->mr[FULL],
						  .addr = (uintptr_t)player->target + start,
						  .length = bytes,
						  .mw_access_flags = region->access};
		if (mine_it_is) {
			player->key[WINDOW] = wr.bind_mw.rkey;
			CHECK(!ibv_post_send(player->end->qp, &wr, &bad), "%m");
		}
		model_note_send(model, side, id, IBV_WC_SUCCESS, IBV_WC_BIND_MW, UINT32_MAX);
	}
	check_step(player);
}

/* FULL may have the window bound to it: another one. */
static void register_anew(struct player *player)
{
	struct model *model = player->model;
	enum side side = (enum side)model_random(model, 2);
	unsigned name = model_random(model, 2) ? READ_ONLY : ODD;

	if (!model->end[side].region[WINDOW].alive && model_random(model, 2))
		name = FULL;
	if (name == ODD) {
		model->end[side].region[ODD].start = 8 * model_random(model, 2000);
		model->end[side].region[ODD].bytes = 1 + model_random(model, 140000);
	}
	if (player->end->side == side) {
		player->key[DEAD] = player->key[name];
		CHECK(!ibv_dereg_mr(player->mr[name]), "%m");
		register_one(player, name);
	}
	check_step(player);
}

static void change_rights(struct player *player)
{
	struct model *model = player->model;
	enum side side = (enum side)model_random(model, 2);
	struct region *region = &model->end[side].region[ODD];

	region->access ^= 1u << (1 + model_random(model, 3)); /* REMOTE_WRITE, _READ, _ATOMIC */
	if (player->end->side == side)
		CHECK(!ibv_rereg_mr(player->mr[ODD], IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
				    (int)(region->access | IBV_ACCESS_LOCAL_WRITE)),
		      "%m");
	check_step(player);
}

static void step(struct player *player)
{
	uint32_t choice = model_random(player->model, 100);

	exchange_keys(player);
	if (choice < 80)
		run_batch(player);
	else if (choice < 89)
		bind_window(player);
	else if (choice < 93)
		register_anew(player);
	else if (choice < 97)
		change_rights(player);
	else
		connect_anew(player);
}

/* The ways that are to be compared were taken. */
static void check_ways(const struct plan *plan)
{
	bool expected = strcmp(plan->mode, "ring") && strcmp(plan->mode, "off");
	bool mapped = !strcmp(plan->mode, "mapped");

	CHECK(!counter_here(COUNTER_LOCAL_SEND) == !expected, "%llu SENDs as messages",
	      (unsigned long long)counter_here(COUNTER_LOCAL_SEND));
	CHECK(!counter_here(COUNTER_LOCAL_WRITE) == !expected, "%llu WRITEs without packets",
	      (unsigned long long)counter_here(COUNTER_LOCAL_WRITE));
	CHECK(!counter_here(COUNTER_LOCAL_ATOMIC) == !mapped, "%llu atomics without packets",
	      (unsigned long long)counter_here(COUNTER_LOCAL_ATOMIC));
	CHECK(counter_here(COUNTER_TX_PACKETS) > 0);
}

/*
 * The first key of a block that is asked for says whether it is mapped for reading only: let it be FULL's. Memory
 * is written anew after.
 */
static void learn_full(struct player *player)
{
	struct op op = {.opcode = IBV_WR_RDMA_READ, .region = FULL, .bytes = 8, .pieces = 1,
			.piece = {{RESULT_AT, 8}}, .is_signaled = true};
	struct ibv_wc wc;
	unsigned i;

	exchange_keys(player);
	for (i = 0; i < 20; i++) {
		post_op(player, &op, 0);
		CHECK(get(player->end, &wc, 20) && wc.status == IBV_WC_SUCCESS);
		usleep(100);
	}
	meet(player->end);
}

static void play(struct end *end, void *argument)
{
	const struct plan *plan = argument;
	struct model model;
	struct player player = {.end = end, .model = &model};

	model_init(&model, plan->seed);
	set_up(&player);
	connect_anew(&player);
	learn_full(&player);
	connect_anew(&player);
	for (player.step = 0; player.step < plan->steps; player.step++)
		step(&player);
	meet(end);
	if (plan->steps >= STEPS)
		check_ways(plan);
	tear_down(&player);
	free(model.end[0].memory);
	free(model.end[1].memory);
}

/* ---- seeds ---- */

static uint64_t only_seed;
static unsigned steps = STEPS;

static bool run_seed(const char *mode, uint64_t seed)
{
	struct plan plan = {mode, seed, steps};
	bool good = pair_run(mode, play, play, &plan, 90);

	if (!good)
		printf("# replay: memory_differential --mode %s --seed %llu\n", mode,
		       (unsigned long long)seed);
	return good;
}

static bool run_seeds(const char *mode)
{
	FILE *file = fopen(SEEDS_FILE, "r");
	unsigned i, more = long_run ? SEEDS_LONG : SEEDS_USUAL;
	unsigned long long seed;
	char line[256];
	bool good = file != NULL;

	if (only_seed)
		return run_seed(mode, only_seed);
	while (good && fgets(line, sizeof(line), file))
		if (sscanf(line, "%llu", &seed) == 1)
			good = run_seed(mode, seed);
	if (file)
		fclose(file);
	for (i = 0; good && i < more; i++)
		good = run_seed(mode, (long_run ? (uint64_t)getpid() * 1000 : 1000) + i);
	return good;
}

static bool as_the_model_says_by_default(void)
{
	return run_seeds("auto");
}

static bool as_the_model_says_where_blocks_are_mapped(void)
{
	return run_seeds("mapped");
}

static bool as_the_model_says_where_memory_is_copied(void)
{
	return run_seeds("copy");
}

static bool as_the_model_says_through_rings(void)
{
	return run_seeds("ring");
}

static bool as_the_model_says_over_udp(void)
{
	return run_seeds("off");
}

int main(int argc, char **argv)
{
#define TEST(name)                                                                                 \
	{                                                                                          \
#name, name                                                                        \
	}
	const struct test tests[] = {
		TEST(as_the_model_says_by_default),
		TEST(as_the_model_says_where_blocks_are_mapped),
		TEST(as_the_model_says_where_memory_is_copied),
		TEST(as_the_model_says_through_rings),
		TEST(as_the_model_says_over_udp),
	};
	static const char *const mode[] = {"auto", "mapped", "copy", "ring", "off"};
	struct test chosen[1] = {{"as_the_model_says", NULL}};
	int i, k;

	for (i = 1; i + 1 < argc; i += 2) {
		if (!strcmp(argv[i], "--seed"))
			only_seed = strtoull(argv[i + 1], NULL, 0);
		else if (!strcmp(argv[i], "--steps"))
			steps = (unsigned)atoi(argv[i + 1]);
		else if (!strcmp(argv[i], "--mode"))
			for (k = 0; k < 5; k++)
				if (!strcmp(argv[i + 1], mode[k]))
					chosen[0] = tests[k];
	}
	if (chosen[0].run)
		return run_tests(1, argv, chosen, 1);
	return run_tests(1, argv, tests, sizeof(tests) / sizeof(tests[0]));
}
