/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A SEND or WRITE posted alone, behind others that went without packets: the way that run.c, send.c
 * and onesided.c find for it, decided once. When a post has ended and the next SEND could only go
 * as a message, a WRITE directly, the QP's shortcut is opened (qp->shortcut); whatever changes one
 * of the rules closes it, moves local->epoch, or ends the peer's grant. The next post asks for
 * these three, and no rule.
 *
 *	rule						what closes the shortcut
 *	RC, a send queue of the application		(fixed at creation)
 *	RTS						qp_set_state()
 *	nothing sent as packets, or to be, no READ	qp_call_init(): every call of transport/ but four that are
 *	or answer due, nothing refused			named there by qp_call_init_on()
 *	a channel, messages taken there			local->epoch
 *	the two QPs have agreed				pairing.c, pairing_end(); the peer's: grant_is_alive()
 *	no refusal of the peer is remembered		a post that goes the long way
 *
 * Whether anybody traces, another thread transmits for the QP, the CQ is armed, the ring has room,
 * and whether the keys and bounds of the request are right is asked for each request.
 */
#include "local/move/internal.h"
#include "local/move/shortcut.h"

#include "base/inline.h"
#include "platform/clock.h"
#include "trace/trace.h"
#include "transport/local.h"
#include "transport/transport.h"

#define SHORT_MAX	2048u		/* as EAGER_MAPPED_MAX in send.c: always copied into the ring */

void local_open_shortcut(struct local *local, struct qp *qp)
{
	/* Before the rules are asked: what changes meanwhile moves it. */
	uint32_t epoch = atomic_load_explicit(&local->epoch, memory_order_acquire);
	const struct send_wqe *last = send_queue_at(&qp->sq, qp->sq.head - 1);
	const struct peer *peer = NULL;

	qp_notes(qp)->target = (struct shortcut_target){ 0 };
	/* One like the last could take a shortcut, and the rules hold at this moment. */
	if ((last->opcode == IBV_WR_SEND || last->opcode == IBV_WR_RDMA_WRITE) && last->length <= SHORT_MAX &&
	    local->direct && qp->route.loopback && transport_message_always_next(qp))
		peer = peer_of_slot(local, qpn_slot(qp->attr.dest_qp_num));
	qp->shortcut = peer && ring_reach(local->channel_link, peer->channel) & RING_MESSAGES &&
		       pairing_is_settled(qp, peer) ? epoch : 0;
}

static bool send_short(struct local *local, struct qp *qp, uint32_t channel, struct send_wqe *wqe)
	REQUIRES(qp->lock)
{
	struct ring_room room;

	if (ring_send_begin(local->channel_link, channel, wqe->length, &room))
		return false;
	/* The channel is what it was: else, the epoch was moved before its producer's lock could be taken. */
	if (atomic_load_explicit(&local->epoch, memory_order_relaxed) != qp->shortcut ||
	    !grant_is_alive(local->peers->peer[channel]->alive, qp->pairing.theirs) ||
	    !transport_message_write_short(qp, wqe, room.head, room.data)) {
		ring_send_cancel(&room);
		return false;
	}
	ring_send_end(local->channel_link, &room, qp->number);
	transport_message_sent(qp, wqe, message_token(channel, room.number),
			       qp->sq.sent != qp->sq.tail ? 0 : clock_coarse_ns());
	if (cq_is_armed(qp->send_cq) && local_await_answers(local, qp))
		local->ops->note(local->owner, 0);
	return true;
}

bool local_take_posted(struct local *local, struct qp *qp, struct send_wqe *wqe, struct effects *effects)
{
	uint32_t channel = local_channel(local, qpn_slot(qp->attr.dest_qp_num));

	if (atomic_load_explicit(&trace_wanted, memory_order_relaxed) || qp->tx_running ||
	    wqe->length > SHORT_MAX)
		return false;
	if (wqe->opcode == IBV_WR_SEND)
		return send_short(local, qp, channel, wqe);
	return wqe->flags & IBV_SEND_INLINE && qp->sq.sent == qp->sq.tail && channel != LOCAL_NO_CHANNEL &&
	       onesided_write_inline(local, qp, local->peers->peer[channel], wqe, effects);
}

APART FLAT bool local_write_at_once(struct local *local, struct qp *qp, const struct ibv_send_wr *wr,
				    struct effects *effects)
{
	uint32_t channel = local_channel(local, qpn_slot(qp->attr.dest_qp_num));

	/* Behind messages it is one of them. */
	return qp->sq.sent == qp->sq.tail &&
	       qp_post_is_write(qp, wr) && wr->sg_list->length <= SHORT_MAX && !qp->counted && !qp->tx_running &&
	       !atomic_load_explicit(&trace_wanted, memory_order_relaxed) && channel != LOCAL_NO_CHANNEL &&
	       onesided_write_at_once(local, qp, local->peers->peer[channel], wr, effects);
}
