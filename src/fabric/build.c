/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A subnet of the nodes and cable ends that a file has: ends are joined, tables and ports made, and
 * links that can come up do.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/file_internal.h"

#define PKEYS_CA	128u

static bool build_switch(struct fabric_node *node, const struct switch_options *options)
{
	node->switch_info = (struct ib_switch_info){
		.linear_fdb_cap = (uint16_t)options->lft,
		.multicast_fdb_cap = (uint16_t)options->mft,
		.partition_enforcement_cap = (uint16_t)options->pkeys,
		.inbound_enforcement_cap = 1,
		.outbound_enforcement_cap = 1,
		.enhanced_port_zero = options->esp0,
		.optimized_sl_to_vl_mapping_programming = options->sl_map_optimized,
	};
	node->positions = (node->ports + MFT_PORTS) / MFT_PORTS;
	node->lft = calloc((options->lft + LFT_BLOCK - 1) / LFT_BLOCK, sizeof(*node->lft));
	node->mft = calloc((options->mft + MFT_BLOCK - 1) / MFT_BLOCK * node->positions + 1,
			   sizeof(*node->mft));
	return node->lft && node->mft;
}

/* The VLCap code that has at least so many VLs. */
static uint8_t vl_code(unsigned vls)
{
	uint8_t code = 1;

	while (code < 5 && (1u << (code - 1)) < vls)
		code++;
	return code;
}

/* False: no memory. */
static bool build_node(struct draft *draft)
{
	struct fabric_node *node = &draft->node;
	bool is_switch = node_is_switch(node);

	node->port = calloc(node->ports + 1, sizeof(*node->port));
	node->pkeys = is_switch ? PKEYS_SWITCH : PKEYS_CA;
	node->given = malloc(DESCRIPTION_BYTES + 1);
	if (!node->port || !node->given || (is_switch && !build_switch(node, &draft->options)))
		return false;
	memcpy(node->given, node->description, DESCRIPTION_BYTES + 1);
	node_forget(node);
	if (!node->system_guid)
		node->system_guid = node->guid;
	for (unsigned i = 0; i <= node->ports; i++) {
		struct fabric_port *port = &node->port[i];

		port->peer = FABRIC_NONE;
		port->speed_max = SPEED_EDR;
		port->vl_cap = vl_code(is_switch && i ? draft->options.vls : 8);
		port->guid = !is_switch		      ? node->guid + i
			     : draft->first_port_guid ? draft->first_port_guid
						      : node->guid;
		if (!is_switch && !i)
			port->guid = 0;
	}
	return true;
}

static void join_ends(struct reader *reader, struct fabric_node *nodes, const struct cable_end *end)
{
	struct fabric_port *port = &nodes[end->node].port[end->port], *peer;
	uint32_t other = reader_find(reader, end->peer_name);

	reader->line = end->line;
	if (other == FABRIC_NONE) {
		COMPLAIN(reader, "\"%.64s\" is not in the file; add a line Switch, Ca or Rt for it",
			 end->peer_name);
		return;
	}
	if (!end->peer_port || end->peer_port > nodes[other].ports) {
		COMPLAIN(reader,
			 "\"%.64s\" has ports 1 to %u, and not %u; raise the number in line %u",
			 end->peer_name, nodes[other].ports, end->peer_port,
			 reader->draft[other].line);
		return;
	}
	if (other == end->node && end->peer_port == end->port) {
		COMPLAIN(reader, "port %u is cabled to itself; name the other end", end->port);
		return;
	}
	peer = &nodes[other].port[end->peer_port];
	if ((port->peer != FABRIC_NONE &&
	     (port->peer != other || port->peer_port != end->peer_port)) ||
	    (peer->peer != FABRIC_NONE &&
	     (peer->peer != end->node || peer->peer_port != end->port))) {
		bool here = port->peer != FABRIC_NONE &&
			    (port->peer != other || port->peer_port != end->peer_port);
		const struct fabric_port *taken = here ? port : peer;

		COMPLAIN(reader,
			 "\"%.40s\"[%u] is cabled to \"%.40s\"[%u] already; a port has one cable",
			 here ? nodes[end->node].id : end->peer_name,
			 here ? end->port : end->peer_port, nodes[taken->peer].id,
			 taken->peer_port);
		return;
	}
	port->peer = other;
	port->peer_port = (uint8_t)end->peer_port;
	peer->peer = end->node;
	peer->peer_port = (uint8_t)end->port;
	port->plugged = peer->plugged = true;
	if (end->guid && !node_is_switch(&nodes[end->node]))
		port->guid = end->guid;
	port->rated = true;
	if (end->speed >= 0)
		port->speed_max = (uint8_t)end->speed;
	if (end->width)		/* what it offers for its link to have this one */
		port->info.link_width_supported = (uint8_t)(end->width | WIDTH_1X);
	if (!peer->rated) {	/* one end is enough */
		peer->rated = true;
		peer->speed_max = port->speed_max;
		peer->info.link_width_supported = port->info.link_width_supported;
	}
}

static int compare_guids(const void *a, const void *b)
{
	const struct fabric_node *x = *(const struct fabric_node *const *)a,
				 *y = *(const struct fabric_node *const *)b;

	return x->guid < y->guid ? -1 : x->guid > y->guid;
}

static void check_guids(struct reader *reader, struct fabric *fabric)
{
	const struct fabric_node **sorted = malloc(fabric->nodes * sizeof(*sorted));

	if (!sorted) {
		reader->no_memory = true;
		return;
	}
	for (uint32_t i = 0; i < fabric->nodes; i++)
		sorted[i] = &fabric->node[i];
	qsort(sorted, fabric->nodes, sizeof(*sorted), compare_guids);
	for (uint32_t i = 1; i < fabric->nodes; i++)
		if (sorted[i]->guid == sorted[i - 1]->guid) {
			reader->line = reader->draft[sorted[i] - fabric->node].line;
			COMPLAIN(reader,
				 "\"%.40s\" and \"%.40s\" have the same GUID 0x%llx; give each its "
				 "own, or none",
				 sorted[i - 1]->id, sorted[i]->id,
				 (unsigned long long)sorted[i]->guid);
		}
	free(sorted);
}

/* False: no memory, or complained of. */
static bool build_plant(struct reader *reader, struct fabric *fabric, const struct planted *planted)
{
	uint32_t node = planted->node, port = planted->port;
	int err = 0;

	switch (planted->kind) {
	case PLANT_COUNTER:
		err = fabric_set_counter(fabric, node, port, planted->counter, planted->value, 0);
		break;
	case PLANT_RISE:
		err = fabric_set_rise(fabric, node, port, planted->counter, planted->value, 0);
		break;
	case PLANT_BIT_ERRORS:
		err = fabric_set_bit_errors(fabric, node, port, planted->rate, 0);
		break;
	case PLANT_DEGRADED:
		err = fabric_set_degraded(fabric, node, port, planted->lanes, planted->speed < 0 ?
					  NULL : speeds[planted->speed].name, 0);
		break;
	case PLANT_STUCK:
		err = fabric_set_stuck(fabric, node, port, true, 0);
		break;
	case PLANT_ADDRESS:
		err = fabric_add_ip(fabric, node, port, planted->ip, planted->pkey);
	}
	reader->no_memory |= err == ENOMEM;
	reader->line = planted->line;
	if (err == EEXIST)
		COMPLAIN(reader, "an address of ip= is given twice; each port has its own");
	else if (err && err != ENOMEM)
		COMPLAIN(reader, "\"%.64s\"[%u] has no cable", fabric->node[node].id, port);
	return !err;
}

struct fabric *file_build(struct reader *reader)
{
	struct fabric *fabric = calloc(1, sizeof(*fabric));

	if (!fabric)
		return NULL;
	fabric->next_tid = 1;
	fabric->deadline_us = FABRIC_NEVER;
	fabric->node = calloc(reader->drafts, sizeof(*fabric->node));
	if (!fabric->node)
		goto failed;
	for (uint32_t cas = 0; fabric->nodes < reader->drafts; fabric->nodes++) {
		struct draft *draft = &reader->draft[fabric->nodes];
		bool built = build_node(draft);

		fabric->node[fabric->nodes] = draft->node;
		fabric->node[fabric->nodes].ca_number = draft->node.type == FABRIC_CA ? ++cas : 0;
		draft->node = (struct fabric_node){ .id = fabric->node[fabric->nodes].id };
		if (!built) {
			fabric->nodes++;
			goto failed;
		}
	}
	for (size_t i = 0; i < reader->ends; i++)
		join_ends(reader, fabric->node, &reader->end[i]);
	for (size_t i = 0; i < reader->ends && !reader->errors->count; i++)
		if (reader->end[i].pulled) {
			struct fabric_port *port =
				&fabric->node[reader->end[i].node].port[reader->end[i].port];

			port->plugged = fabric->node[port->peer].port[port->peer_port].plugged =
				false;
		}
	check_guids(reader, fabric);
	if (reader->errors->count || reader->no_memory || !fabric_index_names(fabric))
		goto failed;
	for (uint32_t i = 0; i < fabric->nodes; i++)
		for (unsigned port = node_is_switch(&fabric->node[i]) ? 0 : 1;
		     port <= fabric->node[i].ports; port++)
			port_reset(&fabric->node[i], port);
	for (uint32_t i = 0; i < fabric->nodes; i++)
		for (unsigned port = 1; port <= fabric->node[i].ports; port++)
			link_try(fabric, i, port);
	for (size_t i = 0; i < reader->plants; i++)
		if (!build_plant(reader, fabric, &reader->planted[i]))
			goto failed;
	return fabric;
failed:
	for (uint32_t i = 0; i < fabric->nodes; i++)
		reader->draft[i].node.id = NULL;
	fabric_free(fabric);
	return NULL;
}
