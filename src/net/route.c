/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * From the attributes of an address handle to the route (RoCEv2 annex A17: a GID is an IP
 * address). InfiniBand attributes (a LID, is_global 0) are refused, as by a RoCE device, and the
 * explanation says what to write instead.
 */
#include <errno.h>
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "base/ip_addr.h"
#include "base/log.h"
#include "net/net.h"
#include "platform/neighbour.h"

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

static int resolve_host_only(struct net *net, const struct gid_entry *entry,
			     const uint8_t dgid[16], const char *who, struct route *route)
{
	struct cached_route known = { .interface = 0 };	/* of no source: no packet leaves the host */
	char text[INET6_ADDRSTRLEN];
	uint64_t changes;

	memcpy(known.destination, dgid, 16);
	if (!route_cache_find(&net->routes, &known, &changes)) {
		known.local = net_is_default_gid(dgid) || netdev_is_local(&net->netlink, dgid, 0);
		if (known.local)
			route_cache_add(&net->routes, &known, changes);
	}
	if (!known.local) {
		explain("%s: GID index 0 is not an address of its interface and works inside this "
			"host only; %s is %s: use another sgid_index (ibv_devinfo -v lists them)",
			who, gid_text(dgid, text),
			ip_addr_is_multicast(dgid) ? "a multicast group, which is sent to from an address" :
						     "on another host");
		return EINVAL;
	}
	memcpy(route->source, entry->address, 16);
	memcpy(route->destination, entry->address, 16);
	route->loopback = route->default_gid = true;
	return 0;
}

static int check_families(const struct port *port, const struct gid_entry *entry,
			  const uint8_t dgid[16], uint32_t index, const char *who)
{
	static const uint8_t zero_ipv4[16] = { [10] = 0xff, 0xff };
	char text[INET6_ADDRSTRLEN];

	if (ip_addr_is_zero(dgid) || !memcmp(dgid, zero_ipv4, 16)) {
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

/*
 * Linux sends no IPv6 multicast on its loopback interface. The group is reached by its IPv4 alias there, which its
 * members have joined as well, from an IPv4 address of the interface.
 */
static int use_ipv4_carrier(const struct port *port, const uint8_t group[16], const char *who,
			    struct gid_entry *source)
{
	uint32_t index = suggest_index(port, true);
	const struct gid_entry *entry = gid_table_get(port, index);
	char text[INET6_ADDRSTRLEN];

	if (!entry || entry->host_only || !ip_addr_is_ipv4(entry->address)) {
		explain_refused(
			who, ENETUNREACH,
			"%s: %s sends no IPv6 multicast, and has no IPv4 address on which group %s "
			"could travel: add one (ip address add 127.0.0.1/8 dev lo)",
			who, port->name, gid_text(group, text));
		return ENETUNREACH;
	}
	*source = *entry;
	return 0;
}

/* No way out for packets with that source: the kernel's word, and not that it does not answer here. */
static bool is_unreachable(struct netlink *netlink, int err, const struct route *route, uint32_t interface)
{
	static const uint8_t any[16];
	struct netdev_route known;

	/* Where the kernel answers questions about routes at all, what it says of one counts. */
	if (err == EINVAL || err == EACCES)
		return !netdev_route(netlink, route->source, any, interface, &known);
	return err == ENETUNREACH || err == EHOSTUNREACH;
}

/*
 * Where @route leads: into this host, or out of it, over a next hop that answers. Where the kernel says
 * nothing (netlink is forbidden in some sandboxes) packets are tried.
 */
static int ask_kernel(struct net *net, struct route *route, const char *who)
{
	bool scoped = ip_addr_is_link_local_ipv6(route->destination);
	char from[INET6_ADDRSTRLEN], to[INET6_ADDRSTRLEN];
	uint32_t interface = scoped ? route->roce.interface : 0;
	struct netdev_route known;
	int err;

	route->loopback = netdev_is_local(&net->netlink, route->destination, route->roce.interface);
	if (route->loopback)
		return 0;
	err = netdev_route(&net->netlink, route->destination, route->source, interface, &known);
	if (err && is_unreachable(&net->netlink, err, route, interface)) {
		err = err == EHOSTUNREACH ? EHOSTUNREACH : ENETUNREACH;
		explain_refused(
			who, err,
			"%s: no route from %s to the destination GID %s: look at ip route get, and "
			"whether the GID is the peer's (ibv_query_gid there)",
			who, gid_text(route->source, from), gid_text(route->destination, to));
		return err;
	}
	/* The hardware address of a link-local one is part of it: ib_core asks for none either. */
	if (err || scoped || known.local)
		return 0;
	err = neighbour_await(&net->netlink, &known, route->source, route->destination);
	if (err)
		explain_refused(who, err,
				"%s: %s does not answer to ARP or neighbour discovery, so packets "
				"to %s cannot "
				"leave: is that host up, and is it its address? (ip neigh)",
				who, gid_text(known.hop, from), gid_text(route->destination, to));
	return err;
}

static int resolve_unicast(struct net *net, struct route *route, const char *who)
{
	struct cached_route known = { .interface = route->roce.interface };
	uint64_t changes;
	int err;

	memcpy(known.source, route->source, 16);
	memcpy(known.destination, route->destination, 16);
	if (route_cache_find(&net->routes, &known, &changes)) {
		route->loopback = known.local;
		return 0;
	}
	err = ask_kernel(net, route, who);
	known.local = route->loopback;
	if (!err)
		route_cache_add(&net->routes, &known, changes);
	return err;
}

/* ---- RoCE v1 ---- */

/*
 * Inside this host no frame is needed, nor would one come back: the ways there are those of RoCE v2. Where one of
 * both GIDs is no address, by that of lo, as from GID 0.
 */
static void resolve_v1_inside(struct net *net, const uint8_t gid[16], const uint8_t dgid[16], struct route *route)
{
	static const uint8_t on_ipv4[16] = IP_ADDR_LOOPBACK_IPV4;
	bool own = netdev_is_local(&net->netlink, gid, route->roce.interface);
	bool both = own && netdev_is_local(&net->netlink, dgid, route->roce.interface);

	route->link = ROUTE_ROCE_V2;
	route->loopback = true;
	route->default_gid = !own;
	memcpy(route->source, both ? gid : on_ipv4, 16);
	memcpy(route->destination, both ? dgid : on_ipv4, 16);
}

static int resolve_v1(struct net *net, const struct port *port, const struct gid_entry *source,
		      const uint8_t dgid[16], const char *who, struct route *route)
{
	char text[INET6_ADDRSTRLEN], hop[INET6_ADDRSTRLEN];
	struct netdev_route known;
	uint8_t mac[6];
	int err;

	route->link = ROUTE_ROCE_V1;
	memcpy(route->source, source->gid.raw, 16);
	memcpy(route->destination, dgid, 16);
	if (ip_addr_is_multicast(dgid))
		return 0;
	if (netdev_is_local(&net->netlink, dgid, port->interface_index) || net_is_default_gid(dgid)) {
		resolve_v1_inside(net, source->gid.raw, dgid, route);
		return 0;
	}
	if (ip_addr_link_local_mac(dgid, mac))
		return 0;		/* that of others the kernel has to know */
	err = netdev_route(&net->netlink, dgid, route->source, port->interface_index, &known);
	if (err || memcmp(known.hop, dgid, 16)) {
		explain_refused(who, ENETUNREACH,
				"%s: %s is %s%s: RoCE v1 stays on the Ethernet of its interface (%s): use a "
				"GID of RoCE v2 (ibv_devinfo -v lists them; VERBATIM_ROCE=both)",
				who, gid_text(dgid, text),
				err ? "on no network of this interface" : "behind the router ",
				err ? "" : gid_text(known.hop, hop), port->netdev.name);
		return ENETUNREACH;
	}
	err = neighbour_await(&net->netlink, &known, route->source, dgid);
	if (err)
		explain_refused(who, err,
				"%s: %s does not answer to ARP or neighbour discovery, so its MAC address is not "
				"known: is that host up, and is it its address? (ip neigh)",
				who, gid_text(dgid, text));
	return err;
}

int netdev_resolve(struct net *net, const struct port *port, const struct ibv_ah_attr *attr, const char *who,
		   struct route *found)
{
	struct gid_entry source;
	struct route route = { .link = ROUTE_ROCE_V2, .port = port->number,
			       .hop_limit = attr->grh.hop_limit ? attr->grh.hop_limit : ROUTE_HOP_LIMIT,
			       .traffic_class = attr->grh.traffic_class,
			       .flow_label = attr->grh.flow_label & 0xfffff };
	const uint8_t *dgid = attr->grh.dgid.raw;
	int err;

	/* The entry at the source index, checked against the destination's family. */
	lock_acquire(&net->lock);
	err = route_check_attr(port, attr, who);
	if (!err)
		source = *gid_table_get(port, attr->grh.sgid_index);
	if (!err && !source.host_only)
		err = check_families(port, &source, dgid, attr->grh.sgid_index, who);
	if (!err && !source.host_only && port->netdev.loopback && ip_addr_is_multicast(dgid) &&
	    !ip_addr_is_ipv4(source.address))
		err = use_ipv4_carrier(port, dgid, who, &source);
	lock_release(&net->lock);
	if (err)
		return err;
	route.roce.interface = port->interface_index;
	if (source.type == PORT_GID_ROCE_V1) {
		err = resolve_v1(net, port, &source, dgid, who, &route);
	} else if (source.host_only) {
		err = resolve_host_only(net, &source, dgid, who, &route);
	} else {
		memcpy(route.source, source.address, 16);
		memcpy(route.destination, dgid, 16);
		if (ip_addr_is_multicast(route.destination) && ip_addr_is_ipv4(route.source))
			net_multicast_alias(dgid, route.destination);
		if (!ip_addr_is_multicast(route.destination))
			err = resolve_unicast(net, &route, who);
	}
	if (!err)
		*found = route;
	return err;
}
