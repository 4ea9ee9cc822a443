/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The subnet as an image (image/image.h): what has changed of a node is written anew, and then the
 * epoch moves. And what programs counted of packets that did not come by here.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/internal.h"
#include "image/image.h"
#include "image/tally.h"

#define ALIGNED		64u
#define IMAGE_BYTES_MAX	(UINT64_C(1) << 32)

struct image_plan {
	uint64_t nodes, ports, tables, bytes;
	uint32_t port_count;
};

static uint64_t image_aligned(uint64_t bytes)
{
	return (bytes + ALIGNED - 1) / ALIGNED * ALIGNED;
}

/* Bytes of a node's tables, one behind the other: LFT, MFT, its name, and for each port SL to VL, P_Keys. */
static uint64_t image_lft_bytes(const struct fabric_node *node)
{
	return node_is_switch(node) ? image_aligned(node->switch_info.linear_fdb_cap) : 0;
}

static uint64_t image_mft_bytes(const struct fabric_node *node)
{
	return node_is_switch(node) ? image_aligned(node->switch_info.multicast_fdb_cap *
						    IMAGE_MFT_WORDS * UINT64_C(8)) : 0;
}

static uint64_t image_sl_bytes(const struct fabric_node *node)
{
	return image_aligned((node_is_switch(node) ? node->ports + 1 : 1) * UINT64_C(8));
}

static uint64_t image_pkey_bytes(const struct fabric_node *node, unsigned port)
{
	return image_aligned(port_pkeys(node, port) * sizeof(uint16_t));
}

static uint64_t image_table_bytes(const struct fabric_node *node)
{
	uint64_t bytes = image_lft_bytes(node) + image_mft_bytes(node) + IMAGE_NAME_MAX;

	for (unsigned port = 0; port <= node->ports; port++)
		bytes += image_sl_bytes(node) + image_pkey_bytes(node, port);
	return bytes;
}

static struct image_plan image_plan(const struct fabric *fabric)
{
	struct image_plan plan = { .nodes = image_aligned(sizeof(struct image_head)) };

	plan.ports = plan.nodes + image_aligned(fabric->nodes * sizeof(struct image_node));
	for (uint32_t i = 0; i < fabric->nodes; i++)
		plan.port_count += fabric->node[i].ports + 1;
	plan.tables = plan.ports + image_aligned(plan.port_count * sizeof(struct image_port));
	plan.bytes = plan.tables;
	for (uint32_t i = 0; i < fabric->nodes; i++)
		plan.bytes += image_table_bytes(&fabric->node[i]);
	return plan;
}

size_t fabric_image_bytes(const struct fabric *fabric)
{
	struct image_plan plan = image_plan(fabric);

	return plan.bytes < IMAGE_BYTES_MAX ? (size_t)plan.bytes : 0;
}

void fabric_image_begin(struct fabric *fabric, void *base)
{
	struct image_plan plan = image_plan(fabric);
	struct image_head *head = base;
	struct image_node *node = (struct image_node *)((uint8_t *)base + plan.nodes);
	uint64_t table = plan.tables;
	uint32_t port = 0;

	head->magic = IMAGE_MAGIC;
	head->version = IMAGE_VERSION;
	head->nodes = fabric->nodes;
	head->ports = plan.port_count;
	head->bytes = plan.bytes;
	head->node_offset = plan.nodes;
	head->port_offset = plan.ports;
	free(fabric->place);
	fabric->place = calloc(fabric->nodes, sizeof(*fabric->place));
	for (uint32_t i = 0; i < fabric->nodes; i++) {
		const struct fabric_node *at = &fabric->node[i];

		node[i].lft = image_lft_bytes(at) ? table : 0;
		node[i].mft = image_mft_bytes(at) ? table + image_lft_bytes(at) : 0;
		node[i].name = table + image_lft_bytes(at) + image_mft_bytes(at);
		snprintf((char *)base + node[i].name, IMAGE_NAME_MAX, "%s", at->id);
		node[i].first_port = port;
		node[i].host = IMAGE_NONE;
		if (fabric->place)
			fabric->place[i] = (struct image_place){
				.first_port = port,
				.table = node[i].name + IMAGE_NAME_MAX,
			};
		table += image_table_bytes(at);
		port += at->ports + 1;
		fabric->node[i].dirty = true;
	}
	fabric->dirty = true;
}

static void image_write_port(const struct fabric *fabric, const struct fabric_node *node,
			     unsigned number, uint64_t table, uint8_t *base, struct image_port *to)
{
	const struct fabric_port *port = &node->port[number];
	unsigned entries = node_is_switch(node) ? node->ports + 1 : 1;
	struct image_port now = {
		.node = (uint32_t)(node - fabric->node),
		.peer = IMAGE_NONE,
		.lid = port->info.lid, .lmc = port->info.lmc,
		.state = (uint8_t)port_state_logical(port->state), .vls = (uint8_t)port_vls(port),
		.mtu = port->info.neighbor_mtu, .pkeys = (uint16_t)port_pkeys(node, number),
		.enforces_in = node_is_switch(node) && port->info.partition_enforcement_inbound,
		.enforces_out = node_is_switch(node) && port->info.partition_enforcement_outbound,
		.loses = (port->error_percent && !port->error_attribute) || port->bit_errors,
		.sl_to_vl = table, .pkey = table + image_sl_bytes(node),
	};

	if (port->peer != FABRIC_NONE && number)
		now.peer = fabric->place[port->peer].first_port + port->peer_port;
	for (unsigned in = 0; in < entries; in++)
		for (uint8_t sl = 0; sl < 16; sl += 2)
			base[table + in * 8 + sl / 2] =
				(uint8_t)(port_sl_to_vl(port, in, sl) << 4 |
					  port_sl_to_vl(port, in, (uint8_t)(sl + 1)));
	for (unsigned i = 0; i < now.pkeys; i++) {
		uint16_t pkey = port_pkey(node, port, i);

		memcpy(base + now.pkey + i * sizeof(pkey), &pkey, sizeof(pkey));
	}
	*to = now;
}

/* Writes where something is another: memory of what nobody has set is not there. */
static void image_put(uint8_t *to, const void *from, size_t bytes)
{
	if (memcmp(to, from, bytes))
		memcpy(to, from, bytes);
}

static void image_write_tables(const struct fabric_node *node, const struct image_node *to,
			       uint8_t *base)
{
	for (unsigned lid = 0; lid < to->lids; lid++) {
		uint8_t row = (uint8_t)(255 - node_lft(node, (uint16_t)lid));

		image_put(base + to->lft + lid, &row, 1);
	}
	for (unsigned row = 0; row < to->mlids; row++) {
		uint64_t mask[IMAGE_MFT_WORDS];

		node_mft(node, (uint16_t)(LID_MULTICAST + row), mask);
		image_put(base + to->mft + row * sizeof(mask), mask, sizeof(mask));
	}
}

bool fabric_image_update(struct fabric *fabric, void *image)
{
	struct image_head *head = image;
	uint8_t *base = image;
	struct image_node *nodes = (struct image_node *)(base + head->node_offset);
	struct image_port *ports = (struct image_port *)(base + head->port_offset);

	if (!fabric->dirty || !fabric->place)
		return false;
	fabric->dirty = false;
	for (uint32_t i = 0; i < fabric->nodes; i++) {
		struct fabric_node *node = &fabric->node[i];
		struct image_node *to = &nodes[i];
		const struct ib_switch_info *info = &node->switch_info;
		uint64_t table;

		if (!node->dirty)
			continue;
		node->dirty = false;
		to->is_switch = node_is_switch(node);
		to->powered = node->powered;
		to->ports = (uint8_t)node->ports;
		if (to->is_switch) {
			/* A top of 0 is none; below the first MLID no row is in force. */
			unsigned top = info->multicast_fdb_top, cap = info->multicast_fdb_cap;
			unsigned rows = !top ? cap :
					top < LID_MULTICAST ? 0 : top - LID_MULTICAST + 1;

			to->lids = info->linear_fdb_top < info->linear_fdb_cap
					   ? (uint16_t)(info->linear_fdb_top + 1) : 0;
			to->mlids = (uint16_t)(rows < cap ? rows : cap);
			image_write_tables(node, to, base);
		}
		table = fabric->place[i].table;
		for (unsigned port = 0; port <= node->ports; port++) {
			image_write_port(fabric, node, port, table, base,
					 &ports[to->first_port + port]);
			table += image_sl_bytes(node) + image_pkey_bytes(node, port);
		}
	}
	/* E2: pairs with E1 in image_epoch(). */
	atomic_fetch_add_explicit(&head->epoch, 1, memory_order_release);
	return true;
}

/* ---- what went by programs ---- */

/* False: there is no port of this number. */
static bool image_port_find(const struct fabric *fabric, uint32_t number, uint32_t *node,
			    unsigned *port)
{
	uint32_t low = 0, high = fabric->nodes;

	while (high - low > 1) {
		uint32_t middle = low + (high - low) / 2;

		if (fabric->place[middle].first_port <= number)
			low = middle;
		else
			high = middle;
	}
	*node = low;
	*port = number - fabric->place[low].first_port;
	return *port <= fabric->node[low].ports;
}

bool fabric_image_port(const struct fabric *fabric, uint32_t number, uint32_t *node, uint32_t *port)
{
	unsigned found = 0;
	bool there = fabric->place && image_port_find(fabric, number, node, &found);

	*port = found;
	return there;
}

bool fabric_count_path(struct fabric *fabric, const uint32_t *exit, unsigned crossings,
		       bool multicast, uint64_t packets, uint64_t words)
{
	struct fabric_port *from[IMAGE_CROSSINGS];

	if (!fabric->place || crossings > IMAGE_CROSSINGS)
		return false;
	for (unsigned i = 0; i < crossings; i++) {
		uint32_t node;
		unsigned port;
		bool reached = !i;

		if (!image_port_find(fabric, exit[i], &node, &port) || !port ||
		    node_is_switch(&fabric->node[node]) == !i)
			return false;
		from[i] = &fabric->node[node].port[port];
		for (unsigned k = 0; k < i; k++)
			reached |= from[k]->peer == node;
		if (!reached || from[i]->peer == FABRIC_NONE)
			return false;
	}
	fabric->statistics.data_counted += packets;
	for (unsigned i = 0; i < crossings; i++)
		port_count_crossing(from[i], &fabric->node[from[i]->peer].port[from[i]->peer_port],
				    multicast, packets, words);
	return true;
}
