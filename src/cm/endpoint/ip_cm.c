/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The addresses of the RDMA IP CM service (IBTA annex A11): the first 36 bytes of the private data
 * of a REQ and a SIDR_REQ between IP endpoints. Endpoints of AF_IB have none.
 *
 *	0 version (0)  1 IP version in the upper 4 bits  2 source port  4 source  20 destination
 *
 * IPv4 addresses stand in the last 4 of their 16 bytes, behind zeros.
 */
#include <string.h>

#include "base/bytes.h"
#include "base/ip_addr.h"
#include "cm/endpoint/internal.h"

size_t ip_cm_bytes(const struct endpoint *endpoint)
{
	return endpoint->source.family == AF_IB ? 0 : CM_IP_HEADER_BYTES;
}

static void write_ip(const struct endpoint_address *address, uint8_t out[16])
{
	if (address->family == AF_INET)
		memcpy(out + 12, address->bytes + 12, 4);
	else
		memcpy(out, address->bytes, 16);
}

void ip_cm_write(const struct endpoint *endpoint, uint8_t out[CM_IP_HEADER_BYTES])
{
	memset(out, 0, CM_IP_HEADER_BYTES);
	out[1] = endpoint->source.family == AF_INET ? 4 << 4 : 6 << 4;
	put_be16(out + 2, endpoint->source.port);
	write_ip(&endpoint->source, out + 4);
	write_ip(&endpoint->destination, out + 20);
}

static void ip_cm_read_ib(const struct endpoint *listener, const struct cm_message *message,
			  const struct mad_address *from, struct endpoint *endpoint)
{
	struct endpoint_address *here = &endpoint->source, *there = &endpoint->destination;
	bool connected = message->kind == CM_MESSAGE_REQ;
	struct net_ib_port now;

	*here = listener->source;
	here->mask = UINT64_MAX;
	memcpy(here->bytes, connected ? message->req.remote_gid : from->local, 16);
	if (!connected && from->ib.port && net_ib_port(gsi_net(agent.gsi), from->ib.port, &now))
		memcpy(here->bytes, now.gid.raw, 16);
	*there = (struct endpoint_address){ .family = AF_IB, .pkey = here->pkey };
	memcpy(there->bytes, connected ? message->req.local_gid : from->remote, 16);
}

bool ip_cm_read(const struct endpoint *listener, const struct cm_message *message,
		const struct mad_address *from, struct endpoint *endpoint)
{
	struct cm_ip_addresses ip;
	uint16_t family;
	bool local;

	if (listener->source.family == AF_IB) {
		ip_cm_read_ib(listener, message, from, endpoint);
		return true;
	}
	if (!cm_message_ip(message, &ip))
		return false;
	family = ip.ipv6 ? AF_INET6 : AF_INET;
	local = ip.ipv6 && ip_addr_is_link_local_ipv6(ip.destination);
	endpoint->source = (struct endpoint_address){
		.family = family, .port = listener->source.port,
		.scope = local ? from->interface : 0,
	};
	memcpy(endpoint->source.bytes, ip.destination, 16);
	endpoint->destination = (struct endpoint_address){
		.family = family, .port = ip.source_port, .scope = endpoint->source.scope,
	};
	memcpy(endpoint->destination.bytes, ip.source, 16);
	return true;
}
