/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * For policy_machine_test.c: a machine in virtual time, and on it a process whose threads are an
 * application and the worker, which asks the policy as worker.c and wait.c do. Beside it run hogs, which
 * never sleep. The peer is not on this machine: it answers each message after a fixed time.
 *
 * The scheduler: cores take the runnable thread that has run least, for a time slice; a thread that is
 * woken becomes runnable after a latency and preempts one that has run clearly more.
 */
#ifndef VERBATIM_ENGINE_FAKE_MACHINE_TEST_H
#define VERBATIM_ENGINE_FAKE_MACHINE_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/policy.h"

#define US		1000ull
#define MS		1000000ull
#define NEVER		UINT64_MAX
#define CORES_MAX	4u
#define THREADS_MAX	12u
#define COMING_MAX	64u

#define SLICE_NS	(3 * MS)
#define AHEAD_NS	(1 * MS)	/* a woken thread preempts one that has run so much more */
#define SLACK_NS	(55 * US)	/* a sleep takes longer than asked for */
#define ROUND_NS	700u		/* an empty round */
#define PACKET_NS	500u
#define CALL_NS		300u
#define SPIN_NS		2000u		/* of an application on its memory */
#define WAKE_COST_NS	(8 * US)	/* processor time of a sleep and a wake-up */
#define COPY_NS		(300 * US)
#define ANSWER_NS	(25 * US)	/* the peer's message; its ACK comes after 10 us */

enum { ON_SOCKETS = 1, ON_DOORBELL = 2, ON_NAP = 4, ON_EVENT = 8 };

/* How the application waits for a message, to answer it. */
enum app_kind {
	APP_SPINS,	/* on ibv_poll_cq() */
	APP_WAITS,	/* in ibv_get_cq_event() */
	APP_EPOLLS,	/* on the channel's descriptor */
	APP_MEMORY,	/* polls for its completion, then spins on memory: ib_write_lat */
	APP_COMPUTES,	/* makes no call for long; the peer sends nevertheless */
	APP_COPIES,	/* polls, and each round takes long */
	APP_KINDS
};

enum app_phase { APP_BEGIN, APP_ROUND, APP_ARMED, APP_SLEEPS, APP_WAIT_ROUND, APP_SPIN_MEMORY, APP_LATER };
enum worker_phase { W_PLAN, W_WOKEN, W_DOUBTED, W_ASKED, W_ROUND, W_BUSY };
enum thread_state { READY, RUNNING, SLEEPING, WAKING };

struct thread {
	struct machine *machine;
	void (*step)(struct thread *thread);
	enum thread_state state;
	unsigned phase;
	unsigned on;			/* SLEEPING: what wakes it, */
	uint64_t until_ns;		/* and when; WAKING: when it is runnable */
	uint64_t left_ns;		/* of what it does now */
	uint64_t run_ns, fair_ns;	/* processor time; the same, for fairness */
	uint64_t slice_ns;		/* since it got its core */
};

struct machine {
	uint64_t now_ns;
	unsigned cores, count, hogs;
	uint64_t wake_ns;
	struct thread thread[THREADS_MAX];
	struct thread *app, *worker;

	/* The process. */
	struct policy policy;
	struct policy_view seen;	/* before DOUBT, ASK, BUSY, */
	uint64_t seen_run_ns;		/* and the application's processor time */
	enum policy_sleep slept_on;
	bool rung, deep_sleep;
	struct thread *progress;	/* who makes it */
	uint64_t progress_ns, events_ns;
	uint32_t calls;
	unsigned waits, empty;
	bool inside, waiting, armed, driving;
	int vouched;
	unsigned raised;		/* ON_ bits, except ON_SOCKETS */
	unsigned notifies;		/* calls of ibv_req_notify_cq() for each wait */
	enum app_kind kind;
	uint64_t every_ns;		/* APP_COMPUTES: between the peer's messages */

	/* The network: when packets come. ACKs are odd. */
	uint64_t coming_ns[COMING_MAX];
	bool coming_ack[COMING_MAX];
	unsigned coming;
	unsigned pending, pending_acks;	/* in the socket */
	unsigned messages, acks;	/* received, and not yet seen by the application */

	/* What is measured, since machine_measure(). */
	uint64_t neglect_ns, neglect_max_ns;	/* packets wait, and nobody is going to receive them */
	unsigned done, worker_wakes, useless_waits, doorbells;
	uint64_t worker_run_ns, since_ns;
};

static void machine_wake(struct machine *machine, unsigned on);

/* ---- threads ---- */

static void does(struct thread *thread, uint64_t ns, unsigned phase)
{
	thread->left_ns = ns;
	thread->phase = phase;
}

static unsigned ready_of(const struct machine *machine)
{
	return machine->raised | (machine->pending || machine->pending_acks ? ON_SOCKETS : 0);
}

static void sleeps(struct thread *thread, unsigned on, uint64_t until_ns, unsigned phase)
{
	thread->phase = phase;
	thread->left_ns = WAKE_COST_NS;
	if (ready_of(thread->machine) & on)
		return;
	thread->state = SLEEPING;
	thread->on = on;
	thread->until_ns = until_ns == NEVER ? NEVER : until_ns + SLACK_NS;
}

static void raise_bits(struct machine *machine, unsigned on)
{
	machine->raised |= on;
	machine->doorbells += on == ON_DOORBELL;
	machine_wake(machine, on);
}

static bool silence(struct machine *machine, unsigned on)
{
	bool was = machine->raised & on;

	machine->raised &= ~on;
	return was;
}

/* ---- the network ---- */

static void packet_comes(struct machine *machine, uint64_t in_ns, bool ack)
{
	assert_true(machine->coming < COMING_MAX);
	machine->coming_ns[machine->coming] = machine->now_ns + in_ns;
	machine->coming_ack[machine->coming++] = ack;
}

static void post_message(struct machine *machine)
{
	machine->done++;
	if (machine->coming + 2 > COMING_MAX)
		return;
	packet_comes(machine, 10 * US, true);
	packet_comes(machine, ANSWER_NS, false);
}

static void packets_arrive(struct machine *machine)
{
	unsigned i;

	for (i = 0; i < machine->coming;) {
		if (machine->coming_ns[i] > machine->now_ns) {
			i++;
			continue;
		}
		if (machine->coming_ack[i])
			machine->pending_acks++;
		else
			machine->pending++;
		machine->coming--;
		machine->coming_ns[i] = machine->coming_ns[machine->coming];
		machine->coming_ack[i] = machine->coming_ack[machine->coming];
		machine_wake(machine, ON_SOCKETS);
	}
}

/* ---- progress ---- */

static bool round_begins(struct thread *thread, uint64_t extra_ns, unsigned phase)
{
	struct machine *machine = thread->machine;

	if (machine->progress)
		return false;
	machine->progress = thread;
	does(thread, ROUND_NS + extra_ns + PACKET_NS * (machine->pending + machine->pending_acks), phase);
	return true;
}

/* How many packets were received. */
static unsigned round_ends(struct machine *machine)
{
	unsigned packets = machine->pending + machine->pending_acks;

	machine->progress = NULL;
	machine->messages += machine->pending;
	machine->acks += machine->pending_acks;
	machine->pending = machine->pending_acks = 0;
	if (machine->messages && machine->armed) {
		machine->armed = false;
		raise_bits(machine, ON_EVENT);
	}
	return packets;
}

static void app_polls(struct thread *thread, uint64_t extra_ns)
{
	struct machine *machine = thread->machine;

	if (round_begins(thread, extra_ns, APP_ROUND)) {
		machine->calls++;
		machine->inside = true;
		return;
	}
	if (policy_note_is_due(machine->now_ns, machine->progress_ns))
		machine->progress_ns = machine->now_ns;
	does(thread, CALL_NS, APP_BEGIN);
}

/* ---- the application ---- */

static void app_yields(struct thread *thread)
{
	unsigned i;

	for (i = 0; i < thread->machine->count; i++)
		if (thread->machine->thread[i].state == READY &&
		    thread->fair_ns <= thread->machine->thread[i].fair_ns)
			thread->fair_ns = thread->machine->thread[i].fair_ns + 1;
	thread->slice_ns = SLICE_NS;
}

static void app_round_ended(struct thread *thread)
{
	struct machine *machine = thread->machine;

	if (machine->progress == thread) {
		round_ends(machine);
		machine->inside = false;
		machine->progress_ns = machine->now_ns;
	}
	does(thread, CALL_NS, APP_BEGIN);
	if (machine->kind == APP_MEMORY ? machine->acks : machine->messages) {
		machine->empty = 0;
		machine->acks = 0;
		if (machine->kind == APP_MEMORY) {
			does(thread, CALL_NS, APP_SPIN_MEMORY);
			return;
		}
		machine->messages = 0;
		post_message(machine);
	} else if (machine->kind == APP_WAITS || machine->kind == APP_EPOLLS) {
		if (machine->armed || machine->raised & ON_EVENT)
			thread->phase = APP_SLEEPS;
	} else if (policy_yield_is_due(++machine->empty, policy_numbers.yield_every)) {
		app_yields(thread);
	}
}

static void app_arms(struct thread *thread)
{
	struct machine *machine = thread->machine;
	unsigned i;

	machine->armed = true;
	for (i = 0; i < machine->notifies; i++) {
		machine->events_ns = machine->now_ns;
		if (policy_wakes_for_events(machine->policy.state, &machine->vouched))
			raise_bits(machine, ON_DOORBELL);
	}
	does(thread, CALL_NS, APP_ARMED);
}

static void app_wait_ends(struct thread *thread)
{
	struct machine *machine = thread->machine;

	silence(machine, ON_EVENT);
	if (machine->waiting) {
		machine->waiting = false;
		machine->vouched = policy_waited();
		machine->progress_ns = machine->now_ns;
		if (machine->deep_sleep) {
			machine->deep_sleep = false;
			raise_bits(machine, ON_NAP);
		}
	}
	does(thread, CALL_NS, APP_BEGIN);
}

static void app_sleeps(struct thread *thread)
{
	struct machine *machine = thread->machine;

	if (machine->raised & ON_EVENT || (machine->kind != APP_WAITS && machine->waiting) ||
	    (machine->kind != APP_WAITS && machine->kind != APP_EPOLLS)) {
		app_wait_ends(thread);
		return;
	}
	if (machine->kind == APP_EPOLLS) {
		machine->driving = false;
		sleeps(thread, ON_EVENT, NEVER, APP_LATER);
		return;
	}
	machine->waits += !machine->waiting;
	machine->waiting = true;
	sleeps(thread, ON_SOCKETS | ON_DOORBELL | ON_EVENT, NEVER, APP_WAIT_ROUND);
}

static void app_begins(struct thread *thread)
{
	struct machine *machine = thread->machine;

	machine->driving = machine->kind != APP_COMPUTES;
	switch (machine->kind) {
	case APP_WAITS:
	case APP_EPOLLS:
		app_arms(thread);
		break;
	case APP_COMPUTES:
		if (!machine->coming)
			packet_comes(machine, machine->every_ns, false);
		machine->done += machine->messages;
		machine->messages = 0;
		does(thread, 100 * US, APP_BEGIN);
		break;
	default:
		app_polls(thread, machine->kind == APP_COPIES ? COPY_NS : 0);
		break;
	}
}

static void app_step(struct thread *thread)
{
	struct machine *machine = thread->machine;

	switch ((enum app_phase)thread->phase) {
	case APP_BEGIN:
		app_begins(thread);
		break;
	case APP_ARMED:
		app_polls(thread, 0);
		break;
	case APP_ROUND:
		app_round_ended(thread);
		break;
	case APP_SLEEPS:
		app_sleeps(thread);
		break;
	case APP_WAIT_ROUND:
		silence(machine, ON_DOORBELL);
		if (!(machine->raised & ON_EVENT) && round_begins(thread, 0, APP_LATER))
			break;
		does(thread, CALL_NS, APP_SLEEPS);
		break;
	case APP_LATER:		/* a round while it waits is over, or epoll_wait() */
		if (machine->progress == thread)
			machine->useless_waits += !round_ends(machine);
		machine->driving = true;
		does(thread, CALL_NS, APP_SLEEPS);
		break;
	case APP_SPIN_MEMORY:
		machine->driving = machine->kind != APP_MEMORY;
		does(thread, SPIN_NS, APP_SPIN_MEMORY);
		if (machine->messages || machine->kind != APP_MEMORY) {
			machine->messages = 0;
			post_message(machine);
			does(thread, CALL_NS, APP_BEGIN);
		}
		break;
	}
}

/* ---- the worker ---- */

static struct policy_view worker_sees(const struct machine *machine)
{
	return (struct policy_view){
		.now_ns = machine->now_ns, .progress_ns = machine->progress_ns,
		.events_ns = machine->events_ns, .calls = machine->calls, .waits = machine->waits,
		.inside = machine->inside, .waiting = machine->waiting, .rung = machine->rung };
}

static void worker_plans(struct thread *thread)
{
	struct machine *machine = thread->machine;
	struct policy_view view = worker_sees(machine);
	struct policy_rest rest = policy_rest(&machine->policy, &view, NEVER, NEVER);
	static const unsigned on[] = {
		[SLEEP_ON_ALL] = ON_SOCKETS | ON_DOORBELL, [SLEEP_ON_NAP] = ON_NAP,
		[SLEEP_ON_DOORBELL] = ON_DOORBELL | ON_NAP };

	machine->slept_on = rest.on;
	if (rest.deep) {
		machine->deep_sleep = true;
		rest.until_ns = rest.until_deep_ns;
	}
	sleeps(thread, on[rest.on], rest.until_ns, W_WOKEN);
}

static void worker_decides(struct thread *thread, enum policy_event event)
{
	struct machine *machine = thread->machine;

	switch (policy_decide(&machine->policy, event)) {
	case ACTION_IMPOSSIBLE:
		fail_msg("event %d cannot happen in state %d", event, machine->policy.state);
		break;
	case ACTION_REST:
		does(thread, CALL_NS, W_PLAN);
		break;
	case ACTION_DOUBT:
		sleeps(thread, 0, machine->now_ns + policy_numbers.recent_ns, W_DOUBTED);
		break;
	case ACTION_ASK:
		sleeps(thread, 0, machine->now_ns + policy_numbers.preempted_ns, W_ASKED);
		break;
	case ACTION_PROGRESS:
	case ACTION_STAND_IN:
		if (machine->rung && machine->waiting)
			raise_bits(machine, ON_DOORBELL);
		if (round_begins(thread, 0, W_ROUND))
			break;
		machine->seen = worker_sees(machine);
		sleeps(thread, 0, machine->now_ns + policy_numbers.recent_ns,
		       machine->waiting ? W_PLAN : W_BUSY);
		break;
	case ACTION_PASS:
	case ACTION_ASSIST:
		if (machine->rung)
			raise_bits(machine, ON_DOORBELL);
		does(thread, CALL_NS, W_PLAN);
		break;
	}
}

static bool app_is_preempted(const struct machine *machine)
{
	return machine->app->state == READY && machine->app->run_ns == machine->seen_run_ns;
}

static void worker_step(struct thread *thread)
{
	struct machine *machine = thread->machine;
	struct policy_view view;

	switch ((enum worker_phase)thread->phase) {
	case W_PLAN:
		worker_plans(thread);
		break;
	case W_WOKEN:
		machine->worker_wakes++;
		machine->rung = machine->slept_on != SLEEP_ON_NAP && silence(machine, ON_DOORBELL);
		if (machine->slept_on != SLEEP_ON_ALL)
			machine->rung |= silence(machine, ON_NAP) && machine->slept_on == SLEEP_ON_DOORBELL;
		machine->deep_sleep = false;
		machine->seen = worker_sees(machine);
		machine->seen_run_ns = machine->app->run_ns;
		worker_decides(thread, policy_woken(&machine->policy, &machine->seen));
		break;
	case W_DOUBTED:
		view = worker_sees(machine);
		worker_decides(thread, policy_doubted(&machine->policy, &machine->seen, &view,
						      app_is_preempted(machine)));
		break;
	case W_ASKED:
		view = worker_sees(machine);
		worker_decides(thread, app_is_preempted(machine) || policy_has_polled(&machine->seen, &view) ?
				       EVENT_PREEMPTED : EVENT_GONE);
		break;
	case W_ROUND:
		round_ends(machine);
		does(thread, CALL_NS, W_PLAN);
		break;
	case W_BUSY:
		view = worker_sees(machine);
		worker_decides(thread, policy_busy(&machine->policy, &machine->seen, &view));
		break;
	}
}

static void hog_step(struct thread *thread)
{
	does(thread, MS, 0);
}

/* ---- the machine ---- */

static struct thread *machine_add(struct machine *machine, void (*step)(struct thread *))
{
	struct thread *thread = &machine->thread[machine->count++];

	assert_true(machine->count <= THREADS_MAX);
	*thread = (struct thread){ .machine = machine, .step = step, .left_ns = CALL_NS };
	return thread;
}

/* The application goes on in another way. There is always a message under way. */
static void machine_becomes(struct machine *machine, enum app_kind kind)
{
	machine->kind = kind;
	if (!machine->coming && !machine->pending && !machine->messages)
		post_message(machine);
}

static void machine_init(struct machine *machine, unsigned cores, unsigned hogs, enum app_kind kind)
{
	*machine = (struct machine){ .cores = cores, .wake_ns = 10 * US, .kind = kind, .notifies = 1,
				     .every_ns = 200 * US, .driving = true };
	policy_init(&machine->policy);
	machine->app = machine_add(machine, app_step);
	machine->worker = machine_add(machine, worker_step);
	while (hogs--)
		machine_add(machine, hog_step);
	machine_becomes(machine, kind);
}

static uint64_t least_fair(const struct machine *machine)
{
	uint64_t least = NEVER;
	unsigned i;

	for (i = 0; i < machine->count; i++)
		if (machine->thread[i].state <= RUNNING && machine->thread[i].fair_ns < least)
			least = machine->thread[i].fair_ns;
	return least == NEVER ? 0 : least;
}

/* Who sleeps on one of these becomes runnable after the latency. */
static void machine_wake(struct machine *machine, unsigned on)
{
	unsigned i;

	for (i = 0; i < machine->count; i++)
		if (machine->thread[i].state == SLEEPING && machine->thread[i].on & on) {
			machine->thread[i].state = WAKING;
			machine->thread[i].until_ns = machine->now_ns + machine->wake_ns;
		}
}

static struct thread *most_fair(struct machine *machine, enum thread_state state, bool most)
{
	struct thread *found = NULL;
	unsigned i;

	for (i = 0; i < machine->count; i++) {
		struct thread *thread = &machine->thread[i];

		if (thread->state == state && (!found || (most ? thread->fair_ns > found->fair_ns :
							  thread->fair_ns < found->fair_ns)))
			found = thread;
	}
	return found;
}

static unsigned running(const struct machine *machine)
{
	unsigned i, count = 0;

	for (i = 0; i < machine->count; i++)
		count += machine->thread[i].state == RUNNING;
	return count;
}

static void schedule(struct machine *machine)
{
	struct thread *next, *victim;
	unsigned i;

	for (i = 0; i < machine->count; i++)
		if (machine->thread[i].state == RUNNING && machine->thread[i].slice_ns >= SLICE_NS &&
		    most_fair(machine, READY, false))
			machine->thread[i].state = READY;
	while ((next = most_fair(machine, READY, false))) {
		if (running(machine) == machine->cores) {
			victim = most_fair(machine, RUNNING, true);
			if (victim->fair_ns < next->fair_ns + AHEAD_NS)
				break;
			victim->state = READY;
		}
		next->state = RUNNING;
		next->slice_ns = 0;
	}
}

static void threads_wake_up(struct machine *machine)
{
	unsigned i;

	for (i = 0; i < machine->count; i++) {
		struct thread *thread = &machine->thread[i];
		uint64_t least = least_fair(machine);

		if (thread->state < SLEEPING || thread->until_ns > machine->now_ns)
			continue;
		thread->state = READY;
		if (thread->fair_ns + SLICE_NS < least)
			thread->fair_ns = least - SLICE_NS;
	}
}

static uint64_t next_event(const struct machine *machine, uint64_t end_ns)
{
	uint64_t next_ns = end_ns;
	unsigned i;

	for (i = 0; i < machine->count; i++) {
		const struct thread *thread = &machine->thread[i];
		uint64_t at_ns = thread->state == RUNNING ? machine->now_ns + thread->left_ns :
				 thread->state == READY ? NEVER : thread->until_ns;

		if (at_ns < next_ns)
			next_ns = at_ns;
	}
	for (i = 0; i < machine->coming; i++)
		if (machine->coming_ns[i] < next_ns)
			next_ns = machine->coming_ns[i];
	return next_ns;
}

/* Is somebody awake, or about to be, who receives packets? */
static bool is_driven(const struct machine *machine)
{
	return (machine->worker->state != SLEEPING && machine->policy.state == WORKER_ACTIVE) ||
	       (machine->app->state != SLEEPING && machine->driving);
}

static void advance(struct machine *machine, uint64_t to_ns)
{
	uint64_t ns = to_ns - machine->now_ns;
	unsigned i;

	machine->neglect_ns = (machine->pending || machine->pending_acks) && !is_driven(machine) ?
			      machine->neglect_ns + ns : 0;
	if (machine->neglect_ns > machine->neglect_max_ns)
		machine->neglect_max_ns = machine->neglect_ns;
	for (i = 0; i < machine->count; i++) {
		struct thread *thread = &machine->thread[i];

		if (thread->state != RUNNING)
			continue;
		thread->run_ns += ns;
		thread->fair_ns += ns;
		thread->slice_ns += ns;
		thread->left_ns -= ns;
	}
	machine->now_ns = to_ns;
}

static void machine_run(struct machine *machine, uint64_t ns)
{
	uint64_t end_ns = machine->now_ns + ns;
	unsigned i;

	while (machine->now_ns < end_ns) {
		schedule(machine);
		advance(machine, next_event(machine, end_ns));
		packets_arrive(machine);
		threads_wake_up(machine);
		for (i = 0; i < machine->count; i++)
			if (machine->thread[i].state == RUNNING && !machine->thread[i].left_ns)
				machine->thread[i].step(&machine->thread[i]);
	}
}

/* Forget what was measured, and go on. */
static void machine_measure(struct machine *machine, uint64_t ns)
{
	machine->neglect_ns = machine->neglect_max_ns = 0;
	machine->done = machine->worker_wakes = machine->useless_waits = machine->doorbells = 0;
	machine->worker_run_ns = machine->worker->run_ns;
	machine->since_ns = machine->now_ns;
	machine_run(machine, ns);
	machine->worker_run_ns = machine->worker->run_ns - machine->worker_run_ns;
}

#endif
