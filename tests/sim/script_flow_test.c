/* SPDX-License-Identifier: BSD-2-Clause */
/* Scripts: many QPs into one buffer, goodput under loss, credits, fence, long messages. */
#include "measure.h"
#include "scene.h"

/* net.core.rmem_max, 212992, asked for by SO_RCVBUF, of which the kernel makes the double. */
#define SOCKET_BUFFER	425984u

static struct message *plan(struct scene *scene, enum ibv_wr_opcode opcode, uint32_t length)
{
	return talk_plan(scene->talk, 0, opcode, length, IBV_SEND_SIGNALED, 1);
}

static struct measure_result measured(const struct measure_options *options)
{
	struct measure_result result = measure(options);

	if (!result.ok)
		fail_msg("%s", result.failure);
	return result;
}

/* ---- one socket buffer ---- */

static struct measure_options many_qps(void)
{
	return (struct measure_options){ .opcode = IBV_WR_RDMA_WRITE, .message_bytes = 65536,
					 .messages = 8, .depth = 8, .qps = 64, .mtu = IBV_MTU_4096,
					 .delay_ns = 3 * US, .socket_bytes = SOCKET_BUFFER };
}

static void check_shared_buffer(const struct measure_options *options, double ratio_max)
{
	struct measure_result result = measured(options);

	print_message("  %.1f Gb/s, %.3f packets sent per packet needed, %llu dropped\n",
		      result.goodput_gbps, result.ratio, (unsigned long long)result.tail_dropped);
	assert_true(result.ratio <= ratio_max);
	assert_int_equal(result.timeouts, 0);
	assert_int_equal(result.retry_exceeded, 0);
}

static void sixty_four_qps_fit_one_socket_buffer(void **state)
{
	struct measure_options options = many_qps();

	check_shared_buffer(&options, 1.1);
	options.mtu = IBV_MTU_1024;
	check_shared_buffer(&options, 1.25);
	options.mtu = IBV_MTU_4096;
	options.opcode = IBV_WR_RDMA_READ;
	check_shared_buffer(&options, 1.1);
}

static void three_processes_into_one_socket_buffer_get_along(void **state)
{
	struct measure_options options = many_qps();

	options.senders = 3;
	check_shared_buffer(&options, 1.25);
}

/* Without batching the kernel charges a packet twice its size; not everybody sets SO_RCVBUF. */
static void sixty_four_qps_get_along_with_less_than_they_expect(void **state)
{
	struct measure_options options = many_qps();

	options.socket_charge = 4096 + 512;
	check_shared_buffer(&options, 1.15);
	options.socket_charge = 0;
	options.socket_bytes = SOCKET_BUFFER / 2;
	check_shared_buffer(&options, 1.15);
}

/* ---- loss ---- */

static double goodput(const struct measure_options *options)
{
	struct measure_options each = *options;
	double sum = 0;

	for (each.seed = 1; each.seed <= 5; each.seed++)
		sum += measured(&each).goodput_gbps;
	return sum / 5;
}

static void check_half(struct measure_options options)
{
	double lossless, lossy;

	options.loss = options.burst_loss = 0;
	lossless = goodput(&options);
	options.loss = MILLION / 100;
	lossy = goodput(&options);
	print_message("  %.1f Gb/s without loss, %.1f with 1 %% of packets lost\n", lossless, lossy);
	assert_true(lossy >= lossless / 2);
}

static void one_percent_of_loss_leaves_half_of_the_goodput(void **state)
{
	struct measure_options options = many_qps();

	options.qps = 1;
	options.messages = 200;
	options.depth = 16;
	check_half(options);
	options.qps = 16;
	options.messages = 20;
	check_half(options);
}

/* A gap holds up the ACKs for a round trip, but not what is sent meanwhile: what is held is out of the window. */
static void a_gap_does_not_stop_the_window(void **state)
{
	struct measure_options options = many_qps();
	double lossless, lossy;

	options.qps = 1;
	options.messages = 300;
	options.depth = 16;
	options.delay_ns = 50 * US;
	lossless = goodput(&options);
	options.loss = MILLION / 100;
	lossy = goodput(&options);
	print_message("  %.1f Gb/s without loss, %.1f with 1 %% of packets lost, 50 us away\n", lossless, lossy);
	assert_true(lossy >= lossless * 8 / 10);
}

static void one_percent_of_lost_batches_leaves_half_of_the_goodput(void **state)
{
	struct measure_options options = many_qps();
	double lossless, lossy;

	options.qps = 1;
	options.messages = 400;
	options.depth = 16;
	options.mtu = IBV_MTU_1024;
	lossless = goodput(&options);
	options.burst_loss = MILLION / 100;
	lossy = goodput(&options);
	print_message("  %.1f Gb/s without loss, %.1f with 1 %% of batches lost\n", lossless, lossy);
	assert_true(lossy >= lossless / 2);
}

/* ---- round trips ---- */

/* The first guess is 1 ms. Probes hid the true round trip: every READ was asked for twice. */
static void a_long_round_trip_is_learnt(void **state)
{
	struct measure_options options = many_qps();

	options.qps = 1;
	options.messages = 100;
	options.depth = 1;
	options.delay_ns = 2 * MS;
	check_shared_buffer(&options, 1.05);
	options.opcode = IBV_WR_RDMA_READ;
	check_shared_buffer(&options, 1.05);
}

/* ---- credits (IBTA 9.7.7.2) ---- */

static void credits_keep_a_slow_receiver_from_rnr(void **state)
{
	struct talk_options options = scene_options(IBV_QPT_RC);
	struct scene scene;
	unsigned i;

	options.recv_wrs = 4;
	options.memory_bytes = 1u << 20;
	scene_begin(&scene, &options);
	for (i = 0; i < 60; i++)
		plan(&scene, IBV_WR_SEND, 1000);
	talk_plan_all_receives(scene.talk, 1);
	scene_run(&scene);
	assert_int_equal(scene.left->sends_ok, 60);
	/* Before the first answer the sender knows of no limit. */
	assert_true(counted(scene.b, COUNTER_TX_RNR_NAK) <= 1);
	assert_true(scene.sent[OPCODE_RC_SEND_ONLY] <= 60 + 64);
	scene_end(&scene);
}

static void without_credits_one_packet_at_a_time_asks_for_more(void **state)
{
	struct talk_options options = scene_options(IBV_QPT_RC);
	struct scene scene;
	unsigned i;

	options.recv_wrs = 4;
	options.memory_bytes = 1u << 20;
	options.connect.min_rnr_timer = 9;	/* 0.24 ms */
	scene_begin(&scene, &options);
	for (i = 0; i < 60; i++)
		plan(&scene, IBV_WR_SEND, 1000);
	talk_plan_all_receives(scene.talk, 1);
	scene.right->late_receives_ns = 200 * US;
	scene_run(&scene);
	assert_int_equal(scene.left->sends_ok, 60);
	/* The first burst knew no limit; after it a packet needed and one refused per receive. */
	assert_true(scene.sent[OPCODE_RC_SEND_ONLY] <= 64 + 3 * 60);
	scene_end(&scene);
}

static void writes_need_no_credits(void **state)
{
	struct talk_options options = scene_options(IBV_QPT_RC);
	struct scene scene;
	unsigned i;

	scene_begin(&scene, &options);
	plan(&scene, IBV_WR_RDMA_WRITE, 10);
	for (i = 0; i < 20; i++)
		plan(&scene, i & 1 ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE, 5000);
	scene_run(&scene);
	assert_int_equal(scene.left->sends_ok, 21);
	assert_true(scene_ms(&scene) < 1);
	scene_end(&scene);
}

static void an_srq_gives_no_credits(void **state)
{
	struct talk_options options = scene_options(IBV_QPT_RC);
	struct scene scene;
	unsigned i;

	options.use_srq = true;
	scene_begin(&scene, &options);
	for (i = 0; i < 20; i++)
		plan(&scene, IBV_WR_SEND, 100);
	talk_plan_all_receives(scene.talk, 1);
	scene_run(&scene);
	assert_int_equal(scene.left->sends_ok, 20);
	assert_false(scene.left->qp->requester.credits.limited);	/* C9-150: the invalid code */
	scene_end(&scene);
}

/* ---- fence ---- */

static bool read_answered, fence_broken;

static void watch_fence(struct flight *flight, struct scene *scene)
{
	enum verb verb = flight->packet.op->verb;

	if (verb == VERB_RESPONSE && opcode_ends(flight->packet.op) && !flight->drop)
		read_answered = true;
	if (verb == VERB_SEND && !read_answered)
		fence_broken = true;
}

static void a_fenced_send_waits_for_the_read_before_it(void **state)
{
	struct talk_options options = scene_options(IBV_QPT_RC);
	struct scene scene;

	read_answered = fence_broken = false;
	scene_begin(&scene, &options);
	plan(&scene, IBV_WR_RDMA_READ, 10000);
	plan(&scene, IBV_WR_SEND, 100)->flags |= IBV_SEND_FENCE;
	talk_plan_all_receives(scene.talk, 1);
	scene_drop(&scene, OPCODE_RC_READ_RESPONSE_LAST, 0, 1);
	scene.on_packet = watch_fence;
	scene_run(&scene);
	assert_int_equal(scene.left->sends_ok, 2);
	assert_false(fence_broken);
	scene_end(&scene);
}

/* ---- responder resources ---- */

static void no_more_reads_are_asked_for_than_the_peer_allows(void **state)
{
	struct talk_options options = scene_options(IBV_QPT_RC);
	struct scene scene;
	unsigned i;

	options.connect.rd_atomic = 1;
	scene_begin(&scene, &options);
	scene.a->rates.loss = scene.b->rates.loss = MILLION / 20;
	for (i = 0; i < 40; i++) {
		plan(&scene, IBV_WR_RDMA_READ, 3000);
		if (i % 4 == 0)
			talk_plan_atomic(scene.talk, 0, false, IBV_SEND_SIGNALED);
	}
	scene_run(&scene);	/* TOO_MANY would be a NAK: invalid request */
	assert_int_equal(scene.left->sends_ok, 50);
	scene_end(&scene);
}

/* ---- long messages ---- */

static void a_message_of_eight_mebibytes_arrives(void **state)
{
	struct talk_options options = scene_options(IBV_QPT_RC);
	struct scene scene;
	unsigned i;

	options.memory_bytes = 40u << 20;
	options.receive_bytes = 8u << 20;
	options.receives_max = 4;
	options.connect.mtu = IBV_MTU_4096;
	scene_begin(&scene, &options);
	scene.a->rates.loss = scene.b->rates.loss = MILLION / 1000;
	plan(&scene, IBV_WR_SEND, 8u << 20);
	plan(&scene, IBV_WR_RDMA_WRITE, 8u << 20);
	plan(&scene, IBV_WR_RDMA_READ, 8u << 20);
	talk_plan_all_receives(scene.talk, 3);
	scene_run(&scene);
	for (i = 0; i < 3; i++)
		assert_int_equal(scene.left->messages[i].status, IBV_WC_SUCCESS);
	assert_int_equal(scene.left->sends_ok, 3);
	scene_end(&scene);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sixty_four_qps_fit_one_socket_buffer),
		cmocka_unit_test(three_processes_into_one_socket_buffer_get_along),
		cmocka_unit_test(sixty_four_qps_get_along_with_less_than_they_expect),
		cmocka_unit_test(one_percent_of_loss_leaves_half_of_the_goodput),
		cmocka_unit_test(a_gap_does_not_stop_the_window),
		cmocka_unit_test(one_percent_of_lost_batches_leaves_half_of_the_goodput),
		cmocka_unit_test(a_long_round_trip_is_learnt),
		cmocka_unit_test(credits_keep_a_slow_receiver_from_rnr),
		cmocka_unit_test(without_credits_one_packet_at_a_time_asks_for_more),
		cmocka_unit_test(writes_need_no_credits),
		cmocka_unit_test(an_srq_gives_no_credits),
		cmocka_unit_test(a_fenced_send_waits_for_the_read_before_it),
		cmocka_unit_test(no_more_reads_are_asked_for_than_the_peer_allows),
		cmocka_unit_test(a_message_of_eight_mebibytes_arrives),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
