/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Resolution of addresses to devices and paths. As in Linux a way that does not exist fails the
 * call, and ADDR_RESOLVED waits until the next hop has answered to ARP or neighbour discovery. Where
 * it is known already, and inside this host, the event is there before rdma_resolve_addr() returns.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/ip_addr.h"
#include "cm/endpoint/internal.h"
#include "platform/clock.h"
#include "wire/smp.h"

#define HOP_LIMIT	64
#define ROUTE_FRESH_NS	1000000000u
#define NS_PER_MS	1000000u

struct resolution {
	struct endpoint_address source, destination;
	struct net_gid port;
	uint8_t dgid[16];
	uint8_t remote[16];	/* where packets go to: the GID 0 of a port here has another address */
	bool local;
	bool by_fabric;		/* and nothing of the host's addresses and routes matters */
	bool silent;		/* the next hop has not answered yet */
};

/* ENOENT: not by a port of a fabric. */
static int resolve_ib(struct resolution *way)
{
	struct net_way ib = { .by_gid = way->destination.family == AF_IB };
	int err;

	if (!address_is_any(&way->source))
		memcpy(ib.source, way->source.bytes, sizeof(ib.source));
	memcpy(ib.destination, way->destination.bytes, sizeof(ib.destination));
	err = net_find_ib_way(gsi_net(agent.gsi), &ib);
	way->by_fabric = err != ENOENT;
	if (err)
		return err;
	way->port = ib.port;
	memcpy(way->dgid, ib.gid, sizeof(way->dgid));
	memcpy(way->source.bytes, ib.source, sizeof(ib.source));
	memcpy(way->destination.bytes, ib.destination, sizeof(ib.destination));
	return 0;
}

/* Source not given: an address of this host is reached over its own device, from itself. */
static int resolve_local(struct resolution *way)
{
	struct net_gid there;
	bool bound = !address_is_any(&way->source);
	int err;

	err = net_find_gid(gsi_net(agent.gsi), way->destination.bytes, way->destination.scope, &there);
	if (err)
		return err;
	memcpy(way->dgid, there.gid.raw, 16);	/* of 127.0.0.2: 127.0.0.1 */
	memcpy(way->remote, there.address, 16);
	way->local = true;
	if (bound)
		return net_find_gid(gsi_net(agent.gsi), way->source.bytes, way->source.scope, &way->port);
	way->port = there;
	memcpy(way->source.bytes, there.gid.raw, 16);
	way->source.scope = way->destination.scope;
	return 0;
}

static int resolve_remote(struct resolution *way)
{
	static const uint8_t chosen[16];
	bool bound = !address_is_any(&way->source);
	int err = net_find_route(gsi_net(agent.gsi), bound ? way->source.bytes : chosen,
				 way->destination.bytes, way->destination.scope, &way->port);

	if (err)
		return err;
	memcpy(way->dgid, way->destination.bytes, 16);
	memcpy(way->remote, way->destination.bytes, 16);
	way->silent = !net_neighbour_answers(gsi_net(agent.gsi), &way->port, way->destination.bytes);
	if (bound)
		return 0;
	memcpy(way->source.bytes, way->port.gid.raw, 16);
	if (way->source.family == AF_INET6 && ip_addr_is_link_local_ipv6(way->source.bytes))
		way->source.scope = way->port.interface_index;
	return 0;
}

static int resolve_run(struct resolution *way)
{
	const struct endpoint_address *to = &way->destination;
	int err = resolve_ib(way);

	if (err != ENOENT)
		return err;
	if (net_is_local(gsi_net(agent.gsi), to->bytes, to->scope))
		return resolve_local(way);
	/* GID 0 of a device need not be an address of its interface. */
	if (to->family == AF_IB && ip_addr_is_link_local_ipv6(to->bytes) && !resolve_local(way))
		return 0;
	return resolve_remote(way);
}

/* ---- what was found a moment ago ---- */

/*
 * Queries of the kernel cost more than the rest of a connect, and many connects go to the same
 * host.
 */
#define RECENT_COUNT	16u
#define RECENT_NS	100000000u

static struct recent {
	uint64_t found_ns;		/* 0: empty */
	unsigned generation;
	uint8_t source[16];		/* as asked: zero bytes where it was to be chosen */
	struct resolution way;
} recent[RECENT_COUNT];			/* under agent.lock */

static bool is_answer(const struct recent *entry, const struct resolution *asked, uint64_t now_ns)
{
	return entry->found_ns && now_ns - entry->found_ns < RECENT_NS &&
	       entry->generation == agent.generation &&
	       !memcmp(entry->source, asked->source.bytes, 16) &&
	       !memcmp(entry->way.destination.bytes, asked->destination.bytes, 16) &&
	       entry->way.destination.scope == asked->destination.scope &&
	       entry->way.destination.family == asked->destination.family;
}

/* As resolve_run(), which is asked when nobody was lately. */
static int resolve_soon(struct resolution *way)
{
	struct resolution asked = *way;
	const uint8_t *to = asked.destination.bytes, *from = asked.source.bytes;
	uint64_t now_ns = clock_now_ns();
	struct recent *entry;
	int err;

	agent_lock();
	entry = &recent[(to[15] ^ to[14] ^ to[7] ^ from[15]) % RECENT_COUNT];
	if (is_answer(entry, &asked, now_ns)) {
		memcpy(way->source.bytes, entry->way.source.bytes, 16);
		way->source.scope = entry->way.source.scope;
		memcpy(way->dgid, entry->way.dgid, 16);
		memcpy(way->remote, entry->way.remote, 16);
		way->port = entry->way.port;
		way->local = entry->way.local;
		way->by_fabric = entry->way.by_fabric;
		agent_unlock();
		return 0;
	}
	agent_unlock();
	err = resolve_run(way);
	if (err || way->silent)
		return err;
	agent_lock();
	entry->found_ns = now_ns;
	entry->generation = agent.generation;
	memcpy(entry->source, asked.source.bytes, 16);
	entry->way = *way;
	agent_unlock();
	return 0;
}

bool address_is_here(const uint8_t address[16], uint32_t scope)
{
	static struct { uint8_t address[16]; uint32_t scope; bool here; uint64_t found_ns; } last;
	uint64_t now_ns = clock_now_ns();
	bool here, known;

	agent_lock();
	known = last.found_ns && now_ns - last.found_ns < RECENT_NS && last.scope == scope &&
		!memcmp(last.address, address, 16);
	here = last.here;
	agent_unlock();
	if (known)
		return here;
	here = net_is_local(gsi_net(agent.gsi), address, scope);
	agent_lock();
	memcpy(last.address, address, 16);
	last.scope = scope;
	last.here = here;
	last.found_ns = now_ns;
	agent_unlock();
	return here;
}

/* ---- next hops that have not answered yet ---- */

#define LOOK_FIRST_NS	1000000u	/* an answer takes less than a millisecond in most networks */
#define LOOK_LAST_NS	64000000u

struct search {
	struct list node;		/* in agent.searches */
	struct endpoint *endpoint;
	struct resolution way;
	uint64_t look_ns, step_ns, end_ns;
};

/* How a resolution ended is told by its event. */
static void resolve_end(struct endpoint *endpoint, const struct resolution *way, int err) REQUIRES(agent.lock)
{
	struct bound_port *port = NULL;

	if (!err) {
		port = bound_port_get(&way->port, 0, way->port.gid.raw, clock_now_ns());
		err = port ? 0 : ENOMEM;
	}
	if (port) {
		endpoint_set_port(endpoint, port);
		endpoint->source = way->source;
		endpoint->destination = way->destination;
		memcpy(endpoint->path.dgid.raw, way->dgid, 16);
		memcpy(endpoint->path.remote, way->remote, 16);
		endpoint->peer_local = way->local;
	}
	endpoint_take(endpoint, err ? INPUT_UNRESOLVED : INPUT_RESOLVED);
	event_post_status(endpoint, err ? RDMA_CM_EVENT_ADDR_ERROR : RDMA_CM_EVENT_ADDR_RESOLVED, -err);
}

void resolve_cancel(struct endpoint *endpoint)
{
	if (!endpoint->search)
		return;
	list_remove(&endpoint->search->node);
	free(endpoint->search);
	endpoint->search = NULL;
}

static int search_begin(struct endpoint *endpoint, const struct resolution *way, int timeout_ms)
	REQUIRES(agent.lock)
{
	struct search *search = malloc(sizeof(*search));
	uint64_t now_ns = clock_now_ns();

	if (!search)
		return ENOMEM;
	*search = (struct search){ .endpoint = endpoint, .way = *way, .step_ns = LOOK_FIRST_NS };
	search->end_ns = timeout_ms < 0 ? TIME_NEVER : now_ns + (uint64_t)timeout_ms * 1000000u;
	search->look_ns = now_ns + LOOK_FIRST_NS;
	list_add_tail(&agent.searches, &search->node);
	endpoint->search = search;
	endpoint_take(endpoint, INPUT_HOP_AWAITED);
	return 0;
}

uint64_t resolve_deadline(void)
{
	uint64_t first_ns = TIME_NEVER;
	struct list *node;

	list_for_each(node, &agent.searches) {
		const struct search *search = list_entry(node, struct search, node);

		if (search->look_ns < first_ns)
			first_ns = search->look_ns;
	}
	return first_ns;
}

/* A search that is due; its next look is set. */
static struct search *search_next(uint64_t now_ns) REQUIRES(agent.lock)
{
	struct list *node;

	list_for_each(node, &agent.searches) {
		struct search *search = list_entry(node, struct search, node);

		if (search->look_ns > now_ns)
			continue;
		search->step_ns = search->step_ns < LOOK_LAST_NS ? 2 * search->step_ns : LOOK_LAST_NS;
		search->look_ns = now_ns + search->step_ns;
		if (search->look_ns > search->end_ns && now_ns < search->end_ns)
			search->look_ns = search->end_ns;
		return search;
	}
	return NULL;
}

/*
 * All that wait for one destination are told what was found of it. True: some no longer wait, as nobody answers;
 * *silent: the destination of one of them, to be explained without the lock.
 */
static bool search_conclude(const struct resolution *way, bool answers, uint64_t now_ns,
			    struct endpoint_address *silent) REQUIRES(agent.lock)
{
	struct list *node, *following;
	bool is_silent = false;

	for (node = agent.searches.next; node != &agent.searches; node = following) {
		struct search *search = list_entry(node, struct search, node);
		struct endpoint *endpoint = search->endpoint;
		int err = answers ? 0 : ETIMEDOUT;

		following = node->next;
		if (memcmp(search->way.port.address, way->port.address, 16) ||
		    memcmp(search->way.remote, way->remote, 16) ||
		    search->way.destination.scope != way->destination.scope ||
		    (!answers && now_ns < search->end_ns))
			continue;
		if (err) {
			*silent = search->way.destination;
			is_silent = true;
		}
		resolve_end(endpoint, &search->way, err);
		resolve_cancel(endpoint);
	}
	return is_silent;
}

/* The kernel is asked without the lock; an endpoint may be destroyed meanwhile. */
void resolve_tick(uint64_t now_ns)
{
	struct endpoint_address silent;
	struct resolution way;
	struct search *search;
	struct gsi *gsi;
	bool answers;

	agent_lock();
	while (agent.protocol && (search = search_next(now_ns))) {
		way = search->way;
		gsi = agent.gsi;
		agent_unlock();
		answers = net_neighbour_answers(gsi_net(gsi), &way.port, way.remote);
		agent_lock();
		if (!search_conclude(&way, answers, now_ns, &silent))
			continue;
		agent_unlock();
		explain_address("rdma_resolve_addr", &silent, ETIMEDOUT);
		agent_lock();
	}
	agent_unlock();
}

/* ---- resolve an address ---- */

/* The source that a call names, or none, for an endpoint that has not been bound. */
static int bind_source(struct endpoint *endpoint, const struct sockaddr *source,
		       const struct endpoint_address *destination)
{
	struct endpoint_address address = { .family = destination->family };
	int err;

	if (endpoint->state == STATE_BOUND)
		return endpoint->source.family == destination->family ? 0 : EINVAL;
	if (source && source->sa_family) {
		err = address_read(source, &address);
		if (err)
			return err;
		if (address.family != destination->family)
			return EINVAL;
	} else {
		address.scope = destination->scope;
		address.pkey = destination->pkey;
		if (address.family == AF_INET)
			memcpy(address.bytes, mapped_prefix, sizeof(mapped_prefix));
	}
	/* A source port that the application did not choose is no claim on the host. */
	return address_bind(endpoint, &address, address.port != 0);
}

/*
 * Without a route the call fails; a device that is missing on the way, or a next hop that does not answer, is an
 * ADDR_ERROR. Both leave the endpoint bound.
 */
int endpoint_resolve_address(struct endpoint *endpoint, const struct sockaddr *source,
			     const struct sockaddr *destination, int timeout_ms)
{
	static const uint8_t loopback[4] = { 127, 0, 0, 1 };
	struct resolution way = { .local = false };
	int err = address_read(destination, &way.destination);

	if (!err)
		err = endpoint_enter(endpoint, ENDPOINT_CALL_ADDRESS);
	if (err)
		return err;
	err = bind_source(endpoint, source, &way.destination);
	if (err) {
		explain_address("rdma_resolve_addr", &way.destination, err);
		return endpoint_exit(endpoint, ENDPOINT_CALL_ADDRESS, err);
	}
	/* "Any" as a destination is this host itself, as Linux has it. */
	if (address_is_any(&way.destination) && way.destination.family == AF_INET)
		memcpy(way.destination.bytes + 12, loopback, sizeof(loopback));
	else if (address_is_any(&way.destination))
		way.destination.bytes[15] = 1;
	way.source = endpoint->source;
	err = resolve_soon(&way);
	explain_address("rdma_resolve_addr", &way.destination, err);
	agent_lock();
	endpoint->busy = false;
	endpoint_move(endpoint, ENDPOINT_CALL_ADDRESS);
	if (!err && way.silent)
		err = search_begin(endpoint, &way, timeout_ms);
	else if (way.by_fabric || (err != ENETUNREACH && err != EHOSTUNREACH)) {
		resolve_end(endpoint, &way, err);
		err = 0;
	}
	agent_unlock();
	return err;
}

/* ---- resolve a route ---- */

/* As Linux has it on the wire: entropy of the two IP ports, for routers that balance by flow label.
 */
static uint32_t flow_label(const struct endpoint *endpoint)
{
	uint32_t given = be32toh(endpoint->source.flow_info) & 0xfffff;
	uint32_t hash;

	if (endpoint->source.family == AF_INET6 && given)
		return given;
	hash = endpoint->source.port * 31u + endpoint->destination.port;
	return (hash & 0xfffff) >> 8;
}

void path_fill(struct endpoint *endpoint)
{
	struct endpoint_path *path = &endpoint->path;
	const struct net_gid *port = &endpoint->port->gid;

	path->pkey = port->pkey;
	path->mtu = (uint8_t)port->active_mtu;
	path->rate = IBV_RATE_100_GBPS;	/* throttles nobody; every device knows the number */
	path->hop_limit = HOP_LIMIT;
	path->traffic_class = endpoint->tos_set ? endpoint->tos : 0;
	path->flow_label = flow_label(endpoint);
	path->service_level = 0;
	path->lifetime = endpoint->ack_timeout_set && endpoint->ack_timeout ?
			 (uint8_t)(endpoint->ack_timeout - 1) : CM_PACKET_LIFETIME;
}

/* ---- the same through a fabric: subnet administration is asked ---- */

struct route_question {
	struct endpoint *endpoint;
	struct sa_query *query;
	struct ib_path_record asked;
};

static void route_end(struct endpoint *endpoint, int err) REQUIRES(agent.lock)
{
	if (!endpoint_take(endpoint, err ? INPUT_UNROUTED : INPUT_ROUTED))
		return;
	event_post_status(endpoint, err ? RDMA_CM_EVENT_ROUTE_ERROR : RDMA_CM_EVENT_ROUTE_RESOLVED, -err);
}

static void route_answered(void *owner, const struct sa_answer *answer)
{
	struct route_question *question = owner;
	struct endpoint *endpoint = question->endpoint;

	lock_assert_held(&agent.lock);
	endpoint->question = NULL;
	route_end(endpoint, ib_path_answered(endpoint, &question->asked, answer));
	free(question);
}

void route_cancel(struct endpoint *endpoint)
{
	if (!endpoint->question)
		return;
	sa_cancel(endpoint->question->query);
	free(endpoint->question);
	endpoint->question = NULL;
}

/*
 * As in Linux it is repeated within the time that the application gives; silence is a ROUTE_ERROR with
 * ETIMEDOUT, a refusal one with EINVAL. 0 or ENOMEM.
 */
static int route_ask(struct endpoint *endpoint, int timeout_ms) REQUIRES(agent.lock)
{
	struct route_question *question = calloc(1, sizeof(*question));
	struct sa_question ask = { .port = endpoint->port->gid.ib_port, .method = MAD_METHOD_GET,
				   .record = RECORD_PATH_RECORD };
	int err;

	if (!question)
		return ENOMEM;
	endpoint->path.pkey = 0;
	endpoint_take(endpoint, INPUT_PATH_AWAITED);
	err = ib_path_ask(endpoint, &question->asked, &ask.components);
	if (err)
		goto end;
	question->endpoint = endpoint;
	question->asked.service_id = address_service_id(&endpoint->destination, endpoint->space);
	ask.components |= SA_PATH_SERVICE_ID;
	ask.value = &question->asked;
	ask.timeout_ns = timeout_ms < 0 ? TIME_NEVER / 2 : (uint64_t)timeout_ms * NS_PER_MS;
	endpoint->question = question;
	err = sa_ask(agent.sa, &ask, route_answered, question, clock_now_ns(), &question->query);
	if (!err)
		return 0;
	endpoint->question = NULL;
end:
	free(question);
	route_end(endpoint, err);
	return 0;
}

/* The interface may have gone since: that is what a route error on RoCE can be. */
int endpoint_resolve_route(struct endpoint *endpoint, int timeout_ms)
{
	struct net_gid port;
	uint64_t now_ns = clock_now_ns();
	bool fresh;
	int err = endpoint_enter(endpoint, ENDPOINT_CALL_ROUTE);

	if (err)
		return err;
	agent_lock();
	if (endpoint_is_ib(endpoint)) {
		endpoint->busy = false;
		err = route_ask(endpoint, timeout_ms);
		agent_unlock();
		return err;
	}
	fresh = now_ns - endpoint->port->checked_ns < ROUTE_FRESH_NS;
	agent_unlock();
	if (!fresh)
		err = net_find_gid(gsi_net(agent.gsi), endpoint->port->gid.gid.raw,
				    endpoint->port->gid.interface_index, &port);
	agent_lock();
	endpoint->busy = false;
	if (err) {
		event_post_status(endpoint, RDMA_CM_EVENT_ROUTE_ERROR, -err);
	} else {
		path_fill(endpoint);
		endpoint_move(endpoint, ENDPOINT_CALL_ROUTE);
		event_post_status(endpoint, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	}
	agent_unlock();
	return 0;
}
