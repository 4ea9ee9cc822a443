/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which GID an address has, which one a destination is reached from, for connection management. The kernel is
 * asked each time: addresses come and go, and devices need not be open.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ip_addr.h"
#include "net/net.h"
#include "platform/neighbour.h"
#include "wire/packet.h"

/* ---- ports ---- */

/*
 * How well a GID fits: 0: not at all. Of one address, those of @link before others. @stands_in: for an
 * address of the host itself, one that other hosts reach.
 */
static unsigned find_fit(const struct port *port, const struct gid_entry *entry, uint8_t link,
			 const uint8_t address[16], bool stands_in)
{
	bool same = entry->valid && !memcmp(entry->gid.raw, address, 16);
	/* Every 127.x.y.z belongs to lo, which has one of them as a GID. */
	bool like = port->netdev.loopback && ip_addr_is_loopback_ipv4(address) &&
		    ip_addr_is_loopback_ipv4(entry->gid.raw);

	if (stands_in)
		like = !entry->host_only && !ip_addr_is_link_local_ipv6(entry->address) &&
		       ip_addr_is_ipv4(entry->address) == ip_addr_is_ipv4(address);
	if (!entry->valid || (!same && !like))
		return 0;
	return (same ? 3u : 1u) + (gid_entry_link(entry) == link);
}

static bool find_in(const struct port *port, uint8_t link, const uint8_t address[16], bool stands_in,
		    struct net_gid *found)
{
	uint32_t i, best = 0;
	unsigned fit, most = 0;

	for (i = 0; i < GID_TABLE_SIZE; i++) {
		fit = find_fit(port, &port->gid[i], link, address, stands_in);
		if (fit <= most)
			continue;
		best = i;
		most = fit;
	}
	if (!most)
		return false;
	*found = (struct net_gid){ .interface_index = port->interface_index, .guid = port->guid,
				    .port = port->number, .gid_index = best, .gid = port->gid[best].gid,
				    .active_mtu = port_active_mtu(port), .pkey = port->pkey[0],
				    .link = gid_entry_link(&port->gid[best]) };
	memcpy(found->device, port->name, sizeof(found->device));
	memcpy(found->interface, port->netdev.name, sizeof(found->interface));
	memcpy(found->address, port->gid[best].address, 16);
	return true;
}

int net_find_gid(struct net *net, const uint8_t address[16], uint32_t interface, struct net_gid *found)
{
	return net_find_gid_of(net, 0, address, interface, found);
}

int net_find_gid_of(struct net *net, uint8_t link, const uint8_t address[16], uint32_t interface,
		    struct net_gid *found)
{
	struct named_netdev *named;
	struct port *port;
	int i, count, err;
	bool has = false, stands_in = false;
	struct net_gid other;
	struct list *node;

	if (net->maker.find && (!link || link == ROUTE_IB)) {
		err = net->maker.find(net->maker.owner, address, found);
		if (err != EADDRNOTAVAIL)
			return err;
	}
	err = naming_list(&named, &count);
	if (err)
		return err;
	port = malloc(sizeof(*port));
	for (i = 0; port && !has && i < count; i++) {
		if (interface && ip_addr_is_link_local_ipv6(address) && named[i].netdev.index != interface)
			continue;
		/* Copy of a port: GID indices of the open port, else those it would get. */
		port_init(port, net->config, &named[i]);
		lock_acquire(&net->lock);
		list_for_each(node, &net->ports) {
			const struct port *open = list_entry(node, struct port, node);

			if (!open->gone && !strcmp(open->name, port->name))
				memcpy(port->gid, open->gid, sizeof(port->gid));
		}
		lock_release(&net->lock);
		gid_table_update(port);
		has = find_in(port, link, address, false, found);
		/* Linux's rdma_cm takes it for any address, and chooses a device, too. */
		if (!has && !stands_in && ip_addr_is_localhost(address))
			stands_in = find_in(port, link, address, true, &other);
	}
	free(named);
	if (!port)
		return ENOMEM;
	free(port);
	if (has)
		return 0;
	if (!net_is_local(net, address, interface))
		return EADDRNOTAVAIL;
	if (!stands_in)
		return ENODEV;
	*found = other;
	return 0;
}

void net_group_gid(const struct net_gid *gid, const uint8_t group[16], uint8_t mgid[16])
{
	memcpy(mgid, group, 16);
	if (gid->link != ROUTE_ROCE_V1 || !ip_addr_is_ipv4(group))
		return;
	mgid[0] = 0xff;		/* ff0e::ffff:a.b.c.d, as Linux */
	mgid[1] = 0x0e;
}

bool net_is_local(struct net *net, const uint8_t address[16], uint32_t interface)
{
	return netdev_is_local(&net->netlink, address, interface) ||
	       (ip_addr_is_link_local_ipv6(address) && net_is_default_gid(address));
}

/* ---- of a fabric ---- */

bool net_has_interfaces(void)
{
	struct named_netdev *named;
	int count;

	if (naming_list(&named, &count))
		return false;
	free(named);
	return count;
}

bool net_has_ib(const struct net *net)
{
	return net->maker.look;
}

bool net_ib_port(struct net *net, uint16_t ib_port, struct net_ib_port *now)
{
	return net->maker.look && net->maker.look(net->maker.owner, ib_port, now);
}

unsigned net_ib_pkey_index(const struct net_ib_port *now, uint16_t pkey)
{
	unsigned found = PKEY_TABLE_SIZE;

	for (unsigned i = now->pkeys; i-- > 0;) {
		if ((now->pkey[i] ^ pkey) & ~PKEY_FULL || !(now->pkey[i] & ~PKEY_FULL))
			continue;
		if (found == PKEY_TABLE_SIZE || now->pkey[i] & PKEY_FULL)
			found = i;
	}
	return found;
}

static bool net_pkeys(struct net *net, uint16_t ib_port, struct net_ib_port *now)
{
	if (ib_port)
		return net_ib_port(net, ib_port, now);
	now->pkeys = 1;
	now->pkey[0] = PKEY_DEFAULT;
	return true;
}

uint16_t net_pkey(struct net *net, uint16_t ib_port, unsigned index)
{
	struct net_ib_port now;

	return net_pkeys(net, ib_port, &now) && index < now.pkeys ? now.pkey[index] : 0;
}

unsigned net_find_pkey(struct net *net, uint16_t ib_port, uint16_t pkey)
{
	struct net_ib_port now;

	return net_pkeys(net, ib_port, &now) ? net_ib_pkey_index(&now, pkey) : PKEY_TABLE_SIZE;
}

int net_find_ib_way(struct net *net, struct net_way *way)
{
	return net->maker.find_way ?
		       net->maker.find_way(net->maker.owner, !net_has_interfaces(), way) : ENOENT;
}

int net_serve_ib(struct net *net, const struct net_service *service)
{
	return net->maker.serve ? net->maker.serve(net->maker.owner, service) : ENOENT;
}

/* ---- routes ---- */

/* The first address of an interface of the family and scope that @destination is of. */
static int find_address_of(struct net *net, uint32_t interface, const uint8_t destination[16],
			   struct net_gid *found)
{
	bool link_local = !ip_addr_is_ipv4(destination) &&
			  (ip_addr_is_link_local_ipv6(destination) || (destination[1] & 0x0f) <= 2);
	struct named_netdev *named;
	unsigned a, pass;
	int i, count, err;

	err = naming_list(&named, &count);
	if (err)
		return err;
	err = ENODEV;
	for (i = 0; i < count && named[i].netdev.index != interface; i++)
		;
	for (pass = 0; i < count && err == ENODEV && pass < 2; pass++)
		for (a = 0; err == ENODEV && a < named[i].netdev.address_count; a++) {
			const struct netdev_address *at = &named[i].netdev.address[a];

			if (!at->tentative && (pass || at->link_local == link_local) &&
			    ip_addr_is_ipv4(at->address) == ip_addr_is_ipv4(destination))
				err = net_find_gid(net, at->address, interface, found);
		}
	free(named);
	return err;
}

/* The kernel reports a destination that a source cannot reach as EINVAL. */
static int route_error(int err)
{
	return err == EHOSTUNREACH || err == ENOMEM || err == EMFILE || err == ENFILE ? err :
										       ENETUNREACH;
}

static int find_chosen(struct net *net, const uint8_t destination[16], uint32_t interface,
		       struct net_gid *found)
{
	static const uint8_t any[16];
	struct netdev_route route;
	int err;

	/* An address of this host, be it one that no packet can carry: its own port. */
	if (!ip_addr_is_multicast(destination) && net_is_local(net, destination, interface))
		return net_find_gid(net, destination, interface, found);
	err = netdev_route(&net->netlink, destination, any, interface, &route);
	if (err)
		return route_error(err);
	if (ip_addr_is_zero(route.source))
		return find_address_of(net, route.interface, destination, found);
	return net_find_gid(net, route.source, route.interface, found);
}

int net_find_route(struct net *net, const uint8_t source[16], const uint8_t destination[16],
		   uint32_t interface, struct net_gid *found)
{
	struct netdev_route route;
	struct net_gid port;
	bool scoped;
	int err;

	if (ip_addr_is_zero(source))
		return find_chosen(net, destination, interface, found);
	err = net_find_gid(net, source, interface, &port);
	if (err)
		return err;
	if (ip_addr_is_ipv4(port.address) != ip_addr_is_ipv4(destination) &&
	    ip_addr_is_ipv4(port.gid.raw) != ip_addr_is_ipv4(destination))
		return ENETUNREACH;
	/* Multicast leaves by the port's interface whatever the routes are (IP_PKTINFO). */
	if (!ip_addr_is_multicast(destination) && !net_is_local(net, destination, interface)) {
		if (ip_addr_is_localhost(source))
			return ENETUNREACH;
		scoped = ip_addr_is_link_local_ipv6(destination);
		err = netdev_route(&net->netlink, destination, port.address,
				   !scoped ? 0 : interface ? interface : port.interface_index, &route);
		if (err)
			return route_error(err);
	}
	*found = port;
	return 0;
}

bool net_neighbour_answers(struct net *net, const struct net_gid *source, const uint8_t destination[16])
{
	struct netdev_route route;

	/* Groups have no neighbour; the hardware address of a link-local one is part of it (route.c). */
	if (ip_addr_is_multicast(destination) || ip_addr_is_link_local_ipv6(destination))
		return true;
	if (netdev_route(&net->netlink, destination, source->address, 0, &route) || route.local)
		return true;
	return neighbour_answers(&net->netlink, &route, source->address, destination);
}

/* ---- for explanations ---- */

static void find_append(char *text, size_t bytes, const char *format, ...)
{
	size_t length = strlen(text);
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text + length, bytes - length, format, arguments);
	va_end(arguments);
}

const char *net_describe_devices(struct net *net, char *text, size_t bytes)
{
	char address[INET6_ADDRSTRLEN];
	struct named_netdev *named;
	int i, count, err = naming_list(&named, &count);

	if (!bytes)
		return text;
	text[0] = '\0';
	if (net && net->maker.describe)
		net->maker.describe(net->maker.owner, text, bytes);
	if (!err && !count && text[0])
		return text;
	if (!err && text[0])
		find_append(text, bytes, ", ");
	if (err) {
		find_append(text, bytes, "no device: cannot list the network interfaces: %s",
			    strerror(err));
		return text;
	}
	for (i = 0; i < count; i++) {
		find_append(text, bytes, "%s%s (", i ? ", " : "", named[i].name);
		for (unsigned a = 0; a < named[i].netdev.address_count; a++) {
			const uint8_t *raw = named[i].netdev.address[a].address;
			bool ipv4 = ip_addr_is_ipv4(raw);

			inet_ntop(ipv4 ? AF_INET : AF_INET6, raw + (ipv4 ? 12 : 0), address, sizeof(address));
			find_append(text, bytes, "%s%s", a ? ", " : "", address);
		}
		find_append(text, bytes, ")");
	}
	if (!count)
		find_append(text, bytes,
			    "no device: no network interface is up, has an address and is "
			    "allowed by VERBATIM_DEVICES");
	free(named);
	return text;
}

unsigned net_host_only_gids(uint8_t (**gids)[16])
{
	static const struct config config;
	struct port *port = malloc(sizeof(*port));
	struct named_netdev *named;
	unsigned found = 0;
	int i, count;

	*gids = NULL;
	if (!naming_list(&named, &count)) {
		*gids = calloc((size_t)count + 1, sizeof(**gids));
		for (i = 0; *gids && port && i < count; i++) {
			port_init(port, &config, &named[i]);
			if (port->gid[0].host_only)
				memcpy((*gids)[found++], port->gid[0].gid.raw, 16);
		}
		free(named);
	}
	free(port);
	return found;
}
