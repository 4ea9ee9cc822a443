/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages, the responder's part, and the answers to messages of this process. Each is parsed in
 * one place (transport/message_receive.c, control.c), then executed by the QP's responder like a
 * packet, or refused. The data of large ones is fetched first, without locks (fetch.c).
 */
#include "local/move/internal.h"

#include <errno.h>
#include <string.h>

#include "base/inline.h"
#include "platform/clock.h"
#include "trace/trace.h"
#include "transport/local.h"

#define MESSAGES_MAX	64u		/* in one go ... */
#define BYTES_MAX	(512u << 10)	/* ... and bytes */
#define ROW_MAX		16u		/* messages before others may have the CQ */
/* What a message in a row has not. */
#define ROW_FLAGS	((uint32_t)(MESSAGE_FLAGS & ~MESSAGE_SOLICITED) << MESSAGE_FLAGS_SHIFT)

/* ---- executing ---- */

/* A QP stays locked over the messages and answers that are for it. */
struct receiver {
	struct qp *qp;
	struct message_row row;		/* of messages for it; row.qp NULL: none is open */
	const struct grant_page *alive;	/* of an open row: the sender's grants ... */
	unsigned channel, length;	/* ... whose messages, how many so far */
	struct effects effects;		/* with the poll of the caller, if it polls */
};

static void receive_init(struct receiver *receiver, struct cq_poll *poll)
{
	receiver->qp = receiver->row.qp = NULL;
	effects_init(&receiver->effects);
	receiver->effects.poll = poll;
}

static FLAT APART void receiver_end_row(struct receiver *receiver)
{
	if (!receiver->row.qp)
		return;
	lock_assert_held(&receiver->row.qp->lock);
	lock_assert_held(&receiver->row.qp->recv_cq->lock);
	transport_row_end(&receiver->row);
}

static void receiver_unlock(struct local *local, struct receiver *receiver)
{
	if (!receiver->qp)
		return;		/* and no effects: they are of calls with its lock */
	receiver_end_row(receiver);
	lock_assert_held(&receiver->qp->lock);
	lock_release(&receiver->qp->lock);
	receiver->qp = NULL;
	if (receiver->effects.count)
		local->ops->defer(local->owner, &receiver->effects);
}

/* Unchecked: the lock that it returns with is that of a QP which the caller learns by it. */
static struct qp *receiver_lock(struct local *local, struct receiver *receiver, uint32_t qpn)
	UNCHECKED_LOCKS
{
	struct qp *qp;

	if (receiver->qp && receiver->qp->number == qpn && !effects_full(&receiver->effects))
		return receiver->qp;
	receiver_unlock(local, receiver);
	qp = local->ops->find_qp(local->owner, qpn);
	if (qp)
		lock_acquire(&qp->lock);
	receiver->qp = qp;
	return qp;
}

static enum message_fate receive_malformed(struct local *local)
{
	drop_count(local->counters, DROP_MALFORMED, 1);
	return MESSAGE_REFUSED;
}

/*
 * Execute a message only if it names the QP's current grant, not one of a former life. One that is refused is not
 * dropped: its sender counts it (messages_refused) and sends packets instead, or has destroyed its QP.
 */
static enum message_fate receive_execute(struct local *local, struct receiver *receiver,
					 struct peer *peer, const struct ring_message *received,
					 const struct local_message *message)
{
	struct message_piece source[MESSAGE_PIECES_MAX];
	enum message_fate fate;
	const struct cq *cq;
	struct qp *qp;
	uint32_t qpn;

	if (!grant_find_qp(&peer->grants, message->grant, &qpn))
		return MESSAGE_REFUSED;
	qp = receiver_lock(local, receiver, qpn);
	if (!qp)
		return MESSAGE_REFUSED;
	lock_assert_held(&qp->lock);
	/* What was completed to its sender counts, even if the sender's QP is gone by now. */
	if (qp->pairing.ours != message->grant ||
	    (!grant_is_alive(peer->alive, qp->pairing.theirs) &&
	     !ring_is_committed(local->channel_link, received)))
		return MESSAGE_REFUSED;
	if (trace_wants(TRACE_PACKETS | TRACE_LOG))
		trace_message_received(qp, message, 0);
	if (message->flags & MESSAGE_RENDEZVOUS)
		memcpy(source, message->data, message->piece_count * sizeof(source[0]));
	cq = transport_message_cq(qp, message);		/* NULL: there is no completion */
	fate = transport_message_receive(qp, message, cq && cq->stamped ? clock_now_ns() : 0,
					 &receiver->effects);
	if (fate == MESSAGE_FETCH) {
		ring_hold(local->channel_link, received);
		fetch_start(local, peer, qpn, qp->pairing.theirs, message, source);
	}
	return fate;
}

/*
 * A SEND behind others of the same kind, for the same QP: the way that receive_execute() and the
 * responder find for it, decided once. When such a message was executed, and the next one could
 * only be, qp->responder.shortcut is opened; whatever changes one of the rules closes it. The next
 * message asks for that, and a row of them keeps the CQ locked and the region held.
 *
 *	rule						what closes the shortcut
 *	RC, of this host, no tag matching		(fixed at creation, or with the state)
 *	RTR with the connection established, RTS, SQD	qp_set_state()
 *	no packet, no receive in use			qp_call_init(): every call of transport/ but those
 *							of qp_call_init_on(); transport_message_receive()
 *	the two QPs have agreed				pairing.c, pairing_end()
 *
 * Both grants, sequence, the receive, its key and bounds, and room in the CQ are asked for each
 * message, the peer and the QP, and whether anybody traces, counts or waits for an event, for each
 * row.
 */
static FLAT APART bool receiver_begin_row(struct local *local, struct receiver *receiver,
				     const struct ring_message *received)
{
	struct peer *peer = peer_at(local, received->channel);
	struct qp *qp;
	uint32_t qpn;

	if (!peer || atomic_load_explicit(&trace_wanted, memory_order_relaxed) ||
	    atomic_load(&peer->job.state) != JOB_NONE ||
	    !grant_find_qp(&peer->grants, received->head[0], &qpn))
		return false;
	qp = receiver_lock(local, receiver, qpn);
	if (!qp)
		return false;
	lock_assert_held(&qp->lock);
	receiver->alive = peer->alive;
	receiver->channel = received->channel;
	receiver->length = 0;
	return transport_row_continue(&receiver->row, qp, receiver->effects.poll);
}

/* False: nothing was done, and no row is open. */
static bool receive_in_row(struct local *local, struct receiver *receiver,
			   const struct ring_message *received)
{
	struct qp *qp = receiver->row.qp;

	if (qp) {
		lock_assert_held(&qp->lock);
		if (receiver->channel != received->channel || receiver->length == ROW_MAX ||
		    qp->pairing.ours != received->head[0])
			receiver_end_row(receiver);
	}
	if (!receiver->row.qp &&
	    (received->head[2] & ROW_FLAGS || !receiver_begin_row(local, receiver, received)))
		return false;
	qp = receiver->row.qp;
	lock_assert_held(&receiver->row.qp->lock);
	lock_assert_held(&receiver->row.qp->recv_cq->lock);
	if (grant_is_alive(receiver->alive, qp->pairing.theirs) &&
	    transport_row_receive(&receiver->row, received->head, received->data,
				  received->bytes)) {
		receiver->length++;
		return true;
	}
	receiver_end_row(receiver);
	return false;
}

/* Behind a message that was executed: may the next ones be in a row? */
static APART void receiver_open_shortcut(struct receiver *receiver)
{
	struct qp *qp = receiver->qp;

	if (!qp)
		return;
	lock_assert_held(&qp->lock);
	transport_row_open(qp);
}

static APART enum message_fate receive_take(struct local *local, struct receiver *receiver,
					    const struct ring_message *received,
					    struct local_message *message)
{
	struct peer *peer = peer_at(local, received->channel);
	struct control control;

	message->length = 0;
	if (!peer)
		return receive_malformed(local);
	/* A copy for the former peer of this channel is still running. */
	if (atomic_load(&peer->job.state) != JOB_NONE) {
		ring_hold(local->channel_link, received);
		return MESSAGE_FETCH;
	}
	if (!received->head[0]) {
		if (!control_parse(received->data, received->bytes, &control))
			return receive_malformed(local);
		receiver_unlock(local, receiver);
		return pairing_receive(local, peer, &control) ? MESSAGE_EXECUTED : MESSAGE_REFUSED;
	}
	if (!message_parse(received->head, received->data, received->bytes, message))
		return receive_malformed(local);
	return receive_execute(local, receiver, peer, received, message);
}

/* ---- answers ---- */

/* Of a QP that is locked, as for the answer before it. */
static APART void receive_take_row(struct local *local, struct receiver *receiver, unsigned channel,
				   const struct ring_answer *answer)
{
	struct message_answer taken = { message_token(channel, answer->cell), false, false, 1 };
	struct qp *qp = receiver->qp;

	lock_assert_held(&qp->lock);
	taken.row += ring_row_behind(local->channel_link, channel, answer, ROW_MAX);
	transport_answered(qp, &taken, qp->send_cq->stamped ? clock_now_ns() : clock_coarse_ns(),
			   &receiver->effects);
	if (taken.row > 1)
		ring_take_row(local->channel_link, channel, taken.row - 1);
}

/* Is it to a message whose request has no completion, with others behind it? */
static bool may_be_row(const struct receiver *receiver, const struct ring_answer *answer)
{
	const struct qp *qp = receiver->qp;

	if (!answer->behind || !qp || qp->number != answer->owner)
		return false;
	lock_alias((struct lock *)&qp->lock);
	return !(send_queue_at(&qp->sq, qp->sq.tail)->flags & IBV_SEND_SIGNALED) && !answer->refused &&
	       !answer->committed && !trace_wants(TRACE_PACKETS | TRACE_LOG) && !effects_full(&receiver->effects);
}

static APART void receive_take_answer(struct local *local, struct receiver *receiver, unsigned channel,
				      const struct ring_answer *answer)
{
	struct message_answer taken;
	struct peer *peer;
	uint32_t number;
	struct qp *qp;

	if (OWNER_IS_CONTROL(answer->owner)) {
		receiver_unlock(local, receiver);
		if (!answer->refused)
			return;
		/* The peer could not take a question about that QP or (0) about a key. */
		peer = peer_at(local, channel);
		if (answer->owner & QPN_MASK)
			pairing_ask_again(local, answer->owner & QPN_MASK);
		else if (peer)
			peer_keys_ask_again(peer->regions);
		return;
	}
	if (answer->committed)
		commit_answered(local, channel);
	if (answer->committed && !answer->refused)
		return;
	qp = receiver_lock(local, receiver, answer->owner);
	if (!qp)
		return;
	lock_assert_held(&qp->lock);
	taken = (struct message_answer){ message_token(channel, answer->cell), answer->refused,
					 answer->committed, 1 };
	number = transport_answered(qp, &taken, qp->send_cq->stamped ? clock_now_ns() : clock_coarse_ns(),
				    &receiver->effects);
	if (trace_wants(TRACE_PACKETS | TRACE_LOG) && number != MESSAGE_NONE)
		trace_message_answered(qp, number);
}

/* ---- both ---- */

static FLAT unsigned take_messages(struct local *local, struct receiver *receiver)
{
	struct ring_message received;
	struct local_message message;
	struct ring_answer answer;
	bool more = ring_peek(local->channel_link, &received);
	int64_t left = BYTES_MAX;
	unsigned n = 0;

	while (more) {
		enum message_fate fate;

		/*
		 * A program may take what its peer sends back for proof that its own message has arrived (tgt
		 * does): the completion of the one comes before that of the other.
		 */
		while (ring_take_answer_before(&received, &answer)) {
			receiver_end_row(receiver);	/* it may be complete in the same CQ */
			receive_take_answer(local, receiver, received.channel, &answer);
		}
		if (receive_in_row(local, receiver, &received)) {
			ring_finish_next(&received, false);
			left -= received.bytes;
		} else {
			fate = receive_take(local, receiver, &received, &message);
			if (fate == MESSAGE_EXECUTED && received.head[0] && !(received.head[2] & ROW_FLAGS))
				receiver_open_shortcut(receiver);
			if (fate != MESSAGE_FETCH)
				ring_finish_next(&received, fate == MESSAGE_REFUSED);
			left -= message.length;
		}
		more = ++n < MESSAGES_MAX && left > 0 && ring_peek_next(local->channel_link, &received);
	}
	receiver_end_row(receiver);
	local->received_bytes += (uint64_t)(BYTES_MAX - (left > 0 ? left : 0));
	if (n)
		ring_notify_answers(local->channel_link);
	return n;
}

static bool take_answers(struct local *local, struct receiver *receiver)
{
	unsigned count = ring_channels(local->channel_link), i;
	struct ring_answer answer;
	bool any = false;

	for (i = 0; i < count; i++)
		while (ring_take_answer(local->channel_link, i, &answer)) {
			if (may_be_row(receiver, &answer))
				receive_take_row(local, receiver, i, &answer);
			else
				receive_take_answer(local, receiver, i, &answer);
			any = true;
		}
	return any;
}

unsigned local_receive(struct local *local, struct cq_poll *poll)
{
	struct receiver receiver;
	unsigned taken;

	local->was_answered = false;
	if (!local->channel_link)
		return 0;
	if (atomic_load_explicit(&local->offers_due, memory_order_relaxed)) {
		atomic_store(&local->offers_due, false);
		agree_say_opened(local);
		grant_make_offers(local);
	}
	receive_init(&receiver, poll);
	taken = take_messages(local, &receiver);
	/* A message has brought the answers that its sender had given. */
	if (!taken || !ring_has_one_channel(local->channel_link))
		local->was_answered = take_answers(local, &receiver);
	receiver_unlock(local, &receiver);
	return taken;
}

void messages_lost(struct local *local, unsigned channel)
{
	struct ring_answer answer;
	struct receiver receiver;

	receive_init(&receiver, NULL);
	while (ring_take_answer_lost(local->channel_link, channel, &answer))
		receive_take_answer(local, &receiver, channel, &answer);
	receiver_unlock(local, &receiver);
}

bool local_pending(const struct local *local)
{
	return local->channel_link &&
	       (ring_pending(local->channel_link) || ring_any_answer(local->channel_link) ||
		atomic_load_explicit(&local->fetches_due, memory_order_relaxed));
}
