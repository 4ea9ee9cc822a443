/* SPDX-License-Identifier: BSD-2-Clause */
/* Scripts: UC and UD, which may lose but have flow control between Verbatims (transport/flow.h). */
#include "scene.h"

#define SOCKET_BUFFER	425984u		/* as in script_flow_test.c */
#define QPS		8u

static struct message *plan(struct scene *scene, enum ibv_wr_opcode opcode, uint32_t length)
{
	return talk_plan(scene->talk, 0, opcode, length, IBV_SEND_SIGNALED, 1);
}

/* ---- what is dropped ---- */

static void uc_drops_a_message_of_which_a_packet_is_lost(void **state)
{
	struct talk_options options = scene_options(IBV_QPT_UC);
	struct scene scene;
	unsigned i;

	scene_begin(&scene, &options);
	for (i = 0; i < 5; i++)
		plan(&scene, IBV_WR_SEND_WITH_IMM, 3000);
	talk_plan_all_receives(scene.talk, 1);
	scene_drop(&scene, OPCODE_UC_SEND_MIDDLE, 1, 1);
	scene_drop(&scene, OPCODE_UC_SEND_LAST_IMM, 3, 1);
	scene_run(&scene);
	assert_int_equal(scene.left->sends_ok, 5);
	assert_int_equal(scene.right->recvs_ok, 3);
	assert_false(scene.left->messages[1].delivered);
	assert_false(scene.left->messages[3].delivered);
	/* A dropped message gives its receive to the next one. */
	assert_int_equal(recv_queue_count(&scene.right->qp->rq) +
			 scene.right->qp->responder.recv_taken, 2);
	scene_end(&scene);
}

static void ud_drops_what_finds_no_receive(void **state)
{
	struct talk_options options = scene_options(IBV_QPT_UD);
	struct scene scene;
	unsigned i;

	scene_begin(&scene, &options);
	for (i = 0; i < 5; i++)
		plan(&scene, IBV_WR_SEND_WITH_IMM, 1000);
	talk_plan_receives(scene.talk, 1, 3, 1);
	scene_run(&scene);
	assert_int_equal(scene.left->sends_ok, 5);
	assert_int_equal(scene.right->recvs_ok, 3);
	assert_int_equal(counted(scene.b, COUNTER_RX_NO_RECV), 2);
	assert_int_equal(scene.right->qp->state, IBV_QPS_RTS);
	scene_end(&scene);
}

static void the_grh_counts_in_a_ud_receive(void **state)
{
	struct talk_options options = scene_options(IBV_QPT_UD);
	struct scene scene;

	options.receive_bytes = 1000;
	scene_begin(&scene, &options);
	plan(&scene, IBV_WR_SEND_WITH_IMM, 1000);
	plan(&scene, IBV_WR_SEND_WITH_IMM, 1001);
	plan(&scene, IBV_WR_SEND_WITH_IMM, 1000);
	talk_plan_all_receives(scene.talk, 2);
	scene_run(&scene);
	assert_int_equal(scene.right->recvs_ok, 2);
	assert_false(scene.left->messages[1].delivered);
	assert_int_equal(counted(scene.b, COUNTER_RX_TOO_LONG), 1);
	scene_end(&scene);
}

/* ---- flow control ---- */

/* Much into a socket buffer whose reader is slower than the sender. */
struct crowd {
	struct scene scene;
	struct talk *talk[QPS];
};

static void crowd_begin(struct crowd *crowd, enum ibv_qp_type type, uint32_t bytes)
{
	struct talk_options options = scene_options(type);
	struct scene *scene = &crowd->scene;
	unsigned i, n;

	options.connect.mtu = IBV_MTU_4096;
	options.messages_max = options.receives_max = 100;
	options.receive_bytes = bytes;
	options.memory_bytes = 200 * (bytes + 200);
	scene_begin(scene, &options);
	scene->b->socket_bytes = SOCKET_BUFFER;
	scene->b->rx_packet_ns = 3000;
	scene->a->tx_packet_ns = 200;
	crowd->talk[0] = scene->talk;
	for (i = 1; i < QPS; i++)
		crowd->talk[i - 1]->next = crowd->talk[i] = talk_create(scene->a, scene->b, &options);
	for (i = 0; i < QPS; i++) {
		for (n = 0; n < 100; n++)
			talk_plan(crowd->talk[i], 0, IBV_WR_SEND_WITH_IMM, bytes, IBV_SEND_SIGNALED, 1);
		talk_plan_all_receives(crowd->talk[i], 1);
	}
}

static uint32_t crowd_received(const struct crowd *crowd)
{
	uint32_t sum = 0;
	unsigned i;

	for (i = 0; i < QPS; i++)
		sum += crowd->talk[i]->side[1].recvs_ok;
	return sum;
}

static void crowd_end(struct crowd *crowd)
{
	unsigned i;

	for (i = 1; i < QPS; i++)
		talk_destroy(crowd->talk[i]);
	scene_end(&crowd->scene);
}

static void a_slow_receiver_loses_nothing(void **state)
{
	static const enum ibv_qp_type types[] = { IBV_QPT_UC, IBV_QPT_UD };
	static const uint32_t sizes[] = { 1, 500, 4096 };
	struct crowd crowd;
	unsigned i, j;

	for (i = 0; i < 2; i++)
		for (j = 0; j < 3; j++) {
			crowd_begin(&crowd, types[i], sizes[j]);
			scene_run(&crowd.scene);
			assert_int_equal(crowd.scene.b->statistics.tail_dropped, 0);
			assert_int_equal(crowd_received(&crowd), QPS * 100);
			crowd_end(&crowd);
		}
}

static void a_lost_echo_delays_but_does_not_stop(void **state)
{
	struct crowd crowd;

	crowd_begin(&crowd, IBV_QPT_UC, 4096);
	crowd.scene.b->rates.loss = MILLION / 3;	/* echoes alone go that way */
	scene_run(&crowd.scene);
	assert_int_equal(crowd.scene.b->statistics.tail_dropped, 0);
	assert_int_equal(crowd_received(&crowd), QPS * 100);
	crowd_end(&crowd);
}

static void a_peer_that_never_echoes_is_soon_left_alone(void **state)
{
	struct crowd crowd;

	crowd_begin(&crowd, IBV_QPT_UD, 4096);
	crowd.scene.b->rates.loss = MILLION;
	scene_run(&crowd.scene);
	assert_int_equal(crowd.scene.left->sends_ok, 100);
	assert_true(crowd.scene.left->last_done_ns - SECOND < 500 * MS);
	crowd_end(&crowd);
}

static void fail_first(struct sim *sim, void *argument)
{
	struct crowd *crowd = argument;

	host_modify_state(crowd->scene.a, crowd->scene.left->qp, IBV_QPS_ERR);
}

static void destroy_first(struct sim *sim, void *argument)
{
	struct crowd *crowd = argument;

	crowd->scene.left->destroyed = true;
	host_qp_destroy(crowd->scene.a, crowd->scene.left->qp);
}

static void a_qp_that_goes_does_not_hold_up_the_others(void **state)
{
	struct crowd crowd;
	unsigned at, i;

	for (at = 0; at < 24; at++) {
		crowd_begin(&crowd, at & 1 ? IBV_QPT_UC : IBV_QPT_UD, 4096);
		sim_call_at(crowd.scene.sim, crowd.scene.sim->now_ns + at * 37 * US,
			    at & 2 ? fail_first : destroy_first, &crowd);
		scene_run(&crowd.scene);
		for (i = 1; i < QPS; i++)
			assert_int_equal(crowd.talk[i]->side[0].sends_ok, 100);
		assert_true(crowd.scene.sim->now_ns - SECOND < 200 * MS);
		crowd_end(&crowd);
	}
}

static void a_peer_that_dies_holds_nobody_up(void **state)
{
	struct crowd crowd;
	unsigned i;

	crowd_begin(&crowd, IBV_QPT_UC, 4096);
	crowd.scene.b->crashed = true;
	scene_run(&crowd.scene);
	for (i = 0; i < QPS; i++)
		assert_int_equal(crowd.talk[i]->side[0].sends_ok, 100);
	crowd_end(&crowd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(uc_drops_a_message_of_which_a_packet_is_lost),
		cmocka_unit_test(ud_drops_what_finds_no_receive),
		cmocka_unit_test(the_grh_counts_in_a_ud_receive),
		cmocka_unit_test(a_slow_receiver_loses_nothing),
		cmocka_unit_test(a_lost_echo_delays_but_does_not_stop),
		cmocka_unit_test(a_peer_that_never_echoes_is_soon_left_alone),
		cmocka_unit_test(a_qp_that_goes_does_not_hold_up_the_others),
		cmocka_unit_test(a_peer_that_dies_holds_nobody_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
