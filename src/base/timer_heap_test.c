/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The timer heap against an array of deadlines that is searched from end to end.
 */
#include "base/timer_heap.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/test_random.h"

#define TIMERS 60

struct model {
	struct timer_heap heap;
	struct timer timer[TIMERS];
	uint64_t deadline_ns[TIMERS];	/* as expected */
};

static void model_init(struct model *model)
{
	model->heap = (struct timer_heap){ 0 };
	for (size_t i = 0; i < TIMERS; i++) {
		timer_init(&model->timer[i]);
		model->deadline_ns[i] = TIME_NEVER;
		assert_int_equal(timer_heap_reserve(&model->heap, i + 1), 0);
	}
}

static uint64_t model_next(const struct model *model)
{
	uint64_t next = TIME_NEVER;

	for (size_t i = 0; i < TIMERS; i++)
		if (model->deadline_ns[i] < next)
			next = model->deadline_ns[i];
	return next;
}

static void check_agreement(const struct model *model)
{
	assert_int_equal(timer_heap_next(&model->heap), model_next(model));
	for (size_t i = 0; i < TIMERS; i++) {
		assert_int_equal(model->timer[i].deadline_ns, model->deadline_ns[i]);
		assert_int_equal(timer_armed(&model->timer[i]),
				 model->deadline_ns[i] != TIME_NEVER);
	}
}

static void expire_until(struct model *model, uint64_t now_ns)
{
	struct timer *timer;

	while ((timer = timer_heap_expire(&model->heap, now_ns))) {
		size_t index = (size_t)(timer - model->timer);

		assert_int_equal(model->deadline_ns[index], model_next(model));
		assert_true(model->deadline_ns[index] <= now_ns);
		model->deadline_ns[index] = TIME_NEVER;
		assert_false(timer_armed(timer));
	}
	assert_true(model_next(model) > now_ns);
}

static void random_operations_agree_with_a_searched_array(void **unused)
{
	uint64_t random = 4;
	struct model model;

	model_init(&model);
	for (int round = 0; round < 20000; round++) {
		size_t index = test_random(&random) % TIMERS;
		uint64_t deadline_ns = test_random(&random) % 100;	/* many equal ones */

		switch (test_random(&random) % 8) {
		case 0:
			expire_until(&model, deadline_ns / 4);
			break;
		case 1:
		case 2:
			deadline_ns = TIME_NEVER;
			/* fall through */
		default:
			timer_set(&model.heap, &model.timer[index], deadline_ns);
			model.deadline_ns[index] = deadline_ns;
		}
		check_agreement(&model);
	}
	expire_until(&model, 100);
	assert_int_equal(model.heap.count, 0);
	timer_heap_free(&model.heap);
}

static void timers_expire_in_order_and_not_early(void **unused)
{
	struct model model;

	model_init(&model);
	for (size_t i = 0; i < TIMERS; i++) {
		model.deadline_ns[i] = 1000 + (i * 37) % TIMERS;
		timer_set(&model.heap, &model.timer[i], model.deadline_ns[i]);
	}
	assert_null(timer_heap_expire(&model.heap, 999));
	expire_until(&model, 1000 + TIMERS);
	timer_heap_free(&model.heap);
}

static void an_empty_heap_never_expires(void **unused)
{
	struct timer_heap heap = { 0 };

	assert_int_equal(timer_heap_next(&heap), TIME_NEVER);
	assert_null(timer_heap_expire(&heap, TIME_NEVER));
	timer_heap_free(&heap);
}

static void disarming_what_is_not_armed_does_nothing(void **unused)
{
	struct timer_heap heap = { 0 };
	struct timer timer;

	timer_init(&timer);
	timer_set(&heap, &timer, TIME_NEVER);
	assert_false(timer_armed(&timer));
	assert_int_equal(heap.count, 0);
}

static void reserving_beyond_memory_is_refused_and_keeps_the_heap(void **unused)
{
	struct timer_heap heap = { 0 };

	assert_int_equal(timer_heap_reserve(&heap, 4), 0);
	assert_int_equal(timer_heap_reserve(&heap, SIZE_MAX / 2), ENOMEM);
	assert_int_equal(heap.capacity, 4);
	timer_heap_free(&heap);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(random_operations_agree_with_a_searched_array),
		cmocka_unit_test(timers_expire_in_order_and_not_early),
		cmocka_unit_test(an_empty_heap_never_expires),
		cmocka_unit_test(disarming_what_is_not_armed_does_nothing),
		cmocka_unit_test(reserving_beyond_memory_is_refused_and_keeps_the_heap),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
