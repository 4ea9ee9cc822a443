/* SPDX-License-Identifier: BSD-2-Clause */
/* Scripts: senders that are faster than their receiver, which marks packets (ECN) before it drops them. */
#include "scene.h"
#include "transport/recovery.h"

#define SENDERS		3u
#define MESSAGES	200u
#define BYTES		(64u * 1024u)

struct incast {
	struct sim *sim;
	struct sim_host *to, *from[SENDERS];
	struct talk *talk[SENDERS];
	uint64_t first_ns, last_ns;		/* when the first and the last of them was done */
};

static void incast_run(struct incast *incast, uint64_t mark_bytes)
{
	struct talk_options options = scene_options(IBV_QPT_RC);
	unsigned i, n;

	options.connect.mtu = IBV_MTU_4096;
	options.messages_max = MESSAGES;
	options.receives_max = 1;
	options.send_wrs = 16;
	options.memory_bytes = 4096 + (size_t)MESSAGES * (BYTES + 64);
	options.lossless_semantics = true;
	incast->sim = sim_create(11);
	incast->to = host_create(incast->sim);
	incast->to->rx_byte_ps = 4000;		/* 250 MB/s, in all */
	incast->to->socket_bytes = 416 * 1024;
	incast->to->mark_bytes = mark_bytes;
	for (i = 0; i < SENDERS; i++) {
		incast->from[i] = host_create(incast->sim);
		incast->from[i]->tx_byte_ps = 100;
		incast->talk[i] = talk_create(incast->from[i], incast->to, &options);
		for (n = 0; n < MESSAGES; n++)
			talk_plan(incast->talk[i], 0, IBV_WR_RDMA_WRITE, BYTES, IBV_SEND_SIGNALED, 1);
		incast->talk[i]->next = i ? incast->talk[i - 1] : NULL;
	}
	if (!talk_run(incast->talk[SENDERS - 1]))
		fail_msg("%s", incast->sim->failure);
	incast->first_ns = UINT64_MAX;
	incast->last_ns = 0;
	for (i = 0; i < SENDERS; i++) {
		uint64_t done_ns = incast->talk[i]->side[0].last_done_ns - SECOND;

		assert_int_equal(incast->talk[i]->side[0].sends_ok, MESSAGES);
		incast->first_ns = done_ns < incast->first_ns ? done_ns : incast->first_ns;
		incast->last_ns = done_ns > incast->last_ns ? done_ns : incast->last_ns;
	}
}

static void incast_end(struct incast *incast)
{
	unsigned i;

	for (i = 0; i < SENDERS; i++)
		talk_destroy(incast->talk[i]);
	sim_destroy(incast->sim);
}

static void marks_keep_a_buffer_from_overflowing(void **state)
{
	uint64_t dropped, without_ns, cnps = 0;
	struct incast incast;
	unsigned i;

	incast_run(&incast, 0);
	dropped = incast.to->statistics.tail_dropped;
	without_ns = incast.last_ns;
	incast_end(&incast);
	assert_true(dropped > 10);
	incast_run(&incast, 128 * 1024);
	for (i = 0; i < SENDERS; i++)
		cnps += counted(incast.from[i], COUNTER_RX_CNP);
	assert_true(cnps > 0);
	assert_int_equal(cnps, counted(incast.to, COUNTER_TX_CNP));
	assert_true(counted(incast.to, COUNTER_RX_ECN) >= cnps);
	assert_true(incast.to->statistics.tail_dropped < dropped / 4);
	/* The receiver is busy all the time, and each has its share. */
	assert_true(incast.last_ns < without_ns);
	assert_true(incast.last_ns < SENDERS * MESSAGES * (uint64_t)BYTES * 4400 / 1000);
	assert_true(incast.last_ns < incast.first_ns * 11 / 10);
	incast_end(&incast);
}

/* Less room than a packet of each: they have to send less than one in a round trip, and still share. */
static void a_tiny_buffer_is_shared(void **state)
{
	struct incast incast;

	incast_run(&incast, 6 * 1024);
	assert_true(counted(incast.from[0], COUNTER_RX_CNP) > 0);
	assert_int_equal(incast.to->statistics.tail_dropped, 0);
	assert_true(incast.last_ns < incast.first_ns * 3 / 2);
	incast_end(&incast);
}

#define TEST(name) cmocka_unit_test(name)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(marks_keep_a_buffer_from_overflowing),
		TEST(a_tiny_buffer_is_shared),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
