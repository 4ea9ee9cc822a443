/* SPDX-License-Identifier: BSD-2-Clause */
/* Scripts: selective repeat, both halves, over networks that lose, reorder and duplicate. */
#include "scene.h"
#include <stdlib.h>

#include "transport/recovery.h"
#include "wire/gaps.h"
#include "wire/psn.h"

#define MESSAGES	400u
#define BYTES		(16u * 1024u)	/* of a message: 4 packets */
#define PACKETS		(MESSAGES * BYTES / 4096u)

static struct talk_options repair_options(void)
{
	struct talk_options options = scene_options(IBV_QPT_RC);

	options.connect.mtu = IBV_MTU_4096;
	options.connect.rd_atomic = 16;
	options.messages_max = MESSAGES;
	options.receives_max = MESSAGES;
	options.receive_bytes = BYTES;
	options.memory_bytes = 2 * MESSAGES * (BYTES + 64);
	options.lossless_semantics = true;
	return options;
}

static void repair_plan(struct scene *scene, const enum ibv_wr_opcode *opcodes, unsigned kinds)
{
	unsigned i;

	for (i = 0; i < MESSAGES; i++)
		if (opcodes[i % kinds] == IBV_WR_ATOMIC_FETCH_AND_ADD)
			talk_plan_atomic(scene->talk, 0, i & 1, IBV_SEND_SIGNALED);
		else
			talk_plan(scene->talk, 0, opcodes[i % kinds], BYTES, IBV_SEND_SIGNALED, 1);
	talk_plan_all_receives(scene->talk, 1);
}

static void repair_done(struct scene *scene)
{
	assert_int_equal(scene->left->sends_ok, scene->left->planned);
	assert_int_equal(scene->left->qp->state, IBV_QPS_RTS);
	assert_int_equal(scene->right->qp->state, IBV_QPS_RTS);
}

/* Every place is back when nothing is under way. */
static void repair_check_places(struct sim_host *host)
{
	unsigned given = 0;
	uint16_t number;

	for (number = host->recoveries->places.first; number; number = host->recoveries->place[number - 1].next)
		given++;
	assert_int_equal(given, host->recoveries->places.used);
}

static uint64_t repaired(const struct sim_host *host)
{
	return counted(host, COUNTER_REPAIR);
}

/* Requests of these opcodes in turn; of packets in either direction @loss in a million are lost. */
static void repair_run(struct scene *scene, const enum ibv_wr_opcode *opcodes, unsigned kinds, uint32_t loss,
		       void (*on_packet)(struct flight *flight, struct scene *scene))
{
	struct talk_options options = repair_options();

	scene_begin(scene, &options);
	repair_plan(scene, opcodes, kinds);
	scene->on_packet = on_packet;
	scene->a->rates.loss = scene->b->rates.loss = loss;
	scene_run(scene);
	repair_done(scene);
	repair_check_places(scene->b);
}

static void what_is_lost_is_sent_again_and_little_else(void **state)
{
	static const enum ibv_wr_opcode writes[] = { IBV_WR_RDMA_WRITE };
	struct scene scene;

	repair_run(&scene, writes, 1, MILLION / 100, NULL);
	/* Once by going back, which is when the peer is asked. */
	assert_true(counted(scene.a, COUNTER_RETRANSMIT) <= 3);
	assert_true(repaired(scene.a) >= PACKETS / 200);
	assert_true(repaired(scene.a) <= scene.a->statistics.lost + scene.b->statistics.lost);
	assert_true(scene.a->statistics.packets < PACKETS * 108 / 100);
	assert_true(counted(scene.b, COUNTER_RX_HELD) > 0);
	scene_end(&scene);
}

/* The same network, another peer: what it cannot know is not asked for ever, and all is repaired as ever. */
static void beside_others_all_is_as_ever(void **state)
{
	static const enum ibv_wr_opcode writes[] = { IBV_WR_RDMA_WRITE };
	struct talk_options options = repair_options();
	struct scene scene;

	scene_begin(&scene, &options);
	repair_plan(&scene, writes, 1);
	scene.b->deaf = true;
	scene.a->rates.loss = scene.b->rates.loss = MILLION / 100;
	scene_run(&scene);
	repair_done(&scene);
	assert_int_equal(scene.sent[OPCODE_GAPS], 4);
	assert_int_equal(repaired(scene.a), 0);
	assert_true(counted(scene.a, COUNTER_RETRANSMIT) > 4);
	scene_end(&scene);
}

static void without_loss_nothing_is_asked(void **state)
{
	static const enum ibv_wr_opcode mixed[] = { IBV_WR_RDMA_WRITE, IBV_WR_SEND, IBV_WR_RDMA_READ };
	struct scene scene;

	repair_run(&scene, mixed, 3, 0, NULL);
	assert_int_equal(scene.sent[OPCODE_GAPS], 0);
	assert_int_equal(scene.a->recoveries->recoveries.used, 0);
	scene_end(&scene);
}

static void forget_the_peer(struct flight *flight, struct scene *scene)
{
	if (counted(scene->a, COUNTER_REPAIR) > 5)
		flight->drop |= flight->packet.op->verb == VERB_GAPS;
}

/* A peer that held, and holds no more: the first ACK timeout ends the belief in it. */
static void a_peer_may_change_its_mind(void **state)
{
	static const enum ibv_wr_opcode writes[] = { IBV_WR_RDMA_WRITE };
	struct scene scene;

	repair_run(&scene, writes, 1, MILLION / 50, forget_the_peer);
	assert_true(counted(scene.a, COUNTER_RETRANSMIT) > 4);
	scene_end(&scene);
}

/* Reports that are old when they come, come twice, or not at all. */
static void delay_reports(struct flight *flight, struct scene *scene)
{
	struct gaps gaps;

	if (flight->packet.op->verb != VERB_GAPS || flight->from != scene->b ||
	    !gaps_read(flight->packet.payload, flight->packet.payload_bytes, &gaps) || gaps.kind != GAPS_REPORT)
		return;
	flight->drop = flight->number % 3 == 0;
	flight->copies = 1 + flight->number % 3;
	flight->delay_ns += flight->number % 5 * MS;
}

static void late_and_repeated_reports_do_no_harm(void **state)
{
	static const enum ibv_wr_opcode mixed[] = { IBV_WR_RDMA_WRITE, IBV_WR_SEND, IBV_WR_RDMA_READ,
						    IBV_WR_ATOMIC_FETCH_AND_ADD };
	struct scene scene;

	repair_run(&scene, mixed, 4, MILLION / 50, delay_reports);
	scene_end(&scene);
}

/* All at once, many times: data, order and counts are the oracle's (talk.h). */
static void whatever_the_network_does_all_is_done_once(void **state)
{
	static const enum ibv_wr_opcode mixed[] = { IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_SEND, IBV_WR_RDMA_WRITE,
						    IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD,
						    IBV_WR_SEND_WITH_IMM };
	unsigned i, worlds = getenv("TEST_LONG") ? 400 : 12;
	uint64_t held = 0, again = 0;

	for (i = 0; i < worlds; i++) {
		struct talk_options options = repair_options();
		struct scene scene;
		struct sim_rates *rates;

		options.connect.psn[0] = (PSN_MASK - 100 - 7 * i) & PSN_MASK;	/* it wraps */
		scene_begin(&scene, &options);
		scene.sim->random += i;
		repair_plan(&scene, mixed, 6);
		for (rates = &scene.a->rates; rates; rates = rates == &scene.a->rates ? &scene.b->rates : NULL) {
			rates->loss = sim_below(scene.sim, MILLION / 20);
			rates->burst_loss = sim_below(scene.sim, MILLION / 50);
			rates->duplicate = sim_below(scene.sim, MILLION / 20);
			rates->reorder = sim_below(scene.sim, MILLION / 20);
			rates->reorder_ns = 50 * US;
			rates->corrupt = sim_below(scene.sim, MILLION / 100);
		}
		scene.right->late_receives_ns = i % 3 ? 0 : 5 * MS;	/* RNR, too */
		scene_run(&scene);
		repair_done(&scene);
		repair_check_places(scene.a);
		repair_check_places(scene.b);
		held += counted(scene.b, COUNTER_RX_HELD);
		again += repaired(scene.a);
		scene_end(&scene);
	}
	assert_true(held > worlds);
	assert_true(again > worlds);
}

#define TEST(name) cmocka_unit_test(name)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(what_is_lost_is_sent_again_and_little_else),
		TEST(beside_others_all_is_as_ever),
		TEST(without_loss_nothing_is_asked),
		TEST(a_peer_may_change_its_mind),
		TEST(late_and_repeated_reports_do_no_harm),
		TEST(whatever_the_network_does_all_is_done_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
