/* SPDX-License-Identifier: BSD-2-Clause */
/* Attributes of a port: GUID, state, active MTU (ibv_query_port(3)). */
#include "net/port.h"

#include <string.h>

#include "base/bytes.h"

/* Room that IP, UDP and the RoCE headers take of an interface's MTU (rxe allows as much). */
#define MTU_OVERHEAD 80u

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

void port_init(struct port *port, const struct config *config, const struct named_netdev *named)
{
	memset(port, 0, sizeof(*port));
	port->config = config;
	port->netdev = named->netdev;
	port->interface_index = named->netdev.index;
	memcpy(port->name, named->name, sizeof(port->name));
	port->guid = port_guid(&port->netdev);
	gid_table_update(port);
}

bool port_is_active(const struct port *port)
{
	return port->netdev.up && port->netdev.running && !port->gone;
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
