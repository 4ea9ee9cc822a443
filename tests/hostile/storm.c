/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * All at once, by seed and for a bounded time: two honest processes work with each other, and
 * others scribble into whatever they can map, misuse every descriptor that they have, and say
 * anything to every socket that they can reach. The data of the honest ones stays right.
 */
#include "hostile.h"

#include <signal.h>
#include <sys/prctl.h>

enum { DRIVER, ECHO, VANDAL, TALKER, STRANGER };

#define STORM_S 2.0
#define LONG_STORM_S 20.0
#define LONG_STORMS 10
#define GRANTED_BYTES (64 * KIB)

/* ---- the honest ones ---- */

static struct ibv_mr *key_for_others(struct node *node)
{
	return region_make(node, memory_make(MEMORY_ALIGNED, GRANTED_BYTES), GRANTED_BYTES,
			   REMOTE_ALL);
}

/* Those of our user are connected to us, and have a key. */
static void take_on(struct cast *cast, struct node *node, struct ibv_mr *mr, struct link *link)
{
	link_connect(cast, VANDAL, &link[0], node, mr);
	link_connect(cast, TALKER, &link[1], node, mr);
}

static void be_driver(struct cast *cast)
{
	struct holdings before;
	struct steady steady;
	struct link link[2];
	struct ibv_mr *mr;
	struct node node;
	double seconds;

	become_plain(USER_A);
	if (random_below(2))
		CHECK(!prctl(PR_SET_DUMPABLE, 0), "%m");
	node_open(&node);
	mr = key_for_others(&node);
	steady_connect(cast, ECHO, &steady, &node);
	steady_drive(&steady, 0.1);
	before = holdings_settled();
	take_on(cast, &node, mr, link);
	hear(cast, cast->count, &seconds, sizeof(seconds));
	steady_drive(&steady, seconds);
	CHECK(steady.slowest_s < HONEST_LIMIT_S, "a round took %.1f s", steady.slowest_s);
	say("%llu rounds, the slowest of %.0f ms", (unsigned long long)steady.rounds,
	    steady.slowest_s * 1000);
	meet(cast, cast->count); /* they are gone */
	CHECK(!ibv_destroy_qp(link[0].qp) && !ibv_destroy_qp(link[1].qp), "%m");
	steady_drive(&steady, 0.1);
	holdings_compare(&before);
	steady_end(cast, ECHO, &steady);
}

static void be_echo(struct cast *cast)
{
	struct node node, other;
	struct link link[2];

	become_plain(USER_A);
	node_open(&node);
	node_open(&other);
	take_on(cast, &other, key_for_others(&other), link);
	steady_echo(cast, DRIVER, &node);
}

/* ---- the others ---- */

static void storm_of_words(void *argument)
{
	static struct span span[SPANS_MAX];

	seed += (uint64_t)getpid() << 16;
	attack_scribble(span, attack_map_everything(span), 600);
}

static void storm_of_descriptors(void *argument)
{
	seed += 1;
	attack_descriptors(600);
}

static void storm_of_messages(void *argument)
{
	seed += 2;
	attack_sockets(600);
}

/* To both of the honest ones; and used, so that what is shared is shared. */
static void get_in(struct cast *cast)
{
	static struct node node;
	struct link link[2];
	struct ibv_mr *mr;
	int who, i;

	become_plain(USER_A);
	attack_spare_descriptors();
	node_open(&node);
	mr = region_make(&node, memory_make(MEMORY_ALIGNED, GRANTED_BYTES), GRANTED_BYTES,
			 REMOTE_ALL);
	for (who = ECHO; who >= DRIVER; who--)
		link_connect(cast, who, &link[who], &node, mr);
	for (i = 0; i < 20; i++)
		for (who = DRIVER; who <= ECHO; who++)
			CHECK(transfer(&link[who], IBV_WR_RDMA_WRITE, mr, 0, 10000, 0) ==
			      IBV_WC_SUCCESS);
	meet(cast, cast->count);
}

static void be_vandal(struct cast *cast)
{
	get_in(cast);
	attack_fork(storm_of_words, NULL);
	attack_fork(storm_of_descriptors, NULL);
	pause();
}

static void be_talker(struct cast *cast)
{
	get_in(cast);
	attack_fork(storm_of_descriptors, NULL);
	attack_fork(storm_of_messages, NULL);
	pause();
}

static void be_stranger(struct cast *cast)
{
	become_plain(USER_B);
	meet(cast, cast->count);
	attack_sockets(600);
}

/* ---- the storm ---- */

static void one_storm(double seconds)
{
	actor_fn *const actor[] = {be_driver, be_echo, be_vandal, be_talker, be_stranger};
	struct cast cast;
	int who;

	say("seed %#llx", (unsigned long long)seed);
	cast_start(&cast, 5, actor, NULL);
	for (who = VANDAL; who <= STRANGER; who++)
		await_cue(&cast, who);
	for (who = VANDAL; who <= STRANGER; who++)
		cue(&cast, who);
	tell(&cast, DRIVER, &seconds, sizeof(seconds));
	CHECK(await_cue_within(&cast, DRIVER, seconds + 20), "the honest ones do not go on");
	for (who = VANDAL; who <= STRANGER; who++)
		cast_forget(&cast, who);
	cue(&cast, DRIVER);
	cast_end(&cast, 30);
}

static void storm(void)
{
	unsigned i;

	for (i = 0; i < (long_run ? LONG_STORMS : 1); i++) {
		one_storm(long_run ? LONG_STORM_S : STORM_S);
		seed++;
	}
}

const struct hostile_case storm_cases[] = {
	{"storm", "honest data stays right while others write and say whatever they can", storm},
	{0},
};
