/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which queue pair each end of a packet is. A BTH names the destination only. The source is known
 *
 *	- of datagrams, by their DETH; of packets of Verbatim's traces, by the comment "qp";
 *	- of a connection whose REQ and REP were captured, by these;
 *	- else by an answer: of the flows in the other direction that sent its PSN lately, the first whose
 *	  source is not known yet.
 *
 * A flow is what one site (a process, or an address of a capture in between) sends to one QP of one
 * address.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ladder.h"
#include "wire/psn.h"

#define CANDIDATES_MAX	256u	/* flows that are looked at for one answer */
#define CM_MAX		4096u	/* REQs that are remembered */

struct flow {
	bool used;
	int process;
	uint8_t source[16], destination[16];
	uint32_t dest_qpn;
	uint32_t source_qpn;		/* LADDER_QP_UNKNOWN until known */
	uint32_t first_psn, last_psn;	/* of requests */
	bool requests, guessed;
	uint32_t next;			/* flow between the same addresses */
};

/* From one address to another: its flows. */
struct route {
	bool used;
	uint8_t source[16], destination[16];
	uint32_t flow;			/* the latest; LADDER_NONE */
};

struct cm_request {
	uint32_t comm_id, qpn;
	uint8_t address[16];
};

/* Open addressing: as many places as twice the packets, so none of the tables can be full. */
struct lanes {
	struct ladder *ladder;
	size_t mask;
	uint32_t *flow_at, *route_at, *lane_at, *alias_at;	/* index + 1; 0: free */
	struct flow *flow;
	struct route *route;
	unsigned flows, flow_room, routes, route_room;
	struct cm_request *request;
	unsigned requests;
};

static size_t lanes_hash(const void *data, size_t bytes, size_t seed)
{
	const uint8_t *byte = data;
	uint64_t hash = 0xcbf29ce484222325u ^ seed;

	for (size_t i = 0; i < bytes; i++)
		hash = (hash ^ byte[i]) * 0x100000001b3u;
	return (size_t)(hash ^ hash >> 31);
}

static int lanes_site(const struct ladder *ladder, const struct capture_record *record)
{
	return record ? ladder->source_process[record->source] : -1;
}

/* ---- flows ---- */

static int lanes_route(struct lanes *lanes, const uint8_t source[16], const uint8_t destination[16],
		       uint32_t *index)
{
	size_t at = lanes_hash(source, 16, lanes_hash(destination, 16, 1)) & lanes->mask;
	struct route *route;

	for (; lanes->route_at[at]; at = (at + 1) & lanes->mask) {
		*index = lanes->route_at[at] - 1;
		route = &lanes->route[*index];
		if (!memcmp(route->source, source, 16) && !memcmp(route->destination, destination, 16))
			return 0;
	}
	if (capture_grow(&lanes->route, lanes->routes, &lanes->route_room, sizeof(*route)))
		return ENOMEM;
	route = &lanes->route[lanes->routes];
	*route = (struct route){ .used = true, .flow = LADDER_NONE };
	memcpy(route->source, source, 16);
	memcpy(route->destination, destination, 16);
	*index = lanes->routes++;
	lanes->route_at[at] = *index + 1;
	return 0;
}

/* The flow of @packet; made when @make, else LADDER_NONE when there is none. */
static int lanes_flow(struct lanes *lanes, int process, const uint8_t source[16], const uint8_t destination[16],
		      uint32_t dest_qpn, bool make, uint32_t *index)
{
	size_t at = lanes_hash(source, 16, lanes_hash(destination, 16, dest_qpn)) & lanes->mask;
	uint32_t route;
	struct flow *flow;

	for (; lanes->flow_at[at]; at = (at + 1) & lanes->mask) {
		*index = lanes->flow_at[at] - 1;
		flow = &lanes->flow[*index];
		if (flow->dest_qpn == dest_qpn && flow->process == process &&
		    !memcmp(flow->source, source, 16) && !memcmp(flow->destination, destination, 16))
			return 0;
	}
	*index = LADDER_NONE;
	if (!make)
		return 0;
	if (lanes_route(lanes, source, destination, &route) ||
	    capture_grow(&lanes->flow, lanes->flows, &lanes->flow_room, sizeof(*flow)))
		return ENOMEM;
	flow = &lanes->flow[lanes->flows];
	*flow = (struct flow){ .used = true, .process = process, .dest_qpn = dest_qpn,
			       .source_qpn = LADDER_QP_UNKNOWN, .next = lanes->route[route].flow };
	memcpy(flow->source, source, 16);
	memcpy(flow->destination, destination, 16);
	*index = lanes->flows++;
	lanes->route[route].flow = *index;
	lanes->flow_at[at] = *index + 1;
	return 0;
}

/* ---- what answers and CM messages tell of flows ---- */

/* @qpn at @address sends to @peer_qpn. Flows of all processes that have this address: a QPN is of one of them. */
static int lanes_learn(struct lanes *lanes, const uint8_t address[16], uint32_t qpn, const uint8_t peer[16],
		       uint32_t peer_qpn)
{
	uint32_t route, index;

	if (lanes_route(lanes, address, peer, &route))
		return ENOMEM;
	index = lanes->route[route].flow;
	for (unsigned i = 0; i < CANDIDATES_MAX && index != LADDER_NONE; i++, index = lanes->flow[index].next)
		if (lanes->flow[index].dest_qpn == peer_qpn &&
		    lanes->flow[index].source_qpn == LADDER_QP_UNKNOWN)
			lanes->flow[index].source_qpn = qpn;
	return 0;
}

static int lanes_learn_cm(struct lanes *lanes, const struct ladder_packet *packet)
{
	const struct capture_record *record = packet->sent ? packet->sent : packet->received;
	struct cm_message message;
	struct frame frame;

	frame_parse(record, lanes->ladder->capture->source[record->source].linktype, &frame);
	if (!frame_cm(&frame, &message))
		return 0;
	if (message.kind == CM_MESSAGE_REQ && lanes->requests < CM_MAX) {
		struct cm_request *request = &lanes->request[lanes->requests++];

		request->comm_id = message.req.local_comm_id;
		request->qpn = message.req.local_qpn;
		memcpy(request->address, packet->source, 16);
	}
	if (message.kind != CM_MESSAGE_REP)
		return 0;
	for (unsigned i = lanes->requests; i-- > 0;) {
		const struct cm_request *request = &lanes->request[i];

		if (request->comm_id != message.rep.remote_comm_id ||
		    memcmp(request->address, packet->destination, 16))
			continue;
		if (lanes_learn(lanes, packet->destination, request->qpn, packet->source, message.rep.local_qpn))
			return ENOMEM;
		return lanes_learn(lanes, packet->source, message.rep.local_qpn, packet->destination,
				   request->qpn);
	}
	return 0;
}

/* An answer to QP q tells that the flow which asked comes from q. */
static int lanes_learn_answer(struct lanes *lanes, const struct ladder_packet *packet)
{
	uint32_t route, index, fits = LADDER_NONE;

	if (lanes->flow[packet->flow].source_qpn != LADDER_QP_UNKNOWN)
		return 0;
	if (lanes_route(lanes, packet->destination, packet->source, &route))
		return ENOMEM;
	index = lanes->route[route].flow;
	for (unsigned i = 0; i < CANDIDATES_MAX && index != LADDER_NONE; i++, index = lanes->flow[index].next) {
		struct flow *flow = &lanes->flow[index];

		if (flow->source_qpn == packet->dest_qpn && flow->requests) {
			fits = index;
			break;
		}
		if (flow->source_qpn == LADDER_QP_UNKNOWN && flow->requests &&
		    psn_diff(packet->psn, flow->first_psn) >= 0 &&
		    psn_diff(packet->psn, flow->last_psn) <= 4096)
			fits = index;		/* the oldest */
	}
	if (fits == LADDER_NONE)
		return 0;
	lanes->flow[fits].guessed = lanes->flow[fits].guessed || lanes->flow[fits].source_qpn == LADDER_QP_UNKNOWN;
	lanes->flow[fits].source_qpn = packet->dest_qpn;
	/* Its answers come from where it sends to. */
	return lanes_learn(lanes, packet->source, lanes->flow[fits].dest_qpn, packet->destination,
			   packet->dest_qpn);
}

static int lanes_learn_packet(struct lanes *lanes, struct ladder_packet *packet)
{
	const struct opcode *op = opcode_get(packet->opcode);
	struct flow *flow;
	int err = lanes_flow(lanes, lanes_site(lanes->ladder, packet->sent), packet->source, packet->destination,
			     packet->dest_qpn, true, &packet->flow);

	if (err)
		return err;
	flow = &lanes->flow[packet->flow];
	if (packet->source_qpn != LADDER_QP_UNKNOWN) {
		if (op->service != SERVICE_UD && !opcode_is_notice(op))
			flow->source_qpn = packet->source_qpn;
	}
	if (op->service != SERVICE_UD && !opcode_is_notice(op) && !opcode_is_response(op) &&
	    packet->operation == LADDER_NONE) {
		if (!flow->requests)
			flow->first_psn = flow->last_psn = packet->psn;
		else if (psn_diff(packet->psn, flow->last_psn) > 0)
			flow->last_psn = packet->psn;
		flow->requests = true;
	}
	if (packet->cm >= 0)
		return lanes_learn_cm(lanes, packet);
	if (opcode_is_response(op))
		return lanes_learn_answer(lanes, packet);
	return 0;
}

/* ---- lanes ---- */

/* @address: NULL: not known. Lanes of a process are found by QPN alone, others by address and QPN. */
static int lanes_lane(struct lanes *lanes, int process, const uint8_t *address, uint32_t qpn, uint32_t peer_qpn,
		      uint32_t *index)
{
	struct ladder *ladder = lanes->ladder;
	uint32_t key[3] = { (uint32_t)process, qpn, qpn == LADDER_QP_UNKNOWN ? peer_qpn : 0 };
	size_t at = lanes_hash(key, sizeof(key), process < 0 ? lanes_hash(address, 16, 2) : 3) & lanes->mask;
	struct ladder_lane *lane;

	for (; lanes->lane_at[at]; at = (at + 1) & lanes->mask) {
		*index = lanes->lane_at[at] - 1;
		lane = &ladder->lane[*index];
		if (lane->process != process || lane->qpn != qpn || lane->peer_qpn != key[2] ||
		    (process < 0 && memcmp(lane->address, address, 16)))
			continue;
		if (address && !lane->has_address) {
			lane->has_address = true;
			memcpy(lane->address, address, 16);
		}
		return 0;
	}
	if (capture_grow(&ladder->lane, ladder->lanes, &ladder->lane_room, sizeof(*lane)))
		return ENOMEM;
	lane = &ladder->lane[ladder->lanes];
	*lane = (struct ladder_lane){ .process = process, .qpn = qpn, .peer_qpn = key[2],
				      .has_address = address != NULL };
	if (address)
		memcpy(lane->address, address, 16);
	*index = ladder->lanes++;
	lanes->lane_at[at] = *index + 1;
	return 0;
}

/*
 * The process that has a QP of this address and number; -1: none that was recorded, or several. All processes of a
 * host have a QP1: there, not @other, which is at the other end.
 */
static int lanes_owner(const struct lanes *lanes, const uint8_t address[16], uint32_t qpn, int other)
{
	size_t at = lanes_hash(address, 16, qpn) & lanes->mask;
	int owner = -1;

	for (; lanes->alias_at[at]; at = (at + 1) & lanes->mask) {
		const struct ladder_lane *lane = &lanes->ladder->lane[lanes->alias_at[at] - 1];

		if (lane->qpn != qpn || !lane->has_address || memcmp(lane->address, address, 16))
			continue;
		if (qpn == 1 && lane->process == other)
			continue;
		if (owner >= 0 && owner != lane->process)
			return -1;
		owner = lane->process;
	}
	return owner;
}

static void lanes_add_alias(struct lanes *lanes, uint32_t index)
{
	const struct ladder_lane *lane = &lanes->ladder->lane[index];
	size_t at = lanes_hash(lane->address, 16, lane->qpn) & lanes->mask;

	while (lanes->alias_at[at])
		at = (at + 1) & lanes->mask;
	lanes->alias_at[at] = index + 1;
}

/* Ends that a record of their own process tells. */
static int lanes_known_ends(struct lanes *lanes, struct ladder_packet *packet)
{
	int sender = lanes_site(lanes->ladder, packet->sent);
	int receiver = lanes_site(lanes->ladder, packet->received);
	struct flow *flow = &lanes->flow[packet->flow];

	if (packet->source_qpn == LADDER_QP_UNKNOWN && flow->source_qpn != LADDER_QP_UNKNOWN) {
		packet->source_qpn = flow->source_qpn;
		packet->flags |= flow->guessed ? LADDER_GUESSED : 0;
	}
	if (sender >= 0 && lanes_lane(lanes, sender, packet->source, packet->source_qpn, packet->dest_qpn,
				      &packet->from))
		return ENOMEM;
	if (receiver >= 0 && lanes_lane(lanes, receiver, packet->destination, packet->dest_qpn, 0, &packet->to))
		return ENOMEM;
	return 0;
}

static int lanes_other_ends(struct lanes *lanes, struct ladder_packet *packet)
{
	if (packet->from == LADDER_NONE) {
		int owner = lanes_owner(lanes, packet->source, packet->source_qpn,
					lanes_site(lanes->ladder, packet->received));

		if (lanes_lane(lanes, owner, packet->source, packet->source_qpn, packet->dest_qpn, &packet->from))
			return ENOMEM;
	}
	if (packet->to == LADDER_NONE) {
		int owner = lanes_owner(lanes, packet->destination, packet->dest_qpn,
					lanes_site(lanes->ladder, packet->sent));

		return lanes_lane(lanes, owner, packet->destination, packet->dest_qpn, 0, &packet->to);
	}
	return 0;
}

/* Events without a queue pair are of the process, those of connections of its QP1. */
static int lanes_of_event(struct lanes *lanes, struct ladder_event *event)
{
	char word[64];

	if (event->qpn == LADDER_NO_QP && event->kind != LADDER_EVENT_COMPLETION &&
	    ((ladder_json_value(event->json, event->json_bytes, "event", word, sizeof(word)) &&
	      !strcmp(word, "cm")) ||
	     (ladder_json_value(event->json, event->json_bytes, "name", word, sizeof(word)) &&
	      !strncmp(word, "rdma_", 5))))
		event->qpn = 1;
	return lanes_lane(lanes, (int)event->process, NULL, event->qpn, 0, &event->lane);
}

static int lanes_run(struct lanes *lanes)
{
	struct ladder *ladder = lanes->ladder;
	uint32_t known;
	int err = 0;

	for (unsigned i = 0; !err && i < ladder->packets; i++)
		err = lanes_learn_packet(lanes, &ladder->packet[i]);
	for (unsigned i = 0; !err && i < ladder->packets; i++)
		err = lanes_known_ends(lanes, &ladder->packet[i]);
	for (unsigned i = 0; !err && i < ladder->events; i++)
		err = lanes_of_event(lanes, &ladder->event[i]);
	known = ladder->lanes;
	for (uint32_t i = 0; !err && i < known; i++)
		if (ladder->lane[i].has_address)
			lanes_add_alias(lanes, i);
	for (unsigned i = 0; !err && i < ladder->packets; i++)
		err = lanes_other_ends(lanes, &ladder->packet[i]);
	ladder->flows = lanes->flows;
	return err;
}

int ladder_assign_lanes(struct ladder *ladder)
{
	struct lanes lanes = { .ladder = ladder, .mask = 1023 };
	int err = ENOMEM;

	/* Two lanes, two routes and a flow for a packet at most, a lane for an event. */
	while (lanes.mask < ((size_t)ladder->packets * 3 + ladder->events) * 2)
		lanes.mask = lanes.mask * 2 + 1;
	lanes.flow_at = calloc(lanes.mask + 1, sizeof(uint32_t));
	lanes.route_at = calloc(lanes.mask + 1, sizeof(uint32_t));
	lanes.lane_at = calloc(lanes.mask + 1, sizeof(uint32_t));
	lanes.alias_at = calloc(lanes.mask + 1, sizeof(uint32_t));
	lanes.request = calloc(CM_MAX, sizeof(*lanes.request));
	if (lanes.flow_at && lanes.route_at && lanes.lane_at && lanes.alias_at && lanes.request)
		err = lanes_run(&lanes);
	free(lanes.flow_at);
	free(lanes.route_at);
	free(lanes.lane_at);
	free(lanes.alias_at);
	free(lanes.request);
	free(lanes.flow);
	free(lanes.route);
	return err;
}
