/* SPDX-License-Identifier: BSD-2-Clause */
/* Which interfaces the link of RoCE v1 serves: those of open ports that have such GIDs, as these come and go. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "device/internal.h"
#include "engine/links.h"
#include "link/roce_v1.h"
#include "platform/privilege.h"

int roce_v1_begin(struct hca *hca)
{
	/* Who may not has no such GIDs (net/port.c). */
	if (!config_has_roce_v1(&hca->config) || may_open_packet_sockets())
		return 0;
	return roce_v1_open(&hca->engine.links[ROUTE_ROCE_V1], hca->engine.counters, ROUTE_ROCE_V1);
}

void roce_v1_end(struct hca *hca)
{
	struct link *link = hca->engine.links[ROUTE_ROCE_V1];

	if (link)
		link->ops->close(link);
}

/* False: it has none. */
static bool v1_port_of(const struct port *port, uint8_t (*gids)[16], struct roce_v1_port *v1)
{
	*v1 = (struct roce_v1_port){ .interface = port->interface_index, .gid = gids };
	memcpy(v1->mac, port->netdev.mac, sizeof(v1->mac));
	for (unsigned i = 0; i < port->gids && !port->gone; i++)
		if (port->gid[i].valid && port->gid[i].type == PORT_GID_ROCE_V1)
			memcpy(gids[v1->gids++], port->gid[i].gid.raw, sizeof(*gids));
	return v1->gids;
}

void roce_v1_follow(struct hca *hca)
{
	struct link *link = hca->engine.links[ROUTE_ROCE_V1];
	unsigned count = 0, used = 0, open = 0;
	struct roce_v1_port *ports;
	uint8_t (*gids)[16];
	struct list *node;
	int err = ENOMEM;

	if (!link)
		return;
	lock_acquire(&hca->engine.progress);
	lock_acquire(&hca->net.lock);
	list_for_each(node, &hca->net.ports)
		open++;
	ports = calloc(open + 1, sizeof(*ports));
	gids = calloc((size_t)open * GID_TABLE_SIZE + 1, sizeof(*gids));
	if (ports && gids)
		list_for_each(node, &hca->net.ports)
			if (v1_port_of(list_entry(node, struct port, node), gids + used, &ports[count]))
				used += ports[count++].gids;
	lock_release(&hca->net.lock);
	if (ports && gids)
		err = roce_v1_set_ports(link, ports, count);
	links_watch(&hca->engine, link);
	lock_release(&hca->engine.progress);
	if (err)
		explain("ibv_open_device: RoCE v1: an interface has no packet socket: %s", strerror(err));
	free(ports);
	free(gids);
}
