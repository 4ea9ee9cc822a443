/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The calls of transport.h: what all services (service.h) share; the effects of a modify; the
 * end of every call, where a lost completion becomes the error state and a QP with something to
 * transmit is put in the run queue.
 */
#include "transport/transport.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/inline.h"
#include "object/tag_list.h"
#include "transport/ack_hold.h"
#include "transport/ah_path.h"
#include "transport/congestion.h"
#include "transport/drop.h"
#include "transport/echo.h"
#include "transport/internal.h"
#include "transport/recovery.h"
#include "transport/refusal.h"
#include "transport/service.h"

static const struct transport_service *const services[QP_TYPES] = {
	[IBV_QPT_RC] = &service_rc,
	[IBV_QPT_UC] = &service_uc,
	[IBV_QPT_UD] = &service_ud,
	[IBV_QPT_RAW_PACKET] = &service_raw,
	[IBV_QPT_XRC_SEND] = &service_xrc,
	[IBV_QPT_XRC_RECV] = &service_xrc,
};

static const struct transport_service *service_of(const struct qp *qp)
{
	return services[qp->type % QP_TYPES];
}

int transport_init(struct qp *qp)
{
	const struct transport_service *service = service_of(qp);
	uint32_t sges = qp->srq ? qp->srq->queue.max_sge : qp_receives(qp) ? qp->rq.max_sge : RECV_SGE_MAX;
	int err = 0;

	if (takes_tags(qp) && sges < TAG_SGE_MAX)
		sges = TAG_SGE_MAX;
	if (!qp->responder.recv) {
		list_init(&qp->ready_node);
		list_init(&qp->wait_node);
		qp->responder.recv = calloc(1, sizeof(struct recv_wqe) + sges * sizeof(struct ibv_sge));
		if (!qp->responder.recv)
			return ENOMEM;
	}
	if (service->init)
		err = service->init(qp);
	if (err) {
		free(qp->responder.recv);
		qp->responder.recv = NULL;
		return err;
	}
	requester_reset(qp);
	responder_reset(qp);
	return 0;
}

void transport_fini(struct qp *qp)
{
	if (!qp->responder.recv)
		return;
	requester_reset(qp);
	responder_drop_recv(qp);
	run_queue_remove(qp->transport->run_queue, qp);
	resources_free(&qp->responder);
	if (service_of(qp)->fini)
		service_of(qp)->fini(qp);
	free(qp->responder.recv);
	qp->responder.recv = NULL;
}

bool transport_ready(const struct qp *qp)
{
	return service_of(qp)->ready(qp);
}

static APART void lost_completion(struct qp_call *call) REQUIRES(call->qp->lock)
{
	struct qp *qp = call->qp;

	lock_alias(&qp->lock);
	qp->requester.completion_lost = false;
	if (qp->state == IBV_QPS_ERR)
		return;
	explain_about("QP_FATAL", OF(QP, qp->number),
		"qp 0x%06x: its CQ had no room for a completion; this "
		      "QP is now in error; create the CQ with an entry for every "
		      "outstanding request, or poll it in time", qp->number);
	qp_raise(qp, QP_EVENT_FATAL, call->effects);
	enter_error(call);
	qp->requester.completion_lost = false;
}

/* Ends each call: see the file's head. */
void qp_call_end(struct qp_call *call)
{
	struct qp *qp = call->qp;

	lock_alias(&qp->lock);
	lock_alias(&call->qp->lock);
	lock_assert_held(&qp->lock);
	if (__builtin_expect(qp->requester.completion_lost, 0))
		lost_completion(call);
	transport_received(qp);
}

void transport_received(struct qp *qp)
{
	if (transport_ready(qp))
		run_queue_add(qp->transport->run_queue, qp);
}

/* ---- packets ---- */

bool transport_takes_packets(enum ibv_qp_state state)
{
	return state == IBV_QPS_RTR || state == IBV_QPS_RTS || state == IBV_QPS_SQD ||
	       state == IBV_QPS_SQE;
}

void note_established(struct qp_call *call)
{
	struct qp *qp = call->qp;

	if (qp->state != IBV_QPS_RTR || qp->responder.established)
		return;
	qp->responder.established = true;
	atomic_store_explicit(&qp->access->established, 1, memory_order_release);
	qp_raise(qp, QP_EVENT_COMM_EST, call->effects);
}

enum drop transport_receive(struct qp *qp, const struct packet *packet, const struct rx_info *info,
			    uint64_t now_ns, struct effects *effects)
{
	enum drop why = transport_receive_next(qp, packet, info, now_ns, effects);

	transport_received(qp);
	return why;
}

APART enum drop transport_receive_next(struct qp *qp, const struct packet *packet, const struct rx_info *info,
				 uint64_t now_ns, struct effects *effects)
{
	enum drop why = DROP_NONE;
	struct qp_call call;

	qp_call_init(&call, qp, now_ns, effects);
	call.deny_receive = info->deny_receive;
	if (packet->op->service == SERVICE_CNP && packet->echo.present) {
		why = echo_receive(&call, packet, info);
	} else if (!opcode_is_notice(packet->op) &&
		   packet->op->service != qp_types[qp->type % QP_TYPES].service) {
		why = DROP_QP_TYPE;
	} else if (!transport_takes_packets(qp->state)) {
		why = DROP_QP_STATE;
	} else if (!qp_is(qp, QP_DATAGRAM) && !route_is_from_peer(&qp->route, &info->route)) {
		/* IBTA 9.6.1.2.3 and A17: a connected QP accepts packets of its peer only. */
		why = DROP_ADDRESS;
	} else if (packet->op->service == SERVICE_GAPS) {
		why = completer_receive_gaps(&call, packet);
	} else if (packet->op->service == SERVICE_CNP) {
		count(&call, COUNTER_RX_CNP);
		congestion_heard(&call);
	} else {
		note_established(&call);
		why = service_of(qp)->receive(&call, packet, info);
	}
	if (__builtin_expect(why != DROP_NONE, 0)) {
		count_drop(&call, why);
		drop_explain(why, qp, packet, info->route.source);
		refusal_note_drop(why, qp, packet, info->refused);
	}
	if (__builtin_expect(qp->requester.completion_lost, 0))
		lost_completion(&call);
	return why;
}

/* ---- work requests ---- */

void transport_prepare_send(struct qp *qp, struct ibv_send_wr *wr)
{
	struct path_table *paths = qp->transport->paths;

	if (!qp_is(qp, QP_DATAGRAM) || !paths)
		return;
	for (; wr; wr = wr->next)
		if (wr_has_ah(wr))
			ah_path_prepare(to_ah(wr->wr.ud.ah), wr->wr.ud.remote_qpn, paths);
}

bool transport_posted_send(struct qp *qp, uint64_t now_ns, struct effects *effects)
{
	struct qp_call call;

	/* To what comes from the peer it makes no difference. */
	qp->shortcut = 0;
	qp_call_init_on(&call, qp, now_ns, effects);
	if (qp->state == IBV_QPS_ERR || qp->state == IBV_QPS_SQE)
		flush_sends(&call);
	/* Further messages may be sent while some are unanswered (local/move/run.c). */
	return transport_ready(qp) || qp->requester.local_messages;
}

void transport_replied(struct qp *qp, uint64_t now_ns, bool kept)
{
	ack_hold_reply(&qp->responder.hold, now_ns, kept);
}

bool transport_may_gather(struct qp *qp, uint64_t now_ns)
{
	const struct transport_service *service = service_of(qp);

	return service->may_gather && service->may_gather(qp, now_ns);
}

void transport_posted_recv(struct qp *qp, uint64_t now_ns, struct effects *effects)
{
	struct qp_call call;

	qp_call_init(&call, qp, now_ns, effects);
	if (qp->state == IBV_QPS_ERR)
		flush_recvs(&call);
	if (transport_awaits_recv(qp)) {
		echo_look_again(qp);
		qp_call_end(&call);
	}
}

bool transport_transmit(struct qp *qp, uint64_t now_ns, unsigned quantum, struct tx_batch *batch,
			struct effects *effects)
{
	struct qp_call call;
	struct transmit transmit;

	qp_call_init(&call, qp, now_ns, effects);
	transmit.call = &call;
	lock_alias(&transmit.call->qp->lock);
	transmit.batch = batch;
	transmit.budget = quantum;
	transmit.cut = false;
	transmit.wqe = NULL;
	service_of(qp)->transmit(&transmit);
	if (qp->requester.completion_lost)
		qp_call_end(&call);
	return transmit.cut;
}

void transport_answer(struct qp *qp, uint64_t now_ns, unsigned quantum, struct tx_batch *batch,
		      struct effects *effects)
{
	struct qp_call call;
	struct transmit transmit = { .call = &call, .batch = batch, .budget = quantum };

	qp_call_init(&call, qp, now_ns, effects);
	lock_alias(&transmit.call->qp->lock);
	if (responder_transmit(&transmit))
		responder_acknowledge(&transmit);
}

bool transport_answer_is_due(const struct qp *qp)
{
	return responder_owes(qp);
}

bool transport_final_ack(struct qp *qp)
{
	qp->shortcut = 0;
	return (qp->state == IBV_QPS_RTR || qp->state == IBV_QPS_RTS || qp->state == IBV_QPS_SQD) &&
	       responder_repeat_ack(qp);
}

/* ---- time ---- */

uint64_t transport_deadline(const struct qp *qp)
{
	return service_of(qp)->deadline(qp);
}

void transport_timeout(struct qp *qp, uint64_t now_ns, struct effects *effects)
{
	struct qp_call call;

	qp_call_init(&call, qp, now_ns, effects);
	service_of(qp)->timeout(&call);
	qp_call_end(&call);
}

void transport_way_changed(struct qp *qp, uint64_t now_ns, struct effects *effects)
{
	struct qp_call call;

	if (!service_of(qp)->way_changed)
		return;
	qp_call_init(&call, qp, now_ns, effects);
	service_of(qp)->way_changed(&call);
	qp_call_end(&call);
}

void transport_refused(struct qp *qp, const struct refusal *refusal)
{
	refusal_note(qp, refusal);
}

/* ---- states ---- */

static void drop_work(struct qp *qp) REQUIRES(qp->lock)
{
	struct send_queue *queue = &qp->sq;

	for (; queue->tail != queue->head; queue->tail++) {
		struct send_wqe *wqe = send_queue_at(queue, queue->tail);

		if (wqe->ah)
			ah_put(wqe->ah);
		wqe->ah = NULL;
	}
	queue->sent = queue->tail;
	while (!qp->srq && qp_receives(qp) && recv_queue_take(&qp->rq, qp->responder.recv))
		;
}

/* The state is ERR already: flush, and owe the peer nothing. */
static void fail_here(struct qp_call *call) REQUIRES(call->qp->lock)
{
	struct qp *qp = call->qp;

	requester_stop(call);
	recovery_end(call->qp);	/* what is owed by it, too */
	qp->responder.answer = ANSWER_NONE;
	replay_drop(&qp->responder);
	flush_sends(call);
	flush_recvs(call);
	if (qp->srq)
		qp_raise(qp, QP_EVENT_LAST_WQE, call->effects);
}

static void transport_entered(struct qp_call *call, enum ibv_qp_state from) REQUIRES(call->qp->lock)
{
	struct qp *qp = call->qp;

	lock_alias(&qp->lock);
	switch (qp->state) {
	case IBV_QPS_RESET:
		requester_reset(qp);
		drop_work(qp);
		responder_reset(qp);
		qp_drop_completions(qp);
		break;
	case IBV_QPS_RTR:
		responder_reset(qp);
		break;
	case IBV_QPS_RTS:
		if (from == IBV_QPS_RTR)
			requester_start(qp);
		break;
	case IBV_QPS_SQD:
		qp->requester.drain_reported = false;
		qp->attr.sq_draining = 1;
		requester_check_drained(call);
		break;
	case IBV_QPS_ERR:
		fail_here(call);
		break;
	default:
		break;
	}
}

void transport_modified(struct qp *qp, enum ibv_qp_state from, int mask, uint64_t now_ns,
			struct effects *effects)
{
	struct qp_call call;

	qp_call_init(&call, qp, now_ns, effects);
	if (qp->state != from)
		transport_entered(&call, from);
	qp_call_end(&call);
}

void transport_fail(struct qp *qp, uint64_t now_ns, struct effects *effects)
{
	struct qp_call call;

	if (qp->state == IBV_QPS_ERR || qp->state == IBV_QPS_RESET)
		return;
	qp_call_init(&call, qp, now_ns, effects);
	qp_move_state(qp, IBV_QPS_ERR, "the device failed it");
	fail_here(&call);
	qp->requester.completion_lost = false;
}
