/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * IP addresses of the ports of HCAs, as those of IPoIB interfaces: the file gives them (ip=), and a
 * port that has none there has one by plan. The first HCA of the file is number 1, and its ports have
 * 127.77.0.1 and 127.78.0.1; the second one's are 127.77.0.2 and 127.78.0.2: all of 127/8 is local
 * on lo, so sockets work with them, too. One with a P_Key is that of an IPoIB child interface.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/ip_addr.h"
#include "fabric/internal.h"

#define PLAN_NETWORK	127u
#define PLAN_SUBNET	77u		/* of the first port */

/* False: none is free for it. */
static bool address_planned(const struct fabric_node *node, uint32_t port, uint8_t ip[16])
{
	const uint8_t address[4] = { PLAN_NETWORK, (uint8_t)(PLAN_SUBNET + port - 1),
				     (uint8_t)(node->ca_number >> 8), (uint8_t)node->ca_number };

	if (!node->ca_number || node->ca_number > 0xffff || !port || port > 2)
		return false;
	ip_addr_map_ipv4(ip, address);
	return true;
}

static const struct fabric_ip *address_given(const struct fabric *fabric, uint32_t node,
					     uint32_t port, unsigned index)
{
	for (unsigned i = 0; i < fabric->ips; i++)
		if (fabric->ip[i].node == node && fabric->ip[i].port == port && !index--)
			return &fabric->ip[i];
	return NULL;
}

int fabric_add_ip(struct fabric *fabric, uint32_t node, uint32_t port, const uint8_t ip[16], uint16_t pkey)
{
	const struct fabric_node *at = fabric_node_at(fabric, node);
	struct fabric_ip *larger;

	if (!fabric_port_at(fabric, node, port) || at->type != FABRIC_CA)
		return EINVAL;
	for (unsigned i = 0; i < fabric->ips; i++)
		if (!memcmp(fabric->ip[i].ip, ip, sizeof(fabric->ip[i].ip)))
			return EEXIST;
	larger = reallocarray(fabric->ip, fabric->ips + 1, sizeof(*larger));
	if (!larger)
		return ENOMEM;
	fabric->ip = larger;
	larger[fabric->ips] = (struct fabric_ip){ .node = node, .port = (uint8_t)port, .pkey = pkey };
	memcpy(larger[fabric->ips++].ip, ip, sizeof(larger->ip));
	return 0;
}

uint16_t fabric_ip_pkey(const struct fabric *fabric, const uint8_t ip[16])
{
	for (unsigned i = 0; i < fabric->ips; i++)
		if (!memcmp(fabric->ip[i].ip, ip, sizeof(fabric->ip[i].ip)))
			return fabric->ip[i].pkey;
	return 0;
}

bool fabric_ip(const struct fabric *fabric, uint32_t node, uint32_t port, unsigned index,
	       uint8_t ip[16])
{
	const struct fabric_node *at = fabric_node_at(fabric, node);
	const struct fabric_ip *given;

	if (!fabric_port_at(fabric, node, port) || !port)
		return false;
	given = address_given(fabric, node, port, index);
	if (given)
		memcpy(ip, given->ip, sizeof(given->ip));
	return given || (!index && address_planned(at, port, ip));
}

uint32_t fabric_find_ip(const struct fabric *fabric, const uint8_t ip[16], uint32_t *port)
{
	uint8_t planned[16];
	uint16_t number;

	for (unsigned i = 0; i < fabric->ips; i++)
		if (!memcmp(fabric->ip[i].ip, ip, sizeof(fabric->ip[i].ip))) {
			*port = fabric->ip[i].port;
			return fabric->ip[i].node;
		}
	if (!ip_addr_is_ipv4(ip) || ip[12] != PLAN_NETWORK || ip[13] < PLAN_SUBNET)
		return FABRIC_NONE;
	*port = ip[13] - PLAN_SUBNET + 1;
	number = get_be16(ip + 14);
	for (uint32_t node = 0; node < fabric->nodes; node++)
		if (fabric->node[node].ca_number == number)
			return fabric_ip(fabric, node, *port, 0, planned) &&
					       !memcmp(planned, ip, sizeof(planned))
				       ? node : FABRIC_NONE;
	return FABRIC_NONE;
}

uint32_t fabric_find_gid(const struct fabric *fabric, const uint8_t gid[16], uint32_t *port)
{
	uint8_t own[16];

	for (uint32_t node = 0; node < fabric->nodes; node++)
		for (uint32_t number = 1; fabric->node[node].type == FABRIC_CA &&
					  number <= fabric->node[node].ports; number++)
			for (unsigned i = 0; fabric_gid(fabric, node, number, i, own); i++)
				if (get_be64(own + 8) && !memcmp(own, gid, sizeof(own))) {
					*port = number;
					return node;
				}
	return FABRIC_NONE;
}
