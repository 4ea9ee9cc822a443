/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages through the memory link (ring_link_test.c has the datagrams): order and content,
 * answers, full rings, a peer that is gone, the turns of several.
 */
#include "local/channel/ring_test.h"

/* ---- order and content ---- */

static void a_message_is_received_as_it_was_sent(void **state)
{
	static const size_t sizes[] = { 0, 1, 27, 28, 29, 51, 52, 53, 63, 64, 65, 127, 128, 129,
					255, 256, 257, 4096, 32768, 65506, LINK_BYTES_MAX };
	const unsigned count = sizeof(sizes) / sizeof(sizes[0]);
	uint32_t i;

	_Static_assert(RING_INSIDE == 28, "the sizes around it are tried");
	receive_nothing(there);
	assert_false(ring_pending(there));
	for (i = 0; i < count; i++)
		send_message(sizes[i], i);
	assert_true(ring_pending(there));
	assert_false(ring_pending(here));
	for (i = 0; i < count; i++)
		receive_message(sizes[i], i, false);
	receive_nothing(there);
	assert_false(ring_pending(there));
	for (i = 0; i < count; i++)
		take_answer(i, false);
	expect_no_answer();
}

/* Some way up to the end of the ring of data, then each size there can be at the end of it. */
static void data_that_does_not_fit_before_the_end_of_the_ring_goes_to_its_begin(void **state)
{
	static const size_t sizes[] = { 29, 64, 65, 128, 4096, 4097, 60000, LINK_BYTES_MAX };
	uint32_t number = 0, round;

	for (round = 0; round < 400; round++) {
		size_t bytes = sizes[round % 8], before = 64 * (1 + round * 7 % 900);

		send_message(before, number);
		send_message(bytes, number + 1);
		receive_message(before, number, false);
		receive_message(bytes, number + 1, false);
		take_answer(number, false);
		take_answer(number + 1, false);
		number += 2;
	}
}

static void what_is_too_long_or_for_nobody_is_not_begun(void **state)
{
	struct ring_room room;

	assert_int_equal(ring_send_begin(here, channel_here, LINK_BYTES_MAX + 1, &room),
			 EMSGSIZE);
	assert_int_equal(ring_send_begin(here, channel_here + 1, 1, &room), ENOENT);
	assert_int_equal(ring_send_begin(here, 5000, 1, &room), ENOENT);
	send_message(1, 1);
	ring_remove(here, channel_here);
	assert_int_equal(ring_send_begin(here, channel_here, 1, &room), ENOENT);
	receive_message(1, 1, false);
}

/*
 * The numbers 0, 1, 2 ... as datagrams and messages, by chance: each receiver gets its own,
 * and none before what was put before it.
 */
static void messages_and_datagrams_keep_their_order(void **state)
{
	uint32_t put = 0, got = 0, completed = 0;
	bool is_message[16384], behind = false;	/* a message */
	uint64_t random = 3;
	struct ring_message message;

	while (got < 16000) {
		while (put < 16000 && put - got < 300 && test_random(&random) % 40) {
			int err;

			is_message[put] = test_random(&random) % 2;
			err = is_message[put]
				      ? try_send_message(here, channel_here, mixed_size(put), put)
				      : send_one(here, channel_here, mixed_size(put), put);
			assert_int_equal(err, 0);
			put++;
		}
		while (got < put && test_random(&random) % 40) {
			if (!is_message[got]) {
				unsigned max = 1 + (unsigned)(test_random(&random) % 16);
				uint32_t first = got, i;

				receive_nothing(there);
				assert_false(behind && ring_peek_next(there, &message));
				assert_true(receive(max, &got, mixed_size) > 0);
				for (i = first; i < got; i++)
					assert_false(is_message[i]);
				continue;
			}
			assert_int_equal(receive(16, &got, mixed_size), 0);
			assert_true(behind && got % 5 ? ring_peek_next(there, &message) :
							ring_peek(there, &message));
			behind = true;
			expect_content(&message, mixed_size(got), got);
			answer(there, &message, got % 3 == 0);
			got++;
		}
		if (got == put)
			assert_false(behind && ring_peek_next(there, &message));
		while (completed < got && test_random(&random) % 40) {
			if (is_message[completed])
				take_answer(completed, completed % 3 == 0);
			completed++;
		}
	}
	for (; completed < got; completed++)
		if (is_message[completed])
			take_answer(completed, completed % 3 == 0);
	expect_no_answer();
}

static void a_message_stays_the_next_one_until_it_is_answered(void **state)
{
	struct ring_message message;
	unsigned i;

	send_message(10, 1);
	send_message(2000, 2);
	for (i = 0; i < 3; i++) {
		assert_true(ring_peek(there, &message));
		expect_content(&message, 10, 1);
		expect_no_answer();
	}
	answer(there, &message, false);
	take_answer(1, false);
	receive_message(2000, 2, true);
	take_answer(2, true);
}

/* What was given out as datagrams is consumed when a message behind it is. */
static void receiving_gives_back_the_datagrams_before(void **state)
{
	uint32_t number = 1;

	assert_int_equal(send_one(here, channel_here, mixed_size(1), 1), 0);
	send_message(8, 2);
	assert_int_equal(receive(16, &number, mixed_size), 1);
	assert_int_equal(side[1]->consumed, 0);
	receive_message(8, 2, false);
	assert_int_equal(side[1]->consumed, 2);
	take_answer(2, false);
}

static void a_cancelled_message_was_never_there(void **state)
{
	struct ring_room room, again;

	assert_int_equal(ring_send_begin(here, channel_here, 1000, &room), 0);
	memset(room.data, 0xee, 1000);
	ring_send_cancel(&room);
	assert_false(ring_pending(there));
	receive_nothing(there);
	expect_no_answer();
	assert_int_equal(ring_send_begin(here, channel_here, 1000, &again), 0);
	assert_int_equal(again.number, room.number);
	assert_ptr_equal(again.data, room.data);
	ring_send_cancel(&again);
	/* Its cell and its data are not taken: a datagram may come there. */
	assert_int_equal(send_one(here, channel_here, mixed_size(7), 7), 0);
	send_message(1000, 8);
	assert_int_equal(receive(16, &(uint32_t){ 7 }, mixed_size), 1);
	receive_message(1000, 8, false);
	take_answer(8, false);
	expect_no_answer();
}

/* ---- answers ---- */

static void answers_come_in_order_and_once(void **state)
{
	struct ring_answer answer;
	uint32_t i;

	expect_no_answer();
	for (i = 0; i < 10; i++)
		send_message(i * 10, i);
	expect_no_answer();
	for (i = 0; i < 10; i++)
		receive_message(i * 10, i, i == 2 || i == 7);
	for (i = 0; i < 10; i++) {
		assert_true(ring_take_answer(here, channel_here, &answer));
		assert_int_equal(answer.owner, i + 1);
		assert_int_equal(answer.cell, i);
		assert_int_equal(answer.refused, i == 2 || i == 7);
	}
	expect_no_answer();
}

/* Each cell's bit is written anew: what an earlier message in it came to does not matter. */
static void a_cell_used_again_has_its_own_answer(void **state)
{
	uint32_t sent = 0, received = 0, completed = 0;

	while (completed < 7 * CHANNEL_CELLS) {
		while (sent - completed < MESSAGE_CELLS - completed / 100 % 500)
			send_message(sent % 60, sent), sent++;
		while (received < sent - received % 7)
			receive_message(received % 60, received, is_refused(received)), received++;
		while (completed < received - completed % 5)
			take_answer(completed, is_refused(completed)), completed++;
	}
}

/* The number that ring_send_begin() names is the one that the answer names. */
static void an_answer_names_the_cell_that_was_sent(void **state)
{
	struct ring_message message;
	struct ring_answer answered;
	struct ring_room room;
	uint32_t i;

	for (i = 0; i < 3 * CHANNEL_CELLS; i++) {
		if (i % 3 == 0)
			assert_int_equal(send_one(here, channel_here, 20, i), 0);
		there->ops->receive(there, &(struct datagram){ 0 }, 1, &(unsigned){ 0 });
		assert_int_equal(ring_send_begin(here, channel_here, 4, &room), 0);
		ring_send_end(here, &room, 7);
		assert_true(ring_peek(there, &message));
		answer(there, &message, false);
		assert_true(ring_take_answer(here, channel_here, &answered));
		assert_int_equal(answered.cell, room.number);
		assert_int_equal(answered.owner, 7);
	}
}

/* ---- room ---- */

static void a_cell_is_not_used_again_before_it_is_completed(void **state)
{
	uint32_t number;

	for (number = 0; number < MESSAGE_CELLS; number++)
		send_message(0, number);
	assert_int_equal(try_send_message(here, channel_here, 0, number), EAGAIN);
	for (number = 0; number < MESSAGE_CELLS; number++)
		receive_message(0, number, number % 2);
	/* All are consumed, and none is completed. */
	assert_int_equal(try_send_message(here, channel_here, 0, MESSAGE_CELLS), EAGAIN);
	take_answer(0, false);
	send_message(0, MESSAGE_CELLS);
	assert_int_equal(try_send_message(here, channel_here, 0, MESSAGE_CELLS + 1), EAGAIN);
	for (number = 1; number < MESSAGE_CELLS; number++)
		take_answer(number, number % 2);
	receive_message(0, MESSAGE_CELLS, false);
	take_answer(MESSAGE_CELLS, false);
	expect_no_answer();
}

/*
 * A sender that has sent all the messages it may can still send datagrams: a quarter of the ring,
 * cells and data.
 */
static void messages_leave_room_for_datagrams(void **state)
{
	uint32_t number, sent = 0;

	for (number = 0; try_send_message(here, channel_here, 0, number) == 0; number++)
		;
	while (send_one(here, channel_here, 20, sent) == 0)
		sent++;
	assert_int_equal(sent, CHANNEL_CELLS - MESSAGE_CELLS);
}

static void messages_leave_data_for_datagrams(void **state)
{
	uint32_t number;
	size_t sent;

	for (number = 0; try_send_message(here, channel_here, 16384, number) == 0; number++)
		;
	assert_int_equal(number, MESSAGE_DATA_BYTES / 16384);
	for (sent = 0; send_one(here, channel_here, 4096, 0) == 0; sent += 4096)
		;
	assert_int_equal(sent, CHANNEL_DATA_BYTES - MESSAGE_DATA_BYTES);
}

static size_t twenty(uint32_t number)
{
	return 20;
}

/* No thread waits for the cells of datagrams: behind the last message they need no settling. */
static void datagrams_behind_the_last_message_need_no_settling(void **state)
{
	uint32_t put, got = 1, round;

	send_message(0, 0);
	receive_message(0, 0, true);
	take_answer(0, true);
	for (round = 0, put = 1; round < 4; round++) {
		while (send_one(here, channel_here, 20, put) == 0)
			put++;
		assert_int_equal(put - got, CHANNEL_CELLS);
		while (receive(16, &got, twenty))
			;
		assert_int_equal(got, put);
	}
	/* Between two messages they are passed over. */
	send_message(0, put);
	assert_int_equal(send_one(here, channel_here, 20, put + 1), 0);
	send_message(0, put + 2);
	receive_message(0, put, false);
	got = put + 1;
	assert_int_equal(receive(16, &got, twenty), 1);
	receive_message(0, put + 2, true);
	take_answer(put, false);
	take_answer(put + 2, true);
	expect_no_answer();
}

static void data_is_overwritten_once_received_and_no_earlier(void **state)
{
	const size_t bytes = 65472;	/* 1023 lines: twelve of these, and 12 lines are left */
	uint32_t sent = 0, round;

	for (round = 0; round < 20; round++) {
		uint32_t first = sent;

		while (try_send_message(here, channel_here, bytes, sent) == 0)
			sent++;
		assert_in_range(sent - first, 11, 12);
		assert_int_equal(try_send_message(here, channel_here, bytes, sent), EAGAIN);
		send_message(RING_INSIDE, 1000000 + sent);	/* this needs no data */
		while (first < sent)
			receive_message(bytes, first++, false);
		receive_message(RING_INSIDE, 1000000 + sent, false);
		while (ring_take_answer(here, channel_here, &(struct ring_answer){ 0 }))
			;
	}
}

/* ---- what is fetched ---- */

#define MIB (1u << 20)

static void send_fetched(uint32_t fetched, uint32_t number)
{
	struct ring_room room;

	assert_int_equal(ring_send_begin(here, channel_here, 4, &room), 0);
	fill(room.data, 4, number);
	room.fetched = fetched;
	ring_send_end(here, &room, number + 1);
}

static void receive_any(void)
{
	struct ring_message message;

	assert_true(ring_peek(there, &message));
	answer(there, &message, false);
}

/* Messages behind one that is fetched wait: the bytes to fetch at a time are limited. */
static void a_peer_is_sent_a_few_megabytes_to_fetch(void **state)
{
	struct ring_answer answered;

	assert_true(ring_may_fetch(here, channel_here, UINT32_MAX));	/* a single one */
	send_fetched(3 * MIB, 0);
	assert_true(ring_may_fetch(here, channel_here, MIB));
	assert_false(ring_may_fetch(here, channel_here, MIB + 1));
	send_message(100, 1);	/* carries its data: that does not count */
	assert_true(ring_may_fetch(here, channel_here, MIB));
	send_fetched(MIB, 2);
	assert_false(ring_may_fetch(here, channel_here, 1));
	receive_any();
	assert_false(ring_may_fetch(here, channel_here, 1));
	take_answer(0, false);
	assert_true(ring_may_fetch(here, channel_here, 3 * MIB));
	assert_false(ring_may_fetch(here, channel_here, 3 * MIB + 1));
	receive_message(100, 1, false);
	receive_any();
	take_answer(1, false);
	take_answer(2, false);
	assert_true(ring_may_fetch(here, channel_here, UINT32_MAX));
	/* Nor data that will never be fetched. */
	send_fetched(UINT32_MAX, 3);
	assert_false(ring_may_fetch(here, channel_here, 1));
	assert_true(ring_take_answer_lost(here, channel_here, &answered));
	assert_true(ring_may_fetch(here, channel_here, UINT32_MAX));
}

/* Its place in the ring is used by others meanwhile, messages and datagrams. */
static void what_is_fetched_is_counted_once(void **state)
{
	uint64_t random = 7;
	uint32_t i, got;

	for (i = 0; i < 4 * CHANNEL_CELLS; i++) {
		uint32_t turn = test_random(&random) % 3;

		send_fetched(turn == 1 ? 1000 : 0, i);
		if (turn == 0)
			assert_int_equal(send_one(here, channel_here, 20, i), 0);
		send_message(4, i);
		receive_any();
		got = i;
		assert_int_equal(receive(1, &got, twenty), turn == 0);
		receive_any();
		take_answer(i, false);
		take_answer(i, false);
		assert_true(ring_may_fetch(here, channel_here, UINT32_MAX));
	}
}

static void a_peer_that_gets_on_is_seen_to(void **state)
{
	uint32_t before = ring_progress(here, channel_here), i;
	struct ring_message message;

	send_message(4, 0);
	send_message(4, 1);
	assert_int_equal(ring_progress(here, channel_here), before);
	assert_true(ring_peek(there, &message));
	for (i = 0; i < 3; i++) {
		ring_note_progress(there, &message);
		assert_int_not_equal(ring_progress(here, channel_here), before);
		before = ring_progress(here, channel_here);
	}
	answer(there, &message, true);
	assert_int_not_equal(ring_progress(here, channel_here), before);
	before = ring_progress(here, channel_here);
	/* Messages that we receive are no progress of the peer. */
	assert_int_equal(try_send_message(there, channel_there, 4, 9), 0);
	assert_true(ring_peek(here, &message));
	ring_note_progress(here, &message);
	answer(here, &message, false);
	assert_int_equal(ring_progress(here, channel_here), before);
	assert_int_equal(ring_progress(here, channel_here + 1), 0);
}

/* ---- an end ---- */

static void what_a_peer_that_is_gone_did_not_answer_counts_as_refused(void **state)
{
	struct ring_answer answer;
	uint32_t i;

	for (i = 0; i < 6; i++) {
		send_message(40, i);
		assert_int_equal(send_one(here, channel_here, 20, 100 + i), 0);
	}
	receive_message(40, 0, false);
	take_answer(0, false);
	ring_remove(here, channel_here);
	assert_false(ring_take_answer(here, channel_here, &answer));
	assert_false(ring_has_answer(here, channel_here));
	for (i = 1; i < 6; i++) {
		assert_true(ring_take_answer_lost(here, channel_here, &answer));
		assert_int_equal(answer.owner, i + 1);
		assert_int_equal(answer.cell, 2 * i);
		assert_true(answer.refused);
	}
	assert_false(ring_take_answer_lost(here, channel_here, &answer));
	assert_false(ring_take_answer_lost(here, CHANNELS_MAX - 1, &answer));
}

/* The next channel in that place has nothing of the last one. */
static void a_place_used_again_begins_anew(void **state)
{
	struct ring_message message;
	struct ring_answer answer;
	struct ring_room room;
	uint32_t i;

	for (i = 0; i < 1000; i++) {
		send_message(1000, i);
		receive_message(1000, i, true);
		take_answer(i, true);
	}
	send_message(1000, 1000);
	ring_await_answers(here, channel_here);
	assert_int_equal(try_send_message(there, channel_there, 1, 1), 0);
	assert_true(ring_peek(here, &message));	/* says what was taken, for the last time */
	ring_remove(here, channel_here);
	ring_remove(there, channel_there);
	assert_true(ring_take_answer_lost(here, channel_here, &answer));
	memset(side[0], 0, channel_side_bytes());
	memset(side[1], 0, channel_side_bytes());
	assert_int_equal(ring_add(here, channel_here, side[0], side[1], 1001), 0);
	assert_int_equal(ring_add(there, channel_there, side[1], side[0], 1000), 0);
	assert_false(ring_take_answer_lost(here, channel_here, &answer));
	assert_int_equal(ring_reach(here, channel_here), 0);
	assert_int_equal(ring_send_begin(here, channel_here, 1, &room), 0);
	assert_int_equal(room.number, 0);
	ring_send_cancel(&room);
	send_message(1000, 1);
	expect_no_answer();
	receive_message(1000, 1, false);
	take_answer(1, false);
}

static void a_peer_says_what_it_can_reach(void **state)
{
	assert_int_equal(ring_reach(here, channel_here), 0);
	ring_set_reach(there, channel_there, RING_MESSAGES | RING_MAPS);
	assert_int_equal(ring_reach(here, channel_here), RING_MESSAGES | RING_MAPS);
	assert_int_equal(ring_reach(there, channel_there), 0);
	assert_int_equal(ring_reach(here, channel_here + 1), 0);
}

/* ---- what a message says of ours ---- */

static void a_message_answers_those_sent_before_it(void **state)
{
	struct ring_answer answered;
	struct ring_message message;
	uint32_t i;

	for (i = 0; i < 3; i++)
		send_message(5, i);
	for (i = 0; i < 3; i++)
		receive_message(5, i, i == 1);
	assert_int_equal(try_send_message(there, channel_there, 5, 50), 0);
	/* The line that says so by itself is not looked at. */
	atomic_store(&side[1]->consumed, 0);
	expect_no_answer();
	assert_true(ring_peek(here, &message));
	expect_content(&message, 5, 50);
	answer(here, &message, false);
	for (i = 0; i < 3; i++) {
		assert_true(ring_take_answer(here, channel_here, &answered));
		assert_int_equal(answered.owner, i + 1);
		assert_int_equal(answered.refused, i == 1);
	}
	expect_no_answer();
}

/* The peer may lie: more than was sent is not believed, nor what lies in the past. */
static void nonsense_in_a_message_completes_nothing_that_was_not_sent(void **state)
{
	static const uint32_t nonsense[] = { 0, 1, 2, 5, 6, 2047, 2048, 2049, 4096, 1u << 31,
					     UINT32_MAX, UINT32_MAX - 2047 };
	struct ring_message message;
	struct ring_answer answered;
	uint32_t next = 0, sent = 0, completed = 0, i;

	for (i = 0; i < 1500; i++) {
		while (sent - completed < i % 5)
			send_message(3, sent++);
		assert_int_equal(try_send_message(there, channel_there, 3, next), 0);
		side[1]->cell[next % CHANNEL_CELLS].taken = nonsense[i % 12];
		next++;
		assert_true(ring_peek(here, &message));
		answer(here, &message, false);
		assert_true(ring_take_answer(there, channel_there, &answered));
		while (ring_take_answer(here, channel_here, &answered))
			assert_int_equal(answered.owner, ++completed);
		assert_true(completed <= sent);
	}
}

/* Both ends have put and taken @before so far: in every respect. */
static void begin_at(uint32_t before)
{
	struct ring_link *links[2] = { ring_of(here), ring_of(there) };
	unsigned i;

	for (i = 0; i < 2; i++) {
		struct channel *channel = links[i]->channel[i ? channel_there : channel_here];

		channel->producer.put = channel->producer.consumed = before;
		channel->producer.sent = channel->producer.completed = before;
		channel->consumer.taken = before;
		side[i]->consumed = before;
	}
}

/*
 * A peer that sends no messages gives no hint of what it consumed, which does not mean that it is
 * behind.
 */
static void numbers_of_cells_come_round_again(void **state)
{
	uint32_t i, sent = 0;

	begin_at(UINT32_MAX - 5000);
	for (i = 0; i < 8000; i++) {
		send_message(3, sent++);
		if (sent < 3)
			continue;	/* two are always without an answer */
		receive_message(3, sent - 3, is_refused(sent));
		take_answer(sent - 3, is_refused(sent));
		expect_no_answer();
	}
}

/* ---- several peers ---- */

static void each_peer_has_its_turn(void **state)
{
	enum { second_here = 1, second_there = 2 };
	unsigned received[CHANNELS_MAX] = {0}, go, i;
	struct channel_side *more[2];
	struct ring_message message;

	for (i = 0; i < 2; i++) {
		more[i] = side_new();
		assert_non_null(more[i]);
	}
	assert_int_equal(ring_add(here, second_here, more[0], more[1], 1001), 0);
	assert_int_equal(ring_add(there, second_there, more[1], more[0], 1000), 0);
	for (i = 0; i < 1000; i++) {
		send_message(1, i);
		assert_int_equal(try_send_message(here, second_here, 1, i), 0);
	}
	/* A go: the messages received between two ring_notify_answers(). */
	for (go = 0; go < 20; go++) {
		for (i = 0; i < 16; i++) {
			assert_true(i ? ring_peek_next(there, &message) : ring_peek(there, &message));
			assert_int_equal(message.head[0], 100 * received[message.channel]++);
			ring_finish(there, &message, false);
		}
		ring_notify_answers(there);
	}
	assert_int_equal(received[channel_there] + received[second_there], 320);
	assert_in_range(received[channel_there], 100, 220);
	ring_remove(here, second_here);
	ring_remove(there, second_there);
	side_free(more[0]);
	side_free(more[1]);
}

/* Those of all that are answered together, whichever came last. */
static void each_peer_has_its_answers(void **state)
{
	enum { second_here = 7, second_there = 9 };
	struct channel_side *more[2] = { side_new(), side_new() };
	struct ring_message message;
	unsigned i;

	assert_true(more[0] && more[1]);
	assert_int_equal(ring_add(here, second_here, more[0], more[1], 1001), 0);
	assert_int_equal(ring_add(there, second_there, more[1], more[0], 1000), 0);
	send_message(1, 0);
	assert_int_equal(try_send_message(here, second_here, 1, 1), 0);
	for (i = 0; i < 2; i++) {
		assert_true(i ? ring_peek_next(there, &message) : ring_peek(there, &message));
		ring_finish_next(&message, false);
	}
	assert_false(ring_has_answer(here, channel_here) || ring_has_answer(here, second_here));
	ring_notify_answers(there);
	assert_true(ring_has_answer(here, channel_here) && ring_has_answer(here, second_here));
	ring_remove(here, second_here);
	ring_remove(there, second_there);
	side_free(more[0]);
	side_free(more[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_message_is_received_as_it_was_sent),
		TEST(data_that_does_not_fit_before_the_end_of_the_ring_goes_to_its_begin),
		TEST(what_is_too_long_or_for_nobody_is_not_begun),
		TEST(messages_and_datagrams_keep_their_order),
		TEST(a_message_stays_the_next_one_until_it_is_answered),
		TEST(receiving_gives_back_the_datagrams_before),
		TEST(a_cancelled_message_was_never_there),
		TEST(answers_come_in_order_and_once),
		TEST(a_cell_used_again_has_its_own_answer),
		TEST(an_answer_names_the_cell_that_was_sent),
		TEST(a_cell_is_not_used_again_before_it_is_completed),
		TEST(messages_leave_room_for_datagrams),
		TEST(messages_leave_data_for_datagrams),
		TEST(datagrams_behind_the_last_message_need_no_settling),
		TEST(data_is_overwritten_once_received_and_no_earlier),
		TEST(a_peer_is_sent_a_few_megabytes_to_fetch),
		TEST(what_is_fetched_is_counted_once),
		TEST(a_peer_that_gets_on_is_seen_to),
		TEST(what_a_peer_that_is_gone_did_not_answer_counts_as_refused),
		TEST(a_place_used_again_begins_anew),
		TEST(a_peer_says_what_it_can_reach),
		TEST(a_message_answers_those_sent_before_it),
		TEST(nonsense_in_a_message_completes_nothing_that_was_not_sent),
		TEST(numbers_of_cells_come_round_again),
		TEST(each_peer_has_its_turn),
		TEST(each_peer_has_its_answers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
