/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A QP as others see it: its state and the copies of it, its names, its asynchronous events. The
 * rules of its states are in qp_modify.c, posting in qp_post.c.
 */
#include "object/qp.h"

#include "object/qp_internal.h"

enum { TYPE_RC, TYPE_UC, TYPE_UD, TYPE_COUNT };

static const struct qp_move moves[QP_STATES][QP_STATES][TYPE_COUNT] = {
#define MOVE(from, to, type, required, optional) \
	[IBV_QPS_##from][IBV_QPS_##to][TYPE_##type] = { true, required, optional },
#include "object/qp_state.def"
#undef MOVE
};

const struct qp_move *qp_move_get(enum ibv_qp_state from, enum ibv_qp_state to,
				  enum ibv_qp_type type)
{
	switch (type) {
	case IBV_QPT_RC:
		return &moves[from][to][TYPE_RC];
	case IBV_QPT_UC:
		return &moves[from][to][TYPE_UC];
	default:
		return &moves[from][to][TYPE_UD];
	}
}

void qp_set_state(struct qp *qp, enum ibv_qp_state state)
{
	qp->state = state;
	qp->attr.qp_state = qp->attr.cur_qp_state = state;
	qp->ibv.qp_base.state = state;
	atomic_store_explicit(&qp->access->state, (uint32_t)state, memory_order_seq_cst);
	if (state == IBV_QPS_ERR || state == IBV_QPS_RESET)
		pairing_end(&qp->pairing);
}

void qp_drop_completions(struct qp *qp)
{
	if (qp->srq) {
		cq_clean_sends(qp->send_cq, qp->number);
		return;
	}
	cq_clean(qp->send_cq, qp->number);
	if (qp->recv_cq != qp->send_cq)
		cq_clean(qp->recv_cq, qp->number);
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

const char *qp_type_name(enum ibv_qp_type type)
{
	switch (type) {
	case IBV_QPT_RC:
		return "RC";
	case IBV_QPT_UC:
		return "UC";
	case IBV_QPT_UD:
		return "UD";
	default:
		return "no type of ours";
	}
}

void qp_raise(struct qp *qp, enum qp_event event, struct effects *effects)
{
	static const enum ibv_event_type types[] = {
		[QP_EVENT_FATAL] = IBV_EVENT_QP_FATAL,
		[QP_EVENT_COMM_EST] = IBV_EVENT_COMM_EST,
		[QP_EVENT_SQ_DRAINED] = IBV_EVENT_SQ_DRAINED,
		[QP_EVENT_LAST_WQE] = IBV_EVENT_QP_LAST_WQE_REACHED,
		[QP_EVENT_REQ_ERR] = IBV_EVENT_QP_REQ_ERR,
		[QP_EVENT_ACCESS_ERR] = IBV_EVENT_QP_ACCESS_ERR,
	};
	struct async_event *raised = &qp->event[event];

	if (!qp->async)
		return;
	/* Written once: the taker of the event reads it without our lock. */
	if (!raised->ibv.element.qp) {
		raised->ibv.event_type = types[event];
		raised->ibv.element.qp = &qp->ibv.qp_base;
	}
	event_queue_add(qp->async, &raised->node, effects);
}
