/* SPDX-License-Identifier: BSD-2-Clause */
/* Scripts: packets that are lost, twice, damaged, or answered with "not ready". */
#include "scene.h"

static struct message *plan(struct scene *scene, enum ibv_wr_opcode opcode, uint32_t length)
{
	return talk_plan(scene->talk, 0, opcode, length, IBV_SEND_SIGNALED, 1);
}

static void all_succeeded(struct scene *scene)
{
	assert_int_equal(scene->left->sends_ok, scene->left->planned);
	assert_int_equal(scene->left->qp->state, IBV_QPS_RTS);
	assert_int_equal(scene->right->qp->state, IBV_QPS_RTS);
}

/* ---- receiver not ready ---- */

static void a_receive_posted_late_is_waited_for(void **state)
{
	struct talk_options options = scene_options(IBV_QPT_RC);
	struct scene scene;

	options.connect.timeout = 8;		/* 1 ms: far less than the RNR wait */
	options.connect.retry_cnt = 1;
	options.connect.min_rnr_timer = 24;	/* 40.96 ms */
	scene_begin(&scene, &options);
	plan(&scene, IBV_WR_SEND, 3000);
	talk_plan_all_receives(scene.talk, 1);
	scene.right->late_receives_ns = 300 * MS;
	scene_run(&scene);
	all_succeeded(&scene);
	assert_true(counted(scene.b, COUNTER_TX_RNR_NAK) >= 7);
	assert_true(counted(scene.b, COUNTER_TX_RNR_NAK) <= 8);
	/* IBTA 9.7.5.2.8: the ACK timer does not run while an RNR NAK is waited out. */
	assert_int_equal(counted(scene.a, COUNTER_TIMEOUT), 0);
	assert_true(scene.left->last_done_ns - SECOND < (300 + 50) * MS);
	scene_end(&scene);
}

static void rnr_retries_end_with_their_own_status(void **state)
{
	struct talk_options options = scene_options(IBV_QPT_RC);
	struct scene scene;

	options.connect.rnr_retry = 2;
	scene_begin(&scene, &options);
	plan(&scene, IBV_WR_SEND, 10);
	plan(&scene, IBV_WR_RDMA_WRITE, 10);
	talk_plan_receives(scene.talk, 0, 3, 1);
	scene_run(&scene);
	assert_int_equal(scene.left->send_status, IBV_WC_RNR_RETRY_EXC_ERR);
	assert_int_equal(counted(scene.b, COUNTER_TX_RNR_NAK), 1 + 2);
	assert_int_equal(scene.left->flushed, 1 + 3);
	assert_int_equal(scene.left->qp->state, IBV_QPS_ERR);
	/* The responder has done nothing wrong. */
	assert_int_equal(scene.right->qp->state, IBV_QPS_RTS);
	scene_end(&scene);
}

static void a_lost_rnr_nak_is_asked_for_again(void **state)
{
	struct talk_options options = scene_options(IBV_QPT_RC);
	struct scene scene;

	scene_begin(&scene, &options);
	plan(&scene, IBV_WR_SEND, 10);
	talk_plan_all_receives(scene.talk, 1);
	scene.right->late_receives_ns = 50 * MS;
	scene_drop(&scene, OPCODE_RC_ACKNOWLEDGE, 0, 2);
	scene_run(&scene);
	all_succeeded(&scene);
	scene_end(&scene);
}

/* ---- the peer is gone ---- */

static void order_of_flush(struct side *side, const struct ibv_wc *wc, bool receive)
{
	unsigned *next = side->argument;

	if (!receive)
		assert_int_equal(wc->wr_id, (*next)++);
	assert_int_equal(wc->status, !receive && wc->wr_id == 0 ? IBV_WC_RETRY_EXC_ERR :
								 IBV_WC_WR_FLUSH_ERR);
}

static void a_dead_peer_is_noticed_after_all_retries(void **state)
{
	struct talk_options options = scene_options(IBV_QPT_RC);
	struct scene scene;
	unsigned next = 0, i;

	options.connect.timeout = 14;		/* 67.1 ms */
	options.connect.retry_cnt = 3;
	scene_begin(&scene, &options);
	plan(&scene, IBV_WR_RDMA_READ, 5000);
	for (i = 0; i < 5; i++)
		talk_plan(scene.talk, 0, IBV_WR_RDMA_WRITE, 100, 0, 1);
	talk_plan_receives(scene.talk, 0, 4, 1);
	scene.b->crashed = true;
	scene.left->on_completion = order_of_flush;
	scene.left->argument = &next;
	scene_run(&scene);
	assert_int_equal(next, 6);
	assert_int_equal(scene.left->send_status, IBV_WC_RETRY_EXC_ERR);
	/* Unsignaled ones are flushed with a completion too; so are the receives. */
	assert_int_equal(scene.left->flushed, 5 + 4);
	/* C9-141: a timer fires between one and four times its value. */
	assert_true(scene_ms(&scene) > 4 * 67.1 - 1);
	assert_true(scene_ms(&scene) < 4 * 4 * 67.1);
	scene_end(&scene);
}

static void heal(struct sim *sim, void *argument)
{
	struct sim_host *host = argument;

	host->rates.partitioned = false;
}

static void timeout_0_waits_for_ever(void **state)
{
	struct talk_options options = scene_options(IBV_QPT_RC);
	struct scene scene;

	options.connect.timeout = 0;
	options.connect.retry_cnt = 1;
	scene_begin(&scene, &options);
	plan(&scene, IBV_WR_RDMA_WRITE, 100);
	scene.b->rates.partitioned = true;
	sim_call_at(scene.sim, scene.sim->now_ns + 100 * SECOND, heal, scene.b);
	scene_run(&scene);
	all_succeeded(&scene);
	assert_true(scene_ms(&scene) > 100e3);
	assert_true(scene.sim->sent < 2000);	/* and does not flood meanwhile */
	scene_end(&scene);
}

static void a_short_partition_is_survived(void **state)
{
	struct talk_options options = scene_options(IBV_QPT_RC);
	struct scene scene;
	unsigned i;

	scene_begin(&scene, &options);
	for (i = 0; i < 20; i++)
		plan(&scene, i & 1 ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ, 5000);
	scene.a->rates.partitioned = true;
	sim_call_at(scene.sim, scene.sim->now_ns + 200 * MS, heal, scene.a);
	scene_run(&scene);
	all_succeeded(&scene);
	assert_true(scene_ms(&scene) < 600);
	scene_end(&scene);
}

/* ---- READ ---- */

struct read_watch {
	uint64_t address[8];
	uint32_t length[8];
	unsigned requests;
};

static struct read_watch watch;

static void watch_reads(struct flight *flight, struct scene *scene)
{
	if (flight->packet.op->code != OPCODE_RC_READ_REQUEST || watch.requests == 8)
		return;
	watch.address[watch.requests] = flight->packet.reth.address;
	watch.length[watch.requests++] = flight->packet.reth.length;
}

static void a_read_that_lost_its_middle_asks_for_the_rest(void **state)
{
	struct talk_options options = scene_options(IBV_QPT_RC);
	struct message *message;
	struct scene scene;
	uint64_t address;

	memset(&watch, 0, sizeof(watch));
	scene_begin(&scene, &options);
	message = plan(&scene, IBV_WR_RDMA_READ, 5 * 1024 + 7);
	address = span_address(&scene.right->memory, &message->remote);
	scene_drop(&scene, OPCODE_RC_READ_RESPONSE_MIDDLE, 1, 1);
	scene.on_packet = watch_reads;
	scene_run(&scene);
	all_succeeded(&scene);
	assert_int_equal(watch.requests, 2);
	assert_int_equal(watch.address[0], address);
	assert_int_equal(watch.length[0], 5 * 1024 + 7);
	/* FIRST and one MIDDLE have come: the residue begins behind them (IBTA 9.4.4). */
	assert_int_equal(watch.address[1], address + 2048);
	assert_int_equal(watch.length[1], 3 * 1024 + 7);
	scene_end(&scene);
}

static void an_ack_does_not_complete_past_a_read(void **state)
{
	struct talk_options options = scene_options(IBV_QPT_RC);
	struct scene scene;

	scene_begin(&scene, &options);
	plan(&scene, IBV_WR_RDMA_WRITE, 100);
	plan(&scene, IBV_WR_RDMA_READ, 100);
	plan(&scene, IBV_WR_RDMA_WRITE, 100);
	/* The last ACK answers all three, but the READ's data has not come. */
	scene_drop(&scene, OPCODE_RC_READ_RESPONSE_ONLY, 0, 1);
	scene_run(&scene);
	all_succeeded(&scene);
	assert_int_equal(scene.sent[OPCODE_RC_READ_RESPONSE_ONLY], 2);
	assert_int_equal(counted(scene.a, COUNTER_TIMEOUT), 0);
	scene_end(&scene);
}

static void hold_back_copies(struct flight *flight, struct scene *scene)
{
	if (flight->packet.op->code == OPCODE_RC_WRITE_ONLY)
		flight->copies = 2;
}

/* Its ACK must not say that the READ behind it is answered: that would be an implied NAK. */
static void a_duplicate_before_a_read_costs_nothing(void **state)
{
	struct talk_options options = scene_options(IBV_QPT_RC);
	struct scene scene;

	scene_begin(&scene, &options);
	scene.b->tx_packet_ns = 20 * US;	/* the READ's responses take their time */
	plan(&scene, IBV_WR_RDMA_WRITE, 100);
	plan(&scene, IBV_WR_RDMA_READ, 20000);
	scene.on_packet = hold_back_copies;
	scene_run(&scene);
	all_succeeded(&scene);
	assert_int_equal(counted(scene.b, COUNTER_RX_DUPLICATE), 1);
	assert_int_equal(counted(scene.a, COUNTER_RETRANSMIT), 0);
	scene_end(&scene);
}

static void one_ack_completes_many_writes(void **state)
{
	struct talk_options options = scene_options(IBV_QPT_RC);
	struct scene scene;
	unsigned i;

	scene_begin(&scene, &options);
	scene.b->wake_ns = 100 * US;
	for (i = 0; i < 40; i++)
		plan(&scene, IBV_WR_RDMA_WRITE, 8);
	scene_run(&scene);
	all_succeeded(&scene);
	assert_true(scene.sent[OPCODE_RC_ACKNOWLEDGE] <= 4);
	scene_end(&scene);
}

/* ---- atomics ---- */

static void an_atomic_whose_answer_is_lost_is_not_done_again(void **state)
{
	struct talk_options options = scene_options(IBV_QPT_RC);
	struct scene scene;

	scene_begin(&scene, &options);
	talk_plan_atomic(scene.talk, 0, false, IBV_SEND_SIGNALED);
	talk_plan_atomic(scene.talk, 0, true, IBV_SEND_SIGNALED);
	talk_plan_atomic(scene.talk, 0, false, IBV_SEND_SIGNALED);
	scene_drop(&scene, OPCODE_RC_ATOMIC_ACKNOWLEDGE, 0, 4);
	scene_run(&scene);
	all_succeeded(&scene);
	assert_true(span_read64(&scene.right->memory, &scene.right->counter) ==
		    scene.right->counter_value);
	assert_true(counted(scene.b, COUNTER_RX_DUPLICATE) >= 1);
	scene_end(&scene);
}

/* ---- wholesale ---- */

static void plan_medley(struct scene *scene, unsigned count)
{
	static const enum ibv_wr_opcode opcodes[] = { IBV_WR_RDMA_WRITE, IBV_WR_SEND,
						      IBV_WR_RDMA_READ, IBV_WR_RDMA_WRITE_WITH_IMM };
	unsigned i;

	for (i = 0; i < count; i++) {
		plan(scene, opcodes[i % 4], 1 + i * 577 % 4000);
		if (i % 5 == 0)
			talk_plan_atomic(scene->talk, 0, i % 2, IBV_SEND_SIGNALED);
	}
	talk_plan_all_receives(scene->talk, 2);
}

static void everything_twice_is_done_once(void **state)
{
	struct talk_options options = scene_options(IBV_QPT_RC);
	struct scene scene;

	scene_begin(&scene, &options);
	plan_medley(&scene, 40);
	scene.a->rates.duplicate = scene.b->rates.duplicate = MILLION;
	scene_run(&scene);
	all_succeeded(&scene);
	scene_end(&scene);
}

static void damaged_packets_are_never_believed(void **state)
{
	struct talk_options options = scene_options(IBV_QPT_RC);
	struct scene scene;

	scene_begin(&scene, &options);
	plan_medley(&scene, 40);
	scene.a->rates.corrupt = scene.b->rates.corrupt = MILLION / 10;
	scene.a->rates.truncate = scene.b->rates.truncate = MILLION / 20;
	scene_run(&scene);
	all_succeeded(&scene);
	assert_true(scene.a->statistics.damaged_dropped + scene.b->statistics.damaged_dropped > 5);
	scene_end(&scene);
}

static void lost_bursts_are_repaired(void **state)
{
	struct talk_options options = scene_options(IBV_QPT_RC);
	struct scene scene;
	unsigned i;

	options.memory_bytes = 8u << 20;
	scene_begin(&scene, &options);
	scene.a->rates.burst_loss = scene.b->rates.burst_loss = MILLION / 10;
	for (i = 0; i < 60; i++)
		plan(&scene, i % 3 ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ, 60000);
	scene_run(&scene);
	all_succeeded(&scene);
	assert_int_equal(counted(scene.a, COUNTER_RETRY_EXCEEDED), 0);
	scene_end(&scene);
}

static void sequence_numbers_wrap(void **state)
{
	struct talk_options options = scene_options(IBV_QPT_RC);
	struct scene scene;
	unsigned i;

	options.connect.psn[0] = options.connect.psn[1] = 0xfffffe;
	options.memory_bytes = 4u << 20;
	scene_begin(&scene, &options);
	scene.a->rates.loss = scene.b->rates.loss = MILLION / 50;
	for (i = 0; i < 20; i++)
		plan(&scene, i & 1 ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE, 40000);
	scene_run(&scene);
	all_succeeded(&scene);
	scene_end(&scene);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_receive_posted_late_is_waited_for),
		cmocka_unit_test(rnr_retries_end_with_their_own_status),
		cmocka_unit_test(a_lost_rnr_nak_is_asked_for_again),
		cmocka_unit_test(a_dead_peer_is_noticed_after_all_retries),
		cmocka_unit_test(timeout_0_waits_for_ever),
		cmocka_unit_test(a_short_partition_is_survived),
		cmocka_unit_test(a_read_that_lost_its_middle_asks_for_the_rest),
		cmocka_unit_test(an_ack_does_not_complete_past_a_read),
		cmocka_unit_test(a_duplicate_before_a_read_costs_nothing),
		cmocka_unit_test(one_ack_completes_many_writes),
		cmocka_unit_test(an_atomic_whose_answer_is_lost_is_not_done_again),
		cmocka_unit_test(everything_twice_is_done_once),
		cmocka_unit_test(damaged_packets_are_never_believed),
		cmocka_unit_test(lost_bursts_are_repaired),
		cmocka_unit_test(sequence_numbers_wrap),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
