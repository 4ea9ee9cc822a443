/* SPDX-License-Identifier: BSD-2-Clause */
/* The policy of progress (policy.h): the worker's table, and what its events are. */
#include "engine/policy.h"

#include <assert.h>

enum lesson { LEARN_NOTHING, LEARN_LESS, LEARN_MORE, LEARN_ANEW, LEARN_LOOK_FIRST, LEARN_LOOK_LATER,
	      LEARN_LOOK_LAST };

struct policy_row {
	enum worker_state next;
	enum policy_action action;
	enum lesson lesson;
};

static const struct policy_row policy_table[WORKER_STATES][POLICY_EVENTS] = {
#define POLICY(state, event, next, action, lesson) \
	[WORKER_##state][EVENT_##event] = { WORKER_##next, ACTION_##action, LEARN_##lesson },
#include "engine/policy.def"
#undef POLICY
};

void policy_init(struct policy *policy)
{
	*policy = (struct policy){ .state = WORKER_ACTIVE, .score = policy_numbers.score_start };
}

static uint64_t policy_earlier(uint64_t a_ns, uint64_t b_ns)
{
	return a_ns < b_ns ? a_ns : b_ns;
}

struct policy_rest policy_rest(struct policy *policy, const struct policy_view *view, uint64_t chore_ns,
			       uint64_t timer_ns)
{
	struct policy_rest rest = { .on = SLEEP_ON_ALL, .until_ns = policy_earlier(chore_ns, timer_ns) };

	if (policy->state != WORKER_ACTIVE)
		policy->state = view->waiting ? WORKER_RELIEVED : WORKER_STANDBY;
	/*
	 * An application thread waits in the worker's place: sleep until the next chore if this wait already
	 * lasted when the worker last went to sleep.
	 */
	if (policy->state == WORKER_RELIEVED)
		rest = (struct policy_rest){
			.on = SLEEP_ON_NAP,
			.until_ns = policy_earlier(chore_ns, view->now_ns + policy_numbers.look_max_ns),
			.deep = view->waits == policy->waits,
			.until_deep_ns = chore_ns };
	if (policy->state == WORKER_STANDBY)
		rest = (struct policy_rest){ .on = SLEEP_ON_DOORBELL,
					     .until_ns = view->now_ns + policy->look_ns };
	policy->waits = view->waits;
	return rest;
}

/* Threads read the clock for themselves: an event may be later than the view. */
static uint64_t policy_since(const struct policy_view *view, uint64_t event_ns)
{
	return view->now_ns > event_ns ? view->now_ns - event_ns : 0;
}

/* An application thread asked to be woken lately. */
static bool policy_expects_events(const struct policy_view *view)
{
	return policy_since(view, view->events_ns) < policy_numbers.events_ns;
}

enum policy_event policy_woken(struct policy *policy, const struct policy_view *view)
{
	uint64_t idle_ns = policy_since(view, view->progress_ns);

	if (view->waiting)
		return EVENT_WAITER;
	if (policy->state == WORKER_ACTIVE) {
		if (idle_ns > policy_numbers.recent_ns || policy_expects_events(view))
			return EVENT_ALONE;
		if (policy->score == policy_numbers.score_max && ++policy->wakes % policy_numbers.sure_every)
			return EVENT_ALONE;
		return EVENT_RECENT;
	}
	if (policy->state == WORKER_RELIEVED || view->waits != policy->waits)
		return EVENT_WAITED;
	if (view->rung)
		return EVENT_RUNG;
	/*
	 * STANDBY: does an application thread poll now? (Not: since the last look. It may spin on memory
	 * since then.) A thread inside a copy counts as polling. So may a thread without a processor, which
	 * perhaps needs that of the worker, unless it left work or was away too long: it may wait for the
	 * worker.
	 */
	if (idle_ns < policy_numbers.idle_ns || view->inside)
		return EVENT_POLLED;
	return view->work_left || idle_ns > policy_numbers.away_ns ? EVENT_GONE : EVENT_QUIET;
}

static enum policy_event policy_useless(const struct policy *policy)
{
	return policy->score > 1 ? EVENT_USELESS : EVENT_LEARNT;
}

enum policy_event policy_doubted(const struct policy *policy, const struct policy_view *before,
				 const struct policy_view *now, bool preempted)
{
	/* Or it is still in the same round, in a copy that takes longer; or this wake-up took its core. */
	return policy_has_polled(before, now) || now->inside || preempted ? policy_useless(policy) :
									    EVENT_NEEDED;
}

enum policy_event policy_busy(const struct policy *policy, const struct policy_view *before,
			      const struct policy_view *now)
{
	bool polling = before->inside && !policy_expects_events(before);

	/* All the time, because it copies. */
	return polling && now->inside ? policy_useless(policy) : EVENT_BUSY;
}

enum policy_action policy_decide(struct policy *policy, enum policy_event event)
{
	const struct policy_row *row = &policy_table[policy->state][event];

	assert(row->action != ACTION_IMPOSSIBLE);
	switch (row->lesson) {
	case LEARN_NOTHING:
		break;
	case LEARN_LESS:
		policy->score--;
		break;
	case LEARN_MORE:
		policy->score += policy_numbers.score_needed;
		if (policy->score > policy_numbers.score_max)
			policy->score = policy_numbers.score_max;
		break;
	case LEARN_ANEW:
		policy->score = policy_numbers.score_start;
		break;
	case LEARN_LOOK_FIRST:
		policy->look_ns = policy_numbers.look_min_ns;
		break;
	case LEARN_LOOK_LATER:
		if (policy->look_ns < policy_numbers.look_max_ns)
			policy->look_ns *= 2;
		break;
	case LEARN_LOOK_LAST:
		policy->look_ns = policy_numbers.look_max_ns;
		break;
	}
	policy->state = row->next;
	return row->action;
}

enum policy_linger policy_linger(unsigned round, unsigned empty, uint64_t silent_ns, bool polled)
{
	if (round >= policy_numbers.linger_rounds || silent_ns > policy_numbers.linger_ns || polled)
		return LINGER_END;
	return empty && empty % policy_numbers.linger_yield == 0 ? LINGER_YIELD : LINGER_ON;
}
