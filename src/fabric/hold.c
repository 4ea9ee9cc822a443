/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Faults that somebody plants behind the subnet manager's back, and that hold against it: a row of a
 * forwarding table, a P_Key, a LID, a GUID, a port that stays in Init. What a Set asks for beside
 * them is done. Released, they stay until the manager writes there again.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/internal.h"

enum held_kind { HELD_ROUTE, HELD_PKEY };

struct hold {
	unsigned count;
	struct held {
		enum held_kind kind;
		unsigned port;		/* of a P_Key */
		uint16_t place, value;	/* LID and port; index and key */
	} row[];
};

static struct held *held_find(const struct fabric_node *node, enum held_kind kind, unsigned port,
			      unsigned place)
{
	for (unsigned i = 0; node->hold && i < node->hold->count; i++) {
		struct held *row = &node->hold->row[i];

		if (row->kind == kind && row->port == port && row->place == place)
			return row;
	}
	return NULL;
}

static int held_add(struct fabric_node *node, const struct held *held)
{
	struct held *row = held_find(node, held->kind, held->port, held->place);
	unsigned count = node->hold ? node->hold->count : 0;
	struct hold *larger;

	if (row) {
		row->value = held->value;
		return 0;
	}
	larger = realloc(node->hold, sizeof(*larger) + (count + 1) * sizeof(*row));
	if (!larger)
		return ENOMEM;
	larger->row[count] = *held;
	larger->count = count + 1;
	node->hold = larger;
	return 0;
}

static int held_remove(struct fabric_node *node, enum held_kind kind, unsigned port, unsigned place)
{
	struct held *row = held_find(node, kind, port, place);

	if (!row)
		return ENOENT;
	*row = node->hold->row[--node->hold->count];
	return 0;
}

/* ---- rows of a forwarding table ---- */

void hold_routes(struct fabric_node *node)
{
	for (unsigned i = 0; node->hold && i < node->hold->count; i++) {
		const struct held *row = &node->hold->row[i];

		if (row->kind == HELD_ROUTE && node->lft[row->place / LFT_BLOCK])
			node->lft[row->place / LFT_BLOCK][row->place % LFT_BLOCK] =
				(uint8_t)row->value;
	}
}

int fabric_hold_route(struct fabric *fabric, uint32_t node, uint16_t lid, unsigned out)
{
	struct fabric_node *at = fabric_node_at(fabric, node);
	const struct held held = { .kind = HELD_ROUTE, .place = lid, .value = (uint16_t)out };
	uint8_t **block;
	int err;

	if (!at || !node_is_switch(at) || !lid || lid >= at->switch_info.linear_fdb_cap ||
	    (out > at->ports && out != 255 && out != FABRIC_RELEASE))
		return EINVAL;
	if (out == FABRIC_RELEASE)
		return held_remove(at, HELD_ROUTE, 0, lid);
	block = &at->lft[lid / LFT_BLOCK];
	if (!*block) {
		*block = malloc(LFT_BLOCK);
		if (!*block)
			return ENOMEM;
		memset(*block, 255, LFT_BLOCK);
	}
	err = held_add(at, &held);
	hold_routes(at);
	fabric_changed(fabric, node);
	return err;
}

/* ---- P_Keys ---- */

void hold_pkeys(struct fabric_node *node, unsigned port)
{
	for (unsigned i = 0; node->hold && i < node->hold->count; i++) {
		const struct held *row = &node->hold->row[i];

		if (row->kind == HELD_PKEY && row->port == port && node->port[port].pkeys)
			node->port[port].pkeys[row->place] = row->value;
	}
}

int fabric_hold_pkey(struct fabric *fabric, uint32_t node, uint32_t port, unsigned index,
		     unsigned key)
{
	struct fabric_port *at = fabric_port_at(fabric, node, port);
	const struct held held = { .kind = HELD_PKEY, .port = port, .place = (uint16_t)index,
				   .value = (uint16_t)key };
	struct fabric_node *owner = fabric_node_at(fabric, node);
	int err;

	if (!at || index >= port_pkeys(owner, port) || (key > 0xffff && key != FABRIC_RELEASE))
		return EINVAL;
	if (key == FABRIC_RELEASE)
		return held_remove(owner, HELD_PKEY, port, index);
	if (!port_pkeys_make(owner, port))
		return ENOMEM;
	err = held_add(owner, &held);
	hold_pkeys(owner, port);
	fabric_changed(fabric, node);
	fabric_event_at(fabric, node, port, FABRIC_EVENT_PKEY_CHANGE);
	return err;
}

/* ---- ports, nodes ---- */

int fabric_hold_lid(struct fabric *fabric, uint32_t node, uint32_t port, uint16_t lid)
{
	struct fabric_port *at = fabric_port_at(fabric, node, port);

	if (!at || (port && node_is_switch(&fabric->node[node])) || lid >= LID_MULTICAST)
		return EINVAL;
	at->held_lid = lid;
	if (!lid || lid == at->info.lid)
		return 0;
	at->info.lid = lid;
	fabric_changed(fabric, node);
	fabric_event_at(fabric, node, port, FABRIC_EVENT_LID_CHANGE);
	return 0;
}

int fabric_set_guid(struct fabric *fabric, uint32_t node, uint64_t guid)
{
	struct fabric_node *at = fabric_node_at(fabric, node);

	if (!at || !guid)
		return EINVAL;
	at->guid = guid;
	for (unsigned port = 0; port <= at->ports; port++) {
		if (!port && !node_is_switch(at))
			continue;
		at->port[port].guid = node_is_switch(at) ? guid : guid + port;
		fabric_event_at(fabric, node, port, FABRIC_EVENT_GID_CHANGE);
	}
	return 0;
}
