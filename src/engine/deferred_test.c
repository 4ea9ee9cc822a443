/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Event queues are raised when the locks are dropped: as often as noted, and not before. Their fds are readable
 * if an event can be got, and only then: also when events are withdrawn.
 */
#include "engine/fake_link_test.h"
#include "platform/fail.h"
#include "platform/withdrawn_test.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>

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
	worker_wake_after_unlock(engine, 5);
	assert_false(was_rung());
	unlock();
	assert_true(was_rung());
	unlock();
	assert_false(was_rung());
}

/* ---- events that are withdrawn ---- */

#define NODES	6u
#define HELD	8u

static bool is_readable(const struct event_queue *queue)
{
	struct pollfd fd = { .fd = queue->fd, .events = POLLIN };

	return poll(&fd, 1, 0) == 1;
}

/* Wake-ups that a thread has noted and not made yet, and what the queue has to hold. */
struct model {
	struct event_queue queue;
	struct list node[NODES];
	bool queued[NODES];
	unsigned count;
	struct effects held[HELD];
};

static unsigned pick(uint32_t *seed, unsigned below)
{
	*seed = *seed * 1664525u + 1013904223u;
	return (*seed >> 8) % below;
}

static void model_add(struct model *model, unsigned n, struct effects *effects)
{
	if (effects_full(effects))
		return;
	assert_true(event_queue_add(&model->queue, &model->node[n], effects));
	model->count += !model->queued[n];
	model->queued[n] = true;
}

static void model_withdraw(struct model *model, unsigned n)
{
	event_withdraw(&model->queue, &model->node[n]);
	model->count -= model->queued[n];
	model->queued[n] = false;
}

/* Reads and takes, as a get call does. */
static void model_get(struct model *model)
{
	struct list *node;

	if (event_fd_take(model->queue.fd))
		return;
	node = event_queue_take(&model->queue);
	if (!node)
		return;
	model->queued[node - model->node] = false;
	model->count--;
}

static void an_fd_is_readable_if_and_only_if_an_event_can_be_got(void **state)
{
	unsigned withdrawn = 0, got = 0;

	if (!is_withdrawn_from_fds())
		skip();
	for (uint32_t seed = 1; seed <= 2000; seed++) {
		uint32_t random = seed;
		struct model model = { .count = 0 };

		queue_open(&model.queue);
		for (unsigned n = 0; n < NODES; n++)
			list_init(&model.node[n]);
		for (unsigned step = 0; step < 60; step++) {
			struct effects *effects = &model.held[pick(&random, HELD)];
			unsigned n = pick(&random, NODES), before = model.count;

			switch (pick(&random, 5)) {
			case 0:
			case 1:
				model_add(&model, n, effects);
				break;
			case 2:
				effects_apply(effects);
				break;
			case 3:
				model_withdraw(&model, n);
				withdrawn += model.count < before;
				break;
			default:
				model_get(&model);
				got += model.count < before;
			}
			if (step % 8)
				continue;
			for (unsigned i = 0; i < HELD; i++)
				effects_apply(&model.held[i]);
			assert_int_equal(is_readable(&model.queue), model.count > 0);
		}
		for (unsigned i = 0; i < HELD; i++)
			effects_apply(&model.held[i]);
		assert_int_equal(raised(&model.queue), model.count);
		queue_close(&model.queue);
	}
	assert_true(withdrawn > 1000 && got > 1000);
}

static bool epoll_tells(int epoll_fd)
{
	struct epoll_event event;

	return epoll_wait(epoll_fd, &event, 1, 0) == 1;
}

/* Each event is an edge: behind one that nobody got, and behind one that was withdrawn. */
static void edge_triggered_epoll_tells_of_each_event(void **state)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLET };
	struct effects effects = { .count = 0 };
	struct model model = { .count = 0 };
	int epoll_fd = epoll_create1(0);

	if (!is_withdrawn_from_fds())
		skip();
	queue_open(&model.queue);
	for (unsigned n = 0; n < NODES; n++)
		list_init(&model.node[n]);
	assert_int_equal(epoll_ctl(epoll_fd, EPOLL_CTL_ADD, model.queue.fd, &event), 0);
	for (unsigned n = 0; n < 2; n++) {
		model_add(&model, n, &effects);
		effects_apply(&effects);
		assert_true(epoll_tells(epoll_fd));
		assert_false(epoll_tells(epoll_fd));
	}
	model_withdraw(&model, 0);
	model_withdraw(&model, 1);
	assert_false(is_readable(&model.queue));
	model_add(&model, 2, &effects);
	effects_apply(&effects);
	assert_true(epoll_tells(epoll_fd));
	model_get(&model);
	assert_int_equal(model.count, 0);
	close(epoll_fd);
	queue_close(&model.queue);
}

#define RACE_ROUNDS	20000u

static void race_apply(struct effects *effects)
{
	effects_apply(effects);
	effects_init(effects);
}

/* Adds events of a few objects that go at once, or stay until somebody gets them. */
static void *race_add(void *argument)
{
	struct model *model = argument;
	struct effects effects = { .count = 0 };
	struct list node[4];
	uint32_t seed = (uint32_t)(uintptr_t)node;

	for (unsigned n = 0; n < 4; n++)
		list_init(&node[n]);
	for (unsigned round = 0; round < RACE_ROUNDS; round++) {
		event_queue_add(&model->queue, &node[pick(&seed, 4)], &effects);
		if (pick(&seed, 2) || effects_full(&effects))
			race_apply(&effects);
		event_withdraw(&model->queue, &node[pick(&seed, 4)]);
	}
	race_apply(&effects);
	for (unsigned n = 0; n < 4; n++)
		event_withdraw(&model->queue, &node[n]);
	return NULL;
}

static void *race_get(void *argument)
{
	struct model *model = argument;

	for (unsigned round = 0; round < RACE_ROUNDS; round++)
		if (!event_fd_take(model->queue.fd))
			event_queue_take(&model->queue);
	return NULL;
}

static void threads_that_add_withdraw_and_get_leave_no_count_behind(void **state)
{
	struct model model = { .count = 0 };
	pthread_t thread[4];

	if (!is_withdrawn_from_fds())
		skip();
	queue_open(&model.queue);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, i < 2 ? race_add : race_get, &model), 0);
	for (unsigned i = 0; i < 4; i++)
		pthread_join(thread[i], NULL);
	assert_false(event_queue_pending(&model.queue));
	assert_false(is_readable(&model.queue));
	assert_int_equal(atomic_load(&model.queue.surplus), 0);
	queue_close(&model.queue);
}

/* Where no read can be kept from blocking, one wake-up too many is left, and the next get takes it. */
static void without_such_a_read_the_next_get_settles_it(void **state)
{
	struct effects effects = { .count = 0 };
	struct model model = { .count = 0 };

	queue_open(&model.queue);
	list_init(&model.node[0]);
	model_add(&model, 0, &effects);
	effects_apply(&effects);
	fail_set(FAIL_NOWAIT, 1, EOPNOTSUPP);
	model_withdraw(&model, 0);
	assert_true(is_readable(&model.queue));
	model_get(&model);
	assert_false(is_readable(&model.queue));
	assert_int_equal(atomic_load(&model.queue.surplus), 0);
	queue_close(&model.queue);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ENGINE_TEST(effects_raise_each_queue_and_let_it_go),
		ENGINE_TEST(what_is_deferred_is_raised_when_the_lock_is_dropped),
		ENGINE_TEST(no_queue_is_raised_under_the_lock_however_many_there_are),
		ENGINE_TEST(the_worker_is_rung_when_the_lock_is_dropped),
		ENGINE_TEST(an_fd_is_readable_if_and_only_if_an_event_can_be_got),
		ENGINE_TEST(edge_triggered_epoll_tells_of_each_event),
		ENGINE_TEST(threads_that_add_withdraw_and_get_leave_no_count_behind),
		ENGINE_TEST(without_such_a_read_the_next_get_settles_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
