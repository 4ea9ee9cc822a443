/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Completion queues: the ring, overflow, and the arming of the completion channel.
 *
 * No wake-up is lost because pushing and arming are under one lock: a completion is either in
 * the ring before the CQ was armed (then arming raises the event), or it finds the CQ armed. Programs
 * poll once more after arming all the same, as the man page asks: the specification has no event for it.
 */
#include "object/cq.h"

#include <errno.h>
#include <stdlib.h>

#include "base/inline.h"
#include "base/log.h"
#include "object/ring.h"

int cq_init(struct cq *cq, uint32_t size)
{
	if (!size || size > RING_SIZE_MAX)
		return EINVAL;
	lock_init(&cq->lock);
	lock_init(&cq->poll_lock);
	cq->mask = ring_mask(size);
	cq->ring = ring_memory_get(&cq->memory, (size_t)cq->mask + 1, sizeof(*cq->ring));
	if (!cq->ring)
		return ENOMEM;
	cq->size = size;
	cq->ibv.cqe = (int)size;
	cq->armed = CQ_UNARMED;
	timer_init(&cq->timer);
	list_init(&cq->comp_event.node);
	list_init(&cq->error_event.node);
	list_init(&cq->node);
	return 0;
}

void cq_fini(struct cq *cq)
{
	lock_destroy(&cq->lock);
	lock_destroy(&cq->poll_lock);
	ring_memory_put(&cq->memory, cq->ring);
	cq->ring = NULL;
}

static uint32_t cq_head_of(const struct cq *cq)
{
	return atomic_load_explicit(&cq->head, memory_order_relaxed);
}

static uint32_t cq_tail_of(const struct cq *cq)
{
	return atomic_load_explicit(&cq->tail, memory_order_relaxed);
}

static void set_head(struct cq *cq, uint32_t head)
{
	atomic_store_explicit(&cq->head, head, memory_order_release);	/* R12 */
}

static void set_tail(struct cq *cq, uint32_t tail)
{
	atomic_store_explicit(&cq->tail, tail, memory_order_release);
}

APART bool cq_make_room(struct cq *cq, struct effects *effects)
{
	if (cq->overflowed)
		return false;
	if (cq->ignore_overrun) {
		/* A later one frees its slot as well, but for those of an SRQ. */
		if (cq->ring[cq_tail_of(cq) & cq->mask].slot.shared)
			wqe_slot_free(&cq->ring[cq_tail_of(cq) & cq->mask].slot);
		set_tail(cq, cq_tail_of(cq) + 1);
		return true;
	}
	cq->overflowed = true;
	explain_about("CQ_ERR", OF(CQ, cq->number),
		"cq %u overflowed: %u completions wait to be polled; poll more often, "
		      "create it with a larger cqe, or keep fewer requests outstanding", cq->number,
		      cq->size);
	if (cq->async) {
		cq->error_event.ibv.event_type = IBV_EVENT_CQ_ERR;
		cq->error_event.ibv.element.cq = (struct ibv_cq *)&cq->ibv;
		event_queue_add(cq->async, &cq->error_event.node, effects);
	}
	return false;
}

static void raise_channel_now(struct cq *cq, struct effects *effects) REQUIRES(cq->lock)
{
	/* The CQ stays armed if effects is full; the next completion raises the event. */
	if (cq->channel && !event_queue_add(&cq->channel->queue, &cq->comp_event.node, effects))
		return;
	cq->armed = CQ_UNARMED;
	cq->moderated = 0;
	cq->notified = cq_head_of(cq);
}

/*
 * Does the event wait for more than these @completions, or for time? A full CQ waits for neither: no more can
 * come. Solicited completions do not wait in a CQ that is armed for these alone: the sender has
 * chosen them.
 */
static bool event_waits(struct cq *cq, uint32_t completions) REQUIRES(cq->lock)
{
	const struct cq_moderation *moderation = &cq->moderation;
	bool first = !cq->moderated;

	if (cq->armed != CQ_ARMED_ANY || (!moderation->count && !moderation->period_ns))
		return false;
	cq->moderated += completions;
	if ((moderation->count && cq->moderated >= moderation->count) ||
	    cq_head_of(cq) - cq_tail_of(cq) >= cq->size)
		return false;
	if (first && moderation->period_ns)
		atomic_store_explicit(&cq->period_begins, true, memory_order_relaxed);
	return true;
}

/* One was pushed that somebody may wait for. */
static APART void cq_pushed(struct cq *cq, bool solicited, struct effects *effects) REQUIRES(cq->lock)
{
	if ((solicited || cq->armed != CQ_ARMED_SOLICITED) && !event_waits(cq, 1))
		raise_channel_now(cq, effects);
}

void cq_push_end(struct cq *cq, struct completion *completion, bool solicited, struct effects *effects)
{
	/* Threads look at the clock before they have the lock. */
	if (__builtin_expect(cq->stamped, 0)) {
		if (completion->timestamp_ns < cq->last_stamp_ns)
			completion->timestamp_ns = cq->last_stamp_ns;
		cq->last_stamp_ns = completion->timestamp_ns;
	}
	solicited = solicited || completion->wc.status != IBV_WC_SUCCESS;
	set_head(cq, cq_head_of(cq) + 1);
	if (solicited)
		cq->solicited_end = cq_head_of(cq);
	if (cq->armed != CQ_UNARMED)
		cq_pushed(cq, solicited, effects);
	lock_release_plain(&cq->lock);
}

void cq_push_given(struct cq *cq, struct cq_poll *poll, const struct wqe_slot *slot)
{
	poll->got++;
	wqe_slot_free(slot);
	lock_release_plain(&cq->lock);
}

bool cq_push_slot(struct cq *cq, const struct ibv_wc *wc, struct wqe_slot slot, bool solicited, uint64_t now_ns,
		  struct effects *effects)
{
	struct completion *completion = cq_push_begin(cq, effects);

	if (!completion)
		return false;
	*completion = (struct completion){ .wc = *wc, .timestamp_ns = now_ns, .slot = slot };
	cq_push_end(cq, completion, solicited, effects);
	return true;
}

bool cq_push(struct cq *cq, const struct ibv_wc *wc, bool solicited, uint64_t now_ns,
	     struct effects *effects)
{
	return cq_push_slot(cq, wc, (struct wqe_slot){ NULL, 0, false }, solicited, now_ns, effects);
}

bool cq_push_full(struct cq *cq, const struct completion *from, bool solicited, uint64_t now_ns,
		  struct effects *effects)
{
	struct completion *completion = cq_push_begin(cq, effects);

	if (!completion)
		return false;
	*completion = *from;
	completion->timestamp_ns = now_ns;
	cq_push_end(cq, completion, solicited, effects);
	return true;
}

bool cq_row_begin(struct cq *cq)
{
	if (cq->stamped || cq->ignore_overrun || cq_is_armed(cq))
		return false;
	lock_acquire(&cq->lock);
	if (!cq_is_armed(cq))	/* nor does an event wait */
		return true;
	lock_release_plain(&cq->lock);
	return false;
}

struct ibv_wc *cq_row_next(struct cq *cq, const struct cq_poll *poll)
{
	if (poll && poll->got < poll->count && cq_is_empty(cq) && !cq->overflowed)
		return &poll->wc[poll->got];
	return cq_has_room(cq) ? &cq->ring[cq_head_of(cq) & cq->mask].wc : NULL;
}

void cq_row_push(struct cq *cq, struct cq_poll *poll, struct ibv_wc *wc, const struct wqe_slot *slot,
		 bool solicited)
{
	struct completion *completion;

	if (poll && wc == &poll->wc[poll->got]) {
		poll->got++;
		wqe_slot_free(slot);
		return;
	}
	completion = (struct completion *)wc;	/* its first member */
	completion->timestamp_ns = completion->tag = 0;
	completion->slot = *slot;
	set_head(cq, cq_head_of(cq) + 1);
	if (solicited)
		cq->solicited_end = cq_head_of(cq);
}

void cq_row_end(struct cq *cq)
{
	lock_release_plain(&cq->lock);
}

static int take_some(struct cq *cq, int count, struct ibv_wc *wc) REQUIRES(cq->lock)
{
	const uint32_t head = atomic_load_explicit(&cq->head, memory_order_acquire);	/* A12 */
	uint32_t tail = cq_tail_of(cq);
	int taken = 0;

	while (taken < count && tail != head) {
		const struct completion *completion = &cq->ring[tail++ & cq->mask];

		wc[taken++] = completion->wc;
		wqe_slot_free(&completion->slot);
	}
	set_tail(cq, tail);
	return taken;
}

static int take_next(struct cq *cq, struct completion *completion) REQUIRES(cq->lock)
{
	if (cq_is_empty(cq))
		return 0;
	*completion = cq->ring[cq_tail_of(cq) & cq->mask];
	wqe_slot_free(&completion->slot);
	set_tail(cq, cq_tail_of(cq) + 1);
	return 1;
}

int cq_take(struct cq *cq, int count, struct ibv_wc *wc)
{
	int taken;

	if (cq_is_empty(cq))
		return 0;
	if (cq->single_threaded) {
		/*
		 * The one thread that consumes needs no lock to do so: producers, who have it,
		 * publish by the head, and what else moves the tail (resizing, cleaning) is done
		 * by that thread, too.
		 */
		lock_alias(&cq->lock);
		return take_some(cq, count, wc);
	}
	lock_acquire(&cq->lock);
	taken = take_some(cq, count, wc);
	lock_release_plain(&cq->lock);
	return taken;
}

int cq_take_one(struct cq *cq, struct completion *completion)
{
	int taken;

	if (cq_is_empty(cq))
		return 0;
	if (cq->single_threaded) {	/* as in cq_take() */
		lock_alias(&cq->lock);
		return take_next(cq, completion);
	}
	lock_acquire(&cq->lock);
	taken = take_next(cq, completion);
	lock_release_plain(&cq->lock);
	return taken;
}

/* Neither polled nor told of by an event. They count for moderation once, however often the CQ is armed. */
static void raise_for_waiting(struct cq *cq, struct effects *effects) REQUIRES(cq->lock)
{
	uint32_t from = cq_tail_of(cq);

	if ((int32_t)(cq->notified - from) > 0)
		from = cq->notified;
	if (from == cq_head_of(cq) || cq->moderated)
		return;
	if (cq->armed == CQ_ARMED_SOLICITED && (int32_t)(cq->solicited_end - from) <= 0)
		return;
	if (!event_waits(cq, cq_head_of(cq) - from))
		raise_channel_now(cq, effects);
}

void cq_arm(struct cq *cq, bool solicited_only, struct effects *effects)
{
	lock_acquire(&cq->lock);
	if (!solicited_only)
		cq->armed = CQ_ARMED_ANY;
	else if (cq->armed == CQ_UNARMED)
		cq->armed = CQ_ARMED_SOLICITED;
	raise_for_waiting(cq, effects);
	lock_release_plain(&cq->lock);
}

void cq_moderate(struct cq *cq, const struct cq_moderation *moderation, struct effects *effects)
{
	lock_acquire(&cq->lock);
	cq->moderation = *moderation;
	if (cq->moderated)
		raise_channel_now(cq, effects);
	lock_release_plain(&cq->lock);
}

uint64_t cq_period_ns(struct cq *cq)
{
	uint64_t period_ns;

	lock_acquire(&cq->lock);
	period_ns = cq->moderation.period_ns;
	lock_release_plain(&cq->lock);
	return period_ns;
}

void cq_period_ended(struct cq *cq, struct effects *effects)
{
	lock_acquire(&cq->lock);
	if (cq->moderated)
		raise_channel_now(cq, effects);
	lock_release_plain(&cq->lock);
}

void cq_disarm(struct cq *cq)
{
	lock_acquire(&cq->lock);
	cq->armed = CQ_UNARMED;
	cq->moderated = 0;
	lock_release_plain(&cq->lock);
}

int cq_resize(struct cq *cq, uint32_t size)
{
	struct ring_memory memory = cq->memory, of_old = memory;
	struct completion *unused;
	uint32_t waiting, mask;
	int err = 0;

	if (!size || size > RING_SIZE_MAX)
		return EINVAL;
	mask = ring_mask(size);
	unused = ring_memory_get(&memory, (size_t)mask + 1, sizeof(*unused));
	if (!unused)
		return ENOMEM;
	lock_acquire(&cq->lock);
	waiting = cq_head_of(cq) - cq_tail_of(cq);
	if (waiting > size) {
		err = EINVAL;
	} else {
		struct completion *old = cq->ring;

		/* The oldest goes to slot 0. */
		for (uint32_t i = 0; i < waiting; i++)
			unused[i] = old[(cq_tail_of(cq) + i) & cq->mask];
		cq->ring = unused;
		cq->size = size;
		cq->mask = mask;
		cq->ibv.cqe = (int)size;
		cq->solicited_end -= cq_tail_of(cq);
		cq->notified -= cq_tail_of(cq);
		set_tail(cq, 0);
		set_head(cq, waiting);
		cq->memory = memory;
		memory = of_old;
		unused = old;
	}
	lock_release_plain(&cq->lock);
	ring_memory_put(&memory, unused);
	if (err)
		explain_of(OF(CQ, cq->number),
			"ibv_resize_cq: %u completions wait in cq %u, more than the new size %u; "
			"poll them first", waiting, cq->number, size);
	return err;
}

/* Close the ring over the completions of @qpn, or (not NULL) of @slots. */
static void cq_discard(struct cq *cq, uint32_t qpn, const struct wqe_slots *slots)
{
	uint32_t from, to;

	lock_acquire(&cq->lock);
	for (from = to = cq_tail_of(cq); from != cq_head_of(cq); from++) {
		const struct completion *completion = &cq->ring[from & cq->mask];

		if (slots ? completion->slot.of != slots : completion->wc.qp_num != qpn)
			cq->ring[to++ & cq->mask] = *completion;
		else
			wqe_slot_free(&completion->slot);
	}
	/* Which of those that stay were solicited, or told of, is not known: an event too many does no harm. */
	if ((int32_t)(cq->solicited_end - to) > 0)
		cq->solicited_end = to;
	if (to != cq_head_of(cq))
		cq->notified = cq_tail_of(cq);
	set_head(cq, to);
	lock_release_plain(&cq->lock);
}

void cq_clean(struct cq *cq, uint32_t qpn)
{
	cq_discard(cq, qpn, NULL);
}

void cq_clean_slots(struct cq *cq, const struct wqe_slots *slots)
{
	cq_discard(cq, 0, slots);
}
