/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests without packets (message.h): the sender's rules. message_receive.c has the receiver's.
 */
#include "transport/message.h"

#include <string.h>

#include "transport/execute.h"
#include "transport/loss.h"

#define STALLS_MAX	4u
#define STALLED_PACKETS	256u
#define COMMIT_SOON_NS	5000000u

static bool only_messages_outstanding(const struct qp *qp) REQUIRES(qp->lock)
{
	const struct requester *requester = &qp->requester;

	return qp->sq.sent - qp->sq.tail == requester->local_messages && !requester->refused &&
	       requester->una_psn == requester->next_psn && !requester->rnr_until_ns;
}

/*
 * A READ or atomic waits until all messages are answered, and later requests wait for it: where
 * that happens often, packets are faster, since they need not wait for each other.
 */
static void note_stall(struct qp *qp) REQUIRES(qp->lock)
{
	struct requester *requester = &qp->requester;

	if (requester->stalled_at == qp->sq.sent)
		return;
	requester->stalled_at = qp->sq.sent;
	if (++requester->stalls < STALLS_MAX)
		return;
	requester->stalls = 0;
	requester->packets_until = qp->sq.sent + STALLED_PACKETS;
}

struct send_wqe *transport_message_next(struct qp *qp)
{
	struct send_wqe *wqe;

	if (!qp_is(qp, QP_RELIABLE) || qp->state != IBV_QPS_RTS || qp->sq.sent == qp->sq.head ||
	    !only_messages_outstanding(qp) || request_needs_packets(qp))
		return NULL;
	wqe = send_queue_at(&qp->sq, qp->sq.sent);
	if (wqe_needs_receive(wqe))
		return wqe;
	if (qp->requester.local_messages && !wqe_is_write(wqe))
		note_stall(qp);
	return qp->requester.local_messages && wqe_is_write(wqe) ? wqe : NULL;
}

/*
 * The transport's part of the rules that a shortcut stands for: the next request, of those that
 * take a receive, would be a message, and nothing else would happen before it.
 */
bool transport_message_always_next(const struct qp *qp)
{
	return qp->type == IBV_QPT_RC && !qp->hash && !qp->sends_itself && qp->state == IBV_QPS_RTS &&
	       qp->sq.sent == qp->sq.head && only_messages_outstanding(qp) && !request_needs_packets(qp) &&
	       !transport_answer_is_due(qp) && qp->requester.prefers_direct && !qp->requester.direct_waits &&
	       !qp->requester.loss.stopped;
}

size_t message_target_bytes(const struct qp *qp, const struct send_wqe *wqe)
{
	return (qp_is(qp, QP_XRC) ? MESSAGE_SRQ_BYTES : 0) + (wqe_is_write(wqe) ? MESSAGE_TARGET_BYTES : 0);
}

void message_write_target(const struct qp *qp, const struct send_wqe *wqe, uint8_t *out)
{
	uint32_t words[2] = { wqe->rkey, 0 };

	if (qp_is(qp, QP_XRC)) {
		memcpy(out, &wqe->remote_srqn, MESSAGE_SRQ_BYTES);
		out += MESSAGE_SRQ_BYTES;
	}
	if (!wqe_is_write(wqe))
		return;
	memcpy(out, &wqe->remote_address, 8);
	memcpy(out + 8, words, 8);
}

void transport_message_head(const struct qp *qp, const struct send_wqe *wqe, bool rendezvous,
			    uint32_t head[MESSAGE_WORDS])
{
	unsigned flags =
		(rendezvous ? MESSAGE_RENDEZVOUS : 0) | (wqe_is_write(wqe) ? MESSAGE_WRITE : 0);

	if (wr_is(wqe->opcode, WR_HAS_IMM))
		flags |= MESSAGE_IMM;
	else if (wr_is(wqe->opcode, WR_HAS_INV))
		flags |= MESSAGE_INVALIDATE;
	if (wqe->flags & IBV_SEND_SOLICITED)
		flags |= MESSAGE_SOLICITED;
	if (qp_is(qp, QP_XRC))
		flags |= MESSAGE_XRC;
	head[0] = qp->pairing.theirs;
	head[1] = qp->number | wqe->sge_count << MESSAGE_FLAGS_SHIFT;
	head[2] = qp->requester.message_sequence | flags << MESSAGE_FLAGS_SHIFT;
	head[3] = wqe->imm;
	head[4] = wqe->length;
}

bool transport_gather(struct qp *qp, const struct send_wqe *wqe, uint8_t *out)
{
	struct effects none;
	struct qp_call call;

	qp_call_init_on(&call, qp, 0, &none);
	return sge_gather(&call, wqe, 0, out, wqe->length) == SGE_OK;
}

bool transport_message_write(struct qp *qp, const struct send_wqe *wqe, const struct message_piece *piece,
			     uint32_t head[MESSAGE_WORDS], uint8_t *out)
{
	size_t target = message_target_bytes(qp, wqe);

	transport_message_head(qp, wqe, piece, head);
	if (target)
		message_write_target(qp, wqe, out);
	out += target;
	if (!piece)
		return !wqe->length || transport_gather(qp, wqe, out);
	memcpy(out, piece, wqe->sge_count * sizeof(piece[0]));
	return true;
}

static void message_note_progress(struct qp *qp, uint64_t now_ns) REQUIRES(qp->lock)
{
	qp->requester.loss.progress_ns = now_ns;
	qp->requester.loss.retry_left = qp->attr.retry_cnt;
}

void transport_message_sent(struct qp *qp, struct send_wqe *wqe, uint64_t token, uint64_t now_ns)
{
	struct requester *requester = &qp->requester;

	wqe->token = token;
	wqe->state = WQE_IN_CHANNEL;
	if (!requester->local_messages)
		message_note_progress(qp, now_ns);
	/* A stopped peer is looked at soon: this one may be completed then. */
	if (requester->loss.stopped)
		requester->loss.progress_ns = now_ns - LOSS_LOOK_NS + COMMIT_SOON_NS;
	requester->local_messages++;
	requester->message_sequence = psn_add(requester->message_sequence, 1);
	requester->send_wqe = requester->packets_until = ++qp->sq.sent;
}

/* All messages are answered, and the remaining ones refused: send those as packets. */
static void message_take_back(struct qp *qp) REQUIRES(qp->lock)
{
	struct requester *requester = &qp->requester;
	uint32_t number;

	for (number = qp->sq.tail; number != qp->sq.sent; number++)
		send_queue_at(&qp->sq, number)->state = WQE_POSTED;
	requester->message_sequence = psn_add(requester->message_sequence, -requester->refused);
	requester->local_messages = requester->refused = 0;
	requester->in_packets = 0;
	requester->send_wqe = qp->sq.sent = qp->sq.tail;
	requester->packets_until = qp->sq.tail + 1;
}

uint32_t transport_row_answered(struct qp *qp, uint64_t token, uint32_t most)
{
	struct requester *requester = &qp->requester;
	uint32_t n;

	if (qp->counted)
		return 0;
	if (most > requester->local_messages)
		most = requester->local_messages;
	for (n = 0; n < most; n++) {
		const struct send_wqe *wqe = send_queue_at(&qp->sq, qp->sq.tail + n);

		if (wqe->token != token + n || wqe->opcode != IBV_WR_SEND || wqe->flags & IBV_SEND_SIGNALED)
			break;
	}
	requester->local_messages -= n;
	qp->sq.tail += n;
	if (n)
		count_of(qp, COUNTER_LOCAL_SEND, n);
	return n;
}

void transport_message_answered(struct qp *qp, uint64_t token, bool refused, uint64_t now_ns,
		      struct effects *effects)
{
	struct requester *requester = &qp->requester;
	struct send_wqe *wqe = send_queue_at(&qp->sq, qp->sq.tail + requester->refused);
	struct qp_call call;

	if (!requester->local_messages || wqe->token != token)
		return;
	qp_call_init_on(&call, qp, now_ns, effects);
	message_note_progress(qp, now_ns);
	requester->loss.stopped = false;
	if (refused || requester->refused) {
		qp->shortcut = 0;
		requester->refused++;
		count(&call, COUNTER_MESSAGE_REFUSED);
	} else {
		requester->local_messages--;
		count(&call, wqe_is_write(wqe) ? COUNTER_LOCAL_WRITE : COUNTER_LOCAL_SEND);
		finish_send(&call, IBV_WC_SUCCESS);
		if (qp->sq.tail == qp->sq.head)
			requester->stalls = 0;
	}
	if (requester->local_messages && requester->refused == requester->local_messages)
		message_take_back(qp);
	requester_check_drained(&call);
	/* Where a shortcut stands nothing is to be sent as packets: that was asked when it was opened. */
	if (!qp->shortcut || requester->completion_lost)
		qp_call_end(&call);
}

void transport_message_commit(struct qp *qp, bool alone, uint64_t now_ns, struct effects *effects)
{
	const struct send_wqe *wqe = send_queue_at(&qp->sq, qp->sq.tail);
	struct requester *requester = &qp->requester;
	bool takes_receive = wqe_needs_receive(wqe);
	struct qp_call call;

	qp_call_init(&call, qp, now_ns, effects);
	requester->local_messages--;
	if (alone)
		requester->early_write_age = 0;
	requester->early_receives = (uint16_t)(requester->early_receives << 1 | takes_receive);
	if (!takes_receive)
		requester->early_write_age = 1;
	else if (requester->early_write_age && requester->early_write_age < UINT8_MAX)
		requester->early_write_age++;
	count(&call, COUNTER_MESSAGE_EARLY);
	count(&call, wqe_is_write(wqe) ? COUNTER_LOCAL_WRITE : COUNTER_LOCAL_SEND);
	finish_send(&call, IBV_WC_SUCCESS);
	requester_check_drained(&call);
	qp_call_end(&call);
}

void transport_message_unmade(struct qp *qp, uint64_t now_ns, struct effects *effects)
{
	struct qp_call call;

	if (qp->state != IBV_QPS_RTS && qp->state != IBV_QPS_SQD)
		return;
	qp_call_init(&call, qp, now_ns, effects);
	explain_about("QP_FATAL", OF(QP, qp->number),
		      "qp 0x%06x: a request that was completed while the peer's process was "
		      "stopped did not arrive: the peer ended its queue pair, the region or the "
		      "receive before it took the message",
		      qp->number);
	qp_raise(qp, QP_EVENT_FATAL, effects);
	qp_end_pairing(qp);
	enter_error(&call);
	qp_call_end(&call);
}

uint64_t transport_message_deadline(const struct qp *qp)
{
	return loss_ack_deadline(&qp->requester.loss, requester_ack_timeout(qp));
}

void transport_message_progress(struct qp *qp, uint32_t progress, uint64_t now_ns)
{
	if (progress == qp->requester.message_progress)
		return;
	qp->requester.message_progress = progress;
	qp->requester.loss.stopped = false;
	message_note_progress(qp, now_ns);
}

/* Messages stay in memory and are not retransmitted, but silence counts as it does for packets. */
void message_timeout(struct qp_call *call)
{
	struct requester *requester = &call->qp->requester;

	count(call, COUNTER_TIMEOUT);
	if (loss_retry(&requester->loss, call->now_ns))
		return;
	/* A peer that copies now must not take the application's next content for this message. */
	qp_end_pairing(call->qp);
	set_reason(call,
		   "the peer did not take %u messages out of shared memory (it may be stopped)",
		   requester->local_messages);
	requester_exceeded(call);
}
