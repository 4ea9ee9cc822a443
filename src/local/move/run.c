/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests without packets, in the order of the send queue: each is sent as a message (send.c) or
 * executed by this process (onesided.c). The first that has to wait or needs packets ends the run;
 * the transport continues there.
 */
#include "local/move/internal.h"

#include "trace/trace.h"
#include "transport/local.h"

#define RUN_MAX 64u			/* requests in a row, before others have a turn */

void local_run(struct local *local, struct qp *qp, struct effects *effects)
{
	/*
	 * A trace that wants payload sees it in packets. No branch: the one of tracing comes behind
	 * the request.
	 */
	const uint32_t wanted = atomic_load_explicit(&trace_wanted, memory_order_relaxed);
	const unsigned most = RUN_MAX * !(wanted & TRACE_PAYLOAD);
	const bool asks = transport_run_begin(qp);
	struct send_wqe *wqe;
	struct onesided_row row;
	unsigned n, left;
	bool message;

	if (!local->direct || !qp->route.loopback || !qp_is(qp, QP_CONNECTED))
		return;
	if (asks)
		pairing_ask_barrier(local, qp);
	row.peer = NULL;
	for (n = 0; n < most && !effects_full(effects); n++) {
		wqe = transport_run_next(qp, &message);
		/* It has to wait, or needs packets; or there is none. */
		if (message ? !message_send(local, qp, wqe) :
			      !wqe || !onesided_run(local, qp, wqe, &row, effects))
			break;
	}
	onesided_row_end(&row);
	left = transport_run_end(qp, n == RUN_MAX || effects_full(effects));
	if (left & RUN_STREAMS)
		pairing_reconsider(qp);
	if (left & RUN_UNANSWERED && local_await_answers(local, qp))
		local->ops->note(local->owner, 0);
}

bool local_posted(struct local *local, struct qp *qp, struct effects *effects)
{
	bool again;

	if (!local->direct || !qp->route.loopback || qp->tx_running)
		return true;
	qp->tx_running = true;
	local_run(local, qp, effects);
	qp->tx_running = false;
	again = qp->tx_again;
	qp->tx_again = false;
	return again;
}
