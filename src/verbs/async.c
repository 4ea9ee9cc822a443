/* SPDX-License-Identifier: BSD-2-Clause */
/* Asynchronous events: ibv_get_async_event(3), ibv_ack_async_event(3). */
#include "verbs/trace.h"
#include "verbs/verbs.h"

int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
	CALL_POINT();
	int err;

	if (!context || !event)
		return minus_one(refuse_null("ibv_get_async_event", context ? "event" : "context"));
	err = hca_get_async_event(to_hca(context), event);
	tsan_after(&tsan_calls);
	if (!err && trace_wants(TRACE_ASYNC))
		verbs_trace_async(event);
	return minus_one(err);
}

void ibv_ack_async_event(struct ibv_async_event *event)
{
	CALL();

	if (event)
		hca_ack_async_event(event);
}
