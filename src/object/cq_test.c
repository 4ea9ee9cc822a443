/* SPDX-License-Identifier: BSD-2-Clause */
/* Completion queues: a plain array as model of the ring; arming; overflow; resize; clean. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>

#include "object/test_support.h"

#include "object/cq.h"

struct fixture {
	struct cq cq;
	struct comp_channel channel;
	struct event_queue async;
	struct effects effects;
};

static void fixture_init(struct fixture *f, uint32_t size)
{
	memset(f, 0, sizeof(*f));
	assert_int_equal(cq_init(&f->cq, size), 0);
	event_queue_init(&f->channel.queue, -1, NULL);
	event_queue_init(&f->async, -1, NULL);
	f->cq.channel = &f->channel;
	f->cq.async = &f->async;
	effects_init(&f->effects);
}

static bool push(struct fixture *f, uint64_t wr_id, uint32_t qpn, bool solicited)
{
	struct ibv_wc wc = { .wr_id = wr_id, .qp_num = qpn, .opcode = IBV_WC_SEND };

	f->effects.count = 0;
	return cq_push(&f->cq, &wc, solicited, wr_id * 10, &f->effects);
}

/* Events on the channel that wait to be got; takes them. */
static int events(struct fixture *f)
{
	int count = 0;

	while (event_queue_take(&f->channel.queue))
		count++;
	return count;
}

static uint64_t take(struct fixture *f)
{
	struct completion completion;

	assert_int_equal(cq_take_one(&f->cq, &completion), 1);
	assert_int_equal(completion.timestamp_ns, completion.wc.wr_id * 10);
	return completion.wc.wr_id;
}

/* After all that has come was polled. */
static void arm(struct fixture *f, bool solicited_only)
{
	struct completion completion;

	while (cq_take_one(&f->cq, &completion))
		;
	f->effects.count = 0;
	cq_arm(&f->cq, solicited_only, &f->effects);
	assert_int_equal(f->effects.count, 0);
}

static void a_full_cq_loses_the_completion_and_raises_one_error_event(void **state)
{
	struct fixture f;

	fixture_init(&f, 3);
	for (uint64_t i = 0; i < 3; i++)
		assert_true(push(&f, i, 1, false));
	assert_false(push(&f, 3, 1, false));
	assert_int_equal(f.effects.count, 1);
	assert_ptr_equal(event_queue_take(&f.async), &f.cq.error_event.node);
	assert_int_equal(f.cq.error_event.ibv.event_type, IBV_EVENT_CQ_ERR);
	assert_ptr_equal(f.cq.error_event.ibv.element.cq, &f.cq.ibv);
	assert_false(push(&f, 4, 1, false));
	assert_int_equal(f.effects.count, 0);
	assert_null(event_queue_take(&f.async));
	cq_fini(&f.cq);
}

static void an_overflowed_cq_still_drains_but_takes_nothing_more(void **state)
{
	struct fixture f;

	fixture_init(&f, 2);
	push(&f, 0, 1, false);
	push(&f, 1, 1, false);
	push(&f, 2, 1, false);
	assert_int_equal(take(&f), 0);
	assert_false(push(&f, 3, 1, false));
	assert_int_equal(take(&f), 1);
	assert_true(cq_is_empty(&f.cq));
	assert_false(push(&f, 4, 1, false));
	assert_true(cq_is_empty(&f.cq));
	cq_fini(&f.cq);
}

static void with_ignore_overrun_the_oldest_completion_goes(void **state)
{
	struct fixture f;

	fixture_init(&f, 2);
	f.cq.ignore_overrun = true;
	for (uint64_t i = 0; i < 5; i++)
		assert_true(push(&f, i, 1, false));
	assert_int_equal(take(&f), 3);
	assert_int_equal(take(&f), 4);
	assert_true(cq_is_empty(&f.cq));
	assert_null(event_queue_take(&f.async));
	cq_fini(&f.cq);
}

static void each_arming_gives_one_event(void **state)
{
	struct fixture f;

	fixture_init(&f, 16);
	push(&f, 0, 1, true);
	assert_int_equal(events(&f), 0);
	arm(&f, false);
	assert_int_equal(events(&f), 0);	/* completions that were polled do not count */
	push(&f, 1, 1, false);
	push(&f, 2, 1, false);
	assert_int_equal(events(&f), 1);
	push(&f, 3, 1, true);
	assert_int_equal(events(&f), 0);
	cq_fini(&f.cq);
}

static void arming_raises_the_event_for_what_waits(void **state)
{
	struct fixture f;

	fixture_init(&f, 16);
	push(&f, 0, 1, false);
	push(&f, 1, 1, false);
	f.effects.count = 0;
	cq_arm(&f.cq, false, &f.effects);
	assert_int_equal(f.effects.count, 1);
	assert_false(cq_is_armed(&f.cq));
	assert_int_equal(events(&f), 1);
	cq_arm(&f.cq, false, &f.effects);
	assert_int_equal(events(&f), 0);	/* of these two an event has told */
	push(&f, 2, 1, false);
	assert_int_equal(events(&f), 1);
	push(&f, 3, 1, false);
	take(&f);
	assert_int_equal(cq_resize(&f.cq, 20), 0);
	cq_arm(&f.cq, false, &f.effects);
	assert_int_equal(events(&f), 1);
	cq_arm(&f.cq, false, &f.effects);
	assert_int_equal(events(&f), 0);
	arm(&f, false);
	assert_int_equal(events(&f), 0);
	push(&f, 4, 1, false);
	assert_int_equal(events(&f), 1);
	cq_fini(&f.cq);
}

static void armed_for_solicited_only_one_that_waits_counts(void **state)
{
	struct ibv_wc failed = { .wr_id = 4, .status = IBV_WC_WR_FLUSH_ERR };
	struct fixture f;

	fixture_init(&f, 16);
	push(&f, 0, 1, true);
	take(&f);
	push(&f, 1, 1, false);
	cq_arm(&f.cq, true, &f.effects);
	assert_int_equal(events(&f), 0);	/* the solicited one was polled */
	cq_disarm(&f.cq);
	push(&f, 2, 1, true);
	push(&f, 3, 1, false);
	cq_arm(&f.cq, true, &f.effects);
	assert_int_equal(events(&f), 1);
	cq_arm(&f.cq, true, &f.effects);
	assert_int_equal(events(&f), 0);
	cq_disarm(&f.cq);
	take(&f);
	cq_push(&f.cq, &failed, false, 40, &f.effects);
	assert_int_equal(cq_resize(&f.cq, 20), 0);
	cq_arm(&f.cq, true, &f.effects);
	assert_int_equal(events(&f), 1);
	cq_clean(&f.cq, 0);
	arm(&f, true);
	assert_int_equal(events(&f), 0);
	cq_arm(&f.cq, false, &f.effects);
	assert_int_equal(events(&f), 0);
	cq_fini(&f.cq);
}

static void what_waits_counts_for_moderation_once(void **state)
{
	const struct cq_moderation moderation = { 3, 500 };
	struct fixture f;

	fixture_init(&f, 16);
	cq_moderate(&f.cq, &moderation, &f.effects);
	push(&f, 0, 1, false);
	push(&f, 1, 1, false);
	cq_arm(&f.cq, false, &f.effects);
	assert_true(cq_period_begins(&f.cq));
	cq_arm(&f.cq, false, &f.effects);
	assert_int_equal(events(&f), 0);
	push(&f, 2, 1, false);
	assert_int_equal(events(&f), 1);
	push(&f, 3, 1, false);
	cq_arm(&f.cq, false, &f.effects);
	assert_int_equal(events(&f), 0);	/* the event told of three */
	assert_true(cq_period_begins(&f.cq));
	cq_period_ended(&f.cq, &f.effects);
	assert_int_equal(events(&f), 1);
	cq_fini(&f.cq);
}

static void armed_for_solicited_only_those_and_failures_give_an_event(void **state)
{
	struct ibv_wc failed = { .status = IBV_WC_WR_FLUSH_ERR };
	struct fixture f;

	fixture_init(&f, 16);
	arm(&f, true);
	push(&f, 0, 1, false);
	assert_int_equal(events(&f), 0);
	push(&f, 1, 1, true);
	assert_int_equal(events(&f), 1);
	arm(&f, true);
	cq_push(&f.cq, &failed, false, 0, &f.effects);
	assert_int_equal(events(&f), 1);
	cq_fini(&f.cq);
}

static void arming_for_any_strengthens_and_is_not_weakened(void **state)
{
	struct fixture f;

	fixture_init(&f, 16);
	arm(&f, true);
	arm(&f, false);
	push(&f, 0, 1, false);
	assert_int_equal(events(&f), 1);
	arm(&f, false);
	arm(&f, true);
	push(&f, 1, 1, false);
	assert_int_equal(events(&f), 1);
	cq_fini(&f.cq);
}

static void a_wake_up_that_cannot_be_noted_comes_with_the_next_completion(void **state)
{
	struct ibv_wc wc = { .wr_id = 1 };
	struct fixture f;

	fixture_init(&f, 16);
	arm(&f, false);
	f.effects.count = EFFECTS_MAX;
	assert_true(cq_push(&f.cq, &wc, false, 10, &f.effects));
	assert_int_equal(events(&f), 0);
	push(&f, 2, 1, false);
	assert_int_equal(events(&f), 1);
	cq_fini(&f.cq);
}

static void moderate(struct fixture *f, uint32_t count, uint64_t period_ns)
{
	const struct cq_moderation moderation = { count, period_ns };

	f->effects.count = 0;
	cq_moderate(&f->cq, &moderation, &f->effects);
}

static void moderated_by_count_the_event_comes_with_the_last_of_so_many(void **state)
{
	struct fixture f;

	fixture_init(&f, 16);
	moderate(&f, 3, 0);
	push(&f, 0, 1, false);		/* not armed: does not count */
	arm(&f, false);
	push(&f, 1, 1, false);
	push(&f, 2, 1, true);
	assert_int_equal(events(&f), 0);
	assert_false(cq_period_begins(&f.cq));
	push(&f, 3, 1, false);
	assert_int_equal(f.effects.count, 1);
	assert_int_equal(events(&f), 1);
	arm(&f, false);
	push(&f, 4, 1, false);
	push(&f, 5, 1, false);
	assert_int_equal(events(&f), 0);
	push(&f, 6, 1, false);
	assert_int_equal(events(&f), 1);
	cq_fini(&f.cq);
}

static void moderated_by_period_the_event_comes_when_it_ends(void **state)
{
	struct fixture f;

	fixture_init(&f, 16);
	moderate(&f, 0, 500);
	arm(&f, false);
	cq_period_ended(&f.cq, &f.effects);
	assert_int_equal(events(&f), 0);	/* an old timer: nothing has come */
	push(&f, 1, 1, false);
	assert_true(cq_period_begins(&f.cq));
	assert_false(cq_period_begins(&f.cq));
	assert_int_equal(cq_period_ns(&f.cq), 500);
	push(&f, 2, 1, false);
	assert_false(cq_period_begins(&f.cq));	/* it began with the first */
	assert_int_equal(events(&f), 0);
	cq_period_ended(&f.cq, &f.effects);
	assert_int_equal(events(&f), 1);
	push(&f, 3, 1, false);
	assert_false(cq_period_begins(&f.cq));	/* not armed */
	arm(&f, false);
	push(&f, 4, 1, false);
	assert_true(cq_period_begins(&f.cq));
	cq_fini(&f.cq);
}

static void moderated_by_both_what_comes_first_counts(void **state)
{
	struct fixture f;

	fixture_init(&f, 16);
	moderate(&f, 2, 500);
	arm(&f, false);
	push(&f, 1, 1, false);
	assert_true(cq_period_begins(&f.cq));
	push(&f, 2, 1, false);
	assert_int_equal(events(&f), 1);
	cq_period_ended(&f.cq, &f.effects);
	assert_int_equal(events(&f), 0);
	cq_fini(&f.cq);
}

static void an_event_does_not_wait_for_more_than_fit(void **state)
{
	struct fixture f;

	fixture_init(&f, 3);
	moderate(&f, 100, 0);
	arm(&f, false);
	push(&f, 1, 1, false);
	push(&f, 2, 1, false);
	assert_int_equal(events(&f), 0);
	push(&f, 3, 1, false);
	assert_int_equal(events(&f), 1);
	cq_fini(&f.cq);
}

static void armed_for_solicited_only_these_do_not_wait(void **state)
{
	struct fixture f;

	fixture_init(&f, 16);
	moderate(&f, 8, 500);
	arm(&f, true);
	push(&f, 1, 1, false);
	assert_int_equal(events(&f), 0);
	push(&f, 2, 1, true);
	assert_int_equal(events(&f), 1);
	assert_false(cq_period_begins(&f.cq));
	cq_fini(&f.cq);
}

static void other_moderation_raises_the_event_that_waits(void **state)
{
	struct fixture f;

	fixture_init(&f, 16);
	moderate(&f, 8, 0);
	arm(&f, false);
	push(&f, 1, 1, false);
	moderate(&f, 0, 0);
	assert_int_equal(f.effects.count, 1);
	assert_int_equal(events(&f), 1);
	arm(&f, false);
	push(&f, 2, 1, false);
	assert_int_equal(events(&f), 1);
	moderate(&f, 8, 0);
	assert_int_equal(events(&f), 0);	/* none waits */
	arm(&f, false);
	push(&f, 3, 1, false);
	cq_disarm(&f.cq);
	moderate(&f, 0, 0);
	assert_int_equal(events(&f), 0);
	cq_fini(&f.cq);
}

static void a_resize_keeps_what_waits_or_is_refused(void **state)
{
	struct fixture f;

	fixture_init(&f, 4);
	for (uint64_t i = 0; i < 4; i++)
		push(&f, i, 1, false);
	assert_int_equal(take(&f), 0);
	assert_int_equal(cq_resize(&f.cq, 2), EINVAL);
	assert_int_equal(f.cq.ibv.cqe, 4);
	assert_int_equal(cq_resize(&f.cq, 3), 0);
	assert_int_equal(f.cq.ibv.cqe, 3);
	assert_int_equal(cq_resize(&f.cq, 0), EINVAL);
	assert_int_equal(cq_resize(&f.cq, 100), 0);
	for (uint64_t i = 4; i < 101; i++)
		assert_true(push(&f, i, 1, false));
	assert_false(push(&f, 101, 1, false));
	for (uint64_t i = 1; i < 101; i++)
		assert_int_equal(take(&f), i);
	cq_fini(&f.cq);
}

static void cleaning_removes_one_qps_completions_and_keeps_others_in_order(void **state)
{
	struct fixture f;

	fixture_init(&f, 16);
	for (uint64_t i = 0; i < 12; i++)
		push(&f, i, (uint32_t)(i % 3), false);
	cq_clean(&f.cq, 1);
	for (uint64_t i = 0; i < 12; i++)
		if (i % 3 != 1)
			assert_int_equal(take(&f), i);
	assert_true(cq_is_empty(&f.cq));
	cq_fini(&f.cq);
}

/* Of request @number of a queue; shared as those of an SRQ are. */
static void push_slot(struct fixture *f, struct wqe_slots *slots, uint32_t number, bool shared, uint32_t qpn)
{
	struct ibv_wc wc = { .wr_id = number, .qp_num = qpn, .opcode = IBV_WC_RECV };

	f->effects.count = 0;
	cq_push_slot(&f->cq, &wc, (struct wqe_slot){ slots, number, shared }, false, number * 10, &f->effects);
}

static void polling_frees_the_slots_of_a_request_and_of_those_before_it(void **state)
{
	struct completion completion;
	struct wqe_slots slots;
	struct ibv_wc wc[2];
	struct fixture f;

	fixture_init(&f, 16);
	wqe_slots_init(&slots);
	push_slot(&f, &slots, 3, false, 1);
	push_slot(&f, &slots, 4, false, 1);
	push_slot(&f, &slots, 9, false, 1);
	push_slot(&f, &slots, UINT32_MAX, false, 1);
	assert_int_equal(wqe_slots_used(&slots, 10), 10);
	assert_int_equal(cq_take(&f.cq, 1, wc), 1);
	assert_int_equal(wqe_slots_used(&slots, 10), 6);
	assert_int_equal(cq_take(&f.cq, 2, wc), 2);
	assert_int_equal(wqe_slots_used(&slots, 10), 0);
	assert_int_equal(cq_take_one(&f.cq, &completion), 1);
	assert_int_equal(wqe_slots_used(&slots, 1), 1);
	cq_fini(&f.cq);
}

static void polling_frees_shared_slots_one_by_one(void **state)
{
	struct wqe_slots slots;
	struct ibv_wc wc[2];
	struct fixture f, other;

	fixture_init(&f, 16);
	fixture_init(&other, 16);
	wqe_slots_init(&slots);
	push_slot(&f, &slots, 0, true, 1);
	push_slot(&f, &slots, 2, true, 1);
	push_slot(&other, &slots, 1, true, 2);
	assert_int_equal(cq_take(&other.cq, 2, wc), 1);
	assert_int_equal(wqe_slots_used(&slots, 3), 2);
	assert_int_equal(cq_take(&f.cq, 2, wc), 2);
	assert_int_equal(wqe_slots_used(&slots, 3), 0);
	cq_fini(&f.cq);
	cq_fini(&other.cq);
}

static void cleaning_frees_the_slots_of_an_srq(void **state)
{
	struct wqe_slots slots, others;
	struct fixture f;

	fixture_init(&f, 16);
	wqe_slots_init(&slots);
	wqe_slots_init(&others);
	push_slot(&f, &slots, 0, true, 1);
	push_slot(&f, &slots, 1, true, 2);
	push_slot(&f, &others, 0, false, 2);
	cq_clean(&f.cq, 1);
	assert_int_equal(wqe_slots_used(&slots, 2), 1);
	cq_clean_slots(&f.cq, &slots);
	assert_int_equal(wqe_slots_used(&slots, 2), 0);
	assert_int_equal(take(&f), 0);
	assert_int_equal(wqe_slots_used(&others, 1), 0);
	assert_true(cq_is_empty(&f.cq));
	cq_fini(&f.cq);
}

static void a_dropped_completion_frees_the_slot_of_an_srq_alone(void **state)
{
	struct wqe_slots slots, others;
	struct fixture f;

	fixture_init(&f, 1);
	f.cq.ignore_overrun = true;
	wqe_slots_init(&slots);
	wqe_slots_init(&others);
	push_slot(&f, &slots, 0, true, 1);
	push_slot(&f, &others, 0, false, 2);
	assert_int_equal(wqe_slots_used(&slots, 1), 0);
	push_slot(&f, &others, 1, false, 2);
	assert_int_equal(wqe_slots_used(&others, 2), 2);
	take(&f);
	assert_int_equal(wqe_slots_used(&others, 2), 0);
	cq_fini(&f.cq);
}

static void taking_many_takes_no_more_than_there_are(void **state)
{
	struct ibv_wc wc[8];
	struct fixture f;

	fixture_init(&f, 8);
	assert_int_equal(cq_take(&f.cq, 8, wc), 0);
	for (uint64_t i = 0; i < 5; i++)
		push(&f, i, 1, false);
	assert_int_equal(cq_take(&f.cq, 0, wc), 0);
	assert_int_equal(cq_take(&f.cq, 3, wc), 3);
	assert_int_equal(wc[2].wr_id, 2);
	assert_int_equal(cq_take(&f.cq, 8, wc), 2);
	assert_int_equal(wc[1].wr_id, 4);
	cq_fini(&f.cq);
}

#define RACED	200000u

static void *push_raced(void *argument)
{
	struct fixture *f = argument;

	for (uint64_t i = 0; i < RACED;) {
		struct ibv_wc wc = { .wr_id = i, .byte_len = (uint32_t)i, .qp_num = 1 };

		if (atomic_load(&f->cq.head) - atomic_load(&f->cq.tail) == 8)
			sched_yield();
		else
			i += cq_push(&f->cq, &wc, false, i * 10, &f->effects);
	}
	return NULL;
}

/* One thread takes without the lock while another pushes: each once, whole, in order. */
static void who_takes_alone_needs_no_lock(void **state)
{
	pthread_t producer;
	struct fixture f;
	uint64_t next = 0;

	fixture_init(&f, 8);
	f.cq.single_threaded = true;
	assert_int_equal(pthread_create(&producer, NULL, push_raced, &f), 0);
	while (next < RACED) {
		struct completion completion;
		struct ibv_wc wc[3];
		int got = next & 1 ? cq_take(&f.cq, 3, wc) : 0;

		for (int i = 0; i < got; i++, next++) {
			assert_int_equal(wc[i].wr_id, next);
			assert_int_equal(wc[i].byte_len, next);
		}
		if (got || !cq_take_one(&f.cq, &completion))
			continue;
		assert_int_equal(completion.wc.wr_id, next);
		assert_int_equal(completion.timestamp_ns, next * 10);
		next++;
	}
	pthread_join(producer, NULL);
	assert_true(cq_is_empty(&f.cq));
	cq_fini(&f.cq);
}

/* The model: a plain array, moved along at each take. */
struct horrible {
	uint64_t wr_id[64];
	uint32_t qpn[64];
	uint32_t count, size;
};

static void horrible_remove(struct horrible *h, uint32_t at)
{
	for (h->count--; at < h->count; at++) {
		h->wr_id[at] = h->wr_id[at + 1];
		h->qpn[at] = h->qpn[at + 1];
	}
}

static void horrible_clean(struct horrible *h, uint32_t qpn)
{
	for (uint32_t i = 0; i < h->count;)
		if (h->qpn[i] == qpn)
			horrible_remove(h, i);
		else
			i++;
}

static void random_step(struct fixture *f, struct horrible *h, uint64_t *seed, uint64_t number)
{
	uint32_t value = random_below(seed, 4);

	switch (random_below(seed, 16)) {
	case 0:
		cq_clean(&f->cq, value);
		horrible_clean(h, value);
		break;
	case 1:
		value = 1 + random_below(seed, 64);
		assert_int_equal(cq_resize(&f->cq, value), value < h->count ? EINVAL : 0);
		if (value >= h->count)
			h->size = value;
		break;
	case 2 ... 8:
		if (h->count == h->size)
			break;
		assert_true(push(f, number, value, false));
		h->wr_id[h->count] = number;
		h->qpn[h->count++] = value;
		break;
	default:
		assert_int_equal(cq_is_empty(&f->cq), h->count == 0);
		if (!h->count)
			break;
		assert_int_equal(take(f), h->wr_id[0]);
		horrible_remove(h, 0);
	}
}

static void the_ring_does_as_a_plain_array_does_also_where_its_counters_wrap(void **state)
{
	struct horrible h = { .size = 5 };
	uint64_t seed = 20240607;
	struct fixture f;

	fixture_init(&f, 5);
	for (uint64_t number = 0; number < 100000; number++) {
		if (!h.count && number % 64 == 0) {
			atomic_store(&f.cq.head, 0xfffffffd);
			atomic_store(&f.cq.tail, 0xfffffffd);
		}
		random_step(&f, &h, &seed, number);
	}
	cq_fini(&f.cq);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_full_cq_loses_the_completion_and_raises_one_error_event),
		cmocka_unit_test(an_overflowed_cq_still_drains_but_takes_nothing_more),
		cmocka_unit_test(with_ignore_overrun_the_oldest_completion_goes),
		cmocka_unit_test(each_arming_gives_one_event),
		cmocka_unit_test(arming_raises_the_event_for_what_waits),
		cmocka_unit_test(armed_for_solicited_only_one_that_waits_counts),
		cmocka_unit_test(what_waits_counts_for_moderation_once),
		cmocka_unit_test(armed_for_solicited_only_those_and_failures_give_an_event),
		cmocka_unit_test(arming_for_any_strengthens_and_is_not_weakened),
		cmocka_unit_test(a_wake_up_that_cannot_be_noted_comes_with_the_next_completion),
		cmocka_unit_test(moderated_by_count_the_event_comes_with_the_last_of_so_many),
		cmocka_unit_test(moderated_by_period_the_event_comes_when_it_ends),
		cmocka_unit_test(moderated_by_both_what_comes_first_counts),
		cmocka_unit_test(an_event_does_not_wait_for_more_than_fit),
		cmocka_unit_test(armed_for_solicited_only_these_do_not_wait),
		cmocka_unit_test(other_moderation_raises_the_event_that_waits),
		cmocka_unit_test(a_resize_keeps_what_waits_or_is_refused),
		cmocka_unit_test(cleaning_removes_one_qps_completions_and_keeps_others_in_order),
		cmocka_unit_test(polling_frees_the_slots_of_a_request_and_of_those_before_it),
		cmocka_unit_test(polling_frees_shared_slots_one_by_one),
		cmocka_unit_test(cleaning_frees_the_slots_of_an_srq),
		cmocka_unit_test(a_dropped_completion_frees_the_slot_of_an_srq_alone),
		cmocka_unit_test(taking_many_takes_no_more_than_there_are),
		cmocka_unit_test(who_takes_alone_needs_no_lock),
		cmocka_unit_test(
			the_ring_does_as_a_plain_array_does_also_where_its_counters_wrap),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
