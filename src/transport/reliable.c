/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The services RC and XRC: a requester (requester.c, completer.c) and a responder (responder.c) in
 * each QP. The responder comes first: its answers are what the peer waits for.
 */
#include "transport/congestion.h"
#include "transport/early.h"
#include "transport/service.h"

static bool reliable_ready(const struct qp *qp) REQUIRES(qp->lock)
{
	return requester_ready(qp) || responder_ready(qp);
}

static enum drop rc_receive(struct qp_call *call, const struct packet *packet,
			    const struct rx_info *info)
	REQUIRES(call->qp->lock)
{
	enum drop why;

	if (!opcode_is_response(packet->op)) {
		if (info->ecn_marked)
			congestion_marked(call);
		return responder_receive(call, packet);
	}
	why = completer_receive(call, packet);
	/* ACKs are no load: a mark on one says nothing of what we send, nor of what the peer may. */
	if (!why && info->ecn_marked && packet->op->verb == VERB_RESPONSE) {
		congestion_marked(call);
		if (call->qp->path)
			path_reduce(call->qp->path, PATH_CONGESTED, call->now_ns);
	}
	return why;
}

/* A response to a receiver, or a request to a sender, is dropped. */
static enum drop xrc_receive(struct qp_call *call, const struct packet *packet,
			     const struct rx_info *info)
	REQUIRES(call->qp->lock)
{
	if (opcode_is_response(packet->op) != (call->qp->type == IBV_QPT_XRC_SEND))
		return DROP_XRC_DIRECTION;
	return rc_receive(call, packet, info);
}

static void reliable_transmit(struct transmit *transmit) REQUIRES(transmit->call->qp->lock)
{
	bool answered;

	if (single_transmit(transmit)) {
		responder_acknowledge(transmit);
		return;
	}
	answered = responder_transmit(transmit);
	congestion_transmit(transmit);
	requester_transmit(transmit);
	if (!answered)
		return;
	/* Before the ACK: it tells more of what is lost. */
	early_transmit(transmit);
	responder_acknowledge(transmit);
}

static uint64_t reliable_deadline(const struct qp *qp) REQUIRES(qp->lock)
{
	uint64_t requester_ns = requester_deadline(qp), responder_ns = responder_deadline(qp);

	return requester_ns < responder_ns ? requester_ns : responder_ns;
}

static void reliable_timeout(struct qp_call *call) REQUIRES(call->qp->lock)
{
	responder_timeout(call);
	requester_timeout(call);
}

static bool reliable_may_gather(struct qp *qp, uint64_t now_ns) REQUIRES(qp->lock)
{
	return !responder_ready(qp) && requester_may_gather(qp, now_ns);
}

/* What came by the former way is not believed by the new one (engine/way.h), nor is what is held of it. */
static void reliable_way_changed(struct qp_call *call) REQUIRES(call->qp->lock)
{
	early_drop(call->qp);
	requester_way_changed(call);
}

#define RELIABLE .transmit = reliable_transmit, .ready = reliable_ready, \
	.deadline = reliable_deadline, .timeout = reliable_timeout, \
	.may_gather = reliable_may_gather, .way_changed = reliable_way_changed

const struct transport_service service_rc = { .receive = rc_receive, RELIABLE };
const struct transport_service service_xrc = { .receive = xrc_receive, RELIABLE };
