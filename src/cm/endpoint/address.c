/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Addresses as applications write them, and binding to them. A GID of a RoCE port is an IP address,
 * so AF_IB is the two other families written differently: without an IP CM header in requests, and
 * with the GID of index 0 as one more address that works inside the host.
 */
#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "base/ip_addr.h"
#include "cm/endpoint/internal.h"
#include "platform/clock.h"

const uint8_t mapped_prefix[12] = { [10] = 0xff, [11] = 0xff };
static const uint8_t zero[16];

/* ---- struct sockaddr and back ---- */

int address_read(const struct sockaddr *address, struct endpoint_address *out)
{
	const struct sockaddr_in *v4 = (const void *)address;
	const struct sockaddr_in6 *v6 = (const void *)address;
	const struct sockaddr_ib *ib = (const void *)address;

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
		memcpy(out->bytes, &ib->sib_addr, 16);
		out->service_id = be64toh(ib->sib_sid);
		out->mask = be64toh(ib->sib_sid_mask);
		out->flow_info = ib->sib_flowinfo;
		out->pkey = be16toh(ib->sib_pkey);
		out->port = (uint16_t)(out->service_id & out->mask);
		return 0;
	default:
		return EAFNOSUPPORT;
	}
}

void address_write(const struct endpoint_address *address, struct sockaddr_storage *out)
{
	struct sockaddr_in *v4 = (void *)out;
	struct sockaddr_in6 *v6 = (void *)out;
	struct sockaddr_ib *ib = (void *)out;

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
		ib->sib_pkey = htobe16(address->pkey);
		ib->sib_flowinfo = address->flow_info;
		memcpy(&ib->sib_addr, address->bytes, 16);
		ib->sib_sid = htobe64(address->service_id);
		ib->sib_sid_mask = htobe64(address->mask);
		break;
	}
}

bool address_is_any(const struct endpoint_address *address)
{
	if (address->family == AF_INET)
		return !memcmp(address->bytes + 12, zero, 4);
	return !memcmp(address->bytes, zero, 16);
}

uint64_t address_service_id(const struct endpoint_address *address, uint16_t space)
{
	if (address->family == AF_IB)
		return address->service_id;
	return (uint64_t)space << 16 | address->port;
}

/* ---- bind ---- */

/*
 * Which port has the address; none for wildcards. What stands for the node itself on a fabric is that port's
 * address then. Not with the lock held.
 */
static int find_port(struct endpoint_address *address, struct bound_port **found)
{
	struct net_gid port;
	int err;

	if (address_is_any(address))
		return 0;
	err = net_find_gid(gsi_net(agent.gsi), address->bytes, address->scope, &port);
	if (err)
		return err;
	if (port.link == ROUTE_IB && ip_addr_is_localhost(address->bytes))
		memcpy(address->bytes, port.address, sizeof(address->bytes));
	agent_lock();
	*found = bound_port_get(&port, 0, address->bytes, clock_now_ns());
	agent_unlock();
	return *found ? 0 : ENOMEM;
}

static void address_set_port(struct endpoint *endpoint, struct bound_port *port)
{
	agent_lock();
	endpoint_set_port(endpoint, port);
	agent_unlock();
}

int address_bind(struct endpoint *endpoint, const struct endpoint_address *wanted, bool claim)
{
	struct endpoint_address address = *wanted;
	struct bound_port *port = NULL;
	int err;

	if (address.family == AF_INET6 && ip_addr_is_link_local_ipv6(address.bytes) && !address.scope)
		return EINVAL;
	err = find_port(&address, &port);
	if (err)
		return err;
	if (!endpoint->afonly_set)
		endpoint->afonly = address.family == AF_INET;
	endpoint->source = address;
	address_set_port(endpoint, port);
	err = ports_take(endpoint, claim);
	if (err) {
		address_set_port(endpoint, NULL);
		endpoint->source = (struct endpoint_address){ .family = AF_UNSPEC };
	}
	return err;
}

int endpoint_bind(struct endpoint *endpoint, const struct sockaddr *sockaddr)
{
	struct endpoint_address address;
	int err = address_read(sockaddr, &address);

	if (!err)
		err = endpoint_enter(endpoint, ENDPOINT_CALL_BIND);
	if (err)
		return err;
	err = address_bind(endpoint, &address, true);
	explain_address("rdma_bind_addr", &address, err);
	return endpoint_exit(endpoint, ENDPOINT_CALL_BIND, err);
}
