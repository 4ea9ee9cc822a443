/* SPDX-License-Identifier: BSD-2-Clause */
/* Requests under way: which of them a completion ends. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "check/work.h"

static struct check_queue queue;

static void post(uint64_t wr_id, bool signaled)
{
	assert_true(check_queue_add(
		&queue, &(struct check_record){ .wr_id = wr_id, .signaled = signaled }));
}

static int begin(void **state)
{
	check_queue_free(&queue);
	return 0;
}

static void a_completion_ends_all_before_it(void **state)
{
	post(1, false);
	post(2, true);
	post(3, false);
	post(4, true);
	assert_int_equal(check_queue_complete(&queue, 4, false), 2);
	assert_int_equal(queue.count, 0);
	assert_int_equal(queue.signaled, 0);
}

static void an_unsignaled_request_completes_by_a_flush_alone(void **state)
{
	post(1, false);
	post(1, true);
	assert_int_equal(check_queue_complete(&queue, 1, true), 0);
	assert_int_equal(queue.count, 1);
	assert_int_equal(check_queue_complete(&queue, 1, false), 1);
	assert_int_equal(check_queue_complete(&queue, 1, false), 0);
}

static void receives_of_a_shared_queue_go_in_any_order(void **state)
{
	for (uint64_t i = 0; i < 5; i++)
		post(i, true);
	assert_true(check_queue_take(&queue, 3));
	assert_false(check_queue_take(&queue, 3));
	assert_true(check_queue_take(&queue, 0));
	assert_int_equal(check_queue_at(&queue, 0)->wr_id, 1);
	assert_int_equal(check_queue_at(&queue, 2)->wr_id, 4);
	assert_int_equal(queue.signaled, 3);
}

static void what_was_not_posted_is_taken_back(void **state)
{
	post(1, true);
	post(2, false);
	post(3, true);
	assert_int_equal(check_queue_drop_newest(&queue, 2), 1);
	assert_int_equal(queue.count, 1);
	assert_int_equal(queue.signaled, 1);
}

static void a_queue_grows_and_goes_round(void **state)
{
	for (uint64_t i = 0; i < 1000; i++) {
		post(2 * i, true);
		post(2 * i + 1, false);
		if (i % 3)
			check_queue_complete(&queue, check_queue_at(&queue, 0)->wr_id, true);
	}
	assert_int_equal(queue.count, 2000 - 666);
	for (uint32_t i = 0; i + 1 < queue.count; i++)
		assert_int_equal(check_queue_at(&queue, i)->wr_id + 1,
				 check_queue_at(&queue, i + 1)->wr_id);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(a_completion_ends_all_before_it, begin),
		cmocka_unit_test_setup(an_unsignaled_request_completes_by_a_flush_alone, begin),
		cmocka_unit_test_setup(receives_of_a_shared_queue_go_in_any_order, begin),
		cmocka_unit_test_setup(what_was_not_posted_is_taken_back, begin),
		cmocka_unit_test_setup(a_queue_grows_and_goes_round, begin),
	};
	int failed = cmocka_run_group_tests(tests, NULL, NULL);

	check_queue_free(&queue);
	return failed;
}
