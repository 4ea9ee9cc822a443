/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A program that keeps its send queue full never lets its queue pair become idle, and only an idle one turns from
 * packets to memory. So whatever made the first requests go as packets, the answer about a key that was late for
 * one, must not decide about all that follow.
 */
#include "pair.h"

#define BYTES 4096u
#define AT_ONCE 32u
#define REQUESTS 1000u
#define ROUNDS 150u /* each with a key that has to be asked for */

struct plan {
	enum ibv_wr_opcode opcode;
	enum counter counter; /* of those that need no packets */
};

static void stream(struct end *end, const struct plan *plan)
{
	uint64_t before = counter_here(plan->counter), direct;
	unsigned posted = 0, done;
	struct ibv_wc wc;

	for (done = 0; done < REQUESTS; done++) {
		for (; posted < REQUESTS && posted < done + AT_ONCE; posted++)
			CHECK(!post(end, plan->opcode, 0, BYTES, 0, posted), "%m");
		CHECK(get(end, &wc, 20) && wc.status == IBV_WC_SUCCESS && wc.wr_id == done,
		      "request %u: status %d", done, wc.status);
	}
	direct = counter_here(plan->counter) - before;
	CHECK(direct >= REQUESTS / 2, "%llu of %u requests needed no packets",
	      (unsigned long long)direct, REQUESTS);
}

static void plays(struct end *end, void *argument)
{
	unsigned round;

	end_open(end, BYTES, ALL_ACCESS);
	end_connect(end);
	for (round = 0; round < ROUNDS; round++) {
		struct ibv_mr *mr = ibv_reg_mr(end->pd, end->memory, BYTES, ALL_ACCESS);

		CHECK(mr, "%m");
		tell(end->peer, &mr->rkey, sizeof(mr->rkey));
		CHECK(hear(end->peer, &end->there.rkey, sizeof(end->there.rkey)));
		if (end->side == LEFT)
			stream(end, argument);
		meet(end);
		CHECK(!ibv_dereg_mr(mr), "%m");
	}
	meet(end);
	end_close(end);
}

static bool streams(const char *mode, enum ibv_wr_opcode opcode, enum counter counter)
{
	struct plan plan = { opcode, counter };

	return pair_run(mode, plays, plays, &plan, 100);
}

static bool a_stream_of_writes_turns_to_stores(void)
{
	return streams("mapped", IBV_WR_RDMA_WRITE, COUNTER_LOCAL_WRITE);
}

static bool a_stream_of_reads_turns_to_loads(void)
{
	return streams("mapped", IBV_WR_RDMA_READ, COUNTER_LOCAL_READ);
}

static bool a_stream_of_writes_turns_to_copies(void)
{
	return streams("copy", IBV_WR_RDMA_WRITE, COUNTER_LOCAL_WRITE);
}

int main(int argc, char **argv)
{
	static const struct test tests[] = {
		{ "a_stream_of_writes_turns_to_stores", a_stream_of_writes_turns_to_stores },
		{ "a_stream_of_reads_turns_to_loads", a_stream_of_reads_turns_to_loads },
		{ "a_stream_of_writes_turns_to_copies", a_stream_of_writes_turns_to_copies },
	};

	return run_tests(argc, argv, tests, sizeof(tests) / sizeof(tests[0]));
}
