/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages through the memory link, continued: which process wakes which, a peer that writes
 * garbage, races of threads.
 */
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <time.h>

#include "local/channel/ring_test.h"

/* ---- order ---- */

/* What a message follows from is known before the message is executed. */
static void an_answer_is_known_from_the_message_that_came_behind_it(void **state)
{
	struct ring_message message;
	struct ring_answer answer;

	send_message(1, 1);
	send_message(1, 2);
	receive_message(1, 1, false);
	assert_int_equal(try_send_message(there, channel_there, 1, 9), 0);
	receive_message(1, 2, false);	/* consumed behind it */
	assert_true(ring_peek(here, &message));
	assert_true(ring_take_answer_before(&message, &answer));
	assert_int_equal(answer.owner, 2);	/* number 1 */
	assert_false(answer.refused);
	assert_false(ring_take_answer_before(&message, &answer));
	ring_finish(here, &message, false);
	assert_true(ring_take_answer(here, channel_here, &answer));
}

/* ---- several at once ---- */

/* Messages 1 to 9: number 4 was refused, number 6 fetched, 8 and 9 are another owner's. */
static void answers_in_a_row_are_those_of_one_owner(void **state)
{
	struct ring_answer answer;
	struct ring_room room;
	uint32_t i;

	for (i = 1; i <= 9; i++) {
		assert_int_equal(ring_send_begin(here, channel_here, 1, &room), 0);
		memset(room.head, 0, RING_HEAD_WORDS * sizeof(*room.head));
		room.fetched = i == 6 ? 1 : 0;
		ring_send_end(here, &room, i < 8 ? 7 : 5);
	}
	for (i = 1; i <= 9; i++) {
		struct ring_message message;

		assert_true(ring_peek(there, &message));
		ring_finish(there, &message, i == 4);
	}
	assert_true(ring_take_answer(here, channel_here, &answer));
	assert_int_equal(answer.behind, 8);
	assert_int_equal(ring_row_behind(here, channel_here, &answer, 1), 1);
	assert_int_equal(ring_row_behind(here, channel_here, &answer, 16), 2);
	ring_take_row(here, channel_here, 2);
	assert_true(ring_take_answer(here, channel_here, &answer));
	assert_true(answer.refused && answer.cell == 3);
	assert_int_equal(ring_row_behind(here, channel_here, &answer, 16), 1);
	ring_take_row(here, channel_here, 1);
	assert_true(ring_take_answer(here, channel_here, &answer));
	assert_int_equal(answer.cell, 5);
	assert_int_equal(ring_row_behind(here, channel_here, &answer, 16), 1);
	ring_take_row(here, channel_here, 0);
	assert_true(ring_take_answer(here, channel_here, &answer));
	assert_int_equal(answer.cell, 6);
	assert_int_equal(ring_row_behind(here, channel_here, &answer, 16), 0);
	assert_true(ring_take_answer(here, channel_here, &answer));
	assert_int_equal(answer.owner, 5);
	assert_int_equal(ring_row_behind(here, channel_here, &answer, 16), 1);
	ring_take_row(here, channel_here, 1);
	expect_no_answer();
	/* What has not been answered is in no row. */
	for (i = 0; i < 2; i++) {
		assert_int_equal(ring_send_begin(here, channel_here, 1, &room), 0);
		ring_send_end(here, &room, 5);
	}
	answer.cell = 8;
	assert_int_equal(ring_row_behind(here, channel_here, &answer, 16), 1);
	answer.behind = 0;
	assert_int_equal(ring_row_behind(here, channel_here, &answer, 16), 0);
}

/* ---- completed before it is taken ---- */

/*
 * The mark is seen by who takes the message, is told with the answer, and is not left to the next one of that
 * cell.
 */
static void a_message_that_was_completed_early_says_so(void **state)
{
	struct ring_message message;
	struct ring_answer answer;
	uint32_t i;

	send_message(1, 1);
	send_message(1, 2);
	assert_true(ring_is_eager(here, channel_here, 0));
	ring_commit(here, channel_here, 0);
	assert_true(ring_peek(there, &message));
	assert_true(ring_is_committed(there, &message));
	receive_message(1, 1, false);
	assert_true(ring_peek(there, &message));
	assert_false(ring_is_committed(there, &message));
	receive_message(1, 2, false);
	assert_true(ring_take_answer(here, channel_here, &answer));
	assert_true(answer.committed && !answer.refused && answer.cell == 0);
	assert_true(ring_take_answer(here, channel_here, &answer));
	assert_false(answer.committed);
	for (i = 3; i <= CHANNEL_CELLS + 1; i++) {
		send_message(1, i);
		assert_true(ring_peek(there, &message));
		assert_false(ring_is_committed(there, &message));
		receive_message(1, i, false);
		assert_true(ring_take_answer(here, channel_here, &answer));
		assert_false(answer.committed);
	}
}

/* ---- sleeping ---- */

static void a_sleeper_is_rung_for_a_message_once(void **state)
{
	ring_sleep(there);
	send_message(1, 1);
	send_message(1, 2);
	assert_int_equal(rung[1], 1);
	ring_awake(there);
	send_message(1, 3);
	assert_int_equal(rung[1], 1);
	assert_int_equal(rung[0], 0);
}

static void who_does_not_wait_for_answers_sleeps_on(void **state)
{
	send_message(1, 1);
	ring_sleep(here);
	receive_message(1, 1, false);
	assert_int_equal(rung[0], 0);
	assert_true(ring_any_answer(here));
	/* And messages to it wake it. */
	assert_int_equal(try_send_message(there, channel_there, 1, 9), 0);
	assert_int_equal(rung[0], 1);
}

static void who_waits_for_answers_is_rung_once(void **state)
{
	send_message(1, 1);
	send_message(1, 2);
	assert_false(ring_await_answers(here, channel_here));
	receive_message(1, 1, false);
	assert_int_equal(rung[0], 0);	/* awake still */
	take_answer(1, false);
	ring_sleep(here);
	receive_message(1, 2, false);
	assert_int_equal(rung[0], 1);
	send_message(1, 3);
	receive_message(1, 3, false);
	assert_int_equal(rung[0], 1);	/* and has been woken */
}

static void who_comes_to_wait_for_answers_asleep_is_rung_too(void **state)
{
	send_message(1, 1);
	ring_sleep(here);
	assert_false(ring_await_answers(here, channel_here));
	receive_message(1, 1, false);
	assert_int_equal(rung[0], 1);
}

/* The answer came between sending and waiting: no bell will ring. */
static void a_thread_that_waits_too_late_learns_so(void **state)
{
	send_message(1, 1);
	ring_sleep(here);
	receive_message(1, 1, false);
	assert_int_equal(rung[0], 0);
	assert_true(ring_await_answers(here, channel_here));
}

static void who_falls_asleep_too_late_finds_the_answer(void **state)
{
	send_message(1, 1);
	assert_false(ring_await_answers(here, channel_here));
	receive_message(1, 1, false);
	ring_sleep(here);
	assert_true(ring_any_answer(here));
}

/* Nothing was sent, or everything is answered: waiting has no effect, also on a later sleep. */
static void who_has_nothing_to_wait_for_sleeps_on(void **state)
{
	ring_sleep(here);
	assert_false(ring_await_answers(here, channel_here));
	send_message(1, 1);
	receive_message(1, 1, false);
	assert_int_equal(rung[0], 0);
	ring_awake(here);
	take_answer(1, false);
	assert_false(ring_await_answers(here, channel_here));
	ring_sleep(here);
	send_message(1, 2);
	receive_message(1, 2, false);
	assert_int_equal(rung[0], 0);
	assert_false(ring_await_answers(here, channel_here + 1));
}

/* The sender may sleep for something else, but has to send it another way, and soon. */
static void a_refusal_wakes_who_does_not_wait_for_answers(void **state)
{
	send_message(1, 1);
	send_message(1, 2);
	ring_sleep(here);
	receive_message(1, 1, false);
	assert_int_equal(rung[0], 0);
	receive_message(1, 2, true);
	assert_int_equal(rung[0], 1);
}

static void several_messages_are_answered_by_one_ring(void **state)
{
	struct ring_message message;
	uint32_t i;

	for (i = 0; i < 10; i++)
		send_message(1, i);
	ring_await_answers(here, channel_here);
	ring_sleep(here);
	for (i = 0; i < 10; i++) {
		assert_true(ring_peek(there, &message));
		ring_finish(there, &message, false);
	}
	assert_false(ring_bells_are_due(there));
	ring_notify_answers(there);
	assert_true(ring_bells_are_due(there));
	ring_wake_peers(there);
	assert_int_equal(rung[0], 1);
	ring_sleep(here);
	ring_notify_answers(there);	/* of nothing new */
	assert_false(ring_bells_are_due(there));
}

/* ---- bells ---- */

static void send_quietly(uint32_t number)
{
	struct ring_room room;

	assert_int_equal(ring_send_begin(here, channel_here, 1, &room), 0);
	fill(room.data, 1, number);
	ring_send_end(here, &room, number + 1);
}

/* Sending is no system call: under the lock of a QP no bell is rung. */
static void a_bell_is_noted_and_rung_when_the_caller_says(void **state)
{
	send_quietly(1);
	assert_false(ring_bells_are_due(here));	/* no process sleeps */
	ring_sleep(there);
	send_quietly(2);
	assert_true(ring_bells_are_due(here));
	assert_false(ring_bells_are_due(there));
	assert_int_equal(rung[1], 0);
	send_quietly(3);
	ring_wake_peers(here);
	assert_int_equal(rung[1], 1);
	assert_false(ring_bells_are_due(here));
	ring_wake_peers(here);
	send_quietly(4);
	assert_false(ring_bells_are_due(here));
	assert_int_equal(rung[1], 1);
	assert_int_equal(rung[0], 0);
}

/* Also where the number of the sleep comes round. */
static void each_sleep_has_one_bell(void **state)
{
	unsigned i;

	atomic_store(&side[1]->asleep, UINT32_MAX - 19 * (1u << ASLEEP_BITS) - ASLEEP_MASK);
	for (i = 0; i < 40; i++) {
		ring_sleep(there);
		send_message(1, i);
		send_message(1, i);
		assert_int_equal(send_one(here, channel_here, 20, i), 0);
		assert_int_equal(rung[1], i + 1);
		ring_awake(there);
		send_message(1, i);
		assert_int_equal(rung[1], i + 1);
	}
	/* Falling asleep again without having been awake begins another sleep. */
	ring_sleep(there);
	send_message(1, i);
	ring_sleep(there);
	send_message(1, i);
	assert_int_equal(rung[1], i + 2);
}

static void who_comes_to_wait_for_answers_is_rung_although_it_was(void **state)
{
	send_message(1, 1);
	send_message(1, 2);
	ring_sleep(here);
	assert_int_equal(try_send_message(there, channel_there, 1, 9), 0);
	assert_int_equal(rung[0], 1);
	assert_false(ring_await_answers(here, channel_here));
	receive_message(1, 1, false);
	assert_int_equal(rung[0], 2);
	/* The same sleep: no second bell. */
	receive_message(1, 2, false);
	assert_int_equal(try_send_message(there, channel_there, 1, 9), 0);
	assert_int_equal(rung[0], 2);
}

static void a_bell_of_a_channel_that_is_gone_is_not_rung(void **state)
{
	ring_sleep(there);
	send_quietly(1);
	assert_true(ring_bells_are_due(here));
	ring_remove(here, channel_here);
	ring_wake_peers(here);
	assert_int_equal(rung[1], 0);
	assert_false(ring_bells_are_due(here));
}

/* ---- garbage ---- */

static uint32_t random_word(uint64_t *random)
{
	static const uint32_t special[] = { 0, 1, 27, 28, 29, 52, 53, 64, CHANNEL_CELLS,
					    CHANNEL_DATA_BYTES, CHANNEL_DATA_BYTES - 1,
					    LINK_BYTES_MAX, LINK_BYTES_MAX + 1, 0xffffff,
					    1u << 24, UINT32_MAX };

	return test_random(random) % 2 ? (uint32_t)test_random(random) :
					  special[test_random(random) % 16];
}

/* The peer writes what it likes into its side, and nowhere else. */
static void scribble(uint64_t *random, uint32_t next_cell)
{
	struct channel_cell *cell = &side[1]->cell[(next_cell + test_random(random) % 3) %
						   CHANNEL_CELLS];

	switch (test_random(random) % 8) {
	case 0:
		side[1]->consumed = random_word(random);
		break;
	case 1:
		side[1]->refused[test_random(random) % (CHANNEL_CELLS / 64)] = test_random(random);
		break;
	case 2:
		side[1]->reach = random_word(random);
		side[1]->asleep = random_word(random);
		break;
	case 3:
		cell->taken = random_word(random);
		break;
	case 4:
		cell->message.offset = random_word(random);
		break;
	case 5:
		cell->bytes_route = random_word(random);
		break;
	case 6:
		cell->sequence = test_random(random) % 4 ? next_cell + 1 : random_word(random);
		break;
	default:
		side[1]->data[test_random(random) % CHANNEL_DATA_BYTES] =
			(uint8_t)test_random(random);
		break;
	}
}

static uint32_t sum_of(const uint8_t *data, size_t bytes)
{
	uint32_t sum = 0;

	while (bytes--)
		sum += *data++;
	return sum;
}

static bool lies_in_side(const uint8_t *data, size_t bytes)
{
	return data >= side[1]->data && bytes <= CHANNEL_DATA_BYTES &&
	       data <= side[1]->data + CHANNEL_DATA_BYTES - bytes;
}

static uint32_t hear_garbage(void)
{
	struct ring_message message;
	uint32_t sum = 0;
	unsigned n;

	for (n = 0; n < 4 && ring_peek(here, &message); n++) {
		if (message.bytes <= RING_INSIDE)
			assert_ptr_equal(message.data, message.inside);
		else
			assert_true(lies_in_side(message.data, message.bytes));
		sum += sum_of(message.data, message.bytes);
		ring_finish(here, &message, n & 1);
		ring_notify_answers(here);
		ring_wake_peers(here);
	}
	return sum;
}

/*
 * Whatever the peer claims, messages complete once and in order, and received data lies inside the
 * ring.
 */
static void garbage_stays_within_bounds(void **state)
{
	struct ring_link *rings = ring_of(here);
	uint32_t sent = 0, completed = 0, sum = 0, round, n;
	struct ring_answer answered;
	struct datagram in[16];
	uint64_t random = 99;

	for (round = 0; round < 60000; round++) {
		uint32_t next = rings->channel[channel_here]->consumer.taken;

		scribble(&random, next);
		if (round % 3 == 0)
			sent += !try_send_message(here, channel_here, random_word(&random) % 300,
						  sent);
		if (round % 4 == 0)
			(void)try_send_message(there, channel_there, random_word(&random) % 70000,
					       round);
		if (round % 5 == 0)
			(void)send_one(there, channel_there, 16 + random_word(&random) % 200,
				       round);
		sum += hear_garbage();
		here->ops->receive(here, in, 16, &n);
		while (n--)
			sum += sum_of(in[n].data, in[n].bytes);
		while (test_random(&random) % 8 && ring_take_answer(here, channel_here, &answered))
			assert_int_equal(answered.owner, ++completed);
		assert_true(completed <= sent);
	}
	ring_remove(here, channel_here);
	while (ring_take_answer_lost(here, channel_here, &answered))
		assert_int_equal(answered.owner, ++completed);
	assert_int_equal(completed, sent);
	assert_true(sent > 1000 && sum != 1);
	assert_true(counter_get(&counters, COUNTER_RX_MALFORMED) > 100);
}

/* ---- threads ---- */

#define SENDERS 2u
#define RACE_COUNT	30000u
#define RACE_SENDS	10000u

static size_t race_size(uint32_t number)
{
	return 8 + number * 37 % 300;
}

static void *tell_race(void *argument)
{
	uint32_t sender = *(uint32_t *)argument, i;
	struct ring_room room;

	for (i = 0; i < RACE_COUNT; i++) {
		size_t bytes = race_size(i);

		while (ring_send_begin(here, channel_here, bytes, &room))
			sched_yield();
		if (i % 50 == 17) {
			ring_send_cancel(&room);
			while (ring_send_begin(here, channel_here, bytes, &room))
				sched_yield();
		}
		fill(room.data, bytes, i);
		room.head[0] = sender;
		room.head[1] = i;
		ring_send_end(here, &room, 1 + sender + SENDERS * i);
	}
	return NULL;
}

static void *send_race(void *argument)
{
	uint32_t i;

	for (i = 0; i < RACE_SENDS; i++)
		while (send_one(here, channel_here, mixed_size(i), i) == EAGAIN)
			sched_yield();
	return NULL;
}

/* It answers, and by messages too: so that what they say of ours is read. */
static void *hear_race(void *argument)
{
	uint32_t next[SENDERS] = {0}, total = 0, received = 0, back = 0;
	struct ring_answer answered;
	struct ring_message message;
	static uint8_t data[4096];

	while (total < SENDERS * RACE_COUNT || received < RACE_SENDS) {
		bool found = receive(16, &received, mixed_size) > 0;

		while (ring_peek(there, &message)) {
			uint32_t from = message.head[0], number = message.head[1];

			assert_in_range(from, 0, SENDERS - 1);
			assert_int_equal(number, next[from]++);
			assert_int_equal(message.bytes, race_size(number));
			fill(data, message.bytes, number);
			assert_memory_equal(message.data, data, message.bytes);
			ring_finish(there, &message, is_refused(number + from));
			if (++total % 7 == 0)
				ring_notify_answers(there);
			if (total % 64 == 0 && !try_send_message(there, channel_there, 4, back))
				back++;
			found = true;
		}
		ring_notify_answers(there);
		while (ring_take_answer(there, channel_there, &answered))
			;
		if (!found)
			sched_yield();
	}
	return NULL;
}

static void racing_senders_get_their_answers(void **state)
{
	uint32_t completed[SENDERS] = {0}, sender[SENDERS], total = 0, i;
	pthread_t thread[SENDERS + 2];
	struct ring_answer answered;
	struct ring_message message;

	for (i = 0; i < SENDERS; i++) {
		sender[i] = i;
		assert_int_equal(pthread_create(&thread[i], NULL, tell_race, &sender[i]), 0);
	}
	assert_int_equal(pthread_create(&thread[SENDERS], NULL, send_race, NULL), 0);
	assert_int_equal(pthread_create(&thread[SENDERS + 1], NULL, hear_race, NULL), 0);
	while (total < SENDERS * RACE_COUNT) {
		uint32_t before = total;

		while (ring_peek(here, &message))
			answer(here, &message, false);
		while (ring_take_answer(here, channel_here, &answered)) {
			uint32_t from = (answered.owner - 1) % SENDERS,
				 number = (answered.owner - 1) / SENDERS;

			assert_int_equal(number, completed[from]++);
			assert_int_equal(answered.refused, is_refused(number + from));
			total++;
		}
		if (total == before)
			sched_yield();
	}
	for (i = 0; i < SENDERS + 2; i++)
		pthread_join(thread[i], NULL);
	while (ring_peek(here, &message))
		answer(here, &message, false);
	expect_no_answer();
}

/* ---- threads that sleep ---- */

#define SLEEPS 8000u

static sem_t bell, told_bell;
static _Atomic bool finished;
static _Atomic uint32_t answers, rounds;

static void ring_bell(int bell_fd)
{
	if (bell_fd == 1000)
		sem_post(&bell);
	else
		sem_post(&told_bell);
}

static bool sleep_on(sem_t *sem, unsigned limit_s)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += limit_s;
	while (sem_timedwait(sem, &until))
		if (errno != EINTR)
			return false;
	return true;
}

/* The process there: sleeps until something comes, receives it, answers. */
static void *hear_asleep(void *argument)
{
	struct ring_message message;
	uint64_t random = 1;

	while (!atomic_load(&finished)) {
		while (ring_peek(there, &message)) {
			unsigned pause = test_random(&random) % 8 ? 0 : test_random(&random) % 4;

			while (pause--)
				sched_yield();
			ring_finish(there, &message, false);
		}
		ring_notify_answers(there);
		ring_wake_peers(there);
		ring_sleep(there);
		atomic_thread_fence(memory_order_seq_cst);
		if (!ring_pending(there) && !atomic_load(&finished) && !sleep_on(&told_bell, 60))
			fail_msg("a message did not wake its receiver");
		ring_awake(there);
	}
	return NULL;
}

/* The worker here: settles, and sleeps now and then. */
static void *settle_asleep(void *argument)
{
	struct ring_answer answered;
	uint64_t random = 2;

	while (!atomic_load(&finished)) {
		while (ring_take_answer(here, channel_here, &answered))
			atomic_fetch_add(&answers, 1);
		if (test_random(&random) % 4 == 0)
			sched_yield();
		ring_sleep(here);
		atomic_thread_fence(memory_order_seq_cst);
		if (!ring_any_answer(here) && !atomic_load(&finished) && !sleep_on(&bell, 60))
			fail_msg("an answer that somebody waits for did not wake the worker");
		ring_awake(here);
	}
	return NULL;
}

/* Another thread, which arms a CQ of its own at about the time when a message is sent. */
static void *await_asleep(void *argument)
{
	uint32_t seen = 0;

	while (!atomic_load(&finished)) {
		if (atomic_load(&rounds) == seen)
			continue;
		seen = atomic_load(&rounds);
		if (ring_await_answers(here, channel_here))
			sem_post(&bell);
	}
	return NULL;
}

static void nobody_waits_for_an_answer_that_has_come(void **state)
{
	void *(*const run[])(void *) = { hear_asleep, settle_asleep, await_asleep };
	pthread_t thread[3];
	uint32_t i;

	ring_of(here)->wake = ring_of(there)->wake = ring_bell;
	sem_init(&bell, 0, 0);
	sem_init(&told_bell, 0, 0);
	answers = rounds = 0;
	finished = false;
	for (i = 0; i < 3; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, run[i], NULL), 0);
	for (i = 0; i < SLEEPS; i++) {
		atomic_store(&rounds, i + 1);
		send_message(i % 40, i);
		if (ring_await_answers(here, channel_here))
			sem_post(&bell);
		while (atomic_load(&answers) <= i)
			sched_yield();
	}
	atomic_store(&finished, true);
	sem_post(&bell);
	sem_post(&told_bell);
	for (i = 0; i < 3; i++)
		pthread_join(thread[i], NULL);
	assert_int_equal(answers, SLEEPS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(an_answer_is_known_from_the_message_that_came_behind_it),
		TEST(answers_in_a_row_are_those_of_one_owner),
		TEST(a_message_that_was_completed_early_says_so),
		TEST(a_sleeper_is_rung_for_a_message_once),
		TEST(who_does_not_wait_for_answers_sleeps_on),
		TEST(who_waits_for_answers_is_rung_once),
		TEST(who_comes_to_wait_for_answers_asleep_is_rung_too),
		TEST(a_thread_that_waits_too_late_learns_so),
		TEST(who_falls_asleep_too_late_finds_the_answer),
		TEST(who_has_nothing_to_wait_for_sleeps_on),
		TEST(a_refusal_wakes_who_does_not_wait_for_answers),
		TEST(several_messages_are_answered_by_one_ring),
		TEST(a_bell_is_noted_and_rung_when_the_caller_says),
		TEST(each_sleep_has_one_bell),
		TEST(who_comes_to_wait_for_answers_is_rung_although_it_was),
		TEST(a_bell_of_a_channel_that_is_gone_is_not_rung),
		TEST(garbage_stays_within_bounds),
		TEST(racing_senders_get_their_answers),
		TEST(nobody_waits_for_an_answer_that_has_come),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
