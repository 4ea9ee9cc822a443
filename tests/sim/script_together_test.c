/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Scripts: packets that leave together. Two applications that reply to each other's messages, as
 * ib_write_lat does: post, wait for the completion, wait for the reply in memory; an ACK that waits
 * for its reply (transport/ack_hold.h), also when packets are lost. And requests that wait for each
 * other (transport/gather.h).
 */
#include "scene.h"
#include "transport/ack_hold.h"
#include "transport/gather.h"

#define ROUNDS		60u
#define DELAY_NS	(10 * US)	/* one way */
#define THINK_NS	US

/* What the two players do; the left one begins. */
struct table {
	struct scene scene;
	uint64_t think_ns;
	uint32_t slow_from, slow_to;		/* of the right one: these replies take SLOW_NS */
	uint64_t posted_ns[2];
	uint64_t slowest_ns;			/* from a post to its completion */
	unsigned held_up;			/* completions that took longer than a round trip */
	bool passive;				/* the right one does not reply */
};

#define SLOW_NS		(200 * US)

static struct table *table;

static void nothing(struct sim *sim, void *argument)
{
}

/* Messages of the peer that the side has seen in its memory. */
static uint32_t seen_by(const struct side *side)
{
	return side->destroyed ? 0 : side->qp->responder.msn;
}

static uint64_t think_time(const struct side *side)
{
	bool slow = side->index && side->posted >= table->slow_from && side->posted < table->slow_to;

	return slow ? SLOW_NS : table->think_ns;
}

/* It is the side's turn once it has seen what it replies to. */
static void take_turn(struct sim *sim, struct side *side)
{
	uint32_t needed = side->posted + side->index;

	if (table->passive && !side->index)
		needed = 0;
	if (seen_by(side) < needed) {
		side->next_post_ns = TIME_NEVER;
	} else if (side->next_post_ns == TIME_NEVER) {
		side->next_post_ns = sim->now_ns + think_time(side);
		sim_call_at(sim, side->next_post_ns, nothing, NULL);
	}
}

static void play(struct sim *sim, void *argument)
{
	struct talk *talk = argument;
	uint32_t before[2];
	unsigned i;

	for (i = 0; i < 2; i++) {
		before[i] = talk->side[i].posted;
		take_turn(sim, &talk->side[i]);
	}
	talk_progress(talk);
	for (i = 0; i < 2; i++)
		if (talk->side[i].posted != before[i])
			table->posted_ns[i] = sim->now_ns;
}

static void note_completion(struct side *side, const struct ibv_wc *wc, bool receive)
{
	uint64_t took_ns = side->talk->sim->now_ns - table->posted_ns[side->index];

	if (receive)
		return;
	if (took_ns > table->slowest_ns)
		table->slowest_ns = took_ns;
	table->held_up += took_ns > 2 * DELAY_NS + 2 * THINK_NS;
}

static void table_begin(struct table *new_table)
{
	struct talk_options options = scene_options(IBV_QPT_RC);
	unsigned i;

	*new_table = (struct table){ .think_ns = THINK_NS };
	table = new_table;
	options.messages_max = options.receives_max = 4 * ROUNDS;
	scene_begin(&table->scene, &options);
	for (i = 0; i < 2; i++) {
		struct side *side = &table->scene.talk->side[i];

		side->depth = 1;
		side->next_post_ns = TIME_NEVER;
		side->on_completion = note_completion;
		side->host->rates.delay_ns = DELAY_NS;
	}
}

static void plan_rounds(enum ibv_wr_opcode opcode, unsigned count)
{
	for (; count; count--) {
		talk_plan(table->scene.talk, 0, opcode, 16, IBV_SEND_SIGNALED, 1);
		if (!table->passive)
			talk_plan(table->scene.talk, 1, opcode, 16, IBV_SEND_SIGNALED, 1);
	}
}

/* All is done, and the data is what it should be. */
static void table_run(void)
{
	struct sim *sim = table->scene.sim;

	sim->application = play;
	sim->application_argument = table->scene.talk;
	play(sim, table->scene.talk);
	if (!sim_run(sim, TIME_NEVER - 1))
		fail_msg("%s", sim->failure);
	talk_check_end(table->scene.talk);
	if (sim->failed)
		fail_msg("%s", sim->failure);
	assert_int_equal(table->scene.left->sends_ok, table->scene.left->planned);
	assert_int_equal(table->scene.right->sends_ok, table->scene.right->planned);
}

static uint64_t batches(void)
{
	return table->scene.a->statistics.batches + table->scene.b->statistics.batches;
}

static void nothing_was_repeated(void)
{
	struct sim_host *host[] = { table->scene.a, table->scene.b };
	unsigned i;

	for (i = 0; i < 2; i++) {
		assert_int_equal(counted(host[i], COUNTER_RETRANSMIT), 0);
		assert_int_equal(counted(host[i], COUNTER_PROBE), 0);
		assert_int_equal(counted(host[i], COUNTER_TIMEOUT), 0);
		assert_int_equal(counted(host[i], COUNTER_RX_DUPLICATE), 0);
	}
}

/* ---- ACKs that wait for replies ---- */

static void replies_take_the_ack_along(void **state)
{
	struct table here;

	table_begin(&here);
	plan_rounds(IBV_WR_RDMA_WRITE, ROUNDS);
	table_run();
	nothing_was_repeated();
	/* Until it is learnt, two per message. The last ACK has nothing to wait for. */
	assert_in_range(batches(), 2 * ROUNDS, 2 * ROUNDS + 2 * HOLD_LEARN + 2);
	scene_end(&here.scene);
}

/* The ACK of the last WRITE, which nobody replies to, leaves at its deadline. */
static void the_longest_wait_is_the_deadline(void **state)
{
	struct table here;

	table_begin(&here);
	plan_rounds(IBV_WR_RDMA_WRITE, ROUNDS);
	table_run();
	assert_in_range(here.slowest_ns, 2 * DELAY_NS, 2 * DELAY_NS + HOLD_NS);
	assert_int_equal(here.held_up, 1);
	scene_end(&here.scene);
}

static void a_passive_target_answers_at_once(void **state)
{
	struct table here;

	table_begin(&here);
	here.passive = true;
	plan_rounds(IBV_WR_RDMA_WRITE, ROUNDS);
	table_run();
	nothing_was_repeated();
	assert_int_equal(here.held_up, 0);
	assert_int_equal(batches(), 2 * ROUNDS);
	scene_end(&here.scene);
}

/* One reply that does not come in time: no other WRITE waits for its ACK for long. */
static void one_miss_ends_it_for_many_messages(void **state)
{
	struct table here;

	table_begin(&here);
	here.slow_from = 2 * HOLD_LEARN;
	here.slow_to = 3 * ROUNDS;
	plan_rounds(IBV_WR_RDMA_WRITE, 3 * ROUNDS);
	table_run();
	nothing_was_repeated();
	/* The right one is slow for ever; the left one replies at once, except to the last. */
	assert_in_range(here.held_up, 1, 2);
	assert_in_range(here.slowest_ns, 2 * DELAY_NS, 2 * DELAY_NS + HOLD_NS);
	scene_end(&here.scene);
}

/* ---- the same, with losses ---- */

static void each_lost_packet_is_repaired(void **state)
{
	static const enum opcode_number code[] = { OPCODE_RC_ACKNOWLEDGE, OPCODE_RC_WRITE_ONLY };
	unsigned which, from;

	for (which = 0; which < 2; which++)
		for (from = 0; from < 2 * ROUNDS; from += 3) {
			struct table here;

			table_begin(&here);
			plan_rounds(IBV_WR_RDMA_WRITE, ROUNDS);
			scene_drop(&here.scene, code[which], from, 1 + from % 3);
			table_run();
			assert_int_equal(counted(here.scene.a, COUNTER_TIMEOUT) +
					 counted(here.scene.b, COUNTER_TIMEOUT), 0);
			assert_true(scene_ms(&here.scene) < 40);
			scene_end(&here.scene);
		}
}

static void packets_lost_and_out_of_order_by_chance(void **state)
{
	unsigned seed, i;

	for (seed = 1; seed <= 40; seed++) {
		struct table here;

		table_begin(&here);
		here.scene.sim->random = seed;
		here.slow_from = seed % ROUNDS;
		here.slow_to = here.slow_from + seed % 3;
		plan_rounds(IBV_WR_RDMA_WRITE, ROUNDS / 2);
		plan_rounds(seed % 2 ? IBV_WR_SEND : IBV_WR_RDMA_READ, ROUNDS / 6);
		plan_rounds(IBV_WR_RDMA_WRITE, ROUNDS / 3);
		talk_plan_all_receives(here.scene.talk, 1);
		for (i = 0; i < 2; i++) {
			struct sim_rates *rates = &here.scene.talk->side[i].host->rates;

			rates->loss = 30000;
			rates->duplicate = 20000;
			rates->reorder = 50000;
			rates->reorder_ns = 3 * DELAY_NS;
		}
		table_run();
		scene_end(&here.scene);
	}
}

/* The receives of the SENDs among the WRITEs come late: RNR NAKs. */
static void messages_without_a_receive_among_them(void **state)
{
	struct table here;

	table_begin(&here);
	plan_rounds(IBV_WR_RDMA_WRITE, 2 * HOLD_LEARN);
	plan_rounds(IBV_WR_SEND, 3);
	plan_rounds(IBV_WR_RDMA_WRITE, 2 * HOLD_LEARN);
	plan_rounds(IBV_WR_SEND, 3);
	talk_plan_all_receives(here.scene.talk, 1);
	here.scene.left->late_receives_ns = here.scene.right->late_receives_ns = MS;
	table_run();
	assert_true(counted(here.scene.b, COUNTER_TX_RNR_NAK) > 0);
	scene_end(&here.scene);
}

/* ---- states ---- */

/* The left one goes to SQD while the ACK of its last WRITE is held: it has drained soon. */
static void a_queue_drains_although_its_ack_is_held(void **state)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1 };
	struct table here;

	table_begin(&here);
	plan_rounds(IBV_WR_RDMA_WRITE, 2 * HOLD_LEARN);
	table_run();
	/* One more, and nobody replies. */
	talk_plan(here.scene.talk, 0, IBV_WR_RDMA_WRITE, 16, IBV_SEND_SIGNALED, 1);
	here.scene.sim->application = NULL;
	here.scene.left->next_post_ns = 0;
	talk_progress(here.scene.talk);
	assert_true(sim_run(here.scene.sim, here.scene.sim->now_ns + DELAY_NS + US));
	assert_true(here.scene.right->qp->responder.hold.until_ns);
	assert_int_equal(host_modify(here.scene.a, here.scene.left->qp, &attr,
				     IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY), 0);
	assert_int_equal(here.scene.a->events[IBV_EVENT_SQ_DRAINED], 0);
	assert_true(sim_run(here.scene.sim, here.scene.sim->now_ns + HOLD_NS + DELAY_NS));
	assert_int_equal(here.scene.a->events[IBV_EVENT_SQ_DRAINED], 1);
	talk_progress(here.scene.talk);
	nothing_was_repeated();
	scene_end(&here.scene);
}

/* ---- requests that leave together ---- */

#define STREAM 200

/* Small WRITEs posted one after the other; one of @reads (0: none) is a READ. */
static void plan_stream(struct scene *scene, unsigned reads)
{
	struct talk_options options = scene_options(IBV_QPT_RC);
	unsigned n;

	options.messages_max = STREAM;
	scene_begin(scene, &options);
	scene->a->gathers = true;
	for (n = 1; n <= STREAM; n++)
		talk_plan(scene->talk, 0, reads && n % reads == 0 ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE,
			  8, IBV_SEND_SIGNALED, 1);
}

static void a_stream_leaves_in_few_batches(void **state)
{
	struct scene scene;

	plan_stream(&scene, 0);
	scene_run(&scene);
	assert_int_equal(scene.left->sends_ok, STREAM);
	assert_true(scene.a->statistics.batches < STREAM / 4);
	scene_end(&scene);
}

/* What waits for an answer leaves although the answers get lost. */
static void what_waits_leaves_although_answers_are_lost(void **state)
{
	unsigned from;

	for (from = 0; from < 8; from++) {
		struct scene scene;

		plan_stream(&scene, 10);
		scene_drop(&scene, OPCODE_RC_ACKNOWLEDGE, from, 3);
		scene_run(&scene);
		assert_int_equal(scene.left->sends_ok, STREAM);
		assert_int_equal(counted(scene.a, COUNTER_TIMEOUT), 0);
		scene_end(&scene);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(replies_take_the_ack_along),
		cmocka_unit_test(the_longest_wait_is_the_deadline),
		cmocka_unit_test(a_passive_target_answers_at_once),
		cmocka_unit_test(one_miss_ends_it_for_many_messages),
		cmocka_unit_test(each_lost_packet_is_repaired),
		cmocka_unit_test(packets_lost_and_out_of_order_by_chance),
		cmocka_unit_test(messages_without_a_receive_among_them),
		cmocka_unit_test(a_queue_drains_although_its_ack_is_held),
		cmocka_unit_test(a_stream_leaves_in_few_batches),
		cmocka_unit_test(what_waits_leaves_although_answers_are_lost),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
