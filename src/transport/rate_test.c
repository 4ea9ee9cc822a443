/* SPDX-License-Identifier: BSD-2-Clause */
/* DCQCN's rate: cuts, the three ways up, and what may leave when. */
#include "transport/rate.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#define START	1000000000u	/* bytes a second */
#define NOW	1000000000u
#define PACKET	4096u

/* Bytes that leave until @until_ns, asked each microsecond. */
static uint64_t rate_send(struct rate *rate, uint64_t from_ns, uint64_t until_ns)
{
	uint64_t sent = 0;

	for (; from_ns < until_ns; from_ns += 1000)
		while (rate_allows(rate, PACKET, from_ns) && rate->current)
			sent += PACKET;
	return sent;
}

static void without_a_notification_there_is_no_limit(void **unused)
{
	struct rate rate = { 0 };

	for (unsigned i = 0; i < 100000; i++)
		assert_true(rate_allows(&rate, PACKET, NOW));
	assert_int_equal(rate.held_until_ns, 0);
}

static void the_first_notification_halves(void **unused)
{
	struct rate rate = { 0 };

	rate_cut(&rate, START, 0, NOW);
	assert_int_equal(rate.current, START / 2);
	assert_int_equal(rate.target, START);
	assert_int_equal(rate.alpha, RATE_ALPHA_ONE);
}

static void what_leaves_is_what_the_rate_says(void **unused)
{
	struct rate rate = { 0 };
	uint64_t sent;

	rate_cut(&rate, START, 0, NOW);
	sent = rate_send(&rate, NOW, NOW + 250000);	/* before the first step */
	assert_true(sent >= START / 2 / 4000);
	assert_true(sent <= START / 2 / 4000 + RATE_BURST_BYTES + 2 * PACKET);
	assert_false(rate_allows(&rate, PACKET, NOW + 249000));
	assert_true(rate.held_until_ns > NOW + 249000);
	assert_true(rate_allows(&rate, PACKET, rate.held_until_ns));
}

static void it_recovers_fast_and_then_slowly(void **unused)
{
	struct rate rate = { 0 };
	uint64_t expected = START / 2;

	rate_cut(&rate, START, 0, NOW);
	for (unsigned step = 1; step <= RATE_FAST; step++) {
		expected = (expected + START) / 2;
		rate_allows(&rate, 0, NOW + step * RATE_INCREASE_NS);
		assert_int_equal(rate.current, expected);
		assert_int_equal(rate.target, START);
	}
	rate_allows(&rate, 0, NOW + 6 * RATE_INCREASE_NS);
	assert_int_equal(rate.target, START + RATE_ADD);
	rate_allows(&rate, 0, NOW + 7 * RATE_INCREASE_NS);
	assert_int_equal(rate.target, START + 2 * RATE_ADD);
}

/* Both, time and bytes, beyond the threshold: ever larger steps. */
static void and_fast_again_when_nobody_minds(void **unused)
{
	struct rate rate = { 0 };
	uint64_t target;

	rate_cut(&rate, START, 0, NOW);
	rate.time_steps = rate.byte_steps = RATE_FAST;
	rate.bytes = RATE_INCREASE_BYTES - 1;
	rate_allows(&rate, 1, NOW);
	assert_int_equal(rate.byte_steps, RATE_FAST + 1);
	target = rate.target;
	rate_allows(&rate, 0, NOW + RATE_INCREASE_NS);
	assert_int_equal(rate.target, target + RATE_HYPER);
}

static void a_second_notification_cuts_less_after_a_pause(void **unused)
{
	struct rate at_once = { 0 }, later = { 0 };
	uint64_t before;

	rate_cut(&at_once, START, 0, NOW);
	rate_cut(&at_once, START, 0, NOW + 50000);
	assert_int_equal(at_once.current, START / 4);
	rate_cut(&later, START, 0, NOW);
	for (unsigned i = 0; i < 40; i++)	/* alpha falls by itself */
		rate_allows(&later, 0, NOW + i * RATE_ALPHA_NS);
	assert_true(later.alpha < RATE_ALPHA_ONE / 8);
	before = later.current;
	rate_cut(&later, START, 0, NOW + 40 * RATE_ALPHA_NS);
	assert_true(later.current > before * 15 / 16);
	assert_int_equal(later.target, before);
}

/* Steps are due by the time, whether or not something asked to leave meanwhile. */
static void a_pause_in_silence_is_a_pause(void **unused)
{
	struct rate busy = { 0 }, silent = { 0 };

	rate_cut(&busy, START, 0, NOW);
	rate_cut(&silent, START, 0, NOW);
	for (unsigned i = 0; i < 20; i++)
		rate_allows(&busy, 0, NOW + i * RATE_ALPHA_NS);
	rate_cut(&busy, START, 0, NOW + 20 * RATE_ALPHA_NS);
	rate_cut(&silent, START, 0, NOW + 20 * RATE_ALPHA_NS);
	assert_int_equal(silent.alpha, busy.alpha);
	assert_int_equal(silent.target, busy.target);
	assert_int_equal(silent.current, busy.current);
	assert_true(silent.current > START / 2);
}

static void it_ends_when_nobody_minds_twice_as_much(void **unused)
{
	struct rate rate = { 0 };
	uint64_t now_ns = NOW;

	rate_cut(&rate, START, 0, NOW);
	while (rate.current && now_ns < NOW + 10 * (uint64_t)NOW) {
		now_ns += 10000;
		rate_send(&rate, now_ns, now_ns + 1000);
	}
	assert_int_equal(rate.current, 0);
	assert_true(now_ns < NOW + (uint64_t)NOW);
	assert_true(rate_allows(&rate, UINT32_MAX, now_ns));
	rate_cut(&rate, START, 0, now_ns);
	assert_int_equal(rate.current, START / 2);
}

static void it_never_stops_altogether(void **unused)
{
	struct rate rate = { 0 };

	rate_cut(&rate, 0, 0, NOW);
	for (unsigned i = 0; i < 1000; i++)
		rate_cut(&rate, START, 0, NOW + i);
	assert_int_equal(rate.current, RATE_MIN);
	assert_true(rate_allows(&rate, PACKET, NOW + 1000));
	rate_allows(&rate, PACKET, NOW + 1000);
	assert_true(rate.held_until_ns < NOW + 2 * PACKET * (1000000000ull / RATE_MIN));
}

static void who_forges_notifications_does_not_stop_it(void **unused)
{
	struct rate rate = { 0 };

	for (unsigned i = 0; i < 1000; i++)
		rate_cut(&rate, START, START / 10, NOW + i);
	assert_int_equal(rate.current, START / 10);
}

/* After a pause of days no time is spent to make up for it. */
static void a_long_pause_is_no_work(void **unused)
{
	struct rate rate = { 0 };

	rate_cut(&rate, START, 0, NOW);
	rate_allows(&rate, 0, UINT64_MAX / 2);
	assert_true(rate.increase_ns > UINT64_MAX / 2 || !rate.current);
	assert_true(rate.alpha_ns > UINT64_MAX / 2 || !rate.current);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_a_notification_there_is_no_limit),
		cmocka_unit_test(the_first_notification_halves),
		cmocka_unit_test(what_leaves_is_what_the_rate_says),
		cmocka_unit_test(it_recovers_fast_and_then_slowly),
		cmocka_unit_test(and_fast_again_when_nobody_minds),
		cmocka_unit_test(a_second_notification_cuts_less_after_a_pause),
		cmocka_unit_test(a_pause_in_silence_is_a_pause),
		cmocka_unit_test(it_ends_when_nobody_minds_twice_as_much),
		cmocka_unit_test(it_never_stops_altogether),
		cmocka_unit_test(who_forges_notifications_does_not_stop_it),
		cmocka_unit_test(a_long_pause_is_no_work),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
