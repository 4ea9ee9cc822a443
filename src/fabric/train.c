/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * MADs that go the same way one behind the other, at the price of one: their way is walked first, without
 * moving anything. If every port on it sends and takes them, no cable is one that errs, nobody looks at them
 * in between and whoever is there takes them together, all ports count them and that is all. Else the caller
 * sends each by itself, and all is as it was.
 */
#include <assert.h>

#include "fabric/internal.h"
#include "wire/qpn.h"

#define TRAIN_HOPS	64u

struct train_way {
	unsigned hops;
	struct {
		struct fabric_port *from, *to;
	} cable[TRAIN_HOPS];
};

/* To the port *at, at the end of its way. False: not as a train. */
static bool train_walk(struct fabric *fabric, struct flight *flight, struct train_way *way, unsigned *at)
{
	for (way->hops = 0;;) {
		struct fabric_node *node = &fabric->node[flight->node];
		struct fabric_port *from, *to;
		struct decision decision;

		if (!node->powered)
			return false;
		decision = forward(node, flight);
		*at = decision.port;
		if (decision.verdict == VERDICT_DELIVER)
			return true;
		if (decision.verdict != VERDICT_OUT || way->hops == TRAIN_HOPS ||
		    forward_exit(node, flight, decision.port, &flight->vl))
			return false;
		from = &node->port[decision.port];
		to = &fabric->node[from->peer].port[from->peer_port];
		/* What comes in there changes nothing (an Armed port), nor is it lost. */
		if (to->state != PORT_ACTIVE || to->bit_errors || to->error_percent ||
		    forward_entry(&fabric->node[from->peer], flight, from->peer_port))
			return false;
		way->cable[way->hops].from = from;
		way->cable[way->hops++].to = to;
		flight->port = from->peer_port;
		flight->node = from->peer;
		flight->from_program = false;
	}
}

bool fabric_send_train(struct fabric *fabric, uint32_t node, uint32_t port,
		       const struct fabric_train *train, const struct fabric_address *to, uint64_t now_us)
{
	struct fabric_address from;
	struct flight flight;
	struct train_way way;
	unsigned at;

	assert(!fabric->busy);
	if (fabric->ops.packet || !fabric->ops.deliver_train || fabric->deadline_us <= now_us ||
	    flight_begin(fabric, node, port, train->mad, to, &flight) || flight.dest_qpn != QPN_GSI ||
	    train->mad[1] == MAD_CLASS_PERFORMANCE || !train_walk(fabric, &flight, &way, &at) ||
	    flight_source(fabric, &flight, at, &from) ||
	    !fabric->ops.deliver_train(fabric->context, flight.node, at, train, &from))
		return false;
	fabric_pass(fabric, now_us);
	fabric->statistics.gmps += train->count;
	fabric->statistics.delivered += train->count;
	fabric->statistics.hops += (uint64_t)train->count * way.hops;
	for (unsigned i = 0; i < way.hops; i++)
		port_count_crossing(way.cable[i].from, way.cable[i].to, false, train->count,
				    (uint64_t)train->count * flight_words(&flight));
	return true;
}
