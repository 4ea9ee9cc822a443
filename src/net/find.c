/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Addresses, ports and routes, for connection management (gsi.h). The kernel is asked each time:
 * addresses come and go, and devices need not be open.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hca/device.h"
#include "base/ip_addr.h"
#include "hca/gid_table.h"
#include "hca/gsi_internal.h"
#include "hca/multicast.h"

/* ---- ports ---- */

/* As the port would be if it were opened now; indices of GIDs as they are where it is open. */
static void snapshot(struct hca *hca, const struct named_netdev *named, struct port *port)
{
	struct list *node;

	memset(port, 0, sizeof(*port));
	port->config = &hca->config;
	port->netdev = named->netdev;
	memcpy(port->name, named->name, sizeof(port->name));
	port->guid = device_guid(&port->netdev);
	lock_acquire(&hca->objects);
	list_for_each(node, &hca->ports) {
		const struct port *open = list_entry(node, struct port, node);

		if (!open->gone && !strcmp(open->name, port->name))
			memcpy(port->gid, open->gid, sizeof(port->gid));
	}
	lock_release(&hca->objects);
	gid_table_update(port);
}

static void fill(const struct port *port, uint32_t index, struct gsi_port *found)
{
	*found = (struct gsi_port){ .interface_index = port->netdev.index, .guid = port->guid,
				    .port = HCA_PORT, .gid_index = index,
				    .gid = port->gid[index].gid,
				    .active_mtu = port_active_mtu(port), .pkey = PKEY_DEFAULT };
	memcpy(found->device, port->name, sizeof(found->device));
	memcpy(found->interface, port->netdev.name, sizeof(found->interface));
	memcpy(found->address, port->gid[index].address, 16);
}

/* Any 127.x.y.z is lo's, which has one of them as a GID. */
static bool is_like(const struct port *port, const uint8_t gid[16], const uint8_t address[16])
{
	return port->netdev.loopback && ip_addr_is_loopback_ipv4(address) && ip_addr_is_loopback_ipv4(gid);
}

static bool find_in(const struct port *port, const uint8_t address[16], struct gsi_port *found)
{
	uint32_t i, like = HCA_GID_TABLE_SIZE;

	for (i = 0; i < HCA_GID_TABLE_SIZE; i++) {
		const uint8_t *gid = port->gid[i].gid.raw;

		if (!port->gid[i].valid)
			continue;
		if (!memcmp(gid, address, 16))
			break;
		if (like == HCA_GID_TABLE_SIZE && is_like(port, gid, address))
			like = i;
	}
	if (i == HCA_GID_TABLE_SIZE)
		i = like;
	if (i == HCA_GID_TABLE_SIZE)
		return false;
	fill(port, i, found);
	return true;
}

int gsi_find_port(struct gsi *gsi, const uint8_t address[16], uint32_t interface,
		  struct gsi_port *found)
{
	struct named_netdev *named;
	struct port *port;
	int i, count, err;
	bool has = false;

	err = device_find_all(&named, &count);
	if (err)
		return err;
	port = malloc(sizeof(*port));
	for (i = 0; port && !has && i < count; i++) {
		if (interface && ip_addr_is_link_local_ipv6(address) && named[i].netdev.index != interface)
			continue;
		snapshot(gsi->hca, &named[i], port);
		has = find_in(port, address, found);
	}
	free(named);
	if (!port)
		return ENOMEM;
	free(port);
	if (has)
		return 0;
	return gsi_is_local(gsi, address, interface) ? ENODEV : EADDRNOTAVAIL;
}

bool gsi_is_local(struct gsi *gsi, const uint8_t address[16], uint32_t interface)
{
	return netdev_is_local(&gsi->hca->netlink, address, interface) ||
	       (ip_addr_is_link_local_ipv6(address) && is_default_gid_here(address));
}

/* ---- routes ---- */

/* The first address of an interface of the family and scope that @destination is of. */
static int find_address_of(struct gsi *gsi, uint32_t interface, const uint8_t destination[16],
			   struct gsi_port *found)
{
	bool link_local = !ip_addr_is_ipv4(destination) &&
			  (ip_addr_is_link_local_ipv6(destination) || (destination[1] & 0x0f) <= 2);
	struct named_netdev *named;
	unsigned a, pass;
	int i, count, err;

	err = device_find_all(&named, &count);
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
				err = gsi_find_port(gsi, at->address, interface, found);
		}
	free(named);
	return err;
}

/* The kernel's word for what cannot be reached from a source is "invalid". */
static int route_error(int err)
{
	return err == EHOSTUNREACH || err == ENOMEM || err == EMFILE || err == ENFILE ? err :
										       ENETUNREACH;
}

static int find_chosen(struct gsi *gsi, const uint8_t destination[16], uint32_t interface,
		       struct gsi_port *found)
{
	static const uint8_t any[16];
	struct netdev_route route;
	int err;

	/* An address of this host, be it one that no packet can carry: its own port. */
	if (!multicast_is(destination) && gsi_is_local(gsi, destination, interface))
		return gsi_find_port(gsi, destination, interface, found);
	err = netdev_route(&gsi->hca->netlink, destination, any, interface, &route);
	if (err)
		return route_error(err);
	if (ip_addr_is_zero(route.source))
		return find_address_of(gsi, route.interface, destination, found);
	return gsi_find_port(gsi, route.source, route.interface, found);
}

int gsi_find_route(struct gsi *gsi, const uint8_t source[16], const uint8_t destination[16],
		   uint32_t interface, struct gsi_port *found)
{
	struct netdev_route route;
	struct gsi_port port;
	bool scoped;
	int err;

	if (ip_addr_is_zero(source))
		return find_chosen(gsi, destination, interface, found);
	err = gsi_find_port(gsi, source, interface, &port);
	if (err)
		return err;
	if (ip_addr_is_ipv4(port.address) != ip_addr_is_ipv4(destination) &&
	    ip_addr_is_ipv4(port.gid.raw) != ip_addr_is_ipv4(destination))
		return ENETUNREACH;
	/* Multicast leaves by the port's interface whatever the routes are (IP_PKTINFO). */
	if (!multicast_is(destination) && !gsi_is_local(gsi, destination, interface)) {
		scoped = ip_addr_is_link_local_ipv6(destination);
		err = netdev_route(&gsi->hca->netlink, destination, port.address,
				   !scoped ? 0 : interface ? interface : port.interface_index, &route);
		if (err)
			return route_error(err);
	}
	*found = port;
	return 0;
}

/* ---- for explanations ---- */

static void append(char *text, size_t bytes, const char *format, ...)
{
	size_t length = strlen(text);
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text + length, bytes - length, format, arguments);
	va_end(arguments);
}

static void append_device(char *text, size_t bytes, const struct named_netdev *named)
{
	char address[INET6_ADDRSTRLEN];
	unsigned i;

	append(text, bytes, "%s (", named->name);
	for (i = 0; i < named->netdev.address_count; i++) {
		const uint8_t *raw = named->netdev.address[i].address;
		bool ipv4 = ip_addr_is_ipv4(raw);

		inet_ntop(ipv4 ? AF_INET : AF_INET6, raw + (ipv4 ? 12 : 0), address,
			  sizeof(address));
		append(text, bytes, "%s%s", i ? ", " : "", address);
	}
	append(text, bytes, ")");
}

const char *gsi_describe_devices(char *text, size_t bytes)
{
	struct named_netdev *named;
	int i, count, err = device_find_all(&named, &count);

	if (!bytes)
		return text;
	text[0] = '\0';
	if (err) {
		append(text, bytes, "no device: the list of interfaces failed: %s", strerror(err));
		return text;
	}
	for (i = 0; i < count; i++) {
		append(text, bytes, "%s", i ? ", " : "");
		append_device(text, bytes, &named[i]);
	}
	if (!count)
		append(text, bytes, "no device: no network interface is both up and has an address "
		       "(and is allowed by VERBATIM_DEVICES)");
	free(named);
	return text;
}
