/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The worker: one thread per process that drives the device when no application thread does.
 *
 *	ACTIVE   sleeps on the sockets until the next deadline, drives when woken
 *	STANDBY  an application thread polls: sleeps without the sockets (or each packet would wake
 *	         two threads), looks every interval whether polling goes on, takes over if not
 *
 * Which of them is right is learnt. Woken in ACTIVE shortly after an application thread drove, it
 * waits a moment: if that thread drives again the wake-up was useless (score down, STANDBY at 0),
 * if not it was needed (score up; ib_write_lat polls for a completion and then spins on memory).
 * That it drives just then, and goes on for long because it copies, makes a wake-up useless too.
 *
 * Where many packets come at a time the next ones follow soon, and to be woken for them costs the
 * sender more than us: so the worker lingers, awake, as long as that goes on.
 *
 * Where application threads sleep in ibv_get_cq_event() they do all this themselves (stand_in.c), and
 * the worker stands by too.
 */
#include <errno.h>
#include <unistd.h>

#include "base/log.h"
#include "hca/gsi_internal.h"
#include "hca/internal.h"
#include "hca/sleep.h"
#include "host/name.h"
#include "link/udp.h"
#include "platform/clock.h"
#include "platform/thread_cpu.h"

#define RECENT_NS	20000u		/* an application thread that drove this recently polls */
#define IDLE_NS		100000u		/* one that did not drive for this long does something else */
#define PREEMPTED_NS	50000u	/* runnable, and not running for this long */
#define AWAY_NS		5000000u	/* a slice of another one, or two */
#define EVENT_MODE_NS	1000000u	/* after a req_notify: wake-ups are needed, do not doubt */
#define NAP_MIN_NS	50000u
#define NAP_MAX_NS	2000000u
#define SCORE_START	4
#define SCORE_MAX	32
#define SURE_EVERY	8u		/* at SCORE_MAX, doubt every so many wake-ups only */
#define REBIND_NS	1000000000ull	/* between tries for a port nobody tells us about */
#define LEAVE_STEP_NS	50000u
#define STREAM_PACKETS	8u		/* in one pass: these are not all */
#define LINGER_NS	30000u		/* without a packet */
#define LINGER_PASSES	4096u		/* then housekeeping has a turn */
#define LINGER_YIELD	16u		/* empty passes between offers of the core to others */

struct judgement {
	int score;
	unsigned wakes;
	uint64_t nap_ns;
	uint64_t rebind_ns;
	unsigned stands;		/* waits of application threads, when we last looked */
};

void worker_notice(struct hca *hca, uint64_t deadline_ns)
{
	atomic_thread_fence(memory_order_seq_cst);
	if (deadline_ns < atomic_load_explicit(&hca->sleep_until_ns, memory_order_relaxed))
		waiter_ring(&hca->waiter);
}

void worker_expect_sleepers(struct hca *hca)
{
	atomic_store_explicit(&hca->event_mode_ns, clock_now_ns(), memory_order_relaxed);
	/* One that stood in after it asked last time will do so again. */
	if (atomic_load_explicit(&hca->worker_state, memory_order_relaxed) == WORKER_STANDBY &&
	    !atomic_exchange(&hca->stood, false))
		waiter_ring(&hca->waiter);
}

/* Of what the worker alone does. */
static uint64_t next_chore(struct hca *hca, const struct judgement *judgement)
{
	uint64_t deadline_ns = judgement->rebind_ns;

	if (hca->group && port_group_deadline(hca->group) < deadline_ns)
		deadline_ns = port_group_deadline(hca->group);
	if (sleep_asked_for(hca) < deadline_ns)
		deadline_ns = sleep_asked_for(hca);
	return deadline_ns;
}

static uint32_t sleep_active(struct hca *hca, const struct judgement *judgement)
{
	uint64_t deadline_ns = sleep_next_timer(hca), chore_ns = next_chore(hca, judgement), timeout_ns;
	uint32_t ready;

	if (chore_ns < deadline_ns)
		deadline_ns = chore_ns;
	timeout_ns = sleep_begin(hca, deadline_ns);
	if (sleep_asked_for(hca) < deadline_ns || gsi_has_work(hca))
		timeout_ns = 0;
	ready = waiter_wait(&hca->waiter, timeout_ns);
	sleep_end(hca);
	return ready;
}

/* What application threads have done so far. */
struct app {
	uint64_t drove_ns;
	uint32_t drives;
};

static struct app app_of(struct hca *hca)
{
	return (struct app){
		.drove_ns = atomic_load_explicit(&hca->app_drove_ns, memory_order_relaxed),
		.drives = atomic_load_explicit(&hca->app_drives, memory_order_relaxed) };
}

/* Driven, or tried to, since then. */
static bool has_polled(struct hca *hca, const struct app *then)
{
	struct app now = app_of(hca);

	return now.drove_ns != then->drove_ns || now.drives != then->drives;
}

static bool drives_now(struct hca *hca)
{
	return atomic_load_explicit(&hca->app_drives_now, memory_order_relaxed);
}

/* It has asked to be woken: so wake-ups are not to be doubted. */
static bool expects_events(struct hca *hca)
{
	return clock_now_ns() - atomic_load_explicit(&hca->event_mode_ns, memory_order_relaxed) <
	       EVENT_MODE_NS;
}

/* Does an application thread poll just now, so that this wake-up was for nothing? */
static bool is_useless(struct hca *hca, struct judgement *judgement)
{
	struct app app = app_of(hca);

	if (clock_now_ns() - app.drove_ns > RECENT_NS || expects_events(hca))
		return false;
	if (judgement->score == SCORE_MAX && ++judgement->wakes % SURE_EVERY)
		return false;
	thread_sleep_ns(RECENT_NS);
	/* Or is still at it, in a copy that takes longer than we slept. */
	if (has_polled(hca, &app) || drives_now(hca))
		return true;
	judgement->score += 2;
	if (judgement->score > SCORE_MAX)
		judgement->score = SCORE_MAX;
	return false;
}

static void try_bind(struct hca *hca, struct judgement *judgement)
{
	int watch_fd = hca->owner_watch_fd;

	hca->owner_watch_fd = -1;
	if (watch_fd >= 0) {
		waiter_remove(&hca->waiter, watch_fd);
		connection_end(watch_fd);
	}
	judgement->rebind_ns = TIME_NEVER;
	lock_acquire(&hca->drive);
	hca_bind_port(hca);
	lock_release(&hca->drive);
	if (hca->group)
		return;
	hca->owner_watch_fd = port_owner_watch();
	if (hca->owner_watch_fd < 0 ||
	    waiter_add(&hca->waiter, hca->owner_watch_fd, WAIT_OWNER))
		judgement->rebind_ns = clock_now_ns() + REBIND_NS;
}

static void housekeeping(struct hca *hca, struct judgement *judgement, uint32_t ready)
{
	uint64_t now_ns = clock_now_ns();

	if (ready & WAIT_NETDEV) {
		netdev_monitor_drain(hca->netdev_fd);
		net_refresh(&hca->net);
	}
	if (ready & WAIT_BELLS) {
		local_silence_bells(&hca->local);
		/* Rung for the thread that stands in, and not again for the sleep that it has published. */
		if (atomic_load(&hca->standing))
			waiter_ring(&hca->waiter);
	}
	if ((ready & WAIT_MEMORY) || atomic_load(&hca->local.serve_due))
		local_serve(&hca->local);
	local_reconnect(&hca->local, now_ns);
	if (ready & WAIT_SLOTS)
		atomic_store(&hca->slots_due, true);
	if ((ready & WAIT_OWNER) || judgement->rebind_ns <= now_ns)
		try_bind(hca, judgement);
	if (hca->group && ((ready & WAIT_GROUP) || port_group_deadline(hca->group) <= now_ns)) {
		lock_acquire(&hca->drive);
		port_group_tick(hca->group, now_ns);
		lock_release(&hca->drive);
	}
	gsi_housekeeping(hca, ready, now_ns);
}

/* An application thread that polls meanwhile does this better. */
static void linger(struct hca *hca)
{
	struct app app = app_of(hca);
	uint64_t end_ns = clock_now_ns() + LINGER_NS, now_ns;
	unsigned passes, packets, empty = 0;

	for (passes = 0; passes < LINGER_PASSES && hca_drive(hca, NULL, &packets); passes++) {
		now_ns = clock_now_ns();
		if (packets)
			end_ns = now_ns + LINGER_NS;
		else if (++empty % LINGER_YIELD == 0)
			thread_yield();
		if (now_ns > end_ns || atomic_load(&hca->stopping) || has_polled(hca, &app))
			return;
	}
}

/* False: somebody is at it. */
static bool drive(struct hca *hca, uint32_t ready)
{
	unsigned looks = ready & WAIT_SOCKETS ? UDP_LOOKS_MAX : 1, packets;

	do
		if (!hca_drive(hca, NULL, &packets))
			return false;
	while (!packets && --looks);
	if (packets >= STREAM_PACKETS)
		linger(hca);
	return true;
}

/* An application thread does this better: woken for nothing so often, the worker stands by. */
static void note_useless(struct hca *hca, struct judgement *judgement)
{
	if (--judgement->score > 0)
		return;
	judgement->nap_ns = NAP_MIN_NS;
	atomic_store(&hca->worker_state, WORKER_STANDBY);
}

static void active(struct hca *hca, struct judgement *judgement)
{
	uint32_t ready = sleep_active(hca, judgement);

	if (atomic_load(&hca->stopping))
		return;
	housekeeping(hca, judgement, ready);
	if (atomic_load(&hca->standing)) {
		drive(hca, ready);
		/* The doorbell that we have silenced was for it: a timer may be due before it wakes. */
		if (ready & WAIT_DOORBELL)
			waiter_ring(&hca->waiter);
		judgement->nap_ns = NAP_MAX_NS;
		atomic_store(&hca->worker_state, WORKER_STANDBY);
		return;
	}
	if (is_useless(hca, judgement)) {
		note_useless(hca, judgement);
	} else if (!drive(hca, ready)) {
		bool polling = drives_now(hca) && !expects_events(hca);

		thread_sleep_ns(RECENT_NS);	/* do not spin on the sockets */
		if (polling && drives_now(hca))
			note_useless(hca, judgement);	/* all the time, because it copies */
	}
}

/*
 * How long to nap while an application thread stands in: for ever, but for chores, if it is the same
 * wait of its as when we looked last. It wakes us when it leaves then.
 */
static uint64_t relieved_nap(struct hca *hca, struct judgement *judgement)
{
	uint64_t chore_ns = next_chore(hca, judgement), now_ns = clock_now_ns();
	uint64_t until_ns = now_ns + NAP_MAX_NS;
	unsigned stands = atomic_load(&hca->stands);

	if (stands == judgement->stands) {
		atomic_store(&hca->long_nap, true);
		if (atomic_load(&hca->standing))
			until_ns = TIME_NEVER;
	}
	judgement->stands = stands;
	if (chore_ns < until_ns)
		until_ns = chore_ns;
	atomic_store(&hca->nap_until_ns, until_ns);
	if (sleep_asked_for(hca) < until_ns || gsi_has_work(hca) || until_ns <= now_ns)
		return 0;
	return until_ns == TIME_NEVER ? UINT64_MAX : until_ns - now_ns;
}

static void relieved(struct hca *hca, struct judgement *judgement)
{
	bool rung = waiter_nap(&hca->waiter, false, relieved_nap(hca, judgement));
	uint32_t ready = 0;

	atomic_store(&hca->long_nap, false);
	atomic_store(&hca->nap_until_ns, 0);
	if (atomic_load(&hca->stopping))
		return;
	if (rung)
		ready = waiter_wait(&hca->waiter, 0);
	housekeeping(hca, judgement, ready);
	if (ready & WAIT_DOORBELL)
		waiter_ring(&hca->waiter);	/* it was for that thread, which has to publish again */
	else if (ready)
		drive(hca, ready);
	judgement->nap_ns = NAP_MAX_NS;
}

/*
 * By an application thread, just now, and not merely since we looked last: it may spin on memory since
 * then. It may be at it for long: large SENDs and WRITEs are copied meanwhile. One that has lost its core
 * will go on when it has one: ours, if we sleep. But not for ever, in what it does then it may wait for us;
 * and not if it has left something to do.
 */
static bool is_polled(struct hca *hca)
{
	struct app app = app_of(hca);
	uint64_t idle_ns = clock_now_ns() - app.drove_ns;

	if (idle_ns < IDLE_NS || drives_now(hca))
		return true;
	if (atomic_load(&hca->run_queue.count) || idle_ns > AWAY_NS)
		return false;
	return thread_is_preempted(atomic_load_explicit(&hca->app_thread, memory_order_relaxed),
				   PREEMPTED_NS) || has_polled(hca, &app);
}

static void standby(struct hca *hca, struct judgement *judgement)
{
	unsigned stands = atomic_load(&hca->stands);
	uint32_t ready;
	bool rung;

	if (atomic_load(&hca->standing)) {
		relieved(hca, judgement);
		return;
	}
	rung = waiter_nap(&hca->waiter, true, judgement->nap_ns);
	ready = waiter_wait(&hca->waiter, 0);
	housekeeping(hca, judgement, ready);
	rung |= ready & WAIT_DOORBELL;
	if (rung && atomic_load(&hca->standing))
		waiter_ring(&hca->waiter);	/* it was for that thread */
	if (atomic_load(&hca->standing) || stands != atomic_load(&hca->stands) ||
	    (!rung && is_polled(hca))) {
		if (judgement->nap_ns < NAP_MAX_NS)
			judgement->nap_ns *= 2;
		return;
	}
	judgement->score = SCORE_START;
	atomic_store(&hca->worker_state, WORKER_ACTIVE);
}

static void work(void *argument)
{
	struct hca *hca = argument;
	struct judgement judgement = { .score = SCORE_START, .rebind_ns = TIME_NEVER };

	if (!hca->group)
		try_bind(hca, &judgement);
	while (!atomic_load(&hca->stopping)) {
		if (atomic_load(&hca->leaving) == LEAVING) {
			hca_leave(hca);
			atomic_store(&hca->leaving, HAS_LEFT);
		}
		if (atomic_load_explicit(&hca->worker_state, memory_order_relaxed) == WORKER_STANDBY)
			standby(hca, &judgement);
		else
			active(hca, &judgement);
	}
}

void worker_watch_port(struct hca *hca)
{
	int fds[8];
	unsigned i, count = hca->link->ops->event_fds(hca->link, fds, 8);

	for (i = 0; i < count; i++) {
		int err = waiter_add(&hca->waiter, fds[i], WAIT_SOCKETS);

		if (err && err != EEXIST)
			log_error("cannot wait on socket %d: error %d", fds[i], err);
	}
	if (hca->group)
		waiter_add(&hca->waiter, port_group_event_fd(hca->group), WAIT_GROUP);
}

int worker_watch_slot(struct hca *hca, const struct slot *slot)
{
	return waiter_add(&hca->waiter, slot->fd, WAIT_SLOTS);
}

int worker_start(struct hca *hca)
{
	int err;

	hca->owner_watch_fd = -1;
	if (!netdev_monitor_open(&hca->netdev_fd)) {
		err = waiter_add(&hca->waiter, hca->netdev_fd, WAIT_NETDEV);
		if (err)
			return err;
	} else {
		hca->netdev_fd = -1;
		log_warn("changes of interfaces will not be seen: no netlink notifications here");
	}
	return worker_thread_start(&hca->worker, "verbatim", work, hca);
}

void worker_leave(struct hca *hca, uint64_t patience_ns)
{
	uint64_t until_ns = clock_now_ns() + patience_ns;

	atomic_store(&hca->leaving, LEAVING);
	while (atomic_load(&hca->leaving) != HAS_LEFT && clock_now_ns() < until_ns) {
		/* Again and again: another thread may take what was rung for the worker. */
		waiter_ring(&hca->waiter);
		waiter_ring_bell(&hca->waiter);
		thread_sleep_ns(LEAVE_STEP_NS);
	}
}

void worker_stop(struct hca *hca)
{
	if (hca->worker) {
		atomic_store(&hca->stopping, true);
		waiter_ring(&hca->waiter);
		waiter_ring_bell(&hca->waiter);
		worker_thread_join(hca->worker);
		hca->worker = NULL;
	}
	if (hca->owner_watch_fd >= 0)
		close(hca->owner_watch_fd);
	if (hca->netdev_fd >= 0)
		close(hca->netdev_fd);
	hca->owner_watch_fd = hca->netdev_fd = -1;
}
