/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * For the unit tests of this folder: an engine without threads and sockets. Its link is a list of
 * what was sent and a list of what is to be received; what stands above it only counts.
 */
#ifndef VERBATIM_ENGINE_FAKE_LINK_TEST_H
#define VERBATIM_ENGINE_FAKE_LINK_TEST_H

#include "transport/test_support.h"

#include "engine/internal.h"
#include "engine/qp_table.h"
#include "engine/wake.h"

#define INCOMING_MAX	64u

static struct engine *engine;
static struct counters counters;
static struct {
	unsigned sent;				/* datagrams */
	void (*when_sending)(void);		/* called by each send() */
	struct datagram incoming[INCOMING_MAX];
	unsigned incoming_count;
	void (*when_receiving)(void);
	unsigned management, multicast, services;	/* calls */
	const uint8_t *mad;			/* of the last one */
	struct source chores;
	bool has_chores;
	uint64_t chore_ns;
} fake;

static unsigned fake_prepare(struct link *link, struct datagram *datagram)
{
	datagram->source_port = 0xc123;
	return LINK_SEGMENTS_MAX;
}

static int fake_send(struct link *link, struct datagram *datagram, unsigned count, unsigned *sent_)
{
	fake.sent += count;
	*sent_ = count;
	if (fake.when_sending)
		fake.when_sending();
	return 0;
}

static int fake_receive(struct link *link, struct datagram *datagram, unsigned max,
			unsigned *received)
{
	if (fake.when_receiving)
		fake.when_receiving();
	*received = fake.incoming_count < max ? fake.incoming_count : max;
	memcpy(datagram, fake.incoming, *received * sizeof(*datagram));
	fake.incoming_count -= *received;
	memmove(fake.incoming, fake.incoming + *received, fake.incoming_count * sizeof(*datagram));
	return 0;
}

static unsigned fake_event_fds(struct link *link, int *fds, unsigned max)
{
	return 0;
}

static const struct link_ops fake_link_ops = {
	.prepare = fake_prepare, .send = fake_send, .receive = fake_receive, .event_fds = fake_event_fds,
};
static struct link fake_link = { .ops = &fake_link_ops };

static enum drop fake_management(void *owner, const struct arrival *arrival, uint64_t now_ns)
{
	fake.management++;
	fake.mad = arrival->packet.payload;
	return DROP_NONE;
}

static void fake_receive_service(struct source *source, struct receiver *receiver)
{
	fake.services++;
}

static enum drop fake_multicast(void *owner, const struct packet *packet, struct rx_info *info,
				uint64_t now_ns)
{
	fake.multicast++;
	return DROP_NONE;
}

static bool fake_is_due(struct source *source)
{
	return fake.has_chores;
}

static uint64_t fake_asked_ns(struct source *source)
{
	return fake.chore_ns;
}

static const struct source_ops fake_chores = {
	.name = "fake", .receive = fake_receive_service, .is_due = fake_is_due, .asked_ns = fake_asked_ns,
};

static bool fake_may_leave(void *owner, uint64_t now_ns)
{
	return true;
}

static const struct engine_ops fake_ops = {
	.management = fake_management, .multicast = fake_multicast, .may_leave = fake_may_leave,
};

static inline int engine_begin(void **state)
{
	memset(&fake, 0, sizeof(fake));
	memset(&counters, 0, sizeof(counters));
	fake.chore_ns = TIME_NEVER;
	engine = calloc(1, sizeof(*engine));
	if (!engine)
		return -1;
	engine->ops = &fake_ops;
	engine->counters = &counters;
	engine_init(engine);
	source_register(&engine->source.all, &fake.chores, &fake_chores, NULL);
	engine->links[ROUTE_ROCE_V2] = &fake_link;
	if (loopback_open(&engine->loopback, &counters))
		return -1;
	return waiter_open(&engine->waiter);
}

static inline int engine_end(void **state)
{
	waiter_close(&engine->waiter);
	engine->loopback->ops->close(engine->loopback);
	timer_heap_free(&engine->timers.heap);
	timer_heap_free(&engine->timers.cq_heap);
	while (engine->batches.count)
		free(engine->batches.free[--engine->batches.count]);
	free(engine);
	return 0;
}

/* A QP in RTS that transmits through this engine. */
static inline struct station *station_here(enum ibv_qp_type type)
{
	struct station *station = station_new(type);
	struct qp *qp = &station->qp;

	station->transport.run_queue = &engine->run_queue;
	timer_init(&qp->timer);
	atomic_init(&qp->timer_at_ns, TIME_NEVER);
	assert_int_equal(timer_heap_reserve(&engine->timers.heap, 4), 0);
	station_move(station, IBV_QPS_RTR);
	station_move(station, IBV_QPS_RTS);
	lock_assert_held(&qp->lock);
	lock_release(&qp->lock);	/* from now on the engine takes it */
	return station;
}

/* Also what it has in flight. */
static inline void station_leave(struct station *station) UNCHECKED_LOCKS
{
	lock_acquire(&station->qp.lock);
	timers_disarm(engine, &station->qp);
	run_queue_remove(&engine->run_queue, &station->qp);
	station_move(station, IBV_QPS_RESET);
	station_free(station);
}

/* ---- tests of one QP ---- */

static struct station *station;

static inline int station_begin(void **state)
{
	int err = engine_begin(state);

	if (!err)
		station = station_here(IBV_QPT_RC);
	return err;
}

static inline int station_end(void **state)
{
	station_leave(station);
	return engine_end(state);
}

/* ---- what the engine did ---- */

/* A lock of either kind. */
#define is_free(lock)	(lock_try(lock) && (lock_release(lock), true))

/* Was the worker's doorbell rung? It is silent then. */
static inline bool was_rung(void)
{
	return waiter_wait(&engine->waiter, 0) & WAIT_DOORBELL;
}

static inline uint64_t counted(enum counter counter)
{
	return counter_get(&counters, counter);
}

#define ENGINE_TEST(name) cmocka_unit_test_setup_teardown(name, engine_begin, engine_end)
#define STATION_TEST(name) cmocka_unit_test_setup_teardown(name, station_begin, station_end)

#endif
