/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Addresses, and which device and path they mean. A GID of a RoCE port is an IP address, so AF_IB
 * is the two other families written differently: without an IP CM header in requests, and with the
 * GID of index 0 as one more address that works inside the host.
 *
 * The kernel's neighbour tables are not asked here: a host where nobody answers is found by
 * the REQ. So an address resolves, or not, before rdma_resolve_addr() returns.
 */
#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "cm/internal.h"
#include "platform/clock.h"

#define HOP_LIMIT	64

static const uint8_t mapped_prefix[12] = { [10] = 0xff, [11] = 0xff };
static const uint8_t zero[16];

/* ---- struct sockaddr and back ---- */

bool address_is_v4(const uint8_t bytes[16])
{
	return !memcmp(bytes, mapped_prefix, sizeof(mapped_prefix));
}

static void read_ib(const struct sockaddr_ib *ib, struct endpoint_address *out)
{
	memcpy(out->bytes, &ib->sib_addr, 16);
	out->service_id = be64toh(ib->sib_sid);
	out->mask = be64toh(ib->sib_sid_mask);
	out->flow_info = ib->sib_flowinfo;
	out->pkey = be16toh(ib->sib_pkey);
	out->port = (uint16_t)(out->service_id & out->mask);
}

int address_read(const struct sockaddr *address, struct endpoint_address *out)
{
	const struct sockaddr_in *v4 = (const void *)address;
	const struct sockaddr_in6 *v6 = (const void *)address;

	*out = (struct endpoint_address){ .family = address->sa_family };
	switch (address->sa_family) {
	case AF_INET:
		memcpy(out->bytes, mapped_prefix, sizeof(mapped_prefix));
		memcpy(out->bytes + 12, &v4->sin_addr, 4);
		out->port = be16toh(v4->sin_port);
		return 0;
	case AF_INET6:
		memcpy(out->bytes, &v6->sin6_addr, 16);
		out->port = be16toh(v6->sin6_port);
		out->scope = v6->sin6_scope_id;
		out->flow_info = v6->sin6_flowinfo;
		return 0;
	case AF_IB:
		read_ib((const void *)address, out);
		return 0;
	default:
		return EAFNOSUPPORT;
	}
}

static void write_ib(const struct endpoint_address *address, struct sockaddr_ib *ib)
{
	ib->sib_family = AF_IB;
	ib->sib_pkey = htobe16(address->pkey);
	ib->sib_flowinfo = address->flow_info;
	memcpy(&ib->sib_addr, address->bytes, 16);
	ib->sib_sid = htobe64(address->service_id);
	ib->sib_sid_mask = htobe64(address->mask);
}

void address_write(const struct endpoint_address *address, struct sockaddr_storage *out)
{
	struct sockaddr_in *v4 = (void *)out;
	struct sockaddr_in6 *v6 = (void *)out;

	memset(out, 0, sizeof(*out));
	out->ss_family = address->family;
	switch (address->family) {
	case AF_INET:
		memcpy(&v4->sin_addr, address->bytes + 12, 4);
		v4->sin_port = htobe16(address->port);
		break;
	case AF_INET6:
		memcpy(&v6->sin6_addr, address->bytes, 16);
		v6->sin6_port = htobe16(address->port);
		v6->sin6_scope_id = address->scope;
		v6->sin6_flowinfo = address->flow_info;
		break;
	case AF_IB:
		write_ib(address, (void *)out);
		break;
	}
}

bool address_is_any(const struct endpoint_address *address)
{
	if (address->family == AF_INET)
		return !memcmp(address->bytes + 12, zero, 4);
	return !memcmp(address->bytes, zero, 16);
}

bool address_is_link_local(const uint8_t bytes[16])
{
	return bytes[0] == 0xfe && (bytes[1] & 0xc0) == 0x80;
}

/* "Any" as a destination is this host itself, as Linux has it. */
static void any_to_loopback(struct endpoint_address *address)
{
	static const uint8_t v4[4] = { 127, 0, 0, 1 };

	if (address->family == AF_INET)
		memcpy(address->bytes + 12, v4, sizeof(v4));
	else
		address->bytes[15] = 1;
}

uint64_t address_service_id(const struct endpoint_address *address, uint16_t space)
{
	if (address->family == AF_IB)
		return address->service_id;
	return (uint64_t)space << 16 | address->port;
}

/* ---- bind ---- */

/* Which port has the address; none for wildcards. Not with the lock held. */
static int find_port(const struct endpoint_address *address, struct bound_port **found)
{
	struct gsi_port port;
	int err;

	if (address_is_any(address))
		return 0;
	err = gsi_find_port(agent.gsi, address->bytes, address->scope, &port);
	if (err)
		return err;
	agent_lock();
	*found = bound_port_get(&port, address->bytes, clock_now_ns());
	agent_unlock();
	return *found ? 0 : ENOMEM;
}

static void set_port(struct endpoint *endpoint, struct bound_port *port)
{
	agent_lock();
	bound_port_put(endpoint->port);
	endpoint->port = port;
	agent_unlock();
}

static int check_scope(const struct endpoint_address *address)
{
	if (address->family == AF_INET6 && address_is_link_local(address->bytes) &&
	    !address->scope)
		return EINVAL;
	return 0;
}

/* @claim: nobody else on this host may have the port. */
static int bind_to(struct endpoint *endpoint, const struct endpoint_address *address, bool claim)
{
	struct bound_port *port = NULL;
	int err = check_scope(address);

	if (!err)
		err = find_port(address, &port);
	if (err)
		return err;
	if (!endpoint->afonly_set)
		endpoint->afonly = address->family == AF_INET;
	endpoint->source = *address;
	set_port(endpoint, port);
	err = ports_take(endpoint, claim);
	if (err) {
		set_port(endpoint, NULL);
		endpoint->source = (struct endpoint_address){ .family = AF_UNSPEC };
	}
	return err;
}

int endpoint_bind(struct endpoint *endpoint, const struct sockaddr *sockaddr)
{
	struct endpoint_address address;
	int err = address_read(sockaddr, &address);

	if (!err)
		err = endpoint_enter(endpoint, CALL_BIND);
	if (err)
		return err;
	err = bind_to(endpoint, &address, true);
	explain_address("rdma_bind_addr", &address, err);
	return endpoint_exit(endpoint, CALL_BIND, err);
}

/* ---- resolve an address ---- */

struct resolution {
	struct endpoint_address source, destination;
	struct gsi_port port;
	uint8_t remote[16];	/* where packets go to: the GID 0 of a port here has another address */
	bool local;
};

/* Source not given: an address of this host is reached over its own device, from itself. */
static int resolve_local(struct resolution *way)
{
	struct gsi_port there;
	bool bound = !address_is_any(&way->source);
	int err;

	err = gsi_find_port(agent.gsi, way->destination.bytes, way->destination.scope, &there);
	if (err)
		return err;
	memcpy(way->remote, there.address, 16);
	way->local = true;
	if (bound)
		return gsi_find_port(agent.gsi, way->source.bytes, way->source.scope, &way->port);
	way->port = there;
	memcpy(way->source.bytes, way->destination.bytes, 16);
	way->source.scope = way->destination.scope;
	return 0;
}

static int resolve_remote(struct resolution *way)
{
	bool bound = !address_is_any(&way->source);
	int err = gsi_find_route(agent.gsi, bound ? way->source.bytes : zero,
				 way->destination.bytes, way->destination.scope, &way->port);

	if (err)
		return err;
	memcpy(way->remote, way->destination.bytes, 16);
	if (bound)
		return 0;
	memcpy(way->source.bytes, way->port.gid.raw, 16);
	if (way->source.family == AF_INET6 && address_is_link_local(way->source.bytes))
		way->source.scope = way->port.interface_index;
	return 0;
}

static int resolve(struct resolution *way)
{
	const struct endpoint_address *to = &way->destination;

	if (gsi_is_local(to->bytes, to->scope))
		return resolve_local(way);
	/* GID 0 of a device need not be an address of its interface. */
	if (to->family == AF_IB && address_is_link_local(to->bytes) && !resolve_local(way))
		return 0;
	return resolve_remote(way);
}

/* What the way says goes into the endpoint; lock held by nobody. 0 or ENOMEM. */
static int take_way(struct endpoint *endpoint, const struct resolution *way)
{
	struct bound_port *port;

	agent_lock();
	port = bound_port_get(&way->port, way->port.gid.raw, clock_now_ns());
	if (port) {
		bound_port_put(endpoint->port);
		endpoint->port = port;
		endpoint->source = way->source;
		endpoint->destination = way->destination;
		memcpy(endpoint->path.dgid.raw, way->destination.bytes, 16);
		memcpy(endpoint->path.remote, way->remote, 16);
		endpoint->peer_local = way->local;
	}
	agent_unlock();
	return port ? 0 : ENOMEM;
}

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
	return bind_to(endpoint, &address, address.port != 0);
}

/*
 * The errors of the call itself come from binding; those of the way there come as ADDR_ERROR,
 * and leave the endpoint bound.
 */
int endpoint_resolve_address(struct endpoint *endpoint, const struct sockaddr *source,
			     const struct sockaddr *destination, int timeout_ms)
{
	struct resolution way = { .local = false };
	int err = address_read(destination, &way.destination);

	if (!err)
		err = endpoint_enter(endpoint, CALL_ADDRESS);
	if (err)
		return err;
	err = bind_source(endpoint, source, &way.destination);
	if (err) {
		explain_address("rdma_resolve_addr", &way.destination, err);
		return endpoint_exit(endpoint, CALL_ADDRESS, err);
	}
	if (address_is_any(&way.destination))
		any_to_loopback(&way.destination);
	way.source = endpoint->source;
	err = resolve(&way);
	explain_address("rdma_resolve_addr", &way.destination, err);
	if (!err)
		err = take_way(endpoint, &way);
	agent_lock();
	endpoint->busy = false;
	endpoint->state = err ? STATE_BOUND : STATE_ADDRESS;
	event_tell(endpoint, err ? RDMA_CM_EVENT_ADDR_ERROR : RDMA_CM_EVENT_ADDR_RESOLVED, -err);
	agent_unlock();
	return 0;
}

/* ---- resolve a route ---- */

/* As Linux has it on the wire: entropy of the two IP ports, for those who balance by label. */
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
	const struct gsi_port *port = &endpoint->port->gsi;

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

/* The interface may have gone since: that is what a route error on RoCE can be. */
int endpoint_resolve_route(struct endpoint *endpoint, int timeout_ms)
{
	struct gsi_port port;
	uint64_t now_ns = clock_now_ns();
	bool fresh;
	int err = endpoint_enter(endpoint, CALL_ROUTE);

	if (err)
		return err;
	agent_lock();
	fresh = now_ns - endpoint->port->checked_ns < 1000000000u;
	agent_unlock();
	if (!fresh)
		err = gsi_find_port(agent.gsi, endpoint->port->gsi.gid.raw,
				    endpoint->port->gsi.interface_index, &port);
	agent_lock();
	endpoint->busy = false;
	if (err) {
		event_tell(endpoint, RDMA_CM_EVENT_ROUTE_ERROR, -err);
	} else {
		path_fill(endpoint);
		endpoint_move(endpoint, CALL_ROUTE);
		event_tell(endpoint, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	}
	agent_unlock();
	return 0;
}
