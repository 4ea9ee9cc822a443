/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Short conversations of connection management under every misfortune: each of the first messages
 * passes, is lost, comes twice or late, in every combination; and either host dies in three ways
 * after every step. What the applications wanted comes about whenever the network lets it, and
 * nothing is left behind in any case.
 *
 *	cm_exhaustive_test STORY FATES		one conversation, message by message
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "cm_world.h"

#define MIXED_MESSAGES	6u	/* 4^6 combinations */
#define MIXED_LONG	8u
#define LOSS_MESSAGES	12u	/* 2^12 */
#define CRASH_STEPS	40u

enum outcome { OUTCOME_CONNECTED, OUTCOME_REFUSED, OUTCOME_RESOLVED, OUTCOME_ANY };

struct story {
	const char *name;
	struct cm_plan active, passive;
	bool datagram;
	enum outcome outcome;
};

static const struct story stories[] = {
	{ "the active side leaves", { .hold_ns = MILLISECOND, .patience_ns = TIME_NEVER },
	  { .hold_ns = TIME_NEVER }, false, OUTCOME_CONNECTED },
	{ "the passive side leaves", { .hold_ns = TIME_NEVER, .patience_ns = TIME_NEVER },
	  { .hold_ns = MILLISECOND }, false, OUTCOME_CONNECTED },
	{ "both leave", { .hold_ns = MILLISECOND, .patience_ns = TIME_NEVER },
	  { .hold_ns = MILLISECOND }, false, OUTCOME_CONNECTED },
	{ "the active side lets go at once", { .let_go = true, .patience_ns = TIME_NEVER },
	  { .hold_ns = TIME_NEVER }, false, OUTCOME_CONNECTED },
	{ "both think for long", { .think_ns = SECOND, .hold_ns = 2 * SECOND,
				   .patience_ns = TIME_NEVER },
	  { .think_ns = SECOND, .hold_ns = TIME_NEVER }, false, OUTCOME_CONNECTED },
	{ "the passive side has no room at first", { .hold_ns = MILLISECOND,
						     .patience_ns = TIME_NEVER },
	  { .forget_first = true, .hold_ns = TIME_NEVER }, false, OUTCOME_CONNECTED },
	{ "the passive side refuses", { .patience_ns = TIME_NEVER }, { .refuse = true }, false,
	  OUTCOME_REFUSED },
	{ "the passive side walks away", { .patience_ns = TIME_NEVER }, { .walk_away = true }, false,
	  OUTCOME_REFUSED },
	{ "the active side refuses the REP", { .refuse = true, .patience_ns = TIME_NEVER },
	  { .hold_ns = TIME_NEVER }, false, OUTCOME_REFUSED },
	{ "the passive side disconnects without an RTU", { .hold_ns = TIME_NEVER,
							   .patience_ns = TIME_NEVER },
	  { .regret = true, .hold_ns = MILLISECOND }, false, OUTCOME_ANY },
	{ "the passive side lets go without an RTU", { .hold_ns = SECOND,
						       .patience_ns = TIME_NEVER },
	  { .regret = true, .let_go = true, .hold_ns = MILLISECOND }, false, OUTCOME_ANY },
	{ "a service ID is resolved", { .patience_ns = TIME_NEVER }, { .think_ns = MILLISECOND },
	  true, OUTCOME_RESOLVED },
};
#define STORIES (sizeof(stories) / sizeof(*stories))

static struct cm_world world;
static bool speak;

static struct cm_end *begin(const struct story *story, uint64_t fates)
{
	cm_world_init(&world, 1);
	world.passive = story->passive;
	world.speak = speak;
	world.fate = cm_fate_by_mask;
	world.fates = fates;
	return story->datagram ? cm_world_resolve(&world, 0, 1, &story->active) :
				 cm_world_connect(&world, 0, 1, &story->active);
}

static void check_outcome(const struct story *story, const struct cm_end *end)
{
	const struct cm_end *peer = cm_world_peer(&world, end);

	switch (story->outcome) {
	case OUTCOME_CONNECTED:
		if (!end->was_up || !peer || end->timed_out)
			cm_world_fail(&world, "no connection");
		break;
	case OUTCOME_REFUSED:
		if (end->was_up || end->timed_out || (!end->was_refused && !end->plan.refuse))
			cm_world_fail(&world, "not refused");
		break;
	case OUTCOME_RESOLVED:
		if (!end->was_resolved)
			cm_world_fail(&world, "not resolved");
		break;
	case OUTCOME_ANY:
		break;
	}
	cm_world_check_answered(&world);
}

/* A misfortune costs no more than the longest interval between two tries. */
static uint64_t time_limit(uint64_t fates)
{
	uint64_t limit_ns = 20 * SECOND;

	for (; fates; fates >>= 2)
		limit_ns += fates & 3 ? 6 * SECOND : 0;
	return limit_ns;
}

static void run(const struct story *story, uint64_t fates)
{
	const struct cm_end *end = begin(story, fates);

	cm_world_run(&world, TIME_NEVER - 1);
	check_outcome(story, end);
	if (world.done_ns > time_limit(fates))
		cm_world_fail(&world, "it took too long");
	cm_world_finish(&world);
	if (*world.failure)
		fail_msg("%s, fates 0x%llx: %s", story->name, (unsigned long long)fates,
			 world.failure);
}

static void whatever_becomes_of_the_first_messages_all_ends_well(void **unused)
{
	unsigned messages = getenv("TEST_LONG") ? MIXED_LONG : MIXED_MESSAGES;

	for (unsigned story = 0; story < STORIES; story++)
		for (uint64_t fates = 0; fates < UINT64_C(1) << 2 * messages; fates++)
			run(&stories[story], fates);
}

/* Bit i of @mask as the fate LOSS of message i. */
static uint64_t losses(uint64_t mask)
{
	uint64_t fates = 0;

	for (unsigned i = 0; i < LOSS_MESSAGES; i++)
		fates |= (mask >> i & 1) << 2 * i;
	return fates;
}

static void whichever_messages_are_lost_all_ends_well(void **unused)
{
	for (unsigned story = 0; story < 3; story++)
		for (uint64_t mask = 0; mask < UINT64_C(1) << LOSS_MESSAGES; mask++)
			run(&stories[story], losses(mask));
}

/* Somebody at the other's address says so: who waited for an answer is done. */
static void check_noticed(void)
{
	for (unsigned i = 0; i < world.ends; i++)
		if (world.end[i].knows != KNOWS_NOTHING && world.end[i].knows != KNOWS_UP)
			cm_world_fail(&world, "end %u has not noticed after 20 s (knows %d)", i + 1,
				      world.end[i].knows);
}

static void run_crash(const struct story *story, unsigned victim, enum cm_death death,
		      unsigned step, uint64_t fates)
{
	begin(story, fates);
	for (unsigned i = 0; i < step; i++)
		cm_world_step(&world);
	cm_world_crash(&world, &world.host[victim], death);
	cm_world_run(&world, world.now_ns + 20 * SECOND);
	if (death != CM_SILENT)
		check_noticed();
	cm_world_run(&world, SECOND * 3600);
	cm_world_wind_down(&world);
	cm_world_run(&world, TIME_NEVER - 1);
	cm_world_finish(&world);
	if (*world.failure)
		fail_msg("%s, host %u dies (%d) at step %u, fates 0x%llx: %s", story->name, victim,
			 death, step, (unsigned long long)fates, world.failure);
}

static void whenever_a_host_dies_the_other_comes_to_an_end(void **unused)
{
	static const uint64_t some_fates[] = { 0, 0x4, 0x10, 0x2a, 0x3c0 };

	for (unsigned story = 0; story < STORIES; story++)
		for (unsigned victim = 0; victim < 2; victim++)
			for (unsigned death = 0; death < 3; death++)
				for (unsigned step = 0; step < CRASH_STEPS; step++)
					for (unsigned i = 0; i < 5; i++)
						run_crash(&stories[story], victim,
							  (enum cm_death)death, step,
							  some_fates[i]);
}

static void a_closed_port_is_noticed_at_once(void **unused)
{
	const struct cm_end *end = begin(&stories[0], 0);

	cm_world_crash(&world, &world.host[1], CM_CLOSED_PORT);
	cm_world_run(&world, world.now_ns + 10 * MILLISECOND);
	assert_true(end->was_unreachable);
	cm_world_run(&world, TIME_NEVER - 1);
	cm_world_finish(&world);
	assert_string_equal(world.failure, "");
}

static void a_reconnect_with_the_qp_of_a_stale_connection_succeeds_at_the_second_try(void **unused)
{
	struct cm_end *end = begin(&stories[1], 0), *again;

	world.passive.hold_ns = TIME_NEVER;
	cm_world_run(&world, world.now_ns + 10 * MILLISECOND);
	assert_true(end->was_up);
	cm_world_crash(&world, &world.host[0], CM_RESTARTED);
	world.host[0].next_qpn = 1;		/* the same QPN again */
	end = cm_world_connect(&world, 0, 1, &stories[0].active);
	cm_world_run(&world, world.now_ns + 10 * MILLISECOND);
	assert_true(end->was_refused);
	world.host[0].next_qpn = 1;
	again = cm_world_connect(&world, 0, 1, &stories[0].active);
	cm_world_run(&world, TIME_NEVER - 1);
	assert_true(again->was_up);
	cm_world_finish(&world);
	assert_string_equal(world.failure, "");
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(whatever_becomes_of_the_first_messages_all_ends_well),
		cmocka_unit_test(whichever_messages_are_lost_all_ends_well),
		cmocka_unit_test(whenever_a_host_dies_the_other_comes_to_an_end),
		cmocka_unit_test(a_closed_port_is_noticed_at_once),
		cmocka_unit_test(a_reconnect_with_the_qp_of_a_stale_connection_succeeds_at_the_second_try),
	};

	if (argc == 3) {
		speak = true;
		run(&stories[strtoul(argv[1], NULL, 0) % STORIES], strtoull(argv[2], NULL, 0));
		return 0;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
