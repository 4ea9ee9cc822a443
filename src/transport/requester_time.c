/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The requester's timers: the end of a wait after an RNR NAK, of a congested QP's hold, of patience
 * before a probe, and the local ACK timeout; and what is said when the peer is given up. When they
 * expire is computed from the QP each time it is asked for: nothing is started or stopped. What
 * they lead to is sent by requester.c.
 */
#include "transport/congestion.h"
#include "transport/loss.h"
#include "transport/refusal.h"
#include "transport/repair.h"
#include "wire/aeth.h"

/*
 * C9-141: a timer fires between one and four times its value. What is left of that is for the scheduler. Only as
 * long as all tries together take no longer than GRACE_NS.
 */
#define GRACE_TIMES		3u
#define GRACE_NS		4000000000u

uint64_t requester_ack_timeout(const struct qp *qp)
{
	uint64_t timeout_ns = ack_timeout_ns(qp->attr.timeout);
	uint64_t floor_ns = ACK_TIMEOUT_FLOOR * qp->transport->probe_min_ns;

	return timeout_ns < floor_ns ? floor_ns : timeout_ns;
}

/*
 * An adapter answers for a process that is stopped; a Verbatim on another host cannot, nor can it be asked whether
 * it is (presence.c). So it has all the time that no adapter is bound to give up in.
 */
static uint64_t longest_ack_timeout(const struct qp *qp) REQUIRES(qp->lock)
{
	uint64_t timeout_ns = requester_ack_timeout(qp), most_ns = GRACE_NS / (qp->attr.retry_cnt + 1u);

	if (timeout_ns >= most_ns)
		return timeout_ns;
	return GRACE_TIMES * timeout_ns < most_ns ? GRACE_TIMES * timeout_ns : most_ns;
}

unsigned requester_graces(struct qp *qp)
{
	char words[REFUSAL_WORDS];

	if (refusal_words(qp, words))
		return 0;
	return (unsigned)(longest_ack_timeout(qp) / requester_ack_timeout(qp)) - 1u;
}

static uint64_t ack_deadline(const struct qp *qp) REQUIRES(qp->lock)
{
	return loss_ack_deadline(&qp->requester.loss,
				 transport_peer_is_here(qp) ? requester_ack_timeout(qp) : longest_ack_timeout(qp));
}

uint64_t requester_deadline(const struct qp *qp)
{
	const struct requester *requester = &qp->requester;
	uint64_t ack_ns, probe_ns, held_ns = congestion_deadline(qp);

	if (qp->state != IBV_QPS_RTS && qp->state != IBV_QPS_SQD)
		return TIME_NEVER;
	if (requester->local_messages)
		return transport_message_deadline(qp);
	if (requester->rnr_until_ns)
		return requester->rnr_until_ns;
	/* Nothing is awaited. */
	if (requester->una_psn == requester->next_psn ||
	    (requester->send_psn == requester->una_psn && !requester->loss.hold))
		return held_ns;
	ack_ns = ack_deadline(qp);
	probe_ns = loss_probe_deadline(&requester->loss);
	if (held_ns < ack_ns)
		ack_ns = held_ns;
	return ack_ns < probe_ns ? ack_ns : probe_ns;
}

void requester_hold(struct qp_call *call)
{
	requester_go_back(call);
	loss_hold(&call->qp->requester.loss);
}

void requester_exceeded(struct qp_call *call)
{
	lock_alias(&call->qp->lock);
	lock_assert_held(&call->qp->lock);
	count(call, COUNTER_RETRY_EXCEEDED);
	fail_request(call, IBV_WC_RETRY_EXC_ERR, call->qp->route.link == ROUTE_IB ?
		     "check that the peer runs, that its QP is in RTR or RTS and connected to this one, that "
		     "both ports are Active (ibstat), and where the switches' tables lead (verbatim route)" :
		     "check that the peer runs, that its QP is in RTR or RTS and connected to "
		     "this one, and that UDP port 4791 is open between the hosts");
}

static void ack_timed_out(struct qp_call *call) REQUIRES(call->qp->lock)
{
	struct loss *loss = &call->qp->requester.loss;
	char words[REFUSAL_WORDS];

	count(call, COUNTER_TIMEOUT);
	if (call->qp->path)
		path_reduce(call->qp->path, PATH_SILENT, call->now_ns);
	repair_doubt(call->qp);
	if (loss_retry(loss, call->now_ns)) {
		requester_hold(call);
		return;
	}
	if (refusal_words(call->qp, words)) {
		set_reason(call, "%s", words);
		count(call, COUNTER_RETRY_EXCEEDED);
		fail_request(call, IBV_WC_RETRY_EXC_ERR, "its process, on this host, says so");
		return;
	}
	set_reason(call, "the peer did not answer: %u packets sent since its last answer, %u of them "
		   "retransmissions", loss->sent_packets, loss->resent_packets);
	requester_exceeded(call);
}

static void explain_patience(struct qp_call *call) REQUIRES(call->qp->lock)
{
	struct qp *qp = call->qp;
	const struct send_wqe *wqe = send_queue_at(&qp->sq, qp->sq.tail);
	char peer[46], words[REFUSAL_WORDS] = "";

	refusal_words(call->qp, words);
	explain_about("RETRY_EXC_ERR", OF_WR(QP, qp->number, wqe->wr_id),
		"qp 0x%06x: %s (wr_id 0x%llx) has waited for more than a second: qp 0x%06x "
			    "at %s does not answer, and timeout 0 waits for ever: ibv_modify_qp "
			    "(to RTS) with timeout "
			    "14 and retry_cnt 7 would end it%s%s", qp->number, wqe_name(wqe),
			    (unsigned long long)wqe->wr_id, qp->attr.dest_qp_num,
			    address_text(qp->route.destination, peer), *words ? "; " : "", words);
}

static void probe_timed_out(struct qp_call *call) REQUIRES(call->qp->lock)
{
	struct qp *qp = call->qp;
	uint64_t patient_ns = ACK_TIMEOUT_FLOOR * qp->transport->probe_min_ns;

	/* Nothing is lost through memory: a silent peer waits for a processor, and a probe only adds work. */
	if (qp->requester.loss.rto_ns < patient_ns && qp->transport->loses_nothing &&
	    qp->transport->loses_nothing(qp)) {
		qp->requester.loss.rto_ns = patient_ns;
		return;
	}
	count(call, COUNTER_PROBE);
	if (!qp->attr.timeout && explaining() && call->now_ns - qp->requester.loss.progress_ns >= PATIENCE_NS)
		explain_patience(call);
	if (!loss_probe(&qp->requester.loss, call->now_ns, qp->transport->probe_min_ns))
		return;
	if (qp->path)
		path_reduce(qp->path, PATH_CONGESTED, call->now_ns);
	requester_hold(call);
}

void requester_timeout(struct qp_call *call)
{
	struct qp *qp = call->qp;
	struct requester *requester = &qp->requester;

	lock_alias(&qp->lock);
	if (requester_deadline(qp) > call->now_ns)
		return;
	if (requester->local_messages) {
		message_timeout(call);
	} else if (requester->rnr_until_ns) {
		requester->rnr_until_ns = 0;
		requester->loss.progress_ns = call->now_ns;
	} else if (congestion_expire(qp, call->now_ns)) {
		return;
	} else if (ack_deadline(qp) <= call->now_ns) {
		ack_timed_out(call);
	} else {
		probe_timed_out(call);
	}
}
