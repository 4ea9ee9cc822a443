/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Random worlds of connection management: three hosts that connect, resolve, refuse, forget, let go
 * and crash, over links of every quality. Each is one seed.
 *
 *	cm_random_test [SEED]		one world, message by message
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "base/test_random.h"
#include "cm_world.h"

#define SEEDS_USUAL	2000u
#define SEEDS_LONG	100000u
#define ACTIONS_MAX	40u

static struct cm_world world;

static struct cm_plan any_plan(uint64_t *random)
{
	uint64_t dice = test_random(random);

	return (struct cm_plan){
		.refuse = dice % 10 == 0, .walk_away = (dice >> 8) % 16 == 0,
		.let_go = (dice >> 16) % 3 == 0, .think_ns = (dice >> 24) % (20 * MILLISECOND),
		.hold_ns = (dice >> 44) % 3 ? (dice >> 46) * 10000 : TIME_NEVER,
		.patience_ns = (dice >> 60) < 2 ? 500 * MILLISECOND : TIME_NEVER,
	};
}

static void act(uint64_t *random, bool crashes)
{
	unsigned from = (unsigned)test_random(random) % CM_HOSTS;
	unsigned to = (unsigned)test_random(random) % CM_HOSTS;
	struct cm_plan plan = any_plan(random);
	unsigned what = (unsigned)test_random(random) % 20;

	if (what < 14)
		cm_world_connect(&world, from, to, &plan);
	else if (what < 18)
		cm_world_resolve(&world, from, to, &plan);
	else if (what == 18 && crashes)
		cm_world_crash(&world, &world.host[from], CM_RESTARTED);
	else	/* some time later, so that the world is not over with it */
		cm_world_run(&world, world.now_ns + 3 * SECOND);
}

static bool run_seed(uint64_t seed, bool speak)
{
	uint64_t random = seed;
	unsigned actions = 5 + (unsigned)test_random(&random) % ACTIONS_MAX;
	bool crashes = test_random(&random) % 2;

	cm_world_init(&world, test_random(&random));
	world.speak = speak;
	world.random_plans = true;
	world.fate = cm_fate_by_chance;
	world.loss_percent = (unsigned)test_random(&random) % (crashes ? 40 : 15);
	world.twice_percent = (unsigned)test_random(&random) % 20;
	world.late_percent = (unsigned)test_random(&random) % 20;
	for (unsigned i = 0; i < actions && !*world.failure; i++) {
		act(&random, crashes);
		cm_world_run(&world, world.now_ns + test_random(&random) % (200 * MILLISECOND));
	}
	if (crashes && test_random(&random) % 2)
		cm_world_crash(&world, &world.host[1],
			       (enum cm_death)(test_random(&random) % 2));
	cm_world_run(&world, world.now_ns + 3600 * SECOND);
	cm_world_wind_down(&world);
	cm_world_run(&world, TIME_NEVER - 1);
	if (!crashes)
		cm_world_check_answered(&world);
	cm_world_finish(&world);
	if (*world.failure)
		printf("seed %llu: %s\n", (unsigned long long)seed, world.failure);
	return !*world.failure;
}

static void random_worlds_end_as_they_must(void **unused)
{
	unsigned seeds = getenv("TEST_LONG") ? SEEDS_LONG : SEEDS_USUAL, failures = 0;

	for (uint64_t seed = 1; seed <= seeds && failures < 5; seed++)
		failures += !run_seed(seed, false);
	assert_int_equal(failures, 0);
}

#define DEPARTURES	10000u
#define FAREWELL_NS	(600 * MILLISECOND)	/* as of device/process.c */

/* The process of @host ends: exit() waits until its peers have heard of it, for a while. */
static void leave(struct cm_host *host)
{
	uint64_t until_ns = world.now_ns + FAREWELL_NS;

	for (unsigned i = 0; i < world.ends; i++)
		if (world.end[i].host == host && world.end[i].knows == KNOWS_UP) {
			world.end[i].knows = KNOWS_LEAVING;
			world.end[i].act_ns = TIME_NEVER;
		}
	while (cm_leave(host->protocol, world.now_ns) && world.now_ns < until_ns) {
		cm_world_run(&world, world.now_ns + MILLISECOND);
		world.now_ns += MILLISECOND;
	}
	cm_world_crash(&world, host, CM_SILENT);
}

static bool is_connected(const struct cm_end *end)
{
	return end && (end->knows == KNOWS_ACCEPTED || end->knows == KNOWS_UP);
}

/*
 * Connect, 5 ms of data, then the client's process ends: having disconnected just before, or at the same time, or
 * not at all. The server, which has nothing to send, must hear of it.
 */
static bool server_hears(uint64_t seed)
{
	struct cm_plan plan = { .hold_ns = seed % 2 ? 5 * MILLISECOND : TIME_NEVER,
				.patience_ns = TIME_NEVER };
	struct cm_end *client, *server;

	cm_world_init(&world, seed);
	world.fate = cm_fate_by_chance;
	world.loss_percent = 2;
	client = cm_world_connect(&world, 0, 1, &plan);
	while (client && !client->was_up && cm_world_step(&world))
		;
	cm_world_run(&world, world.now_ns + 5 * MILLISECOND + seed % 3 * 50000);
	server = cm_world_peer(&world, client);
	leave(&world.host[0]);
	cm_world_run(&world, world.now_ns + 100 * MILLISECOND);
	if (*world.failure || !client->was_up || is_connected(server)) {
		printf("seed %llu: %s\n", (unsigned long long)seed, *world.failure ? world.failure :
		       "the server did not hear of the end");
		return false;
	}
	cm_world_run(&world, TIME_NEVER - 1);
	cm_world_finish(&world);
	return !*world.failure;
}

static void both_ends_end_although_a_process_does(void **unused)
{
	unsigned failures = 0;

	for (uint64_t seed = 1; seed <= DEPARTURES && failures < 5; seed++)
		failures += !server_hears(seed);
	assert_int_equal(failures, 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(random_worlds_end_as_they_must),
		cmocka_unit_test(both_ends_end_although_a_process_does),
	};

	if (argc > 1)
		return !run_seed(strtoull(argv[1], NULL, 0), true);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
