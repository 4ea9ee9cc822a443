/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The subnet as a file, with all that a file can say: GUIDs, descriptions, rates as they are
 * offered, and the LIDs that a subnet manager gave, as comments.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ip_addr.h"
#include "fabric/file_internal.h"

static const char *print_width(uint8_t widths)
{
	return widths & WIDTH_12X ? "12x" : widths & WIDTH_8X ? "8x" : widths & WIDTH_4X ? "4x" :
	       widths & WIDTH_2X ? "2x" : "1x";
}

void fabric_print_text(const char *text, FILE *out)
{
	for (; *text; text++) {
		bool plain = (unsigned char)*text >= ' ' && *text != 0x7f && *text != '"';

		fputc(plain ? *text : '?', out);
	}
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
	fputc('"', out);
	fabric_print_text(peer->description, out);
	fprintf(out, "\" lid %u %s%s\n", peer->port[node_own_port(peer, port->peer_port)].info.lid,
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
	fprintf(out, "\n%s\t%u \"%s\"\t\t# \"",
		is_switch		  ? "Switch"
		: node->type == FABRIC_CA ? "Ca"
					  : "Rt",
		node->ports, node->id);
	fabric_print_text(node->description, out);
	fputc('"', out);
	if (is_switch)
		fprintf(out, " %s port 0 lid %u lmc %u",
			node->switch_info.enhanced_port_zero ? "enhanced" : "base",
			node->port[0].info.lid, node->port[0].info.lmc);
	fprintf(out, "\n");
	for (unsigned port = 1; port <= node->ports; port++)
		print_port(fabric, node, port, out);
}

/* Of a cable at the end that the file has first. */
static void print_faults(const struct fabric *fabric, const struct fabric_node *node,
			 unsigned number, FILE *out)
{
	const struct fabric_port *port = &node->port[number];
	const struct fabric_node *peer = port->peer == FABRIC_NONE ? NULL :
								     &fabric->node[port->peer];
	bool first = peer && (node < peer || (node == peer && number < port->peer_port));

	if (peer && !port->plugged)
		fprintf(out, "link \"%s\"[%u] down\n", node->id, number);
	if (first && port->bit_errors)
		fprintf(out, "link \"%s\"[%u] ber=%g\n", node->id, number, bit_errors_rate(port));
	if (first && (port->cable_widths || port->cable_degraded))
		fprintf(out, "link \"%s\"[%u] degraded=%s%s\n", node->id, number,
			port->cable_widths ? print_width(port->cable_widths) : "",
			port->cable_degraded ? speeds[port->cable_speed].name : "");
	if (port->stuck)
		fprintf(out, "port \"%s\"[%u] stuck\n", node->id, number);
	for (unsigned i = 0; port->rise && i < COUNTERS; i++)
		if (port->rise[i].per_second)
			fprintf(out, "counter \"%s\"[%u] %s+=%llu\n", node->id, number,
				port_counter_name(i), (unsigned long long)port->rise[i].per_second);
}

/* What has no place in the syntax of ibnetdiscover, in lines of our own behind it. */
static void print_own_lines(const struct fabric *fabric, const struct fabric_node *node, FILE *out)
{
	const struct ib_switch_info *info = &node->switch_info;
	unsigned vls = 1u << (node->port[node->ports].vl_cap - 1);

	if (node_is_switch(node) &&
	    (info->linear_fdb_cap != LFT_MAX || info->multicast_fdb_cap != MFT_DEFAULT ||
	     info->partition_enforcement_cap != PKEYS_SWITCH || vls != VLS_DEFAULT ||
	     info->optimized_sl_to_vl_mapping_programming))
		fprintf(out, "switch \"%s\" lft=%u mft=%u pkeys=%u vls=%u slvl=%s\n", node->id,
			info->linear_fdb_cap, info->multicast_fdb_cap,
			info->partition_enforcement_cap, vls < 16 ? vls : 15,
			info->optimized_sl_to_vl_mapping_programming ? "yes" : "no");
	for (unsigned port = 0; port <= node->ports; port++)
		print_faults(fabric, node, port, out);
	for (unsigned i = 0; i < fabric->ips; i++) {
		const uint8_t *ip = fabric->ip[i].ip;
		bool ipv4 = ip_addr_is_ipv4(ip);
		char text[INET6_ADDRSTRLEN];

		if (&fabric->node[fabric->ip[i].node] == node)
			fprintf(out, fabric->ip[i].pkey ? "port \"%s\"[%u] ip=%s@0x%04x\n"
						       : "port \"%s\"[%u] ip=%s\n", node->id, fabric->ip[i].port,
				inet_ntop(ipv4 ? AF_INET : AF_INET6, ip + (ipv4 ? 12 : 0), text,
					  sizeof(text)), fabric->ip[i].pkey);
	}
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
	fputc('\n', out);
	for (uint32_t i = 0; i < fabric->nodes; i++)
		print_own_lines(fabric, &fabric->node[i], out);
	if (fclose(out)) {
		free(text);
		return NULL;
	}
	return text;
}
