/* SPDX-License-Identifier: BSD-2-Clause */
/* Flow control of UC and UD: marks, echoes, turns, patience; no QP waits for ever. */
#include "transport/flow.h"

#include "base/test_random.h"
#include "transport/test_support.h"

#define KIB 1024u

struct fixture {
	struct path_table table;
	struct run_queue queue;
	struct path *path;
	struct qp qp[3];
	uint64_t now_ns;
	uint32_t psn;
	bool mark;
	bool memory;			/* by which echoes come */
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
	f->now_ns = 1000 * MILLISECOND;
	for (i = 0; i < 3; i++) {
		f->qp[i].number = (uint32_t)(OUR_QPN + i);
		list_init(&f->qp[i].ready_node);
		list_init(&f->qp[i].wait_node);
	}
	return f;
}

static void fixture_free(struct fixture *f) UNCHECKED_LOCKS
{
	size_t i;

	for (i = 0; i < 3; i++)
		flow_leave(&f->queue, &f->qp[i]);
	assert_true(list_empty(&f->path->flow.waiting));
	path_put(&f->table, f->path);
	path_table_fini(&f->table);
	free(f);
}

/* One packet of @bytes; its PSN is the number of the take. */
static uint32_t take_more(struct fixture *f, unsigned qp, uint32_t least, uint32_t wanted)
	UNCHECKED_LOCKS
{
	struct flow_ask ask = { .psn = ++f->psn, .least = least, .wanted = wanted, .alone = least,
				.now_ns = f->now_ns };

	return flow_take(f->path, &f->qp[qp], &ask, &f->mark);
}

static uint32_t take(struct fixture *f, unsigned qp, uint32_t bytes)
{
	return take_more(f, qp, bytes, bytes);
}

static bool echo(struct fixture *f, unsigned qp, uint32_t psn)
{
	return flow_echoed(f->path, &f->queue, f->qp[qp].number, psn, f->memory, f->now_ns);
}

/* Until refused; returns how much. *newest: PSN of the last mark. */
static uint32_t fill(struct fixture *f, unsigned qp, uint32_t each, uint32_t *newest)
{
	uint32_t sum = 0;

	*newest = 0;
	while (take(f, qp, each)) {
		sum += each;
		if (f->mark)
			*newest = f->psn;
		assert_true(sum < 64 * FLOW_LIMIT);
	}
	return sum;
}

static uint64_t in_flight(const struct fixture *f)
{
	return f->path->flow.taken_bytes - f->path->flow.released_bytes;
}

static void the_first_packet_is_marked_and_then_one_per_chunk(void **state)
{
	struct fixture *f = fixture_new();
	uint32_t marks = 0, taken;

	take(f, 0, KIB);
	assert_true(f->mark);
	assert_true(echo(f, 0, 1));
	for (taken = 0; taken < FLOW_LIMIT - 2 * KIB; taken += KIB) {
		assert_int_equal(take(f, 0, KIB), KIB);
		marks += f->mark;
	}
	assert_int_equal(marks, FLOW_CHUNKS - 1);
	fixture_free(f);
}

static void little_is_sent_before_the_peer_was_heard(void **state)
{
	struct fixture *f = fixture_new();
	uint32_t newest;

	assert_int_equal(fill(f, 0, KIB, &newest), FLOW_LIMIT_UNHEARD);
	assert_ptr_equal(f->qp[0].requester.blocked, f->path);
	assert_true(echo(f, 0, newest));
	assert_ptr_equal(run_queue_pop(&f->queue), &f->qp[0]);
	fill(f, 0, KIB, &newest);
	assert_in_range(in_flight(f), FLOW_LIMIT - KIB, FLOW_LIMIT);
	fixture_free(f);
}

/* A socket's buffer is smaller: what is in flight there has to shrink before more is sent. */
static void through_memory_more_is_in_flight(void **state)
{
	struct fixture *f = fixture_new();
	uint32_t newest = 0, marks = 0, taken;

	f->memory = true;
	take(f, 0, KIB);
	assert_true(echo(f, 0, 1));
	for (taken = 0; taken < FLOW_LIMIT_MEMORY - 2 * KIB; taken += KIB) {
		assert_int_equal(take(f, 0, KIB), KIB);
		marks += f->mark;
		newest = f->mark ? f->psn : newest;
	}
	assert_int_equal(marks, FLOW_CHUNKS - 1);
	f->memory = false;
	assert_true(echo(f, 0, newest));
	assert_in_range(in_flight(f), 1, FLOW_LIMIT_MEMORY / FLOW_CHUNKS);
	fill(f, 0, KIB, &newest);
	assert_in_range(in_flight(f), FLOW_LIMIT - KIB, FLOW_LIMIT);
	fixture_free(f);
}

static void a_packet_in_memory_costs_its_bytes(void **state)
{
	assert_int_equal(flow_cost_memory(4096), 4096 + 128);
	/* The default of perftest's receive queue, 512, takes all that are in flight. */
	assert_in_range(FLOW_LIMIT_MEMORY / flow_cost_memory(0), 190, 512);
	assert_int_equal(flow_cost_memory(0), flow_cost_memory(896));
	assert_true(flow_cost_memory(897) > flow_cost_memory(896));
}

static void an_echo_releases_what_was_taken_up_to_its_mark(void **state)
{
	struct fixture *f = fixture_new();
	uint32_t psn;

	take(f, 0, 100);
	echo(f, 0, f->psn);
	assert_int_equal(in_flight(f), 0);
	do {
		take(f, 0, 5000);
	} while (!f->mark);
	psn = f->psn;
	take(f, 0, 777);
	assert_true(echo(f, 0, psn));
	assert_int_equal(in_flight(f), 777);
	/* Once more, or from before: a sign of life, and no more. */
	assert_true(echo(f, 0, psn));
	assert_true(echo(f, 0, 1));
	assert_int_equal(in_flight(f), 777);
	fixture_free(f);
}

static void what_was_never_marked_is_not_believed(void **state)
{
	struct fixture *f = fixture_new();

	take(f, 0, 1000);
	take(f, 0, 1000);
	assert_false(f->mark);
	assert_false(echo(f, 0, 2));
	assert_false(echo(f, 1, 1));
	assert_false(flow_echoed(f->path, &f->queue, 0, 0, false, f->now_ns));
	assert_int_equal(in_flight(f), 2000);
	fixture_free(f);
}

/* Whatever the sizes, a QP that waits has a mark outstanding, so that an echo can come. */
static void who_waits_always_waits_for_an_echo(void **state) UNCHECKED_LOCKS
{
	uint64_t random = 11;
	unsigned round;

	for (round = 0; round < 200; round++) {
		struct fixture *f = fixture_new();
		uint32_t newest = 0, i;

		take(f, 0, 640);
		echo(f, 0, f->psn);
		for (i = 0; i < 300; i++) {
			uint32_t least = 640 + (uint32_t)test_random(&random) % 3649;
			uint32_t wanted = least * (1 + (uint32_t)test_random(&random) % 64);
			uint32_t got;

			/* RC comes and goes beside it. */
			f->path->in_flight_bytes = (uint32_t)test_random(&random) % (300 * KIB);
			got = take_more(f, 0, least, wanted);
			if (f->mark)
				newest = f->psn;
			if (got) {
				uint32_t unused = got - least;

				if (unused && test_random(&random) & 1)
					flow_done(f->path, &f->queue, &f->qp[0], unused);
				continue;
			}
			assert_true(f->path->flow.marked_bytes > f->path->flow.released_bytes);
			assert_true(echo(f, 0, newest));
			assert_ptr_equal(run_queue_pop(&f->queue), &f->qp[0]);
		}
		f->path->in_flight_bytes = 0;
		fixture_free(f);
	}
}

static void rc_leaves_room_for_the_least(void **state)
{
	struct fixture *f = fixture_new();
	uint32_t newest;

	take(f, 0, KIB);
	echo(f, 0, 1);
	f->path->in_flight_bytes = 300 * KIB;
	assert_int_equal(fill(f, 0, KIB, &newest), FLOW_LIMIT_MIN);
	f->path->in_flight_bytes = 0;
	fixture_free(f);
}

static void who_waits_goes_first_and_in_turns(void **state) UNCHECKED_LOCKS
{
	struct fixture *f = fixture_new();
	uint32_t newest;

	fill(f, 0, 4 * KIB, &newest);
	assert_int_equal(take(f, 1, 4 * KIB), 0);
	assert_int_equal(take(f, 2, 4 * KIB), 0);
	echo(f, 0, newest);
	assert_ptr_equal(run_queue_pop(&f->queue), &f->qp[0]);
	assert_null(run_queue_pop(&f->queue));
	/* Not before its turn. */
	assert_int_equal(take(f, 2, 4 * KIB), 0);
	/* It takes all that there is, and goes to the end of the line. */
	fill(f, 0, 4 * KIB, &newest);
	flow_done(f->path, &f->queue, &f->qp[0], 0);
	assert_null(run_queue_pop(&f->queue));
	echo(f, 0, newest);
	assert_ptr_equal(run_queue_pop(&f->queue), &f->qp[1]);
	assert_int_equal(take(f, 1, 4 * KIB), 4 * KIB);
	/* It wants no more: the next. */
	flow_done(f->path, &f->queue, &f->qp[1], 0);
	assert_ptr_equal(run_queue_pop(&f->queue), &f->qp[2]);
	/* Too little for this one: it keeps its place before the one that was served. */
	f->path->in_flight_bytes = 300 * KIB;
	assert_int_equal(take(f, 2, 100 * KIB), 0);
	f->path->in_flight_bytes = 0;
	assert_ptr_equal(f->path->flow.waiting.next, &f->qp[2].wait_node);
	fixture_free(f);
}

static void who_leaves_passes_its_turn_on(void **state) UNCHECKED_LOCKS
{
	struct fixture *f = fixture_new();
	uint32_t newest;

	fill(f, 0, KIB, &newest);
	take(f, 1, KIB);
	take(f, 2, KIB);
	flow_leave(&f->queue, &f->qp[1]);
	assert_null(f->qp[1].requester.blocked);
	echo(f, 0, newest);
	assert_ptr_equal(run_queue_pop(&f->queue), &f->qp[0]);
	flow_leave(&f->queue, &f->qp[0]);
	assert_ptr_equal(run_queue_pop(&f->queue), &f->qp[2]);
	fixture_free(f);
}

static void what_is_given_back_is_not_in_flight(void **state) UNCHECKED_LOCKS
{
	struct fixture *f = fixture_new();

	assert_in_range(take_more(f, 0, KIB, 1u << 30), 2 * KIB, FLOW_LIMIT_UNHEARD / FLOW_CHUNKS);
	flow_done(f->path, &f->queue, &f->qp[0], (uint32_t)in_flight(f) - KIB);
	assert_int_equal(in_flight(f), KIB);
	echo(f, 0, 1);
	assert_int_equal(in_flight(f), 0);
	fixture_free(f);
}

/* Between a take and the return of what was unused another QP may have made a mark. */
static void a_mark_beyond_what_was_used_releases_no_more_than_that(void **state) UNCHECKED_LOCKS
{
	struct fixture *f = fixture_new();
	uint32_t unused, psn;

	take(f, 0, KIB);
	echo(f, 0, 1);
	unused = take_more(f, 0, KIB, 1u << 30) - KIB;
	do {
		take(f, 1, KIB);
	} while (!f->mark);
	psn = f->psn;
	flow_done(f->path, &f->queue, &f->qp[0], unused);
	echo(f, 1, psn);
	assert_int_equal(in_flight(f), 0);
	take(f, 1, KIB);
	assert_int_equal(in_flight(f), KIB);
	fixture_free(f);
}

/* ---- patience ---- */

/* Let the time of a waiting QP come; returns how long it waited. */
static uint64_t wait_out(struct fixture *f, unsigned qp, bool *expired) UNCHECKED_LOCKS
{
	uint64_t before_ns = f->now_ns;

	assert_non_null(f->qp[qp].requester.blocked);
	f->now_ns = f->qp[qp].requester.blocked_until_ns;
	*expired = flow_expire(&f->queue, &f->qp[qp], f->now_ns);
	assert_true(f->qp[qp].requester.blocked_until_ns > f->now_ns);
	return f->now_ns - before_ns;
}

/* Sends until nothing waits any more; returns for how long it did. */
static uint64_t fall_deaf(struct fixture *f)
{
	uint64_t waited_ns = 0;
	uint32_t newest;
	bool expired;

	while (!f->path->flow.deaf) {
		fill(f, 0, KIB, &newest);
		waited_ns += wait_out(f, 0, &expired);
		assert_true(expired);
		assert_int_equal(in_flight(f), 0);
		assert_ptr_equal(run_queue_pop(&f->queue), &f->qp[0]);
	}
	return waited_ns;
}

static void a_peer_that_never_echoes_is_left_alone_soon(void **state)
{
	struct fixture *f = fixture_new();
	uint32_t i, marks = 0;

	assert_in_range(fall_deaf(f), 100 * MILLISECOND, 300 * MILLISECOND);
	/* Asked now and then whether it hears after all. */
	for (i = 0; i < 10000; i++) {
		assert_int_equal(take(f, 0, KIB), KIB);
		marks += f->mark;
	}
	assert_in_range(marks, 50, 200);
	fixture_free(f);
}

static void a_peer_that_stops_is_waited_for_and_then_left_alone(void **state)
{
	struct fixture *f = fixture_new();

	take(f, 0, KIB);
	echo(f, 0, 1);
	assert_in_range(fall_deaf(f), 100 * MILLISECOND, 300 * MILLISECOND);
	fixture_free(f);
}

static void a_deaf_peer_that_echoes_is_waited_for_again(void **state)
{
	struct fixture *f = fixture_new();
	uint32_t newest;

	fall_deaf(f);
	do {
		take(f, 0, KIB);
	} while (!f->mark);
	echo(f, 0, f->psn);
	assert_false(f->path->flow.deaf);
	assert_int_equal(fill(f, 0, KIB, &newest), FLOW_LIMIT);
	fixture_free(f);
}

static void progress_renews_the_patience(void **state) UNCHECKED_LOCKS
{
	struct fixture *f = fixture_new();
	uint32_t newest;
	bool expired;

	fill(f, 0, KIB, &newest);
	echo(f, 0, newest);
	run_queue_pop(&f->queue);
	fill(f, 0, KIB, &newest);
	flow_done(f->path, &f->queue, &f->qp[0], 0);
	take(f, 1, KIB);
	f->now_ns += FLOW_PATIENCE_NS / 2;
	echo(f, 0, newest);
	assert_ptr_equal(run_queue_pop(&f->queue), &f->qp[0]);
	/* QP 1 waits still, but something moves. */
	wait_out(f, 1, &expired);
	assert_false(expired);
	wait_out(f, 1, &expired);
	assert_true(expired);
	fixture_free(f);
}

static void an_idle_flow_is_not_found_expired_when_it_fills(void **state)
{
	struct fixture *f = fixture_new();
	uint32_t newest;
	bool expired;

	take(f, 0, KIB);
	echo(f, 0, 1);
	f->now_ns += 3600ull * 1000 * MILLISECOND;
	fill(f, 0, KIB, &newest);
	assert_true(wait_out(f, 0, &expired) == FLOW_PATIENCE_NS);
	fixture_free(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(the_first_packet_is_marked_and_then_one_per_chunk),
		TEST(little_is_sent_before_the_peer_was_heard),
		TEST(through_memory_more_is_in_flight),
		TEST(a_packet_in_memory_costs_its_bytes),
		TEST(an_echo_releases_what_was_taken_up_to_its_mark),
		TEST(what_was_never_marked_is_not_believed),
		TEST(who_waits_always_waits_for_an_echo),
		TEST(rc_leaves_room_for_the_least),
		TEST(who_waits_goes_first_and_in_turns),
		TEST(who_leaves_passes_its_turn_on),
		TEST(what_is_given_back_is_not_in_flight),
		TEST(a_mark_beyond_what_was_used_releases_no_more_than_that),
		TEST(a_peer_that_never_echoes_is_left_alone_soon),
		TEST(a_peer_that_stops_is_waited_for_and_then_left_alone),
		TEST(a_deaf_peer_that_echoes_is_waited_for_again),
		TEST(progress_renews_the_patience),
		TEST(an_idle_flow_is_not_found_expired_when_it_fills),
	};

	return cmocka_run_group_tests_name("flow", tests, NULL, NULL);
}
