/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * UC inside a host: WRITEs go directly, behind everything that was posted before them, and what the peer does
 * not allow is dropped as over UDP.
 */
#include <signal.h>

#include "pair.h"

#define BYTES 65536u
#define WORD 4096u		/* where WRITEs go; SENDs lie below */
#define ROUNDS 100u
#define ROW 40u			/* WRITEs: more than it takes to go directly */

static void open_uc(struct end *end)
{
	end_open(end, BYTES, ALL_ACCESS);
	end->type = IBV_QPT_UC;
	end_make_qp(end);
	end_connect(end);
}

static uint64_t load(const struct end *end, size_t offset)
{
	return __atomic_load_n((uint64_t *)(end->memory + offset), __ATOMIC_ACQUIRE);
}

static void store(struct end *end, size_t offset, uint64_t value)
{
	*(uint64_t *)(end->memory + offset) = value;
}

static void await(struct end *end, size_t offset, uint64_t value)
{
	double until = now() + LIMIT_S;
	struct ibv_wc wc;

	/* Polling makes this end answer questions. */
	while (load(end, offset) != value) {
		CHECK(now() < until, "%lu and not %lu", (unsigned long)load(end, offset),
		      (unsigned long)value);
		CHECK(ibv_poll_cq(end->cq, 1, &wc) >= 0);
	}
}

static void write_word(struct end *end, uint64_t value)
{
	store(end, WORD, value);
	CHECK(transfer(end, IBV_WR_RDMA_WRITE, WORD, sizeof(value), WORD) == IBV_WC_SUCCESS);
}

/* ---- order ---- */

/* A row of WRITEs, so that they go directly; then one SEND, which is a packet, and a WRITE at once. */
static void sends_between_writes(struct end *end, void *argument)
{
	uint64_t value = 0;
	struct ibv_wc wc;
	unsigned i, n;

	open_uc(end);
	for (i = 0; i < ROUNDS; i++) {
		for (n = 0; n < ROW; n++)
			write_word(end, ++value);
		store(end, 0, i + 1);
		store(end, WORD, ++value);
		CHECK(!post(end, IBV_WR_SEND, 0, 3000, 0, 1));
		CHECK(!post(end, IBV_WR_RDMA_WRITE, WORD, sizeof(value), WORD, 2));
		CHECK(get(end, &wc, LIMIT_S) && wc.status == IBV_WC_SUCCESS && wc.wr_id == 1);
		CHECK(get(end, &wc, LIMIT_S) && wc.status == IBV_WC_SUCCESS && wc.wr_id == 2);
		meet(end);
	}
	if (!strcmp(getenv("VERBATIM_MEMORY"), "auto") || !strcmp(getenv("VERBATIM_MEMORY"), "mapped"))
		CHECK(counter_here(COUNTER_LOCAL_WRITE) > ROUNDS, "%s", counters_here());
	else if (strcmp(getenv("VERBATIM_MEMORY"), "copy"))
		CHECK(!counter_here(COUNTER_LOCAL_WRITE));
	end_close(end);
}

static void sees_the_send_first(struct end *end, void *argument)
{
	struct ibv_wc wc;
	unsigned i;

	end_open(end, BYTES, ALL_ACCESS);
	end->type = IBV_QPT_UC;
	end_make_qp(end);
	end_exchange(end);
	end_raise(end, IBV_QPS_RTS);
	CHECK(!post_receive(end, 0, WORD, 1));
	meet(end);
	for (i = 0; i < ROUNDS; i++) {
		await(end, WORD, (uint64_t)(i + 1) * (ROW + 1));
		CHECK(load(end, 0) == i + 1, "the WRITE came, the SEND before it did not");
		store(end, 0, 0);
		CHECK(!post_receive(end, 0, WORD, 1));
		meet(end);
	}
	while (ibv_poll_cq(end->cq, 1, &wc) > 0)
		CHECK(wc.status == IBV_WC_SUCCESS && wc.byte_len == 3000);
	end_close(end);
}

static bool a_write_passes_nothing(void)
{
	return pair_run_in_each_mode(sends_between_writes, sees_the_send_first, NULL, 60);
}

/* ---- what is not allowed ---- */

enum { GOOD, NO_WRITE, SHORT, OTHER_PD, KEYS };
struct keys {
	uint32_t key[KEYS];
};

/* A NIC tells the sender of UC nothing; nothing of it arrives. */
static void writes_where_it_must_not(struct end *end, void *argument)
{
	struct keys keys;
	unsigned k, n;

	open_uc(end);
	CHECK(hear(end->peer, &keys, sizeof(keys)));
	for (k = NO_WRITE; k < KEYS; k++) {
		end->there.rkey = keys.key[GOOD];
		for (n = 0; n < ROW; n++)
			write_word(end, n + 1);
		end->there.rkey = keys.key[k];
		for (n = 0; n < 4; n++) {	/* 16 wrong keys in a second stop the QP */
			store(end, 0, UINT64_MAX);
			CHECK(transfer(end, IBV_WR_RDMA_WRITE, 0, 8, 2 * WORD) == IBV_WC_SUCCESS);
		}
		end->there.rkey = keys.key[GOOD];
		write_word(end, 1000 + k);
		meet(end);
	}
	end_close(end);
}

static void is_not_written(struct end *end, void *argument)
{
	struct ibv_mr *mr[KEYS];
	struct keys keys;
	struct ibv_pd *other;
	unsigned k;

	open_uc(end);
	other = ibv_alloc_pd(end->context);
	mr[GOOD] = ibv_reg_mr(end->pd, end->memory, BYTES, ALL_ACCESS);
	mr[NO_WRITE] = ibv_reg_mr(end->pd, end->memory, BYTES, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
	mr[SHORT] = ibv_reg_mr(end->pd, end->memory, 2 * WORD + 7, ALL_ACCESS);
	mr[OTHER_PD] = ibv_reg_mr(other, end->memory, BYTES, ALL_ACCESS);
	for (k = 0; k < KEYS; k++) {
		CHECK(mr[k], "%m");
		keys.key[k] = mr[k]->rkey;
	}
	tell(end->peer, &keys, sizeof(keys));
	for (k = NO_WRITE; k < KEYS; k++) {
		await(end, WORD, 1000 + k);
		CHECK(!load(end, 2 * WORD), "written with key %u", k);
		meet(end);
	}
	for (k = 0; k < KEYS; k++)
		CHECK(!ibv_dereg_mr(mr[k]));
	CHECK(!ibv_dealloc_pd(other));
	end_close(end);
}

static bool what_is_not_allowed_is_dropped(void)
{
	return pair_run_in_each_mode(writes_where_it_must_not, is_not_written, NULL, 60);
}

/* Nothing that UC sends is for an RC queue pair. */
static void writes_to_rc(struct end *end, void *argument)
{
	unsigned n;

	open_uc(end);
	for (n = 0; n < 5 * ROW; n++)
		write_word(end, n + 1);
	CHECK(!counter_here(COUNTER_LOCAL_WRITE));
	meet(end);
	end_close(end);
}

static void is_rc(struct end *end, void *argument)
{
	end_open(end, BYTES, ALL_ACCESS);
	end_make_qp(end);
	end_connect(end);
	meet(end);
	CHECK(!load(end, WORD));
	end_close(end);
}

static bool types_that_differ_share_nothing(void)
{
	return pair_run_in_each_mode(writes_to_rc, is_rc, NULL, 60);
}

/* ---- a peer that stops ---- */

/* While it waits for the peer, the sender is held for a moment, and then goes on: UC waits for nobody. */
static void writes_to_a_stopped_peer(struct end *end, void *argument)
{
	double begin;
	unsigned n;
	char byte;

	open_uc(end);
	meet(end);
	tell(end->test, "r", 1);
	CHECK(hear(end->test, &byte, 1)); /* it is stopped */
	begin = now();
	for (n = 0; n < 10 * ROW; n++)
		write_word(end, n + 1);
	CHECK(now() - begin < 5 * PATIENCE, "%.1f s", now() - begin);
	tell(end->test, "w", 1);
	meet(end);
	write_word(end, UINT64_MAX);
	meet(end);
	end_close(end);
}

static void is_written_to(struct end *end, void *argument)
{
	open_uc(end);
	meet(end);
	meet(end);
	await(end, WORD, UINT64_MAX);
	meet(end);
	end_close(end);
}

static bool stop_in(const char *mode)
{
	struct pair pair;
	char byte;
	bool good;

	pair_start(&pair, mode, writes_to_a_stopped_peer, is_written_to, NULL);
	good = hear(pair.socket[LEFT], &byte, 1);
	if (good) {
		pair_stop(&pair, RIGHT);
		tell(pair.socket[LEFT], "t", 1);
		good = hear(pair.socket[LEFT], &byte, 1);
		kill(pair.pid[RIGHT], SIGCONT);
	}
	good = pair_end(&pair, 60) && good;
	if (!good)
		printf("# mode %s\n", mode);
	return good;
}

static bool a_peer_that_stops_holds_nobody_up(void)
{
	static const char *const modes[] = {"off", "auto", "mapped", "copy", "ring"};
	unsigned i;

	for (i = 0; i < sizeof(modes) / sizeof(modes[0]); i++)
		if (!stop_in(modes[i]))
			return false;
	return true;
}

int main(int argc, char **argv)
{
#define TEST(name) {#name, name}
	const struct test tests[] = {
		TEST(a_write_passes_nothing),
		TEST(what_is_not_allowed_is_dropped),
		TEST(types_that_differ_share_nothing),
		TEST(a_peer_that_stops_holds_nobody_up),
	};

	return run_tests(argc, argv, tests, sizeof(tests) / sizeof(tests[0]));
}
