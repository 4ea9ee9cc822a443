/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An application thread in ibv_get_cq_event() that does the worker's part while it waits. Otherwise
 * each message would wake the worker, and then the worker the application.
 *
 * One thread at a time. The worker notices and stands by (worker.c): it sleeps briefly while such
 * waits come and go, and long while one lasts. The application's thread wakes it for work that only
 * the worker does: peers that connect or end, interfaces, the connection manager's chores.
 */

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>

#include "base/call.h"
#include "engine/internal.h"
#include "engine/sleep.h"
#include "platform/clock.h"
#include "platform/wait.h"

#define PASS_NS 50000u		/* for the worker to take a bell */

struct app_sleep {
	struct engine *engine;
	uint64_t until_ns;		/* TIME_NEVER: no limit */
	bool asleep;
	int cancel_state;		/* of the application's thread */
};

static bool may_block(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	return flags >= 0 && !(flags & O_NONBLOCK);
}

/*
 * The worker, asleep on the sockets since before we waited, does not know what was asked of it meanwhile:
 * the bell for it was silenced here. False: nothing was asked.
 */
static bool pass_bell(struct engine *engine)
{
	uint64_t until_ns = atomic_load(&engine->worker.until_ns);

	if (!until_ns ||
	    (sources_asked(&engine->source.all) >= until_ns &&
	     !sources_are_due(&engine->source.all)))
		return false;
	waiter_ring(&engine->waiter);
	return true;
}

/* Also when the thread is cancelled. */
static void wait_end(void *argument)
{
	struct app_sleep *self = argument;
	struct engine *engine = self->engine;

	if (self->asleep)
		sleep_end(engine);
	atomic_store_explicit(&engine->wait.vouched, policy_waited(), memory_order_relaxed);
	progress_note(engine, clock_now_ns());
	atomic_store(&engine->wait.active, false);
	/*
	 * The worker sleeps as long as a thread waits in its place: it has to check again from now
	 * on.
	 */
	if (atomic_exchange(&engine->wait.deep_sleep, false))
		waiter_wake_nap(&engine->waiter);
	pass_bell(engine);
}

/* The worker sleeps without sources and doorbell: of what it alone does it hears by us. */
static void keep_worker_awake(struct engine *engine)
{
	if (sources_are_due(&engine->source.all) ||
	    sources_asked(&engine->source.all) < atomic_load(&engine->wait.worker_until_ns))
		waiter_wake_nap(&engine->waiter);
}

static int wait_for_event(struct app_sleep *self, struct event_queue *queue)
{
	struct engine *engine = self->engine;
	uint32_t ours = WAIT_DOORBELL | WAIT_FD | engine->source.all.anyones, ready;
	uint64_t timeout_ns, next_ns;
	unsigned packets;
	int err;

	do {
		self->asleep = true;
		next_ns = timers_next(engine);
		timeout_ns = sleep_begin(engine, next_ns < self->until_ns ? next_ns : self->until_ns);
		/* Whoever asked for something before that saw us awake, and rang nobody (worker_wake_at()). */
		keep_worker_awake(engine);
		err = waiter_wait_progress(&engine->waiter, queue->fd, timeout_ns, self->cancel_state, &ready);
		self->asleep = false;
		sleep_end(engine);
		if (ready & ~ours)
			waiter_wake_nap(&engine->waiter);
		/*
		 * Signal handlers that were put off run where this thread holds and promises
		 * nothing.
		 */
		if (err || (ready & WAIT_FD) || (ready & ~ours) || call_is_owed() ||
		    atomic_load(&engine->worker.stopping))
			return err;
		sources_woken(&engine->source.all, ready);
		engine_progress(engine, NULL, &packets);
		keep_worker_awake(engine);
		/* It is the worker's: we keep away a moment. If it is lost once more, we are back. */
		if (pass_bell(engine))
			thread_sleep_ns(PASS_NS);
		if (self->until_ns != TIME_NEVER && clock_now_ns() >= self->until_ns)
			return event_queue_pending(queue) ? 0 : ETIMEDOUT;
	} while (!event_queue_pending(queue));
	return 0;
}

int wait_progress(struct engine *engine, struct event_queue *queue, uint64_t until_ns)
{
	struct app_sleep self = { .engine = engine, .until_ns = until_ns };
	int cancel_state, err;

	if (event_queue_pending(queue) || !may_block(queue->fd) ||
	    atomic_exchange(&engine->wait.active, true))
		return 0;
	atomic_fetch_add(&engine->wait.count, 1);
	/*
	 * It may be cancelled while it sleeps, and never while it makes progress, with locks held.
	 */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
	self.cancel_state = call_thread.shielded ? call_thread.cancel_state : cancel_state;
	pthread_cleanup_push(call_abandon, NULL);
	pthread_cleanup_push(wait_end, &self);
	err = wait_for_event(&self, queue);
	pthread_cleanup_pop(1);
	pthread_cleanup_pop(0);
	pthread_setcancelstate(cancel_state, NULL);
	return err;
}
