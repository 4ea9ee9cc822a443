/* SPDX-License-Identifier: BSD-2-Clause */
/* Completion channels: ibv_create_comp_channel(3), ibv_get_cq_event(3), ibv_ack_cq_events(3). */
#include "verbs/check.h"
#include "verbs/trace.h"
#include "verbs/verbs.h"

static struct comp_channel *to_comp_channel(struct ibv_comp_channel *ibv)
{
	return (struct comp_channel *)ibv;
}

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
	CALL();
	struct comp_channel *channel;
	int err;

	if (!context)
		return fail(refuse_null("ibv_create_comp_channel", "context"));
	err = hca_create_comp_channel(to_hca(context), &channel);
	if (err)
		return fail(err);
	channel->ibv.context = context;
	verbs_checked(.what = CHECK_MADE, .kind = CHECK_CHANNEL, .call = "ibv_create_comp_channel",
		      .object = CHECK_HANDLE(channel), .context = CHECK_HANDLE(context));
	return &channel->ibv;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
	CALL();
	int err;

	if (!channel)
		return refuse_null("ibv_destroy_comp_channel", "channel");
	verbs_checked_ending(CHANNEL, "ibv_destroy_comp_channel", channel);
	err = hca_destroy_comp_channel(to_hca(channel->context), to_comp_channel(channel));
	verbs_checked_ended(CHANNEL, "ibv_destroy_comp_channel", channel, err);
	return err;
}

int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **ibv, void **cq_context)
{
	CALL_POINT();
	uint64_t began_ns = tracepoint_began_ns();
	struct cq *cq;
	int err;

	if (!channel || !ibv || !cq_context)
		return minus_one(refuse_null("ibv_get_cq_event",
					     !channel ? "channel" : ibv ? "cq_context" : "cq"));
	if (check_is_on())
		verbs_check_wait(channel);
	err = hca_get_cq_event(to_comp_channel(channel), &cq);
	if (check_is_on())
		check_leave();
	if (err != EAGAIN)	/* who polls would fill the trace */
		verbs_traced("ibv_get_cq_event", began_ns, err, .cq = SOME(err ? 0 : cq->number));
	if (err)
		return minus_one(err);
	tsan_after(cq);
	verbs_checked(.what = CHECK_EVENT, .call = "ibv_get_cq_event", .object = CHECK_HANDLE(cq));
	*ibv = ibv_cq_ex_to_cq(&cq->ibv);
	*cq_context = cq->ibv.cq_context;
	return 0;
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned count)
{
	CALL();

	if (!cq || !count)
		return;
	verbs_checked(.what = CHECK_ACK, .call = "ibv_ack_cq_events", .object = CHECK_HANDLE(cq),
		      .count = count);
	hca_ack_cq_events(to_cq(cq), count);
}
