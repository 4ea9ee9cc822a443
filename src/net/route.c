/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * From the attributes of an address handle to the address vector (RoCEv2 annex A17: a GID is an IP
 * address). InfiniBand attributes (a LID, is_global 0) are refused, as by a RoCE device, and the
 * explanation says what to write instead.
 */
#include <errno.h>
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "net/net.h"

void net_multicast_alias(const uint8_t gid[16], uint8_t alias[16])
{
	uint32_t hash = ip_addr_hash(gid);

	memcpy(alias, gid, 16);
	if (ip_addr_is_ipv4(gid))
		return;
	memset(alias, 0, 10);
	alias[10] = alias[11] = 0xff;
	alias[12] = 239;
	alias[13] = 192 | (hash >> 16 & 0x3f);	/* 239.192.0.0/14: organisation-local (RFC 2365) */
	alias[14] = (uint8_t)(hash >> 8);
	alias[15] = (uint8_t)hash;
}

static const char *gid_text(const uint8_t gid[16], char text[INET6_ADDRSTRLEN])
{
	return inet_ntop(AF_INET6, gid, text, INET6_ADDRSTRLEN);
}

/* Which GID index a program should use, for messages: the first IPv4 one, else any. */
static uint32_t suggest_index(const struct port *port, bool ipv4)
{
	uint32_t i;

	for (i = 1; i < GID_TABLE_SIZE; i++)
		if (port->gid[i].valid && ip_addr_is_ipv4(port->gid[i].gid.raw) == ipv4)
			return i;
	return 0;
}

bool net_is_default_gid(const uint8_t gid[16])
{
	struct named_netdev *named;
	int i, count;
	bool found = false;

	if (naming_list(&named, &count))
		return false;
	for (i = 0; i < count; i++) {
		uint64_t guid = port_guid(&named[i].netdev);

		found |= gid[0] == 0xfe && gid[1] == 0x80 && !memcmp(gid + 8, &guid, 8);
	}
	free(named);
	return found;
}

static int resolve_host_only(struct netlink *netlink, const struct gid_entry *entry,
			     const uint8_t dgid[16], const char *who, struct av *av)
{
	char text[INET6_ADDRSTRLEN];

	if (!net_is_default_gid(dgid) && !netdev_is_local(netlink, dgid, 0)) {
		explain("%s: GID index 0 is not an address of its interface and works inside this "
			"host only; %s is on another host: use another sgid_index (ibv_devinfo -v "
			"lists them)", who, gid_text(dgid, text));
		return EINVAL;
	}
	memcpy(av->source, entry->address, 16);
	memcpy(av->destination, entry->address, 16);
	av->loopback = av->default_gid = true;
	return 0;
}

static int check_families(const struct port *port, const struct gid_entry *entry,
			  const uint8_t dgid[16], uint32_t index, const char *who)
{
	static const uint8_t zero[16];
	char text[INET6_ADDRSTRLEN];

	if (!memcmp(dgid, zero, 16)) {
		explain("%s: the destination GID (grh.dgid) is all zero: exchange GIDs with the "
			"peer first",
			who);
		return EINVAL;
	}
	if (ip_addr_is_multicast(dgid) && ip_addr_is_ipv4(entry->address))
		return 0;		/* an IPv6 group has an IPv4 alias */
	if (ip_addr_is_ipv4(dgid) != ip_addr_is_ipv4(entry->address)) {
		explain("%s: destination GID %s and source GID index %u are of different address "
			"families: use sgid_index %u here", who, gid_text(dgid, text), index,
			suggest_index(port, ip_addr_is_ipv4(dgid)));
		return EINVAL;
	}
	return 0;
}

static int route_check_attr(const struct port *port, const struct ibv_ah_attr *attr,
			    const char *who)
{
	if (attr->port_num != PORT_NUMBER) {
		explain("%s: ah_attr.port_num %u: the device has port 1 only", who, attr->port_num);
		return EINVAL;
	}
	if (!attr->is_global) {
		explain("%s: ah_attr.is_global is 0 (dlid %u), but a RoCE port has no LIDs: set "
			"is_global 1, grh.dgid to the peer's GID, grh.sgid_index %u, grh.hop_limit "
			"64", who,
			attr->dlid, suggest_index(port, true));
		return EINVAL;
	}
	if (!gid_table_get(port, attr->grh.sgid_index)) {
		explain("%s: grh.sgid_index %u is empty on %s: use %u (ibv_devinfo -v lists them)", who,
			attr->grh.sgid_index, port->name, suggest_index(port, true));
		return EINVAL;
	}
	return 0;
}

/* GID entry at the source index, checked against the destination's family. */
static int get_source(struct net *net, const struct port *port, const struct ibv_ah_attr *attr, const char *who,
		      struct gid_entry *source)
{
	int err;

	lock_acquire(&net->lock);
	err = route_check_attr(port, attr, who);
	if (!err)
		*source = *gid_table_get(port, attr->grh.sgid_index);
	if (!err && !source->host_only)
		err = check_families(port, source, attr->grh.dgid.raw, attr->grh.sgid_index, who);
	lock_release(&net->lock);
	return err;
}

int route_resolve(struct net *net, const struct port *port, const struct ibv_ah_attr *attr, const char *who,
		  struct av *av)
{
	struct gid_entry source;
	struct av route = { .hop_limit = attr->grh.hop_limit ? attr->grh.hop_limit : 64,
			    .traffic_class = attr->grh.traffic_class,
			    .flow_label = attr->grh.flow_label & 0xfffff };
	int err = get_source(net, port, attr, who, &source);

	if (err)
		return err;
	route.interface = port->interface_index;
	if (source.host_only) {
		err = resolve_host_only(&net->netlink, &source, attr->grh.dgid.raw, who, &route);
	} else {
		memcpy(route.source, source.address, 16);
		memcpy(route.destination, attr->grh.dgid.raw, 16);
		if (ip_addr_is_multicast(route.destination) && ip_addr_is_ipv4(route.source))
			net_multicast_alias(attr->grh.dgid.raw, route.destination);
		route.loopback = !ip_addr_is_multicast(route.destination) &&
				 netdev_is_local(&net->netlink, route.destination, route.interface);
	}
	if (!err)
		*av = route;
	return err;
}
