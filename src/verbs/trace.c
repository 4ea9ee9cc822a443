/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The operations of a context while it is traced or checked (what is recorded of them:
 * trace_call.c, check.c). A trace swaps the pointers that programs call through, so that posting
 * and polling cost nothing more while nobody does.
 */
#include "verbs/trace.h"

#include "verbs/check.h"

static int post_send_traced(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	CALL();
	uint64_t began_ns = tracepoint_began_ns();
	int err = 0;

	if (check_is_on())
		err = verbs_check_sends("ibv_post_send", qp, wr, __builtin_return_address(0),
					__builtin_frame_address(0));
	if (err)
		*bad = wr;
	err = err ? verb_result(err) : verbs_data()->post_send(qp, wr, bad);
	if (err && check_is_on())
		verbs_check_sends_failed("ibv_post_send", qp, *bad, err);
	if (check_is_on())
		check_leave();
	if (began_ns && trace_wants(TRACE_CALLS))
		verbs_trace_sends("ibv_post_send", qp, wr, err ? *bad : NULL, began_ns, err);
	trace_throttle();
	return err;
}

static int post_recv_traced(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	CALL();
	uint64_t began_ns = tracepoint_began_ns();
	int err;

	if (check_is_on())
		verbs_check_receives("ibv_post_recv", qp, to_qp(qp)->cap.max_recv_sge, wr,
				     __builtin_return_address(0), __builtin_frame_address(0));
	err = verbs_data()->post_recv(qp, wr, bad);
	if (err && check_is_on())
		verbs_check_receives_failed("ibv_post_recv", qp, *bad, err);
	if (check_is_on())
		check_leave();
	if (began_ns && trace_wants(TRACE_CALLS))
		verbs_trace_receives("ibv_post_recv", to_qp(qp)->number, wr, err ? *bad : NULL, began_ns, err);
	trace_throttle();
	return err;
}

static int post_srq_recv_traced(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	CALL();
	uint64_t began_ns = tracepoint_began_ns();
	int err;

	if (check_is_on())
		verbs_check_receives("ibv_post_srq_recv", srq, to_srq(srq)->queue.max_sge, wr,
				     __builtin_return_address(0), __builtin_frame_address(0));
	err = verbs_data()->post_srq_recv(srq, wr, bad);
	if (err && check_is_on())
		verbs_check_receives_failed("ibv_post_srq_recv", srq, *bad, err);
	if (check_is_on())
		check_leave();
	if (began_ns && trace_wants(TRACE_CALLS))
		verbs_trace_receives("ibv_post_srq_recv", 0, wr, err ? *bad : NULL, began_ns, err);
	trace_throttle();
	return err;
}

static int poll_cq_traced(struct ibv_cq *cq, int count, struct ibv_wc *wc)
{
	CALL();
	uint64_t other = check_is_on() ? check_enter(CHECK_HANDLE(cq)) : 0;
	int got = verbs_data()->poll_cq(cq, count, wc);

	for (int i = 0; i < got && trace_wants(TRACE_COMPLETIONS); i++)
		verbs_trace_completion(to_cq(cq), &wc[i]);
	for (int i = 0; i < got && check_is_on(); i++)
		verbs_check_completion(to_cq(cq), &wc[i]);
	if (check_is_on()) {
		verbs_check_polled(to_cq(cq), count, got, other);
		check_leave();
	}
	for (int i = 0; i < got && check_is_on(); i++)
		verbs_check_poison(&wc[i]);
	trace_throttle();
	return got;
}

static int req_notify_traced(struct ibv_cq *cq, int solicited_only)
{
	CALL();
	uint64_t began_ns = tracepoint_began_ns();
	int err = 0;

	if (check_is_on())
		err = verbs_check_arm(to_cq(cq), solicited_only);
	err = err ? verb_result(err) : verbs_data()->req_notify_cq(cq, solicited_only);
	if (check_is_on())
		check_leave();
	verbs_traced("ibv_req_notify_cq", began_ns, err, .cq = SOME(to_cq(cq)->number));
	return err;
}

#define SWAP(ops, slot, function) __atomic_store_n(&(ops)->slot, function, __ATOMIC_RELAXED)

void verbs_trace_context(struct ibv_context_ops *ops, bool on)
{
	const struct verbs_data *data = verbs_data();

	SWAP(ops, poll_cq, on ? poll_cq_traced : data->poll_cq);
	SWAP(ops, req_notify_cq, on ? req_notify_traced : data->req_notify_cq);
	SWAP(ops, post_srq_recv, on ? post_srq_recv_traced : data->post_srq_recv);
	SWAP(ops, post_send, on ? post_send_traced : data->post_send);
	SWAP(ops, post_recv, on ? post_recv_traced : data->post_recv);
}
