/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The way of a packet. forward() decides at one node, from the tables there and the packet's
 * headers alone, for all packets: by LID, multicast, directed. flights_run() moves packets from
 * node to node until none is left: answers of SMAs and what a program sends from deliver() join the
 * end of the queue.
 */
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "fabric/internal.h"

#define HOPS_MAX	255u	/* beyond the longest route: tables that lead in a circle */
#define STEPS_MAX	100000u	/* of one call: copies of multicast that lead in circles */
#define QUEUE_MAX	16384u

static bool flight_is_smp(const struct flight *flight)
{
	return !flight->dest_qpn;
}

static bool flight_is_directed(const struct flight *flight)
{
	return flight_is_smp(flight) && flight->mad[1] == MAD_CLASS_SUBNET_DIRECTED;
}

static struct decision decide_for(enum verdict verdict, unsigned port)
{
	return (struct decision){ .verdict = verdict, .port = port };
}

static struct decision decide_drop(enum discard discard)
{
	return (struct decision){ .verdict = VERDICT_DROP, .discard = discard };
}

/* By the LFT of a switch. @begins: at port 0, where the directed part of a route has ended. */
static struct decision forward_by_lid(const struct fabric_node *node, const struct flight *flight,
				      bool begins)
{
	unsigned out = node_lft(node, flight->dlid);

	if (!out || out > node->ports ||
	    (out == flight->port && !begins && !flight->from_sma && !flight->from_program))
		return decide_drop(DISCARD_ROUTE);
	return decide_for(VERDICT_OUT, out);
}

static struct decision forward_directed(const struct fabric_node *node, struct flight *flight,
					bool starts)
{
	enum smi_origin origin = flight->dlid != LID_PERMISSIVE ? SMI_CAME_BY_LID :
				 starts ? SMI_BEGINS : SMI_PASSES;
	unsigned port = flight->port;
	uint16_t lid;

	switch (smi_route(node, origin, &port, flight->mad, &lid)) {
	case SMI_LOCAL:
		return decide_for(VERDICT_DELIVER, node_own_port(node, flight->port));
	case SMI_OUT:
		flight->dlid = flight->slid = LID_PERMISSIVE;
		return decide_for(VERDICT_OUT, port);
	case SMI_BY_LID:
		flight->dlid = lid;
		flight->slid = node->port[0].info.lid;
		if (port_has_lid(&node->port[0], lid))
			return decide_for(VERDICT_DELIVER, 0);
		return forward_by_lid(node, flight, true);
	default:
		return decide_drop(DISCARD_SMI);
	}
}

static struct decision forward_multicast(const struct fabric_node *node,
					 const struct flight *flight)
{
	struct decision decision = { .verdict = VERDICT_COPY };
	uint64_t any = 0;

	if (!node_mft(node, flight->dlid, decision.mask)) {
		/* What came by the primary port goes to the other, all else to the primary one. */
		unsigned primary = node->switch_info.default_multicast_primary_port;
		unsigned out = flight->port == primary ?
			node->switch_info.default_multicast_not_primary_port : primary;

		if (!out || out > node->ports || out == flight->port)
			return decide_drop(DISCARD_ROUTE);
		return decide_for(VERDICT_OUT, out);
	}
	if (!flight->from_program && !flight->from_sma)
		decision.mask[flight->port / 64] &= ~(UINT64_C(1) << flight->port % 64);
	for (unsigned i = 0; i < 4; i++)
		any |= decision.mask[i];
	return any ? decision : decide_drop(DISCARD_ROUTE);
}

struct decision forward(const struct fabric_node *node, struct flight *flight)
{
	bool starts = flight->from_program || flight->from_sma, is_switch = node_is_switch(node);
	const struct fabric_port *own = &node->port[node_own_port(node, flight->port)];
	bool ours = port_has_lid(own, flight->dlid);
	bool multicast = flight->dlid >= LID_MULTICAST && flight->dlid != LID_PERMISSIVE;

	if (multicast && flight_is_smp(flight))		/* QP0 is in no group */
		return decide_drop(DISCARD_PORT);
	if (flight_is_directed(flight) && (ours || flight->dlid == LID_PERMISSIVE))
		return forward_directed(node, flight, starts);
	/* The permissive LID is for whom the link leads to. */
	if (ours || (flight->dlid == LID_PERMISSIVE && !starts && flight_is_smp(flight)))
		return decide_for(VERDICT_DELIVER, node_own_port(node, flight->port));
	if (!is_switch) {
		if (starts)
			return decide_for(VERDICT_OUT, flight->port);
		return multicast ? decide_for(VERDICT_DELIVER, flight->port)
				 : decide_drop(DISCARD_PORT);
	}
	if (flight->dlid == LID_PERMISSIVE)
		return decide_drop(DISCARD_ROUTE);
	return multicast ? forward_multicast(node, flight) : forward_by_lid(node, flight, false);
}

void flight_lost(struct fabric *fabric, const struct flight *flight, enum discard discard)
{
	static const char *const reasons[] = {
		[DISCARD_DOWN] = "the port is not up, or the node has no power",
		[DISCARD_ROUTE] = "no row of a table leads on",
		[DISCARD_SMI] = "its path does not fit",
		[DISCARD_MKEY] = "a wrong M_Key",
		[DISCARD_PORT] = "it is not for this port",
		[DISCARD_OTHER] = "too many hops, or too many MADs",
		[DISCARD_ERROR] = "an error of the link",
	};
	struct fabric_statistics *statistics = &fabric->statistics;

	if (fabric->ops.lost)
		fabric->ops.lost(fabric->context, flight->node, flight->port, flight->mad,
				 reasons[discard]);
	switch (discard) {
	case DISCARD_DOWN:
		statistics->lost_down++;
		return;
	case DISCARD_ROUTE:
		statistics->lost_route++;
		return;
	case DISCARD_SMI:
		statistics->lost_smi++;
		return;
	case DISCARD_MKEY:
		statistics->lost_mkey++;
		return;
	case DISCARD_PORT:
		statistics->lost_port++;
		return;
	case DISCARD_OTHER:
		statistics->lost_other++;
		return;
	case DISCARD_ERROR:
		statistics->lost_error++;
	}
}

/* ---- across a cable ---- */

static void flight_show(struct fabric *fabric, const struct flight *flight, unsigned out,
			const struct fabric_port *port)
{
	const struct ib_route route = {
		.vl = flight->vl, .sl = flight->sl, .dlid = flight->dlid, .slid = flight->slid,
		.has_grh = flight->has_grh, .grh = flight->grh,
	};
	const struct ib_mad_ends ends = {
		.source_qpn = flight->source_qpn, .destination_qpn = flight->dest_qpn,
		.qkey = flight->qkey, .psn = fabric->psn++ & 0xffffff, .pkey = flight->pkey,
	};
	uint8_t data[IB_MAD_PACKET_MAX];
	const struct fabric_packet packet = {
		.data = data, .bytes = ib_packet_write_mad(&route, &ends, flight->mad, data),
		.now_us = fabric->now_us, .node = flight->node, .port = out,
		.peer_node = port->peer, .peer_port = port->peer_port,
	};

	fabric->ops.packet(fabric->context, &packet);
}

static bool flight_is_hit(struct fabric *fabric, const struct flight *flight,
			  const struct fabric_port *at)
{
	if (!at->error_percent ||
	    (at->error_attribute && at->error_attribute != get_be16(flight->mad + 16)))
		return false;
	fabric->error_random = fabric->error_random * 1664525u + 1013904223u;
	return (fabric->error_random >> 16) % 100 < at->error_percent;
}

/* Words of LRH to ICRC: LRH, GRH, BTH, DETH, MAD. */
static unsigned flight_words(const struct flight *flight)
{
	return (8 + (flight->has_grh ? 40 : 0) + 12 + 8 + MAD_BYTES + 4) / 4;
}

static void flight_count(const struct flight *flight, struct fabric_port *from,
			 struct fabric_port *to)
{
	bool multicast = flight->dlid >= LID_MULTICAST && flight->dlid != LID_PERMISSIVE;

	from->counter[COUNTER_XMIT_PKTS]++;
	from->counter[COUNTER_XMIT_DATA] += flight_words(flight);
	from->counter[multicast ? COUNTER_MULTICAST_XMIT_PKTS : COUNTER_UNICAST_XMIT_PKTS]++;
	to->counter[COUNTER_RCV_PKTS]++;
	to->counter[COUNTER_RCV_DATA] += flight_words(flight);
	to->counter[multicast ? COUNTER_MULTICAST_RCV_PKTS : COUNTER_UNICAST_RCV_PKTS]++;
}

/* IBTA 10.9.3: the low 15 bits are equal, and one of both is a full member. */
static bool pkeys_match(uint16_t a, uint16_t b)
{
	return (a & 0x7fff) && !((a ^ b) & 0x7fff) && (a | b) & 0x8000;
}

/* A switch's port that was told to lets no packet of another partition through (10.9.4). */
static bool pkey_passes(const struct fabric_node *node, unsigned port, bool enforced,
			const struct flight *flight)
{
	unsigned count = port_pkeys(node, port);

	if (!enforced || !node_is_switch(node) || flight_is_smp(flight))
		return true;
	for (unsigned i = 0; i < count; i++)
		if (pkeys_match(port_pkey(node, &node->port[port], i), flight->pkey))
			return true;
	return false;
}

/* False: lost. */
static bool flight_cross(struct fabric *fabric, struct flight *flight, unsigned out)
{
	struct fabric_node *node = &fabric->node[flight->node];
	struct fabric_port *from = &node->port[out], *to;
	bool management = flight_is_smp(flight);

	if (from->peer == FABRIC_NONE ||
	    (management ? from->info.port_state < FABRIC_PORT_INIT : from->state != PORT_ACTIVE)) {
		from->counter[COUNTER_XMIT_DISCARDS]++;
		flight_lost(fabric, flight, DISCARD_DOWN);
		return false;
	}
	flight->vl = management ? IB_VL_MANAGEMENT
				: port_sl_to_vl(from, node_is_switch(node) ? flight->port : 0,
						flight->sl);
	if (flight->vl == IB_VL_MANAGEMENT && !management) {
		from->counter[COUNTER_XMIT_DISCARDS]++;
		flight_lost(fabric, flight, DISCARD_ROUTE);
		return false;
	}
	if (!pkey_passes(node, out, from->info.partition_enforcement_outbound, flight)) {
		from->counter[COUNTER_XMIT_CONSTRAINT]++;
		flight_lost(fabric, flight, DISCARD_PORT);
		return false;
	}
	if (++flight->hops > HOPS_MAX) {
		flight_lost(fabric, flight, DISCARD_OTHER);
		return false;
	}
	fabric->statistics.hops++;
	to = &fabric->node[from->peer].port[from->peer_port];
	flight_count(flight, from, to);
	if (fabric->ops.packet)
		flight_show(fabric, flight, out, from);
	if (flight_is_hit(fabric, flight, to)) {
		to->counter[COUNTER_SYMBOL_ERROR]++;
		to->counter[COUNTER_RCV_ERRORS]++;
		flight_lost(fabric, flight, DISCARD_ERROR);
		return false;
	}
	if (!management) {
		if (to->info.port_state < FABRIC_PORT_ARMED) {
			flight_lost(fabric, flight, DISCARD_DOWN);
			return false;
		}
		link_event(fabric, from->peer, from->peer_port, PORT_DATA, true);
	}
	if (!pkey_passes(&fabric->node[from->peer], from->peer_port,
			 to->info.partition_enforcement_inbound, flight)) {
		to->counter[COUNTER_RCV_CONSTRAINT]++;
		flight_lost(fabric, flight, DISCARD_PORT);
		return false;
	}
	flight->port = from->peer_port;
	flight->node = from->peer;
	flight->from_program = flight->from_sma = false;
	return true;
}

/* ---- at its end ---- */

static void flight_deliver(struct fabric *fabric, const struct flight *flight, unsigned port)
{
	struct fabric_node *node = &fabric->node[flight->node];
	struct fabric_port *at = &node->port[port];
	struct flight answer;
	struct fabric_address from = {
		.lid = flight->slid,
		.sl = flight->sl,
		.qpn = flight->source_qpn,
		.qkey = flight->qkey,
		.has_grh = flight->has_grh,
		.hop_limit = flight->grh.hoplmt,
		.traffic_class = flight->grh.tclass,
		.flow_label = flight->grh.flowlabel,
	};

	if (at->info.lid && flight->dlid < LID_MULTICAST)
		from.path_bits = (uint8_t)(flight->dlid ^ at->info.lid);
	memcpy(from.gid, flight->grh.sgid, sizeof(from.gid));
	if (!flight_is_smp(flight)) {
		unsigned index = 0, count = port_pkeys(node, port);

		if (at->state != PORT_ACTIVE && at->state != PORT_ARMED) {
			flight_lost(fabric, flight, DISCARD_DOWN);
			return;
		}
		while (index < count && !pkeys_match(port_pkey(node, at, index), flight->pkey))
			index++;
		if (index == count || flight->qkey != QKEY_GSI) {
			uint16_t *violations = index == count ? &at->info.p_key_violations :
								&at->info.q_key_violations;

			*violations += *violations != 0xffff;
			flight_lost(fabric, flight, DISCARD_PORT);
			return;
		}
		from.pkey_index = (uint16_t)index;
	}
	if (!flight_is_smp(flight) && pma_receive(fabric, flight, port, &answer)) {
		flight_start(fabric, &answer);
		return;
	}
	if (!fabric->ops.deliver) {
		flight_lost(fabric, flight, DISCARD_PORT);
		return;
	}
	fabric->statistics.delivered++;
	fabric->ops.deliver(fabric->context, flight->node, port, flight->mad, &from);
}

/* The SMA's answer goes back the way the request came. */
static void flight_turn(struct flight *flight)
{
	uint16_t dlid = flight->dlid;

	if (flight->mad[1] == MAD_CLASS_SUBNET_DIRECTED &&
	    get_be16(flight->mad + SMP_DR_DLID) == LID_PERMISSIVE) {
		flight->dlid = flight->slid = LID_PERMISSIVE;
	} else {
		flight->dlid = flight->slid;
		flight->slid = dlid;
	}
	flight->from_sma = true;
	flight->from_program = false;
	flight->hops = 0;
}

/* True: the flight goes on, as an answer. */
static bool flight_arrive(struct fabric *fabric, struct flight *flight, unsigned port)
{
	bool answer = false;

	if (flight_is_smp(flight) && sma_receive(fabric, flight, &answer)) {
		if (!answer)
			return false;
		flight_turn(flight);
		return true;
	}
	flight_deliver(fabric, flight, port);
	return false;
}

/* ---- the queue ---- */

void flight_start(struct fabric *fabric, const struct flight *flight)
{
	if (fabric->queue_count >= QUEUE_MAX) {
		flight_lost(fabric, flight, DISCARD_OTHER);
		return;
	}
	if (fabric->queue_count == fabric->queue_room) {
		size_t room = fabric->queue_room ? 2 * fabric->queue_room : 16;
		struct flight *queue = malloc(room * sizeof(*queue));

		if (!queue) {
			flight_lost(fabric, flight, DISCARD_OTHER);
			return;
		}
		for (size_t i = 0; i < fabric->queue_count; i++)
			queue[i] = fabric->queue[(fabric->queue_head + i) % fabric->queue_room];
		free(fabric->queue);
		fabric->queue = queue;
		fabric->queue_room = room;
		fabric->queue_head = 0;
	}
	fabric->queue[(fabric->queue_head + fabric->queue_count++) % fabric->queue_room] = *flight;
}

/* Returns how many nodes it came to. */
static unsigned flight_run(struct fabric *fabric, struct flight *flight)
{
	unsigned steps = 0;

	for (;; steps++) {
		struct fabric_node *node = &fabric->node[flight->node];
		struct decision decision;

		if (!node->powered) {
			flight_lost(fabric, flight, DISCARD_DOWN);
			return steps;
		}
		decision = forward(node, flight);
		switch (decision.verdict) {
		case VERDICT_DELIVER:
			if (!flight_arrive(fabric, flight, decision.port))
				return steps;
			break;
		case VERDICT_OUT:
			if (!flight_cross(fabric, flight, decision.port))
				return steps;
			break;
		case VERDICT_COPY:
			for (unsigned port = 1; port <= node->ports; port++) {
				struct flight copy = *flight;

				if (decision.mask[port / 64] >> port % 64 & 1 &&
				    flight_cross(fabric, &copy, port))
					flight_start(fabric, &copy);
			}
			if (decision.mask[0] & 1)
				flight_deliver(fabric, flight, 0);
			return steps;
		case VERDICT_DROP:
			if (decision.discard == DISCARD_ROUTE && !flight->from_program &&
			    !flight->from_sma)
				node->port[flight->port].counter[COUNTER_RCV_SWITCH_RELAY]++;
			flight_lost(fabric, flight, decision.discard);
			return steps;
		}
	}
}

void flights_run(struct fabric *fabric)
{
	unsigned steps = 0;

	if (fabric->busy)
		return;
	fabric->busy = true;
	while (fabric->queue_count) {
		struct flight flight = fabric->queue[fabric->queue_head];

		fabric->queue_head = (fabric->queue_head + 1) % fabric->queue_room;
		fabric->queue_count--;
		if (steps++ < STEPS_MAX)
			steps += flight_run(fabric, &flight);
		else
			flight_lost(fabric, &flight, DISCARD_OTHER);
	}
	fabric->busy = false;
}
