/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Driving the device: one thread at a time (hca->drive) receives, expires timers and serves the
 * run queue; whoever polls a CQ tries, the worker does it when nobody polls.
 *
 * Transmitting for a QP is called pumping. One thread at a time pumps a QP, so that its packets
 * leave in order although the system call is made without its lock; another thread that wants to
 * pump it leaves a mark (pump_again) and goes.
 */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "hca/internal.h"
#include "platform/clock.h"
#include "platform/thread_cpu.h"

#define PUMP_QUANTUM	64u	/* packets a QP may send before others get a turn */
#define PUMP_ROUNDS	4u	/* quanta a QP may take in a row when nobody waits */
#define PUMPS_MAX	256u	/* QPs served in one pass ... */
#define RUNNABLE_MAX	16u	/* ... so many at a time */
#define REPLY_SCORE_MAX	8
#define REPLY_RETRY	64u	/* passes between tries whether the application replies */
#define TIMERS_MAX	1024u	/* timers expired in one pass */
#define BRIEF_PASSES	16u	/* of so many with messages one is a whole pass ... */
#define BRIEF_BYTES	(1u << 20)	/* ... and sooner where they are large */
#define PASS_LONG	16u	/* packets after which a pass may have taken some time */
#define NOTE_EVERY_NS	5000u	/* that a thread polls while another one drives */

void effects_apply(struct effects *effects)
{
	unsigned i;

	for (i = 0; i < effects->count; i++) {
		event_fd_raise(effects->wake[i]->fd);
		event_queue_put(effects->wake[i]);
	}
	effects->count = 0;
}

/* Each queue once; those for which there is no room are raised at once. */
static bool defer_one(struct hca *hca, struct event_queue *queue)
{
	unsigned i;

	for (i = hca->deferred_count; i; i--)
		if (hca->deferred[i - 1].queue == queue) {
			hca->deferred[i - 1].times++;
			event_queue_put(queue);	/* the first one's reference will do */
			return true;
		}
	if (hca->deferred_count == HCA_DEFERRED_MAX)
		return false;
	hca->deferred[hca->deferred_count++] = (struct deferred){ queue, 1 };
	return true;
}

void effects_defer(void *device, struct effects *effects)
{
	struct hca *hca = device;
	unsigned i, kept = 0;

	for (i = 0; i < effects->count; i++)
		if (!defer_one(hca, effects->wake[i]))
			effects->wake[kept++] = effects->wake[i];
	effects->count = kept;
	effects_apply(effects);
}

void hca_stop_driving(struct hca *hca)
{
	struct deferred deferred[HCA_DEFERRED_MAX];
	unsigned count = hca->deferred_count, i;

	memcpy(deferred, hca->deferred, count * sizeof(deferred[0]));
	hca->deferred_count = 0;
	lock_release(&hca->drive);
	for (i = 0; i < count; i++) {
		while (deferred[i].times--)
			event_fd_raise(deferred[i].queue->fd);
		event_queue_put(deferred[i].queue);
	}
	hca_after_unlock(hca);
}

static struct tx_batch *batch_get(struct hca *hca)
{
	struct tx_batch *batch = NULL;

	lock_acquire(&hca->batches_lock);
	if (hca->free_batches)
		batch = hca->free_batch[--hca->free_batches];
	lock_release(&hca->batches_lock);
	return batch ? batch : tx_batch_new();
}

static void batch_put(struct hca *hca, struct tx_batch *batch)
{
	lock_acquire(&hca->batches_lock);
	if (hca->free_batches < HCA_FREE_BATCHES) {
		hca->free_batch[hca->free_batches++] = batch;
		batch = NULL;
	}
	lock_release(&hca->batches_lock);
	free(batch);
}

struct tx_batch *tx_batch_new(void)
{
	struct tx_batch *batch = malloc(sizeof(*batch) + TX_BYTES_MAX);

	if (batch) {
		batch->data = (uint8_t *)(batch + 1);
		tx_batch_reset(batch);
	}
	return batch;
}

/* Readable without the lock; a disarmed timer may leave it too early, which costs one look. */
static void note_next_timer(struct hca *hca) REQUIRES(hca->timers_lock)
{
	atomic_store_explicit(&hca->next_timer_ns, timer_heap_next(&hca->timers),
			      memory_order_relaxed);
}

/*
 * The QP's timer is kept at or before its deadline: moved forward only, so that a connection
 * whose deadline recedes with each answer touches the heap once per expiry and not per packet.
 */
void hca_arm(struct hca *hca, struct qp *qp)
{
	uint64_t deadline_ns = transport_deadline(qp);

	if (deadline_ns >= atomic_load_explicit(&qp->timer_at_ns, memory_order_relaxed))
		return;
	lock_acquire(&hca->timers_lock);
	timer_set(&hca->timers, &qp->timer, deadline_ns);
	atomic_store_explicit(&qp->timer_at_ns, deadline_ns, memory_order_relaxed);
	note_next_timer(hca);
	lock_release(&hca->timers_lock);
	worker_note(hca, deadline_ns);
}

void hca_disarm(struct hca *hca, struct qp *qp)
{
	lock_acquire(&hca->timers_lock);
	timer_set(&hca->timers, &qp->timer, TIME_NEVER);
	atomic_store_explicit(&qp->timer_at_ns, TIME_NEVER, memory_order_relaxed);
	lock_release(&hca->timers_lock);
}

static struct qp *expire_one(struct hca *hca, uint64_t now_ns)
{
	struct timer *timer;
	struct qp *qp = NULL;

	lock_acquire(&hca->timers_lock);
	timer = timer_heap_expire(&hca->timers, now_ns);
	if (timer) {
		qp = container_of(timer, struct qp, timer);
		atomic_store_explicit(&qp->timer_at_ns, TIME_NEVER, memory_order_relaxed);
	}
	note_next_timer(hca);
	lock_release(&hca->timers_lock);
	return qp;
}

/* qp cannot be destroyed meanwhile: destroying takes the drive lock. */
static void expire(struct hca *hca, uint64_t now_ns) REQUIRES(hca->drive)
{
	struct effects effects;
	struct qp *qp;
	unsigned n;

	if (now_ns < atomic_load_explicit(&hca->next_timer_ns, memory_order_relaxed))
		return;
	for (n = 0; n < TIMERS_MAX && (qp = expire_one(hca, now_ns)); n++) {
		effects_init(&effects);
		lock_acquire(&qp->lock);
		if (qp->requester.messages && transport_deadline(qp) <= now_ns)
			local_check_progress(&hca->local, qp, now_ns);
		if (transport_deadline(qp) <= now_ns)
			transport_timeout(qp, now_ns, &effects);
		hca_arm(hca, qp);
		lock_release(&qp->lock);
		effects_defer(hca, &effects);
	}
}

/* One quantum after another until nothing is left or others should have a turn. */
static bool pump_rounds(struct hca *hca, struct qp *qp, struct tx_batch *batch) REQUIRES(qp->lock)
{
	struct effects effects;
	unsigned round = 0;
	bool more;

	do {
		effects_init(&effects);
		qp->pump_again = false;
		local_run(&hca->local, qp, &effects);
		more = transport_transmit(qp, clock_now_ns(), PUMP_QUANTUM, batch, &effects);
		hca_arm(hca, qp);
		lock_release(&qp->lock);
		if (batch->count)
			hca_transmit(hca, batch);
		effects_apply(&effects);
		hca_after_unlock(hca);
		lock_acquire(&qp->lock);
	} while ((more && ++round < PUMP_ROUNDS) || qp->pump_again);
	return more;
}

/* The caller pumps @qp from now on, unless somebody does; that one goes on then. */
static bool begin_pump(struct qp *qp)
{
	bool mine;

	lock_acquire(&qp->lock);
	mine = !qp->pumping;
	if (mine)
		qp->pumping = true;
	else
		qp->pump_again = true;
	lock_release(&qp->lock);
	return mine;
}

/* begin_pump() said yes. Without any lock. */
static void pump(struct hca *hca, struct qp *qp)
{
	struct tx_batch *batch = batch_get(hca);
	bool more = true;

	lock_acquire(&qp->lock);
	if (batch)
		more = pump_rounds(hca, qp, batch);
	qp->pumping = false;
	/* No memory for a buffer: later, when those who have one have given it back. */
	if (more)
		run_queue_add(&hca->run_queue, qp);
	lock_release(&qp->lock);
	if (batch)
		batch_put(hca, batch);
}

void hca_pump(struct hca *hca, struct qp *qp)
{
	if (begin_pump(qp))
		pump(hca, qp);
	if (atomic_load_explicit(&hca->run_queue.count, memory_order_relaxed))
		hca_kick(hca);
}

/* Of the queue, those that nobody pumps: a QP that is pumped is not destroyed. */
static unsigned take_runnable(struct hca *hca, struct qp *runnable[RUNNABLE_MAX]) REQUIRES(hca->drive)
{
	unsigned count = 0;
	struct qp *qp;

	while (count < RUNNABLE_MAX && (qp = run_queue_pop(&hca->run_queue)))
		if (begin_pump(qp))
			runnable[count++] = qp;
	return count;
}

/*
 * Without the drive lock: what is copied or sent for one QP holds up nobody else. False: another thread
 * drives.
 */
static bool serve_run_queue(struct hca *hca)
{
	struct qp *runnable[RUNNABLE_MAX];
	unsigned served = 0, count, i;

	/* A pass that finds nothing takes no locks: polling threads make millions of them. */
	while (served < PUMPS_MAX &&
	       atomic_load_explicit(&hca->run_queue.count, memory_order_relaxed)) {
		if (!lock_try(&hca->drive))
			return false;
		count = take_runnable(hca, runnable);
		lock_release(&hca->drive);
		for (i = 0; i < count; i++)
			pump(hca, runnable[i]);
		served += count;
		if (!count)
			break;
	}
	return true;
}

/*
 * What receiving leaves to transmit is done in the same pass, unless the thread is about to hand
 * completions to an application that is used to replying at once: then its message and the ACK
 * that is due leave together. Whether it is used to is learnt: a reply (hca_replied) counts for
 * it, a poll without one counts twice against it, and now and then it is tried again. Only while
 * the worker stands by: it looks every 2 ms whether somebody still polls, and work is left behind.
 */
static bool expects_reply(struct hca *hca, const struct cq *polled) REQUIRES(hca->drive)
{
	if (!polled || cq_is_empty(polled) ||
	    atomic_load_explicit(&hca->worker_state, memory_order_relaxed) != WORKER_STANDBY)
		return false;
	return atomic_load_explicit(&hca->reply_score, memory_order_relaxed) > 0 ||
	       hca->passes % REPLY_RETRY == 0;
}

static void judge_reply(struct hca *hca) REQUIRES(hca->drive)
{
	int score = atomic_load_explicit(&hca->reply_score, memory_order_relaxed);

	if (atomic_load_explicit(&hca->awaiting_reply, memory_order_relaxed) &&
	    atomic_exchange_explicit(&hca->awaiting_reply, false, memory_order_relaxed))
		atomic_store_explicit(&hca->reply_score, score > 2 ? score - 2 : 0,
				      memory_order_relaxed);
}

void hca_replied(struct hca *hca)
{
	int score = atomic_load_explicit(&hca->reply_score, memory_order_relaxed);

	atomic_store_explicit(&hca->awaiting_reply, false, memory_order_relaxed);
	if (score < REPLY_SCORE_MAX)
		atomic_store_explicit(&hca->reply_score, score + 1, memory_order_relaxed);
}

/* *hold: what is to be transmitted waits for a reply of the application. */
static unsigned pass(struct hca *hca, const struct cq *polled, uint64_t now_ns, bool *hold)
	REQUIRES(hca->drive)
{
	unsigned packets;

	hca->passes++;
	judge_reply(hca);
	packets = hca_receive(hca, now_ns);
	if (hca->passes % HCA_TIMERS_EVERY == 0 || packets == 0)
		expire(hca, now_ns);
	*hold = expects_reply(hca, polled);
	if (*hold)
		atomic_store_explicit(&hca->awaiting_reply, true, memory_order_relaxed);
	return packets;
}

static bool work_left(struct hca *hca)
{
	return atomic_load(&hca->run_queue.count) > 0;
}

void hca_note_drove(struct hca *hca, uint64_t now_ns)
{
	atomic_store_explicit(&hca->app_drove_ns, now_ns, memory_order_relaxed);
	atomic_store_explicit(&hca->app_thread, thread_id(), memory_order_relaxed);
}

/* The worker is at it, and may have lost its core to another process: it is not to be needed next time. */
static void note_polling(struct hca *hca)
{
	uint64_t now_ns = clock_now_ns();

	/* Several threads may poll: they need not fight for the line. */
	if (now_ns - atomic_load_explicit(&hca->app_drove_ns, memory_order_relaxed) > NOTE_EVERY_NS)
		hca_note_drove(hca, now_ns);
}

/* Messages are most of what comes to a thread that polls for them: it need not do all else. */
static bool may_be_brief(struct hca *hca) REQUIRES(hca->drive)
{
	if (++hca->brief_passes % BRIEF_PASSES && hca->local.received_bytes < BRIEF_BYTES)
		return true;
	hca->brief_passes = 0;
	return false;
}

static void drive_for(struct hca *hca, const struct cq *polled, unsigned *packets, bool *hold)
	REQUIRES(hca->drive)
{
	uint64_t now_ns;

	*packets = local_receive(&hca->local);
	*hold = *packets && polled && may_be_brief(hca);
	if (*hold)
		return;
	hca->local.received_bytes = 0;
	now_ns = clock_now_ns();
	*packets += pass(hca, polled, now_ns, hold);
	/* A look at the clock is as much as a tenth of a pass that finds nothing. */
	if (*packets > PASS_LONG)
		now_ns = clock_now_ns();
	if (polled)
		hca_note_drove(hca, now_ns);
}

/* What driving left to be done without its lock. */
static void after_driving(struct hca *hca, bool hold, unsigned *packets)
{
	if (!hold)
		serve_run_queue(hca);
	if (local_fetch(&hca->local))
		(*packets)++;
}

bool hca_drive(struct hca *hca, const struct cq *polled, unsigned *packets)
{
	bool hold;

	*packets = 0;
	if (!lock_try(&hca->drive)) {
		if (polled)
			note_polling(hca);
		return false;
	}
	if (polled) {
		uint32_t drives = atomic_load_explicit(&hca->app_drives, memory_order_relaxed);

		atomic_store_explicit(&hca->app_drives, drives + 1, memory_order_relaxed);
		atomic_store_explicit(&hca->app_drives_now, true, memory_order_relaxed);
	}
	drive_for(hca, polled, packets, &hold);
	hca_stop_driving(hca);
	after_driving(hca, hold, packets);
	if (polled)
		atomic_store_explicit(&hca->app_drives_now, false, memory_order_relaxed);
	return true;
}

/*
 * Work was queued by a thread that does not drive. If another thread is driving just now it may
 * have looked at the queue before: so look again until the queue is empty or somebody else has
 * both the lock and the work before them.
 */
void hca_kick(struct hca *hca)
{
	unsigned tries;

	for (tries = 0; tries < 4 && work_left(hca); tries++)
		if (!serve_run_queue(hca))
			break;
	if (work_left(hca))
		worker_notice(hca, 0);
}
