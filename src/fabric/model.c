/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Nodes and ports as they come from the factory, and looking at them. What a subnet manager sets is
 * in sma.c.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "fabric/internal.h"

#define PREFIX_DEFAULT		UINT64_C(0xfe80000000000000)
#define GUIDS			8u
#define MTU_4096		5u
#define LIFE_TIME_DEFAULT	18u
#define NO_PORT			255u
#define WIDTHS			(WIDTH_1X | WIDTH_4X)

const struct speed speeds[SPEEDS] = {
	[SPEED_SDR] = { "SDR", 2500, 1, 0, 0, 1 },
	[SPEED_DDR] = { "DDR", 5000, 2, 0, 0, 2 },
	[SPEED_QDR] = { "QDR", 10000, 4, 0, 0, 4 },
	[SPEED_FDR] = { "FDR", 14000, 4, 1, 0, 16 },
	[SPEED_EDR] = { "EDR", 25000, 4, 2, 0, 32 },
	[SPEED_HDR] = { "HDR", 50000, 4, 4, 0, 64 },
	[SPEED_NDR] = { "NDR", 100000, 4, 8, 0, 128 },
	[SPEED_XDR] = { "XDR", 200000, 4, 0, 1, 256 },
};

struct fabric_node *fabric_node_at(const struct fabric *fabric, uint32_t node)
{
	return node < fabric->nodes ? &fabric->node[node] : NULL;
}

struct fabric_port *fabric_port_at(const struct fabric *fabric, uint32_t node, uint32_t port)
{
	struct fabric_node *at = fabric_node_at(fabric, node);

	if (!at || port > at->ports || (!port && !node_is_switch(at)))
		return NULL;
	return &at->port[port];
}

/* ---- from the factory ---- */

void port_offer(struct fabric_node *node, unsigned port, enum link_speed speed, uint8_t widths)
{
	struct ib_port_info *info = &node->port[port].info;

	node->port[port].speed_max = (uint8_t)speed;
	info->link_speed_supported = info->link_speed_ext_supported =
		info->link_speed_ext_supported_2 = 0;
	for (unsigned i = 0; i <= (unsigned)speed; i++) {
		info->link_speed_supported |= speeds[i].legacy;
		info->link_speed_ext_supported |= speeds[i].extended;
		info->link_speed_ext_supported_2 |= speeds[i].extended_2;
	}
	info->link_speed_enabled = info->link_speed_supported;
	info->link_speed_ext_enabled = info->link_speed_ext_supported;
	info->link_speed_ext_enabled_2 = info->link_speed_ext_supported_2;
	info->link_width_supported = widths | WIDTH_1X;
	info->link_width_enabled = info->link_width_supported;
	info->capability_mask_2 &= CAP2_SET_DESCRIPTION;
	if (widths & WIDTH_2X)
		info->capability_mask_2 |= CAP2_WIDTH_2X;
	if (speed >= SPEED_HDR)
		info->capability_mask_2 |= CAP2_HDR;
	if (speed >= SPEED_NDR)
		info->capability_mask_2 |= CAP2_NDR;
	if (speed >= SPEED_XDR)
		info->capability_mask_2 |= CAP2_EXTENDED_SPEEDS_2 | CAP2_XDR;
	if (speed >= SPEED_FDR)
		info->capability_mask |= CAP_EXTENDED_SPEEDS;
	else
		info->capability_mask &= ~CAP_EXTENDED_SPEEDS;
}

void port_reset(struct fabric_node *node, unsigned port)
{
	struct fabric_port *at = &node->port[port];
	bool is_switch = node_is_switch(node), own = is_switch && !port;
	uint8_t widths = at->info.link_width_supported;
	/* Whoever has the issm device open has it after a reset, too. */
	uint32_t is_sm = at->info.capability_mask & CAP_IS_SM;

	free(at->guids);
	free(at->pkeys);
	free(at->sl_to_vl);
	free(at->vlarb);
	free(at->trap);
	at->guids = NULL;
	at->pkeys = NULL;
	at->sl_to_vl = NULL;
	at->vlarb = NULL;
	at->trap = NULL;
	at->lease_end_us = 0;
	memset(at->counter, 0, sizeof(at->counter));
	at->state = own ? PORT_ACTIVE : PORT_POLLING;
	at->info = (struct ib_port_info){
		.gid_prefix = PREFIX_DEFAULT,
		.capability_mask = is_switch ? (own ? CAP_SWITCH : 0) : CAP_CA,
		.capability_mask_2 = CAP2_SET_DESCRIPTION,
		.local_port_num = (uint8_t)port,
		.port_state = (uint8_t)port_state_logical(at->state),
		.port_physical_state = (uint8_t)port_state_phys(at->state),
		.link_down_default_state = FABRIC_PHYS_POLLING,
		.neighbor_mtu = MTU_4096, .mtu_cap = MTU_4096,
		.vl_cap = own ? 1 : at->vl_cap, .operational_vls = own ? 1 : at->vl_cap,
		.vl_arbitration_high_cap = own ? 0 : VLARB_ENTRIES,
		.vl_arbitration_low_cap = own ? 0 : VLARB_ENTRIES,
		.guid_cap = is_switch ? own : GUIDS, .subnet_time_out = 18, .resp_time_value = 16,
		.local_phy_errors = 8, .overrun_errors = 8,
	};
	port_offer(node, port, (enum link_speed)at->speed_max, widths ? widths : WIDTHS);
	if (is_switch && port) {	/* these stand in the PortInfo of port 0, for all ports */
		node->port[0].info.capability_mask_2 |= at->info.capability_mask_2;
		at->info.capability_mask = 0;
		at->info.capability_mask_2 = 0;
	} else if (own) {
		at->info.capability_mask |= CAP_EXTENDED_SPEEDS;
		at->info.link_width_active = WIDTH_4X;
		at->info.link_speed_active = 1;
	}
	at->info.capability_mask |= is_sm;
}

static void node_free_tables(struct fabric_node *node)
{
	unsigned mlids = (node->switch_info.multicast_fdb_cap + MFT_BLOCK - 1) / MFT_BLOCK;
	unsigned lids = (node->switch_info.linear_fdb_cap + LFT_BLOCK - 1) / LFT_BLOCK;

	for (unsigned i = 0; node->lft && i < lids; i++) {
		free(node->lft[i]);
		node->lft[i] = NULL;
	}
	for (unsigned i = 0; node->mft && i < mlids * node->positions; i++) {
		free(node->mft[i]);
		node->mft[i] = NULL;
	}
}

void node_forget(struct fabric_node *node)
{
	struct ib_switch_info *info = &node->switch_info;

	node_free_tables(node);
	memcpy(node->description, node->given, DESCRIPTION_BYTES + 1);
	info->linear_fdb_top = info->multicast_fdb_top = 0;
	info->port_state_change = 0;
	info->life_time_value = LIFE_TIME_DEFAULT;
	info->default_port = 0;
	info->default_multicast_primary_port = info->default_multicast_not_primary_port = NO_PORT;
}

void node_free(struct fabric_node *node)
{
	node_free_tables(node);
	for (unsigned i = 0; node->port && i <= node->ports; i++) {
		free(node->port[i].guids);
		free(node->port[i].pkeys);
		free(node->port[i].sl_to_vl);
		free(node->port[i].vlarb);
		free(node->port[i].trap);
		free(node->port[i].rise);
		free(node->port[i].bit_errors);
	}
	free(node->port);
	free(node->samples);
	free(node->hold);
	free(node->lft);
	free(node->mft);
	free(node->id);
	free(node->description);
	free(node->given);
}

/* ---- tables ---- */

bool port_has_lid(const struct fabric_port *port, uint16_t lid)
{
	return port->info.lid && !((lid ^ port->info.lid) >> port->info.lmc);
}

unsigned port_pkeys(const struct fabric_node *node, unsigned port)
{
	return node_is_switch(node) && port ? node->switch_info.partition_enforcement_cap
					    : node->pkeys;
}

uint16_t port_pkey(const struct fabric_node *node, const struct fabric_port *port, unsigned index)
{
	if (index >= port_pkeys(node, (unsigned)(port - node->port)))
		return 0;
	if (!port->pkeys)
		return index ? 0 : PKEY_DEFAULT;
	return port->pkeys[index];
}

unsigned port_find_pkey(const struct fabric_node *node, unsigned port, uint16_t pkey)
{
	unsigned index = 0, count = port_pkeys(node, port);

	while (index < count && !pkey_matches(port_pkey(node, &node->port[port], index), pkey))
		index++;
	return index;
}

unsigned port_find_partition(const struct fabric_node *node, unsigned port, uint16_t pkey)
{
	unsigned index = 0, count = port_pkeys(node, port);

	while (index < count && ((port_pkey(node, &node->port[port], index) ^ pkey) & ~PKEY_FULL))
		index++;
	return pkey & ~PKEY_FULL ? index : count;
}

unsigned port_vls(const struct fabric_port *port)
{
	static const uint8_t by_code[] = { 1, 1, 2, 4, 8, 15 };
	unsigned code = port->info.operational_vls;

	return code < sizeof(by_code) ? by_code[code] : 15;
}

unsigned port_mtu(const struct fabric_port *port)
{
	return 128u << port->info.neighbor_mtu;
}

bool port_pkeys_make(struct fabric_node *node, unsigned port)
{
	struct fabric_port *at = &node->port[port];

	if (at->pkeys)
		return true;
	at->pkeys = calloc(port_pkeys(node, port), sizeof(*at->pkeys));
	if (at->pkeys)
		at->pkeys[0] = PKEY_DEFAULT;
	return at->pkeys != NULL;
}

/* Before anybody sets it: the SL's own number, as far as there are VLs. */
uint8_t port_sl_to_vl(const struct fabric_port *port, unsigned in, uint8_t sl)
{
	if (!port->sl_to_vl)
		return (uint8_t)(sl % (port_vls(port) < 8 ? port_vls(port) : 8));
	return sl & 1 ? port->sl_to_vl[in][sl / 2] & 0xf : port->sl_to_vl[in][sl / 2] >> 4;
}

uint8_t node_lft(const struct fabric_node *node, uint16_t lid)
{
	if (!node->lft || lid > node->switch_info.linear_fdb_top ||
	    lid >= node->switch_info.linear_fdb_cap || !node->lft[lid / LFT_BLOCK])
		return 255;
	return node->lft[lid / LFT_BLOCK][lid % LFT_BLOCK];
}

bool node_mft(const struct fabric_node *node, uint16_t mlid, uint64_t mask[4])
{
	unsigned row = mlid - LID_MULTICAST, top = node->switch_info.multicast_fdb_top;
	bool any = false;

	memset(mask, 0, 4 * sizeof(*mask));
	if (!node->mft || row >= node->switch_info.multicast_fdb_cap || (top && mlid > top))
		return false;
	for (unsigned position = 0; position < node->positions; position++) {
		const uint16_t *block = node->mft[row / MFT_BLOCK * node->positions + position];
		unsigned bit = position * MFT_PORTS;

		if (!block || !block[row % MFT_BLOCK])
			continue;
		mask[bit / 64] |= (uint64_t)block[row % MFT_BLOCK] << bit % 64;
		any = true;
	}
	return any;
}

void fabric_event_at(struct fabric *fabric, uint32_t node, unsigned port, enum fabric_event event)
{
	if (fabric->ops.event && !node_is_switch(&fabric->node[node]))
		fabric->ops.event(fabric->context, node, port, event);
}

/* ---- the public view ---- */

uint32_t fabric_nodes(const struct fabric *fabric)
{
	return fabric->nodes;
}

uint32_t fabric_find_lid(const struct fabric *fabric, uint16_t lid, uint32_t *port)
{
	for (uint32_t i = 0; i < fabric->nodes; i++) {
		const struct fabric_node *node = &fabric->node[i];
		unsigned last = node_is_switch(node) ? 0 : node->ports;

		for (unsigned p = node_is_switch(node) ? 0 : 1; p <= last; p++)
			if (port_has_lid(&node->port[p], lid)) {
				*port = p;
				return i;
			}
	}
	return FABRIC_NONE;
}

bool fabric_node_info(const struct fabric *fabric, uint32_t node, struct fabric_node_info *info)
{
	const struct fabric_node *at = fabric_node_at(fabric, node);

	if (!at)
		return false;
	*info = (struct fabric_node_info){
		.id = at->id, .description = at->description, .given = at->given,
		.type = at->type, .ports = at->ports,
		.guid = at->guid, .system_guid = at->system_guid, .vendor_id = at->vendor_id,
		.revision = at->revision, .device_id = at->device_id, .powered = at->powered,
	};
	return true;
}

unsigned port_lanes(uint8_t width)
{
	switch (width) {
	case WIDTH_12X:
		return 12;
	case WIDTH_8X:
		return 8;
	case WIDTH_4X:
		return 4;
	case WIDTH_2X:
		return 2;
	default:
		return 1;
	}
}

static const struct speed *port_speed(const struct ib_port_info *info)
{
	for (unsigned i = SPEEDS; i-- > SPEED_FDR;)
		if (speeds[i].extended & info->link_speed_ext_active ||
		    speeds[i].extended_2 & info->link_speed_ext_active_2)
			return &speeds[i];
	for (unsigned i = SPEED_FDR; i-- > 0;)
		if (speeds[i].legacy & info->link_speed_active)
			return &speeds[i];
	return &speeds[SPEED_SDR];
}

uint64_t port_mbps(const struct ib_port_info *info)
{
	return (uint64_t)port_speed(info)->lane_mbps * port_lanes(info->link_width_active);
}

bool fabric_port_info(const struct fabric *fabric, uint32_t node, uint32_t port,
		      struct fabric_port_info *info)
{
	const struct fabric_port *at = fabric_port_at(fabric, node, port);
	const struct fabric_node *owner = fabric_node_at(fabric, node);
	const struct speed *speed;

	if (!at)
		return false;
	speed = port_speed(&at->info);
	*info = (struct fabric_port_info){
		.guid = at->guid,
		.gid_prefix = at->info.gid_prefix,
		.state = (enum fabric_port_state)at->info.port_state,
		.phys_state = (enum fabric_phys_state)at->info.port_physical_state,
		.lid = at->info.lid,
		.sm_lid = at->info.master_sm_lid,
		.lmc = at->info.lmc,
		.sm_sl = at->info.master_sm_sl,
		.subnet_timeout = at->info.subnet_time_out,
		.init_type_reply = at->info.init_type_reply,
		.cap_mask = at->info.capability_mask,
		.cap_mask2 = at->info.capability_mask_2,
		.width_active = at->info.link_width_active ? at->info.link_width_active : WIDTH_1X,
		.width_lanes = port_lanes(at->info.link_width_active),
		.speed_active = speed->verbs > 0xff ? 128 : (uint8_t)speed->verbs,
		.speed_active_ex = speed->verbs,
		.rate_mbps = port_mbps(&at->info),
		.speed_name = speed == &speeds[SPEED_SDR] ? "" : speed->name,
		.mtu_cap = at->info.mtu_cap,
		.mtu_active = at->info.neighbor_mtu,
		.vl_cap = at->info.vl_cap,
		.mkey_violations = at->info.m_key_violations,
		.pkey_violations = at->info.p_key_violations,
		.qkey_violations = at->info.q_key_violations,
		.pkeys = port_pkeys(owner, port),
		.gids = at->info.guid_cap,
		.peer_node = at->peer,
		.peer_port = at->peer_port,
		.plugged = at->plugged,
		.hoq_life = at->info.hoq_life,
		.vl_stall_count = at->info.vl_stall_count,
	};
	return true;
}

uint16_t fabric_pkey(const struct fabric *fabric, uint32_t node, uint32_t port, unsigned index)
{
	const struct fabric_port *at = fabric_port_at(fabric, node, port);

	return at ? port_pkey(&fabric->node[node], at, index) : 0;
}

bool fabric_gid(const struct fabric *fabric, uint32_t node, uint32_t port, unsigned index,
		uint8_t gid[16])
{
	const struct fabric_port *at = fabric_port_at(fabric, node, port);

	if (!at || index >= at->info.guid_cap)
		return false;
	put_be64(gid, at->info.gid_prefix);
	put_be64(gid + 8, !index ? at->guid : at->guids ? at->guids[index - 1] : 0);
	return true;
}

uint8_t fabric_route(const struct fabric *fabric, uint32_t node, uint16_t lid)
{
	const struct fabric_node *at = fabric_node_at(fabric, node);

	return at && node_is_switch(at) ? node_lft(at, lid) : 255;
}
