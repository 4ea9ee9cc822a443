/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * For pair_machine_test.c: two processes that answer each other by RDMA WRITEs over UDP (ib_write_lat), in
 * virtual time, on one machine of two cores: an application and a worker each, which ask the policy (policy.h) and
 * hold ACKs back (transport/ack_hold.h) as tx_run.c, progress.c, device/cq.c and worker.c do.
 *
 * Unlike fake_machine_test.h's, these cores have a queue each. A thread that yields stands behind the others of
 * its core; the worker, which has a short slice, takes it at once, an idle one if there is one. The scheduler
 * moves an application only to a core that was idle for BALANCE_NS without a pause: Linux takes the average, and
 * its threshold is the cost of a migration, 500 us. So where both applications are on one core they stay there
 * as long as something runs on the other one now and then.
 */
#ifndef VERBATIM_ENGINE_FAKE_PAIR_TEST_H
#define VERBATIM_ENGINE_FAKE_PAIR_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/policy.h"
#include "transport/ack_hold.h"

#define US		1000ull
#define MS		1000000ull
#define NEVER		UINT64_MAX
#define CORES		2u
#define QUEUE_MAX	8u
#define TIMES_MAX	65536u

#define SLICE_NS	(3 * MS)
#define BALANCE_NS	(500 * US)
#define WAKE_NS		(4 * US)	/* from the packet, or the end of a sleep, to the first instruction */
#define SLACK_NS	(55 * US)	/* a sleep takes longer than asked for */
#define ROUND_NS	430u		/* an empty round: a system call */
#define PACKET_NS	500u
#define CALL_NS		50u
#define LOOK_NS		150u		/* of the application at its memory */
#define POST_NS		1900u
#define LOOKS		64u		/* rounds of a worker that the sockets have woken */

enum { ON_SOCKET = 1, ON_DOORBELL = 2 };
enum state { READY, RUNNING, SLEEPING };
enum app_phase { APP_MEMORY, APP_POSTED, APP_POLL, APP_ROUND, APP_ACK_SENT, APP_POLLED };
enum worker_phase { W_PLAN, W_TIMER_SET, W_WOKEN, W_DOUBTED, W_ASKED, W_ROUND, W_ACK_SENT, W_BUSY };

struct packet {
	bool write, ack;
};

struct thread {
	struct process *process;
	void (*step)(struct thread *thread);
	bool is_worker;
	enum state state;
	unsigned phase, core;
	unsigned on;			/* SLEEPING, or about to: what wakes it, */
	uint64_t until_ns;		/* when, */
	unsigned woken_phase;		/* and what it does then */
	uint64_t left_ns;		/* of what it does now */
	uint64_t run_ns, slice_ns;
	uint64_t turn;			/* READY: who came first */
	uint64_t yielded_ns;		/* when it yielded; 0: it did not */
	struct packet out;		/* what it sends */
};

struct process {
	struct machine *machine;
	struct process *peer;
	struct thread app, worker;

	struct policy policy;
	struct policy_view seen;
	uint64_t seen_run_ns;
	enum policy_sleep slept_on;
	bool rung, doorbell;
	unsigned looks;

	struct thread *progress;	/* who makes it */
	uint64_t progress_ns;
	uint32_t calls, empty, every;
	bool inside;
	unsigned rounds;
	bool awaited;
	int replies;

	struct packet queue[QUEUE_MAX];
	unsigned queued;
	unsigned messages, completions;	/* not yet seen by the application */
	struct ack_hold hold;
	bool owes;
	uint64_t timer_ns, sleep_until_ns;
};

struct costs {
	uint64_t sleep_ns;		/* processor time before a sleep, whose timer is set, */
	uint64_t wake_ns;		/* and behind it */
	uint64_t switch_ns;		/* from one thread to the next */
};

struct machine {
	struct costs costs;
	uint64_t now_ns, turns;
	uint64_t idle_since_ns[CORES];
	struct process process[2];
	/* As it was: a yield after each 50 empty polls; looks each gather_look_ns while replies are awaited. */
	bool late_yields, frequent_looks;
	/* The worker has its application's core alone, as with taskset(1), or where others keep the other one. */
	bool pinned;
	/* How long an ACK waits: the clock of ack_hold.h goes as much faster than HOLD_NS is longer. */
	uint64_t hold_ns;

	uint64_t arrived_ns;		/* the last message */
	uint32_t time_ns[TIMES_MAX];	/* of each message, since machine_measure() */
	unsigned done, looks, sends;
};

static struct machine machine;

/* ---- threads ---- */

static void does(struct thread *thread, uint64_t ns, unsigned phase)
{
	thread->left_ns = ns;
	thread->phase = phase;
}

static bool is_busy(unsigned core)
{
	unsigned i;

	for (i = 0; i < 2; i++) {
		const struct process *process = &machine.process[i];

		if ((process->app.state != SLEEPING && process->app.core == core) ||
		    (process->worker.state != SLEEPING && process->worker.core == core))
			return true;
	}
	return false;
}

static void wakes_up(struct thread *thread)
{
	unsigned core;

	if (!machine.pinned && is_busy(thread->core))
		for (core = 0; core < CORES; core++)
			if (!is_busy(core))
				thread->core = core;
	thread->state = READY;
	thread->turn = 0;		/* before applications */
}

static void sleeps(struct thread *thread, unsigned on, uint64_t until_ns, unsigned phase)
{
	thread->on = on;
	thread->until_ns = until_ns == NEVER ? NEVER : until_ns + SLACK_NS;
	thread->woken_phase = phase;
	does(thread, machine.costs.sleep_ns, W_TIMER_SET);
}

static void falls_asleep(struct thread *thread)
{
	struct process *process = thread->process;

	does(thread, machine.costs.wake_ns, thread->woken_phase);
	if ((thread->on & ON_SOCKET && process->queued) || (thread->on & ON_DOORBELL && process->doorbell))
		return;
	thread->state = SLEEPING;
}

static void wake(struct process *process, unsigned on)
{
	struct thread *worker = &process->worker;

	if (worker->state == SLEEPING && worker->on & on && worker->until_ns > machine.now_ns + WAKE_NS)
		worker->until_ns = machine.now_ns + WAKE_NS;
}

static void yields(struct thread *thread)
{
	thread->turn = ++machine.turns;
	thread->state = READY;
	thread->yielded_ns = machine.now_ns;
}

/* ---- packets ---- */

static void packet_arrives(struct thread *from)
{
	struct process *process = from->process->peer;

	assert_true(process->queued < QUEUE_MAX);
	process->queue[process->queued++] = from->out;
	machine.sends++;
	if (from->out.write) {
		if (machine.done < TIMES_MAX)
			machine.time_ns[machine.done++] = (uint32_t)(machine.now_ns - machine.arrived_ns);
		machine.arrived_ns = machine.now_ns;
	}
	wake(process, ON_SOCKET);
}

static void timer_is_armed(struct process *process, uint64_t at_ns)
{
	if (at_ns >= process->timer_ns)
		return;
	process->timer_ns = at_ns;
	if (at_ns < process->sleep_until_ns) {
		process->doorbell = true;
		wake(process, ON_DOORBELL);
	}
}

static uint64_t hold_clock_ns(void)
{
	return machine.now_ns * HOLD_NS / machine.hold_ns;
}

static uint64_t hold_until_ns(const struct process *process)
{
	return process->hold.until_ns * machine.hold_ns / HOLD_NS;
}

static bool ack_is_due(const struct process *process)
{
	return process->owes && !process->hold.until_ns;
}

static bool round_begins(struct thread *thread, unsigned phase)
{
	struct process *process = thread->process;

	if (process->progress)
		return false;
	process->progress = thread;
	does(thread, ROUND_NS + PACKET_NS * process->queued, phase);
	return true;
}

static void timer_expires(struct process *process)
{
	if (process->timer_ns > machine.now_ns)
		return;
	process->timer_ns = NEVER;
	if (!process->owes || !process->hold.until_ns)
		return;
	if (hold_until_ns(process) <= machine.now_ns)
		ack_hold_miss(&process->hold);
	else
		timer_is_armed(process, hold_until_ns(process));
}

/* How many packets were received. An ACK that is due leaves, by itself: *sends. */
static unsigned round_ends(struct thread *thread, bool *sends)
{
	struct process *process = thread->process;
	unsigned i, packets = process->queued;

	process->progress = NULL;
	process->rounds++;
	if (process->awaited)
		process->replies = policy_reply_missed(process->replies);
	process->awaited = false;
	for (i = 0; i < packets; i++) {
		process->completions += process->queue[i].ack;
		if (!process->queue[i].write)
			continue;
		process->messages++;
		process->owes = true;
		if (ack_hold_begin(&process->hold, hold_clock_ns()))
			timer_is_armed(process, hold_until_ns(process));
	}
	process->queued = 0;
	if (policy_timers_are_due(process->rounds, packets))
		timer_expires(process);
	process->awaited = !thread->is_worker && process->completions &&
			   policy_awaits_reply(process->policy.state, process->replies, process->rounds);
	*sends = ack_is_due(process) && !process->awaited;
	if (*sends) {
		process->owes = false;
		thread->out = (struct packet){ .ack = true };
	}
	return packets;
}

/* ---- the application ---- */

static void app_posts(struct thread *thread)
{
	struct process *process = thread->process;

	process->messages--;
	if (process->awaited)
		process->replies = policy_reply_came(process->replies);
	process->awaited = false;
	ack_hold_reply(&process->hold, hold_clock_ns(), process->policy.state != WORKER_RELIEVED);
	thread->out = (struct packet){ .write = true, .ack = process->owes };
	process->owes = false;
	does(thread, POST_NS, APP_POSTED);
}

static void app_begins_poll(struct thread *thread)
{
	struct process *process = thread->process;

	if (thread->yielded_ns) {
		if (!machine.late_yields)
			process->every = policy_yielded(process->every, machine.now_ns - thread->yielded_ns);
		thread->yielded_ns = 0;
	}
	if (round_begins(thread, APP_ROUND)) {
		process->calls++;
		process->inside = true;
		return;
	}
	if (policy_note_is_due(machine.now_ns, process->progress_ns))
		process->progress_ns = machine.now_ns;
	does(thread, CALL_NS, APP_POLLED);
}

static void app_polled(struct thread *thread)
{
	struct process *process = thread->process;

	process->inside = false;
	if (process->completions) {
		process->completions--;
		process->empty = 0;
		does(thread, CALL_NS, APP_MEMORY);
		return;
	}
	does(thread, CALL_NS, APP_POLL);
	if (policy_yield_is_due(++process->empty, process->every))
		yields(thread);
}

static void app_step(struct thread *thread)
{
	bool sends;

	switch ((enum app_phase)thread->phase) {
	case APP_MEMORY:
		does(thread, LOOK_NS, APP_MEMORY);
		if (thread->process->messages)
			app_posts(thread);
		break;
	case APP_POSTED:
		packet_arrives(thread);
		does(thread, CALL_NS, APP_POLL);
		break;
	case APP_POLL:
		app_begins_poll(thread);
		break;
	case APP_ROUND:
		round_ends(thread, &sends);
		thread->process->progress_ns = machine.now_ns;
		if (sends)
			does(thread, POST_NS, APP_ACK_SENT);
		else
			app_polled(thread);
		break;
	case APP_ACK_SENT:
		packet_arrives(thread);
		app_polled(thread);
		break;
	case APP_POLLED:
		app_polled(thread);
		break;
	}
}

/* ---- the worker ---- */

static struct policy_view worker_sees(const struct process *process)
{
	return (struct policy_view){ .now_ns = machine.now_ns, .progress_ns = process->progress_ns,
				     .calls = process->calls, .inside = process->inside,
				     .work_left = ack_is_due(process), .rung = process->rung };
}

static void worker_plans(struct thread *thread)
{
	struct process *process = thread->process;
	struct policy_view view = worker_sees(process);
	struct policy_rest rest = policy_rest(&process->policy, &view, NEVER, process->timer_ns);
	uint64_t look_ns = rest.until_ns - machine.now_ns;

	process->slept_on = rest.on;
	if (rest.on == SLEEP_ON_DOORBELL) {
		if (machine.frequent_looks && look_ns > policy_numbers.gather_look_ns)
			look_ns = policy_numbers.gather_look_ns;
		sleeps(thread, ON_DOORBELL, machine.now_ns + look_ns, W_WOKEN);
	} else {
		process->sleep_until_ns = rest.until_ns;
		sleeps(thread, ON_SOCKET | ON_DOORBELL,
		       ack_is_due(process) ? machine.now_ns : rest.until_ns, W_WOKEN);
	}
}

static bool app_is_preempted(const struct process *process)
{
	return process->app.state == READY && process->app.run_ns == process->seen_run_ns;
}

static void worker_decides(struct thread *thread, enum policy_event event)
{
	struct process *process = thread->process;

	switch (policy_decide(&process->policy, event)) {
	case ACTION_REST:
		does(thread, CALL_NS, W_PLAN);
		break;
	case ACTION_DOUBT:
		sleeps(thread, 0, machine.now_ns + policy_numbers.recent_ns, W_DOUBTED);
		break;
	case ACTION_ASK:
		sleeps(thread, 0, machine.now_ns + policy_numbers.preempted_ns, W_ASKED);
		break;
	case ACTION_PROGRESS:
		if (round_begins(thread, W_ROUND))
			break;
		process->seen = worker_sees(process);
		sleeps(thread, 0, machine.now_ns + policy_numbers.recent_ns, W_BUSY);
		break;
	default:
		fail_msg("event %d in state %d", event, process->policy.state);
	}
}

static void worker_wakes(struct thread *thread)
{
	struct process *process = thread->process;

	machine.looks += process->slept_on == SLEEP_ON_DOORBELL;
	process->sleep_until_ns = 0;
	process->rung = process->doorbell;
	process->doorbell = false;
	process->looks = process->queued && process->slept_on == SLEEP_ON_ALL ? LOOKS : 1;
	process->seen = worker_sees(process);
	process->seen_run_ns = process->app.run_ns;
	worker_decides(thread, policy_woken(&process->policy, &process->seen));
}

static void worker_step(struct thread *thread)
{
	struct process *process = thread->process;
	struct policy_view view = worker_sees(process);
	unsigned packets;
	bool sends;

	switch ((enum worker_phase)thread->phase) {
	case W_PLAN:
		worker_plans(thread);
		break;
	case W_TIMER_SET:
		falls_asleep(thread);
		break;
	case W_WOKEN:
		worker_wakes(thread);
		break;
	case W_DOUBTED:
		worker_decides(thread, policy_doubted(&process->policy, &process->seen, &view,
						      app_is_preempted(process)));
		break;
	case W_ASKED:
		worker_decides(thread, app_is_preempted(process) || policy_has_polled(&process->seen, &view) ?
				       EVENT_PREEMPTED : EVENT_GONE);
		break;
	case W_ROUND:
		packets = round_ends(thread, &sends);
		if (sends)
			does(thread, POST_NS, W_ACK_SENT);
		else if (packets || !--process->looks || !round_begins(thread, W_ROUND))
			does(thread, CALL_NS, W_PLAN);
		break;
	case W_ACK_SENT:
		packet_arrives(thread);
		does(thread, CALL_NS, W_PLAN);
		break;
	case W_BUSY:
		worker_decides(thread, policy_busy(&process->policy, &process->seen, &view));
		break;
	}
}

/* ---- the machine ---- */

static struct thread *thread_at(unsigned i)
{
	return i & 1 ? &machine.process[i / 2].worker : &machine.process[i / 2].app;
}

/* Who runs on @core, or waits for it longest. */
static struct thread *thread_on(unsigned core, enum state state)
{
	struct thread *found = NULL;
	unsigned i;

	for (i = 0; i < 4; i++) {
		struct thread *thread = thread_at(i);

		if (thread->core == core && thread->state == state && (!found || thread->turn < found->turn))
			found = thread;
	}
	return found;
}

static void schedule(unsigned core)
{
	struct thread *runs = thread_on(core, RUNNING), *next = thread_on(core, READY);

	if (runs && next && (next->turn < runs->turn || runs->slice_ns >= SLICE_NS)) {
		if (runs->slice_ns >= SLICE_NS)
			runs->turn = ++machine.turns;
		runs->state = READY;
		next = thread_on(core, READY);
		runs = NULL;
	}
	if (runs || !next)
		return;
	next->state = RUNNING;
	next->slice_ns = 0;
	next->left_ns += machine.costs.switch_ns;
}

/* Does @core, idle for long, take an application that waits elsewhere? */
static void balance(unsigned core)
{
	struct thread *other = thread_on(1 - core, READY);

	if (is_busy(core)) {
		machine.idle_since_ns[core] = NEVER;
		return;
	}
	if (machine.idle_since_ns[core] == NEVER)
		machine.idle_since_ns[core] = machine.now_ns;
	if (!machine.pinned && other && !other->is_worker &&
	    machine.now_ns - machine.idle_since_ns[core] >= BALANCE_NS)
		other->core = core;
}

static uint64_t next_event(uint64_t end_ns)
{
	uint64_t next_ns = end_ns;
	unsigned i;

	for (i = 0; i < 4; i++) {
		const struct thread *thread = thread_at(i);
		uint64_t at_ns = thread->state == RUNNING  ? machine.now_ns + thread->left_ns :
				 thread->state == SLEEPING ? thread->until_ns : NEVER;

		if (at_ns < next_ns)
			next_ns = at_ns;
	}
	return next_ns;
}

static void advance(uint64_t to_ns)
{
	uint64_t ns = to_ns - machine.now_ns;
	unsigned i;

	for (i = 0; i < 4; i++) {
		struct thread *thread = thread_at(i);

		if (thread->state != RUNNING)
			continue;
		thread->run_ns += ns;
		thread->slice_ns += ns;
		thread->left_ns -= ns;
	}
	machine.now_ns = to_ns;
}

static void machine_run(uint64_t ns)
{
	uint64_t end_ns = machine.now_ns + ns;
	unsigned i;

	while (machine.now_ns < end_ns) {
		for (i = 0; i < CORES; i++)
			balance(i);
		for (i = 0; i < CORES; i++)
			schedule(i);
		advance(next_event(end_ns));
		for (i = 0; i < 4; i++)
			if (thread_at(i)->state == SLEEPING && thread_at(i)->until_ns <= machine.now_ns)
				wakes_up(thread_at(i));
		for (i = 0; i < 4; i++)
			if (thread_at(i)->state == RUNNING && !thread_at(i)->left_ns)
				thread_at(i)->step(thread_at(i));
	}
}

/* Each process has a core. */
static void machine_init(bool late_yields, bool frequent_looks)
{
	unsigned i;

	machine = (struct machine){ .late_yields = late_yields, .frequent_looks = frequent_looks,
				    .hold_ns = HOLD_NS, .costs = { .wake_ns = 10 * US, .switch_ns = 1500 } };
	for (i = 0; i < 2; i++) {
		struct process *process = &machine.process[i];

		process->peer = &machine.process[1 - i];
		process->timer_ns = NEVER;
		process->every = policy_numbers.yield_every;
		policy_init(&process->policy);
		process->app = (struct thread){ .process = process, .step = app_step, .left_ns = CALL_NS,
						.phase = APP_MEMORY, .core = i, .turn = ++machine.turns };
		process->worker = (struct thread){ .process = process, .step = worker_step, .is_worker = true,
						   .left_ns = CALL_NS, .phase = W_PLAN, .core = i };
	}
	machine.process[0].messages = 1;
}

static int compare_times(const void *a, const void *b)
{
	const uint32_t *one = a, *other = b;

	return *one < *other ? -1 : *one > *other;
}

/* The median time of a message, over the next @ns. */
static uint64_t machine_measure(uint64_t ns)
{
	machine.done = machine.looks = machine.sends = 0;
	machine_run(ns);
	assert_true(machine.done > 100);
	qsort(machine.time_ns, machine.done, sizeof(machine.time_ns[0]), compare_times);
	return machine.time_ns[machine.done / 2];
}

static bool are_together(void)
{
	return machine.process[0].app.core == machine.process[1].app.core;
}

#endif
