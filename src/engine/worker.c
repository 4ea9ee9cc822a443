/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The worker: one thread per process that makes progress when no application thread does.
 *
 *	ACTIVE   sleeps on the sockets until the next deadline, makes progress when woken
 *	STANDBY  an application thread polls: sleeps without the sockets (or each packet would wake
 *	         two threads), checks every interval whether polling continues, takes over if not
 *
 * The state is learnt. Woken in ACTIVE shortly after an application thread made progress, the
 * worker waits a moment: if that thread makes progress again the wake-up was useless (score down,
 * STANDBY at 0), if not it was needed (score up; ib_write_lat polls for a completion and then spins
 * on memory). A wake-up is useless, too, while an application thread makes one long round because
 * it copies.
 *
 * When many packets arrive at a time the next ones follow soon, and a wake-up for them costs the
 * sender more than this process: so the worker lingers, awake, as long as they arrive.
 *
 * Application threads that sleep in ibv_get_cq_event() make progress themselves (wait.c), and the
 * worker stands by, too.
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

#define RECENT_NS	20000u		/* an application thread that made progress this recently polls */
#define IDLE_NS		100000u		/* a thread without progress for this long does something else */
#define PREEMPTED_NS	50000u	/* runnable, and not running for this long */
#define AWAY_NS		5000000u	/* one or two time slices of another thread */
#define EVENT_MODE_NS	1000000u	/* after a req_notify wake-ups count as needed */
#define LOOK_MIN_NS	50000u
#define LOOK_MAX_NS	2000000u
#define GATHER_LOOK_NS	200000u		/* longest look while requests are gathered (tx_run.c) */
#define SCORE_START	4
#define SCORE_MAX	32
#define SURE_EVERY	8u		/* at SCORE_MAX, judge only one wake-up in so many */
#define REBIND_NS	1000000000ull	/* between tries for a port whose release is not signalled */
#define LEAVE_STEP_NS	50000u
#define STREAM_PACKETS	8u		/* in one round: more are expected */
#define LINGER_NS	30000u		/* without a packet */
#define LINGER_ROUNDS	4096u		/* then housekeeping has a turn */
#define LINGER_YIELD	16u		/* empty rounds between offers of the core to others */

struct judgement {
	int score;
	unsigned wakes;
	uint64_t look_ns;
	uint64_t rebind_ns;
	unsigned waits;		/* waits of application threads, when we last looked */
};

void worker_expect_sleepers(struct engine *engine)
{
	atomic_store_explicit(&engine->app.event_mode_ns, clock_now_ns(), memory_order_relaxed);
	/*
	 * A thread that waited here after its last ibv_req_notify_cq() is expected to do so again:
	 * no wake-up.
	 */
	if (atomic_load_explicit(&engine->worker.state, memory_order_relaxed) == WORKER_STANDBY &&
	    !atomic_exchange(&engine->wait.recent, false))
		waiter_ring(&engine->waiter);
}

/* The next deadline of work that only the worker does. */
static uint64_t next_chore(struct engine *engine, const struct judgement *judgement)
{
	uint64_t deadline_ns = judgement->rebind_ns;

	if (engine->group && port_group_deadline(engine->group) < deadline_ns)
		deadline_ns = port_group_deadline(engine->group);
	if (sleep_asked_for(engine) < deadline_ns)
		deadline_ns = sleep_asked_for(engine);
	return deadline_ns;
}

static uint32_t sleep_active(struct engine *engine, const struct judgement *judgement)
{
	uint64_t deadline_ns = timers_next(engine), chore_ns = next_chore(engine, judgement), timeout_ns;
	uint32_t ready;

	if (chore_ns < deadline_ns)
		deadline_ns = chore_ns;
	timeout_ns = sleep_begin(engine, deadline_ns);
	if (sleep_asked_for(engine) < deadline_ns || engine->ops->has_chores(engine->owner))
		timeout_ns = 0;
	ready = waiter_wait(&engine->waiter, timeout_ns);
	sleep_end(engine);
	return ready;
}

/* Progress made by application threads so far. */
struct activity {
	uint64_t progress_ns;
	uint32_t calls;
};

static struct activity activity_of(struct engine *engine)
{
	return (struct activity){
		.progress_ns = atomic_load_explicit(&engine->app.progress_ns, memory_order_relaxed),
		.calls = atomic_load_explicit(&engine->app.calls, memory_order_relaxed) };
}

/* Has an application thread made progress, or tried to, since then? */
static bool has_polled(struct engine *engine, const struct activity *then)
{
	struct activity now = activity_of(engine);

	return now.progress_ns != then->progress_ns || now.calls != then->calls;
}

static bool is_inside(struct engine *engine)
{
	return atomic_load_explicit(&engine->app.inside, memory_order_relaxed);
}

/* An application thread asked to be woken lately: wake-ups count as needed. */
static bool expects_events(struct engine *engine)
{
	return clock_now_ns() - atomic_load_explicit(&engine->app.event_mode_ns, memory_order_relaxed) <
	       EVENT_MODE_NS;
}

/*
 * True: the wake-up was useless, since an application thread polls now. Raises the score if it was
 * needed.
 */
static bool worker_judge_wakeup(struct engine *engine, struct judgement *judgement)
{
	struct activity app = activity_of(engine);

	if (clock_now_ns() - app.progress_ns > RECENT_NS || expects_events(engine))
		return false;
	if (judgement->score == SCORE_MAX && ++judgement->wakes % SURE_EVERY)
		return false;
	thread_sleep_ns(RECENT_NS);
	/* Or it is still in the same round, in a copy that takes longer than RECENT_NS. */
	if (has_polled(engine, &app) || is_inside(engine))
		return true;
	judgement->score += 2;
	if (judgement->score > SCORE_MAX)
		judgement->score = SCORE_MAX;
	return false;
}

static void worker_try_bind(struct engine *engine, struct judgement *judgement)
{
	int watch_fd = engine->owner_watch_fd;

	engine->owner_watch_fd = -1;
	if (watch_fd >= 0) {
		waiter_remove(&engine->waiter, watch_fd);
		name_disconnect(watch_fd);
	}
	judgement->rebind_ns = TIME_NEVER;
	lock_acquire(&engine->progress);
	port_bind(engine);
	lock_release(&engine->progress);
	if (engine->group)
		return;
	engine->owner_watch_fd = port_owner_watch();
	if (engine->owner_watch_fd < 0 ||
	    waiter_add(&engine->waiter, engine->owner_watch_fd, WAIT_PORT_FREE))
		judgement->rebind_ns = clock_now_ns() + REBIND_NS;
}

static void worker_housekeeping(struct engine *engine, struct judgement *judgement, uint32_t ready)
{
	uint64_t now_ns = clock_now_ns();

	if (ready & WAIT_BELLS) {
		local_silence_bells(&engine->local);
		/*
		 * The bell was for the thread that waits here, and is not rung again for its sleep.
		 */
		if (atomic_load(&engine->wait.active))
			waiter_ring(&engine->waiter);
	}
	if ((ready & WAIT_CONNECT) || atomic_load(&engine->local.peers_due))
		local_handle_peers(&engine->local);
	local_reconnect(&engine->local, now_ns);
	if (ready & WAIT_SLOTS)
		atomic_store(&engine->rx.slots_due, true);
	if ((ready & WAIT_PORT_FREE) || judgement->rebind_ns <= now_ns)
		worker_try_bind(engine, judgement);
	if (engine->group && ((ready & WAIT_GROUP) || port_group_deadline(engine->group) <= now_ns)) {
		lock_acquire(&engine->progress);
		port_group_tick(engine->group, now_ns);
		lock_release(&engine->progress);
	}
	engine->ops->chores(engine->owner, ready, now_ns);
}

/* Ends when an application thread polls: it does this better. */
static void worker_linger(struct engine *engine)
{
	struct activity app = activity_of(engine);
	uint64_t end_ns = clock_now_ns() + LINGER_NS, now_ns;
	unsigned rounds, packets, empty = 0;

	for (rounds = 0; rounds < LINGER_ROUNDS && engine_progress(engine, NULL, &packets); rounds++) {
		now_ns = clock_now_ns();
		if (packets)
			end_ns = now_ns + LINGER_NS;
		else if (++empty % LINGER_YIELD == 0)
			thread_yield();
		if (now_ns > end_ns || atomic_load(&engine->worker.stopping) || has_polled(engine, &app))
			return;
	}
}

/* False: another thread makes progress. */
static bool worker_make_progress(struct engine *engine, uint32_t ready)
{
	unsigned looks = ready & WAIT_SOCKETS ? UDP_LOOKS_MAX : 1, packets;

	do
		if (!engine_progress(engine, NULL, &packets))
			return false;
	while (!packets && --looks);
	if (packets >= STREAM_PACKETS)
		worker_linger(engine);
	return true;
}

/* After enough useless wake-ups the worker stands by: an application thread makes progress. */
static void note_useless(struct engine *engine, struct judgement *judgement)
{
	if (--judgement->score > 0)
		return;
	judgement->look_ns = LOOK_MIN_NS;
	atomic_store(&engine->worker.state, WORKER_STANDBY);
}

static void worker_be_active(struct engine *engine, struct judgement *judgement)
{
	uint32_t ready = sleep_active(engine, judgement);

	if (atomic_load(&engine->worker.stopping))
		return;
	worker_housekeeping(engine, judgement, ready);
	if (atomic_load(&engine->wait.active)) {
		worker_make_progress(engine, ready);
		/*
		 * The doorbell silenced above was for that thread: a timer may be due before it
		 * wakes.
		 */
		if (ready & WAIT_DOORBELL)
			waiter_ring(&engine->waiter);
		judgement->look_ns = LOOK_MAX_NS;
		atomic_store(&engine->worker.state, WORKER_STANDBY);
		return;
	}
	if (worker_judge_wakeup(engine, judgement)) {
		note_useless(engine, judgement);
	} else if (!worker_make_progress(engine, ready)) {
		bool polling = is_inside(engine) && !expects_events(engine);

		thread_sleep_ns(RECENT_NS);	/* do not spin on the sockets */
		if (polling && is_inside(engine))
			note_useless(engine, judgement);	/* all the time, because it copies */
	}
}

/*
 * Time to sleep while an application thread waits in the worker's place: until the next chore if
 * this wait already lasted at the previous check, and the thread wakes the worker when it leaves.
 */
static uint64_t deep_sleep_ns(struct engine *engine, struct judgement *judgement)
{
	uint64_t chore_ns = next_chore(engine, judgement), now_ns = clock_now_ns();
	uint64_t until_ns = now_ns + LOOK_MAX_NS;
	unsigned waits = atomic_load(&engine->wait.count);

	if (waits == judgement->waits) {
		atomic_store(&engine->wait.deep_sleep, true);
		if (atomic_load(&engine->wait.active))
			until_ns = TIME_NEVER;
	}
	judgement->waits = waits;
	if (chore_ns < until_ns)
		until_ns = chore_ns;
	atomic_store(&engine->wait.worker_until_ns, until_ns);
	if (sleep_asked_for(engine) < until_ns || engine->ops->has_chores(engine->owner) || until_ns <= now_ns)
		return 0;
	return until_ns == TIME_NEVER ? UINT64_MAX : until_ns - now_ns;
}

static void worker_is_relieved(struct engine *engine, struct judgement *judgement)
{
	uint32_t ready = 0;
	bool rung;

	atomic_store(&engine->worker.gather.kept, false);
	rung = waiter_idle_wait(&engine->waiter, false, deep_sleep_ns(engine, judgement));
	atomic_store(&engine->wait.deep_sleep, false);
	atomic_store(&engine->wait.worker_until_ns, 0);
	if (atomic_load(&engine->worker.stopping))
		return;
	if (rung)
		ready = waiter_wait(&engine->waiter, 0);
	worker_housekeeping(engine, judgement, ready);
	if (ready & WAIT_DOORBELL)
		waiter_ring(&engine->waiter);	/* for that thread, which has to publish again */
	else if (ready)
		worker_make_progress(engine, ready);
	judgement->look_ns = LOOK_MAX_NS;
}

/*
 * Does an application thread poll now? (Not: since the last check. It may spin on memory since
 * then.) A thread inside a copy counts as polling. So does a thread without a processor, which may
 * need that of the worker, unless it left work or was away longer than AWAY_NS: it may wait for the
 * worker.
 */
static bool is_polled(struct engine *engine)
{
	struct activity app = activity_of(engine);
	uint64_t idle_ns = clock_now_ns() - app.progress_ns;

	if (idle_ns < IDLE_NS || is_inside(engine))
		return true;
	if (atomic_load(&engine->run_queue.count) || idle_ns > AWAY_NS)
		return false;
	return thread_is_preempted(atomic_load_explicit(&engine->app.thread, memory_order_relaxed),
				   PREEMPTED_NS) || has_polled(engine, &app);
}

/*
 * How long to sleep until the next look. Requests are gathered only while looks are short. A post
 * that gathers them stores wanted before it reads kept, this does the opposite: one sees the other.
 */
static uint64_t look_interval(struct engine *engine, const struct judgement *judgement)
{
	uint64_t look_ns = judgement->look_ns;

	if (look_ns > GATHER_LOOK_NS && !atomic_exchange(&engine->worker.gather.wanted, false)) {
		atomic_store(&engine->worker.gather.kept, false);
		if (!atomic_load(&engine->worker.gather.wanted))
			return look_ns;
	}
	atomic_store(&engine->worker.gather.kept, true);
	return look_ns < GATHER_LOOK_NS ? look_ns : GATHER_LOOK_NS;
}

static void worker_stand_by(struct engine *engine, struct judgement *judgement)
{
	unsigned waits = atomic_load(&engine->wait.count);
	uint32_t ready;
	bool rung;

	if (atomic_load(&engine->wait.active)) {
		worker_is_relieved(engine, judgement);
		return;
	}
	rung = waiter_idle_wait(&engine->waiter, true, look_interval(engine, judgement));
	ready = waiter_wait(&engine->waiter, 0);
	worker_housekeeping(engine, judgement, ready);
	rung |= ready & WAIT_DOORBELL;
	if (rung && atomic_load(&engine->wait.active))
		waiter_ring(&engine->waiter);	/* for that thread */
	if (atomic_load(&engine->wait.active) || waits != atomic_load(&engine->wait.count) ||
	    (!rung && is_polled(engine))) {
		if (judgement->look_ns < LOOK_MAX_NS)
			judgement->look_ns *= 2;
		return;
	}
	judgement->score = SCORE_START;
	atomic_store(&engine->worker.gather.kept, true);
	atomic_store(&engine->worker.state, WORKER_ACTIVE);
}

/* The process ends: transmit queued packets, and read the sockets once more. */
static void worker_wind_up(struct engine *engine)
{
	tx_run_queued(engine);
	engine->ops->process_ends(engine->owner);
	port_drain(engine);
}

static void worker_main(void *argument)
{
	struct engine *engine = argument;
	struct judgement judgement = { .score = SCORE_START, .rebind_ns = TIME_NEVER };

	if (!engine->group)
		worker_try_bind(engine, &judgement);
	while (!atomic_load(&engine->worker.stopping)) {
		if (atomic_load(&engine->worker.leaving) == LEAVING) {
			worker_wind_up(engine);
			atomic_store(&engine->worker.leaving, HAS_LEFT);
		}
		if (atomic_load_explicit(&engine->worker.state, memory_order_relaxed) == WORKER_STANDBY)
			worker_stand_by(engine, &judgement);
		else
			worker_be_active(engine, &judgement);
	}
}

int worker_start(struct engine *engine)
{
	atomic_store(&engine->worker.gather.kept, true);
	return worker_thread_start(&engine->worker.thread, "verbatim", worker_main, engine);
}

void worker_leave(struct engine *engine, uint64_t patience_ns)
{
	uint64_t until_ns = clock_now_ns() + patience_ns;

	atomic_store(&engine->worker.leaving, LEAVING);
	while (atomic_load(&engine->worker.leaving) != HAS_LEFT && clock_now_ns() < until_ns) {
		/* Repeatedly: another thread may consume a ring meant for the worker. */
		waiter_ring(&engine->waiter);
		waiter_wake_nap(&engine->waiter);
		thread_sleep_ns(LEAVE_STEP_NS);
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
