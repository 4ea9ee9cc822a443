/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the device's worker does while the application does everything: hardly anything. A thread that
 * copies large WRITEs and SENDs in its own post_send and poll_cq is at it for long at a time, and the
 * worker neither waits for its turn nor looks every moment whether it is over.
 */
#include "pair.h"

#define BYTES  (1u << 20)
#define AHEAD  8u /* under way at a time */
#define FIRST  64u /* until the worker has learnt */
#define COUNT  1500u
#define LIMIT_S 30.0

/* At the begin, or the end, of what is looked at. */
static void look(unsigned done)
{
	static unsigned long sleeps;
	static double began_s;
	unsigned long most;

	if (done == FIRST) {
		sleeps = worker_sleeps();
		began_s = now();
	} else if (done == COUNT) {
		sleeps = worker_sleeps() - sleeps;
		/* Every 2 ms it looks whether somebody drives. */
		most = COUNT / 4 + (unsigned long)((now() - began_s) * 1000);
		CHECK(sleeps <= most, "%lu, of %u copies", sleeps, COUNT - FIRST);
	}
}

static void await(struct end *end)
{
	struct ibv_wc wc;

	CHECK(get(end, &wc, LIMIT_S), "no completion");
	CHECK(wc.status == IBV_WC_SUCCESS, "%s", ibv_wc_status_str(wc.status));
}

static void posts(struct end *end, void *opcode)
{
	unsigned posted, done;

	end_open(end, BYTES, ALL_ACCESS);
	end_connect(end);
	meet(end);
	for (posted = done = 0; done < COUNT; look(++done)) {
		for (; posted < COUNT && posted - done < AHEAD; posted++)
			CHECK(!post(end, *(enum ibv_wr_opcode *)opcode, 0, BYTES, 0, posted), "%m");
		await(end);
	}
	meet(end);
	end_close(end);
}

static void receives(struct end *end, void *opcode)
{
	unsigned posted, done;

	end_open(end, BYTES, ALL_ACCESS);
	end_connect(end);
	for (posted = 0; posted < 2 * AHEAD; posted++)
		CHECK(!post_receive(end, 0, BYTES, posted), "%m");
	meet(end);
	for (done = 0; *(enum ibv_wr_opcode *)opcode == IBV_WR_SEND && done < COUNT; look(++done)) {
		await(end);
		CHECK(!post_receive(end, 0, BYTES, done), "%m");
	}
	meet(end);
	end_close(end);
}

static bool stands_by(enum ibv_wr_opcode opcode)
{
	return pair_run("copy", posts, receives, &opcode, LIMIT_S) &&
	       pair_run(MAPPED_MODE, posts, receives, &opcode, LIMIT_S);
}

static bool it_stands_by_while_large_writes_are_copied(void)
{
	return stands_by(IBV_WR_RDMA_WRITE);
}

static bool it_stands_by_while_large_sends_are_copied(void)
{
	return stands_by(IBV_WR_SEND);
}

int main(int argc, char **argv)
{
#define TEST(name) {#name, name}
	const struct test tests[] = {
		TEST(it_stands_by_while_large_writes_are_copied),
		TEST(it_stands_by_while_large_sends_are_copied),
	};

	return run_tests(argc, argv, tests, sizeof(tests) / sizeof(tests[0]));
}
