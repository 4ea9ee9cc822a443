/* SPDX-License-Identifier: BSD-2-Clause */
/* Sources of work: who is woken, whose turn it is, and when the next one is. */
#include <sys/eventfd.h>

#include "engine/receive.h"
#include "fake_link_test.h"
#include "platform/clock.h"

/* Two of a room above: one that any thread serves, one of the worker alone. */
static struct maker {
	struct source source;
	unsigned woken, turns, ready_turns;
	bool due;
	uint64_t asked_ns, deadline_ns;
} anyones, workers;

static void maker_woken(struct source *source)
{
	((struct maker *)source->owner)->woken++;
}

static void maker_turn(struct source *source, bool ready, uint64_t now_ns)
{
	struct maker *maker = source->owner;

	maker->turns++;
	maker->ready_turns += ready;
	maker->due = false;
}

static bool maker_is_due(struct source *source)
{
	return ((struct maker *)source->owner)->due;
}

static uint64_t maker_asked(struct source *source)
{
	return ((struct maker *)source->owner)->asked_ns;
}

static uint64_t maker_deadline(struct source *source)
{
	return ((struct maker *)source->owner)->deadline_ns;
}

/* Who received in the last rounds, in that order. */
static const struct source *receivers[8];
static unsigned received;

static void maker_receive(struct source *source, struct receiver *receiver)
{
	assert_true(received < 8);
	receivers[received++] = source;
}

static bool maker_pending(struct source *source)
{
	return ((struct maker *)source->owner)->due;
}

static const struct source_ops ops_of_anyone = {
	.name = "anyone's", .woken = maker_woken, .receive = maker_receive, .pending = maker_pending,
};
static const struct source_ops ops_of_worker = {
	.name = "worker's", .woken = maker_woken, .turn = maker_turn, .is_due = maker_is_due,
	.asked_ns = maker_asked, .deadline_ns = maker_deadline, .receive = maker_receive,
};

static int makers_begin(void **state)
{
	anyones = workers = (struct maker){ .asked_ns = TIME_NEVER, .deadline_ns = TIME_NEVER };
	if (engine_begin(state))
		return -1;
	source_register(&engine->source.all, &anyones.source, &ops_of_anyone, &anyones);
	source_register(&engine->source.all, &workers.source, &ops_of_worker, &workers);
	return 0;
}

static void turn(uint32_t ready)
{
	sources_turn(&engine->source.all, ready, clock_now_ns());
}

static void each_source_has_a_tag_of_its_own_and_hears_of_its_descriptors_alone(void **state)
{
	uint32_t seen = WAIT_DOORBELL | WAIT_FD, ready;
	int fd = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);

	for (unsigned i = 1; i <= engine->source.all.count; i++) {
		assert_int_equal(seen & engine->source.all.row[i]->tag, 0);
		seen |= engine->source.all.row[i]->tag;
	}
	assert_int_equal(source_watch(&engine->source.all, &workers.source, fd), 0);
	ready = waiter_wait(&engine->waiter, 0);
	assert_int_equal(ready, workers.source.tag);
	sources_woken(&engine->source.all, ready);
	turn(ready);
	assert_int_equal(workers.woken, 1);
	assert_int_equal(workers.ready_turns, 1);
	assert_int_equal(anyones.woken, 0);
	source_unwatch(&engine->source.all, fd);
	assert_int_equal(waiter_wait(&engine->waiter, 0), 0);
	close(fd);
}

/* A thread that waits in the worker's place serves them, and wakes the worker for the others. */
static void those_without_turns_are_anyones(void **state)
{
	assert_true(engine->source.all.anyones & anyones.source.tag);
	assert_false(engine->source.all.anyones & workers.source.tag);
	assert_true(engine->source.all.anyones & engine->source.sockets.tag);
	assert_true(engine->source.all.anyones & engine->source.slots.tag);
	assert_true(engine->source.all.anyones & engine->source.channels.tag);
	assert_false(engine->source.all.anyones & engine->source.peers.tag);
}

static void a_turn_comes_when_it_is_due_or_its_time_has_come_and_not_before(void **state)
{
	turn(0);
	assert_int_equal(workers.turns, 0);
	workers.due = true;
	assert_true(sources_are_due(&engine->source.all));
	turn(0);
	assert_int_equal(workers.turns, 1);
	assert_false(sources_are_due(&engine->source.all));
	workers.asked_ns = clock_now_ns() - 1;
	turn(0);
	workers.asked_ns = TIME_NEVER;
	workers.deadline_ns = clock_now_ns() - 1;
	turn(0);
	workers.deadline_ns = clock_now_ns() + 1000000000000u;
	turn(0);
	assert_int_equal(workers.turns, 3);
	assert_int_equal(workers.ready_turns, 0);
}

static void the_worker_keeps_all_deadlines_and_others_those_that_were_asked_for(void **state)
{
	assert_int_equal(sources_asked(&engine->source.all), TIME_NEVER);
	assert_int_equal(sources_deadline(&engine->source.all), TIME_NEVER);
	workers.deadline_ns = 500;
	assert_int_equal(sources_asked(&engine->source.all), TIME_NEVER);
	assert_int_equal(sources_deadline(&engine->source.all), 500);
	workers.asked_ns = 700;
	fake.chore_ns = 600;
	assert_int_equal(sources_asked(&engine->source.all), 600);
	assert_int_equal(sources_deadline(&engine->source.all), 500);
	engine->worker.rebind_ns = 400;
	assert_int_equal(sources_deadline(&engine->source.all), 400);
	engine->worker.rebind_ns = TIME_NEVER;
}

static void take_round(uint32_t also)
{
	received = 0;
	sources_receive(&engine->source.all, also, NULL);
}

static void a_round_asks_who_is_polled_due_or_named_once_and_in_order(void **state)
{
	struct sources *all = &engine->source.all;

	source_poll(all, &engine->source.channels, false);
	source_poll(all, &engine->source.sockets, false);
	take_round(0);
	assert_int_equal(received, 0);
	source_poll(all, &workers.source, true);
	take_round(0);
	assert_int_equal(received, 1);
	source_set_due(all, &anyones.source);
	take_round(workers.source.tag);
	assert_int_equal(received, 2);
	assert_ptr_equal(receivers[0], &anyones.source);	/* registered first */
	assert_ptr_equal(receivers[1], &workers.source);
	take_round(0);
	assert_int_equal(received, 1);		/* due once, polled until it is taken back */
	source_poll(all, &workers.source, false);
	take_round(anyones.source.tag);
	assert_int_equal(received, 1);
	assert_ptr_equal(receivers[0], &anyones.source);
}

static void the_engine_polls_what_may_have_packets_and_nothing_else(void **state)
{
	struct engine_sources *source = &engine->source;
	const struct source *in_order[] = { &source->held, &source->channels, &source->sockets, &source->fabric,
					    &source->loopback, &source->frames, &source->slots };
	unsigned i;

	for (i = 1; i < sizeof(in_order) / sizeof(in_order[0]); i++)
		assert_true(in_order[i - 1]->tag < in_order[i]->tag);
	assert_int_equal(source->all.polled, source->channels.tag | source->sockets.tag);
	receive_from_fabric(engine, &fake_link);
	assert_int_equal(source->all.polled, source->channels.tag | source->sockets.tag | source->fabric.tag |
			 source->loopback.tag);
}

static void before_a_sleep_those_are_asked_of_which_no_descriptor_tells(void **state)
{
	assert_false(sources_are_pending(&engine->source.all));
	workers.due = true;
	assert_false(sources_are_pending(&engine->source.all));
	anyones.due = true;
	assert_true(sources_are_pending(&engine->source.all));
}

int main(void)
{
#define MAKERS_TEST(name) cmocka_unit_test_setup_teardown(name, makers_begin, engine_end)
	const struct CMUnitTest tests[] = {
		MAKERS_TEST(each_source_has_a_tag_of_its_own_and_hears_of_its_descriptors_alone),
		MAKERS_TEST(those_without_turns_are_anyones),
		MAKERS_TEST(a_turn_comes_when_it_is_due_or_its_time_has_come_and_not_before),
		MAKERS_TEST(the_worker_keeps_all_deadlines_and_others_those_that_were_asked_for),
		MAKERS_TEST(a_round_asks_who_is_polled_due_or_named_once_and_in_order),
		MAKERS_TEST(the_engine_polls_what_may_have_packets_and_nothing_else),
		MAKERS_TEST(before_a_sleep_those_are_asked_of_which_no_descriptor_tells),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
