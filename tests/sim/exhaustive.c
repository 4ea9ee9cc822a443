/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Short conversations of every operation under every possible misfortune of their packets: all
 * masks of packets lost, all masks of packets duplicated, all masks of packets that arrive after
 * their successors, and for the shortest every mixture of the three. A conversation is first run
 * undisturbed to count its packets; mask bit i then is the fate of the i-th packet sent, and
 * what is sent beyond (retransmissions) passes.
 *
 *	sim-exhaustive [CONVERSATION [FATE [MASK]]]	replays, packet by packet when MASK is given
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "object/placement.h"
#include "talk.h"

#define MTU		256u
#define PACKETS_MAX	12u
#ifdef SIM_SANITIZED
#define MIXED_MAX	3u
#else
#define MIXED_MAX	5u	/* 4^5 mixtures */
#endif
#define MIXED_MAX_LONG	6u

enum fate { FATE_LOSS, FATE_DUPLICATE, FATE_DELAY, FATE_MIXED, FATES };
static const char *const fate_names[] = { "loss", "duplicate", "delay", "mixed" };

struct conversation {
	const char *name;
	enum ibv_wr_opcode opcode;
	uint32_t length;
	void (*plan)(struct talk *talk, const struct conversation *conversation);
};

struct run {
	enum fate fate;
	uint64_t mask;			/* two bits per packet when mixed */
	unsigned packets;
};

/* ---- the conversations ---- */

static void plan_one(struct talk *talk, const struct conversation *conversation)
{
	talk_plan(talk, 0, conversation->opcode, conversation->length, IBV_SEND_SIGNALED, 2);
}

static void plan_two(struct talk *talk, const struct conversation *conversation)
{
	talk_plan(talk, 0, conversation->opcode, conversation->length, 0, 1);
	talk_plan(talk, 0, conversation->opcode, conversation->length, IBV_SEND_SIGNALED, 1);
}

static void plan_atomics(struct talk *talk, const struct conversation *conversation)
{
	talk_plan_atomic(talk, 0, conversation->opcode == IBV_WR_ATOMIC_CMP_AND_SWP, 0);
	talk_plan_atomic(talk, 0, false, IBV_SEND_SIGNALED);
	talk_plan_atomic(talk, 0, conversation->opcode == IBV_WR_ATOMIC_CMP_AND_SWP,
			 IBV_SEND_SIGNALED);
}

/* A window of side 1 is bound, written through, and invalidated by a send. */
static void plan_invalidate(struct talk *talk, const struct conversation *conversation)
{
	struct sim_host *host = talk->side[1].host;
	struct mw *mw = calloc(1, sizeof(*mw));
	struct message *bind, *send, *write;

	if (!mw || mw_alloc(&host->mrs, &host->pd, IBV_MW_TYPE_2, mw))
		abort();
	bind = talk_plan(talk, 1, IBV_WR_BIND_MW, 0, IBV_SEND_SIGNALED, 0);
	bind->mw = mw;
	bind->rkey = ibv_inc_rkey(mw->ibv.rkey);
	write = talk_plan(talk, 0, IBV_WR_RDMA_WRITE, 4, 0, 1);
	write->rkey = bind->rkey;
	send = talk_plan(talk, 0, IBV_WR_SEND_WITH_INV, conversation->length, IBV_SEND_SIGNALED, 1);
	send->rkey = bind->rkey;
}

/* Each kind after each other: what one leaves behind must not disturb the next. */
static void plan_medley(struct talk *talk, const struct conversation *conversation)
{
	talk_plan(talk, 0, IBV_WR_RDMA_WRITE, MTU + 1, 0, 1);
	talk_plan(talk, 0, IBV_WR_RDMA_READ, MTU + 1, 0, 1);
	talk_plan_atomic(talk, 0, false, IBV_SEND_FENCE);
	talk_plan(talk, 0, IBV_WR_SEND, 1, IBV_SEND_SIGNALED, 1);
}

/* As persistent or global memory is written: data, FLUSH, then the word that says so. */
static void plan_flush(struct talk *talk, const struct conversation *conversation)
{
	talk_plan(talk, 0, IBV_WR_RDMA_WRITE, MTU + 1, 0, 1);
	talk_plan_flush(talk, 0, false, 0);
	talk_plan(talk, 0, (enum ibv_wr_opcode)WR_ATOMIC_WRITE, 8, 0, 1);
	talk_plan_flush(talk, 0, true, IBV_SEND_SIGNALED);
}

static void plan_reads(struct talk *talk, const struct conversation *conversation)
{
	talk_plan(talk, 0, IBV_WR_RDMA_READ, 1, IBV_SEND_SIGNALED, 1);
	talk_plan(talk, 0, IBV_WR_RDMA_READ, 2 * MTU, IBV_SEND_SIGNALED, 1);
	talk_plan(talk, 0, IBV_WR_RDMA_WRITE, 0, 0, 1);
	talk_plan(talk, 0, IBV_WR_RDMA_READ, 0, IBV_SEND_SIGNALED, 1);
}

static void plan_both_ways(struct talk *talk, const struct conversation *conversation)
{
	talk_plan(talk, 0, IBV_WR_SEND, 2 * MTU, IBV_SEND_SIGNALED, 1);
	talk_plan(talk, 1, IBV_WR_SEND, 2 * MTU, IBV_SEND_SIGNALED, 1);
	talk_plan(talk, 1, IBV_WR_RDMA_READ, MTU + 1, IBV_SEND_SIGNALED, 1);
}

#define SIZES(name, opcode, plan) \
	{ name "-0", opcode, 0, plan }, { name "-1", opcode, 1, plan }, \
	{ name "-mtu+1", opcode, MTU + 1, plan }, { name "-3mtu", opcode, 3 * MTU, plan }

static const struct conversation conversations[] = {
	SIZES("send", IBV_WR_SEND, plan_one),
	SIZES("send-imm", IBV_WR_SEND_WITH_IMM, plan_one),
	SIZES("write", IBV_WR_RDMA_WRITE, plan_one),
	SIZES("write-imm", IBV_WR_RDMA_WRITE_WITH_IMM, plan_one),
	SIZES("read", IBV_WR_RDMA_READ, plan_one),
	SIZES("send-inv", IBV_WR_SEND_WITH_INV, plan_invalidate),
	SIZES("two-sends", IBV_WR_SEND, plan_two),
	SIZES("two-writes-imm", IBV_WR_RDMA_WRITE_WITH_IMM, plan_two),
	SIZES("two-reads", IBV_WR_RDMA_READ, plan_two),
	{ "fetch-add", IBV_WR_ATOMIC_FETCH_AND_ADD, 8, plan_atomics },
	{ "compare-swap", IBV_WR_ATOMIC_CMP_AND_SWP, 8, plan_atomics },
	{ "atomic-write", (enum ibv_wr_opcode)WR_ATOMIC_WRITE, 8, plan_two },
	{ "flush", 0, 0, plan_flush },
	{ "medley", 0, 0, plan_medley },
	{ "reads", 0, 0, plan_reads },
	{ "both-ways", 0, 0, plan_both_ways },
};
#define CONVERSATIONS (sizeof(conversations) / sizeof(conversations[0]))

/* ---- fates ---- */

static void apply_fate(struct flight *flight, void *argument)
{
	const struct run *run = argument;
	unsigned what = run->fate;

	if (flight->number >= run->packets)
		return;
	if (run->fate == FATE_MIXED) {
		what = run->mask >> (2 * flight->number) & 3;
		if (!what--)
			return;
	} else if (!(run->mask >> flight->number & 1)) {
		return;
	}
	if (what == FATE_LOSS)
		flight->drop = true;
	else if (what == FATE_DUPLICATE)
		flight->copies = 2;
	else
		flight->delay_ns += flight->delay_ns + US;	/* behind those sent in answer */
}

/* The window that SEND_WITH_INV named must be dead now. */
static void check_invalidated(struct talk *talk)
{
	struct side *side = &talk->side[1];
	struct mr_accessor accessor = { .pd = side->host->pd.number, .qpn = side->qp->number };
	struct message *bind = &side->messages[0];
	struct mr_access access;

	if (!side->planned || bind->opcode != IBV_WR_BIND_MW)
		return;
	if (mr_access_begin(&side->host->mrs, &accessor, bind->rkey, IBV_ACCESS_REMOTE_WRITE,
			    (uintptr_t)side->memory.data, 1, &access) == MR_OK) {
		mr_access_end(&access);
		sim_fail(talk->sim, "the window is alive after SEND_WITH_INV");
	}
	mw_free(&side->host->mrs, bind->mw);
	free(bind->mw);
}

/* False: it failed, and said so. @packets: how many were sent in all. */
static bool run_one(const struct conversation *conversation, struct run *run, bool verbose,
		    uint64_t *packets)
{
	struct talk_options options = { .type = IBV_QPT_RC, .connect = connect_defaults(),
					.messages_max = 4, .receives_max = 4, .receive_bytes = 1024,
					.memory_bytes = 16384, .lossless_semantics = true };
	struct sim *sim = sim_create(1);
	struct sim_host *a = host_create(sim), *b = host_create(sim);
	struct talk *talk;
	bool ok;

	options.connect.mtu = IBV_MTU_256;
	options.connect.psn[0] = 0xfffffe;	/* every conversation wraps */
	sim->rule = apply_fate;
	sim->rule_argument = run;
	sim->verbose = verbose;
	sim->handled_max = 5000;
	talk = talk_create(a, b, &options);
	conversation->plan(talk, conversation);
	talk_plan_all_receives(talk, 2);
	ok = talk_run(talk);
	check_invalidated(talk);
	ok = !sim->failed;
	if (!ok)
		printf("FAIL: %s\n  sim-exhaustive %s %s 0x%llx\n", sim->failure, conversation->name,
		       fate_names[run->fate], (unsigned long long)run->mask);
	*packets = sim->sent;
	talk_destroy(talk);
	sim_destroy(sim);
	return ok;
}

static unsigned run_fate(const struct conversation *conversation, enum fate fate, unsigned packets,
			 unsigned *runs)
{
	unsigned bits = fate == FATE_MIXED ? 2 * packets : packets, failures = 0;
	struct run run = { .fate = fate, .packets = packets };
	uint64_t sent;

	if (fate == FATE_MIXED && packets > (getenv("TEST_LONG") ? MIXED_MAX_LONG : MIXED_MAX))
		return 0;
	for (run.mask = 0; run.mask < 1ull << bits && failures < 3; run.mask++) {
		failures += !run_one(conversation, &run, false, &sent);
		++*runs;
	}
	return failures;
}

static unsigned run_conversation(const struct conversation *conversation, const char *only,
				 unsigned *runs)
{
	struct run undisturbed = { .mask = 0 };
	unsigned fate, failures = 0;
	uint64_t packets;

	if (!run_one(conversation, &undisturbed, false, &packets))
		return 1;
	if (packets > PACKETS_MAX) {
		printf("FAIL: %s has %llu packets, over %u\n", conversation->name,
		       (unsigned long long)packets, PACKETS_MAX);
		return 1;
	}
	for (fate = 0; fate < FATES; fate++)
		if (!only || !strcmp(only, fate_names[fate]))
			failures += run_fate(conversation, fate, (unsigned)packets, runs);
	return failures;
}

static int replay(const struct conversation *conversation, const char *fate, const char *mask)
{
	struct run run = { .mask = strtoull(mask, NULL, 0), .packets = 0 };
	uint64_t packets;

	while (run.fate < FATES && strcmp(fate, fate_names[run.fate]))
		run.fate++;
	if (run.fate == FATES) {
		fprintf(stderr, "no such fate: %s (loss, duplicate, delay, mixed)\n", fate);
		return 2;
	}
	explain_enabled = true;
	run_one(conversation, &(struct run){ .mask = 0 }, false, &packets);
	run.packets = (unsigned)packets;
	return !run_one(conversation, &run, true, &packets);
}

int main(int argc, char **argv)
{
	unsigned failed = 0, here, runs, found = 0, i;

	setvbuf(stdout, NULL, _IOLBF, 0);
	for (i = 0; i < CONVERSATIONS; i++) {
		const struct conversation *conversation = &conversations[i];

		if (argc > 1 && strcmp(argv[1], conversation->name))
			continue;
		if (argc > 3)
			return replay(conversation, argv[2], argv[3]);
		runs = 0;
		here = run_conversation(conversation, argc > 2 ? argv[2] : NULL, &runs);
		printf("%sok %u - %s survives each of %u fates\n", here ? "not " : "", ++found,
		       conversation->name, runs);
		failed += here;
	}
	if (!found) {
		fprintf(stderr, "no such conversation: %s\n", argv[1]);
		return 2;
	}
	printf("1..%u\n", found);
	return failed != 0;
}
