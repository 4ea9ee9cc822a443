/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Directed routes (IBTA 14.2.2, C14-9 and C14-13). The hop pointer says how far an SMP is; here H
 * is the hop count, "out" means on to the port that the path names.
 *
 *	on its way out (D = 0)
 *	 pointer   where	what it does
 *	 0         it begins	1, out by initial[1]
 *	 1 .. H-1  a switch	return[pointer] = entry, +1, out by initial[pointer]
 *	 H         the end	return[H] = entry, H + 1: local, or on to DrDLID
 *	 H + 1     DrDLID	local
 *
 *	on its way back (D = 1)
 *	 H + 1     it begins	H, out by return[H]
 *	 2 .. H    a switch	-1, out by return[pointer]
 *	 1         the end	0: local, or on to DrSLID
 *	 0         DrSLID	local
 *
 * What is in no row is dropped. A combined route has a part by LID before (DrSLID) or behind
 * (DrDLID) the directed one: the directed part then begins at the switch that has the LID.
 */
#include "base/bytes.h"
#include "fabric/internal.h"

/* A channel adapter sends by no port but the one it has been using. */
static enum smi_step smi_exit(const struct fabric_node *node, unsigned exit, unsigned *port)
{
	if (node_is_switch(node) ? !exit || exit > node->ports : exit != *port)
		return SMI_DROP;
	*port = exit;
	return SMI_OUT;
}

static enum smi_step smi_end(const struct fabric_node *node, uint16_t on_to, uint16_t *lid)
{
	if (on_to == LID_PERMISSIVE)
		return SMI_LOCAL;
	*lid = on_to;
	return node_is_switch(node) ? SMI_BY_LID : SMI_DROP;
}

static enum smi_step smi_route_out(const struct fabric_node *node, enum smi_origin origin,
				   unsigned *port, uint8_t *mad, uint16_t *lid)
{
	unsigned count = mad[SMP_HOP_COUNT], pointer = mad[SMP_HOP_POINTER];

	if (origin == SMI_CAME_BY_LID && pointer == count + 1)
		return SMI_LOCAL;
	if (origin != SMI_PASSES) {
		if (pointer || (count && origin == SMI_CAME_BY_LID && !node_is_switch(node)))
			return SMI_DROP;
		mad[SMP_HOP_POINTER] = 1;
		return count ? smi_exit(node, mad[SMP_INITIAL_PATH + 1], port) :
			       smi_end(node, get_be16(mad + SMP_DR_DLID), lid);
	}
	if (!pointer || pointer > count || (pointer < count && !node_is_switch(node)))
		return SMI_DROP;
	mad[SMP_RETURN_PATH + pointer] = (uint8_t)*port;
	mad[SMP_HOP_POINTER] = (uint8_t)(pointer + 1);
	if (pointer < count)
		return smi_exit(node, mad[SMP_INITIAL_PATH + pointer + 1], port);
	return smi_end(node, get_be16(mad + SMP_DR_DLID), lid);
}

static enum smi_step smi_route_back(const struct fabric_node *node, enum smi_origin origin,
				    unsigned *port, uint8_t *mad, uint16_t *lid)
{
	unsigned count = mad[SMP_HOP_COUNT], pointer = mad[SMP_HOP_POINTER];

	if (!pointer)
		return origin == SMI_PASSES ? SMI_DROP : SMI_LOCAL;
	if (origin == SMI_PASSES ? pointer > count : pointer != count + 1)
		return SMI_DROP;
	mad[SMP_HOP_POINTER] = (uint8_t)(pointer - 1);
	if (pointer == 1)
		return smi_end(node, get_be16(mad + SMP_DR_SLID), lid);
	if (origin == SMI_PASSES && !node_is_switch(node))
		return SMI_DROP;
	return smi_exit(node, mad[SMP_RETURN_PATH + pointer - 1], port);
}

enum smi_step smi_route(const struct fabric_node *node, enum smi_origin origin, unsigned *port,
			uint8_t mad[MAD_BYTES], uint16_t *lid)
{
	if (mad[SMP_HOP_COUNT] > SMP_HOPS_MAX)
		return SMI_DROP;
	if (get_be16(mad + SMP_STATUS) & SMP_DIRECTION)
		return smi_route_back(node, origin, port, mad, lid);
	return smi_route_out(node, origin, port, mad, lid);
}
