/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Event channels: a queue of events and an eventfd that is readable while the queue is not empty.
 *
 * The thread that adds an event or takes the last one updates the fd after dropping agent.lock, under
 * channel->wake, from the queue's length at that time. So no read or write of the fd is made with
 * agent.lock held, and the fd is readable only while events wait. Each event is an edge for epoll.
 *
 * Only events that the application will get are queued: the request of a peer that gives up is withdrawn, and
 * what happens to an endpoint between its request and its accept is not told, as ucma of Linux ignores it.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/call.h"
#include "base/log.h"
#include "cm/endpoint/internal.h"
#include "device/hca.h"
#include "platform/clock.h"
#include "platform/wait.h"

#define PATIENCE	3
#define PATIENCE_NS	5000000u

/*
 * Closed channels are reused, never freed: programs destroy a channel while another thread is in
 * rdma_get_cm_event() (rping), which then finds a closed channel.
 */
static struct list unused = { &unused, &unused };	/* by queue; under agent.lock */

void channels_forget(void)
{
	list_init(&unused);
}

static void set_aside(struct cm_channel *channel) EXCLUDES(agent.lock)
{
	agent_lock();
	list_add_tail(&unused, &channel->queue);
	agent_unlock();
}

int cm_channel_open(struct cm_channel **opened)
{
	struct cm_channel *channel;
	struct list *node;
	int fd, err;

	agent_lock();
	node = list_pop(&unused);
	agent_unlock();
	channel = node ? list_entry(node, struct cm_channel, queue) : calloc(1, sizeof(*channel));
	if (!channel)
		return ENOMEM;
	hca_enable_blocks();
	channel->closed = true;
	err = agent_get();
	if (err)
		goto free_channel;
	fd = event_fd_open_level();
	if (fd < 0) {
		err = errno;
		goto put_agent;
	}
	agent_lock();
	memset(channel, 0, sizeof(*channel));
	channel->public.fd = channel->fd = fd;
	list_init(&channel->queue);
	list_init(&channel->woken);
	lock_init(&channel->wake);
	channel->references = 1;
	channel->patience = PATIENCE;
	atomic_init(&channel->pins, 1);
	atomic_init(&channel->waiting, 0);
	atomic_init(&channel->posted, 0);
	channel->generation = agent.generation;
	agent_unlock();
	*opened = channel;
	return 0;
put_agent:
	agent_put();
free_channel:
	set_aside(channel);
	return err;
}

static_assert(offsetof(struct cm_channel, public) == 0, "cm_channel_of() relies on it");

bool channel_is_ours(const struct cm_channel *channel)
{
	return channel->generation == agent.generation;
}

bool endpoint_is_ours(const struct endpoint *endpoint)
{
	return endpoint->generation == agent.generation;
}

int cm_channel_fd(const struct cm_channel *channel)
{
	return channel->fd;
}

struct rdma_event_channel *cm_channel_public(struct cm_channel *channel)
{
	return &channel->public;
}

struct cm_channel *cm_channel_of(struct rdma_event_channel *public)
{
	return (struct cm_channel *)public;
}

void channel_ref(struct cm_channel *channel)
{
	channel->references++;
}

void channel_unpin(struct cm_channel *channel)
{
	/* U1: pairs with itself: the last thread sees all changes of the others. */
	if (atomic_fetch_sub_explicit(&channel->pins, 1, memory_order_acq_rel) != 1)
		return;
	close(channel->fd);
	lock_destroy(&channel->wake);
	set_aside(channel);
}

void channel_unref(struct cm_channel *channel)
{
	bool last;

	agent_lock();
	last = --channel->references == 0;
	agent_unlock();
	if (!last)
		return;
	channel_unpin(channel);
	agent_put();
}

static void free_event(struct queued_event *event) REQUIRES(agent.lock)
{
	struct endpoint *fresh = event->listener ? event->endpoint : NULL;

	list_remove(&event->in_channel);
	list_remove(&event->in_owner);
	if (fresh) {
		fresh->request = NULL;
		request_waits_no_more(event->listener);
		request_refuse(fresh, CM_REJECT_CONSUMER_DEFINED);
	}
	free(event);
}

static void count_waiting(struct cm_channel *channel, int change) REQUIRES(agent.lock)
{
	unsigned before = atomic_load_explicit(&channel->waiting, memory_order_relaxed);

	if (change > 0)
		atomic_fetch_add_explicit(&channel->posted, 1, memory_order_relaxed);
	/* W1: pairs with W2 by channel->wake: an update follows every event, and every change to zero. */
	atomic_store_explicit(&channel->waiting, before + (unsigned)change, memory_order_release);
	if ((change > 0 || !(before + (unsigned)change)) && list_empty(&channel->woken)) {
		atomic_fetch_add_explicit(&channel->pins, 1, memory_order_relaxed);
		list_add_tail(&agent.woken, &channel->woken);
	}
}

/*
 * The fd's count is above 0 if events wait, and rises with each, which is an edge for epoll; how far it
 * is above means nothing, and one read takes all. @emptied: the caller has read it, so that what waits is
 * written anew. Where the kernel has no read that never blocks, one spurious wake-up is left, for the
 * next wait.
 */
static void channel_level_fd(struct cm_channel *channel, bool emptied) REQUIRES(channel->wake)
{
	/* W2: pairs with W1. */
	bool waits = atomic_load_explicit(&channel->waiting, memory_order_acquire) > 0;
	unsigned posted = atomic_load_explicit(&channel->posted, memory_order_relaxed);
	int err;

	if (waits && (emptied || !channel->raised || posted != channel->told)) {
		event_fd_raise(channel->fd);
		channel->raised = true;
	}
	channel->told = posted;
	if (waits || !channel->raised)
		return;
	err = event_fd_take_now(channel->fd);
	channel->raised = err && err != EAGAIN;
}

void channel_update_fd(struct cm_channel *channel)
{
	lock_acquire(&channel->wake);
	channel_level_fd(channel, false);
	lock_release(&channel->wake);
}

/*
 * Says after a while that nothing can come. Where handlers are not put off, poll() would not
 * restart as read() does.
 */
static void channel_be_patient(struct cm_channel *channel)
{
	struct pollfd readable = { .fd = channel->fd, .events = POLLIN };
	int flags = fcntl(channel->fd, F_GETFL);
	bool is_unused, is_idle;
	char words[256];

	if (!call_guarded || flags < 0 || flags & O_NONBLOCK || call_poll(&readable, 1, EXPLAIN_AFTER_MS))
		return;
	agent_lock();
	is_unused = channel->references == 1;
	is_idle = !is_unused && channel_waits_for_calls(channel, words, sizeof(words));
	agent_unlock();
	if (is_idle)
		explain("rdma_get_cm_event has waited for a second, and nothing is under way: %s", words);
	if (is_unused)
		explain("rdma_get_cm_event has waited for a second, but no id uses the channel: "
				"give it to "
			"rdma_create_id");
}

/*
 * A read, not a poll: a read is restarted after a handler installed with SA_RESTART. The count is
 * written back if events wait: it means that, not how many.
 */
int cm_channel_wait(struct cm_channel *channel)
{
	int err;

	if (explaining())
		channel_be_patient(channel);
	do
		err = event_fd_wait(channel->fd);
	while (err == ERESTART);
	if (err)
		return err;
	lock_acquire(&channel->wake);
	channel_level_fd(channel, true);
	lock_release(&channel->wake);
	return 0;
}

void cm_channel_close(struct cm_channel *channel)
{
	struct list *node, *following;

	if (!channel_is_ours(channel)) {
		close(channel->fd);
		return;
	}
	agent_lock();
	if (channel->closed) {
		agent_unlock();
		explain("rdma_destroy_event_channel: the channel was destroyed already");
		return;
	}
	channel->closed = true;
	list_for_each_safe(node, following, &channel->queue) {
		free_event(list_entry(node, struct queued_event, in_channel));
		count_waiting(channel, -1);
	}
	agent_unlock();
	channel_unref(channel);
}

/* ---- putting events in ---- */

struct queued_event *event_new(struct endpoint *endpoint, enum rdma_cm_event_type kind,
			       const void *private_data, size_t bytes)
{
	struct queued_event *event;

	if (endpoint->channel->closed)
		return NULL;
	event = malloc(sizeof(*event) + bytes);
	if (!event) {
		log_error("out of memory: event of kind %d is lost", kind);
		return NULL;
	}
	memset(event, 0, sizeof(*event));
	list_init(&event->in_channel);
	list_init(&event->in_owner);
	event->endpoint = endpoint;
	event->kind = kind;
	event->private_bytes = (uint8_t)bytes;
	if (bytes)
		memcpy(event->private_data, private_data, bytes);
	return event;
}

static struct endpoint *owner_of(const struct queued_event *event)
{
	return event->listener ? event->listener : event->endpoint;
}

void event_post(struct queued_event *event)
{
	struct endpoint *owner = owner_of(event);

	list_add_tail(&owner->events, &event->in_owner);
	list_add_tail(&owner->channel->queue, &event->in_channel);
	if (event->listener)
		event->endpoint->request = event;
	count_waiting(owner->channel, 1);
}

void event_withdraw_request(struct endpoint *endpoint)
{
	struct queued_event *event = endpoint->request;
	struct endpoint *listener = event->listener;

	free_event(event);
	count_waiting(listener->channel, -1);
}

void event_post_status(struct endpoint *endpoint, enum rdma_cm_event_type kind, int status)
{
	struct queued_event *event = event_new(endpoint, kind, NULL, 0);

	if (!event)
		return;
	event->status = status;
	event_post(event);
}

int endpoint_raise(struct endpoint *endpoint, enum rdma_cm_event_type kind, int status,
		   uint64_t argument)
{
	struct queued_event *event;
	int err;

	if (!endpoint_is_ours(endpoint))
		return ENODEV;
	agent_lock();
	err = endpoint->channel->closed ? EBADF : ENOMEM;
	event = event_new(endpoint, kind, NULL, 0);
	if (event) {
		event->status = status;
		event->argument = argument;
		event_post(event);
		err = 0;
	}
	agent_unlock();
	return err;
}

void events_withdraw(struct endpoint *endpoint,
		     bool (*is_meant)(const struct queued_event *event, const void *key), const void *key)
{
	struct list *node, *following;

	list_for_each_safe(node, following, &endpoint->events) {
		struct queued_event *event = list_entry(node, struct queued_event, in_owner);

		if (!is_meant(event, key))
			continue;
		free_event(event);
		count_waiting(endpoint->channel, -1);
	}
}

static bool event_is_any(const struct queued_event *event, const void *nothing)
{
	return true;
}

void events_drop(struct endpoint *endpoint)
{
	events_withdraw(endpoint, event_is_any, NULL);
}

static bool event_is_an_end(const struct queued_event *event, const void *nothing)
{
	return event->kind == RDMA_CM_EVENT_REJECTED || event->kind == RDMA_CM_EVENT_DISCONNECTED;
}

void endpoint_mute(struct endpoint *endpoint)
{
	if (!endpoint_is_ours(endpoint))
		return;
	agent_lock();
	endpoint->muted = true;
	events_withdraw(endpoint, event_is_an_end, NULL);
	agent_unlock();
}

static bool event_is_a_failure(const struct queued_event *event)
{
	switch (event->kind) {
	case RDMA_CM_EVENT_ADDR_ERROR:
	case RDMA_CM_EVENT_ROUTE_ERROR:
	case RDMA_CM_EVENT_CONNECT_ERROR:
	case RDMA_CM_EVENT_UNREACHABLE:
	case RDMA_CM_EVENT_REJECTED:
	case RDMA_CM_EVENT_MULTICAST_ERROR:
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		return true;
	default:
		return false;
	}
}

bool cm_channel_has_failure(const struct cm_channel *channel, enum rdma_cm_event_type *kind)
{
	struct list *node;
	bool found = false;

	if (!channel_is_ours(channel) || !lock_try(&agent.lock))
		return false;
	list_for_each(node, &channel->queue) {
		const struct queued_event *event =
			list_entry(node, struct queued_event, in_channel);

		if (channel->closed || !event_is_a_failure(event))
			continue;
		*kind = event->kind;
		found = true;
		break;
	}
	lock_release(&agent.lock);
	return found;
}

bool endpoint_has_failure(const struct endpoint *endpoint, enum rdma_cm_event_type *kind)
{
	struct list *node;
	bool found = false;

	if (!endpoint_is_ours(endpoint) || !lock_try(&agent.lock))
		return false;
	list_for_each(node, &endpoint->events) {
		const struct queued_event *event = list_entry(node, struct queued_event, in_owner);

		if (!event_is_a_failure(event))
			continue;
		*kind = event->kind;
		found = true;
		break;
	}
	lock_release(&agent.lock);
	return found;
}

int endpoint_migrate(struct endpoint *endpoint, struct cm_channel *channel, uint32_t *taken)
{
	struct cm_channel *old;
	struct list *node;

	if (!endpoint_is_ours(endpoint) || !channel_is_ours(channel))
		return ENODEV;
	agent_lock();
	old = endpoint->channel;
	channel_touch(endpoint);
	channel_ref(channel);
	endpoint->channel = channel;
	*taken = endpoint->acknowledged + endpoint->held;
	list_for_each(node, &endpoint->events) {
		struct queued_event *event = list_entry(node, struct queued_event, in_owner);

		list_remove(&event->in_channel);
		count_waiting(old, -1);
		list_add_tail(&channel->queue, &event->in_channel);
		count_waiting(channel, 1);
	}
	agent_unlock();
	channel_unref(old);
	return 0;
}

/* Acknowledgements are counted, as Linux's library counts them, not which events they are of. */
void endpoint_await_acks(struct endpoint *endpoint, uint32_t taken)
{
	uint64_t patience_ns = explaining() ? clock_now_ns() + EXPLAIN_AFTER_MS * 1000000ull : TIME_NEVER;

	agent_lock();
	while ((int32_t)(taken - endpoint->acknowledged) > 0) {
		endpoint_wait_for_acks(patience_ns);
		if (patience_ns != TIME_NEVER && clock_now_ns() >= patience_ns) {
			explain_held(endpoint, "rdma_migrate_id");
			patience_ns = TIME_NEVER;
			agent_unlock();		/* the line is written */
			agent_lock();
		}
	}
	agent_unlock();
}

/* ---- taking them out ---- */

static void hand_over(const struct queued_event *event, struct endpoint_event *out)
{
	const void *data = event->private_bytes ? out->private_data : NULL;

	memset(out, 0, offsetof(struct endpoint_event, private_data));
	out->endpoint = event->endpoint;
	out->listener = event->listener;
	out->user = owner_of(event)->user;
	out->kind = event->kind;
	out->status = event->status;
	out->datagram = event->endpoint->qp_type == IBV_QPT_UD;
	if (out->datagram) {
		out->ud = event->ud;
		out->ud.private_data = data;
		out->ud.private_data_len = event->private_bytes;
	} else {
		out->connection = event->connection;
		out->connection.private_data = data;
		out->connection.private_data_len = event->private_bytes;
	}
	out->ece.vendor_id = event->ece_vendor_id;
	out->ece.options = event->ece_options;
	out->multicast = event->multicast;
	out->argument = event->argument;
	memcpy(out->private_data, event->private_data, event->private_bytes);
}

/* A count that is full stays: which kinds are held matters, not how many. */
static void count_held(struct endpoint *endpoint, enum rdma_cm_event_type kind, int by) REQUIRES(agent.lock)
{
	if ((unsigned)kind < ENDPOINT_EVENTS && endpoint->held_of[kind] != UINT8_MAX)
		endpoint->held_of[kind] = (uint8_t)(endpoint->held_of[kind] + by);
}

static struct queued_event *channel_pop(struct cm_channel *channel) REQUIRES(agent.lock)
{
	struct list *node = list_pop(&channel->queue);
	struct queued_event *event;

	if (!node)
		return NULL;
	event = list_entry(node, struct queued_event, in_channel);
	list_remove(&event->in_owner);
	if (event->listener)
		event->endpoint->request = NULL;
	owner_of(event)->held++;
	count_held(owner_of(event), event->kind, 1);
	count_waiting(channel, -1);
	return event;
}

static void release_held(struct endpoint *endpoint, enum rdma_cm_event_type kind) REQUIRES(agent.lock)
{
	endpoint->held--;
	count_held(endpoint, kind, -1);
	endpoint->acknowledged++;
	condition_say(&agent.progress);
}

/* Prepares a new endpoint for the application. False: it was refused. */
static bool present_request(struct queued_event *event) EXCLUDES(agent.lock)
{
	struct endpoint *endpoint = event->endpoint, *listener = event->listener;
	int err = request_find_port(endpoint);

	agent_lock();
	request_waits_no_more(listener);
	endpoint->offered = false;
	if (!err && endpoint->state != STATE_REQUESTED && endpoint->state != STATE_SIDR_RECEIVED)
		err = ECONNABORTED;	/* the peer gave up meanwhile */
	if (err) {
		request_refuse(endpoint, err == EMSGSIZE ? CM_REJECT_INVALID_MTU :
					 err == ENOMEM ? CM_REJECT_NO_RESOURCES :
							 CM_REJECT_INVALID_GID);
		release_held(listener, event->kind);
	} else {
		endpoint->channel = listener->channel;
		endpoint->channel->shown = endpoint;
		channel_ref(endpoint->channel);
	}
	agent_unlock();
	return !err;
}

void channel_touch(struct endpoint *endpoint)
{
	if (!endpoint->channel || endpoint->channel->shown != endpoint)
		return;
	endpoint->channel->shown = NULL;
	condition_say(&agent.progress);
}

/*
 * Servers that pass each new endpoint to another thread in one variable (rping -P) lose one when
 * two requests arrive together; the kernel's delivery is slow enough to hide that. So the next
 * request is held back until the application has used the last endpoint, for a few milliseconds. An
 * application that only collects requests is not delayed again.
 */
static void let_application_look(struct cm_channel *channel) REQUIRES(agent.lock)
{
	const struct endpoint *shown = channel->shown;
	uint64_t until_ns;
	struct list *next = channel->queue.next;

	if (!shown || !channel->patience || next == &channel->queue ||
	    !list_entry(next, struct queued_event, in_channel)->listener)
		return;
	until_ns = clock_now_ns() + PATIENCE_NS;
	while (channel->shown == shown && clock_now_ns() < until_ns)
		agent_wait(until_ns);
	if (channel->shown == shown)
		channel->patience--;
	else
		channel->patience = PATIENCE;
	channel->shown = NULL;
}

int cm_channel_take(struct cm_channel *channel, struct endpoint_event *out)
{
	struct queued_event *event;
	bool seen = false;
	int err;

	if (!channel_is_ours(channel))
		return ENODEV;
	do {
		agent_lock();
		let_application_look(channel);
		event = channel->closed ? NULL : channel_pop(channel);
		err = channel->closed ? EBADF : EAGAIN;
		agent_unlock();
		if (!event)
			return err;
		seen = !event->listener || present_request(event);
		if (seen) {
			explain_event(event->endpoint, event);
			hand_over(event, out);
		}
		free(event);
	} while (!seen);
	return 0;
}

void endpoint_event_ack(struct endpoint_event *event)
{
	struct endpoint *owner = event->listener ? event->listener : event->endpoint;

	if (!endpoint_is_ours(owner))
		return;
	agent_lock();
	release_held(owner, event->kind);
	agent_unlock();
}
