/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The memory link: two of them on the same two halves, as two processes would have. Order and
 * content, full rings, sleeping, a peer that writes garbage, removal, and a race of threads.
 */
#include "link/memory_test.h"

#include <pthread.h>
#include <sched.h>

static void expect(const struct datagram *datagram, size_t bytes, uint32_t number)
{
	static uint8_t data[LINK_BYTES_MAX];

	fill(data, bytes, number);
	assert_int_equal(datagram->bytes, bytes);
	assert_int_equal(datagram->hop_limit, number % 100);
	assert_memory_equal(datagram->data, data, bytes);
}

static void what_is_put_comes_out_as_it_was(void **state)
{
	static const size_t sizes[] = { 16, CHANNEL_CELL_DATA - 1, CHANNEL_CELL_DATA,
					CHANNEL_CELL_DATA + 1, 4000, LINK_BYTES_MAX };
	struct datagram in[16];
	unsigned i, n;

	for (i = 0; i < 6; i++) {
		assert_int_equal(memory_pending(there), i > 0);
		assert_int_equal(send_one(here, channel_here, sizes[i], i), 0);
	}
	assert_true(memory_pending(there));
	assert_false(memory_pending(here));
	assert_int_equal(there->ops->receive(there, in, 16, &n), 0);
	assert_int_equal(n, 6);
	for (i = 0; i < 6; i++) {
		expect(&in[i], sizes[i], i);
		assert_int_equal(in[i].channel, channel_there);
		assert_int_equal(in[i].source[0], 1);
		assert_int_equal(in[i].destination[0], 2);
	}
	assert_int_equal(there->ops->receive(there, in, 16, &n), 0);
	assert_int_equal(n, 0);
}

static void a_full_ring_says_so_until_it_is_read(void **state)
{
	static const size_t sizes[] = { 20, 60000 };
	struct datagram in[16];
	uint32_t put, got, round;
	unsigned n, i;

	for (round = 0; round < 6; round++) {
		size_t bytes = sizes[round % 2];

		for (put = 0; send_one(here, channel_here, bytes, put) == 0; put++)
			;
		assert_true(put >= (bytes == 20 ? CHANNEL_CELLS : CHANNEL_DATA_BYTES / 65536));
		for (got = 0; got < put; got += n) {
			assert_int_equal(there->ops->receive(there, in, 16, &n), 0);
			assert_true(n > 0);
			for (i = 0; i < n; i++)
				expect(&in[i], bytes, got + i);
		}
		there->ops->receive(there, in, 16, &n);
		assert_int_equal(n, 0);
	}
}

static void what_was_given_out_is_not_overwritten(void **state)
{
	struct datagram in[16];
	uint32_t put;
	unsigned n;

	assert_int_equal(send_one(here, channel_here, 60000, 1), 0);
	there->ops->receive(there, in, 1, &n);
	for (put = 0; send_one(here, channel_here, 60000, 2) == 0; put++)
		;
	expect(&in[0], 60000, 1);
}

static void a_sleeper_is_rung_once(void **state)
{
	struct datagram in[16];
	unsigned n;

	send_one(here, channel_here, 20, 1);
	assert_int_equal(rung[1], 0);
	there->ops->receive(there, in, 16, &n);
	memory_fall_asleep(there);
	assert_false(memory_pending(there));
	send_one(here, channel_here, 20, 2);
	send_one(here, channel_here, 20, 3);
	assert_int_equal(rung[1], 1);
	memory_fall_asleep(there);
	memory_awake(there);
	send_one(here, channel_here, 20, 4);
	assert_int_equal(rung[1], 1);
}

static void a_removed_channel_takes_nothing_and_its_place_is_used_again(void **state)
{
	struct datagram in[16];
	unsigned n;

	send_one(here, channel_here, 100, 1);
	memory_remove(here, channel_here);
	assert_int_equal(send_one(here, channel_here, 100, 2), 0);
	assert_int_equal(counter_get(&counters, COUNTER_TX_LINK), 1);
	assert_int_equal(send_one(here, 40, 100, 2), 0);
	assert_int_equal(counter_get(&counters, COUNTER_TX_LINK), 2);
	there->ops->receive(there, in, 16, &n);
	assert_int_equal(n, 1);
	memory_remove(there, channel_there);
	memset(half[0], 0, channel_half_bytes());
	memset(half[1], 0, channel_half_bytes());
	assert_int_equal(memory_add(here, half[0], half[1], 1001, &channel_here), 0);
	assert_int_equal(memory_add(there, half[1], half[0], 1000, &channel_there), 0);
	assert_int_equal(channel_here, 0);
	send_one(here, channel_here, 100, 5);
	there->ops->receive(there, in, 16, &n);
	assert_int_equal(n, 1);
	expect(&in[0], 100, 5);
}

/* Whatever a peer writes: datagrams lie within the half, and sending goes on or says EAGAIN. */
static void garbage_stays_within_bounds(void **state)
{
	uint64_t random = 12345;
	uint8_t *start = (uint8_t *)half[0];
	struct datagram in[16];
	unsigned round, n, i, sum = 0;

	for (round = 0; round < 20000; round++) {
		size_t at = (test_random(&random) % (64 + 64 + 256 * 64 + CHANNEL_CELLS * 64));

		if (round % 3 == 0)
			at = 128 + 256 * 64 + (test_random(&random) % (16)) * 4 +
			     (round / 3 % CHANNEL_CELLS) * 64;
		*(uint32_t *)(start + (at & ~3u)) = round % 2 ? (uint32_t)test_random(&random) :
							       round / 6 % 50;
		if (round % 5 == 0)
			send_one(here, channel_here, 16 + (test_random(&random) % (200)), round);
		there->ops->receive(there, in, 16, &n);
		for (i = 0; i < n; i++) {
			size_t byte;

			for (byte = 0; byte < in[i].bytes; byte++)
				sum += in[i].data[byte];
		}
	}
	assert_true(sum != 1);
}

/* ---- threads ---- */

#define RACERS 2u
#define RACE_COUNT 40000u

static void *race(void *argument)
{
	uint32_t racer = *(uint32_t *)argument, i;
	uint8_t data[3000];
	struct datagram datagram = { .data = data, .channel = (uint16_t)channel_here };
	unsigned sent;

	for (i = 0; i < RACE_COUNT; i++) {
		datagram.bytes = 16 + (i * 37 + racer) % 2900;
		fill(data, datagram.bytes, i);
		data[0] = (uint8_t)racer;
		memcpy(data + 4, &i, 4);
		while (here->ops->send(here, &datagram, 1, &sent) == EAGAIN)
			sched_yield();
	}
	return NULL;
}

static void racing_senders_keep_their_own_order(void **state)
{
	uint32_t next[RACERS] = { 0 }, racer[RACERS], i, total = 0, number;
	pthread_t thread[RACERS];
	struct datagram in[16];
	static uint8_t data[3000];
	unsigned n;

	for (i = 0; i < RACERS; i++) {
		racer[i] = i;
		assert_int_equal(pthread_create(&thread[i], NULL, race, &racer[i]), 0);
	}
	while (total < RACERS * RACE_COUNT) {
		there->ops->receive(there, in, 16, &n);
		if (!n)
			sched_yield();
		for (i = 0; i < n; i++) {
			uint32_t from = in[i].data[0];

			assert_in_range(from, 0, RACERS - 1);
			memcpy(&number, in[i].data + 4, 4);
			assert_int_equal(number, next[from]++);
			fill(data, in[i].bytes, number);
			assert_memory_equal(in[i].data + 8, data + 8, in[i].bytes - 8);
		}
		total += n;
	}
	for (i = 0; i < RACERS; i++)
		pthread_join(thread[i], NULL);
}

/* A sender that found no room is not to wait for a receive() that nothing calls for. */
static void what_is_released_is_room_at_once(void **state)
{
	struct datagram given[16];
	unsigned received, n = 0;

	while (send_one(here, channel_here, 60000, n) == 0)
		n++;
	assert_in_range(n, 15, 17);
	assert_int_equal(there->ops->receive(there, given, 16, &received), 0);
	assert_int_equal(send_one(here, channel_here, 60000, n), EAGAIN);
	memory_done(there);
	assert_int_equal(send_one(here, channel_here, 60000, n), 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(what_is_put_comes_out_as_it_was),
		TEST(what_is_released_is_room_at_once),
		TEST(a_full_ring_says_so_until_it_is_read),
		TEST(what_was_given_out_is_not_overwritten),
		TEST(a_sleeper_is_rung_once),
		TEST(a_removed_channel_takes_nothing_and_its_place_is_used_again),
		TEST(garbage_stays_within_bounds),
		TEST(racing_senders_keep_their_own_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
