/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The operations of contexts in a program with ThreadSanitizer: twins of those that post and poll.
 * They have the sanitizer look at what the application hands in as at accesses of the thread
 * itself, and away from the rest.
 */
#include "verbs/verbs.h"

static int post_send_tsan(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	CALL_TWIN();
	int err;

	hca_tsan_read_inline(to_qp(qp), wr);
	tsan_enter_from(__builtin_return_address(0));
	err = hca_tsan_post_send(to_qp(qp), wr, bad);
	tsan_leave();
	return verb_result(err);
}

static int post_recv_tsan(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	CALL_TWIN();
	int err;

	tsan_enter_from(__builtin_return_address(0));
	err = hca_tsan_post_recv(to_qp(qp), wr, bad);
	tsan_leave();
	return verb_result(err);
}

static int post_srq_recv_tsan(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	CALL_TWIN();
	int err;

	tsan_enter_from(__builtin_return_address(0));
	err = hca_tsan_post_srq_recv(to_srq(srq), wr, bad);
	tsan_leave();
	return verb_result(err);
}

int wq_post_recv_tsan(struct ibv_wq *wq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	CALL_TWIN();
	int err;

	tsan_enter_from(__builtin_return_address(0));
	err = hca_tsan_post_wq_recv(to_wq(wq), wr, bad);
	tsan_leave();
	return err;
}

static int poll_cq_tsan(struct ibv_cq *cq, int count, struct ibv_wc *wc)
{
	CALL_TWIN();
	int got;

	tsan_enter();
	got = hca_tsan_poll_cq(to_cq(cq), count, wc);
	tsan_leave();
	if (got > 0)
		tsan_writes(wc, (size_t)got * sizeof(*wc));
	return got;
}

/* What was done before is before what the event's thread does. */
static int req_notify_cq_tsan(struct ibv_cq *cq, int solicited_only)
{
	CALL();

	tsan_before(to_cq(cq));
	return verb_result(hca_req_notify_cq(to_cq(cq), solicited_only != 0));
}

const struct verbs_data *verbs_data(void)
{
	static const struct verbs_data usual = { cq_poll_verb, cq_notify_verb, srq_post_verb,
						 qp_post_send_verb, qp_post_recv_verb };
	static const struct verbs_data twins = { poll_cq_tsan, req_notify_cq_tsan, post_srq_recv_tsan,
						 post_send_tsan, post_recv_tsan };

	return tsan_is_on() ? &twins : &usual;
}
