/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The way of a packet. forward() decides at one node, from the tables there and the packet's
 * headers alone, for all packets, MADs and data: by LID, multicast, directed. What a port on the way
 * refuses, forward_exit() and forward_entry() say. flights_run() moves packets from
 * node to node until none is left: answers of SMAs and what a program sends from deliver() join the
 * end of the queue.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "fabric/internal.h"
#include "wire/opcode.h"
#include "wire/qpn.h"
#include "wire/vcrc.h"

#define HOPS_MAX	255u	/* beyond the longest route: tables that lead in a circle */
#define STEPS_MAX	100000u	/* of one call: copies of multicast that lead in circles */
#define QUEUE_MAX	16384u

/* Data is for no QP0. */
static bool flight_is_smp(const struct flight *flight)
{
	return !flight->dest_qpn;
}

static bool flight_is_multicast(const struct flight *flight)
{
	return lid_is_multicast(flight->dlid);
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
	bool multicast = flight_is_multicast(flight);

	if (multicast && flight_is_smp(flight))		/* QP0 is in no group */
		return decide_drop(DISCARD_PORT);
	if (flight_is_smp(flight) && flight->mad[1] == MAD_CLASS_SUBNET_DIRECTED &&
	    (ours || flight->dlid == LID_PERMISSIVE))
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
	struct fabric_statistics *statistics = &fabric->statistics;
	const struct {
		const char *why;
		uint64_t *counter;
	} rows[DISCARDS] = {
		[DISCARD_DOWN] = { "the port is not up, or the node has no power",
				   &statistics->lost_down },
		[DISCARD_ROUTE] = { "no row of a table leads on", &statistics->lost_route },
		[DISCARD_SMI] = { "its path does not fit", &statistics->lost_smi },
		[DISCARD_MKEY] = { "a wrong M_Key", &statistics->lost_mkey },
		[DISCARD_PORT] = { "it is not for this port", &statistics->lost_port },
		[DISCARD_OTHER] = { "too many hops, or too many packets",
				    &statistics->lost_other },
		[DISCARD_ERROR] = { "an error of the link", &statistics->lost_error },
		[DISCARD_VL] = { "SL to VL leads to no VL that is there", &statistics->lost_vl },
		[DISCARD_MTU] = { "it is larger than the MTU of the next link",
				  &statistics->lost_mtu },
		[DISCARD_PKEY] = { "its P_Key is not in the port's table",
				   &statistics->lost_pkey },
		[DISCARD_NOBODY] = { "no program has its QP or group there",
				     &statistics->lost_nobody },
		[DISCARD_FULL] = { "its program does not read", &statistics->lost_full },
	};

	++*rows[discard].counter;
	if (fabric->ops.lost)
		fabric->ops.lost(fabric->context, flight->node, flight->port,
				 flight->data ? NULL : flight->mad, rows[discard].why);
}

/* ---- across a cable ---- */

/* Where its bytes are looked at; copies of multicast have them in common. */
static void flight_write_vl(const struct flight *flight)
{
	flight->data[0] = (uint8_t)(flight->vl << 4 | (flight->data[0] & 0xf));
}

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
	uint8_t data[FABRIC_PACKET_MAX + IB_VCRC_BYTES];
	struct fabric_packet packet = {
		.data = data, .now_us = fabric->now_us, .node = flight->node, .port = out,
		.peer_node = port->peer, .peer_port = port->peer_port,
	};
	uint16_t vcrc;

	if (flight->data) {
		flight_write_vl(flight);
		memcpy(data, flight->data, flight->bytes);
		vcrc = vcrc_compute(data, flight->bytes);
		data[flight->bytes] = (uint8_t)vcrc;		/* little-endian, as the ICRC */
		data[flight->bytes + 1] = (uint8_t)(vcrc >> 8);
		packet.bytes = flight->bytes + IB_VCRC_BYTES;
	} else {
		packet.bytes = ib_packet_write_mad(&route, &ends, flight->mad, data);
	}
	fabric->ops.packet(fabric->context, &packet);
}

unsigned flight_words(const struct flight *flight)
{
	if (flight->data)
		return flight->bytes / 4;
	return (8 + (flight->has_grh ? 40 : 0) + 12 + 8 + MAD_BYTES + 4) / 4;
}

static bool flight_is_hit(struct fabric *fabric, const struct flight *flight,
			  const struct fabric_port *at)
{
	if (bit_errors_hit(fabric, at, 32 * flight_words(flight) + 16))
		return true;
	if (!at->error_percent ||
	    (at->error_attribute &&
	     (flight->data || at->error_attribute != get_be16(flight->mad + 16))))
		return false;
	fabric->error_random = fabric->error_random * 1664525u + 1013904223u;
	return (fabric->error_random >> 16) % 100 < at->error_percent;
}

void port_count_crossing(struct fabric_port *from, struct fabric_port *to, bool multicast,
			 uint64_t packets, uint64_t words)
{
	from->counter[COUNTER_XMIT_PKTS] += packets;
	from->counter[COUNTER_XMIT_DATA] += words;
	from->counter[multicast ? COUNTER_MULTICAST_XMIT_PKTS : COUNTER_UNICAST_XMIT_PKTS] +=
		packets;
	to->counter[COUNTER_RCV_PKTS] += packets;
	to->counter[COUNTER_RCV_DATA] += words;
	to->counter[multicast ? COUNTER_MULTICAST_RCV_PKTS : COUNTER_UNICAST_RCV_PKTS] += packets;
}

enum discard forward_exit(const struct fabric_node *node, const struct flight *flight, unsigned out,
			  uint8_t *vl)
{
	const struct fabric_port *port = &node->port[out];
	bool management = flight_is_smp(flight);

	*vl = IB_VL_MANAGEMENT;
	if (port->peer == FABRIC_NONE ||
	    (management ? port->info.port_state < FABRIC_PORT_INIT : port->state != PORT_ACTIVE))
		return DISCARD_DOWN;
	if (management)
		return DISCARD_NONE;
	*vl = port_sl_to_vl(port, node_is_switch(node) ? flight->port : 0, flight->sl);
	if (*vl >= port_vls(port))
		return DISCARD_VL;
	if ((flight->data ? flight->payload : MAD_BYTES) > port_mtu(port))
		return DISCARD_MTU;
	/* A switch's port that was told to lets no packet of another partition through (10.9.4). */
	if (port->info.partition_enforcement_outbound && node_is_switch(node) &&
	    port_find_pkey(node, out, flight->pkey) >= port_pkeys(node, out))
		return DISCARD_PKEY;
	return DISCARD_NONE;
}

enum discard forward_entry(const struct fabric_node *node, const struct flight *flight, unsigned in)
{
	const struct fabric_port *port = &node->port[in];

	if (!flight_is_smp(flight) && port->info.port_state < FABRIC_PORT_ARMED)
		return DISCARD_DOWN;
	/* A limited member may send: which of two members is full, is seen where it leaves. */
	if (!flight_is_smp(flight) && node_is_switch(node) &&
	    port->info.partition_enforcement_inbound &&
	    port_find_partition(node, in, flight->pkey) == port_pkeys(node, in))
		return DISCARD_PKEY;
	return DISCARD_NONE;
}

/* A switch cannot pass on what came in by this port. */
static void relay_error(struct fabric_node *node, unsigned port, enum port_counter why)
{
	node->port[port].counter[COUNTER_RCV_SWITCH_RELAY]++;
	node->port[port].counter[why]++;
}

static struct fabric_violation flight_violation(const struct flight *flight, bool is_qkey)
{
	struct fabric_violation violation = {
		.is_qkey = is_qkey, .sl = flight->sl, .source_lid = flight->slid,
		.dest_lid = flight->dlid, .key = is_qkey ? flight->qkey : flight->pkey,
		.source_qpn = flight->source_qpn, .dest_qpn = flight->dest_qpn,
	};

	if (flight->has_grh) {
		memcpy(violation.source_gid, flight->grh.sgid, sizeof(violation.source_gid));
		memcpy(violation.dest_gid, flight->grh.dgid, sizeof(violation.dest_gid));
	}
	return violation;
}

/* At a port of a switch that enforces partitions. */
static void flight_bad_pkey(struct fabric *fabric, uint32_t node, unsigned port,
			    const struct flight *flight)
{
	const struct fabric_violation violation = flight_violation(flight, false);

	trap_switch_pkey(fabric, node, port, &violation);
}

/* Counts why a port does not send it. */
static void exit_refused(struct fabric *fabric, const struct flight *flight, unsigned out,
			 enum discard discard)
{
	struct fabric_node *node = &fabric->node[flight->node];
	uint64_t *counter = node->port[out].counter;

	if (discard == DISCARD_PKEY) {
		counter[COUNTER_XMIT_CONSTRAINT]++;
		flight_bad_pkey(fabric, flight->node, out, flight);
		return;
	}
	if (discard == DISCARD_VL && !flight->from_program && !flight->from_sma) {
		relay_error(node, flight->port, COUNTER_VL_MAPPING);
		return;
	}
	counter[COUNTER_XMIT_DISCARDS]++;
	counter[COUNTER_INACTIVE] += discard == DISCARD_DOWN;
	counter[COUNTER_NEIGHBOR_MTU] += discard == DISCARD_MTU;
}

/* False: lost. */
static bool flight_cross(struct fabric *fabric, struct flight *flight, unsigned out)
{
	struct fabric_node *node = &fabric->node[flight->node];
	struct fabric_port *from = &node->port[out], *to;
	enum discard discard = forward_exit(node, flight, out, &flight->vl);

	if (discard) {
		exit_refused(fabric, flight, out, discard);
		flight_lost(fabric, flight, discard);
		return false;
	}
	if (++flight->hops > HOPS_MAX) {
		flight_lost(fabric, flight, DISCARD_OTHER);
		return false;
	}
	fabric->statistics.hops++;
	to = &fabric->node[from->peer].port[from->peer_port];
	port_count_crossing(from, to, flight_is_multicast(flight), 1, flight_words(flight));
	if (fabric->ops.packet)
		flight_show(fabric, flight, out, from);
	if (flight_is_hit(fabric, flight, to)) {
		to->counter[COUNTER_SYMBOL_ERROR]++;
		to->counter[COUNTER_RCV_ERRORS]++;
		to->counter[COUNTER_LOCAL_PHYSICAL]++;
		flight_lost(fabric, flight, DISCARD_ERROR);
		return false;
	}
	discard = forward_entry(&fabric->node[from->peer], flight, from->peer_port);
	if (discard != DISCARD_DOWN && !flight_is_smp(flight))
		link_event(fabric, from->peer, from->peer_port, PORT_DATA, true);
	if (discard) {
		to->counter[COUNTER_RCV_CONSTRAINT] += discard == DISCARD_PKEY;
		if (discard == DISCARD_PKEY)
			flight_bad_pkey(fabric, from->peer, from->peer_port, flight);
		flight_lost(fabric, flight, discard);
		return false;
	}
	flight->port = from->peer_port;
	flight->node = from->peer;
	flight->from_program = flight->from_sma = false;
	return true;
}

/* ---- at its end ---- */

/* Data at its end, or a copy of what its own HCA loops back. */
static void flight_arrive_data(struct fabric *fabric, const struct flight *flight, unsigned port)
{
	struct fabric_port *at = &fabric->node[flight->node].port[port], *before = at;
	enum fabric_arrival arrival = FABRIC_NOBODY;

	if (at->state != PORT_ACTIVE && at->state != PORT_ARMED) {
		flight_lost(fabric, flight, DISCARD_DOWN);
		return;
	}
	flight_write_vl(flight);
	if (fabric->ops.arrive)
		arrival = fabric->ops.arrive(fabric->context, flight->node, port, flight->data,
					     flight->bytes);
	if (arrival == FABRIC_TAKEN) {
		fabric->statistics.data_delivered++;
		return;
	}
	if (arrival == FABRIC_FULL) {
		/* Its buffers are full, there are no credits: the switch before it discards it. */
		if (flight->hops && at->peer != FABRIC_NONE) {
			before = &fabric->node[at->peer].port[at->peer_port];
			/* It did not cross after all. */
			port_count_crossing(before, at, flight_is_multicast(flight), (uint64_t)-1,
					    -(uint64_t)flight_words(flight));
		}
		before->counter[COUNTER_XMIT_DISCARDS]++;
		before->counter[COUNTER_SW_HOQ_LIFETIME]++;
	}
	flight_lost(fabric, flight, arrival == FABRIC_FULL ? DISCARD_FULL : DISCARD_NOBODY);
}

enum discard flight_source(const struct fabric *fabric, const struct flight *flight, unsigned port,
			   struct fabric_address *from)
{
	const struct fabric_node *node = &fabric->node[flight->node];
	const struct fabric_port *at = &node->port[port];

	*from = (struct fabric_address){
		.lid = flight->slid,
		.sl = flight->sl,
		.qpn = flight->source_qpn,
		.qkey = flight->qkey,
		.pkey = flight->pkey,
		.has_grh = flight->has_grh,
		.hop_limit = flight->grh.hoplmt,
		.traffic_class = flight->grh.tclass,
		.flow_label = flight->grh.flowlabel,
	};
	if (at->info.lid && flight->dlid < LID_MULTICAST)
		from->path_bits = (uint8_t)(flight->dlid ^ at->info.lid);
	memcpy(from->gid, flight->grh.sgid, sizeof(from->gid));
	if (flight_is_smp(flight))
		return DISCARD_NONE;
	if (at->state != PORT_ACTIVE && at->state != PORT_ARMED)
		return DISCARD_DOWN;
	from->pkey_index = (uint16_t)port_find_pkey(node, port, flight->pkey);
	return from->pkey_index == port_pkeys(node, port) || flight->qkey != QKEY_GSI ? DISCARD_PORT :
		DISCARD_NONE;
}

static void flight_deliver(struct fabric *fabric, const struct flight *flight, unsigned port)
{
	struct fabric_address from;
	struct flight answer;
	enum discard discard;

	if (flight->data) {
		flight_arrive_data(fabric, flight, port);
		return;
	}
	discard = flight_source(fabric, flight, port, &from);
	if (discard == DISCARD_PORT) {
		bool is_qkey = from.pkey_index < port_pkeys(&fabric->node[flight->node], port);
		const struct fabric_violation violation = flight_violation(flight, is_qkey);

		fabric_violated(fabric, flight->node, port, &violation, fabric->now_us);
	}
	if (discard) {
		flight_lost(fabric, flight, discard);
		return;
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

/* ---- the queue ---- */

void flight_start(struct fabric *fabric, const struct flight *flight)
{
	if (fabric->queue_count >= QUEUE_MAX) {
		fabric_count_dropped(fabric, flight->node, flight->port, flight_is_smp(flight));
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
	bool answer;

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
			if (!flight_is_smp(flight) || !sma_receive(fabric, flight, &answer)) {
				flight_deliver(fabric, flight, decision.port);
				return steps;
			}
			if (!answer)
				return steps;
			flight_turn(flight);
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
				relay_error(node, flight->port,
					    node_lft(node, flight->dlid) == flight->port ?
						    COUNTER_LOOPING : COUNTER_DLID_MAPPING);
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

/* ---- data ---- */

/* False: no packet of data, LRH to ICRC. What is in the flight then is what the LRH and BTH say. */
static bool flight_parse(struct flight *flight, uint8_t *data, size_t bytes)
{
	const struct opcode *op;
	size_t headers = IB_LRH_BYTES;
	const uint8_t *bth;

	if (bytes < IB_LRH_BYTES + BTH_BYTES + ICRC_BYTES || bytes > FABRIC_PACKET_MAX ||
	    (get_be16(data + 4) & 0x7ffu) * 4 != bytes || data[0] & 0xf)
		return false;
	if ((data[1] & 3) == IB_LNH_GRH)
		headers += IB_GRH_BYTES;
	else if ((data[1] & 3) != IB_LNH_BTH)
		return false;
	if (bytes < headers + BTH_BYTES + ICRC_BYTES)
		return false;
	if (headers > IB_LRH_BYTES &&
	    (data[IB_LRH_BYTES] >> 4 != 6 || data[IB_LRH_BYTES + 6] != IB_NEXT_HEADER_BTH ||
	     get_be16(data + IB_LRH_BYTES + 4) != bytes - headers))
		return false;
	bth = data + headers;
	op = opcode_get(bth[0]);
	headers += op ? op->header_bytes : BTH_BYTES;
	if (bytes < headers + ICRC_BYTES)
		return false;
	flight->has_grh = (data[1] & 3) == IB_LNH_GRH;
	flight->sl = data[1] >> 4;
	flight->dlid = get_be16(data + 2);
	flight->slid = get_be16(data + 6);
	flight->pkey = get_be16(bth + 2);
	flight->dest_qpn = get_be32(bth + 4) & QPN_MASK;
	flight->data = data;
	flight->bytes = (unsigned)bytes;
	flight->payload = (unsigned)(bytes - headers - ICRC_BYTES);
	return flight->dest_qpn > QPN_GSI && flight->dlid && flight->dlid != LID_PERMISSIVE;
}

int fabric_send_packet(struct fabric *fabric, uint32_t node, uint32_t port, uint8_t *data,
		       size_t bytes, uint64_t now_us)
{
	struct fabric_port *at = fabric_port_at(fabric, node, port);
	struct flight flight = { .node = node, .port = port, .from_program = true };

	assert(!fabric->busy);
	if (!at || (port && node_is_switch(&fabric->node[node])) ||
	    !flight_parse(&flight, data, bytes))
		return EINVAL;
	if (!port_has_lid(at, flight.slid))
		return EADDRNOTAVAIL;
	fabric_pass(fabric, now_us);
	fabric->statistics.data_sent++;
	if (!fabric->node[node].powered || at->state != PORT_ACTIVE) {
		at->counter[COUNTER_XMIT_DISCARDS]++;
		flight_lost(fabric, &flight, DISCARD_DOWN);
		return 0;
	}
	/* Switches send no copy back: others at this port get theirs from their HCA. */
	flight_write_vl(&flight);
	if (flight_is_multicast(&flight) && fabric->ops.arrive &&
	    fabric->ops.arrive(fabric->context, node, port, data, bytes) == FABRIC_TAKEN)
		fabric->statistics.data_delivered++;
	flight_start(fabric, &flight);
	flights_run(fabric);
	return 0;
}
