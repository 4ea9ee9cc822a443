/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * State, names and events of a QP, as seen by other files.
 * The rules of its states are in qp_modify.c, posting in qp_post.c.
 */
#include "object/qp.h"

#include "object/qp_internal.h"
#include "trace/trace.h"

static const struct qp_move moves[QP_STATES][QP_STATES][QP_KIND_COUNT] = {
#define MOVE(from, to, type, required, optional) \
	[IBV_QPS_##from][IBV_QPS_##to][QP_KIND_##type] = { true, required, optional },
#include "object/qp_state.def"
#undef MOVE
};

const struct qp_move *qp_move_get(enum ibv_qp_state from, enum ibv_qp_state to,
				  enum ibv_qp_type type)
{
	return &moves[from][to][qp_types[type % QP_TYPES].kind];
}

void qp_set_state(struct qp *qp, enum ibv_qp_state state)
{
	qp->state = state;
	qp_close_shortcuts(qp);
	qp->attr.qp_state = qp->attr.cur_qp_state = state;
	atomic_store_explicit(&qp->access->state, (uint32_t)state, memory_order_seq_cst);
	if (state == IBV_QPS_ERR || state == IBV_QPS_RESET)
		qp_end_pairing(qp);
}

void qp_move_state(struct qp *qp, enum ibv_qp_state state, const char *why)
{
	if (qp->state != state)
		tracepoint(state, .qp = qp->number, .from = qp_state_name(qp->state),
			   .to = qp_state_name(state), .why = why);
	if (trace_wants(TRACE_PACKETS) && state == IBV_QPS_RESET)
		trace_forget(qp->number);
	qp_set_state(qp, state);
}

void qp_drop_completions(struct qp *qp)
{
	if (!qp->send_cq)	/* XRC_RECV, or one that spreads frames */
		return;
	cq_clean(qp->send_cq, qp->number);
	if (qp->recv_cq && qp->recv_cq != qp->send_cq)
		cq_clean(qp->recv_cq, qp->number);
	wqe_slots_free_to(&qp->sq.slots, qp->sq.tail);
	if (!qp->srq && qp_receives(qp))
		recv_queue_emptied(&qp->rq);
}

const char *qp_state_name(enum ibv_qp_state state)
{
	static const char *const names[QP_STATES] = {
		[IBV_QPS_RESET] = "RESET", [IBV_QPS_INIT] = "INIT", [IBV_QPS_RTR] = "RTR",
		[IBV_QPS_RTS] = "RTS", [IBV_QPS_SQD] = "SQD", [IBV_QPS_SQE] = "SQE",
		[IBV_QPS_ERR] = "ERR",
	};

	return (unsigned)state < QP_STATES ? names[state] : "no state";
}

static const enum ibv_event_type event_types[] = {
	[QP_EVENT_FATAL] = IBV_EVENT_QP_FATAL,
	[QP_EVENT_COMM_EST] = IBV_EVENT_COMM_EST,
	[QP_EVENT_SQ_DRAINED] = IBV_EVENT_SQ_DRAINED,
	[QP_EVENT_LAST_WQE] = IBV_EVENT_QP_LAST_WQE_REACHED,
	[QP_EVENT_REQ_ERR] = IBV_EVENT_QP_REQ_ERR,
	[QP_EVENT_ACCESS_ERR] = IBV_EVENT_QP_ACCESS_ERR,
};

void qp_init_events(struct qp *qp)
{
	unsigned i;

	_Static_assert(sizeof(event_types) / sizeof(event_types[0]) == sizeof(qp->event) / sizeof(qp->event[0]),
		       "every event that a QP raises has its type");
	for (i = 0; i < sizeof(qp->event) / sizeof(qp->event[0]); i++) {
		list_init(&qp->event[i].node);
		qp->event[i].ibv.event_type = event_types[i];
		qp->event[i].ibv.element.qp = &qp->ibv.qp_base;
	}
}

void qp_raise(struct qp *qp, enum qp_event event, struct effects *effects)
{
	if (qp->async)
		event_queue_add(qp->async, &qp->event[event].node, effects);
}
