/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Progress: one thread at a time (engine->progress) receives and expires timers, and serves the run
 * queue afterwards: a thread that polls a CQ, or the worker while none polls.
 */
#include "base/inline.h"
#include "engine/internal.h"
#include "platform/clock.h"
#include "platform/thread_cpu.h"

#define CATCH_UP_TURNS	64u	/* each takes some messages: more than those of a full ring */

/*
 * Packets due after receiving are transmitted in the same round, unless the thread is about to
 * return completions to an application that usually replies at once: then its message and the ACK
 * leave together. This is learnt: a reply (progress_replied) counts for it, a poll without one
 * counts twice against it, and now and then it is tried again. Only where the worker stands by and looks
 * whether a thread still polls, since the ACK would be left behind otherwise.
 */
static bool expects_reply(struct engine *engine, const struct cq_poll *poll) REQUIRES(engine->progress)
{
	if (!poll || (!poll->got && cq_is_empty(poll->cq)))
		return false;
	return policy_awaits_reply(atomic_load_explicit(&engine->worker.state, memory_order_relaxed),
				   atomic_load_explicit(&engine->reply.score, memory_order_relaxed),
				   engine->rx.rounds);
}

void progress_replied(struct engine *engine)
{
	int score = atomic_load_explicit(&engine->reply.score, memory_order_relaxed);

	atomic_store_explicit(&engine->reply.awaited, false, memory_order_relaxed);
	atomic_store_explicit(&engine->reply.score, policy_reply_came(score), memory_order_relaxed);
}

/* *hold: packets to transmit wait for a reply of the application. */
static unsigned one_round(struct engine *engine, struct cq_poll *poll, uint64_t now_ns, bool *hold)
	REQUIRES(engine->progress)
{
	unsigned packets;
	int score;

	engine->rx.rounds++;
	/* The reply that packets were held for in the last round did not come. */
	score = atomic_load_explicit(&engine->reply.score, memory_order_relaxed);
	if (atomic_load_explicit(&engine->reply.awaited, memory_order_relaxed) &&
	    atomic_exchange_explicit(&engine->reply.awaited, false, memory_order_relaxed))
		atomic_store_explicit(&engine->reply.score, policy_reply_missed(score),
				      memory_order_relaxed);
	packets = rx_poll(engine, poll, now_ns);
	if (policy_timers_are_due(engine->rx.rounds, packets))
		timers_expire(engine, now_ns);
	*hold = expects_reply(engine, poll);
	if (*hold)
		atomic_store_explicit(&engine->reply.awaited, true, memory_order_relaxed);
	return packets;
}

void progress_note(struct engine *engine, uint64_t now_ns)
{
	atomic_store_explicit(&engine->app.progress_ns, now_ns, memory_order_relaxed);
	atomic_store_explicit(&engine->app.thread, thread_id(), memory_order_relaxed);
}

/* Records that an application thread polls, so that the worker can stand by. */
static APART void note_polling(struct engine *engine)
{
	uint64_t now_ns = clock_now_ns();

	/* Several threads may poll: seldom, so that they do not contend for the cache line. */
	if (policy_note_is_due(now_ns, atomic_load_explicit(&engine->app.progress_ns, memory_order_relaxed)))
		progress_note(engine, now_ns);
}

/*
 * Most input of a polling thread are messages, or answers to its own: a brief round receives nothing else. What
 * waited for answers is sent at once.
 */
static bool may_be_brief(struct engine *engine, unsigned messages) REQUIRES(engine->progress)
{
	if (!messages && (!engine->local.was_answered ||
			  atomic_load_explicit(&engine->run_queue.count, memory_order_relaxed)))
		return false;
	if (policy_is_brief(++engine->rx.brief_rounds, engine->local.received_bytes))
		return true;
	engine->rx.brief_rounds = 0;
	return false;
}

/* All that is not brief. */
static FLAT APART void progress_whole(struct engine *engine, struct cq_poll *poll, unsigned *packets,
				      bool *hold)
	REQUIRES(engine->progress)
{
	uint64_t now_ns = clock_now_ns();

	engine->local.received_bytes = 0;
	*packets += one_round(engine, poll, now_ns, hold);
	if (policy_clock_is_old(*packets))
		now_ns = clock_now_ns();
	if (poll)
		progress_note(engine, now_ns);
}

static void progress_for(struct engine *engine, struct cq_poll *poll, unsigned *packets, bool *hold)
	REQUIRES(engine->progress)
{
	*packets = local_receive(&engine->local, poll);
	*hold = poll && may_be_brief(engine, *packets);
	if (!*hold)
		progress_whole(engine, poll, packets, hold);
}

static APART void send_what_is_due(struct engine *engine)
{
	/* Who found the lock held left its work to us: it saw us hold it, or we see the work. */
	atomic_thread_fence(memory_order_seq_cst);
	if (atomic_load_explicit(&engine->run_queue.count, memory_order_relaxed))
		tx_serve_run_queue(engine);
}

/* The part of a round without the lock. */
static void progress_after(struct engine *engine, bool hold, unsigned *packets)
{
	if (!hold)
		send_what_is_due(engine);
	if (atomic_load_explicit(&engine->local.fetches_due, memory_order_relaxed) && local_fetch(&engine->local))
		(*packets)++;
}

bool engine_progress(struct engine *engine, struct cq_poll *poll, unsigned *packets)
{
	bool hold;

	*packets = 0;
	if (!lock_try(&engine->progress)) {
		if (poll)
			note_polling(engine);
		return false;
	}
	if (poll) {
		uint32_t calls = atomic_load_explicit(&engine->app.calls, memory_order_relaxed);

		atomic_store_explicit(&engine->app.calls, calls + 1, memory_order_relaxed);
		atomic_store_explicit(&engine->app.inside, true, memory_order_relaxed);
	}
	progress_for(engine, poll, packets, &hold);
	progress_unlock(engine);
	progress_after(engine, hold, packets);
	if (poll)
		atomic_store_explicit(&engine->app.inside, false, memory_order_relaxed);
	return true;
}

void engine_catch_up(struct engine *engine, bool packets)
{
	bool due = packets || engine->local.channel_link, hold;
	unsigned turn, received;

	for (turn = 0; due && turn < CATCH_UP_TURNS; turn++) {
		/* Not tried: who holds it may be in the middle of the last message. */
		lock_acquire(&engine->progress);
		due = packets || local_pending(&engine->local);
		if (packets)	/* beside shared memory they may have been looked at a moment ago */
			engine->rx.udp_looked_ns = engine->rx.fabric_looked_ns = 0;
		if (due)
			progress_for(engine, NULL, &received, &hold);
		progress_unlock(engine);
		if (due)
			progress_after(engine, hold, &received);
		packets = false;
	}
}
