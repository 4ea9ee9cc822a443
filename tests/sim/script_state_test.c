/* SPDX-License-Identifier: BSD-2-Clause */
/* Scripts: QPs that change state, objects that go away, errors with their exact statuses. */
#include <errno.h>

#include "scene.h"

static struct message *plan(struct scene *scene, enum ibv_wr_opcode opcode, uint32_t length)
{
	return talk_plan(scene->talk, 0, opcode, length, IBV_SEND_SIGNALED, 1);
}

static uint32_t events(const struct sim_host *host, enum ibv_event_type type)
{
	return host->events[type];
}

/* ---- errors and their statuses ---- */

struct verdict {
	enum ibv_wc_status left_send, right_recv;	/* SUCCESS: none failed */
	bool right_fails;
};

/* The first message must succeed, the second fail as the verdict says, the third be flushed. */
static void expect(struct scene *scene, struct verdict verdict)
{
	scene_run(scene);
	assert_int_equal(scene->left->sends_ok, 1);
	assert_true(scene->left->failed);
	assert_int_equal(scene->left->send_status, verdict.left_send);
	assert_int_equal(scene->left->messages[2].status, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(scene->left->qp->state, IBV_QPS_ERR);
	assert_int_equal(scene->right->qp->state, verdict.right_fails ? IBV_QPS_ERR : IBV_QPS_RTS);
	if (scene->right->recv_failed || verdict.right_recv)
		assert_int_equal(scene->right->recv_status, verdict.right_recv);
	scene_end(scene);
}

static struct message *begin_three(struct scene *scene, const struct talk_options *options,
				   enum ibv_wr_opcode opcode, uint32_t length)
{
	struct message *second;

	scene_begin(scene, options);
	plan(scene, IBV_WR_RDMA_WRITE, 10);
	second = plan(scene, opcode, length);
	plan(scene, IBV_WR_RDMA_WRITE, 10);
	return second;
}

static void a_bad_rkey_is_a_remote_access_error(void **state)
{
	static const enum ibv_wr_opcode opcodes[] = { IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ };
	struct talk_options options = scene_options(IBV_QPT_RC);
	struct scene scene;
	unsigned i;

	for (i = 0; i < 2; i++) {
		begin_three(&scene, &options, opcodes[i], 3000)->rkey ^= 1;
		expect(&scene, (struct verdict){ .left_send = IBV_WC_REM_ACCESS_ERR,
						 .right_fails = true });
	}
}

static void a_bad_rkey_of_an_atomic_is_a_remote_access_error(void **state)
{
	struct talk_options options = scene_options(IBV_QPT_RC);
	struct scene scene;

	scene_begin(&scene, &options);
	plan(&scene, IBV_WR_RDMA_WRITE, 10);
	talk_plan_atomic(scene.talk, 0, false, IBV_SEND_SIGNALED)->rkey ^= 1;
	plan(&scene, IBV_WR_RDMA_WRITE, 10);
	expect(&scene, (struct verdict){ .left_send = IBV_WC_REM_ACCESS_ERR, .right_fails = true });
}

static void a_send_longer_than_the_receive_fails_on_both_sides(void **state)
{
	struct talk_options options = scene_options(IBV_QPT_RC);
	struct scene scene;

	options.receive_bytes = 2000;
	begin_three(&scene, &options, IBV_WR_SEND, 2001);
	talk_plan_all_receives(scene.talk, 2);
	expect(&scene, (struct verdict){ .left_send = IBV_WC_REM_INV_REQ_ERR,
					 .right_recv = IBV_WC_LOC_LEN_ERR, .right_fails = true });
}

static void a_bad_lkey_of_a_receive_fails_on_both_sides(void **state)
{
	struct talk_options options = scene_options(IBV_QPT_RC);
	struct scene scene;

	begin_three(&scene, &options, IBV_WR_SEND, 100);
	talk_plan_all_receives(scene.talk, 1);
	scene.right->memory.lkey ^= 1;
	expect(&scene, (struct verdict){ .left_send = IBV_WC_REM_OP_ERR,
					 .right_recv = IBV_WC_LOC_PROT_ERR, .right_fails = true });
}

static void break_lkey(struct side *side, const struct ibv_wc *wc, bool receive)
{
	side->memory.lkey ^= 1;
	side->on_completion = NULL;
}

static void a_bad_lkey_of_a_send_fails_here_alone(void **state)
{
	struct talk_options options = scene_options(IBV_QPT_RC);
	struct scene scene;

	begin_three(&scene, &options, IBV_WR_RDMA_WRITE, 3000);
	scene.left->depth = 1;
	scene.left->on_completion = break_lkey;	/* after the first */
	scene_run(&scene);
	assert_int_equal(scene.left->sends_ok, 1);
	assert_int_equal(scene.left->send_status, IBV_WC_LOC_PROT_ERR);
	assert_int_equal(scene.left->qp->state, IBV_QPS_ERR);
	assert_int_equal(scene.right->qp->state, IBV_QPS_RTS);
	scene_end(&scene);
}

static void a_write_that_overruns_its_region_writes_nothing(void **state)
{
	struct talk_options options = scene_options(IBV_QPT_RC);
	struct message *message;
	struct scene scene;

	message = begin_three(&scene, &options, IBV_WR_RDMA_WRITE, 3000);
	message->own_mr = host_mr(scene.b, (void *)(uintptr_t)span_address(&scene.right->memory,
									&message->remote), 2999,
				  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	message->rkey = message->own_mr->ibv.rkey;
	span_freeze(&scene.right->memory, &message->remote);	/* the first packet says it all */
	expect(&scene, (struct verdict){ .left_send = IBV_WC_REM_ACCESS_ERR, .right_fails = true });
}

static void a_zero_length_write_ignores_its_key(void **state)
{
	struct talk_options options = scene_options(IBV_QPT_RC);
	struct scene scene;

	scene_begin(&scene, &options);
	plan(&scene, IBV_WR_RDMA_WRITE, 0)->rkey ^= 0x1234;
	plan(&scene, IBV_WR_RDMA_READ, 0)->rkey ^= 0x1234;
	scene_run(&scene);
	assert_int_equal(scene.left->sends_ok, 2);
	scene_end(&scene);
}

/* ---- things that go away ---- */

static void free_own_mr(struct sim *sim, void *argument)
{
	struct scene *scene = argument;
	struct message *message = &scene->left->messages[1];

	host_mr_free(scene->b, message->own_mr);
	message->own_mr = NULL;
	span_freeze(&scene->right->memory, &message->remote);
}

static void deregister_amid(enum ibv_wr_opcode opcode)
{
	struct talk_options options = scene_options(IBV_QPT_RC);
	struct message *message;
	struct scene scene;

	options.memory_bytes = 4u << 20;
	message = begin_three(&scene, &options, opcode, 1u << 20);
	message->own_mr = host_mr(scene.b, (void *)(uintptr_t)span_address(&scene.right->memory,
									&message->remote),
				  message->length, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
				  IBV_ACCESS_REMOTE_WRITE);
	message->rkey = message->own_mr->ibv.rkey;
	scene.a->tx_packet_ns = scene.b->tx_packet_ns = 1000;
	sim_call_at(scene.sim, scene.sim->now_ns + 300 * US, free_own_mr, &scene);
	expect(&scene, (struct verdict){ .left_send = IBV_WC_REM_ACCESS_ERR, .right_fails = true });
}

static void a_region_deregistered_amid_a_read_is_not_read_on(void **state)
{
	deregister_amid(IBV_WR_RDMA_READ);
}

static void a_region_deregistered_amid_a_write_is_not_written_on(void **state)
{
	deregister_amid(IBV_WR_RDMA_WRITE);
}

static void error_right(struct sim *sim, void *argument)
{
	struct scene *scene = argument;

	host_modify_state(scene->b, scene->right->qp, IBV_QPS_ERR);
}

static void error_left(struct sim *sim, void *argument)
{
	struct scene *scene = argument;

	host_modify_state(scene->a, scene->left->qp, IBV_QPS_ERR);
}

static void a_qp_in_err_flushes_what_is_posted_then_and_later(void **state)
{
	struct talk_options options = scene_options(IBV_QPT_RC);
	struct scene scene;
	unsigned i;

	options.messages_max = 30;
	scene_begin(&scene, &options);
	for (i = 0; i < 20; i++)
		talk_plan(scene.talk, 0, IBV_WR_RDMA_WRITE, 30000 / (i + 1), 0, 1);
	talk_plan_receives(scene.talk, 0, 10, 1);
	scene.left->depth = 10;
	sim_call_at(scene.sim, scene.sim->now_ns + 5 * US, error_left, &scene);
	scene_run(&scene);
	assert_int_equal(scene.left->posted, 20);
	assert_int_equal(scene.left->flushed, 20 + 10);
	assert_int_equal(scene.left->send_status, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(scene.right->qp->state, IBV_QPS_RTS);
	scene_end(&scene);
}

static void the_peer_of_a_qp_in_err_gets_retry_exceeded(void **state)
{
	struct talk_options options = scene_options(IBV_QPT_RC);
	struct scene scene;

	scene_begin(&scene, &options);
	plan(&scene, IBV_WR_RDMA_WRITE, 100);
	sim_call_at(scene.sim, scene.sim->now_ns, error_right, &scene);
	scene_run(&scene);
	assert_int_equal(scene.left->send_status, IBV_WC_RETRY_EXC_ERR);
	assert_true(counted(scene.b, COUNTER_RX_QP_STATE) >= 8);
	scene_end(&scene);
}

/* ---- reset and anew ---- */

static void reconnect(struct scene *scene, const struct connect_options *connect)
{
	host_modify_state(scene->a, scene->left->qp, IBV_QPS_RESET);
	host_modify_state(scene->b, scene->right->qp, IBV_QPS_RESET);
	host_connect(scene->a, scene->left->qp, scene->b, scene->right->qpn, connect, 0);
	host_connect(scene->b, scene->right->qp, scene->a, scene->left->qpn, connect, 1);
}

static void a_reset_qp_is_as_good_as_new(void **state)
{
	struct talk_options options = scene_options(IBV_QPT_RC);
	struct scene scene;
	unsigned round, i;

	options.messages_max = options.receives_max = 100;
	options.memory_bytes = 2u << 20;
	scene_begin(&scene, &options);
	for (round = 0; round < 4; round++) {
		for (i = 0; i < 10; i++) {
			plan(&scene, i & 1 ? IBV_WR_SEND : IBV_WR_RDMA_READ, 2500);
			talk_plan_atomic(scene.talk, 0, false, IBV_SEND_SIGNALED);
		}
		talk_plan_receives(scene.talk, 1, 5, 1);
		scene_run(&scene);
		assert_int_equal(scene.left->sends_ok, 20 * (round + 1));
		options.connect.psn[0] = 0x100 + round;	/* stale packets and resources would fit */
		reconnect(&scene, &options.connect);
	}
	scene_end(&scene);
}

static void destroy_right(struct sim *sim, void *argument)
{
	struct scene *scene = argument;

	scene->right->destroyed = true;
	host_qp_destroy(scene->b, scene->right->qp);
}

static void a_qp_destroyed_amid_everything_leaves_nothing(void **state)
{
	struct talk_options options = scene_options(IBV_QPT_RC);
	struct scene scene;
	unsigned at, i;

	for (at = 0; at < 200; at += 10) {
		options.memory_bytes = 2u << 20;
		scene_begin(&scene, &options);
		for (i = 0; i < 10; i++) {
			plan(&scene, i & 1 ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ, 20000);
			talk_plan(scene.talk, 1, i & 1 ? IBV_WR_SEND : IBV_WR_RDMA_READ, 20000,
				  IBV_SEND_SIGNALED, 1);
		}
		sim_call_at(scene.sim, scene.sim->now_ns + at * US, destroy_right, &scene);
		scene_run(&scene);	/* host_check_idle() finds what is left in lists and paths */
		scene_end(&scene);
	}
}

/* Eight QPs share a path's window; one that waits for it, or was just woken, goes. */
static void a_qp_that_goes_passes_its_turn_on(void **state)
{
	struct talk_options options = scene_options(IBV_QPT_RC);
	struct talk *others[7];
	struct scene scene;
	unsigned at, i, n;

	for (at = 0; at < 120; at++) {
		options.memory_bytes = 1u << 20;
		scene_begin(&scene, &options);
		scene.a->tx_packet_ns = 500;
		scene.a->wake_ns = 700;
		for (i = 0; i < 7; i++) {
			others[i] = talk_create(scene.a, scene.b, &options);
			(i ? others[i - 1] : scene.talk)->next = others[i];
		}
		for (n = 0; n < 8; n++)
			for (i = 0; i < 4; i++)
				talk_plan(n ? others[n - 1] : scene.talk, 0, IBV_WR_RDMA_WRITE, 60000,
					  IBV_SEND_SIGNALED, 1);
		sim_call_at(scene.sim, scene.sim->now_ns + at * 5 * US, error_left, &scene);
		scene_run(&scene);
		for (i = 0; i < 7; i++) {
			assert_int_equal(others[i]->side[0].sends_ok, 4);
			talk_destroy(others[i]);
		}
		scene_end(&scene);
	}
}

/*
 * One ACK answers all that is in flight and wakes one of those that wait. That one fails, before
 * or after it was woken: the next must be woken in its place, for no other answer will come.
 */
static void the_last_wakeup_of_a_path_is_not_lost(void **state)
{
	struct talk_options options = scene_options(IBV_QPT_RC);
	struct talk *first, *last;
	struct scene scene;
	unsigned at;

	options.memory_bytes = 1u << 20;
	for (at = 200; at < 4000; at += 50) {
		scene_begin(&scene, &options);
		scene.a->wake_ns = 100 * US;
		scene.b->wake_ns = MS;
		/* The QP that fails is in the middle of those that post. */
		first = talk_create(scene.a, scene.b, &options);
		last = talk_create(scene.a, scene.b, &options);
		first->next = scene.talk;
		scene.talk->next = last;
		talk_plan(first, 0, IBV_WR_RDMA_WRITE, 400000, IBV_SEND_SIGNALED, 1);
		plan(&scene, IBV_WR_RDMA_WRITE, 400000);
		talk_plan(last, 0, IBV_WR_RDMA_WRITE, 400000, IBV_SEND_SIGNALED, 1);
		sim_call_at(scene.sim, scene.sim->now_ns + at * US, error_left, &scene);
		if (!talk_run(first))
			fail_msg("error at %u us: %s", at, scene.sim->failure);
		assert_int_equal(first->side[0].sends_ok + last->side[0].sends_ok, 2);
		assert_true(first->side[0].last_done_ns - SECOND < 100 * MS);
		assert_true(last->side[0].last_done_ns - SECOND < 100 * MS);
		talk_destroy(first);
		talk_destroy(last);
		scene_end(&scene);
	}
}

/* ---- CQ overflow ---- */

static void an_overflowing_cq_fails_its_qp(void **state)
{
	struct talk_options options = scene_options(IBV_QPT_RC);
	struct scene scene;
	unsigned i;

	options.cq_size[0] = 4;
	scene_begin(&scene, &options);
	scene.left->deaf = true;
	for (i = 0; i < 10; i++)
		plan(&scene, IBV_WR_RDMA_WRITE, 100);
	scene_run(&scene);
	assert_int_equal(scene.left->qp->state, IBV_QPS_ERR);
	assert_int_equal(events(scene.a, IBV_EVENT_CQ_ERR), 1);
	assert_int_equal(counted(scene.a, COUNTER_CQ_OVERFLOW) > 0, true);
	scene_end(&scene);
}

/* ---- SRQ ---- */

static void last_wqe_reached_follows_the_error_of_an_srq_qp(void **state)
{
	struct talk_options options = scene_options(IBV_QPT_RC);
	struct scene scene;

	options.use_srq = true;
	scene_begin(&scene, &options);
	plan(&scene, IBV_WR_SEND, 100);
	plan(&scene, IBV_WR_SEND, 30000)->rkey = 0;
	talk_plan_receives(scene.talk, 1, 8, 1);
	scene.right->receive_bytes = 100;
	sim_call_at(scene.sim, scene.sim->now_ns + 50 * US, error_right, &scene);
	scene_run(&scene);
	assert_int_equal(events(scene.b, IBV_EVENT_QP_LAST_WQE_REACHED), 1);
	/* Receives that no message had taken stay in the SRQ. */
	assert_true(recv_queue_count(&scene.right->srq->queue) >= 6);
	scene_end(&scene);
}

static void an_srq_below_its_limit_says_so_once(void **state)
{
	struct talk_options options = scene_options(IBV_QPT_RC);
	struct ibv_srq_attr attr = { .srq_limit = 5 };
	struct effects effects;
	struct scene scene;
	unsigned i;

	options.use_srq = true;
	scene_begin(&scene, &options);
	for (i = 0; i < 8; i++)
		plan(&scene, IBV_WR_SEND, 100);
	talk_plan_receives(scene.talk, 1, 10, 1);
	talk_progress(scene.talk);
	effects_init(&effects);
	assert_int_equal(srq_modify(scene.right->srq, &attr, IBV_SRQ_LIMIT, &effects), 0);
	scene_run(&scene);
	assert_int_equal(events(scene.b, IBV_EVENT_SRQ_LIMIT_REACHED), 1);
	scene_end(&scene);
}

/* ---- SQD ---- */

static int drain_left(struct scene *scene)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1 };

	return host_modify(scene->a, scene->left->qp, &attr,
			   IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY);
}

static void drain(struct sim *sim, void *argument)
{
	assert_int_equal(drain_left(argument), 0);
}

static void sqd_finishes_what_was_begun_and_begins_no_more(void **state)
{
	struct talk_options options = scene_options(IBV_QPT_RC);
	struct scene scene;
	uint32_t done;
	unsigned i;

	options.memory_bytes = 4u << 20;
	scene_begin(&scene, &options);
	for (i = 0; i < 30; i++)
		plan(&scene, i % 3 ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ, 30000);
	scene.a->rates.loss = MILLION / 50;
	scene.a->tx_packet_ns = 1000;
	sim_call_at(scene.sim, scene.sim->now_ns + 200 * US, drain, &scene);
	scene.sim->application = talk_application;
	scene.sim->application_argument = scene.talk;
	talk_progress(scene.talk);
	assert_true(sim_run(scene.sim, scene.sim->now_ns + 5 * SECOND));
	done = scene.left->completed;
	assert_true(done > 0 && done < 30);
	assert_int_equal(scene.left->qp->state, IBV_QPS_SQD);
	assert_int_equal(events(scene.a, IBV_EVENT_SQ_DRAINED), 1);
	assert_int_equal(scene.left->qp->attr.sq_draining, 0);
	host_check_idle(scene.a);
	assert_int_equal(host_modify_state(scene.a, scene.left->qp, IBV_QPS_RTS), 0);
	scene_run(&scene);
	assert_int_equal(scene.left->sends_ok, 30);
	assert_int_equal(events(scene.a, IBV_EVENT_SQ_DRAINED), 1);
	assert_int_equal(drain_left(&scene), 0);
	assert_int_equal(events(scene.a, IBV_EVENT_SQ_DRAINED), 2);
	scene_end(&scene);
}

static void sqd_of_an_idle_qp_is_drained_at_once(void **state)
{
	struct talk_options options = scene_options(IBV_QPT_RC);
	struct scene scene;

	scene_begin(&scene, &options);
	assert_int_equal(drain_left(&scene), 0);
	assert_int_equal(events(scene.a, IBV_EVENT_SQ_DRAINED), 1);
	plan(&scene, IBV_WR_RDMA_WRITE, 100);
	talk_progress(scene.talk);
	assert_true(sim_run(scene.sim, scene.sim->now_ns + SECOND));
	assert_int_equal(scene.left->completed, 0);
	assert_int_equal(host_modify_state(scene.a, scene.left->qp, IBV_QPS_RTS), 0);
	scene_run(&scene);
	assert_int_equal(scene.left->sends_ok, 1);
	scene_end(&scene);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_bad_rkey_is_a_remote_access_error),
		cmocka_unit_test(a_bad_rkey_of_an_atomic_is_a_remote_access_error),
		cmocka_unit_test(a_send_longer_than_the_receive_fails_on_both_sides),
		cmocka_unit_test(a_bad_lkey_of_a_receive_fails_on_both_sides),
		cmocka_unit_test(a_bad_lkey_of_a_send_fails_here_alone),
		cmocka_unit_test(a_write_that_overruns_its_region_writes_nothing),
		cmocka_unit_test(a_zero_length_write_ignores_its_key),
		cmocka_unit_test(a_region_deregistered_amid_a_read_is_not_read_on),
		cmocka_unit_test(a_region_deregistered_amid_a_write_is_not_written_on),
		cmocka_unit_test(a_qp_in_err_flushes_what_is_posted_then_and_later),
		cmocka_unit_test(the_peer_of_a_qp_in_err_gets_retry_exceeded),
		cmocka_unit_test(a_reset_qp_is_as_good_as_new),
		cmocka_unit_test(a_qp_destroyed_amid_everything_leaves_nothing),
		cmocka_unit_test(a_qp_that_goes_passes_its_turn_on),
		cmocka_unit_test(the_last_wakeup_of_a_path_is_not_lost),
		cmocka_unit_test(an_overflowing_cq_fails_its_qp),
		cmocka_unit_test(last_wqe_reached_follows_the_error_of_an_srq_qp),
		cmocka_unit_test(an_srq_below_its_limit_says_so_once),
		cmocka_unit_test(sqd_finishes_what_was_begun_and_begins_no_more),
		cmocka_unit_test(sqd_of_an_idle_qp_is_drained_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
