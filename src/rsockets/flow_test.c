/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The flow control of a stream: bounds of what may be sent, what a dishonest peer may not say,
 * and, in random play of a sender and a receiver over queues of any delay, that nothing overflows,
 * control messages never outnumber their reserve, and it never gets stuck.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <string.h>

#include "base/test_random.h"
#include "rsockets/flow.h"
#include "rsockets/iov.h"

static void a_message_fits_and_does_not_wrap(void **state)
{
	struct rs_flow_out out = { .size = 100, .limit = 10 };

	assert_int_equal(rs_flow_out_room(&out), 100);
	rs_flow_out_sent(&out, 70);
	assert_int_equal(rs_flow_out_room(&out), 30);
	assert_true(rs_flow_out_credit(&out, 60, 1));
	/* 90 are free, 30 of them before the end. */
	assert_int_equal(rs_flow_out_room(&out), 30);
	rs_flow_out_sent(&out, 30);
	assert_int_equal(rs_flow_out_room(&out), 60);
}

static void no_message_goes_out_without_a_receive_for_it(void **state)
{
	struct rs_flow_out out = { .size = 100, .limit = 2 };

	rs_flow_out_sent(&out, 1);
	rs_flow_out_sent(&out, 1);
	assert_int_equal(rs_flow_out_room(&out), 0);
	assert_true(rs_flow_out_credit(&out, 0, 1));
	assert_int_equal(rs_flow_out_room(&out), 98);
}

static void a_credit_for_what_was_not_sent_is_refused(void **state)
{
	struct rs_flow_out out = { .size = 100, .limit = 10 };

	rs_flow_out_sent(&out, 50);
	assert_false(rs_flow_out_credit(&out, 51, 1));
	assert_false(rs_flow_out_credit(&out, 50, 2));
	assert_true(rs_flow_out_credit(&out, 50, 1));
	assert_false(rs_flow_out_credit(&out, 49, 1));		/* takes back */
	assert_false(rs_flow_out_credit(&out, 50, 0));
	assert_int_equal(out.released, 50);
	assert_int_equal(out.taken, 1);
}

static void message_counts_may_wrap_around(void **state)
{
	struct rs_flow_out out = { .size = 100, .limit = 10, .messages = 0xfffffffe,
				   .taken = 0xfffffffe };

	for (int i = 0; i < 4; i++)
		rs_flow_out_sent(&out, 1);
	assert_int_equal(out.messages, 2);
	assert_false(rs_flow_out_credit(&out, 4, 3));
	assert_true(rs_flow_out_credit(&out, 4, 2));
	assert_int_equal(out.taken, 2);
}

static void what_cannot_lie_in_the_ring_is_refused(void **state)
{
	struct rs_flow_in in = { .size = 100, .limit = 10 };

	assert_false(rs_flow_in_arrived(&in, 0));
	assert_false(rs_flow_in_arrived(&in, 101));
	assert_true(rs_flow_in_arrived(&in, 80));
	assert_false(rs_flow_in_arrived(&in, 21));		/* over the end, and too many */
	in.taken = 80;
	assert_false(rs_flow_in_arrived(&in, 21));		/* over the end */
	assert_true(rs_flow_in_arrived(&in, 20));
	assert_true(rs_flow_in_arrived(&in, 80));
	assert_false(rs_flow_in_arrived(&in, 1));		/* full */
}

/*
 * One direction: messages on their way (lengths; 0 stands for nothing) and CREDITs on their way
 * back. Each side looks at what came only now and then.
 */
struct play {
	struct rs_flow_out out;
	struct rs_flow_in in;
	size_t messages[512];
	unsigned sent, seen;
	struct { uint64_t bytes; uint32_t messages; } credits[512];
	unsigned credits_sent, credits_received;
};

static size_t below(uint64_t *random, size_t limit)
{
	return (size_t)(test_random(random) % limit);
}

static void receiver_looks(struct play *play)
{
	while (play->seen != play->sent)
		assert_true(rs_flow_in_arrived(&play->in, play->messages[play->seen++ % 512]));
	if (!rs_flow_in_credit_due(&play->in))
		return;
	play->credits[play->credits_sent % 512].bytes = play->in.taken;
	play->credits[play->credits_sent++ % 512].messages = play->in.messages;
	rs_flow_in_credit_sent(&play->in);
	assert_true(play->credits_sent - play->credits_received <= RS_CONTROL_RESERVE / 2);
}

static void sender_looks(struct play *play)
{
	for (; play->credits_received != play->credits_sent; play->credits_received++)
		assert_true(rs_flow_out_credit(
			&play->out, play->credits[play->credits_received % 512].bytes,
			play->credits[play->credits_received % 512].messages));
}

static bool sender_sends(struct play *play, uint64_t *random)
{
	size_t room = rs_flow_out_room(&play->out), bytes;

	if (!room)
		return false;
	bytes = 1 + below(random, below(random, 4) ? 3 : room);
	bytes = rs_least(bytes, room);
	play->messages[play->sent++ % 512] = bytes;
	rs_flow_out_sent(&play->out, bytes);
	assert_true(play->sent - play->seen <= play->out.limit);
	return true;
}

static void play_once(uint64_t seed)
{
	struct play play = { 0 };
	uint64_t random = seed;

	play.out.size = play.in.size = 1 + (uint32_t)below(&random, 300);
	play.out.limit = play.in.limit = 1 + (uint32_t)below(&random, 40);
	for (int step = 0; step < 2000; step++) {
		switch (below(&random, 4)) {
		case 0:
			receiver_looks(&play);
			break;
		case 1:
			sender_looks(&play);
			break;
		case 2:
			play.in.taken += below(&random, rs_flow_in_available(&play.in) + 1);
			break;
		default:
			sender_sends(&play, &random);
		}
	}
	/* When all is read and everybody looks, there is room again. */
	receiver_looks(&play);
	play.in.taken = play.in.arrived;
	receiver_looks(&play);
	sender_looks(&play);
	assert_true(rs_flow_out_room(&play.out) > 0);
}

static void nothing_overflows_and_nothing_gets_stuck(void **state)
{
	for (uint64_t seed = 1; seed <= 500; seed++)
		play_once(seed);
}

static void pieces_are_gathered_and_scattered_in_order(void **state)
{
	char a[3] = "abc", b[1] = "d", c[4] = "efgh", to[9] = { 0 };
	struct iovec iov[] = { { a, 3 }, { NULL, 0 }, { b, 1 }, { c, 4 } };
	struct rs_cursor cursor;

	assert_int_equal(rs_cursor_init(&cursor, iov, 4), 0);
	assert_int_equal(cursor.left, 8);
	rs_cursor_gather(&cursor, to, 2);
	rs_cursor_gather(&cursor, to + 2, 5);
	rs_cursor_gather(&cursor, to + 7, 1);
	assert_string_equal(to, "abcdefgh");
	assert_int_equal(cursor.left, 0);
	assert_int_equal(rs_cursor_init(&cursor, iov, 4), 0);
	rs_cursor_scatter(&cursor, "12345678", 8);
	assert_memory_equal(a, "123", 3);
	assert_memory_equal(b, "4", 1);
	assert_memory_equal(c, "5678", 4);
}

static void lengths_that_overflow_are_refused(void **state)
{
	char byte;
	struct iovec iov[] = { { &byte, SSIZE_MAX }, { &byte, 1 } };
	struct rs_cursor cursor;

	assert_int_equal(rs_cursor_init(&cursor, iov, 2), EINVAL);
	assert_int_equal(rs_cursor_init(&cursor, iov, IOV_MAX + 1), EMSGSIZE);
}

static void a_read_ends_at_the_urgent_byte_and_passes_it_next(void **state)
{
	struct rs_flow_in in = { .size = 64 };
	struct rs_urgent urgent = { .there = false };

	assert_int_equal(rs_urgent_limit(&urgent, 0, 10), 10);
	rs_flow_in_arrived(&in, 5);
	rs_urgent_arrived(&urgent, &in);
	rs_flow_in_arrived(&in, 5);
	assert_int_equal(urgent.at, 4);
	assert_int_equal(rs_urgent_limit(&urgent, 0, 10), 4);
	assert_int_equal(rs_urgent_limit(&urgent, 3, 7), 1);
	assert_int_equal(rs_urgent_limit(&urgent, 4, 6), 6);
	assert_int_equal(rs_urgent_limit(&urgent, 5, 5), 5);
	assert_false(rs_urgent_is_skipped(&urgent, 3, false));
	assert_true(rs_urgent_is_skipped(&urgent, 4, false));
	assert_false(rs_urgent_is_skipped(&urgent, 4, true));
	assert_true(rs_urgent_waits(&urgent, 4));
	assert_false(rs_urgent_waits(&urgent, 5));
	urgent.taken = true;
	assert_false(rs_urgent_waits(&urgent, 4));
	rs_urgent_arrived(&urgent, &in);	/* a later one: the first is a byte like others */
	assert_int_equal(rs_urgent_limit(&urgent, 0, 10), 9);
	assert_false(rs_urgent_is_skipped(&urgent, 4, false));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_message_fits_and_does_not_wrap),
		cmocka_unit_test(no_message_goes_out_without_a_receive_for_it),
		cmocka_unit_test(a_credit_for_what_was_not_sent_is_refused),
		cmocka_unit_test(message_counts_may_wrap_around),
		cmocka_unit_test(what_cannot_lie_in_the_ring_is_refused),
		cmocka_unit_test(nothing_overflows_and_nothing_gets_stuck),
		cmocka_unit_test(pieces_are_gathered_and_scattered_in_order),
		cmocka_unit_test(lengths_that_overflow_are_refused),
		cmocka_unit_test(a_read_ends_at_the_urgent_byte_and_passes_it_next),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
