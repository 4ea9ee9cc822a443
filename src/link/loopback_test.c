/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The loopback link: against a model (a list), when full, and with several threads sending.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "link/loopback.h"
#include "platform/fail.h"

static struct counters counters;
static struct link *link_;

static int setup(void **state)
{
	memset(&counters, 0, sizeof(counters));
	return loopback_open(&link_, &counters);
}

static int teardown(void **state)
{
	link_->ops->close(link_);
	return 0;
}

static void send_bytes(size_t bytes, uint8_t seed, unsigned number)
{
	static uint8_t data[65536];
	struct datagram datagram = { .data = data, .bytes = bytes, .interface = number };
	unsigned sent;

	memset(data, seed, bytes);
	link_->ops->prepare(link_, &datagram);
	assert_int_equal(link_->ops->send(link_, &datagram, 1, &sent), 0);
	assert_int_equal(sent, 1);
}

static void what_is_sent_comes_back_sealed(void **state)
{
	uint8_t data[100] = { 1, 2, 3 };
	struct datagram out = { .data = data, .bytes = 100, .segment_bytes = 40, .hop_limit = 9,
				.traffic_class = 3, .source = { 1 }, .destination = { 2 } };
	struct datagram in;
	unsigned n;

	assert_int_equal(link_->ops->prepare(link_, &out), LINK_SEGMENTS_MAX);
	assert_false(loopback_pending(link_));
	assert_int_equal(link_->ops->send(link_, &out, 1, &n), 0);
	assert_true(loopback_pending(link_));
	memset(data, 0xff, sizeof(data));	/* copied: ours to use again */
	assert_int_equal(link_->ops->receive(link_, &in, 1, &n), 0);
	assert_int_equal(n, 1);
	assert_false(loopback_pending(link_));
	assert_true(in.sealed);
	assert_int_equal(in.bytes, 100);
	assert_int_equal(in.segment_bytes, 40);
	assert_int_equal(in.hop_limit, 9);
	assert_int_equal(in.traffic_class, 3);
	assert_int_equal(in.source[0], 1);
	assert_int_equal(in.destination[0], 2);
	assert_int_equal(in.source_port, out.source_port);
	assert_true(in.data[0] == 1 && in.data[1] == 2 && in.data[2] == 3 && in.data[99] == 0);
	link_->ops->receive(link_, &in, 1, &n);
	assert_int_equal(n, 0);
}

/* Random sends and receives, many times around the ring: everything once, in order, intact. */
static void the_ring_keeps_order_and_content(void **state)
{
	static size_t sizes[1u << 20];
	unsigned put = 0, taken = 0, n, i, round;
	struct datagram in[16];
	size_t held = 0;

	srand(7);
	for (round = 0; round < 20000; round++) {
		size_t bytes = (size_t)rand() % (rand() % 8 ? 300 : 65508);

		if (held + bytes + 65536 + 256 * (put - taken) < (1u << 20) - 200000) {
			sizes[put] = bytes;
			send_bytes(bytes, (uint8_t)put, put);
			put++;
			held += bytes;
		}
		if (rand() % 3)
			continue;
		link_->ops->receive(link_, in, 1 + (unsigned)rand() % 16, &n);
		for (i = 0; i < n; i++, taken++) {
			assert_int_equal(in[i].interface, taken);
			assert_int_equal(in[i].bytes, sizes[taken]);
			held -= sizes[taken];
			if (in[i].bytes) {
				assert_int_equal(in[i].data[0], (uint8_t)taken);
				assert_int_equal(in[i].data[in[i].bytes - 1], (uint8_t)taken);
			}
		}
	}
	assert_int_equal(counter_get(&counters, COUNTER_TX_LINK), 0);
	assert_true(taken > 3000);
}

static void what_does_not_fit_is_dropped_and_counted(void **state)
{
	unsigned i, n, received = 0;
	struct datagram in[8];

	for (i = 0; i < 40; i++)
		send_bytes(60000, (uint8_t)i, i);
	assert_int_equal(counter_get(&counters, COUNTER_TX_LINK), 40 - 17);
	do {
		link_->ops->receive(link_, in, 8, &n);
		for (i = 0; i < n; i++)
			assert_int_equal(in[i].interface, received++);
	} while (n);
	assert_int_equal(received, 17);
	send_bytes(60000, 1, 77);
	link_->ops->receive(link_, in, 8, &n);
	assert_int_equal(n, 1);
	assert_int_equal(in[0].interface, 77);
}

/* What was given out is not overwritten before the next receive, however much is sent. */
static void received_data_stays_until_the_next_receive(void **state)
{
	struct datagram in;
	unsigned i, n;

	send_bytes(50000, 0xaa, 0);
	link_->ops->receive(link_, &in, 1, &n);
	for (i = 0; i < 100; i++)
		send_bytes(30000, 0x55, i);
	for (i = 0; i < 50000; i++)
		assert_int_equal(in.data[i], 0xaa);
}

#define THREADS 4u
#define EACH 5000u

static void *send_many(void *argument)
{
	unsigned thread = *(unsigned *)argument, i, sent;
	uint8_t data[64];

	for (i = 0; i < EACH; i++) {
		struct datagram out = { .data = data, .bytes = 64, .interface = thread,
					.flow_label = i };

		memset(data, (int)(thread + i), sizeof(data));
		link_->ops->send(link_, &out, 1, &sent);
	}
	return NULL;
}

static void threads_may_send_at_once(void **state)
{
	unsigned number[THREADS], next[THREADS] = { 0 }, i, n, total = 0;
	pthread_t thread[THREADS];
	struct datagram in[32];
	uint64_t lost;

	for (i = 0; i < THREADS; i++) {
		number[i] = i;
		assert_int_equal(pthread_create(&thread[i], NULL, send_many, &number[i]), 0);
	}
	do {
		link_->ops->receive(link_, in, 32, &n);
		for (i = 0; i < n; i++, total++) {
			unsigned from = in[i].interface;

			assert_true(in[i].flow_label >= next[from]);
			assert_int_equal(in[i].data[63], (uint8_t)(from + in[i].flow_label));
			next[from] = in[i].flow_label + 1;
		}
		lost = counter_get(&counters, COUNTER_TX_LINK);
	} while (total + lost < THREADS * EACH);
	for (i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	assert_int_equal(total + lost, THREADS * EACH);
}

static void no_memory_is_said(void **state)
{
	struct link *link;

	fail_set(FAIL_ALLOCATE, 1, ENOMEM);
	assert_int_equal(loopback_open(&link, &counters), ENOMEM);
	fail_set(FAIL_ALLOCATE, 2, ENOMEM);
	assert_int_equal(loopback_open(&link, &counters), ENOMEM);
	fail_clear();
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(what_is_sent_comes_back_sealed),
		TEST(the_ring_keeps_order_and_content),
		TEST(what_does_not_fit_is_dropped_and_counted),
		TEST(received_data_stays_until_the_next_receive),
		TEST(threads_may_send_at_once),
		TEST(no_memory_is_said),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
