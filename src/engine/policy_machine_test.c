/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The policy of progress in virtual time, on one, two and four cores, beside hogs: no packet waits
 * where nobody is going to receive it, and nobody is woken for nothing (docs/progress.md has the
 * bounds). The machine is a model, fake_machine_test.h.
 */
#include "engine/fake_machine_test.h"

#define SPAN_NS		(200 * MS)
#define LEARN_NS	(20 * MS)	/* until every habit is known */
#define LOOK_NS		(3200 * US)	/* the longest: look_min_ns, doubled until look_max_ns is reached */
/* A thread that spins on memory lost its processor right after a look, which counts as polling for a while. */
#define BOUND_NS	(policy_numbers.away_ns + LOOK_NS + policy_numbers.preempted_ns + 4 * SLACK_NS)

static struct machine machine;

static const char *const kind_name[APP_KINDS] = {
	[APP_SPINS] = "spins", [APP_WAITS] = "waits", [APP_EPOLLS] = "sleeps in epoll",
	[APP_MEMORY] = "spins on memory", [APP_COMPUTES] = "computes", [APP_COPIES] = "copies",
};

/* On each machine, alone and with a hog per core. */
static void on_machines(enum app_kind kind, void (*check)(void))
{
	unsigned cores, hogs;

	for (cores = 1; cores <= CORES_MAX; cores *= 2)
		for (hogs = 0; hogs <= cores; hogs += cores) {
			machine_init(&machine, cores, hogs, kind);
			machine_measure(&machine, LEARN_NS);
			assert_true(machine.neglect_max_ns <= BOUND_NS);
			machine_measure(&machine, SPAN_NS);
			check();
		}
}

/* In thousandths of one core. */
static unsigned share_of(uint64_t run_ns)
{
	return (unsigned)(run_ns * 1000 / (machine.now_ns - machine.since_ns));
}

static void only_looks(void)
{
	assert_int_equal(machine.policy.state, WORKER_STANDBY);
	assert_in_range(machine.worker_wakes, 1, SPAN_NS / LOOK_NS + 1);
	assert_int_equal(machine.neglect_max_ns, 0);
	assert_true(machine.done > 200);
}

static void who_spins_has_no_worker_woken(void **state)
{
	on_machines(APP_SPINS, only_looks);
}

static void who_copies_for_long_has_no_worker_woken(void **state)
{
	on_machines(APP_COPIES, only_looks);
}

static void wakes_nobody_for_nothing(void)
{
	uint64_t useless_ns = machine.worker_run_ns + machine.useless_waits * WAKE_COST_NS;

	assert_in_range(share_of(useless_ns), 0, 10);
	assert_true(machine.useless_waits * 100 <= machine.done);
	assert_int_equal(machine.doorbells, 0);
	assert_int_equal(machine.neglect_max_ns, 0);
	assert_true(machine.done > 2000);
}

/* The goal is 5 % of a core; the looks of the worker take half of one. */
static void who_waits_for_events_is_woken_once_a_message(void **state)
{
	on_machines(APP_WAITS, wakes_nobody_for_nothing);
}

/* As perftest does: one channel for each CQ, and mostly one of the two has its event already. */
static void two_notifications_a_wait_ring_for_nobody(void **state)
{
	unsigned cores;

	for (cores = 1; cores <= CORES_MAX; cores *= 2) {
		machine_init(&machine, cores, cores, APP_WAITS);
		machine.notifies = 2;
		machine_measure(&machine, LEARN_NS);
		machine_measure(&machine, SPAN_NS);
		wakes_nobody_for_nothing();
	}
}

static void worker_serves_each(void)
{
	assert_int_equal(machine.policy.state, WORKER_ACTIVE);
	/* It sleeps at most while it doubts a wake-up. */
	assert_true(machine.neglect_max_ns <= policy_numbers.recent_ns + SLACK_NS + machine.wake_ns);
	assert_true(machine.worker_wakes <= machine.done + machine.done / 4 + 10);
	assert_true(machine.done > 200);
}

static void who_sleeps_in_epoll_has_the_worker(void **state)
{
	on_machines(APP_EPOLLS, worker_serves_each);
}

static void who_spins_on_memory_has_the_worker(void **state)
{
	on_machines(APP_MEMORY, worker_serves_each);
}

static void who_computes_has_the_worker(void **state)
{
	on_machines(APP_COMPUTES, worker_serves_each);
}

/* ---- changes ---- */

/* What the worker comes to be. */
static enum worker_state settled(enum app_kind kind)
{
	return kind == APP_SPINS || kind == APP_COPIES ? WORKER_STANDBY : WORKER_ACTIVE;
}

static void check_change(enum app_kind from, enum app_kind to, unsigned cores, unsigned hogs)
{
	machine_init(&machine, cores, hogs, from);
	machine_run(&machine, 40 * MS);
	machine_becomes(&machine, to);
	machine_measure(&machine, LEARN_NS);
	if (machine.neglect_max_ns > BOUND_NS)
		fail_msg("%s, then %s, on %u cores with %u hogs: %llu us", kind_name[from], kind_name[to],
			 cores, hogs, (unsigned long long)machine.neglect_max_ns / 1000);
	machine_measure(&machine, LEARN_NS);
	if (to != APP_WAITS && machine.policy.state != settled(to))
		fail_msg("%s, then %s, on %u cores with %u hogs: the worker's state is %d",
			 kind_name[from], kind_name[to], cores, hogs, machine.policy.state);
	if (to == APP_WAITS)
		assert_int_not_equal(machine.policy.state, WORKER_ACTIVE);
	assert_true(machine.neglect_max_ns <= policy_numbers.recent_ns + SLACK_NS + machine.wake_ns);
}

static void every_change_is_learnt(void **state)
{
	enum app_kind from, to;
	unsigned cores;

	for (from = 0; from < APP_KINDS; from++)
		for (to = 0; to < APP_KINDS; to++)
			for (cores = 1; from != to && cores <= CORES_MAX; cores *= 2) {
				check_change(from, to, cores, 0);
				check_change(from, to, cores, cores);
			}
}

/* ---- at random ---- */

static unsigned below(uint32_t *seed, unsigned limit)
{
	*seed = *seed * 1664525u + 1013904223u;
	return (*seed >> 8) % limit;
}

/* Whatever the application does, and however long a wake-up takes. */
static void no_wake_up_is_lost(void **state)
{
	uint32_t run, seed;
	unsigned cores, changes;

	for (run = 1; run <= 100; run++) {
		seed = run;
		cores = 1u << below(&seed, 3);
		machine_init(&machine, cores, below(&seed, 2 * cores + 1), below(&seed, APP_KINDS));
		machine.wake_ns = (1 + below(&seed, 200)) * US;
		machine.notifies = 1 + below(&seed, 3);
		machine.every_ns = (20 + below(&seed, 5000)) * US;
		for (changes = 0; changes < 30; changes++) {
			machine_run(&machine, below(&seed, 8000) * US);
			machine_becomes(&machine, below(&seed, APP_KINDS));
		}
		if (machine.neglect_max_ns > BOUND_NS + 2 * machine.wake_ns)
			fail_msg("run %u, %u cores, %u threads: %llu us", run, cores, machine.count,
				 (unsigned long long)machine.neglect_max_ns / 1000);
		machine_measure(&machine, LEARN_NS);
		if (machine.kind != APP_COMPUTES && !machine.done && machine.cores >= machine.count)
			fail_msg("run %u: nothing is done by one who %s", run, kind_name[machine.kind]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_spins_has_no_worker_woken),
		cmocka_unit_test(who_copies_for_long_has_no_worker_woken),
		cmocka_unit_test(who_waits_for_events_is_woken_once_a_message),
		cmocka_unit_test(two_notifications_a_wait_ring_for_nobody),
		cmocka_unit_test(who_sleeps_in_epoll_has_the_worker),
		cmocka_unit_test(who_spins_on_memory_has_the_worker),
		cmocka_unit_test(who_computes_has_the_worker),
		cmocka_unit_test(every_change_is_learnt),
		cmocka_unit_test(no_wake_up_is_lost),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
