/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The policy of progress: who makes it, who sleeps, who is woken. Pure: no clock, atomics, locks or
 * system calls. What was seen comes in, a decision comes out; worker.c, wait.c, progress.c and
 * device/cq.c carry it out. docs/progress.md explains states, events and numbers.
 *
 *	the worker, each turn:	policy_rest()	how to sleep		-> sleeps, does its chores
 *				policy_woken()	what it finds: an event
 *				policy_decide()	next state and action (policy.def)
 *				...		some actions find out more: policy_doubted(), policy_busy(), or
 *						EVENT_PREEMPTED and EVENT_GONE; decided as before
 *
 * The inline functions decide for threads that poll. They take values that their callers have at
 * hand, and numbers that the compiler knows.
 */
#ifndef VERBATIM_ENGINE_POLICY_H
#define VERBATIM_ENGINE_POLICY_H

#include <stdbool.h>
#include <stdint.h>

/* ---- numbers ---- */

/* Large: each tuned number of progress is here, and nowhere else. */
struct policy_numbers {
	/* Polling of a CQ (device/cq.c). */
	unsigned skips;			/* of so many empty polls all but one look at shared memory only */
	unsigned yield_every;		/* empty polls in a row after which the core is offered to others */
	unsigned yield_soon;		/* the same, where others took it, and only for a turn: */
	uint64_t turn_min_ns, turn_max_ns;	/* a yield takes less where nobody, and more where a hog has it */
	unsigned progress_every;	/* polls of a CQ that is not empty between rounds */
	/* Rounds (progress.c). */
	unsigned timers_every;		/* busy rounds between looks at the timers */
	unsigned brief_rounds;		/* of so many rounds with messages or answers one is a whole round ... */
	uint64_t brief_bytes;		/* ... and sooner where they are large */
	unsigned long_round;		/* packets after which a round may have taken some time */
	uint64_t note_every_ns;		/* between notes that a thread polls beside a round */
	int reply_max;			/* score of replies */
	int reply_missed;		/* what a poll without a reply takes from it */
	unsigned reply_retry;		/* rounds between tries whether the application replies */
	/* The worker, ACTIVE. */
	uint64_t recent_ns;		/* an application thread that made progress this recently polls */
	uint64_t events_ns;		/* after ibv_req_notify_cq() wake-ups count as needed */
	int score_start, score_max;
	int score_needed;		/* what a needed wake-up adds; a useless one takes 1 */
	unsigned sure_every;		/* at score_max, one wake-up of so many is doubted */
	unsigned stream_packets;	/* in one round: more are expected */
	uint64_t linger_ns;		/* awake for them, without a packet */
	unsigned linger_rounds;		/* then chores have a turn */
	unsigned linger_yield;		/* empty rounds between offers of the core to others */
	/* The worker, STANDBY and RELIEVED. */
	uint64_t look_min_ns, look_max_ns;	/* between looks whether polling goes on */
	uint64_t gather_look_ns;	/* the longest while posted requests are gathered (tx_run.c) */
	uint64_t idle_ns;		/* a thread without progress for this long does something else, ... */
	uint64_t away_ns;		/* ... unless it has no processor: for at most this long */
	uint64_t preempted_ns;		/* runnable, and not running for this long: without a processor */
	int waits_max;			/* calls of ibv_req_notify_cq() for which one wait vouches */
};

static const struct policy_numbers policy_numbers = {
	.skips = 8, .yield_every = 50, .yield_soon = 4, .turn_min_ns = 2000, .turn_max_ns = 300000,
	.progress_every = 16,
	.timers_every = 4, .brief_rounds = 16, .brief_bytes = 1u << 20, .long_round = 16,
	.note_every_ns = 5000, .reply_max = 8, .reply_missed = 2, .reply_retry = 64,
	.recent_ns = 20000, .events_ns = 1000000, .score_start = 4, .score_max = 32, .score_needed = 2,
	.sure_every = 32, .stream_packets = 8, .linger_ns = 30000, .linger_rounds = 4096, .linger_yield = 16,
	.look_min_ns = 50000, .look_max_ns = 2000000,
	.gather_look_ns = 200000, .idle_ns = 100000, .away_ns = 5000000,
	.preempted_ns = 50000, .waits_max = 16,
};

/* ---- the worker ---- */

enum worker_state {
	WORKER_ACTIVE,		/* sleeps on the sockets until the next deadline */
	WORKER_STANDBY,		/* an application thread polls: sleeps without the sockets, looks now and then */
	WORKER_RELIEVED,	/* an application thread waits in its place (wait.c) */
	WORKER_STATES
};

enum policy_event {
	EVENT_WAITER,		/* an application thread waits in the worker's place */
	EVENT_WAITED,		/* none does now, but one did during the sleep */
	EVENT_RUNG,		/* woken, and no thread waits */
	EVENT_POLLED,		/* an application thread polls */
	EVENT_QUIET,		/* none has polled for a moment: away, or without a processor? */
	EVENT_PREEMPTED,	/* it is without a processor, or has polled since */
	EVENT_GONE,		/* none polls */
	EVENT_ALONE,		/* a wake-up that is not doubted */
	EVENT_RECENT,		/* a wake-up shortly after an application thread polled */
	EVENT_USELESS,		/* it polled again: this wake-up was useless */
	EVENT_LEARNT,		/* so was this one, and many before */
	EVENT_NEEDED,		/* it did not */
	EVENT_BUSY,		/* another thread makes progress */
	POLICY_EVENTS
};

enum policy_action {
	ACTION_IMPOSSIBLE,	/* the event cannot happen in this state */
	ACTION_REST,		/* sleep again */
	ACTION_PROGRESS,	/* make progress; where another thread does, policy_busy() after recent_ns */
	ACTION_DOUBT,		/* sleep for recent_ns, then policy_doubted() */
	ACTION_ASK,		/* is the thread runnable without running? EVENT_PREEMPTED or EVENT_GONE */
	ACTION_PASS,		/* a doorbell that was silenced is for the waiting thread: ring it again */
	ACTION_STAND_IN,	/* make progress, too: a timer may be due before that thread is awake */
	ACTION_ASSIST,		/* pass the doorbell on, or make progress if something else was ready */
};

/* What the worker sees of application threads. */
struct policy_view {
	uint64_t now_ns;
	uint64_t progress_ns;	/* when one last made progress */
	uint64_t events_ns;	/* when one last asked for an event */
	uint32_t calls;		/* rounds of theirs */
	unsigned waits;		/* waits in the worker's place so far */
	bool inside;		/* one makes progress now */
	bool waiting;		/* one waits in the worker's place now */
	bool work_left;		/* the run queue is not empty */
	bool rung;		/* the worker was woken, by whomever */
};

/* What the worker has learnt. */
struct policy {
	enum worker_state state;
	int score;		/* ACTIVE: how sure it is that wake-ups are needed; at 0 it stands by */
	unsigned wakes;
	uint64_t look_ns;	/* STANDBY: until the next look */
	unsigned waits;		/* when it went to sleep */
};

enum policy_sleep { SLEEP_ON_ALL, SLEEP_ON_DOORBELL, SLEEP_ON_NAP };

struct policy_rest {
	enum policy_sleep on;
	uint64_t until_ns;
	/* The wait has lasted: until @until_deep_ns, if the thread that waits promises to wake the worker. */
	bool deep;
	uint64_t until_deep_ns;
};

void policy_init(struct policy *policy);
/* @chore_ns: the next deadline of what the worker alone does; @timer_ns: of QPs. */
struct policy_rest policy_rest(struct policy *policy, const struct policy_view *view, uint64_t chore_ns,
			       uint64_t timer_ns);
enum policy_event policy_woken(struct policy *policy, const struct policy_view *view);
/*
 * recent_ns after ACTION_DOUBT. @before: the view of then; @preempted: meanwhile the thread that polled was
 * runnable without running.
 */
enum policy_event policy_doubted(const struct policy *policy, const struct policy_view *before,
				 const struct policy_view *now, bool preempted);
/* recent_ns after another thread was found to make progress. */
enum policy_event policy_busy(const struct policy *policy, const struct policy_view *before,
			      const struct policy_view *now);
enum policy_action policy_decide(struct policy *policy, enum policy_event event);

/* What a worker that lingers has seen since the last round. */
enum policy_linger { LINGER_ON, LINGER_YIELD, LINGER_END };
enum policy_linger policy_linger(unsigned round, unsigned empty, uint64_t silent_ns, bool polled);

/* Has an application thread made progress, or tried to, since then? */
static inline bool policy_has_polled(const struct policy_view *before, const struct policy_view *now)
{
	return now->progress_ns != before->progress_ns || now->calls != before->calls;
}

/* ---- application threads that ask for events ---- */

/*
 * ibv_req_notify_cq(): the thread is about to sleep. Is the worker woken for it? Not where such
 * threads wait in ibv_get_cq_event() and make progress themselves. *waits: learnt from both.
 */
static inline bool policy_wakes_for_events(enum worker_state state, int *waits)
{
	if (*waits > 0) {
		--*waits;
		return false;
	}
	return state != WORKER_ACTIVE;
}

/* A thread has waited in the worker's place. */
static inline int policy_waited(void)
{
	return policy_numbers.waits_max;
}

/* ---- application threads that poll ---- */

/* An empty poll: is a look at shared memory enough? @empty: such polls before, in a row. */
static inline bool policy_may_skip(uint32_t empty)
{
	return empty % policy_numbers.skips;
}

/* A poll that finds completions: is a round due? @full: such polls. */
static inline bool policy_progress_is_due(uint32_t full)
{
	return full % policy_numbers.progress_every == 0;
}

/* An empty poll is over: is the core offered to others? @every: policy_yielded(), at first yield_every. */
static inline bool policy_yield_is_due(uint32_t empty, uint32_t every)
{
	return empty % every == 0;
}

/* Such a poll is the first of a row of empty ones that ends with a yield. */
static inline bool policy_yield_is_first(uint32_t empty, uint32_t every)
{
	return empty <= every;
}

/* A yield took so long: did anybody run in it? Then much may have arrived meanwhile. */
static inline bool policy_core_was_taken(uint64_t taken_ns)
{
	return taken_ns > policy_numbers.turn_min_ns;
}

/*
 * A yield took so long: what is @every from now on? Somebody who has the core for a turn only is perhaps the
 * peer, who answers in it, and then each poll before the yield is waited for. A hog would keep the core.
 */
static inline uint32_t policy_yielded(uint32_t every, uint64_t taken_ns)
{
	if (policy_core_was_taken(taken_ns) && taken_ns < policy_numbers.turn_max_ns)
		return policy_numbers.yield_soon;
	return every * 2 < policy_numbers.yield_every ? every * 2 : policy_numbers.yield_every;
}

/* A round has received messages, or answers, for a thread that polls: may it leave out the rest? */
static inline bool policy_is_brief(unsigned brief, uint64_t bytes)
{
	return brief % policy_numbers.brief_rounds && bytes < policy_numbers.brief_bytes;
}

static inline bool policy_timers_are_due(unsigned round, unsigned packets)
{
	return round % policy_numbers.timers_every == 0 || packets == 0;
}

/* Reading the clock takes a tenth of an empty round. */
static inline bool policy_clock_is_old(unsigned packets)
{
	return packets > policy_numbers.long_round;
}

/* Another thread makes progress: is it noted that this one polls? Seldom: several may poll. */
static inline bool policy_note_is_due(uint64_t now_ns, uint64_t progress_ns)
{
	return now_ns - progress_ns > policy_numbers.note_every_ns;
}

/*
 * Do packets wait for a reply of the application, which is about to get completions? Its message and
 * the ACK leave together then. Not while the worker is ACTIVE: it would be woken for the ACK.
 */
static inline bool policy_awaits_reply(enum worker_state state, int score, unsigned round)
{
	return state != WORKER_ACTIVE && (score > 0 || round % policy_numbers.reply_retry == 0);
}

static inline int policy_reply_came(int score)
{
	return score < policy_numbers.reply_max ? score + 1 : score;
}

static inline int policy_reply_missed(int score)
{
	return score > policy_numbers.reply_missed ? score - policy_numbers.reply_missed : 0;
}

#endif
