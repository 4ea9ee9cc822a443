/* SPDX-License-Identifier: BSD-2-Clause */
/* Loss as time shows it: deadlines, backing off, retries, and what an answer to a probe says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/timer_heap.h"
#include "transport/loss.h"
#include "wire/psn.h"

#define MS	1000000ull
#define RTO	(1 * MS)
#define RETRIES	3

static struct loss loss_of(uint64_t now_ns)
{
	struct loss loss = { .progress_ns = now_ns, .sent_ns = now_ns };

	loss_start(&loss, RETRIES, RTO);
	return loss;
}

static void each_probe_waits_twice_as_long_up_to_a_limit(void **state)
{
	struct loss loss = loss_of(0);
	uint64_t delay_ns = RTO, last_ns = 0;
	int i;

	for (i = 0; i < 20; i++) {
		assert_true(loss_probe_deadline(&loss) == loss.sent_ns + delay_ns);
		loss.sent_ns += delay_ns;
		loss_probe(&loss, loss.sent_ns, MS);
		assert_true(loss_probe_deadline(&loss) == TIME_NEVER);	/* it is due: nothing to wait for */
		loss.probe_due = false;
		last_ns = delay_ns;
		delay_ns = delay_ns < 256 * MS ? 2 * delay_ns : delay_ns;
	}
	assert_true(last_ns == 256 * MS);
}

static void a_path_slower_than_the_limit_has_its_own_delay(void **state)
{
	struct loss loss = loss_of(0);

	loss.rto_ns = 400 * MS;
	assert_true(loss_probe_deadline(&loss) == 400 * MS);
	loss.probe_shift = 3;
	assert_true(loss_probe_deadline(&loss) == 400 * MS);
}

static void two_probes_and_a_silence_hold_the_rest(void **state)
{
	struct loss loss = loss_of(0);

	assert_false(loss_probe(&loss, 10 * MS, MS));	/* the first, however late */
	assert_true(loss_probe(&loss, 10 * MS, MS));
	loss_hold(&loss);
	assert_false(loss_probe(&loss, 20 * MS, MS));	/* held already */
	loss = loss_of(0);
	loss_probe(&loss, 1 * MS, MS);
	assert_false(loss_probe(&loss, 3 * MS - 1, MS));
	assert_true(loss_probe(&loss, 3 * MS, MS));
}

static void retries_are_for_silence_alone(void **state)
{
	struct loss loss = loss_of(0);
	int i, round;

	for (round = 0; round < 5; round++) {
		for (i = 0; i < RETRIES; i++)
			assert_true(loss_retry(&loss, (uint64_t)i * MS));
		assert_false(loss_retry(&loss, 9 * MS));
		loss_answered(&loss, RETRIES);
	}
	assert_int_equal(loss.progress_ns, 2 * MS);	/* an answer to nothing new restarts no timer */
	loss_progress(&loss, RETRIES, 7 * MS);
	assert_true(loss_ack_deadline(&loss, 5 * MS) == 12 * MS);
	assert_true(loss_ack_deadline(&loss, UINT64_MAX) == TIME_NEVER);
}

static void an_answer_brings_probes_back_to_their_pace(void **state)
{
	struct loss loss = loss_of(0);

	loss_probe(&loss, MS, MS);
	loss_probe(&loss, 2 * MS, MS);
	loss.probe_due = false;
	loss_answered(&loss, RETRIES);
	assert_true(loss_probe_deadline(&loss) == RTO);
	assert_int_equal(loss.probe_backoff, 0);
	/* Progress after a probe, twice: the probes may be too early. */
	loss.probe_shift = 1;
	loss_progress(&loss, RETRIES, 0);
	assert_true(loss_probe_deadline(&loss) == RTO);
	loss.probe_shift = 1;
	loss_progress(&loss, RETRIES, 0);
	assert_true(loss_probe_deadline(&loss) == 2 * RTO);
}

static void an_answer_to_the_probe_alone_says_lost(void **state)
{
	static const uint32_t end[] = { 10, 0, PSN_MASK };
	struct loss loss = loss_of(0);
	unsigned i;

	for (i = 0; i < sizeof(end) / sizeof(end[0]); i++) {
		uint32_t before = psn_add(end[i], PSN_MASK), sent = psn_add(end[i], 5);

		loss_probe_sent(&loss, end[i], MS);
		assert_int_equal(loss_probe_answered(&loss, before, sent, MS, 3 * MS), PROBE_NOTHING);
		assert_true(loss.probing);
		assert_int_equal(loss_probe_answered(&loss, end[i], sent, MS, 3 * MS), PROBE_LOST);
		/* said once */
		assert_int_equal(loss_probe_answered(&loss, end[i], sent, MS, 3 * MS), PROBE_NOTHING);
		loss_probe_sent(&loss, end[i], MS);
		/* nothing else is in flight */
		assert_int_equal(loss_probe_answered(&loss, end[i], end[i], MS, 3 * MS), PROBE_NOTHING);
	}
}

/* Sent at 1 ms. */
static void an_answer_to_more_than_the_probe_asks_for_another(void **state)
{
	static const struct {
		uint32_t una;
		uint64_t rtt_ns, now_ns;
		enum probe_says says;
	} row[] = {
		{ 11, 2 * MS, 2 * MS, PROBE_AGAIN },
		{ 14, 2 * MS, 9 * MS, PROBE_AGAIN },
		{ 11, 2 * MS, 2 * MS - 1, PROBE_NOTHING },	/* too soon for an answer to the probe */
		{ 11, 0, 9 * MS, PROBE_NOTHING },	/* it is not known what is too soon */
		{ 15, 2 * MS, 2 * MS, PROBE_NOTHING },	/* nothing is missing */
	};
	struct loss loss = loss_of(0);
	unsigned i;

	for (i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		loss_probe_sent(&loss, 10, MS);
		assert_int_equal(loss_probe_answered(&loss, row[i].una, 15, row[i].rtt_ns, row[i].now_ns),
				 row[i].says);
		assert_false(loss.probing);
	}
}

static void many_signs_of_one_loss_are_one(void **state)
{
	struct loss loss = loss_of(0);

	assert_true(loss_is_new(&loss, 0));
	assert_false(loss_is_new(&loss, 0));
	assert_true(loss_is_new(&loss, 1));
	loss_progress(&loss, RETRIES, MS);
	assert_true(loss_is_new(&loss, 1));
	loss_probe(&loss, MS, MS);
	assert_true(loss_is_new(&loss, 1));
	loss_hold(&loss);
	assert_true(loss_is_new(&loss, 1));
}

static void stopped_nothing_is_due(void **state)
{
	struct loss loss = loss_of(0);

	loss_hold(&loss);
	loss_probe_sent(&loss, 1, MS);
	loss_stop(&loss);
	assert_false(loss.hold || loss.probing || loss.probe_due);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_probe_waits_twice_as_long_up_to_a_limit),
		cmocka_unit_test(a_path_slower_than_the_limit_has_its_own_delay),
		cmocka_unit_test(two_probes_and_a_silence_hold_the_rest),
		cmocka_unit_test(retries_are_for_silence_alone),
		cmocka_unit_test(an_answer_brings_probes_back_to_their_pace),
		cmocka_unit_test(an_answer_to_the_probe_alone_says_lost),
		cmocka_unit_test(an_answer_to_more_than_the_probe_asks_for_another),
		cmocka_unit_test(many_signs_of_one_loss_are_one),
		cmocka_unit_test(stopped_nothing_is_due),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
