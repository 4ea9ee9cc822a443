/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Peers of this host whose process does not run (transport.h, transport_presence): an adapter would answer
 * for it. The engine finds out when the ACK timeout is over; here is what follows from it.
 */
#include "transport/internal.h"
#include "transport/loss.h"

static bool presence_awaits_packets(const struct requester *requester)
{
	return requester->una_psn != requester->next_psn;
}

/* By IP the address tells; a LID does not. */
bool transport_peer_is_here(const struct qp *qp)
{
	return qp->route.loopback ||
	       (qp->route.link == ROUTE_IB && qp->transport->is_here && qp->transport->is_here(qp));
}

bool transport_awaits_presence(const struct qp *qp, uint64_t now_ns)
{
	const struct requester *requester = &qp->requester;

	/* One that was is, until it goes on or ends: with it ends what told that it is here. */
	if (!qp_is(qp, QP_RELIABLE) || !(requester->loss.stopped || transport_peer_is_here(qp)) ||
	    (qp->state != IBV_QPS_RTS && qp->state != IBV_QPS_SQD))
		return false;
	return (requester->local_messages || (!requester->rnr_until_ns && presence_awaits_packets(requester))) &&
	       loss_ack_deadline(&requester->loss, requester_ack_timeout(qp)) <= now_ns;
}

static void presence_stopped(struct qp_call *call, const char *how) REQUIRES(call->qp->lock)
{
	struct qp *qp = call->qp;
	struct requester *requester = &qp->requester;
	char peer[46];

	if (!requester->loss.stopped) {
		count(call, COUNTER_PEER_STOPPED);
		explain_about("RETRY_EXC_ERR", OF(QP, qp->number),
			"qp 0x%06x: the process of its peer, qp 0x%06x at %s, takes nothing "
			      "(it is %s): requests wait until it goes on or ends, as an adapter answers for a "
			      "process that is stopped", qp->number, qp->attr.dest_qp_num,
			      address_text(qp->route.destination, peer), how);
		if (presence_awaits_packets(requester) && !requester->loss.hold)
			requester_hold(call);
	}
	loss_stopped(&requester->loss, qp->attr.retry_cnt, call->now_ns);
}

void transport_presence(struct qp *qp, enum presence presence, const char *how, uint64_t now_ns,
			struct effects *effects)
{
	struct qp_call call;

	if (!transport_awaits_presence(qp, now_ns))
		return;
	qp_call_init(&call, qp, now_ns, effects);
	if (presence == PRESENCE_STOPPED) {
		presence_stopped(&call, how);
	} else if (presence == PRESENCE_SLOW) {
		qp->requester.loss.progress_ns = now_ns;
	} else if (qp->requester.loss.stopped && presence == PRESENCE_ENDED) {
		set_reason(&call, "the peer's process, which was stopped, has ended");
		qp_end_pairing(qp);
		requester_exceeded(&call);
	} else if (qp->requester.loss.stopped) {
		loss_runs(&qp->requester.loss, now_ns);
		/* What was sent while it was stopped may be lost: its queue was full. */
		if (presence_awaits_packets(&qp->requester))
			requester_hold(&call);
	} else if (presence == PRESENCE_RUNS && presence_awaits_packets(&qp->requester)) {
		loss_grace(&qp->requester.loss, requester_graces(qp), now_ns);
	}
	qp_call_end(&call);
}
