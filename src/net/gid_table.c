/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The GID table of a port, in rxe's order: index 0 the link-local GID made from the MAC address,
 * then the IPv4 addresses as v4-mapped, then IPv6. An address keeps its index as long as it is
 * there; a new one takes the first free index. Where RoCE v1 and v2 are both wanted each of them has two
 * indices, v1 before v2, as mlx5's.
 */
#include "net/port.h"

#include <string.h>

#include "base/ip_addr.h"

void gid_table_default(const struct port *port, uint8_t gid[16])
{
	memset(gid, 0, 16);
	gid[0] = 0xfe;
	gid[1] = 0x80;
	memcpy(gid + 8, &port->guid, 8);
}

static bool has_address(const struct netdev *netdev, const uint8_t address[16])
{
	unsigned i;

	for (i = 0; i < netdev->address_count; i++)
		if (!netdev->address[i].tentative && !memcmp(netdev->address[i].address, address, 16))
			return true;
	return false;
}

static void default_gid(const struct port *port, uint8_t type, struct gid_entry *entry)
{
	static const uint8_t on_ipv4[16] = IP_ADDR_LOOPBACK_IPV4;

	memset(entry, 0, sizeof(*entry));
	gid_table_default(port, entry->gid.raw);
	memcpy(entry->address, entry->gid.raw, 16);
	entry->valid = true;
	entry->type = type;
	if (type == PORT_GID_ROCE_V1 || has_address(&port->netdev, entry->gid.raw))
		return;		/* frames of RoCE v1 carry any GID */
	/* The interface lacks that address (lo, no IPv6, stable-privacy): inside the host only. */
	entry->host_only = true;
	memcpy(entry->address, on_ipv4, 16);
}

/* False: it is there, or there is no room. */
static bool gid_table_add(struct port *port, unsigned first, uint8_t type, const uint8_t address[16])
{
	unsigned i;

	for (i = 0; i < GID_TABLE_SIZE; i++)
		if (port->gid[i].valid && port->gid[i].type == type &&
		    !memcmp(port->gid[i].gid.raw, address, 16))
			return false;
	for (i = first; i < GID_TABLE_SIZE; i++) {
		struct gid_entry *entry = &port->gid[i];

		if (entry->valid)
			continue;
		memset(entry, 0, sizeof(*entry));
		memcpy(entry->gid.raw, address, 16);
		memcpy(entry->address, address, 16);
		entry->valid = true;
		entry->type = type;
		return true;
	}
	return false;
}

bool gid_table_update(struct port *port)
{
	static const uint8_t v2 = PORT_GID_ROCE_V2;
	const uint8_t *type = port->gid_types ? port->gid_type : &v2;
	unsigned i, t, types = port->gid_types ? port->gid_types : 1;
	struct gid_entry first;
	bool changed = false;

	for (t = 0; t < types; t++) {
		default_gid(port, type[t], &first);
		if (memcmp(&first, &port->gid[t], sizeof(first))) {
			port->gid[t] = first;
			changed = true;
		}
	}
	for (i = types; i < GID_TABLE_SIZE; i++) {
		struct gid_entry *entry = &port->gid[i];

		if (entry->valid && !has_address(&port->netdev, entry->address)) {
			entry->valid = false;
			changed = true;
		}
	}
	for (i = 0; i < port->netdev.address_count; i++) {
		const struct netdev_address *address = &port->netdev.address[i];

		for (t = 0; t < types && !address->tentative; t++)
			changed |= gid_table_add(port, types, type[t], address->address);
	}
	return changed;
}

const struct gid_entry *gid_table_get(const struct port *port, uint32_t index)
{
	if (index >= GID_TABLE_SIZE || !port->gid[index].valid)
		return NULL;
	return &port->gid[index];
}

uint32_t gid_table_find(const struct port *port, enum port_gid_type type, const uint8_t address[16])
{
	uint32_t i, other = GID_TABLE_SIZE;

	for (int by_address = 0; by_address < 2 && other == GID_TABLE_SIZE; by_address++)
		for (i = 0; i < GID_TABLE_SIZE; i++) {
			const struct gid_entry *entry = &port->gid[i];

			if (!entry->valid || memcmp(by_address ? entry->address : entry->gid.raw, address, 16))
				continue;
			if (entry->type == type)
				return i;
			other = other < GID_TABLE_SIZE ? other : i;
		}
	return other;
}
