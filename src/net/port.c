/* SPDX-License-Identifier: BSD-2-Clause */
/* Attributes of a port: GUID, state, active MTU (ibv_query_port(3)). */
#include "net/port.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "platform/privilege.h"
#include "wire/packet.h"

/* Room that IP, UDP and the RoCE headers take of an interface's MTU (rxe allows as much). */
#define MTU_OVERHEAD 80u

#define LOOPBACK_MBPS	400000u		/* 8 lanes of HDR: openib knows no faster ones */
#define UNKNOWN_MBPS	10000u		/* as the kernel says of veth and tun */
#define UNWANTED_MBPS	2500u

uint64_t port_guid(const struct netdev *netdev)
{
	static const uint8_t no_mac[6];
	uint8_t guid[8] = { 0x02, 0, 0, 0xff, 0xfe, 0, 0, 0 };
	uint64_t value;

	if (memcmp(netdev->mac, no_mac, 6) || netdev->loopback) {
		memcpy(guid, netdev->mac, 3);
		memcpy(guid + 5, netdev->mac + 3, 3);
		guid[0] ^= 0x02;
	} else {
		/* No hardware address (tun, ip tunnels): the interface index tells them apart. */
		put_be24(guid + 5, netdev->index);
	}
	memcpy(&value, guid, sizeof(value));
	return value;
}

/* Frames are of Ethernet. */
static bool can_v1(const struct config *config, const struct netdev *netdev)
{
	return config_has_roce_v1(config) && netdev->ethernet && !netdev->loopback;
}

int port_lacks_v1(const struct config *config, const struct netdev *netdev)
{
	return can_v1(config, netdev) ? may_open_packet_sockets() : 0;
}

void port_init(struct port *port, const struct config *config, const struct named_netdev *named)
{
	memset(port, 0, sizeof(*port));
	port->config = config;
	port->netdev = named->netdev;
	port->interface_index = named->netdev.index;
	memcpy(port->name, named->name, sizeof(port->name));
	port->guid = port->node_guid = port->system_guid = port_guid(&port->netdev);
	port->ops = &netdev_port_ops;
	port->number = 1;
	port->gids = GID_TABLE_SIZE;
	port->pkeys = 1;		/* RoCE has the default partition alone */
	port->pkey[0] = PKEY_DEFAULT;
	if (can_v1(port->config, &port->netdev) && !may_open_packet_sockets())
		port->gid_type[port->gid_types++] = PORT_GID_ROCE_V1;
	if (!port->gid_types || config_has_roce_v2(port->config))
		port->gid_type[port->gid_types++] = PORT_GID_ROCE_V2;
	gid_table_update(port);
}

/* ---- of a network interface ---- */

static enum ibv_mtu netdev_active_mtu(const struct port *port)
{
	uint32_t room = port->netdev.mtu > MTU_OVERHEAD ? port->netdev.mtu - MTU_OVERHEAD : 0;
	enum ibv_mtu mtu = IBV_MTU_4096;

	if (room > port->config->mtu)
		room = port->config->mtu;
	while (mtu > IBV_MTU_256 && (128u << mtu) > room)
		mtu--;
	return mtu;
}

/*
 * lo has no speed of its own: memory is copied at 25 to 30 GB/s. UCX and MPI derive from it up to which size
 * they copy messages, and from which they read them from the sender's memory. They also choose the
 * fastest device: that is not lo, which leads to no other host, where there is another one.
 */
static uint32_t netdev_speed_mbps(const struct port *port)
{
	if (port->config->speed)
		return port->config->speed * 1000;
	if (port->netdev.loopback)
		return port->alone ? LOOPBACK_MBPS : UNWANTED_MBPS;
	return port->netdev.speed_mbps ? port->netdev.speed_mbps : UNKNOWN_MBPS;
}

static void netdev_query(const struct port *port, struct port_state *state)
{
	bool active = port->netdev.up && port->netdev.running && !port->gone;

	*state = (struct port_state){ .state = active ? IBV_PORT_ACTIVE : IBV_PORT_DOWN,
				      .physical = active ? 5 : 3,
				      .mtu = netdev_active_mtu(port), .mtu_max = IBV_MTU_4096,
				      .speed_mbps = netdev_speed_mbps(port),
				      .link_layer = IBV_LINK_LAYER_ETHERNET, .needs_grh = true, .vls = 1,
				      .capabilities = IBV_PORT_CM_SUP | IBV_PORT_IP_BASED_GIDS };
}

static void netdev_free(struct port *port)
{
	free(port);
}

const struct port_ops netdev_port_ops = {
	.query = netdev_query, .resolve = netdev_resolve, .free = netdev_free,
};

/* ---- of any ---- */

void port_query(const struct port *port, struct port_state *state)
{
	port->ops->query(port, state);
}

bool port_is_active(const struct port *port)
{
	struct port_state state;

	port_query(port, &state);
	return state.state == IBV_PORT_ACTIVE;
}

enum ibv_mtu port_active_mtu(const struct port *port)
{
	struct port_state state;

	port_query(port, &state);
	return state.mtu;
}
