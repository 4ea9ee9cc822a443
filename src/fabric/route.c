/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The way of one data packet, said in words: the same forward(), forward_exit() and forward_entry()
 * that move real ones, without moving anything.
 *
 *	host1: out by [1], SL2VL[3] = VL 3, Active, MTU 4096
 *	sw1: LFT[9] = 3, in by [1], SL2VL[1>3][3] = VL 3, Active, MTU 4096
 *	sw2: LFT[9] = 255: ...
 *
 * That of one to a group is a tree; what follows a copy stands further to the right than its switch:
 *
 *	sw1: MFT[0xc001] = 2 3, in by [1]
 *	  sw1: out by [2], SL2VL[1>2][3] = VL 3, Active, MTU 4096
 *	  host2: arrived
 *	  sw1: out by [3], ...
 */
#include <string.h>

#include "fabric/internal.h"
#include "wire/qpn.h"

#define ROUTE_HOPS	64u
#define ROUTE_NODES	4096u	/* of a tree: tables that lead in circles make copies of copies */

struct route {
	const struct fabric *fabric;
	FILE *out;
	unsigned depth, nodes, arrived;
	bool endless;
};

static void route_indent(const struct route *route)
{
	fprintf(route->out, "%*s", (int)(2 * route->depth), "");
}

static const char *route_state(const struct fabric_port *port)
{
	static const char *const names[] = { "?", "Down", "Init", "Armed", "Active" };

	return port->info.port_state < sizeof(names) / sizeof(names[0])
		       ? names[port->info.port_state] : "?";
}

/* The row of the P_Key table at a switch's port, if the port enforces it. */
static void route_print_pkey(const struct fabric_node *node, unsigned port, bool enforced,
			     const char *way, uint16_t pkey, FILE *out)
{
	unsigned index = strcmp(way, "in") ? port_find_pkey(node, port, pkey) :
					     port_find_partition(node, port, pkey);

	if (!enforced || !node_is_switch(node))
		return;
	if (index < port_pkeys(node, port))
		fprintf(out, ", P_Key %s: [%u][%u] = 0x%04x", way, port, index,
			port_pkey(node, &node->port[port], index));
	else
		fprintf(out, ", P_Key %s: not in the table of [%u]", way, port);
}

/* Why a node sends it nowhere. */
static void route_print_drop(const struct fabric_node *node, const struct flight *flight, FILE *out)
{
	const struct ib_switch_info *info = &node->switch_info;
	unsigned row = node_lft(node, flight->dlid);
	uint64_t mask[4];

	if (lid_is_multicast(flight->dlid) && node_mft(node, flight->dlid, mask))
		fprintf(out, "%s: MFT[0x%04x] = %u alone: back to where it came from\n", node->id,
			flight->dlid, flight->port);
	else if (lid_is_multicast(flight->dlid))
		fprintf(out, "%s: MFT[0x%04x] has no port, nor is there a default one (primary %u, else %u): "
			"has anybody joined the group? (saquery -m)\n", node->id, flight->dlid,
			info->default_multicast_primary_port, info->default_multicast_not_primary_port);
	else if (!node_is_switch(node))
		fprintf(out, "%s: a host, which forwards nothing, and LID %u is not its own: the "
			"table before it is wrong\n", node->id, flight->dlid);
	else if (row == 255)
		fprintf(out, "%s: LFT[%u] = 255: the subnet manager has not programmed it; does "
			"opensm run?\n", node->id, flight->dlid);
	else if (row == flight->port && !flight->from_program)
		fprintf(out, "%s: LFT[%u] = %u: back to where it came from\n", node->id,
			flight->dlid, row);
	else
		fprintf(out, "%s: LFT[%u] = %u: no such port\n", node->id, flight->dlid, row);
}

/* Why a port does not send it. */
static void route_print_stop(const struct fabric_node *node, const struct flight *flight,
			     unsigned number, enum discard discard, FILE *out)
{
	const struct fabric_port *port = &node->port[number];
	unsigned vl = port_sl_to_vl(port, node_is_switch(node) ? flight->port : 0, flight->sl);

	fprintf(out, "%s[%u]: ", node->id, number);
	switch (discard) {
	case DISCARD_DOWN:
		if (port->peer == FABRIC_NONE)
			fprintf(out, "no cable\n");
		else if (port->info.port_state == FABRIC_PORT_DOWN)
			fprintf(out, "Down%s\n", port->plugged ? "" : ": its cable is pulled");
		else
			fprintf(out, "%s, and not Active: it sends no data until the subnet manager "
				"says so; does opensm run?\n", route_state(port));
		break;
	case DISCARD_VL:
		fprintf(out, "SL %u goes to VL %u: %s\n", flight->sl, vl,
			vl == IB_VL_MANAGEMENT ? "which means that it is discarded"
					       : "which is not operational there");
		break;
	case DISCARD_MTU:
		fprintf(out, "%u bytes are more than the MTU of the link, %u\n", flight->payload,
			port_mtu(port));
		break;
	default:
		fprintf(out, "P_Key 0x%04x is not in its table, and it lets no other out\n",
			flight->pkey);
	}
}

/* A node's line, up to the port by which it leaves. */
static void route_print_hop(const struct fabric_node *node, const struct flight *flight,
			    unsigned number, unsigned vl, FILE *out)
{
	const struct fabric_port *port = &node->port[number];

	if (node_is_switch(node) && lid_is_multicast(flight->dlid))
		fprintf(out, "%s: out by [%u], SL2VL[%u>%u][%u] = VL %u", node->id, number, flight->port,
			number, flight->sl, vl);
	else if (node_is_switch(node))
		fprintf(out, "%s: LFT[%u] = %u, in by [%u], SL2VL[%u>%u][%u] = VL %u", node->id,
			flight->dlid, number, flight->port, flight->port, number, flight->sl, vl);
	else
		fprintf(out, "%s: out by [%u], SL2VL[%u] = VL %u", node->id, number, flight->sl,
			vl);
	fprintf(out, ", %s, MTU %u", route_state(port), port_mtu(port));
	route_print_pkey(node, number, port->info.partition_enforcement_outbound, "out",
			 flight->pkey, out);
	fputc('\n', out);
}

/* Over the cable at port @number. False: it ends here. */
static bool route_cross(struct route *route, struct flight *flight, unsigned number)
{
	const struct fabric_node *node = &route->fabric->node[flight->node];
	bool multicast = lid_is_multicast(flight->dlid);
	const struct fabric_port *at;
	enum discard discard;
	uint8_t vl;

	discard = forward_exit(node, flight, number, &vl);
	if (!discard || discard == DISCARD_PKEY || discard == DISCARD_MTU) {
		route_indent(route);
		route_print_hop(node, flight, number, vl, route->out);
	} else if (node_is_switch(node) && !multicast) {
		route_indent(route);
		fprintf(route->out, "%s: LFT[%u] = %u\n", node->id, flight->dlid, number);
	}
	if (discard) {
		route_indent(route);
		route_print_stop(node, flight, number, discard, route->out);
		return false;
	}
	at = &node->port[number];
	flight->node = at->peer;
	flight->port = at->peer_port;
	flight->from_program = false;
	node = &route->fabric->node[flight->node];
	discard = forward_entry(node, flight, flight->port);
	if (discard) {
		route_indent(route);
		if (discard == DISCARD_PKEY)
			fprintf(route->out, "%s[%u]: P_Key 0x%04x is not in its table, and it lets no other in\n",
				node->id, flight->port, flight->pkey);
		else
			fprintf(route->out, "%s[%u]: %s: it takes no data until the subnet manager says so; does "
				"opensm run?\n", node->id, flight->port, route_state(&node->port[flight->port]));
		return false;
	}
	if (node->port[flight->port].info.partition_enforcement_inbound && node_is_switch(node)) {
		route_indent(route);
		fprintf(route->out, "%s: in by [%u]", node->id, flight->port);
		route_print_pkey(node, flight->port, true, "in", flight->pkey, route->out);
		fputc('\n', route->out);
	}
	return true;
}

/* The row of a group, or the default port that stands for it. */
static void route_print_group(struct route *route, const struct flight *flight,
			      const struct decision *decision)
{
	const struct fabric_node *node = &route->fabric->node[flight->node];

	route_indent(route);
	fprintf(route->out, "%s: MFT[0x%04x] ", node->id, flight->dlid);
	if (decision->verdict == VERDICT_OUT)
		fprintf(route->out, "has no port: default port %u", decision->port);
	else
		fputc('=', route->out);
	for (unsigned port = 0; decision->verdict == VERDICT_COPY && port <= node->ports; port++)
		if (decision->mask[port / 64] >> port % 64 & 1)
			fprintf(route->out, " %u", port);
	fprintf(route->out, ", in by [%u]\n", flight->port);
}

static void route_follow(struct route *route, struct flight *flight);

static void route_copies(struct route *route, const struct flight *flight,
			 const struct decision *decision)
{
	const struct fabric_node *node = &route->fabric->node[flight->node];

	route->depth++;
	if (decision->mask[0] & 1) {
		route_indent(route);
		fprintf(route->out, "%s[0]: arrived\n", node->id);
		route->arrived++;
	}
	for (unsigned port = 1; port <= node->ports && !route->endless; port++) {
		struct flight copy = *flight;

		if (decision->mask[port / 64] >> port % 64 & 1 && route_cross(route, &copy, port))
			route_follow(route, &copy);
	}
	route->depth--;
}

/* From where @flight is, until it ends. */
static void route_follow(struct route *route, struct flight *flight)
{
	for (unsigned hop = route->depth; hop < ROUTE_HOPS; hop++) {
		const struct fabric_node *node = &route->fabric->node[flight->node];
		struct decision decision = forward(node, flight);

		if (route->nodes++ == ROUTE_NODES)
			break;
		if (!node->powered) {
			route_indent(route);
			fprintf(route->out, "%s: off\n", node->id);
			return;
		}
		if (node_is_switch(node) && lid_is_multicast(flight->dlid) &&
		    decision.verdict != VERDICT_DROP)
			route_print_group(route, flight, &decision);
		switch (decision.verdict) {
		case VERDICT_DELIVER:
			route_indent(route);
			fprintf(route->out, "%s: arrived%s\n", node->id, flight->from_program ?
				", within the HCA: it does not leave" : "");
			route->arrived++;
			return;
		case VERDICT_DROP:
			route_indent(route);
			route_print_drop(node, flight, route->out);
			return;
		case VERDICT_COPY:
			route_copies(route, flight, &decision);
			return;
		case VERDICT_OUT:
			if (!route_cross(route, flight, decision.port))
				return;
		}
	}
	if (!route->endless) {
		route_indent(route);
		fprintf(route->out, "after %u hops still not there: a loop of tables\n",
			route->nodes > ROUTE_NODES ? ROUTE_NODES : ROUTE_HOPS);
	}
	route->endless = true;
}

bool fabric_print_route(const struct fabric *fabric, const struct fabric_question *question,
			FILE *out)
{
	const struct fabric_port *at = fabric_port_at(fabric, question->node, question->port);
	struct route route = { .fabric = fabric, .out = out };
	struct flight flight = {
		.node = question->node, .port = question->port, .from_program = true,
		.dlid = question->dlid, .pkey = question->pkey, .sl = question->sl,
		.payload = question->payload, .dest_qpn = QPN_GSI + 1,
		.data = (uint8_t[1]){ 0 },	/* it is data; nobody looks at its bytes */
	};

	if (!at || !question->dlid || question->dlid == LID_PERMISSIVE) {
		fprintf(out, "LID %u: no LID of a port\n", question->dlid);
		return false;
	}
	flight.slid = at->info.lid;
	if (at->state != PORT_ACTIVE) {
		route_print_stop(&fabric->node[flight.node], &flight, flight.port, DISCARD_DOWN, out);
		return false;
	}
	route_follow(&route, &flight);
	return route.arrived;
}
