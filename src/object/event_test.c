/* SPDX-License-Identifier: BSD-2-Clause */
/* Event queues: order, no doubles, cancellation, and references that keep the queue alive. */
#include "object/test_support.h"

#include "object/event.h"

static int released;

static void count_release(struct event_queue *queue)
{
	released++;
}

static void events_come_out_in_the_order_in_which_they_were_added(void **state)
{
	struct event_queue queue;
	struct effects effects;
	struct list first = { 0 }, second = { 0 };

	event_queue_init(&queue, -1, NULL);
	effects_init(&effects);
	assert_null(event_queue_take(&queue));
	event_queue_add(&queue, &first, &effects);
	event_queue_add(&queue, &second, &effects);
	assert_int_equal(effects.count, 2);
	assert_ptr_equal(event_queue_take(&queue), &first);
	assert_ptr_equal(event_queue_take(&queue), &second);
	assert_null(event_queue_take(&queue));
}

static void an_event_that_waits_already_is_not_added_again(void **state)
{
	struct event_queue queue;
	struct effects effects;
	struct list node = { 0 };

	event_queue_init(&queue, -1, NULL);
	effects_init(&effects);
	event_queue_add(&queue, &node, &effects);
	event_queue_add(&queue, &node, &effects);
	assert_int_equal(effects.count, 1);
	assert_ptr_equal(event_queue_take(&queue), &node);
	event_queue_add(&queue, &node, &effects);
	assert_int_equal(effects.count, 2);
	assert_ptr_equal(event_queue_take(&queue), &node);
}

static void a_cancelled_event_is_not_taken(void **state)
{
	struct event_queue queue;
	struct effects effects;
	struct list node = { 0 }, never_added = { 0 };

	event_queue_init(&queue, -1, NULL);
	effects_init(&effects);
	assert_false(event_queue_cancel(&queue, &never_added));
	event_queue_add(&queue, &node, &effects);
	assert_true(event_queue_cancel(&queue, &node));
	assert_false(event_queue_cancel(&queue, &node));
	assert_null(event_queue_take(&queue));
}

static void a_pending_wake_up_keeps_the_queue_alive(void **state)
{
	struct event_queue queue;
	struct effects effects;
	struct list node = { 0 };

	released = 0;
	event_queue_init(&queue, -1, count_release);
	effects_init(&effects);
	event_queue_add(&queue, &node, &effects);
	event_queue_put(&queue);
	assert_int_equal(released, 0);
	event_queue_put(effects.wake[0]);
	assert_int_equal(released, 1);
}

static void full_effects_refuse_an_event_and_nothing_is_overrun(void **state)
{
	struct list nodes[EFFECTS_MAX + 1] = { { 0 } };
	struct event_queue queue;
	struct {
		struct effects effects;
		uint64_t canary;
	} f = { .canary = 0x1234 };

	event_queue_init(&queue, -1, NULL);
	effects_init(&f.effects);
	for (unsigned i = 0; i < EFFECTS_MAX; i++)
		assert_true(event_queue_add(&queue, &nodes[i], &f.effects));
	assert_false(event_queue_add(&queue, &nodes[EFFECTS_MAX], &f.effects));
	assert_true(event_queue_add(&queue, &nodes[0], &f.effects));	/* waits already */
	assert_int_equal(f.effects.count, EFFECTS_MAX);
	assert_int_equal(f.canary, 0x1234);
	f.effects.count = 0;
	assert_true(event_queue_add(&queue, &nodes[EFFECTS_MAX], &f.effects));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(events_come_out_in_the_order_in_which_they_were_added),
		cmocka_unit_test(an_event_that_waits_already_is_not_added_again),
		cmocka_unit_test(a_cancelled_event_is_not_taken),
		cmocka_unit_test(a_pending_wake_up_keeps_the_queue_alive),
		cmocka_unit_test(full_effects_refuse_an_event_and_nothing_is_overrun),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
