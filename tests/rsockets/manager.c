/* SPDX-License-Identifier: BSD-2-Clause */
/* What rsockets are built on: event channels, ids and the backlog of librdmacm. */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <sched.h>

#include "pair.h"

enum { BACKLOG = 2, CALLERS = 5, PATIENCE_MS = 20000, REJECTED_BY_CONSUMER = 28 };

static struct rdma_event_channel *channel_open(void)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();

	CHECK(channel, "%m");
	return channel;
}

/* The next event, which must be of that kind; acknowledged by the caller. */
static struct rdma_cm_event *channel_get(struct rdma_event_channel *channel, enum rdma_cm_event_type kind)
{
	struct pollfd fds = { .fd = channel->fd, .events = POLLIN };
	struct rdma_cm_event *event;

	CHECK(poll(&fds, 1, PATIENCE_MS) == 1, "no event");
	OK(rdma_get_cm_event(channel, &event));
	CHECK(event->event == kind, "%s, status %d", rdma_event_str(event->event), event->status);
	return event;
}

static bool channel_is_empty(struct rdma_event_channel *channel)
{
	struct pollfd fds = { .fd = channel->fd, .events = POLLIN };

	return poll(&fds, 1, 0) == 0;
}

static struct rdma_cm_id *caller_resolve(struct pair *pair, struct rdma_event_channel *channel)
{
	struct rdma_cm_id *id;

	OK(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP));
	OK(rdma_resolve_addr(id, NULL, (struct sockaddr *)&pair->address, 2000));
	OK(rdma_ack_cm_event(channel_get(channel, RDMA_CM_EVENT_ADDR_RESOLVED)));
	OK(rdma_resolve_route(id, 2000));
	OK(rdma_ack_cm_event(channel_get(channel, RDMA_CM_EVENT_ROUTE_RESOLVED)));
	return id;
}

/* Each QP number is used once: the peer takes a second request of one for a restart. */
static void caller_connect(struct rdma_cm_id *id)
{
	static uint32_t last;
	struct rdma_conn_param parameters = { .qp_num = ++last, .retry_count = 7 };

	OK(rdma_connect(id, &parameters));
}

static void backlog_server(struct pair *pair)
{
	struct rdma_event_channel *channel = channel_open();
	struct rdma_cm_event *event[BACKLOG + 1];
	struct rdma_cm_id *listener;

	OK(rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP));
	OK(rdma_bind_addr(listener, (struct sockaddr *)&pair->address));
	OK(rdma_listen(listener, BACKLOG));
	tell(pair, ntohs(rdma_get_src_port(listener)));
	hear(pair);
	for (int i = 0; i < BACKLOG; i++)
		event[i] = channel_get(channel, RDMA_CM_EVENT_CONNECT_REQUEST);
	CHECK(channel_is_empty(channel), "one too many");
	tell(pair, 0);
	event[BACKLOG] = channel_get(channel, RDMA_CM_EVENT_CONNECT_REQUEST);
	for (int i = 0; i <= BACKLOG; i++) {
		struct rdma_cm_id *id = event[i]->id;

		OK(rdma_ack_cm_event(event[i]));
		OK(rdma_reject(id, NULL, 0));
		OK(rdma_destroy_id(id));
	}
	hear(pair);
	OK(rdma_destroy_id(listener));
	rdma_destroy_event_channel(channel);
}

/* The client hears of refusals while nobody looks at what waits at the server. */
static void backlog_client(struct pair *pair)
{
	struct rdma_event_channel *channel = channel_open();
	struct rdma_cm_id *ids[CALLERS + 1];
	struct rdma_cm_event *event;

	set_port(pair, (uint16_t)hear(pair));
	for (int i = 0; i <= CALLERS; i++)
		ids[i] = caller_resolve(pair, channel);
	for (int i = 0; i < CALLERS; i++)
		caller_connect(ids[i]);
	for (int i = BACKLOG; i < CALLERS; i++) {
		event = channel_get(channel, RDMA_CM_EVENT_REJECTED);
		CHECK(event->status == REJECTED_BY_CONSUMER, "%d", event->status);
		OK(rdma_ack_cm_event(event));
	}
	CHECK(channel_is_empty(channel), "those that wait are not refused");
	tell(pair, 0);
	hear(pair);
	caller_connect(ids[CALLERS]);
	for (int i = 0; i <= BACKLOG; i++)
		OK(rdma_ack_cm_event(channel_get(channel, RDMA_CM_EVENT_REJECTED)));
	tell(pair, 0);
	for (int i = 0; i <= CALLERS; i++)
		OK(rdma_destroy_id(ids[i]));
	rdma_destroy_event_channel(channel);
}

struct migration {
	struct rdma_cm_id *id;
	struct rdma_event_channel *to;
	_Atomic bool over;
};

static void *migration_run(void *argument)
{
	struct migration *migration = argument;

	OK(rdma_migrate_id(migration->id, migration->to));
	migration->over = true;
	return NULL;
}

/* The id is moved at once, and the call returns when nobody holds an event of before. */
static void migrate(struct pair *pair)
{
	struct rdma_event_channel *channel = channel_open();
	struct migration migration = { .to = channel_open() };
	struct rdma_cm_event *held, *later;
	pthread_t thread;

	OK(rdma_create_id(channel, &migration.id, NULL, RDMA_PS_TCP));
	OK(rdma_resolve_addr(migration.id, NULL, (struct sockaddr *)&pair->address, 2000));
	held = channel_get(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
	CHECK(!pthread_create(&thread, NULL, migration_run, &migration), "no thread");
	while (migration.id->channel != migration.to)
		sched_yield();
	OK(rdma_resolve_route(migration.id, 2000));
	later = channel_get(migration.to, RDMA_CM_EVENT_ROUTE_RESOLVED);
	CHECK(!migration.over, "an event is held");
	OK(rdma_ack_cm_event(held));
	CHECK(!pthread_join(thread, NULL), "%m");
	OK(rdma_ack_cm_event(later));
	OK(rdma_destroy_id(migration.id));
	rdma_destroy_event_channel(migration.to);
	rdma_destroy_event_channel(channel);
}

const struct test manager_tests[] = {
	{ "a backlog that nobody empties rejects the rest", backlog_server, backlog_client },
	{ "rdma_migrate_id waits for acknowledgements", migrate, migrate },
	{ NULL, NULL, NULL },
};
