/* SPDX-License-Identifier: BSD-2-Clause */
/* Posting to a QP, and the work that follows. */
#include <errno.h>

#include "base/inline.h"
#include "base/log.h"
#include "device/internal.h"
#include "engine/wake.h"
#include "local/move/shortcut.h"
#include "platform/clock.h"
#include "transport/barrier.h"
#include "transport/message.h"

static uint64_t flush_time(const struct qp *qp) REQUIRES(qp->lock)
{
	return qp->state == IBV_QPS_ERR || qp->state == IBV_QPS_SQE ? clock_now_ns() : 0;
}

/* May the process of that QP be one of this host, with which memory is shared? */
static bool post_meets(struct hca *hca, const struct route *route, uint32_t qpn)
{
	return route->loopback || (route->link == ROUTE_IB && subnet_meets(hca->subnet, qpn_slot(qpn)));
}

static APART void prepare_datagrams(struct hca *hca, struct qp *qp, struct ibv_send_wr *wr)
{
	const struct ibv_send_wr *each;
	int before = errno;

	for (each = wr; each && hca->engine.local.channel_link; each = each->next)
		if (wr_has_ah(each) && post_meets(hca, &to_ah(each->wr.ud.ah)->route, each->wr.ud.remote_qpn))
			local_connect_for_datagram(&hca->engine.local,
						   qpn_slot(each->wr.ud.remote_qpn));
	errno = before;
	transport_prepare_send(qp, wr);
}

static bool qp_post_done(struct hca *hca, struct qp *qp, struct effects *effects) REQUIRES(qp->lock)
{
	/* An ACK that is owed leaves before a message does (engine/tx_run.c). */
	bool more = transport_answer_is_due(qp) || local_posted(&hca->engine.local, qp, effects) ||
		    transport_ready(qp);

	if (qp->requester.local_messages || barrier_holds(qp))
		timers_arm(&hca->engine, qp);
	return more;
}

static void post_note_reply(struct hca *hca)
{
	if (atomic_load_explicit(&hca->engine.reply.awaited, memory_order_relaxed))
		progress_replied(&hca->engine);
}

static void post_unlock_done(struct hca *hca, struct qp *qp, struct effects *effects) RELEASES(qp->lock)
{
	lock_release(&qp->lock);
	effects_apply(effects);
	engine_after_unlock(&hca->engine);
	post_note_reply(hca);
}

/* After posting, whatever was posted: with the QP's lock, which is dropped. */
static APART void post_unlock_and_transmit(struct hca *hca, struct qp *qp) RELEASES(qp->lock)
{
	struct effects effects;

	effects_init(&effects);
	if (transport_posted_send(qp, flush_time(qp), &effects) && qp_post_done(hca, qp, &effects)) {
		int before = errno;	/* a full socket is no failure of the post */

		post_note_reply(hca);
		tx_posted(&hca->engine, qp, &effects);
		errno = before;
	} else {
		local_open_shortcut(&hca->engine.local, qp);
		post_unlock_done(hca, qp, &effects);
	}
}

/* @wr: what is not in the send queue yet, or NULL. */
static APART int post_the_long_way(struct hca *hca, struct qp *qp, struct ibv_send_wr *wr,
				   struct ibv_send_wr **bad)
	RELEASES(qp->lock)
{
	bool plain = wr && qp->type == IBV_QPT_RC && qp->state == IBV_QPS_RTS && !qp->sends_itself;
	int err = !wr || (plain && qp_post_plain(qp, wr)) ? 0 : qp_post_send(qp, wr, bad);

	post_unlock_and_transmit(hca, qp);
	return err;
}

static enum shortcut_outcome post_by_shortcut(struct hca *hca, struct qp *qp, const struct ibv_send_wr *wr,
					      struct effects *effects) REQUIRES(qp->lock)
{
	enum shortcut_outcome outcome;

	if (!qp->shortcut || !wr)
		return SHORTCUT_NOT_TAKEN;
	effects_init(effects);
	outcome = local_take_shortcut(&hca->engine.local, qp, wr, effects);
	/* As a rule the timer is set for a message before this one. */
	if (outcome == SHORTCUT_DONE && qp->requester.local_messages &&
	    transport_message_deadline(qp) < atomic_load_explicit(&qp->timer_at_ns, memory_order_relaxed))
		timers_arm(&hca->engine, qp);
	return outcome;
}

FLAT int hca_post_send(struct qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct hca_context *context = qp->owner;
	enum shortcut_outcome outcome;
	struct effects effects;

	if (context_is_dead(context, "ibv_post_send")) {
		*bad = wr;
		return EIO;
	}
	if (qp_is(qp, QP_DATAGRAM))
		prepare_datagrams(context->hca, qp, wr);
	lock_acquire(&qp->lock);
	outcome = post_by_shortcut(context->hca, qp, wr, &effects);
	if (outcome == SHORTCUT_DONE) {
		post_unlock_done(context->hca, qp, &effects);
		return 0;
	}
	return post_the_long_way(context->hca, qp, outcome == SHORTCUT_NOT_TAKEN ? wr : NULL, bad);
}

int hca_post_send_all(struct qp *qp, struct ibv_send_wr *wr)
{
	struct hca_context *context = qp->owner;
	enum shortcut_outcome outcome;
	struct effects effects;
	int err = 0;

	if (context_is_dead(context, "ibv_wr_complete"))
		return EIO;
	if (qp_is(qp, QP_DATAGRAM))
		prepare_datagrams(context->hca, qp, wr);
	lock_acquire(&qp->lock);
	outcome = post_by_shortcut(context->hca, qp, wr, &effects);
	if (outcome == SHORTCUT_DONE) {
		post_unlock_done(context->hca, qp, &effects);
		return 0;
	}
	if (outcome == SHORTCUT_NOT_TAKEN)
		err = qp_post_send_all(qp, wr);
	if (err)
		lock_release(&qp->lock);
	else
		post_unlock_and_transmit(context->hca, qp);
	return err;
}

static APART void posted_recv(struct hca *hca, struct qp *qp)
{
	struct effects effects;

	effects_init(&effects);
	lock_acquire(&qp->lock);
	transport_posted_recv(qp, clock_now_ns(), &effects);
	lock_release(&qp->lock);
	effects_apply(&effects);
	engine_after_unlock(&hca->engine);
	if (atomic_load_explicit(&hca->engine.run_queue.count, memory_order_relaxed))
		tx_run_queued(&hca->engine);
}

FLAT int hca_post_recv(struct qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct hca_context *context = qp->owner;
	int err = qp_post_recv(qp, wr, bad);

	/* Read after posting: a move to ERR stores the state before it flushes. */
	if (!context->abandoned &&
	    (atomic_load(&qp->access->state) == IBV_QPS_ERR || transport_awaits_recv(qp)))
		posted_recv(context->hca, qp);
	return err;
}
