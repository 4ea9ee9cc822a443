/* SPDX-License-Identifier: BSD-2-Clause */
/* Paths and the run queue: sharing, turns, the window's rules; nothing leaks. */
#include "transport/test_support.h"

struct fixture {
	struct path_table table;
	struct run_queue queue;
	struct path *path;
	struct qp qp[3];
};

static struct fixture *fixture_new(void)
{
	struct fixture *f = calloc(1, sizeof(*f));
	struct path_key key = { .slot = 5 };
	size_t i;

	assert_non_null(f);
	path_table_init(&f->table);
	run_queue_init(&f->queue);
	f->path = path_get(&f->table, &key);
	for (i = 0; i < 3; i++) {
		list_init(&f->qp[i].ready_node);
		list_init(&f->qp[i].wait_node);
	}
	return f;
}

static void fixture_free(struct fixture *f)
{
	path_put(&f->table, f->path);
	path_table_fini(&f->table);
	free(f);
}

static void a_path_is_shared_by_those_who_name_the_same_peer(void **state)
{
	struct fixture *f = fixture_new();
	struct path_key key = { .slot = 5 }, other = { .slot = 6 };
	struct path *again = path_get(&f->table, &key), *another = path_get(&f->table, &other);

	assert_ptr_equal(again, f->path);
	assert_ptr_not_equal(another, f->path);
	path_put(&f->table, again);
	path_put(&f->table, another);
	fixture_free(f);
}

static void the_window_is_granted_as_far_as_it_goes(void **state)
{
	struct fixture *f = fixture_new();
	uint32_t window = f->path->window_bytes;

	assert_int_equal(path_reserve(f->path, &f->qp[0], 1000, 10 * window), window);
	assert_int_equal(path_reserve(f->path, &f->qp[1], 1, 1), 0);
	path_release(f->path, &f->queue, window);
	assert_int_equal(f->path->in_flight_bytes, 0);
	path_leave(f->path, &f->queue, &f->qp[1]);
	fixture_free(f);
}

static void a_short_path_without_loss_wants_a_quarter_of_its_window_at_a_time(void **state)
{
	struct fixture *f = fixture_new();

	f->path->window_bytes = PATH_WINDOW_MAX;
	assert_int_equal(path_piece(f->path), 0);	/* how long it is is not known yet */
	path_answered(f->path, &f->queue, 0, 1000000);
	assert_int_equal(path_piece(f->path), 0);
	path_answered(f->path, &f->queue, 0, 20000);
	assert_int_equal(path_piece(f->path), PATH_WINDOW_MAX / 4);
	path_answered(f->path, &f->queue, 0, 1000000);	/* a queue, not a way */
	assert_int_equal(path_piece(f->path), PATH_WINDOW_MAX / 4);
	path_reduce(f->path, PATH_LOSS, 5000000);
	assert_int_equal(path_piece(f->path), 0);
	fixture_free(f);
}

static void an_idle_path_grants_one_request_of_any_size(void **state)
{
	struct fixture *f = fixture_new();
	uint32_t big = 2 * f->path->window_bytes;

	assert_int_equal(path_reserve(f->path, &f->qp[0], big, big), big);
	assert_int_equal(path_reserve(f->path, &f->qp[1], 1, 1), 0);
	path_leave(f->path, &f->queue, &f->qp[1]);
	path_release(f->path, &f->queue, big);
	fixture_free(f);
}

static void who_waits_goes_first_and_in_order(void **state)
{
	struct fixture *f = fixture_new();
	uint32_t window = f->path->window_bytes;

	path_reserve(f->path, &f->qp[0], window, window);
	assert_int_equal(path_reserve(f->path, &f->qp[1], 100, 100), 0);
	assert_int_equal(path_reserve(f->path, &f->qp[2], 100, 100), 0);
	path_release(f->path, &f->queue, 1000);
	/* Others cannot overtake. */
	assert_int_equal(path_reserve(f->path, &f->qp[0], 100, 100), 0);
	assert_ptr_equal(run_queue_pop(&f->queue), &f->qp[1]);
	assert_null(run_queue_pop(&f->queue));
	assert_int_equal(path_reserve(f->path, &f->qp[1], 100, 100), 100);
	path_served(f->path, &f->queue, &f->qp[1]);
	assert_ptr_equal(run_queue_pop(&f->queue), &f->qp[2]);
	assert_int_equal(path_reserve(f->path, &f->qp[2], 100, 100), 100);
	path_served(f->path, &f->queue, &f->qp[2]);
	assert_ptr_equal(run_queue_pop(&f->queue), &f->qp[0]);
	fixture_free(f);
}

static void who_was_woken_for_too_little_keeps_its_place(void **state)
{
	struct fixture *f = fixture_new();
	uint32_t window = f->path->window_bytes;

	path_reserve(f->path, &f->qp[0], window, window);
	path_reserve(f->path, &f->qp[1], 5000, 5000);
	path_reserve(f->path, &f->qp[2], 100, 100);
	path_release(f->path, &f->queue, 1000);
	assert_ptr_equal(run_queue_pop(&f->queue), &f->qp[1]);
	assert_int_equal(path_reserve(f->path, &f->qp[1], 5000, 5000), 0);
	path_served(f->path, &f->queue, &f->qp[1]);
	assert_null(run_queue_pop(&f->queue));
	path_release(f->path, &f->queue, 5000);
	assert_ptr_equal(run_queue_pop(&f->queue), &f->qp[1]);
	path_leave(f->path, &f->queue, &f->qp[1]);
	assert_ptr_equal(run_queue_pop(&f->queue), &f->qp[2]);
	path_leave(f->path, &f->queue, &f->qp[2]);
	path_release(f->path, &f->queue, window - 6000);
	fixture_free(f);
}

static void a_turn_not_used_is_passed_on(void **state)
{
	struct fixture *f = fixture_new();
	uint32_t window = f->path->window_bytes;

	path_reserve(f->path, &f->qp[0], window, window);
	path_reserve(f->path, &f->qp[1], 100, 100);
	path_reserve(f->path, &f->qp[2], 100, 100);
	path_release(f->path, &f->queue, window);
	assert_ptr_equal(run_queue_pop(&f->queue), &f->qp[1]);
	path_served(f->path, &f->queue, &f->qp[1]);
	assert_ptr_equal(run_queue_pop(&f->queue), &f->qp[2]);
	fixture_free(f);
}

static void the_window_doubles_then_grows_slowly_up_to_its_limit(void **state)
{
	struct fixture *f = fixture_new();
	uint32_t before, i;

	while (f->path->window_bytes < PATH_WINDOW_CAUTIOUS) {
		before = path_reserve(f->path, &f->qp[0], 1, UINT32_MAX);
		path_answered(f->path, &f->queue, before, 1000);
		assert_int_equal(f->path->window_bytes, 2 * before);
	}
	before = path_reserve(f->path, &f->qp[0], 1, UINT32_MAX);
	path_answered(f->path, &f->queue, before, 1000);
	assert_in_range(f->path->window_bytes, before + 4000, before + 4200);
	for (i = 0; i < 1000; i++) {
		before = path_reserve(f->path, &f->qp[0], 1, UINT32_MAX);
		path_answered(f->path, &f->queue, before, 1000);
	}
	assert_int_equal(f->path->window_bytes, PATH_WINDOW_MAX);
	fixture_free(f);
}

static void after_a_loss_the_window_stays_small_for_a_while(void **state)
{
	struct fixture *f = fixture_new();
	uint32_t bytes, total;

	f->path->window_bytes = PATH_WINDOW_MAX;
	path_reduce(f->path, PATH_LOSS, 5000000);
	assert_int_equal(f->path->window_bytes, PATH_WINDOW_CAUTIOUS);
	for (total = 0; total < PATH_CAUTIOUS_BYTES - PATH_WINDOW_MAX; total += bytes) {
		bytes = path_reserve(f->path, &f->qp[0], 1, UINT32_MAX);
		path_answered(f->path, &f->queue, bytes, 1000);
		assert_true(f->path->window_bytes <= PATH_WINDOW_CAUTIOUS);
	}
	for (total = 0; total < PATH_CAUTIOUS_BYTES; total += bytes) {
		bytes = path_reserve(f->path, &f->qp[0], 1, UINT32_MAX);
		path_answered(f->path, &f->queue, bytes, 1000);
	}
	assert_int_equal(f->path->window_bytes, PATH_WINDOW_MAX);
	fixture_free(f);
}

static void a_window_that_is_not_used_does_not_grow(void **state)
{
	struct fixture *f = fixture_new();
	uint32_t before = f->path->window_bytes, i;

	for (i = 0; i < 1000; i++) {
		path_reserve(f->path, &f->qp[0], 500, 500);
		path_answered(f->path, &f->queue, 500, 1000);
	}
	assert_int_equal(f->path->window_bytes, before);
	fixture_free(f);
}

static void losses_of_one_round_trip_count_once(void **state)
{
	struct fixture *f = fixture_new();
	uint32_t before = f->path->window_bytes;

	path_answered(f->path, &f->queue, 0, 1000000);
	path_reduce(f->path, PATH_LOSS, 5000000);
	path_reduce(f->path, PATH_LOSS, 5100000);
	assert_int_equal(f->path->window_bytes, before - before / 8);
	path_reduce(f->path, PATH_LOSS, 6100000);
	assert_true(f->path->window_bytes < before - before / 8);
	path_reduce(f->path, PATH_SILENT, 6100000);
	assert_int_equal(f->path->window_bytes, PATH_WINDOW_MIN);
	fixture_free(f);
}

static void round_trips_are_smoothed(void **state)
{
	struct fixture *f = fixture_new();
	int i;

	assert_true(path_answered(f->path, &f->queue, 0, 1000000) == 3000000);
	for (i = 0; i < 200; i++)
		path_answered(f->path, &f->queue, 0, 1000000);
	assert_in_range(f->path->rtt_ns, 999000, 1001000);
	assert_in_range(f->path->rtt_var_ns, 0, 1000);
	fixture_free(f);
}

static void a_qp_is_in_the_run_queue_once(void **state)
{
	struct fixture *f = fixture_new();

	run_queue_add(&f->queue, &f->qp[0]);
	run_queue_add(&f->queue, &f->qp[1]);
	run_queue_add(&f->queue, &f->qp[0]);
	assert_int_equal(f->queue.count, 2);
	run_queue_remove(&f->queue, &f->qp[0]);
	run_queue_remove(&f->queue, &f->qp[0]);
	assert_ptr_equal(run_queue_pop(&f->queue), &f->qp[1]);
	assert_null(run_queue_pop(&f->queue));
	assert_int_equal(f->queue.count, 0);
	fixture_free(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_path_is_shared_by_those_who_name_the_same_peer),
		TEST(the_window_is_granted_as_far_as_it_goes),
		TEST(a_short_path_without_loss_wants_a_quarter_of_its_window_at_a_time),
		TEST(an_idle_path_grants_one_request_of_any_size),
		TEST(who_waits_goes_first_and_in_order),
		TEST(who_was_woken_for_too_little_keeps_its_place),
		TEST(a_turn_not_used_is_passed_on),
		TEST(the_window_doubles_then_grows_slowly_up_to_its_limit),
		TEST(after_a_loss_the_window_stays_small_for_a_while),
		TEST(a_window_that_is_not_used_does_not_grow),
		TEST(losses_of_one_round_trip_count_once),
		TEST(round_trips_are_smoothed),
		TEST(a_qp_is_in_the_run_queue_once),
	};

	return cmocka_run_group_tests_name("path", tests, NULL, NULL);
}
