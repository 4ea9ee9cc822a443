/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The connection management of this process: one struct cm_protocol, its lock, its MAD agent. It
 * starts with the first channel and stops with the last one, or later, while connections without an
 * endpoint still answer their peers (timewait).
 *
 * fork(): the child must not use the parent's endpoints, which have another agent.generation; it
 * may start an agent of its own.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/fork.h"
#include "base/ip_addr.h"
#include "base/log.h"
#include "cm/endpoint/internal.h"
#include "platform/clock.h"
#include "wire/packet.h"
#include "wire/smp.h"

#define TX_QUEUE_MAX 4 /* messages of a usual step; further ones are allocated */
#define COMM_ID_BITS	COMM_ID_SLOT_SHIFT
#define PORT_FRESH_NS	100000000u	/* addresses may move; asking costs more than a connect */

struct agent agent = { .lock = LOCK_INITIALIZER, .armed_ns = TIME_NEVER,
		       .progress = CONDITION_INITIALIZER };

static struct lock start_lock = LOCK_INITIALIZER;
static unsigned references;

/* ---- what the protocol asks for ---- */

/*
 * Messages are sent after the lock is dropped: the answer often arrives before sendmsg() returns,
 * and its receiver needs the lock. They may overtake those of another thread.
 */
struct pending_mad {
	struct pending_mad *next;	/* in tx_overflow */
	struct mad_address to;
	uint8_t mad[MAD_BYTES];
};

/* Under agent.lock. What has no place in the queue follows in the list. */
static struct pending_mad tx_queue[TX_QUEUE_MAX];
static unsigned tx_queued;
static struct pending_mad *tx_overflow, **tx_overflow_end = &tx_overflow;

static void send_pending(struct mad_agent *mad, const struct pending_mad *pending)
{
	int err = mad_send(mad, &pending->to, pending->mad);

	if (err)	/* as if lost: it is sent again, or the exchange times out */
		log_debug("cannot send a message: error %d", err);
}

/* NULL: no memory. */
static struct pending_mad *pending_new(void) REQUIRES(agent.lock)
{
	struct pending_mad *pending;

	if (tx_queued < TX_QUEUE_MAX)
		return &tx_queue[tx_queued++];
	pending = malloc(sizeof(*pending));
	if (!pending)
		return NULL;
	pending->next = NULL;
	*tx_overflow_end = pending;
	tx_overflow_end = &pending->next;
	return pending;
}

static void agent_send_message(void *host, const struct mad_address *to,
			       const struct cm_message *message)
{
	struct pending_mad *pending;

	lock_assert_held(&agent.lock);
	pending = pending_new();
	if (!pending) {
		gsi_count(agent.gsi, COUNTER_CM_NO_MEMORY);
		return;
	}
	pending->to = *to;
	cm_message_write(message, pending->mad);
}

bool agent_send(const struct mad_address *to, const uint8_t mad[MAD_BYTES])
{
	struct pending_mad *pending = pending_new();

	if (!pending)
		return false;
	pending->to = *to;
	memcpy(pending->mad, mad, sizeof(pending->mad));
	return true;
}

uint32_t agent_random(void)
{
	if (!agent.random_left) {
		random_fill(agent.random, sizeof(agent.random));
		agent.random_left = AGENT_RANDOM;
	}
	return agent.random[--agent.random_left];
}

static uint32_t protocol_random(void *host)
{
	lock_assert_held(&agent.lock);
	return agent_random();
}

static void protocol_event(void *host, const struct cm_event *event)
{
	lock_assert_held(&agent.lock);
	connection_event(host, event);
}

static void protocol_count(void *host, int counter)
{
	gsi_count(agent.gsi, counter);
}

static const struct cm_ops protocol_ops = {
	.send = agent_send_message,
	.event = protocol_event,
	.random = protocol_random,
	.count = protocol_count,
};

/* ---- lock, deadline, wake-ups ---- */

void agent_lock(void)
{
	lock_acquire(&agent.lock);
}

/* One at a time: a channel is out of the list before others can put it there again. */
static void release_and_wake(void) RELEASES(agent.lock)
{
	struct list *node;
	bool more;

	if (!agent.woken.next || list_empty(&agent.woken)) {
		lock_release(&agent.lock);
		return;
	}
	for (;;) {
		struct cm_channel *channel;

		node = list_pop(&agent.woken);
		more = !list_empty(&agent.woken);
		lock_release(&agent.lock);
		channel = list_entry(node, struct cm_channel, woken);
		channel_update_fd(channel);
		channel_unpin(channel);
		if (!more)
			return;
		lock_acquire(&agent.lock);
		if (list_empty(&agent.woken)) {
			lock_release(&agent.lock);
			return;
		}
	}
}

/*
 * The system calls that send and wake are made without the lock. The agent outlasts them: its
 * callers are called by it, or hold a channel.
 */
void agent_unlock(void)
{
	struct pending_mad sending[TX_QUEUE_MAX], *overflow = tx_overflow, *next;
	struct mad_agent *mad = agent.mad;
	unsigned i, count = tx_queued;
	uint64_t deadline_ns;

	/* Later deadlines are not set: the tick that comes too early sets the right one. */
	if (agent.protocol) {
		deadline_ns = cm_deadline(agent.protocol);
		if (resolve_deadline() < deadline_ns)
			deadline_ns = resolve_deadline();
		if (agent.sa && sa_deadline(agent.sa) < deadline_ns)
			deadline_ns = sa_deadline(agent.sa);
		if (deadline_ns < agent.armed_ns) {
			agent.armed_ns = deadline_ns;
			mad_set_deadline(agent.mad, deadline_ns);
		}
	}
	if (count) {		/* of most calls nothing is sent */
		memcpy(sending, tx_queue, count * sizeof(sending[0]));
		tx_queued = 0;
		tx_overflow = NULL;
		tx_overflow_end = &tx_overflow;
	}
	release_and_wake();
	for (i = 0; i < count; i++)
		send_pending(mad, &sending[i]);
	for (; overflow; overflow = next) {
		next = overflow->next;
		send_pending(mad, overflow);
		free(overflow);
	}
}

void agent_wait(uint64_t until_ns)
{
	if (tx_queued || !list_empty(&agent.woken)) {	/* nobody waits for what waits here */
		agent_unlock();
		agent_lock();
	} else {
		condition_wait(&agent.progress, &agent.lock, until_ns);
	}
}

/* ---- what comes from the HCA ---- */

static enum drop agent_received(void *owner, const struct mad_address *from,
				const struct mad_header *header, const uint8_t mad[MAD_BYTES],
				uint64_t now_ns)
{
	enum drop why = DROP_NONE;

	agent_lock();
	if (agent.protocol)	/* it may come before mad_open() has returned */
		why = cm_receive(agent.protocol, from, mad, now_ns);
	agent_unlock();
	return why;
}

static void agent_unreachable(void *owner, const struct mad_address *to,
			      const struct mad_header *header, const uint8_t mad[MAD_BYTES],
			      uint64_t now_ns)
{
	agent_lock();
	if (agent.protocol)
		cm_undeliverable(agent.protocol, to, mad, now_ns);
	agent_unlock();
}

static void agent_tick(void *owner, uint64_t now_ns)
{
	agent_lock();
	agent.armed_ns = TIME_NEVER;
	if (agent.protocol)
		cm_tick(agent.protocol, now_ns);
	if (agent.sa)
		sa_tick(agent.sa, now_ns);
	agent_unlock();
	resolve_tick(now_ns);
}

static void agent_qp_failed(void *owner, uint32_t qpn, uint64_t now_ns)
{
	struct cm_connection *connection;

	agent_lock();
	connection = agent.protocol ? cm_find_qpn(agent.protocol, qpn) : NULL;
	if (connection)
		cm_peer_died(connection, now_ns);
	agent_unlock();
}

/* As agent_peer_gone(): of a peer behind a fabric, by the LID that its packets go to. */
static void agent_remote_gone(void *owner, const struct mad_remote *remote, uint64_t now_ns)
{
	struct list *node, *following;

	agent_lock();
	for (node = agent.endpoints.next; agent.protocol && node != &agent.endpoints; node = following) {
		struct endpoint *endpoint = list_entry(node, struct endpoint, node);

		following = node->next;
		if (!endpoint_is_ib(endpoint) || !endpoint->connection ||
		    (endpoint->path.dlid ^ remote->lid) >> remote->lmc ||
		    !endpoint->terms.remote_qpn || qpn_slot(endpoint->terms.remote_qpn) != remote->slot)
			continue;
		explain_peer_ended(endpoint);
		provider_of(endpoint)->peer_died(endpoint, now_ns);
	}
	agent_unlock();
}

static void agent_peer_gone(void *owner, uint32_t slot, uint64_t now_ns)
{
	struct list *bucket, *node, *following;

	agent_lock();
	bucket = &agent.watchers[slot % WATCH_BUCKETS];
	for (node = bucket->next; agent.protocol && node != bucket; node = following) {
		struct endpoint *endpoint = list_entry(node, struct endpoint, same_peer);

		following = node->next;
		if (endpoint->watched_slot != slot || !endpoint->connection)
			continue;
		explain_peer_ended(endpoint);
		provider_of(endpoint)->peer_died(endpoint, now_ns);
	}
	agent_unlock();
}

/*
 * As Linux has it: an id that is bound to a device is told when that goes, and when the interface has another MAC
 * address, as bonding gives it. Its application destroys the id, or connects anew. A listener on the wildcard
 * address is bound to no device: it is not told, and goes on with the others. Of a port of a fabric: its subnet
 * manager has to be told what it knew.
 */
static void agent_interface_changed(void *owner, const struct net_change *change, uint64_t now_ns)
{
	enum rdma_cm_event_type kind = change->gone ? RDMA_CM_EVENT_DEVICE_REMOVAL : RDMA_CM_EVENT_ADDR_CHANGE;
	struct list *node, *each;

	agent_lock();
	list_for_each(node, &agent.ports) {
		struct bound_port *port = list_entry(node, struct bound_port, node);

		if (port->gid.interface_index != change->interface || port->gid.ib_port != change->ib_port)
			continue;
		list_for_each(each, &port->endpoints) {
			struct endpoint *endpoint = list_entry(each, struct endpoint, of_port);

			if (change->ib_port)
				ib_groups_join_again(endpoint);
			else if (!endpoint->offered && (change->gone || !endpoint->unaccepted))
				event_post_status(endpoint, kind, 0);
		}
	}
	agent_unlock();
}

/* As the kernel, which disconnects the ids of a process that ends; it says so once, we till it is heard. */
static bool agent_may_leave(void *owner, uint64_t now_ns)
{
	unsigned unanswered = 0;

	agent_lock();
	if (agent.protocol)
		unanswered = cm_leave(agent.protocol, now_ns);
	agent_unlock();
	return !unanswered;
}

static const struct mad_key agent_mad_key = {
	.port = MAD_ANY_PORT, .qpn = QPN_GSI, .class = MAD_CLASS_CM, .class_version = MAD_ANY_VERSION,
	.methods = MAD_ALL_METHODS,
};
static const struct mad_ops mad_agent_ops = {
	.received = agent_received,
	.unreachable = agent_unreachable,
	.tick = agent_tick,
	.qp_failed = agent_qp_failed,
	.peer_gone = agent_peer_gone,
	.remote_gone = agent_remote_gone,
	.interface_changed = agent_interface_changed,
	.may_leave = agent_may_leave,
};

static enum drop agent_sa_received(void *owner, const struct mad_address *from,
				   const struct mad_header *header, const uint8_t mad[MAD_BYTES],
				   uint64_t now_ns)
{
	enum drop why = DROP_NONE;

	agent_lock();
	if (agent.sa)
		why = sa_receive(agent.sa, from->ib.port, from->ib.lid, mad);
	agent_unlock();
	return why;
}

/* Time is told by the other agent. */
static void agent_sa_tick(void *owner, uint64_t now_ns)
{
}

static const struct mad_key agent_sa_key = {
	.port = MAD_ANY_PORT, .qpn = QPN_GSI, .class = MAD_CLASS_ADMINISTRATION, .class_version = MAD_ANY_VERSION,
	.methods = MAD_ALL_METHODS,
};
static const struct mad_ops sa_agent_ops = { .received = agent_sa_received, .tick = agent_sa_tick };

/* To the subnet manager as it is now. */
static uint16_t agent_sa_send(void *host, uint16_t port, const uint8_t mad[MAD_BYTES])
{
	struct net_ib_port now;
	struct mad_address to = { .link = ROUTE_IB };

	lock_assert_held(&agent.lock);
	if (!net_ib_port(gsi_net(agent.gsi), port, &now) || !now.sm_lid || now.state != IBV_PORT_ACTIVE)
		return 0;
	to.ib = (struct ib_way){ .port = port, .lid = now.sm_lid, .sl = now.sm_sl };
	/* The SM is a full member of the default partition, as all ports are members. */
	to.pkey_index = (uint16_t)net_ib_pkey_index(&now, PKEY_DEFAULT);
	ip_addr_of_lid(to.remote, now.sm_lid);
	if (!agent_send(&to, mad))
		return 0;
	return now.sm_lid;
}

static void agent_sa_count(void *host, int counter)
{
	gsi_count(agent.gsi, counter);
}

static const struct sa_ops sa_ops = { .send = agent_sa_send, .count = agent_sa_count };

/* ---- start and stop ---- */

static void forget_in_child(void)
{
	lock_init(&start_lock);
	lock_init(&agent.lock);
	condition_init(&agent.progress);
	references = 0;
	agent.generation++;
	agent.protocol = NULL;
	agent.mad = agent.sa_mad = NULL;
	agent.sa = NULL;
	agent.gsi = NULL;
	agent.random_left = 0;
	tx_queued = 0;
	tx_overflow = NULL;
	tx_overflow_end = &tx_overflow;
	list_init(&agent.ports);
	list_init(&agent.endpoints);
	list_init(&agent.searches);
	list_init(&agent.woken);
	channels_forget();
	ports_forget();
}

static const struct fork_handlers fork_handlers = { .child = forget_in_child };

static int agent_start(void)
{
	struct mad_agent *mad, *sa_mad = NULL;
	struct cm_protocol *protocol;
	struct sa *sa = NULL;
	struct qp1 *qp1;
	struct gsi *gsi;
	bool by_fabric;
	int err = hca_get_qp1(&qp1);

	if (err)
		return err;
	err = mad_open(qp1, &agent_mad_key, &mad_agent_ops, NULL, &mad);
	if (err)
		goto put;
	gsi = mad_gsi(mad);
	by_fabric = net_has_ib(gsi_net(gsi));
	if (by_fabric)
		err = mad_open(qp1, &agent_sa_key, &sa_agent_ops, NULL, &sa_mad);
	if (err)
		goto close;
	agent_lock();
	agent.armed_ns = TIME_NEVER;
	list_init(&agent.woken);
	list_init(&agent.ports);
	list_init(&agent.endpoints);
	list_init(&agent.searches);
	for (unsigned i = 0; i < WATCH_BUCKETS; i++)
		list_init(&agent.watchers[i]);
	protocol = cm_protocol_new(&protocol_ops, NULL, gsi_slot(gsi) << COMM_ID_SLOT_SHIFT,
				   COMM_ID_BITS);	/* asks for random numbers, under the lock */
	if (by_fabric)
		sa = sa_new(&sa_ops, NULL, agent_random());
	if (!protocol || (by_fabric && !sa)) {
		agent_unlock();
		err = ENOMEM;
		goto free;
	}
	agent.qp1 = qp1;
	agent.mad = mad;
	agent.sa_mad = sa_mad;
	agent.sa = sa;
	agent.gsi = gsi;
	agent.protocol = protocol;
	agent_unlock();
	return 0;
free:
	if (protocol)
		cm_protocol_free(protocol);
	sa_free(sa);
	if (sa_mad)
		mad_close(sa_mad);
close:
	mad_close(mad);
put:
	hca_put_qp1(qp1);
	return err;
}

static void agent_stop(void)
{
	struct cm_protocol *protocol;
	struct sa *sa;

	if (agent.sa_mad)
		mad_close(agent.sa_mad);
	mad_close(agent.mad);	/* from now on nobody calls us */
	agent_lock();
	protocol = agent.protocol;
	sa = agent.sa;
	agent.protocol = NULL;
	agent.sa = NULL;
	agent.mad = agent.sa_mad = NULL;
	agent.gsi = NULL;
	agent_unlock();
	hca_put_qp1(agent.qp1);
	cm_protocol_free(protocol);
	sa_free(sa);
}

int agent_get(void)
{
	int err = 0;

	fork_register(FORK_CM, &fork_handlers);
	lock_acquire(&start_lock);
	if (!references && !agent.protocol)
		err = agent_start();
	if (!err)
		references++;
	lock_release(&start_lock);
	return err;
}

void agent_put(void)
{
	bool idle;

	lock_acquire(&start_lock);
	if (--references == 0) {
		agent_lock();
		idle = cm_deadline(agent.protocol) == TIME_NEVER;
		agent_unlock();
		if (idle)
			agent_stop();
	}
	lock_release(&start_lock);
}

/* ---- ports that endpoints share ---- */

static bool same_port(const struct net_gid *a, const struct net_gid *b)
{
	return a->gid_index == b->gid_index && a->link == b->link && a->interface_index == b->interface_index &&
	       a->ib_port == b->ib_port && a->pkey == b->pkey &&
	       !memcmp(&a->gid, &b->gid, sizeof(a->gid)) &&
	       !memcmp(a->address, b->address, sizeof(a->address)) &&
	       a->active_mtu == b->active_mtu && !strcmp(a->device, b->device);
}

struct bound_port *bound_port_get(const struct net_gid *port, uint8_t link, const uint8_t asked[16],
				  uint64_t now_ns)
{
	struct bound_port *found;
	struct list *node;

	list_for_each(node, &agent.ports) {
		found = list_entry(node, struct bound_port, node);
		if (same_port(&found->gid, port))
			goto found;
	}
	found = calloc(1, sizeof(*found));
	if (!found)
		return NULL;
	found->gid = *port;
	list_init(&found->endpoints);
	list_add_tail(&agent.ports, &found->node);
found:
	found->references++;
	found->checked_ns = now_ns;
	memcpy(found->asked, asked, sizeof(found->asked));
	found->asked_link = link;
	return found;
}

struct bound_port *bound_port_recent(uint8_t link, const uint8_t address[16], uint64_t now_ns)
{
	struct list *node;

	list_for_each(node, &agent.ports) {
		struct bound_port *port = list_entry(node, struct bound_port, node);

		if (!memcmp(port->asked, address, 16) && port->asked_link == link &&
		    now_ns - port->checked_ns < PORT_FRESH_NS) {
			port->references++;
			return port;
		}
	}
	return NULL;
}

void bound_port_put(struct bound_port *port)
{
	if (!port || --port->references)
		return;
	list_remove(&port->node);
	free(port);
}

void endpoint_set_port(struct endpoint *endpoint, struct bound_port *port)
{
	list_remove(&endpoint->of_port);
	bound_port_put(endpoint->port);
	endpoint->port = port;
	if (port)
		list_add_tail(&port->endpoints, &endpoint->of_port);
}

/* ---- peers on this host ---- */

void agent_watch(struct endpoint *endpoint)
{
	uint32_t slot = 0;
	struct gsi *gsi;
	int err;

	agent_lock();
	gsi = agent.gsi;
	if (endpoint->peer_local && !endpoint->watched_slot && endpoint->connection)
		slot = qpn_slot(endpoint->terms.remote_qpn);
	if (slot == gsi_slot(gsi))
		slot = 0;		/* the peer ends with this process */
	if (slot) {
		endpoint->watched_slot = (uint16_t)slot;
		list_add_tail(&agent.watchers[slot % WATCH_BUCKETS], &endpoint->same_peer);
	}
	agent_unlock();
	if (!slot)
		return;
	err = gsi_watch_slot(gsi, slot);
	if (!err)
		return;
	agent_lock();
	endpoint->watched_slot = 0;
	list_remove(&endpoint->same_peer);
	if (err == ESRCH && endpoint->connection)
		provider_of(endpoint)->peer_died(endpoint, clock_now_ns());
	agent_unlock();
}

void agent_unwatch(struct endpoint *endpoint)
{
	uint32_t slot;
	struct gsi *gsi;

	agent_lock();
	slot = endpoint->watched_slot;
	endpoint->watched_slot = 0;
	list_remove(&endpoint->same_peer);
	gsi = agent.gsi;
	agent_unlock();
	if (slot)
		gsi_unwatch_slot(gsi, slot);
}
