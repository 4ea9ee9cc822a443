/* SPDX-License-Identifier: BSD-2-Clause */
/* How long a message takes between two processes that answer each other, wherever they run. */
#include "engine/fake_pair_test.h"

#define LEARN_NS	(20 * MS)
#define SPAN_NS		(100 * MS)
#define APART_NS	(4 * US)
#define SHARED_NS	(8 * US)
#define BAD_NS		(20 * US)

static void each_has_a_core(bool late_yields, bool frequent_looks)
{
	machine_init(late_yields, frequent_looks);
	machine_run(LEARN_NS);
	assert_false(are_together());
	assert_true(machine_measure(SPAN_NS) < APART_NS);
}

/* Something took a core for a moment, and the scheduler did what it does then. */
static void both_come_to_one_core(void)
{
	unsigned i;

	for (i = 0; i < 2; i++) {
		struct process *process = &machine.process[i];

		process->worker.core = 1;
		process->app.core = 0;
		if (process->app.state == RUNNING)
			process->app.state = READY;
	}
}

/* The reply brings the ACK with it: one datagram for each message, and who polls has both. */
static void a_message_is_one_datagram_and_wakes_nobody(void **state)
{
	each_has_a_core(false, false);
	assert_true(machine.sends <= machine.done + machine.done / 100);
	assert_true(machine.looks <= 100);
	assert_int_equal(machine.process[0].policy.state, WORKER_STANDBY);
	assert_int_equal(machine.process[1].policy.state, WORKER_STANDBY);
}

/* Why ib_write_lat over UDP took 0.7 times ib_send_lat in one run and 6.4 times in the next. */
static void as_it_was_both_stayed_on_one_core_and_waited_for_yields(void **state)
{
	each_has_a_core(true, true);
	both_come_to_one_core();
	assert_true(machine_measure(SPAN_NS) > BAD_NS);
	assert_true(are_together());
}

static void the_scheduler_finds_the_idle_core(void **state)
{
	each_has_a_core(false, false);
	both_come_to_one_core();
	machine_run(LEARN_NS);
	assert_false(are_together());
	assert_true(machine_measure(SPAN_NS) < APART_NS);
}

/* A virtual machine, where a timer that is due soon takes long to set (docs/field-notes.md). */
static uint64_t pinned_ns(uint64_t hold_ns)
{
	machine_init(false, false);
	machine.costs = (struct costs){ .sleep_ns = 12 * US, .wake_ns = 16 * US, .switch_ns = 3 * US };
	machine.pinned = true;
	machine.hold_ns = hold_ns;
	machine_run(LEARN_NS);
	return machine_measure(SPAN_NS);
}

/* The worker takes the message and the core with it: its application, which has neither, replied too late. */
static void as_it_was_a_reply_had_no_time_to_get_the_core_back(void **state)
{
	assert_true(pinned_ns(20 * US) > BAD_NS);
}

static void who_shares_a_core_with_its_worker_replies_in_time(void **state)
{
	assert_true(pinned_ns(HOLD_NS) < APART_NS);
	assert_true(machine.sends <= machine.done + machine.done / 100);
}

/* Beside something that does run on the other core now and then: here the looks that there were. */
static void who_shares_a_core_with_its_peer_yields_soon(void **state)
{
	each_has_a_core(false, true);
	both_come_to_one_core();
	machine_run(LEARN_NS);
	assert_true(machine_measure(SPAN_NS) < SHARED_NS);
	assert_true(are_together());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_message_is_one_datagram_and_wakes_nobody),
		cmocka_unit_test(as_it_was_both_stayed_on_one_core_and_waited_for_yields),
		cmocka_unit_test(the_scheduler_finds_the_idle_core),
		cmocka_unit_test(as_it_was_a_reply_had_no_time_to_get_the_core_back),
		cmocka_unit_test(who_shares_a_core_with_its_worker_replies_in_time),
		cmocka_unit_test(who_shares_a_core_with_its_peer_yields_soon),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
