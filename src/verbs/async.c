/* SPDX-License-Identifier: BSD-2-Clause */
/* Asynchronous events: ibv_get_async_event(3), ibv_ack_async_event(3). */
#include "verbs/check.h"
#include "verbs/trace.h"
#include "verbs/verbs.h"

/* 0: of a port or the device. */
static uint64_t event_object(const struct ibv_async_event *event)
{
	switch (event->event_type) {
	case IBV_EVENT_CQ_ERR:
		return CHECK_HANDLE(event->element.cq);
	case IBV_EVENT_SRQ_ERR:
	case IBV_EVENT_SRQ_LIMIT_REACHED:
		return CHECK_HANDLE(event->element.srq);
	case IBV_EVENT_WQ_FATAL:
		return CHECK_HANDLE(event->element.wq);
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_PATH_MIG:
	case IBV_EVENT_PATH_MIG_ERR:
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		return CHECK_HANDLE(event->element.qp);
	default:
		return 0;
	}
}

int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
	CALL_POINT();
	int err;

	if (!context || !event)
		return minus_one(refuse_null("ibv_get_async_event", context ? "event" : "context"));
	verbs_checked(.what = CHECK_ASYNC, .call = "ibv_get_async_event",
		      .context = CHECK_HANDLE(context));
	err = hca_get_async_event(to_hca(context), event);
	tsan_after(&tsan_calls);
	if (!err)
		verbs_checked(.what = CHECK_ASYNC, .call = "ibv_get_async_event",
			      .context = CHECK_HANDLE(context), .object = event_object(event));
	if (!err && trace_wants(TRACE_ASYNC))
		verbs_trace_async(event);
	return minus_one(err);
}

void ibv_ack_async_event(struct ibv_async_event *event)
{
	CALL();

	if (!event)
		return;
	verbs_checked(.what = CHECK_ASYNC_ACK, .call = "ibv_ack_async_event",
		      .object = event_object(event));
	hca_ack_async_event(event);
}
