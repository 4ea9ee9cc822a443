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

#include "base/log.h"
#include "hca/direct.h"
#include "hca/internal.h"
#include "hca/message.h"
#include "platform/clock.h"
#include "platform/thread_cpu.h"

#define PUMP_QUANTUM	64u	/* packets a QP may send before others get a turn */
#define PUMP_ROUNDS	4u	/* quanta a QP may take in a row when nobody waits */
#define PUMPS_MAX	256u	/* QPs served in one pass */
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
	worker_notice(hca, deadline_ns);
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
static void expire(struct hca *hca, uint64_t now_ns)
{
	struct effects effects;
	struct qp *qp;
	unsigned n;

	if (now_ns < atomic_load_explicit(&hca->next_timer_ns, memory_order_relaxed))
		return;
	for (n = 0; n < TIMERS_MAX && (qp = expire_one(hca, now_ns)); n++) {
		effects_init(&effects);
		lock_acquire(&qp->lock);
		if (qp->requester.told && transport_deadline(qp) <= now_ns)
			message_look(hca, qp, now_ns);
		if (transport_deadline(qp) <= now_ns)
			transport_timeout(qp, now_ns, &effects);
		hca_arm(hca, qp);
		lock_release(&qp->lock);
		effects_apply(&effects);
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
		direct_run(hca, qp, &effects);
		more = transport_transmit(qp, clock_now_ns(), PUMP_QUANTUM, batch, &effects);
		hca_arm(hca, qp);
		lock_release(&qp->lock);
		if (batch->count)
			hca_transmit(hca, batch);
		effects_apply(&effects);
		lock_acquire(&qp->lock);
	} while ((more && ++round < PUMP_ROUNDS) || qp->pump_again);
	return more;
}

static void pump(struct hca *hca, struct qp *qp, struct tx_batch *batch)
{
	bool more;

	lock_acquire(&qp->lock);
	if (qp->pumping) {
		qp->pump_again = true;
		lock_release(&qp->lock);
		return;
	}
	qp->pumping = true;
	more = pump_rounds(hca, qp, batch);
	qp->pumping = false;
	if (more)
		run_queue_add(&hca->run_queue, qp);
	lock_release(&qp->lock);
}

void hca_pump(struct hca *hca, struct qp *qp)
{
	struct tx_batch *batch = batch_get(hca);

	if (batch) {
		pump(hca, qp, batch);
		batch_put(hca, batch);
	} else {
		/* No memory for a buffer: whoever drives has one. */
		run_queue_add(&hca->run_queue, qp);
	}
	if (atomic_load_explicit(&hca->run_queue.count, memory_order_relaxed))
		hca_kick(hca);
}

static void serve_run_queue(struct hca *hca) REQUIRES(hca->drive)
{
	struct qp *qp;
	unsigned n;

	/* A pass that finds nothing takes no locks: polling threads make millions of them. */
	if (!atomic_load_explicit(&hca->run_queue.count, memory_order_relaxed))
		return;
	for (n = 0; n < PUMPS_MAX && (qp = run_queue_pop(&hca->run_queue)); n++)
		pump(hca, qp, hca->drive_batch);
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

static unsigned pass(struct hca *hca, const struct cq *polled, uint64_t now_ns)
	REQUIRES(hca->drive)
{
	unsigned packets;

	hca->passes++;
	judge_reply(hca);
	serve_run_queue(hca);
	packets = hca_receive(hca, now_ns);
	if (hca->passes % HCA_TIMERS_EVERY == 0 || packets == 0)
		expire(hca, now_ns);
	if (expects_reply(hca, polled))
		atomic_store_explicit(&hca->awaiting_reply, true, memory_order_relaxed);
	else
		serve_run_queue(hca);
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
	if (++hca->brief_passes % BRIEF_PASSES && hca->heard_bytes < BRIEF_BYTES)
		return true;
	hca->brief_passes = 0;
	return false;
}

static void drive_for(struct hca *hca, const struct cq *polled, unsigned *packets) REQUIRES(hca->drive)
{
	uint64_t now_ns;

	*packets = messages_receive(hca);
	if (*packets && polled && may_be_brief(hca))
		return;
	hca->heard_bytes = 0;
	now_ns = clock_now_ns();
	*packets += pass(hca, polled, now_ns);
	/* A look at the clock is as much as a tenth of a pass that finds nothing. */
	if (*packets > PASS_LONG)
		now_ns = clock_now_ns();
	if (polled)
		hca_note_drove(hca, now_ns);
}

bool hca_drive(struct hca *hca, const struct cq *polled, unsigned *packets)
{
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
	drive_for(hca, polled, packets);
	if (polled)
		atomic_store_explicit(&hca->app_drives_now, false, memory_order_relaxed);
	lock_release(&hca->drive);
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

	for (tries = 0; tries < 4 && work_left(hca); tries++) {
		if (!lock_try(&hca->drive))
			break;
		serve_run_queue(hca);
		lock_release(&hca->drive);
	}
	if (work_left(hca))
		worker_notice(hca, 0);
}
