/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The memory link: two of them on the same two sides, as two processes would have. Order and
 * content, full rings, sleeping, a peer that writes garbage, removal, all channels there can be,
 * and a race of threads.
 */
#include "local/channel/ring_test.h"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

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
		assert_int_equal(ring_pending(there), i > 0);
		assert_int_equal(send_one(here, channel_here, sizes[i], i), 0);
	}
	assert_true(ring_pending(there));
	assert_false(ring_pending(here));
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

/* A datagram by a way of its own, as each connection has by its flow label. */
static int send_by(uint32_t flow_label)
{
	uint8_t data[32];
	struct datagram datagram = { .data = data, .bytes = sizeof(data), .channel = channel_here,
				     .flow_label = flow_label, .source = { 1 }, .destination = { 2 } };
	unsigned sent;

	fill(data, sizeof(data), flow_label);
	return here->ops->send(here, &datagram, 1, &sent);
}

static void expect_by(uint32_t flow_label)
{
	struct datagram in;
	uint8_t data[32];
	unsigned n;

	assert_int_equal(there->ops->receive(there, &in, 1, &n), 0);
	assert_int_equal(n, 1);
	assert_int_equal(in.flow_label, flow_label);
	fill(data, sizeof(data), flow_label);
	assert_memory_equal(in.data, data, sizeof(data));
}

/* A program may have more connections, one behind the other, than a channel has places for ways. */
static void ways_that_are_not_used_any_more_give_place(void **state)
{
	uint32_t label, row;

	for (label = 0; label < 5 * CHANNEL_ROUTES; label++) {
		assert_int_equal(send_by(label), 0);
		expect_by(label);
	}
	/* One of long ago, one in use all the time. */
	for (label = 0; label < 2 * CHANNEL_ROUTES; label++) {
		assert_int_equal(send_by(7), 0);
		assert_int_equal(send_by(1000 + label), 0);
		expect_by(7);
		expect_by(1000 + label);
	}
	/* Those of datagrams that nobody has taken yet keep theirs: it is full, until one is taken. */
	for (row = 0; row < 3; row++) {
		ring_done(there);
		for (label = 0; label < CHANNEL_ROUTES; label++)
			assert_int_equal(send_by(label), 0);
		assert_int_equal(send_by(label), EAGAIN);
		assert_int_equal(send_by(label / 2), 0);
		expect_by(0);
		assert_int_equal(send_by(label), EAGAIN);	/* given out, not released yet */
		for (label = 1; label < CHANNEL_ROUTES; label++)
			expect_by(label);
		expect_by(CHANNEL_ROUTES / 2);
		assert_int_equal(send_by(label), 0);
		expect_by(label);
	}
	assert_int_equal(counter_get(&counters, COUNTER_TX_LINK), 0);
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
	ring_sleep(there);
	assert_false(ring_pending(there));
	send_one(here, channel_here, 20, 2);
	send_one(here, channel_here, 20, 3);
	assert_int_equal(rung[1], 1);
	ring_sleep(there);
	ring_awake(there);
	send_one(here, channel_here, 20, 4);
	assert_int_equal(rung[1], 1);
}

static void a_removed_channel_takes_nothing_and_its_place_is_used_again(void **state)
{
	struct datagram in[16];
	unsigned n;

	send_one(here, channel_here, 100, 1);
	ring_remove(here, channel_here);
	assert_int_equal(send_one(here, channel_here, 100, 2), 0);
	assert_int_equal(counter_get(&counters, COUNTER_TX_LINK), 1);
	assert_int_equal(send_one(here, 40, 100, 2), 0);
	assert_int_equal(counter_get(&counters, COUNTER_TX_LINK), 2);
	there->ops->receive(there, in, 16, &n);
	assert_int_equal(n, 1);
	ring_remove(there, channel_there);
	memset(side[0], 0, channel_side_bytes());
	memset(side[1], 0, channel_side_bytes());
	assert_int_equal(ring_add(here, channel_here, side[0], side[1], 1001), 0);
	assert_int_equal(ring_add(there, channel_there, side[1], side[0], 1000), 0);
	send_one(here, channel_here, 100, 5);
	there->ops->receive(there, in, 16, &n);
	assert_int_equal(n, 1);
	expect(&in[0], 100, 5);
}

/*
 * Whatever a peer writes into its side, datagrams lie within it, and sending works or returns
 * EAGAIN. Here is a peer to there with its cells, there to here with how far it says it has got.
 */
static void garbage_stays_within_bounds(void **state)
{
	uint64_t random = 12345;
	struct datagram in[16];
	unsigned round, n, i, sum = 0;

	for (round = 0; round < 20000; round++) {
		size_t at = test_random(&random) % offsetof(struct channel_side, data);
		uint8_t *start = (uint8_t *)side[round % 7 == 0];

		if (round % 3 == 0)
			at = offsetof(struct channel_side, cell) + test_random(&random) % 16 * 4 +
			     round / 3 % CHANNEL_CELLS * sizeof(struct channel_cell);
		else if (round % 21 == 7)
			at = offsetof(struct channel_side, consumed);
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

static void data_that_would_end_behind_the_ring_is_none(void **state)
{
	struct datagram in[16];
	unsigned n, i;

	for (i = 0; i < 2; i++) {
		send_one(here, channel_here, 2000, 1);
		side[0]->cell[i].offset = CHANNEL_DATA_BYTES - 2000 + i;
		there->ops->receive(there, in, 16, &n);
		assert_int_equal(n, !i);
	}
	assert_int_equal(counter_get(&counters, COUNTER_RX_MALFORMED), 1);
}

/* ---- whose memory ---- */

/* A side as two processes have it: mapped for writing by one, for reading by the other. */
struct shared_side {
	struct channel_side *written;
	const struct channel_side *read;
};

static struct shared_side shared_side_new(void)
{
	struct shared_side shared;
	size_t bytes = channel_side_bytes();
	int fd = memfd_create("side", MFD_CLOEXEC);

	assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
	shared.written = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	shared.read = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);
	assert_true(shared.written != MAP_FAILED && shared.read != MAP_FAILED);
	close(fd);
	return shared;
}

static void shared_side_free(struct shared_side *shared)
{
	munmap(shared->written, channel_side_bytes());
	munmap((void *)(uintptr_t)shared->read, channel_side_bytes());
}

static unsigned do_anything(struct link *link, unsigned channel, uint64_t *random)
{
	struct ring_message message;
	struct ring_answer answered;
	struct datagram in[16];
	unsigned n = 0;

	switch (test_random(random) % 8) {
	case 0:
		return try_send_message(link, channel, test_random(random) % 3000, 1) == 0;
	case 1:
		return send_one(link, channel, 16 + test_random(random) % 3000, 1) == 0;
	case 2:
		ring_sleep(link);
		ring_await_answers(link, channel);
		return 1;
	case 3:
		ring_awake(link);
		return 1;
	case 4:
		ring_set_reach(link, channel, (unsigned)test_random(random) % 8);
		return 1;
	case 5:
		while (ring_take_answer(link, channel, &answered))
			n++;
		return n;
	case 6:
		link->ops->receive(link, in, 16, &n);
		ring_done(link);
		return n;
	default:
		while (ring_peek(link, &message)) {
			ring_note_progress(link, &message);
			answer(link, &message, test_random(random) % 2);
			n++;
		}
		return n;
	}
}

static void neither_process_writes_the_side_of_the_other(void **state)
{
	struct shared_side ours = shared_side_new(), theirs = shared_side_new();
	uint64_t random = 5;
	unsigned round, done = 0;

	ring_remove(here, channel_here);
	ring_remove(there, channel_there);
	assert_int_equal(ring_add(here, channel_here, ours.written, theirs.read, 1001), 0);
	assert_int_equal(ring_add(there, channel_there, theirs.written, ours.read, 1000), 0);
	for (round = 0; round < 20000; round++)
		done += round % 2 ? do_anything(here, channel_here, &random) :
				    do_anything(there, channel_there, &random);
	assert_true(done > 10000);
	assert_true(rung[0] > 100 && rung[1] > 100);
	shared_side_free(&ours);
	shared_side_free(&theirs);
}

/* ---- a bell while its channel is removed ---- */

static struct link *ringer;
static _Atomic bool bell_begun, bell_ended, lock_was_free;

/* Slow, until ring_remove() has had time to return too early. */
static void ring_slowly(int bell_fd) UNCHECKED_LOCKS
{
	struct channel *channel = channel_at(ring_of(ringer), 0);
	struct timespec while_removing = { .tv_nsec = 5000000 };

	if (lock_try(&channel->producer.lock)) {
		atomic_store(&lock_was_free, true);
		lock_release(&channel->producer.lock);
	}
	atomic_store(&bell_begun, true);
	nanosleep(&while_removing, NULL);
	atomic_store(&bell_ended, true);
}

static void *ring_in_a_thread(void *argument)
{
	ring_wake_peers(ringer);
	return NULL;
}

static void a_bell_is_rung_without_the_lock_of_the_producer(void **state)
{
	pthread_t thread;

	assert_int_equal(ring_open(&ringer, &counters, ring_slowly), 0);
	assert_int_equal(ring_add(ringer, 0, side[0], side[1], 1), 0);
	atomic_store(&ring_of(ringer)->bells[0], 1);
	atomic_store(&ring_of(ringer)->bells_due, true);
	assert_int_equal(pthread_create(&thread, NULL, ring_in_a_thread, NULL), 0);
	while (!atomic_load(&bell_begun))
		sched_yield();
	ring_remove(ringer, 0);
	assert_true(atomic_load(&bell_ended));
	assert_true(atomic_load(&lock_was_free));
	pthread_join(thread, NULL);
	ringer->ops->close(ringer);
}

/* ---- as many peers as there may be ---- */

static _Atomic unsigned rung_of[CHANNELS_MAX];

static void ring_one_of_many(int bell_fd)
{
	assert_in_range(bell_fd, 0, CHANNELS_MAX - 1);
	rung_of[bell_fd]++;
}

static void open_all(struct link **one, struct link **other, struct channel_side *(*sides)[2])
{
	unsigned i;

	assert_int_equal(ring_open(one, &counters, ring_one_of_many), 0);
	assert_int_equal(ring_open(other, &counters, ring_one_of_many), 0);
	for (i = 0; i < CHANNELS_MAX; i++) {
		sides[i][0] = side_new();
		sides[i][1] = side_new();
		assert_true(sides[i][0] && sides[i][1]);
		assert_int_equal(ring_add(*one, i, sides[i][0], sides[i][1], (int)i), 0);
		assert_int_equal(ring_add(*other, i, sides[i][1], sides[i][0], (int)i), 0);
	}
}

/* Of each a message and a datagram. */
static void receive_from_all(struct link *link)
{
	bool received[CHANNELS_MAX] = {false}, came[CHANNELS_MAX] = {false};
	struct ring_message message;
	struct datagram in[16];
	unsigned n, i, total = 0;

	for (i = 0; i < CHANNELS_MAX; i++) {
		assert_true(i % 2 ? ring_peek_next(link, &message) : ring_peek(link, &message));
		expect_content(&message, 5, message.channel);
		assert_false(received[message.channel]);
		received[message.channel] = true;
		ring_finish(link, &message, message.channel % 3 == 0);
	}
	ring_notify_answers(link);
	assert_false(ring_peek(link, &message));
	while (total < CHANNELS_MAX) {
		link->ops->receive(link, in, 16, &n);
		assert_true(n > 0);
		for (i = 0; i < n; i++, total++) {
			expect(&in[i], 200, in[i].channel);
			assert_false(came[in[i].channel]);
			came[in[i].channel] = true;
		}
	}
	ring_done(link);
	assert_false(ring_pending(link));
}

static void all_channels_work_at_once(void **state)
{
	static struct channel_side *sides[CHANNELS_MAX][2];
	struct ring_room room;
	struct ring_answer answered;
	struct link *one, *other;
	unsigned i, k;

	open_all(&one, &other, sides);
	assert_int_equal(ring_channels(one), CHANNELS_MAX);
	assert_int_equal(ring_send_begin(one, CHANNELS_MAX, 1, &room), ENOENT);
	ring_sleep(other);
	for (i = 0; i < CHANNELS_MAX; i++) {
		assert_int_equal(ring_send_begin(one, i, 5, &room), 0);
		for (k = 0; k < RING_HEAD_WORDS; k++)
			room.head[k] = i * 100 + k;
		fill(room.data, 5, i);
		ring_send_end(one, &room, i + 1);
		assert_int_equal(rung_of[i], 0);
	}
	ring_wake_peers(one);
	for (i = 0; i < CHANNELS_MAX; i++) {
		assert_int_equal(rung_of[i], 1);
		assert_int_equal(send_one(one, i, 200, i), 0);
		assert_int_equal(rung_of[i], 1);
	}
	receive_from_all(other);
	for (i = 0; i < CHANNELS_MAX; i++) {
		assert_true(ring_take_answer(one, i, &answered));
		assert_int_equal(answered.owner, i + 1);
		assert_int_equal(answered.refused, i % 3 == 0);
		ring_remove(one, i);
		assert_int_equal(ring_has_channels(one), i < CHANNELS_MAX - 1);
	}
	one->ops->close(one);
	other->ops->close(other);
	for (i = 0; i < CHANNELS_MAX; i++) {
		side_free(sides[i][0]);
		side_free(sides[i][1]);
	}
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
	ring_done(there);
	assert_int_equal(send_one(here, channel_here, 60000, n), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(what_is_put_comes_out_as_it_was),
		TEST(what_is_released_is_room_at_once),
		TEST(a_full_ring_says_so_until_it_is_read),
		TEST(ways_that_are_not_used_any_more_give_place),
		TEST(what_was_given_out_is_not_overwritten),
		TEST(a_sleeper_is_rung_once),
		TEST(a_removed_channel_takes_nothing_and_its_place_is_used_again),
		TEST(garbage_stays_within_bounds),
		TEST(data_that_would_end_behind_the_ring_is_none),
		TEST(neither_process_writes_the_side_of_the_other),
		TEST(a_bell_is_rung_without_the_lock_of_the_producer),
		TEST(all_channels_work_at_once),
		TEST(racing_senders_keep_their_own_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
