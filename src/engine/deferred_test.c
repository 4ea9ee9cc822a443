/* SPDX-License-Identifier: BSD-2-Clause */
/* Event queues are raised when the locks are dropped: as often as noted, and not before. */
#include "engine/fake_link_test.h"

#include <fcntl.h>

static unsigned released;

static void release(struct event_queue *queue)
{
	released++;
}

static void queue_open(struct event_queue *queue)
{
	int fd = event_fd_open();

	assert_true(fd >= 0);
	assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
	event_queue_init(queue, fd, release);
}

/* How often it was raised since we looked last. */
static unsigned raised(struct event_queue *queue)
{
	unsigned n = 0;

	while (!event_fd_take(queue->fd))
		n++;
	return n;
}

/* The owner's is the last reference: nothing holds the queue for a wake-up that is over. */
static void queue_close(struct event_queue *queue)
{
	unsigned before = released;

	event_queue_put(queue);
	assert_int_equal(released, before + 1);
	close(queue->fd);
	lock_destroy(&queue->lock);
}

static void note(struct effects *effects, struct event_queue *queue)
{
	event_queue_get(queue);
	effects->wake[effects->count++] = queue;
}

static void defer(struct event_queue *queue)
{
	struct effects effects;

	effects_init(&effects);
	note(&effects, queue);
	effects_defer(engine, &effects);
	assert_int_equal(effects.count, 0);
}

static void unlock(void) UNCHECKED_LOCKS
{
	lock_acquire(&engine->progress);
	progress_unlock(engine);
	assert_true(is_free(&engine->progress));
}

static void effects_raise_each_queue_and_let_it_go(void **state)
{
	struct event_queue queue[2];
	struct effects effects;

	queue_open(&queue[0]);
	queue_open(&queue[1]);
	effects_init(&effects);
	note(&effects, &queue[0]);
	note(&effects, &queue[1]);
	note(&effects, &queue[0]);
	effects_apply(&effects);
	assert_int_equal(raised(&queue[0]), 2);
	assert_int_equal(raised(&queue[1]), 1);
	effects_apply(&effects);
	assert_int_equal(raised(&queue[0]) + raised(&queue[1]), 0);
	queue_close(&queue[0]);
	queue_close(&queue[1]);
}

static void what_is_deferred_is_raised_when_the_lock_is_dropped(void **state)
{
	struct event_queue queue;
	unsigned i;

	queue_open(&queue);
	for (i = 0; i < 3; i++)
		defer(&queue);
	assert_int_equal(raised(&queue), 0);
	assert_ptr_equal(engine->deferred.first, &queue);
	assert_ptr_equal(engine->deferred.last, &queue);
	unlock();
	assert_int_equal(raised(&queue), 3);
	unlock();
	assert_int_equal(raised(&queue), 0);
	defer(&queue);
	unlock();
	assert_int_equal(raised(&queue), 1);
	queue_close(&queue);
}

static void no_queue_is_raised_under_the_lock_however_many_there_are(void **state)
{
	struct event_queue queue[2 * ENGINE_DEFERRED_MAX + 1];
	unsigned i, count = sizeof(queue) / sizeof(queue[0]);

	for (i = 0; i < count; i++) {
		queue_open(&queue[i]);
		defer(&queue[i]);
	}
	defer(&queue[0]);
	defer(&queue[count - 1]);
	for (i = 0; i < count; i++)
		assert_int_equal(raised(&queue[i]), 0);
	unlock();
	assert_null(engine->deferred.first);
	for (i = 0; i < count; i++) {
		assert_int_equal(raised(&queue[i]), i == 0 || i == count - 1 ? 2 : 1);
		queue_close(&queue[i]);
	}
}

static void the_worker_is_rung_when_the_lock_is_dropped(void **state)
{
	atomic_store(&engine->sleep.until_ns, TIME_NEVER);
	worker_note(engine, 5);
	assert_false(was_rung());
	unlock();
	assert_true(was_rung());
	unlock();
	assert_false(was_rung());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ENGINE_TEST(effects_raise_each_queue_and_let_it_go),
		ENGINE_TEST(what_is_deferred_is_raised_when_the_lock_is_dropped),
		ENGINE_TEST(no_queue_is_raised_under_the_lock_however_many_there_are),
		ENGINE_TEST(the_worker_is_rung_when_the_lock_is_dropped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
