/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the device's worker does while the application does everything: hardly anything. A thread that
 * copies large SENDs in its own ibv_poll_cq is at it for long at a time, and the worker neither waits for
 * its turn nor looks every moment whether it is over.
 */
#include <stdio.h>
#include <time.h>

#include "pair.h"

#define BYTES  (1u << 20)
#define AHEAD  8u /* under way at a time */
#define FIRST  64u /* until the worker has learnt */
#define COUNT  1500u
#define TRIES  20u
#define LOUD   2u /* of them may be: another program may have taken the worker's processor alone */

static double used_s(void)
{
	struct timespec used;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
	return (double)used.tv_sec + (double)used.tv_nsec * 1e-9;
}

/*
 * At the begin and at the end of what is looked at. Only if this thread had a processor all the time:
 * else there was work for the worker.
 */
static void look(struct end *end, unsigned done)
{
	static unsigned long sleeps;
	static double began_s, began_used_s;
	double took_s;

	if (done == FIRST) {
		sleeps = worker_sleeps();
		began_s = now();
		began_used_s = used_s();
	} else if (done == COUNT) {
		sleeps = worker_sleeps() - sleeps;
		took_s = now() - began_s;
		if (used_s() - began_used_s < 0.97 * took_s) {
			tell(end->test, "b", 1);
			return;
		}
		/* Every 2 ms it looks whether somebody drives. */
		if (sleeps <= COUNT / 4 + (unsigned long)(took_s * 1000)) {
			tell(end->test, "q", 1);
			return;
		}
		fprintf(stderr, "# the worker woke %lu times, of %u copies\n", sleeps,
			COUNT - FIRST);
		tell(end->test, "l", 1);
	}
}

static void await(struct end *end)
{
	struct ibv_wc wc;

	CHECK(get(end, &wc, LIMIT_S), "no completion");
	CHECK(wc.status == IBV_WC_SUCCESS, "%s", ibv_wc_status_str(wc.status));
}

static void sends(struct end *end, void *unused)
{
	unsigned posted, done;

	end_open(end, BYTES, ALL_ACCESS);
	end_connect(end);
	meet(end);
	for (posted = done = 0; done < COUNT; look(end, ++done)) {
		for (; posted < COUNT && posted - done < AHEAD; posted++)
			CHECK(!post(end, IBV_WR_SEND, 0, BYTES, 0, posted), "%m");
		await(end);
	}
	meet(end);
	end_close(end);
}

static void receives(struct end *end, void *unused)
{
	unsigned posted, done;

	end_open(end, BYTES, ALL_ACCESS);
	end_connect(end);
	for (posted = 0; posted < 2 * AHEAD; posted++)
		CHECK(!post_receive(end, 0, BYTES, posted), "%m");
	meet(end);
	for (done = 0; done < COUNT; look(end, ++done)) {
		await(end);
		CHECK(!post_receive(end, 0, BYTES, done), "%m");
	}
	meet(end);
	end_close(end);
}

/* Each end has to have been quiet once. */
static bool stands_by(const char *mode)
{
	bool quiet[2] = {false, false}, good = true;
	struct pair pair;
	unsigned loud[2] = {0, 0}, tries, side;
	char said;

	for (tries = 0; tries < TRIES && good && !(quiet[LEFT] && quiet[RIGHT]); tries++) {
		pair_start(&pair, mode, sends, receives, NULL);
		for (side = LEFT; good && side <= RIGHT; side++) {
			good = hear(pair.socket[side], &said, 1);
			quiet[side] |= good && said == 'q';
			loud[side] += good && said == 'l';
		}
		good = pair_end(&pair, LIMIT_S) && good && loud[LEFT] <= LOUD && loud[RIGHT] <= LOUD;
	}
	if (good && !(quiet[LEFT] && quiet[RIGHT]))
		return skip("other programs took the processors");
	return good;
}

static bool it_stands_by_while_large_sends_are_copied(void)
{
	return stands_by("copy") && stands_by("mapped");
}

int main(int argc, char **argv)
{
#define TEST(name) {#name, name}
	const struct test tests[] = {
		TEST(it_stands_by_while_large_sends_are_copied),
	};

	return run_tests(argc, argv, tests, sizeof(tests) / sizeof(tests[0]));
}
