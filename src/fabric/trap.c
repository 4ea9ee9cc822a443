/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Traps: a notice to the subnet manager, sent again each SubnetTimeout until it is repressed, five
 * times at most, since it is no reliable service (IBTA 14.3). Of a kind a port has one on its way;
 * what happens meanwhile makes one more, afterwards (o14-2). Without a LID, a manager's LID or an
 * active port there is nobody to tell: the manager sees it in its next sweep.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/internal.h"

#define TRAP_SENT_MAX	5u
#define TYPE_URGENT	1u
#define TYPE_SECURITY	2u
#define TYPE_INFORMATION 4u
#define PATH_MAX_NOTED	30u
/* DataValid of trap 259: which of its fields the packet had. */
#define DATA_VALID_LIDS	0x0003u
#define DATA_VALID_QPS	0x0038u
#define DATA_VALID_GIDS	0x00c0u

/* 4.096 us times a power of two. */
static uint64_t trap_interval_us(const struct fabric_port *port)
{
	uint64_t interval_us = (UINT64_C(4096) << port->info.subnet_time_out) / 1000;

	return interval_us ? interval_us : 1;
}

static void trap_plan(struct fabric *fabric, struct trap *trap, uint64_t due_us)
{
	trap->next_us = due_us;
	fabric_due(fabric, due_us);
}

static bool trap_has_receiver(const struct fabric_node *node, const struct fabric_port *port)
{
	return node->powered && port->state == PORT_ACTIVE && port->info.lid &&
	       port->info.master_sm_lid;
}

/* Its time has come. */
static void trap_go_on(struct fabric *fabric, uint32_t node, unsigned port, struct trap *trap)
{
	const struct fabric_port *at = &fabric->node[node].port[port];
	struct mad_header header = {
		.base_version = MAD_BASE_VERSION, .class = MAD_CLASS_SUBNET_LID, .class_version = 1,
		.method = MAD_METHOD_TRAP, .attribute_id = record_layout(RECORD_NOTICE)->attribute,
	};
	struct flight flight = {
		.node = node, .port = port, .from_sma = true, .sl = at->info.master_sm_sl,
		.dlid = at->info.master_sm_lid, .slid = at->info.lid, .pkey = PKEY_DEFAULT,
	};
	bool given_up = trap->sent >= TRAP_SENT_MAX;

	trap->next_us = FABRIC_NEVER;
	if (!trap_has_receiver(&fabric->node[node], at)) {
		trap->again = false;
		return;
	}
	if (given_up && !trap->again)
		return;
	if (given_up || !trap->sent) {
		trap->tid = fabric->next_tid++;
		trap->sent = 0;
		trap->again = false;
	}
	header.transaction_id = trap->tid;
	mad_write(&header, flight.mad);
	memcpy(flight.mad + SMP_DATA, trap->notice, SMP_DATA_BYTES);
	trap->sent++;
	trap->last_us = fabric->now_us;
	trap_plan(fabric, trap, fabric->now_us + trap_interval_us(at));
	fabric->statistics.traps++;
	fabric->statistics.smps++;
	flight_start(fabric, &flight);
}

void trap_raise(struct fabric *fabric, uint32_t node, unsigned port, enum trap_kind kind,
		const uint8_t notice[SMP_DATA_BYTES])
{
	struct fabric_port *at = &fabric->node[node].port[port];
	struct trap *trap;
	uint64_t earliest_us;

	if (!trap_has_receiver(&fabric->node[node], at))
		return;
	if (!at->trap) {
		at->trap = calloc(TRAP_KINDS, sizeof(*at->trap));
		if (!at->trap)
			return;
		for (unsigned i = 0; i < TRAP_KINDS; i++)
			at->trap[i].next_us = FABRIC_NEVER;
	}
	trap = &at->trap[kind];
	memcpy(trap->notice, notice, SMP_DATA_BYTES);
	if (trap->next_us != FABRIC_NEVER) {
		trap->again |= trap->sent > 0;
		return;
	}
	trap->sent = 0;
	earliest_us = trap->last_us ? trap->last_us + trap_interval_us(at) : 0;
	trap_plan(fabric, trap, earliest_us > fabric->now_us ? earliest_us : fabric->now_us);
}

void trap_repressed(struct fabric *fabric, uint32_t node, unsigned port, uint64_t tid)
{
	struct fabric_port *at = &fabric->node[node].port[port];

	for (unsigned i = 0; at->trap && i < TRAP_KINDS; i++) {
		struct trap *trap = &at->trap[i];

		if (trap->next_us == FABRIC_NEVER || trap->tid != tid || !trap->sent)
			continue;
		trap->sent = 0;
		trap->next_us = FABRIC_NEVER;
		if (trap->again)
			trap_plan(fabric, trap, trap->last_us + trap_interval_us(at));
		trap->again = false;
	}
}

/* ---- the kinds ---- */

static uint32_t trap_producer(const struct fabric_node *node)
{
	return (uint32_t)node->type;
}

/* Puts the fields of the kind's own record over those that all notices have. */
static void trap_notice(const struct ib_notice *notice, enum record details, const void *values,
			uint8_t out[SMP_DATA_BYTES])
{
	uint8_t own[SMP_DATA_BYTES];

	record_write(RECORD_NOTICE, notice, out);
	record_write(details, values, own);
	for (unsigned i = 0; i < SMP_DATA_BYTES; i++)
		out[i] |= own[i];
}

void trap_link_state(struct fabric *fabric, uint32_t node)
{
	const struct fabric_node *at = &fabric->node[node];
	const struct ib_trap_128 details = { .lidaddr = at->port[0].info.lid };
	const struct ib_notice notice = {
		.is_generic = 1, .type = TYPE_URGENT, .producer_type = trap_producer(at),
		.trap_number = 128, .issuer_lid = at->port[0].info.lid,
	};
	uint8_t data[SMP_DATA_BYTES];

	trap_notice(&notice, RECORD_TRAP_128, &details, data);
	trap_raise(fabric, node, 0, TRAP_LINK_STATE, data);
}

void trap_capability(struct fabric *fabric, uint32_t node, unsigned port, uint16_t change_flags)
{
	const struct fabric_node *at = &fabric->node[node];
	const struct ib_port_info *info = &at->port[port].info;
	const struct ib_trap_144 details = {
		.lidaddr = info->lid, .other_local_changes = change_flags != 0,
		.capability_mask = info->capability_mask, .change_flags = change_flags,
	};
	const struct ib_notice notice = {
		.is_generic = 1, .type = TYPE_INFORMATION, .producer_type = trap_producer(at),
		.trap_number = 144, .issuer_lid = info->lid,
	};
	uint8_t data[SMP_DATA_BYTES];

	trap_notice(&notice, RECORD_TRAP_144, &details, data);
	trap_raise(fabric, node, port, TRAP_CAPABILITY, data);
}

void trap_mkey(struct fabric *fabric, uint32_t node, unsigned port, const struct flight *flight)
{
	const struct fabric_node *at = &fabric->node[node];
	const struct ib_port_info *info = &at->port[port].info;
	struct ib_smp_directed smp;
	struct ib_trap_256 details = { .lidaddr = info->lid };
	const struct ib_notice notice = {
		.is_generic = 1, .type = TYPE_SECURITY, .producer_type = trap_producer(at),
		.trap_number = 256, .issuer_lid = info->lid,
	};
	struct mad_header header;
	uint8_t data[SMP_DATA_BYTES];

	if (!mad_parse(flight->mad, MAD_BYTES, &header))
		return;
	record_read(RECORD_SMP_DIRECTED, flight->mad, &smp);
	details.method = header.method;
	details.attributeid = header.attribute_id;
	details.attributemodifier = header.attribute_modifier;
	details.mkey = smp.m_key;
	if (header.class == MAD_CLASS_SUBNET_DIRECTED) {
		unsigned hops = smp.hop_count < PATH_MAX_NOTED ? smp.hop_count : PATH_MAX_NOTED;

		details.drslid = smp.dr_slid;
		details.drnotice = 1;
		details.drpathtruncated = smp.hop_count > PATH_MAX_NOTED;
		details.drhopcount = (uint8_t)hops;	/* as many as follow */
		memcpy(details.drnoticereturnpath, smp.return_path + 1, hops);
	}
	trap_notice(&notice, RECORD_TRAP_256, &details, data);
	trap_raise(fabric, node, port, TRAP_MKEY, data);
}

int fabric_violated(struct fabric *fabric, uint32_t node, uint32_t port,
		    const struct fabric_violation *violation, uint64_t now_us)
{
	struct fabric_port *at = fabric_port_at(fabric, node, port);
	uint16_t *violations;
	struct ib_trap_257 details = {
		.lidaddr1 = violation->source_lid, .lidaddr2 = violation->dest_lid,
		.key = violation->key, .sl = violation->sl,
		.qp1 = violation->source_qpn, .qp2 = violation->dest_qpn,
	};
	struct ib_notice notice = {
		.is_generic = 1, .type = TYPE_SECURITY,
		.trap_number = violation->is_qkey ? 258 : 257,
	};
	uint8_t data[SMP_DATA_BYTES];

	if (!at || (port && node_is_switch(&fabric->node[node])))
		return EINVAL;
	fabric_pass(fabric, now_us);
	violations = violation->is_qkey ? &at->info.q_key_violations : &at->info.p_key_violations;
	*violations += *violations != UINT16_MAX;
	memcpy(details.gidaddr1, violation->source_gid, sizeof(details.gidaddr1));
	memcpy(details.gidaddr2, violation->dest_gid, sizeof(details.gidaddr2));
	notice.producer_type = trap_producer(&fabric->node[node]);
	notice.issuer_lid = at->info.lid;
	trap_notice(&notice, RECORD_TRAP_257, &details, data);
	trap_raise(fabric, node, port, violation->is_qkey ? TRAP_QKEY : TRAP_PKEY, data);
	traps_due(fabric);
	return 0;
}

void trap_switch_pkey(struct fabric *fabric, uint32_t node, unsigned port,
		      const struct fabric_violation *violation)
{
	static const uint8_t no_gid[16];
	const struct fabric_node *at = &fabric->node[node];
	uint16_t lid = at->port[0].info.lid;
	bool has_gids = memcmp(violation->dest_gid, no_gid, sizeof(no_gid)) != 0;
	struct ib_trap_259 details = {
		.data_valid = DATA_VALID_LIDS | DATA_VALID_QPS | (has_gids ? DATA_VALID_GIDS : 0),
		.lidaddr1 = violation->source_lid, .lidaddr2 = violation->dest_lid,
		.pkey = (uint16_t)violation->key, .sl = violation->sl,
		.qp1 = violation->source_qpn, .qp2 = violation->dest_qpn,
		.sw_lid_addr = lid, .port_no = (uint8_t)port,
	};
	const struct ib_notice notice = {
		.is_generic = 1, .type = TYPE_SECURITY, .producer_type = trap_producer(at),
		.trap_number = 259, .issuer_lid = lid,
	};
	uint8_t data[SMP_DATA_BYTES];

	memcpy(details.gidaddr1, violation->source_gid, sizeof(details.gidaddr1));
	memcpy(details.gidaddr2, violation->dest_gid, sizeof(details.gidaddr2));
	trap_notice(&notice, RECORD_TRAP_259, &details, data);
	trap_raise(fabric, node, 0, TRAP_SWITCH_PKEY, data);
}

/* ---- time ---- */

void mkey_expire(struct fabric *fabric, struct fabric_port *port)
{
	if (!port->lease_end_us)
		return;
	if (fabric->now_us < port->lease_end_us) {
		fabric_due(fabric, port->lease_end_us);
		return;
	}
	port->lease_end_us = 0;
	port->info.m_key_protect_bits = 0;
}

static void trap_look_at(struct fabric *fabric, uint32_t node, unsigned port)
{
	struct fabric_port *at = &fabric->node[node].port[port];

	mkey_expire(fabric, at);
	for (unsigned i = 0; at->trap && i < TRAP_KINDS; i++) {
		if (at->trap[i].next_us <= fabric->now_us)
			trap_go_on(fabric, node, port, &at->trap[i]);
		else
			fabric_due(fabric, at->trap[i].next_us);
	}
}

static void timed_due(struct fabric *fabric)
{
	for (uint32_t node = 0; node < fabric->nodes; node++) {
		struct fabric_node *at = &fabric->node[node];

		if (at->samples)
			samples_due(fabric, at);
		for (unsigned port = 0; port <= at->ports; port++)
			if (at->port[port].bit_errors)
				link_errors_due(fabric, node, port);
	}
}

/* Sends what is due, and finds out when something is again. */
void traps_due(struct fabric *fabric)
{
	if (fabric->now_us >= fabric->deadline_us) {
		fabric->deadline_us = FABRIC_NEVER;
		if (fabric->timed)	/* first: what they do may be a trap */
			timed_due(fabric);
		for (uint32_t node = 0; node < fabric->nodes; node++) {
			const struct fabric_node *at = &fabric->node[node];
			unsigned first = node_is_switch(at) ? 0 : 1,
				 last = node_is_switch(at) ? 0 : at->ports;

			for (unsigned port = first; port <= last; port++)
				trap_look_at(fabric, node, port);
		}
	}
	flights_run(fabric);
}
