/* SPDX-License-Identifier: BSD-2-Clause */
/* Marks of congested switches, and the notifications that answer them. See congestion.h. */
#include "transport/congestion.h"

#define ECN_BITS	0x03u
#define ECN_ECT_0	0x02u		/* RFC 3168: the sender's transport hears of marks */
#define SECOND_NS	UINT64_C(1000000000)

static struct notice *notice_of(struct qp *qp) REQUIRES(qp->lock)
{
	struct congestion *congestion = qp->route.link == ROUTE_ROCE_V2 ? congestion_need(qp) : NULL;

	return congestion ? &congestion->notice : NULL;
}

void congestion_marked(struct qp_call *call)
{
	struct notice *notice = notice_of(call->qp);
	struct responder *responder = &call->qp->responder;

	count(call, COUNTER_RX_ECN);
	if (notice) {
		notice->due |= !notice->sent_ns ||
			       call->now_ns - notice->sent_ns >= CONGESTION_CNP_NS;
		return;
	}
	if (!responder->echo_congestion)
		count(call, COUNTER_TX_BECN);
	responder->echo_congestion = true;
}

void congestion_heard(struct qp_call *call)
{
	struct qp *qp = call->qp;
	struct congestion *congestion = NULL;
	uint64_t round_ns, least;

	lock_alias(&qp->lock);
	if (!qp->path)
		return;
	round_ns = path_least_round(qp->path);
	if (round_ns && qp_is(qp, QP_RELIABLE) && qp->route.link == ROUTE_ROCE_V2)
		congestion = congestion_need(qp);
	if (!congestion) {
		path_reduce(qp->path, PATH_CONGESTED, call->now_ns);
		return;
	}
	if (congestion->rate.current && call->now_ns - congestion->rate.cut_ns < round_ns)
		return;
	least = PATH_WINDOW_MIN * SECOND_NS / round_ns;
	rate_cut(&congestion->rate, least, least / CONGESTION_ROUNDS_MAX, call->now_ns);
}

void congestion_answers(struct qp *qp)
{
	if (!(qp->route.traffic_class & ECN_BITS))
		qp->route.traffic_class |= ECN_ECT_0;
}

void congestion_transmit(struct transmit *transmit)
{
	struct qp *qp = transmit->call->qp;
	struct route route = qp->route;
	struct packet packet;
	struct notice *notice;

	lock_alias(&qp->lock);
	if (!congestion_ready(qp) || !transmit_has_room(transmit))
		return;
	notice = &congestion_of(qp)->notice;
	notice->due = false;
	notice->sent_ns = transmit->call->now_ns;
	/* Nobody answers a mark on it. */
	route.traffic_class &= (uint8_t)~ECN_BITS;
	packet_begin(qp, &packet, OPCODE_CNP, 0);
	packet.becn = true;
	count(transmit->call, COUNTER_TX_CNP);
	transmit_packet(transmit, &packet, &route);
}
