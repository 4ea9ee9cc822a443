/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Ports: each follows a network interface while a context is open on it. When the worker hears
 * of a change it looks at all interfaces again and raises what differs: PORT_ACTIVE, PORT_ERR,
 * GID_CHANGE, and DEVICE_FATAL when the interface is gone (ibv_get_async_event(3)).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "hca/device.h"
#include "hca/gid_table.h"
#include "hca/internal.h"

/* Room that IP, UDP and the RoCE headers take of an interface's MTU (rxe allows as much). */
#define MTU_OVERHEAD 80u

static bool is_active(const struct netdev *netdev)
{
	return netdev->up && netdev->running;
}

enum ibv_mtu port_active_mtu(const struct port *port)
{
	uint32_t room = port->netdev.mtu > MTU_OVERHEAD ? port->netdev.mtu - MTU_OVERHEAD : 0;
	enum ibv_mtu mtu = IBV_MTU_4096;

	if (room > port->config->mtu)
		room = port->config->mtu;
	while (mtu > IBV_MTU_256 && (128u << mtu) > room)
		mtu--;
	return mtu;
}

int port_get(struct hca *hca, const char *name, struct port **found)
{
	struct named_netdev *named;
	struct list *node;
	struct port *port;
	int i, count, err;

	list_for_each(node, &hca->ports) {
		port = list_entry(node, struct port, node);
		if (!strcmp(port->name, name) && !port->gone) {
			port->references++;
			*found = port;
			return 0;
		}
	}
	err = device_find_all(&named, &count);
	if (err)
		return err;
	for (i = 0; i < count && strcmp(named[i].name, name); i++)
		;
	port = i < count ? calloc(1, sizeof(*port)) : NULL;
	if (port) {
		port->references = 1;
		port->config = &hca->config;
		port->netdev = named[i].netdev;
		memcpy(port->name, named[i].name, sizeof(port->name));
		port->guid = device_guid(&port->netdev);
		gid_table_update(port);
		list_add_tail(&hca->ports, &port->node);
	}
	err = i < count ? ENOMEM : ENODEV;
	free(named);
	if (!port) {
		explain("open_device: %s: %s", name, err == ENODEV ?
			"its interface is no longer up with an address" : "out of memory");
		return err;
	}
	*found = port;
	return 0;
}

void port_put(struct hca *hca, struct port *port)
{
	if (--port->references)
		return;
	list_remove(&port->node);
	free(port);
}

static void raise_event(struct hca *hca, struct port *port, enum ibv_event_type type,
			struct effects *effects)
{
	struct list *node;

	log_info("device %s: event %d", port->name, type);
	list_for_each(node, &hca->contexts) {
		struct hca_context *context = list_entry(node, struct hca_context, node);
		struct async_event *event;

		if (context->port != port)
			continue;
		event = calloc(1, sizeof(*event));
		if (!event) {
			log_error("device %s: out of memory: event %d is lost", port->name, type);
			continue;
		}
		list_init(&event->node);
		event->allocated = true;
		event->ibv.event_type = type;
		event->ibv.element.port_num = HCA_PORT;
		event_queue_add(context->async, &event->node, effects);
		if (effects_full(effects)) {
			effects_apply(effects);
			effects_init(effects);
		}
	}
}

static const struct netdev *find_netdev(const struct netdev *list, int count, uint32_t index)
{
	int i;

	for (i = 0; i < count; i++)
		if (list[i].index == index)
			return &list[i];
	return NULL;
}

static void refresh(struct hca *hca, struct port *port, const struct netdev *now,
		    struct effects *effects)
{
	bool was_active = is_active(&port->netdev) && !port->gone;

	if (port->gone)
		return;
	if (!now) {
		port->gone = true;
		port->netdev.up = false;
		if (was_active)
			raise_event(hca, port, IBV_EVENT_PORT_ERR, effects);
		raise_event(hca, port, IBV_EVENT_DEVICE_FATAL, effects);
		return;
	}
	port->netdev = *now;
	if (was_active && !is_active(now))
		raise_event(hca, port, IBV_EVENT_PORT_ERR, effects);
	if (gid_table_update(port))
		raise_event(hca, port, IBV_EVENT_GID_CHANGE, effects);
	if (!was_active && is_active(now))
		raise_event(hca, port, IBV_EVENT_PORT_ACTIVE, effects);
}

void ports_refresh(struct hca *hca)
{
	struct effects effects;
	struct netdev *list;
	struct list *node;
	int count;

	if (netdev_list(&list, &count))
		return;
	effects_init(&effects);
	lock_acquire(&hca->objects);
	list_for_each(node, &hca->ports) {
		struct port *port = list_entry(node, struct port, node);

		refresh(hca, port, find_netdev(list, count, port->netdev.index), &effects);
	}
	lock_release(&hca->objects);
	effects_apply(&effects);
	free(list);
}
