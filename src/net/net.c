/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Open ports: each follows a network interface while a context is open on it. After a change all interfaces
 * are read again, and differences are raised as events: PORT_ACTIVE, PORT_ERR, GID_CHANGE, DEVICE_SPEED_CHANGE,
 * and DEVICE_FATAL when the interface is gone (ibv_get_async_event(3)).
 */
#include "net/net.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"

void net_init(struct net *net, const struct config *config)
{
	net->config = config;
	lock_init(&net->lock);
	list_init(&net->ports);
	netlink_open(&net->netlink);
	route_cache_open(&net->routes);
}

void net_fini(struct net *net)
{
	netlink_close(&net->netlink);
	route_cache_close(&net->routes);
}

void net_abandon(struct net *net)
{
	netlink_abandon(&net->netlink);
	route_cache_abandon(&net->routes);
}

static unsigned net_find_open(struct net *net, const char *name, struct port *ports[PORTS_MAX])
	REQUIRES(net->lock)
{
	unsigned count = 0;
	struct list *node;

	list_for_each(node, &net->ports) {
		struct port *port = list_entry(node, struct port, node);

		if (!strcmp(port->name, name) && !port->gone && count < PORTS_MAX)
			ports[count++] = port;
	}
	return count;
}

#define PRIVILEGE "CAP_NET_RAW in this network namespace (run the program as root, or unshare -rn)"

/* Without a privilege there is no RoCE v1: a port that has v2, too, has that alone. */
static int check_v1(const struct config *config, const char *name, const struct netdev *netdev)
{
	int err = port_lacks_v1(config, netdev);

	if (!err)
		return 0;
	if (!config_has_roce_v2(config)) {
		complain("ibv_open_device: %s: VERBATIM_ROCE=v1: Ethernet frames need %s: the device cannot be "
			 "opened", name, err == EPERM ? PRIVILEGE : strerror(err));
		return err;
	}
	explain_about("VERBATIM_ROCE", OF_NOTHING,
		      "ibv_open_device: %s: VERBATIM_ROCE=both: Ethernet frames need %s: the device has "
		      "GIDs of RoCE v2 alone", name, err == EPERM ? PRIVILEGE : strerror(err));
	return 0;
}

static int make_interface_port(struct net *net, const char *name, struct port *ports[PORTS_MAX],
			       unsigned *made)
{
	struct named_netdev *named;
	struct port *port;
	int i, count, err = naming_list(&named, &count);

	if (err)
		return err;
	for (i = 0; i < count && strcmp(named[i].name, name); i++)
		;
	if (i < count)
		err = check_v1(net->config, name, &named[i].netdev);
	if (err) {
		free(named);
		return err;
	}
	port = i < count ? calloc(1, sizeof(*port)) : NULL;
	if (port) {
		port_init(port, net->config, &named[i]);
		port->alone = count == 1;
		ports[0] = port;
		*made = 1;
	}
	err = port ? 0 : i < count ? ENOMEM : ENODEV;
	free(named);
	if (err)
		explain("ibv_open_device: %s: %s", name, err == ENODEV ?
			"its interface is no longer up with an address" : "out of memory");
	return err;
}

int net_get_ports(struct net *net, const char *name, struct port *ports[PORTS_MAX], unsigned *count)
{
	int err = 0;

	lock_acquire(&net->lock);
	*count = net_find_open(net, name, ports);
	if (!*count) {
		err = net->maker.make ? net->maker.make(net->maker.owner, net, name, ports, count) :
					ENODEV;
		if (err == ENODEV)
			err = make_interface_port(net, name, ports, count);
		for (unsigned i = 0; !err && i < *count; i++)
			list_add_tail(&net->ports, &ports[i]->node);
	}
	for (unsigned i = 0; !err && i < *count; i++)
		ports[i]->references++;
	lock_release(&net->lock);
	return err;
}

void net_put_port(struct net *net, struct port *port)
{
	lock_acquire(&net->lock);
	if (--port->references == 0) {
		list_remove(&port->node);
		port->ops->free(port);
	}
	lock_release(&net->lock);
}

enum ibv_mtu net_active_mtu(struct net *net, const struct port *port, uint32_t *interface_mtu)
{
	enum ibv_mtu active;

	lock_acquire(&net->lock);
	active = port_active_mtu(port);
	if (interface_mtu)
		*interface_mtu = port->netdev.mtu;
	lock_release(&net->lock);
	return active;
}

static const struct netdev *find_netdev(const struct netdev *list, int count, uint32_t index)
{
	int i;

	for (i = 0; i < count; i++)
		if (list[i].index == index)
			return &list[i];
	return NULL;
}

void net_raise(struct net *net, struct port *port, enum ibv_event_type type)
{
	log_info("device %s: event %d", port->name, type);
	net->changed(net->owner, port, type);
}

static void refresh_port(struct net *net, struct port *port, const struct netdev *now) REQUIRES(net->lock)
{
	bool was_active = port_is_active(port);

	if (port->gone)
		return;
	if (!now) {
		port->gone = true;
		port->netdev.up = false;
		if (was_active)
			net_raise(net, port, IBV_EVENT_PORT_ERR);
		net_raise(net, port, IBV_EVENT_DEVICE_FATAL);
		return;
	}
	if (port->netdev.speed_mbps != now->speed_mbps)
		net_raise(net, port, (enum ibv_event_type)EVENT_SPEED_CHANGE);
	port->netdev = *now;
	if (was_active && !port_is_active(port))
		net_raise(net, port, IBV_EVENT_PORT_ERR);
	if (gid_table_update(port))
		net_raise(net, port, IBV_EVENT_GID_CHANGE);
	if (!was_active && port_is_active(port))
		net_raise(net, port, IBV_EVENT_PORT_ACTIVE);
}

unsigned net_refresh(struct net *net, struct net_change *changes, unsigned max)
{
	struct netdev *list;
	struct list *node;
	unsigned changed = 0;
	int count;

	if (netdev_list(&list, &count))
		return 0;
	lock_acquire(&net->lock);
	list_for_each(node, &net->ports) {
		struct port *port = list_entry(node, struct port, node);
		const struct netdev *now = find_netdev(list, count, port->interface_index);

		if (port->ops != &netdev_port_ops)
			continue;
		if (changed < max && !port->gone &&
		    (!now || memcmp(port->netdev.mac, now->mac, sizeof(now->mac))))
			changes[changed++] = (struct net_change){
				.interface = port->interface_index, .gone = !now };
		refresh_port(net, port, now);
	}
	lock_release(&net->lock);
	free(list);
	return changed;
}
