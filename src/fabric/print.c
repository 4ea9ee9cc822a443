/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The subnet as a file, with all that a file can say: GUIDs, descriptions, rates as they are
 * offered, and the LIDs that a subnet manager gave, as comments.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/internal.h"

static const char *print_width(uint8_t widths)
{
	return widths & WIDTH_12X ? "12x" : widths & WIDTH_8X ? "8x" : widths & WIDTH_4X ? "4x" :
	       widths & WIDTH_2X ? "2x" : "1x";
}

static void print_port(const struct fabric *fabric, const struct fabric_node *node, unsigned number,
		       FILE *out)
{
	const struct fabric_port *port = &node->port[number];
	const struct fabric_node *peer;

	if (port->peer == FABRIC_NONE)
		return;
	peer = &fabric->node[port->peer];
	fprintf(out, "[%u]", number);
	if (!node_is_switch(node))
		fprintf(out, "(%llx)", (unsigned long long)port->guid);
	fprintf(out, "\t\"%s\"[%u]", peer->id, port->peer_port);
	if (!node_is_switch(peer))
		fprintf(out, "(%llx)", (unsigned long long)peer->port[port->peer_port].guid);
	fprintf(out, "\t\t# ");
	if (!node_is_switch(node))
		fprintf(out, "lid %u lmc %u ", port->info.lid, port->info.lmc);
	fprintf(out, "\"%s\" lid %u %s%s\n", peer->description,
		peer->port[node_own_port(peer, port->peer_port)].info.lid,
		print_width(port->info.link_width_supported), speeds[port->speed_max].name);
}

static void print_node(const struct fabric *fabric, const struct fabric_node *node, FILE *out)
{
	bool is_switch = node_is_switch(node);

	fprintf(out, "\nvendid=0x%x\ndevid=0x%x\nsysimgguid=0x%llx\n%s=0x%llx", node->vendor_id,
		node->device_id, (unsigned long long)node->system_guid,
		is_switch		  ? "switchguid"
		: node->type == FABRIC_CA ? "caguid"
					  : "rtguid",
		(unsigned long long)node->guid);
	if (is_switch)
		fprintf(out, "(%llx)", (unsigned long long)node->port[0].guid);
	fprintf(out, "\n%s\t%u \"%s\"\t\t# \"%s\"",
		is_switch		  ? "Switch"
		: node->type == FABRIC_CA ? "Ca"
					  : "Rt",
		node->ports, node->id, node->description);
	if (is_switch)
		fprintf(out, " %s port 0 lid %u lmc %u",
			node->switch_info.enhanced_port_zero ? "enhanced" : "base",
			node->port[0].info.lid, node->port[0].info.lmc);
	fprintf(out, "\n");
	for (unsigned port = 1; port <= node->ports; port++)
		print_port(fabric, node, port, out);
}

char *fabric_print(const struct fabric *fabric)
{
	char *text = NULL;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);

	if (!out)
		return NULL;
	for (uint32_t i = 0; i < fabric->nodes; i++)
		print_node(fabric, &fabric->node[i], out);
	if (fclose(out)) {
		free(text);
		return NULL;
	}
	return text;
}
