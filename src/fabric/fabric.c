/* SPDX-License-Identifier: BSD-2-Clause */
/* The subnet as a whole: programs send, time passes, somebody asks for a node by name. */
#include "fabric/fabric.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "fabric/internal.h"

void fabric_set_ops(struct fabric *fabric, const struct fabric_ops *ops, void *context)
{
	fabric->ops = *ops;
	fabric->context = context;
}

void fabric_free(struct fabric *fabric)
{
	if (!fabric)
		return;
	for (uint32_t i = 0; i < fabric->nodes; i++)
		node_free(&fabric->node[i]);
	free(fabric->node);
	free(fabric->queue);
	free(fabric->by_name);
	free(fabric->place);
	free(fabric->ip);
	free(fabric);
}

/* ---- programs ---- */

int flight_begin(const struct fabric *fabric, uint32_t node, uint32_t port, const uint8_t mad[MAD_BYTES],
		 const struct fabric_address *to, struct flight *flight)
{
	const struct fabric_port *at = fabric_port_at(fabric, node, port);
	bool smp = mad_class_is_smp(mad[1]);

	if (!at || (port && node_is_switch(&fabric->node[node])) || (!smp && to->qpn != 1))
		return EINVAL;
	*flight = (struct flight){
		.node = node,
		.port = port,
		.from_program = true,
		.sl = to->sl & 0xf,
		.dlid = to->lid,
		.source_qpn = smp ? 0 : 1,
		.dest_qpn = smp ? 0 : to->qpn,
		.qkey = smp ? 0 : to->qkey,
		.has_grh = to->has_grh,
		.pkey = smp ? PKEY_DEFAULT : port_pkey(&fabric->node[node], at, to->pkey_index),
	};
	if (!(flight->pkey & ~PKEY_FULL))
		return EINVAL;
	if (to->has_grh) {
		flight->grh = (struct ib_grh){ .tclass = to->traffic_class, .hoplmt = to->hop_limit,
					       .flowlabel = to->flow_label & 0xfffff };
		memcpy(flight->grh.dgid, to->gid, sizeof(to->gid));
		if (!fabric_gid(fabric, node, port, to->gid_index, flight->grh.sgid))
			return EINVAL;
	}
	flight->slid =
		mad[1] == MAD_CLASS_SUBNET_DIRECTED && to->lid == LID_PERMISSIVE
			? LID_PERMISSIVE
			: (uint16_t)(at->info.lid | (to->path_bits & ((1u << at->info.lmc) - 1)));
	memcpy(flight->mad, mad, MAD_BYTES);
	return 0;
}

int fabric_send(struct fabric *fabric, uint32_t node, uint32_t port, const uint8_t mad[MAD_BYTES],
		const struct fabric_address *to, uint64_t now_us)
{
	struct flight flight;
	int err = flight_begin(fabric, node, port, mad, to, &flight);

	if (err)
		return err;
	if (mad_class_is_smp(mad[1]))
		fabric->statistics.smps++;
	else
		fabric->statistics.gmps++;
	fabric_pass(fabric, now_us);
	flight_start(fabric, &flight);
	flights_run(fabric);
	if (!fabric->busy && fabric->deadline_us <= fabric->now_us)
		traps_due(fabric);
	return 0;
}

void fabric_refuse(struct fabric *fabric, uint32_t node, uint32_t port,
		   const uint8_t mad[MAD_BYTES], const struct fabric_address *from, uint64_t now_us)
{
	struct fabric_address to = *from;
	uint8_t answer[MAD_BYTES];
	uint16_t status = MAD_STATUS_BAD_ATTRIBUTE;

	if (mad[3] & MAD_METHOD_RESPONSE)
		return;
	memcpy(answer, mad, MAD_BYTES);
	answer[3] = MAD_METHOD_GET_RESPONSE;
	if (mad[1] == MAD_CLASS_SUBNET_DIRECTED) {
		status |= SMP_DIRECTION;
		if (get_be16(mad + SMP_DR_DLID) == LID_PERMISSIVE)
			to.lid = LID_PERMISSIVE;
	}
	put_be16(answer + SMP_STATUS, status);
	fabric_send(fabric, node, port, answer, &to, now_us);
}

/* ---- time, and what happens ---- */

uint64_t fabric_deadline_us(const struct fabric *fabric)
{
	return fabric->deadline_us;
}

void fabric_timer(struct fabric *fabric, uint64_t now_us)
{
	bool starts = !fabric->now_us && now_us;

	fabric_pass(fabric, now_us);
	/* The first time that is not 0: what the file has begun begins then. */
	if (starts)
		fabric->deadline_us = FABRIC_NEVER;
	for (uint32_t node = 0; starts && node < fabric->nodes; node++)
		for (unsigned port = 0; port <= fabric->node[node].ports; port++) {
			struct fabric_port *at = &fabric->node[node].port[port];

			for (unsigned i = 0; at->rise && i < COUNTERS; i++)
				at->rise[i].since_us = fabric->now_us;
			bit_errors_start(fabric, at);
		}
	if (fabric->deadline_us <= fabric->now_us)
		traps_due(fabric);
}

int fabric_set_is_sm(struct fabric *fabric, uint32_t node, uint32_t port, bool on, uint64_t now_us)
{
	struct fabric_port *at = fabric_port_at(fabric, node, port);
	uint32_t mask;

	if (!at || (port && node_is_switch(&fabric->node[node])))
		return EINVAL;
	mask = on ? at->info.capability_mask | CAP_IS_SM : at->info.capability_mask & ~CAP_IS_SM;
	if (mask == at->info.capability_mask)
		return 0;
	at->info.capability_mask = mask;
	fabric_event_at(fabric, node, port, FABRIC_EVENT_OTHER);
	fabric_pass(fabric, now_us);
	trap_capability(fabric, node, port, 0);
	fabric_timer(fabric, now_us);
	return 0;
}

int fabric_set_errors(struct fabric *fabric, uint32_t node, uint32_t port, unsigned percent,
		      uint16_t attribute)
{
	struct fabric_port *at = fabric_port_at(fabric, node, port);

	if (!at || percent > 100)
		return EINVAL;
	at->error_percent = (uint8_t)percent;
	at->error_attribute = attribute;
	fabric_changed(fabric, node);
	return 0;
}

static size_t fabric_node_bytes(const struct fabric_node *node)
{
	size_t bytes = sizeof(*node) + (node->ports + 1) * sizeof(*node->port);
	unsigned lids = (node->switch_info.linear_fdb_cap + LFT_BLOCK - 1) / LFT_BLOCK;
	unsigned mlids =
		(node->switch_info.multicast_fdb_cap + MFT_BLOCK - 1) / MFT_BLOCK * node->positions;

	for (unsigned i = 0; node->lft && i < lids; i++)
		bytes += sizeof(*node->lft) + (node->lft[i] ? LFT_BLOCK : 0);
	for (unsigned i = 0; node->mft && i < mlids; i++)
		bytes += sizeof(*node->mft) + (node->mft[i] ? MFT_BLOCK * sizeof(**node->mft) : 0);
	for (unsigned i = 0; i <= node->ports; i++) {
		const struct fabric_port *port = &node->port[i];

		bytes += port->pkeys ? port_pkeys(node, i) * sizeof(*port->pkeys) : 0;
		bytes += port->sl_to_vl ? (node_is_switch(node) ? node->ports + 1 : 1) * 8 : 0;
		bytes += port->vlarb ? 4 * SMP_DATA_BYTES : 0;
		bytes += port->trap ? TRAP_KINDS * sizeof(*port->trap) : 0;
	}
	return bytes + 3 * (DESCRIPTION_BYTES + 1);
}

void fabric_statistics(const struct fabric *fabric, struct fabric_statistics *statistics)
{
	*statistics = fabric->statistics;
	statistics->bytes = sizeof(*fabric) + fabric->queue_room * sizeof(*fabric->queue) +
			    fabric->names_room * sizeof(*fabric->by_name);
	for (uint32_t i = 0; i < fabric->nodes; i++)
		statistics->bytes += fabric_node_bytes(&fabric->node[i]);
}

/* ---- names: a hash of IDs, descriptions of the file and their first words, in this order ---- */

enum name_kind { NAME_ID, NAME_DESCRIPTION, NAME_WORD, NAME_KINDS };

static size_t name_bytes(const struct fabric_node *node, enum name_kind kind)
{
	if (kind == NAME_ID)
		return strlen(node->id);
	return kind == NAME_WORD ? strcspn(node->given, " ") : strlen(node->given);
}

/* The place of a name, or the free one where it would be. */
static size_t name_place(const struct fabric *fabric, const char *name, size_t bytes,
			 enum name_kind kind)
{
	uint32_t hash = 2166136261u + kind;	/* FNV-1a */
	size_t place;

	for (size_t i = 0; i < bytes; i++)
		hash = (hash ^ (uint8_t)name[i]) * 16777619u;
	for (place = hash % fabric->names_room; fabric->by_name[place]; place = (place + 1) % fabric->names_room) {
		uint32_t entry = fabric->by_name[place] - 1;
		const struct fabric_node *node = &fabric->node[entry / NAME_KINDS];
		const char *own = kind == NAME_ID ? node->id : node->given;

		if (entry % NAME_KINDS == kind && name_bytes(node, kind) == bytes &&
		    !memcmp(own, name, bytes))
			break;
	}
	return place;
}

bool fabric_index_names(struct fabric *fabric)
{
	fabric->names_room = 2 * NAME_KINDS * (size_t)fabric->nodes + 1;
	fabric->by_name = calloc(fabric->names_room, sizeof(*fabric->by_name));
	if (!fabric->by_name)
		return false;
	for (uint32_t i = 0; i < fabric->nodes * NAME_KINDS; i++) {
		const struct fabric_node *node = &fabric->node[i / NAME_KINDS];
		enum name_kind kind = (enum name_kind)(i % NAME_KINDS);
		size_t place = name_place(fabric, kind == NAME_ID ? node->id : node->given,
					  name_bytes(node, kind), kind);

		if (!fabric->by_name[place])	/* the first of two has it */
			fabric->by_name[place] = i + 1;
	}
	return true;
}

uint32_t fabric_find_node(const struct fabric *fabric, const char *name)
{
	for (unsigned kind = 0; kind < NAME_KINDS; kind++) {
		size_t place = name_place(fabric, name, strlen(name), (enum name_kind)kind);

		if (fabric->by_name[place])
			return (fabric->by_name[place] - 1) / NAME_KINDS;
	}
	return FABRIC_NONE;
}
