/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * CQs of a context: creation, destruction (which waits until the application has acknowledged the events
 * that it fetched, ibv_destroy_cq(3)), and polling, which makes progress.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/inline.h"
#include "base/log.h"
#include "device/internal.h"
#include "engine/wake.h"
#include "device/limits.h"
#include "local/channel/ring.h"
#include "platform/clock.h"

static int check_cqe(const struct hca_context *context, uint32_t cqe, const char *who)
{
	if (cqe >= 1 && cqe <= context->hca->config.max_cqe)
		return 0;
	explain("%s: invalid cqe %u: expected 1 to %u (max_cqe)", who, cqe,
		context->hca->config.max_cqe);
	return EINVAL;
}

int hca_create_cq_in(struct hca_context *context, const struct ibv_cq_init_attr_ex *attr,
		     struct ring_allocator *allocator, struct cq **created)
{
	struct cq *cq;
	int err;

	if (context_is_dead(context, "ibv_create_cq"))
		return EIO;
	err = check_cqe(context, attr->cqe, "ibv_create_cq");
	if (err)
		return err;
	err = object_reserve(context->hca, OBJECT_CQ, "ibv_create_cq");
	if (err)
		return err;
	cq = calloc(1, sizeof(*cq));
	if (cq)
		cq->memory = (struct ring_memory){ .allocator = allocator, .use = RING_OF_CQ };
	err = cq ? cq_init(cq, attr->cqe) : ENOMEM;
	if (err) {
		object_unreserve(context->hca, OBJECT_CQ);
		free(cq);
		return err;
	}
	pthread_mutex_init(&cq->ibv.mutex, NULL);
	pthread_cond_init(&cq->ibv.cond, NULL);
	if (attr->channel)
		cq->channel = (struct comp_channel *)attr->channel;
	if ((attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) &&
	    (attr->flags & IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN))
		cq->ignore_overrun = true;
	/* Who drops the oldest moves the tail, which then is not the consumer's alone. */
	cq->single_threaded = attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS &&
			      attr->flags & IBV_CREATE_CQ_ATTR_SINGLE_THREADED && !cq->ignore_overrun;
	cq->stamped = attr->wc_flags & (IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
					IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK);
	atomic_store_explicit(&cq->yield_every, policy_numbers.yield_every, memory_order_relaxed);
	cq->owner = context;
	cq->async = context->async;
	list_init(&cq->error_event.node);
	cq->error_event.ibv.event_type = IBV_EVENT_CQ_ERR;
	cq->error_event.ibv.element.cq = (struct ibv_cq *)&cq->ibv;
	cq->number = object_number(context->hca);
	cq->ibv.handle = cq->number;
	cq->ibv.cqe = (int)attr->cqe;
	lock_acquire(&context->hca->objects);
	list_add_tail(&context->cqs, &cq->node);
	if (cq->channel)
		cq->channel->ibv.refcnt++;
	lock_release(&context->hca->objects);
	*created = cq;
	return 0;
}

int hca_resize_cq(struct cq *cq, int cqe)
{
	int err;

	if (context_is_dead(cq->owner, "ibv_resize_cq"))
		return EIO;
	err = check_cqe(cq->owner, cqe < 0 ? 0 : (uint32_t)cqe, "ibv_resize_cq");
	if (!err)
		err = cq_resize(cq, (uint32_t)cqe);
	if (!err)
		cq->ibv.cqe = cqe;
	return err;
}

int hca_moderate_cq(struct cq *cq, uint16_t count, uint16_t period_us)
{
	const struct cq_moderation moderation = { .count = count, .period_ns = period_us * 1000u };
	struct hca_context *context = cq->owner;
	struct effects effects;
	int err = 0;

	if (context_is_dead(context, "ibv_modify_cq"))
		return EIO;
	if (period_us) {	/* the timer's place stays the CQ's until it is destroyed */
		lock_acquire(&context->hca->objects);
		if (!cq->has_timer)
			err = timers_add_cq(&context->hca->engine);
		if (!err)
			cq->has_timer = true;
		lock_release(&context->hca->objects);
	}
	if (err)
		return err;
	effects_init(&effects);
	cq_moderate(cq, &moderation, &effects);
	effects_apply(&effects);
	return 0;
}

int hca_destroy_cq(struct hca_context *context, struct cq *cq)
{
	struct hca *hca = context->hca;
	uint32_t users = atomic_load(&cq->users);

	if (context_is_dead(context, "ibv_destroy_cq"))
		return EIO;
	if (users) {
		explain_refused_of("ibv_destroy_cq", EBUSY, OF(CQ, cq->number),
				"ibv_destroy_cq: cq %u is in use by %u queues of QPs: destroy "
				"them first",
			cq->number, users);
		return EBUSY;
	}
	cq_disarm(cq);
	if (cq->channel)
		event_withdraw(&cq->channel->queue, &cq->comp_event.node);
	event_withdraw(cq->async, &cq->error_event.node);
	object_wait_for_acks(&cq->ibv.mutex, &cq->ibv.cond, &cq->ibv.comp_events_completed,
			  &cq->comp_events_got,
			     &(struct ack_names){ "ibv_destroy_cq", "ibv_ack_cq_events", NULL, 0 });
	object_wait_for_acks(&cq->ibv.mutex, &cq->ibv.cond, &cq->ibv.async_events_completed,
			  &cq->async_events_got,
			     &(struct ack_names){ "ibv_destroy_cq", "ibv_ack_async_event", &cq->error_event, 1 });
	if (cq->has_timer) {	/* it may be expiring: the thread that expires timers holds the progress lock */
		lock_acquire(&hca->engine.progress);
		timers_remove_cq(&hca->engine, cq);
		lock_release(&hca->engine.progress);
	}
	lock_acquire(&hca->objects);
	list_remove(&cq->node);
	if (cq->channel)
		cq->channel->ibv.refcnt--;
	lock_release(&hca->objects);
	pthread_mutex_destroy(&cq->ibv.mutex);
	pthread_cond_destroy(&cq->ibv.cond);
	cq_fini(cq);
	free(cq);
	object_unreserve(hca, OBJECT_CQ);
	return 0;
}

/*
 * Polling: an empty CQ makes progress and is looked at again. Two polling processes on two
 * cores leave none for anybody else, so a core is yielded after some tens of empty polls.
 */
static uint32_t count_poll(_Atomic uint32_t *counter)
{
	/* Two threads on one CQ may lose a count: it decides about yielding only. */
	uint32_t n = atomic_load_explicit(counter, memory_order_relaxed) + 1;

	atomic_store_explicit(counter, n, memory_order_relaxed);
	return n;
}

/* A poll does not fail: errno stays what it was, whatever the system calls of progress say. */
static void cq_make_progress(struct cq_poll *poll)
{
	struct hca_context *context = poll->cq->owner;
	int before = errno;
	unsigned packets;

	engine_progress(&context->hca->engine, poll, &packets);
	errno = before;
}

/* A poll found nothing: is the core offered to others? */
static bool cq_yield_is_due(struct cq *cq)
{
	return policy_yield_is_due(count_poll(&cq->empty_polls),
				   atomic_load_explicit(&cq->yield_every, memory_order_relaxed));
}

/*
 * The caller looks at the CQ again. A core that somebody took comes back after a time slice, and what arrived in
 * it is to be found by this poll: who hears of the connection's end behind an empty one may throw the QP away.
 */
static APART void cq_offer_core(struct cq_poll *poll)
{
	struct cq *cq = poll->cq;
	uint32_t every = atomic_load_explicit(&cq->yield_every, memory_order_relaxed);
	uint32_t empty = atomic_load_explicit(&cq->empty_polls, memory_order_relaxed);
	uint64_t taken_ns;
	int before = errno;

	if (explaining())
		cq_explain_empty(cq, policy_yield_is_first(empty, every));
	taken_ns = clock_now_ns();
	thread_yield();
	taken_ns = clock_now_ns() - taken_ns;
	atomic_store_explicit(&cq->yield_every, policy_yielded(every, taken_ns), memory_order_relaxed);
	errno = before;
	if (policy_core_was_taken(taken_ns) && cq_is_empty(cq))
		cq_make_progress(poll);
}

/*
 * A poll that finds the CQ empty and no message in shared memory need not be a whole pass, which is
 * ten times as long: most of what polling waits for comes that way where it comes at all.
 */
static bool can_skip(const struct cq *cq)
{
	struct hca *hca = ((struct hca_context *)cq->owner)->hca;

	return hca->engine.local.channel_link &&
	       ring_has_channels(hca->engine.local.channel_link) &&
	       policy_may_skip(atomic_load_explicit(&cq->empty_polls, memory_order_relaxed)) &&
	       !ring_pending(hca->engine.local.channel_link) &&
	       !atomic_load_explicit(&hca->engine.local.fetches_due, memory_order_relaxed) &&
	       !atomic_load_explicit(&hca->engine.run_queue.count, memory_order_relaxed);
}

/* Is there something to take at once? Every now and then progress has a turn even so. */
static bool is_ready(struct cq *cq)
{
	return !cq_is_empty(cq) && !policy_progress_is_due(count_poll(&cq->full_polls));
}

/* Behind what has come while progress was made. */
static int take_rest(struct cq_poll *poll)
{
	return poll->got + cq_take(poll->cq, poll->count - poll->got, poll->wc + poll->got);
}

static APART int poll_behind_yield(struct cq *cq, int count, struct ibv_wc *wc)
{
	struct cq_poll poll = { cq, wc, count, 0 };

	cq_offer_core(&poll);
	return take_rest(&poll);
}

static FLAT APART int poll_with_progress(struct cq *cq, int count, struct ibv_wc *wc)
{
	struct cq_poll poll = { cq, wc, count, 0 };

	cq_make_progress(&poll);
	return take_rest(&poll);
}

FLAT int hca_poll_cq(struct cq *cq, int count, struct ibv_wc *wc)
{
	int got = 0;

	if (((struct hca_context *)cq->owner)->abandoned)
		return -1;
	if (is_ready(cq))
		got = cq_take(cq, count, wc);
	else if (!cq_is_empty(cq) || !can_skip(cq))
		got = poll_with_progress(cq, count, wc);
	if (!got && cq_yield_is_due(cq))
		got = poll_behind_yield(cq, count, wc);
	if (got)
		atomic_store_explicit(&cq->empty_polls, 0, memory_order_relaxed);
	return got;
}

int hca_poll_cq_one(struct cq *cq, struct completion *completion)
{
	struct cq_poll poll = { cq, NULL, 0, 0 };
	int got;

	if (((struct hca_context *)cq->owner)->abandoned)
		return 0;
	if (!is_ready(cq) && (!cq_is_empty(cq) || !can_skip(cq)))
		cq_make_progress(&poll);
	got = cq_take_one(cq, completion);
	if (!got && cq_yield_is_due(cq)) {
		cq_offer_core(&poll);
		got = cq_take_one(cq, completion);
	}
	if (got)
		atomic_store_explicit(&cq->empty_polls, 0, memory_order_relaxed);
	return got;
}

int hca_next_completion(struct cq *cq, struct completion *completion)
{
	return ((struct hca_context *)cq->owner)->abandoned ? 0 : cq_take_one(cq, completion);
}

int hca_req_notify_cq(struct cq *cq, bool solicited_only)
{
	struct hca_context *context = cq->owner;
	struct effects effects;

	if (context->abandoned)
		return EIO;
	effects_init(&effects);
	cq_arm(cq, solicited_only, &effects);
	if (cq_period_begins(cq))
		timers_arm_cq(&context->hca->engine, cq);
	effects_apply(&effects);
	if (local_await_all(&context->hca->engine.local))
		worker_wake_at(&context->hca->engine, 0);
	worker_expect_sleepers(&context->hca->engine);
	return 0;
}
