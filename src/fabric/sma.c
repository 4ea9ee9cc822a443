/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The subnet management agent of every node (IBTA 14.2.5): a Get or Set becomes its answer in
 * place. What it says is what is in force afterwards, not what was asked for. A field that is out
 * of range is left as it is, and the status is 0x1c; the others of the same Set count.
 */
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "fabric/internal.h"

#define SECOND_US		UINT64_C(1000000)
#define SET_EXTENDED_SPEEDS	0x80000000u	/* attribute modifier of PortInfo */
#define SPEED_KEEP		0u
#define SPEED_ALL		15u	/* LinkSpeedEnabled: as supported */
#define EXTENDED_DISABLE	30u
#define EXTENDED_ALL		31u
#define EXTENDED_2_ALL		7u
#define WIDTH_ALL		255u
#define SL_MAP_ALL_OUT		0x10000u
#define SL_MAP_ALL_IN		0x20000u

/* A request at one node. */
struct request {
	struct fabric *fabric;
	struct fabric_node *node;
	uint32_t node_number;
	unsigned entry;			/* the port by which it came; a switch's program: 0 */
	unsigned own;			/* the port that has the M_Key and the LID */
	bool set;
	uint16_t attribute;
	uint32_t modifier;
	uint64_t mkey;
	uint8_t *mad, *data;
};

typedef uint16_t sma_handler(struct request *request);

static struct fabric_port *request_port(const struct request *request)
{
	return &request->node->port[request->own];
}

/* ---- M_Key (14.2.4) ---- */

static bool mkey_allows(struct request *request, unsigned port, const struct flight *flight)
{
	struct fabric_port *at = &request->node->port[port];

	mkey_expire(request->fabric, at);
	if (!at->info.m_key || at->info.m_key == request->mkey) {
		at->lease_end_us = 0;
		return true;
	}
	if (flight->mad[3] == MAD_METHOD_GET && at->info.m_key_protect_bits < 2)
		return true;
	at->info.m_key_violations += at->info.m_key_violations != 0xffff;
	if (!at->lease_end_us && at->info.m_key_lease_period) {
		at->lease_end_us =
			request->fabric->now_us + at->info.m_key_lease_period * SECOND_US;
		fabric_due(request->fabric, at->lease_end_us);
	}
	trap_mkey(request->fabric, request->node_number, port, flight);
	flight_lost(request->fabric, flight, DISCARD_MKEY);
	return false;
}

/* ---- what a node is ---- */

static uint16_t get_node_description(struct request *request)
{
	struct fabric_node *node = request->node;

	if (request->modifier)
		return MAD_STATUS_BAD_FIELD;
	if (request->set) {
		memcpy(node->description, request->data, DESCRIPTION_BYTES);
		node->description[DESCRIPTION_BYTES] = '\0';
		trap_capability(request->fabric, request->node_number, request->own, 1);
	}
	memset(request->data, 0, DESCRIPTION_BYTES);
	memcpy(request->data, node->description, strnlen(node->description, DESCRIPTION_BYTES));
	return 0;
}

static uint16_t get_node_info(struct request *request)
{
	const struct fabric_node *node = request->node;
	const struct ib_node_info info = {
		.base_version = 1,
		.class_version = 1,
		.node_type = (uint8_t)node->type,
		.num_ports = (uint8_t)node->ports,
		.system_image_guid = node->system_guid,
		.node_guid = node->guid,
		.port_guid = request_port(request)->guid,
		.partition_cap = node->pkeys,
		.device_id = node->device_id,
		.revision = node->revision,
		.local_port_num = (uint8_t)request->entry,
		.vendor_id = node->vendor_id,
	};

	record_write(RECORD_NODE_INFO, &info, request->data);
	return request->modifier ? MAD_STATUS_BAD_FIELD : 0;
}

static uint16_t get_switch_info(struct request *request)
{
	struct ib_switch_info *now = &request->node->switch_info, asked;
	uint16_t status = 0;

	if (!node_is_switch(request->node))
		return MAD_STATUS_BAD_ATTRIBUTE;
	if (request->modifier) {
		status = MAD_STATUS_BAD_FIELD;
	} else if (request->set) {
		record_read(RECORD_SWITCH_INFO, request->data, &asked);
		if (asked.linear_fdb_top < now->linear_fdb_cap)
			now->linear_fdb_top = asked.linear_fdb_top;
		else
			status = MAD_STATUS_BAD_FIELD;
		now->default_port = asked.default_port;
		now->default_multicast_primary_port = asked.default_multicast_primary_port;
		now->default_multicast_not_primary_port = asked.default_multicast_not_primary_port;
		now->life_time_value = asked.life_time_value;
		if (asked.port_state_change)	/* written as 1, it is cleared */
			now->port_state_change = 0;
		now->multicast_fdb_top = asked.multicast_fdb_top;
	}
	record_write(RECORD_SWITCH_INFO, now, request->data);
	return status;
}

static uint16_t get_guid_info(struct request *request)
{
	struct fabric_port *port = request_port(request);
	struct ib_guid_info info = { 0 };
	unsigned guids = port->info.guid_cap;
	uint16_t status = 0;

	if (request->modifier >= (guids + 7) / 8) {
		status = MAD_STATUS_BAD_FIELD;
	} else if (request->set && guids > 1) {
		record_read(RECORD_GUID_INFO, request->data, &info);
		if (!port->guids)
			port->guids = calloc(7, sizeof(*port->guids));
		if (!port->guids)
			return MAD_STATUS_BUSY;
		memcpy(port->guids, &info.guid[1], 7 * sizeof(*port->guids));
		fabric_event_at(request->fabric, request->node_number, request->own,
				FABRIC_EVENT_GID_CHANGE);
	}
	memset(&info, 0, sizeof(info));
	if (!status) {
		info.guid[0] = port->guid;
		if (port->guids)
			memcpy(&info.guid[1], port->guids, 7 * sizeof(*port->guids));
	}
	record_write(RECORD_GUID_INFO, &info, request->data);
	return status;
}

/* ---- PortInfo (14.2.5.6) ---- */

/* What is said to the end port alone: a switch's external ports have neither LID nor M_Key. */
static uint16_t set_end_port(struct request *request, unsigned number,
			     const struct ib_port_info *asked)
{
	struct fabric_port *port = &request->node->port[number];
	struct ib_port_info *now = &port->info;
	uint16_t status = 0, lid = port->held_lid ? port->held_lid : asked->lid;

	now->m_key = asked->m_key;
	now->m_key_lease_period = asked->m_key_lease_period;
	now->m_key_protect_bits = asked->m_key_protect_bits;
	port->lease_end_us = 0;
	if (now->gid_prefix != asked->gid_prefix) {
		now->gid_prefix = asked->gid_prefix;
		fabric_event_at(request->fabric, request->node_number, number,
				FABRIC_EVENT_GID_CHANGE);
	}
	if (!asked->lid || asked->lid >= LID_MULTICAST) {
		status = MAD_STATUS_BAD_FIELD;
	} else if (now->lid != lid || now->lmc != asked->lmc) {
		now->lid = lid;
		now->lmc = node_is_switch(request->node) &&
					   !request->node->switch_info.enhanced_port_zero
				   ? 0
				   : asked->lmc;
		fabric_event_at(request->fabric, request->node_number, number,
				FABRIC_EVENT_LID_CHANGE);
	}
	if (!asked->master_sm_lid || asked->master_sm_lid >= LID_MULTICAST) {
		status = MAD_STATUS_BAD_FIELD;
	} else if (now->master_sm_lid != asked->master_sm_lid ||
		   now->master_sm_sl != asked->master_sm_sl) {
		now->master_sm_lid = asked->master_sm_lid;
		now->master_sm_sl = asked->master_sm_sl;
		fabric_event_at(request->fabric, request->node_number, number,
				FABRIC_EVENT_SM_CHANGE);
	}
	now->subnet_time_out = asked->subnet_time_out;
	if (!asked->m_key_violations)
		now->m_key_violations = 0;
	if (!asked->p_key_violations)
		now->p_key_violations = 0;
	if (!asked->q_key_violations)
		now->q_key_violations = 0;
	if (asked->client_reregister)
		fabric_event_at(request->fabric, request->node_number, number,
				FABRIC_EVENT_CLIENT_REREGISTER);
	return status;
}

/* @all: the value that enables what is supported; 0 changes nothing. False: more than is supported.
 */
static bool set_enabled(uint8_t *enabled, uint8_t supported, uint8_t asked, uint8_t all)
{
	if (!asked)
		return true;
	if (asked != all && asked & ~supported)
		return false;
	*enabled = asked == all ? supported : asked;
	return true;
}

/* Any port's own settings. */
static uint16_t set_any_port(const struct request *request, unsigned number,
			     const struct ib_port_info *asked)
{
	struct ib_port_info *now = &request->node->port[number].info;
	bool good = set_enabled(&now->link_width_enabled, now->link_width_supported,
				asked->link_width_enabled, WIDTH_ALL);

	good &= set_enabled(&now->link_speed_enabled, now->link_speed_supported,
			    asked->link_speed_enabled, SPEED_ALL);
	if (request->modifier & SET_EXTENDED_SPEEDS) {
		if (asked->link_speed_ext_enabled == EXTENDED_DISABLE)
			now->link_speed_ext_enabled = EXTENDED_DISABLE;
		else
			good &= set_enabled(&now->link_speed_ext_enabled, now->link_speed_ext_supported,
					    asked->link_speed_ext_enabled, EXTENDED_ALL);
		good &= set_enabled(&now->link_speed_ext_enabled_2, now->link_speed_ext_supported_2,
				    asked->link_speed_ext_enabled_2, EXTENDED_2_ALL);
	}
	if (asked->link_down_default_state > FABRIC_PHYS_POLLING)
		good = false;
	else if (asked->link_down_default_state)
		now->link_down_default_state = asked->link_down_default_state;
	if (asked->neighbor_mtu > now->mtu_cap)
		good = false;
	else if (asked->neighbor_mtu)
		now->neighbor_mtu = asked->neighbor_mtu;
	if (asked->operational_vls > now->vl_cap)
		good = false;
	else if (asked->operational_vls)
		now->operational_vls = asked->operational_vls;
	now->vl_high_limit = asked->vl_high_limit;
	now->vl_stall_count = asked->vl_stall_count;
	now->hoq_life = asked->hoq_life;
	now->partition_enforcement_inbound = asked->partition_enforcement_inbound;
	now->partition_enforcement_outbound = asked->partition_enforcement_outbound;
	now->filter_raw_inbound = asked->filter_raw_inbound;
	now->filter_raw_outbound = asked->filter_raw_outbound;
	now->local_phy_errors = asked->local_phy_errors;
	now->overrun_errors = asked->overrun_errors;
	return good ? 0 : MAD_STATUS_BAD_FIELD;
}

/* False: no such change (7.2.7), or from where the port is. */
static bool set_state(const struct request *request, unsigned number,
		      const struct ib_port_info *asked)
{
	static const enum port_event by_phys[] = {
		[FABRIC_PHYS_SLEEP] = PORT_SET_SLEEP, [FABRIC_PHYS_POLLING] = PORT_SET_POLL,
		[FABRIC_PHYS_DISABLED] = PORT_SET_DISABLE,
	};
	static const enum port_event by_state[] = {
		[FABRIC_PORT_INIT] = PORT_SET_INIT, [FABRIC_PORT_ARMED] = PORT_SET_ARM,
		[FABRIC_PORT_ACTIVE] = PORT_SET_ACTIVE,
	};
	bool down =
		asked->port_state == FABRIC_PORT_DOWN || asked->port_state == FABRIC_PORT_NO_CHANGE;
	enum port_event event = PORT_SET_DOWN;

	if (asked->port_state > FABRIC_PORT_ACTIVE ||
	    asked->port_physical_state > FABRIC_PHYS_DISABLED ||
	    (asked->port_physical_state && !down))
		return false;
	if (!asked->port_state && !asked->port_physical_state)
		return true;
	if (node_is_switch(request->node) && !number)	/* always up */
		return true;
	if (asked->port_state > FABRIC_PORT_INIT && request->node->port[number].stuck)
		return true;	/* it says nothing, and does nothing */
	if (asked->port_physical_state)
		event = by_phys[asked->port_physical_state];
	else if (!down)
		event = by_state[asked->port_state];
	else if (request->node->port[number].info.link_down_default_state == FABRIC_PHYS_SLEEP)
		event = PORT_SET_SLEEP;
	return link_event(request->fabric, request->node_number, number, event, true);
}

static uint16_t get_port_info(struct request *request)
{
	struct fabric_node *node = request->node;
	unsigned number = request->modifier & 0xff;
	struct ib_port_info asked, now;
	bool is_end, reregister = false;
	uint16_t status = 0;

	if (!number && !node_is_switch(node))
		number = request->own;
	if (number > node->ports || request->modifier & ~(SET_EXTENDED_SPEEDS | 0xff)) {
		memset(request->data, 0, SMP_DATA_BYTES);
		return MAD_STATUS_BAD_FIELD;
	}
	is_end = !node_is_switch(node) || !number;
	/* A channel adapter's port is set through itself alone; by another one it can be read. */
	if (request->set && (number == request->own || node_is_switch(node))) {
		record_read(RECORD_PORT_INFO, request->data, &asked);
		if (is_end)
			status = set_end_port(request, number, &asked);
		status |= set_any_port(request, number, &asked);
		reregister = is_end && asked.client_reregister;
		if (!set_state(request, number, &asked))
			status = MAD_STATUS_BAD_FIELD;
	}
	now = node->port[number].info;
	now.local_port_num = (uint8_t)request->entry;
	now.client_reregister = reregister;
	if (!request->set && now.m_key_protect_bits == 1 && now.m_key != request->mkey)
		now.m_key = 0;
	record_write(RECORD_PORT_INFO, &now, request->data);
	return status;
}

/* ---- tables ---- */

/* A modifier's port: of a switch as it is, else the one that is asked. NULL: there is none. */
static struct fabric_port *table_port(const struct request *request, unsigned number)
{
	if (!node_is_switch(request->node))
		return request_port(request);
	return number <= request->node->ports ? &request->node->port[number] : NULL;
}

static uint16_t get_pkey_table(struct request *request)
{
	struct fabric_port *port = table_port(request, request->modifier >> 16);
	unsigned number = port ? (unsigned)(port - request->node->port) : 0;
	unsigned first = (request->modifier & 0xffff) * PKEY_BLOCK, count;
	struct ib_pkey_table table = { 0 };
	uint16_t status = MAD_STATUS_BAD_FIELD;

	count = port ? port_pkeys(request->node, number) : 0;
	if (first < count) {
		status = 0;
		if (request->set) {
			if (!port_pkeys_make(request->node, number))
				return MAD_STATUS_BUSY;
			record_read(RECORD_PKEY_TABLE, request->data, &table);
			for (unsigned i = 0; i < PKEY_BLOCK && first + i < count; i++)
				port->pkeys[first + i] = table.p_key[i];
			hold_pkeys(request->node, number);
			fabric_event_at(request->fabric, request->node_number, request->own,
					FABRIC_EVENT_PKEY_CHANGE);
		}
		for (unsigned i = 0; i < PKEY_BLOCK; i++)
			table.p_key[i] = port_pkey(request->node, port, first + i);
	}
	record_write(RECORD_PKEY_TABLE, &table, request->data);
	return status;
}

static bool set_sl_to_vl(const struct fabric_node *node, struct fabric_port *port, unsigned in,
			 const struct ib_sl_to_vl *map)
{
	unsigned ins = node_is_switch(node) ? node->ports + 1 : 1;
	bool same = true;

	for (unsigned sl = 0; sl < 16; sl++)
		same &= port_sl_to_vl(port, in, (uint8_t)sl) == map->vl[sl];
	if (same)
		return true;
	if (!port->sl_to_vl) {
		uint8_t (*all)[8] = malloc(ins * sizeof(*all));

		if (!all)
			return false;
		for (unsigned i = 0; i < ins; i++)
			for (unsigned byte = 0; byte < 8; byte++)
				all[i][byte] = (uint8_t)(2 * byte % 8 << 4 | (2 * byte + 1) % 8);
		port->sl_to_vl = all;
	}
	record_write(RECORD_SL_TO_VL, map, port->sl_to_vl[in]);
	return true;
}

/* One table of a channel adapter; of a switch one for each pair of ports, of which a Set may mean
 * many. */
static uint16_t get_sl_to_vl(struct request *request)
{
	struct fabric_node *node = request->node;
	bool is_switch = node_is_switch(node);
	unsigned out = is_switch ? request->modifier & 0xff : request->own;
	unsigned in = is_switch ? request->modifier >> 8 & 0xff : 0;
	bool many = request->modifier & (SL_MAP_ALL_OUT | SL_MAP_ALL_IN);
	struct ib_sl_to_vl map = { 0 };
	uint16_t status = 0;

	if (in > node->ports || out > node->ports || request->modifier >> 18 ||
	    (many && (!is_switch || !node->switch_info.optimized_sl_to_vl_mapping_programming))) {
		record_write(RECORD_SL_TO_VL, &map, request->data);
		return MAD_STATUS_BAD_FIELD;
	}
	if (request->set) {
		bool outs = request->modifier & SL_MAP_ALL_OUT,
		     ins = request->modifier & SL_MAP_ALL_IN;

		record_read(RECORD_SL_TO_VL, request->data, &map);
		for (unsigned o = outs ? 0 : out; o <= (outs ? node->ports : out); o++)
			for (unsigned i = ins ? 0 : in; i <= (ins ? node->ports : in); i++)
				if (!set_sl_to_vl(node, &node->port[o], i, &map))
					status = MAD_STATUS_BUSY;
	}
	for (unsigned sl = 0; sl < 16; sl++)
		map.vl[sl] = port_sl_to_vl(&node->port[out], in, (uint8_t)sl);
	record_write(RECORD_SL_TO_VL, &map, request->data);
	return status;
}

/* Four parts: low priority, its second half, high priority, its second half. */
static uint16_t get_vl_arbitration(struct request *request)
{
	struct fabric_port *port = table_port(request, request->modifier & 0xffff);
	unsigned part = request->modifier >> 16, cap;

	cap = !port	 ? 0
	      : part > 2 ? port->info.vl_arbitration_high_cap
			 : port->info.vl_arbitration_low_cap;
	if (!part || part > 4 || !cap) {
		memset(request->data, 0, SMP_DATA_BYTES);
		return MAD_STATUS_BAD_FIELD;
	}
	if (request->set) {
		struct ib_vl_arbitration table;

		if (!port->vlarb)
			port->vlarb = calloc(4, SMP_DATA_BYTES);
		if (!port->vlarb)
			return MAD_STATUS_BUSY;
		record_read(RECORD_VL_ARBITRATION, request->data, &table);
		record_write(RECORD_VL_ARBITRATION, &table,
			     port->vlarb + (part - 1) * SMP_DATA_BYTES);
	}
	if (port->vlarb)
		memcpy(request->data, port->vlarb + (part - 1) * SMP_DATA_BYTES, SMP_DATA_BYTES);
	else
		memset(request->data, 0, SMP_DATA_BYTES);
	return 0;
}

static uint16_t get_linear_forwarding(struct request *request)
{
	struct fabric_node *node = request->node;
	uint8_t **block;

	if (!node_is_switch(node))
		return MAD_STATUS_BAD_ATTRIBUTE;
	if (request->modifier >= (node->switch_info.linear_fdb_cap + LFT_BLOCK - 1) / LFT_BLOCK) {
		memset(request->data, 0, SMP_DATA_BYTES);
		return MAD_STATUS_BAD_FIELD;
	}
	block = &node->lft[request->modifier];
	if (request->set) {
		if (!*block)
			*block = malloc(LFT_BLOCK);
		if (!*block)
			return MAD_STATUS_BUSY;
		memcpy(*block, request->data, LFT_BLOCK);
		hold_routes(node);
	}
	if (*block)
		memcpy(request->data, *block, LFT_BLOCK);
	else
		memset(request->data, 255, LFT_BLOCK);
	return 0;
}

static uint16_t get_multicast_forwarding(struct request *request)
{
	struct fabric_node *node = request->node;
	unsigned row = request->modifier & 0x1ff, position = request->modifier >> 28;
	struct ib_multicast_forwarding table = { 0 };
	uint16_t **block;

	if (!node_is_switch(node))
		return MAD_STATUS_BAD_ATTRIBUTE;
	if (row >= (node->switch_info.multicast_fdb_cap + MFT_BLOCK - 1) / MFT_BLOCK ||
	    position >= node->positions || request->modifier & 0x0ffffe00) {
		memset(request->data, 0, SMP_DATA_BYTES);
		return MAD_STATUS_BAD_FIELD;
	}
	block = &node->mft[row * node->positions + position];
	if (request->set) {
		if (!*block)
			*block = malloc(MFT_BLOCK * sizeof(**block));
		if (!*block)
			return MAD_STATUS_BUSY;
		record_read(RECORD_MULTICAST_FORWARDING, request->data, &table);
		memcpy(*block, table.port_mask, sizeof(table.port_mask));
	}
	if (*block)
		memcpy(table.port_mask, *block, sizeof(table.port_mask));
	record_write(RECORD_MULTICAST_FORWARDING, &table, request->data);
	return 0;
}

/* ---- which of them ---- */

static const struct sma_row {
	uint16_t attribute;
	bool set;
	sma_handler *handler;
} sma_rows[] = {
	{ 0x0010, true, get_node_description },
	{ 0x0011, false, get_node_info },
	{ 0x0012, true, get_switch_info },
	{ 0x0014, true, get_guid_info },
	{ 0x0015, true, get_port_info },
	{ 0x0016, true, get_pkey_table },
	{ 0x0017, true, get_sl_to_vl },
	{ 0x0018, true, get_vl_arbitration },
	{ 0x0019, true, get_linear_forwarding },
	{ 0x001b, true, get_multicast_forwarding },
};

static void sma_answer(uint8_t *mad, uint16_t status)
{
	mad[3] = MAD_METHOD_GET_RESPONSE;
	if (mad[1] == MAD_CLASS_SUBNET_DIRECTED)
		status |= SMP_DIRECTION;
	put_be16(mad + SMP_STATUS, status);
}

bool sma_receive(struct fabric *fabric, struct flight *flight, bool *answer)
{
	struct fabric_node *node = &fabric->node[flight->node];
	uint8_t *mad = flight->mad;
	struct request request = {
		.fabric = fabric, .node = node, .node_number = flight->node, .entry = flight->port,
		.own = node_own_port(node, flight->port), .set = mad[3] == MAD_METHOD_SET,
		.attribute = get_be16(mad + 16), .modifier = get_be32(mad + 20),
		.mkey = get_be64(mad + SMP_MKEY), .mad = mad, .data = mad + SMP_DATA,
	};
	const struct sma_row *row = NULL;
	bool get_or_set = mad[3] == MAD_METHOD_GET || mad[3] == MAD_METHOD_SET;

	for (unsigned i = 0; i < sizeof(sma_rows) / sizeof(*sma_rows) && !row; i++)
		if (sma_rows[i].attribute == request.attribute)
			row = &sma_rows[i];
	*answer = false;
	if (mad[3] & MAD_METHOD_RESPONSE || mad[3] == MAD_METHOD_TRAP ||
	    mad[3] == MAD_METHOD_REPORT)
		return false;
	/* A manager's own, but the port's M_Key guards it as all others. */
	if (get_or_set && request.attribute == record_layout(RECORD_SM_INFO)->attribute)
		return !mkey_allows(&request, request.own, flight);
	if (mad[3] == MAD_METHOD_TRAP_REPRESS) {
		if (mkey_allows(&request, request.own, flight))
			trap_repressed(fabric, flight->node, request.own, get_be64(mad + 8));
		return true;
	}
	fabric->statistics.sma_requests++;
	if (mad[0] != MAD_BASE_VERSION || mad[2] != 1) {
		sma_answer(mad, MAD_STATUS_BAD_VERSION);
	} else if (!get_or_set) {
		sma_answer(mad, MAD_STATUS_BAD_METHOD);
	} else if (!mkey_allows(&request, request.own, flight)) {
		return true;
	} else if (!row || (request.set && !row->set)) {
		sma_answer(mad, MAD_STATUS_BAD_ATTRIBUTE);
	} else {
		unsigned other = request.modifier & 0xff;

		/* The M_Key of another port of the same adapter guards that one. */
		if (row->handler == get_port_info && !node_is_switch(node) && other &&
		    other <= node->ports && other != request.own &&
		    !mkey_allows(&request, other, flight))
			return true;
		sma_answer(mad, row->handler(&request));
		if (request.set)
			fabric_changed(fabric, flight->node);
		if (request.set && row->handler == get_port_info)
			fabric_event_at(fabric, flight->node, request.own, FABRIC_EVENT_OTHER);
	}
	fabric->statistics.sma_answers++;
	fabric->statistics.smps++;
	*answer = true;
	return true;
}
