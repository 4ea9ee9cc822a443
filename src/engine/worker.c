/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The worker: one thread per process that makes progress when no application thread does. What it
 * does when is decided by policy.h; here are the means: sleeping, looking at application threads,
 * chores.
 *
 *	ACTIVE		sleeps on the sockets until the next deadline, makes progress when woken
 *	STANDBY		an application thread polls: sleeps without the sockets (or each packet would
 *			wake two threads), looks every interval whether polling continues
 *	RELIEVED	an application thread sleeps in ibv_get_cq_event() and makes progress itself (wait.c)
 *
 * When many packets arrive at a time the next ones follow soon, and a wake-up for them costs the
 * sender more than this process: so the worker lingers, awake, as long as they arrive.
 */
#include <errno.h>
#include <unistd.h>

#include "base/log.h"
#include "engine/internal.h"
#include "engine/sleep.h"
#include "host/name.h"
#include "link/udp.h"
#include "platform/clock.h"
#include "platform/thread_cpu.h"

#define REBIND_NS	1000000000ull	/* between tries for a port whose release is not signalled */
#define LEAVE_STEP_NS	50000u
#define FAREWELL_STEP_NS	1000000u

void worker_expect_sleepers(struct engine *engine)
{
	enum worker_state state = atomic_load_explicit(&engine->worker.state, memory_order_relaxed);
	int vouched = atomic_load_explicit(&engine->wait.vouched, memory_order_relaxed);
	bool wakes = policy_wakes_for_events(state, &vouched);

	atomic_store_explicit(&engine->app.event_mode_ns, clock_now_ns(), memory_order_relaxed);
	/* Two threads may lose a count. */
	atomic_store_explicit(&engine->wait.vouched, vouched, memory_order_relaxed);
	if (wakes)
		waiter_ring(&engine->waiter);
}

static struct policy_view worker_look(struct engine *engine, bool rung)
{
	struct policy_view view = {
		.progress_ns = atomic_load_explicit(&engine->app.progress_ns, memory_order_relaxed),
		.events_ns = atomic_load_explicit(&engine->app.event_mode_ns, memory_order_relaxed),
		.calls = atomic_load_explicit(&engine->app.calls, memory_order_relaxed),
		.waits = atomic_load(&engine->wait.count),
		.inside = atomic_load_explicit(&engine->app.inside, memory_order_relaxed),
		.waiting = atomic_load(&engine->wait.active),
		.work_left = atomic_load(&engine->run_queue.count) > 0,
		.rung = rung };

	view.now_ns = clock_now_ns();
	return view;
}

static void worker_try_bind(struct engine *engine)
{
	int watch_fd = engine->owner_watch_fd;

	engine->owner_watch_fd = -1;
	if (watch_fd >= 0) {
		source_unwatch(&engine->source.all, watch_fd);
		name_disconnect(watch_fd);
	}
	engine->worker.rebind_ns = TIME_NEVER;
	lock_acquire(&engine->progress);
	port_bind(engine);
	lock_release(&engine->progress);
	if (engine->group)
		return;
	engine->owner_watch_fd = port_owner_watch();
	if (engine->owner_watch_fd < 0 ||
	    source_watch(&engine->source.all, &engine->source.port, engine->owner_watch_fd))
		engine->worker.rebind_ns = clock_now_ns() + REBIND_NS;
}

/* ---- its own source: port 4791, while it is another user's ---- */

static void port_turn(struct source *source, bool ready, uint64_t now_ns)
{
	worker_try_bind(source->owner);
}

static uint64_t port_deadline(struct source *source)
{
	return ((struct engine *)source->owner)->worker.rebind_ns;
}

static void port_abandon(struct source *source)
{
	const struct engine *engine = source->owner;

	if (engine->owner_watch_fd >= 0)
		close(engine->owner_watch_fd);
}

const struct source_ops source_of_port = {
	.name = "port", .turn = port_turn, .deadline_ns = port_deadline, .abandon = port_abandon,
};

/* Ends when an application thread polls: it does this better. */
static void worker_linger(struct engine *engine)
{
	struct policy_view before = worker_look(engine, false), now;
	uint64_t packet_ns = before.now_ns;
	unsigned round = 0, empty = 0, packets;
	enum policy_linger linger = LINGER_ON;

	while (linger != LINGER_END && !atomic_load(&engine->worker.stopping) &&
	       engine_progress(engine, NULL, &packets)) {
		now = worker_look(engine, false);
		if (packets)
			packet_ns = now.now_ns;
		else
			empty++;
		linger = policy_linger(++round, packets ? 0 : empty, now.now_ns - packet_ns,
				       policy_has_polled(&before, &now));
		if (linger == LINGER_YIELD)
			thread_yield();
	}
}

/* False: another thread makes progress. */
static bool worker_make_progress(struct engine *engine, uint32_t ready)
{
	unsigned looks = ready & engine->source.sockets.tag ? UDP_LOOKS_MAX : 1, packets;

	do
		if (!engine_progress(engine, NULL, &packets))
			return false;
	while (!packets && --looks);
	if (packets >= policy_numbers.stream_packets)
		worker_linger(engine);
	return true;
}

/* ---- sleeping ---- */

static uint32_t sleep_on_all(struct engine *engine, uint64_t until_ns)
{
	uint64_t timeout_ns;
	uint32_t ready;

	atomic_store(&engine->worker.until_ns, until_ns);
	timeout_ns = sleep_begin(engine, until_ns);
	if (sources_asked(&engine->source.all) < until_ns || sources_are_due(&engine->source.all))
		timeout_ns = 0;
	ready = waiter_wait(&engine->waiter, timeout_ns);
	sleep_end(engine);
	atomic_store(&engine->worker.until_ns, 0);
	return ready;
}

/* In the place of this thread another one waits, which wakes it for what it alone does. */
static uint32_t sleep_on_nap(struct engine *engine, const struct policy_rest *rest)
{
	uint64_t until_ns = rest->until_ns, now_ns = clock_now_ns(), timeout_ns = 0;
	bool rung;

	if (rest->deep) {
		atomic_store(&engine->wait.deep_sleep, true);
		if (atomic_load(&engine->wait.active))
			until_ns = rest->until_deep_ns;
	}
	atomic_store(&engine->wait.worker_until_ns, until_ns);
	if (until_ns > now_ns && sources_asked(&engine->source.all) >= until_ns &&
	    !sources_are_due(&engine->source.all))
		timeout_ns = until_ns == TIME_NEVER ? UINT64_MAX : until_ns - now_ns;
	rung = waiter_idle_wait(&engine->waiter, false, timeout_ns);
	atomic_store(&engine->wait.deep_sleep, false);
	atomic_store(&engine->wait.worker_until_ns, 0);
	return rung && !atomic_load(&engine->worker.stopping) ? waiter_wait(&engine->waiter, 0) : 0;
}

/*
 * How long to sleep until the next look. Requests are gathered only while looks are short. A post
 * that gathers them stores wanted before it reads kept, this does the opposite: one sees the other.
 */
static uint64_t look_interval(struct engine *engine, uint64_t look_ns)
{
	if (look_ns > policy_numbers.gather_look_ns &&
	    !atomic_exchange(&engine->worker.gather.wanted, false)) {
		atomic_store(&engine->worker.gather.kept, false);
		if (!atomic_load(&engine->worker.gather.wanted))
			return look_ns;
	}
	atomic_store(&engine->worker.gather.kept, true);
	return look_ns < policy_numbers.gather_look_ns ? look_ns : policy_numbers.gather_look_ns;
}

/* *rung: by the doorbell, or waiter_wake_nap() while it stands by. */
static uint32_t worker_sleep(struct engine *engine, struct policy *policy, bool *rung)
{
	struct policy_view view = worker_look(engine, false);
	struct policy_rest rest = policy_rest(policy, &view, sources_deadline(&engine->source.all),
					      timers_next(engine));
	uint32_t ready;

	if (rest.on == SLEEP_ON_DOORBELL) {
		*rung = waiter_idle_wait(&engine->waiter, true,
					 look_interval(engine, rest.until_ns - view.now_ns));
		ready = waiter_wait(&engine->waiter, 0);
		*rung |= ready & WAIT_DOORBELL;
		return ready;
	}
	atomic_store(&engine->worker.gather.kept, rest.on == SLEEP_ON_ALL);
	ready = rest.on == SLEEP_ON_NAP ? sleep_on_nap(engine, &rest) : sleep_on_all(engine, rest.until_ns);
	*rung = ready & WAIT_DOORBELL;
	return ready;
}

/* ---- decisions ---- */

/* Other threads ask whether the worker is ACTIVE: policy_rest() changes the state among the others alone. */
static enum policy_action worker_decide(struct engine *engine, struct policy *policy,
					enum policy_event event)
{
	enum policy_action action = policy_decide(policy, event);

	atomic_store_explicit(&engine->worker.state, policy->state, memory_order_relaxed);
	return action;
}

/* Sleeps for @ns, unless that thread has ended. */
static bool app_is_preempted(struct engine *engine, uint64_t ns)
{
	return thread_is_preempted(atomic_load_explicit(&engine->app.thread, memory_order_relaxed), ns);
}

/* Was the wake-up needed? */
static enum policy_event worker_doubt(struct engine *engine, const struct policy *policy,
				      const struct policy_view *before)
{
	bool preempted = app_is_preempted(engine, policy_numbers.recent_ns);
	struct policy_view now = worker_look(engine, false);

	return policy_doubted(policy, before, &now, preempted);
}

/* Has the thread that polled lost its processor? */
static enum policy_event worker_ask(struct engine *engine, const struct policy_view *before)
{
	bool preempted = app_is_preempted(engine, policy_numbers.preempted_ns);
	struct policy_view now = worker_look(engine, false);

	return preempted || policy_has_polled(before, &now) ? EVENT_PREEMPTED : EVENT_GONE;
}

static void worker_serve(struct engine *engine, struct policy *policy, uint32_t ready)
{
	struct policy_view before, now;

	if (worker_make_progress(engine, ready))
		return;
	before = worker_look(engine, false);
	thread_sleep_ns(policy_numbers.recent_ns);	/* do not spin on the sockets */
	now = worker_look(engine, false);
	worker_decide(engine, policy, policy_busy(policy, &before, &now));
}

/* A doorbell that was silenced here was for the thread that waits, which has to publish again. */
static void worker_pass(struct engine *engine, bool rung)
{
	if (rung)
		waiter_ring(&engine->waiter);
}

static void worker_turn(struct engine *engine, struct policy *policy)
{
	struct policy_view view;
	uint32_t ready;
	bool rung;
	enum policy_action action;

	ready = worker_sleep(engine, policy, &rung);
	if (atomic_load(&engine->worker.stopping))
		return;
	sources_woken(&engine->source.all, ready);
	/* The bell was for the thread that waits here, and is not rung again for its sleep. */
	if ((ready & engine->source.channels.tag) && atomic_load(&engine->wait.active))
		waiter_ring(&engine->waiter);
	sources_turn(&engine->source.all, ready, clock_now_ns());
	view = worker_look(engine, rung);
	action = worker_decide(engine, policy, policy_woken(policy, &view));
	if (action == ACTION_DOUBT)
		action = worker_decide(engine, policy, worker_doubt(engine, policy, &view));
	if (action == ACTION_ASK)
		action = worker_decide(engine, policy, worker_ask(engine, &view));
	switch (action) {
	case ACTION_PROGRESS:
		worker_serve(engine, policy, ready);
		break;
	case ACTION_STAND_IN:
		worker_make_progress(engine, ready);
		worker_pass(engine, view.rung);
		break;
	case ACTION_ASSIST:
		if (ready && !view.rung)
			worker_make_progress(engine, ready);
		worker_pass(engine, view.rung);
		break;
	case ACTION_PASS:
		worker_pass(engine, view.rung);
		break;
	default:
		break;
	}
}

static void worker_main(void *argument)
{
	struct engine *engine = argument;
	struct policy policy;

	policy_init(&policy);
	if (!engine->group && !engine->without_udp)
		worker_try_bind(engine);
	while (!atomic_load(&engine->worker.stopping)) {
		if (atomic_load(&engine->worker.leaving) == LEAVING) {
			/* The process ends: transmit queued packets, read the sockets once more. */
			tx_run_queued(engine);
			engine->ops->process_ends(engine->owner);
			port_drain(engine);
			atomic_store(&engine->worker.leaving, SAYING_GOODBYE);
		}
		if (atomic_load(&engine->worker.leaving) == SAYING_GOODBYE &&
		    engine->ops->may_leave(engine->owner, clock_now_ns()))
			atomic_store(&engine->worker.leaving, HAS_LEFT);
		worker_turn(engine, &policy);
	}
}

int worker_start(struct engine *engine)
{
	atomic_store(&engine->worker.gather.kept, true);
	return worker_thread_start(&engine->worker.thread, "verbatim", worker_main, engine);
}

void worker_leave(struct engine *engine, uint64_t patience_ns, uint64_t farewell_ns)
{
	uint64_t begin_ns = clock_now_ns(), until_ns = begin_ns + patience_ns, step_ns = LEAVE_STEP_NS;

	atomic_store(&engine->worker.leaving, LEAVING);
	while (atomic_load(&engine->worker.leaving) != HAS_LEFT && clock_now_ns() < until_ns) {
		if (atomic_load(&engine->worker.leaving) == SAYING_GOODBYE)
			until_ns = begin_ns + farewell_ns;
		if (clock_now_ns() - begin_ns > FAREWELL_STEP_NS)
			step_ns = FAREWELL_STEP_NS;
		/* Repeatedly: another thread may consume a ring meant for the worker. */
		waiter_ring(&engine->waiter);
		waiter_wake_nap(&engine->waiter);
		thread_sleep_ns(step_ns);
	}
}

void worker_stop(struct engine *engine)
{
	if (engine->worker.thread) {
		atomic_store(&engine->worker.stopping, true);
		waiter_ring(&engine->waiter);
		waiter_wake_nap(&engine->waiter);
		worker_thread_join(engine->worker.thread);
		engine->worker.thread = NULL;
	}
	if (engine->owner_watch_fd >= 0)
		close(engine->owner_watch_fd);
	engine->owner_watch_fd = -1;
}
