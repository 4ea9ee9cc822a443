/* SPDX-License-Identifier: BSD-2-Clause */
/* Asynchronous events: ibv_get_async_event(3), ibv_ack_async_event(3). */
#include "verbs/check.h"
#include "verbs/trace.h"
#include "verbs/verbs.h"

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
			      .context = CHECK_HANDLE(context),
			      .object = CHECK_HANDLE(hca_async_object(event)));
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
		      .object = CHECK_HANDLE(hca_async_object(event)));
	hca_ack_async_event(event);
}
