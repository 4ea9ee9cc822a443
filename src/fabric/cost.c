/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a subnet takes and what it gives: counted, by breadth-first search from each switch that has
 * hosts, and for the bisection by a maximum flow between the first half of the hosts and the
 * second, of which each cable between switches carries one.
 */
#include <stdlib.h>
#include <string.h>

#include "fabric/internal.h"

/* Cables between nodes as arcs in both directions; arcs 2k and 2k + 1 are one cable. */
struct arcs {
	uint32_t *to, *next, *first;	/* next, first: arc + 1, 0: none */
	uint32_t *left;			/* of the capacity */
	uint32_t count;
};

static void arcs_add(struct arcs *arcs, uint32_t from, uint32_t to, uint32_t there, uint32_t back)
{
	const uint32_t ends[2] = { to, from }, capacity[2] = { there, back };

	for (unsigned i = 0; i < 2; i++) {
		uint32_t arc = arcs->count++, tail = ends[1 - i];

		arcs->to[arc] = ends[i];
		arcs->left[arc] = capacity[i];
		arcs->next[arc] = arcs->first[tail];
		arcs->first[tail] = arc + 1;
	}
}

/* Distances from a node along arcs that have capacity left; UINT32_MAX: not reached. */
static void arcs_search(const struct arcs *arcs, uint32_t nodes, uint32_t from, uint32_t *distance,
			uint32_t *queue)
{
	uint32_t head = 0, tail = 0;

	memset(distance, 0xff, nodes * sizeof(*distance));
	distance[from] = 0;
	queue[tail++] = from;
	while (head < tail) {
		uint32_t node = queue[head++];

		for (uint32_t arc = arcs->first[node]; arc; arc = arcs->next[arc - 1]) {
			uint32_t to = arcs->to[arc - 1];

			if (!arcs->left[arc - 1] || distance[to] != UINT32_MAX)
				continue;
			distance[to] = distance[node] + 1;
			queue[tail++] = to;
		}
	}
}

/* Dinic's: sends one unit along a shortest path, without recursion. @at: the arc that each node
 * tries next. */
static bool arcs_augment(struct arcs *arcs, uint32_t from, uint32_t to, uint32_t *distance,
			 uint32_t *at, uint32_t *path)
{
	uint32_t depth = 0, node = from;

	while (node != to) {
		uint32_t arc = at[node];

		if (!arc) {		/* a dead end: back */
			if (!depth)
				return false;
			distance[node] = UINT32_MAX;
			node = arcs->to[(path[--depth] - 1) ^ 1];
			at[node] = arcs->next[at[node] - 1];
		} else if (arcs->left[arc - 1] &&
			   distance[arcs->to[arc - 1]] == distance[node] + 1) {
			path[depth++] = arc;
			node = arcs->to[arc - 1];
		} else {
			at[node] = arcs->next[arc - 1];
		}
	}
	while (depth--) {
		arcs->left[path[depth] - 1]--;
		arcs->left[(path[depth] - 1) ^ 1]++;
	}
	return true;
}

static uint32_t arcs_flow(struct arcs *arcs, uint32_t nodes, uint32_t from, uint32_t to,
			  uint32_t *work)
{
	uint32_t *distance = work, *queue = work + nodes, *at = work + 2 * nodes,
		 *path = work + 3 * nodes;
	uint32_t flow = 0;

	for (;;) {
		arcs_search(arcs, nodes, from, distance, queue);
		if (distance[to] == UINT32_MAX)
			return flow;
		memcpy(at, arcs->first, nodes * sizeof(*at));
		while (arcs_augment(arcs, from, to, distance, at, path))
			flow++;
	}
}

static void cost_count(const struct fabric *fabric, struct fabric_cost *cost)
{
	for (uint32_t i = 0; i < fabric->nodes; i++) {
		const struct fabric_node *node = &fabric->node[i];
		bool is_switch = node_is_switch(node);

		cost->switches += is_switch;
		cost->hosts += !is_switch;
		*(is_switch ? &cost->switch_ports : &cost->host_ports) += node->ports;
		for (unsigned port = 1; port <= node->ports; port++) {
			uint32_t peer = node->port[port].peer;

			if (peer == FABRIC_NONE)
				cost->free_switch_ports += is_switch;
			else if (is_switch && node_is_switch(&fabric->node[peer]))
				cost->switch_cables++;		/* from both ends */
			else if (!is_switch)
				cost->host_cables += node_is_switch(&fabric->node[peer]) ? 2 : 1;
		}
	}
	cost->switch_cables /= 2;
	cost->host_cables /= 2;
}

/* Paths between all pairs of hosts, from one switch with hosts at a time. @hosts: how many a node
 * has. */
static void cost_paths(const struct fabric *fabric, const struct arcs *arcs, const uint32_t *hosts,
		       uint32_t *work, struct fabric_cost *cost)
{
	uint64_t pairs = 0, sum = 0;

	cost->connected = true;
	for (uint32_t from = 0; from < fabric->nodes; from++) {
		if (!hosts[from])
			continue;
		arcs_search(arcs, fabric->nodes, from, work, work + fabric->nodes);
		for (uint32_t to = 0; to < fabric->nodes; to++) {
			uint64_t here = (uint64_t)hosts[from] * (hosts[to] - (to == from));

			if (!hosts[to])
				continue;
			if (work[to] == UINT32_MAX) {
				cost->connected = false;
				continue;
			}
			if (here && work[to] + 1 > cost->diameter)
				cost->diameter = work[to] + 1;
			pairs += here;
			sum += here * (work[to] + 1);
		}
	}
	cost->mean_switches = pairs ? (double)sum / (double)pairs : 0;
}

bool fabric_cost(const struct fabric *fabric, struct fabric_cost *cost)
{
	uint32_t nodes = fabric->nodes + 2, source = fabric->nodes, sink = fabric->nodes + 1,
		 seen = 0;
	uint32_t *hosts = calloc(fabric->nodes + 1, sizeof(*hosts));
	uint32_t *work = calloc(4 * (size_t)nodes, sizeof(*work));
	struct arcs arcs = { 0 };
	size_t cables;
	bool good;

	*cost = (struct fabric_cost){ 0 };
	cost_count(fabric, cost);
	cables = (size_t)cost->switch_cables + 2 * cost->hosts;
	arcs.to = calloc(2 * cables + 1, sizeof(*arcs.to));
	arcs.next = calloc(2 * cables + 1, sizeof(*arcs.next));
	arcs.left = calloc(2 * cables + 1, sizeof(*arcs.left));
	arcs.first = calloc((size_t)nodes + 1, sizeof(*arcs.first));
	good = hosts && work && arcs.to && arcs.next && arcs.left && arcs.first;
	for (uint32_t i = 0; good && i < fabric->nodes; i++) {
		const struct fabric_node *node = &fabric->node[i];

		for (unsigned port = 1; port <= node->ports; port++) {
			uint32_t peer = node->port[port].peer;

			if (peer == FABRIC_NONE || !node_is_switch(&fabric->node[peer]))
				continue;
			if (!node_is_switch(node))
				hosts[peer]++;
			else if (i < peer)
				arcs_add(&arcs, i, peer, 1, 1);
		}
	}
	if (good) {
		cost_paths(fabric, &arcs, hosts, work, cost);
		for (uint32_t i = 0; i < fabric->nodes; i++) {	/* in the order of the file */
			const struct fabric_node *node = &fabric->node[i];
			uint32_t peer = node_is_switch(node) ? FABRIC_NONE : node->port[1].peer;

			if (node_is_switch(node))
				continue;
			seen++;
			if (peer == FABRIC_NONE || !node_is_switch(&fabric->node[peer]))
				continue;
			if (seen <= cost->hosts / 2)
				arcs_add(&arcs, source, peer, 1, 0);
			else
				arcs_add(&arcs, peer, sink, 1, 0);
		}
		cost->bisection = arcs_flow(&arcs, nodes, source, sink, work);
	}
	free(arcs.to);
	free(arcs.next);
	free(arcs.left);
	free(arcs.first);
	free(hosts);
	free(work);
	return good;
}
