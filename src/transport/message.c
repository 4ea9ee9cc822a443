/* SPDX-License-Identifier: BSD-2-Clause */
/* SENDs without packets (message.h): both ends' rules. */
#include "transport/message.h"

#include <string.h>

#include "base/copy.h"
#include "transport/guesses.h"
#include "transport/internal.h"
#include "transport/loss.h"
#include "wire/tag_header.h"

#define FETCH_BYTES_MAX	(1u << 20)	/* in one go */
#define FLAGS_SHIFT	24
#define STALLS_MAX	4u
#define STALLED_PACKETS	256u
#define COMMIT_SOON_NS	5000000u

/* ---- requester ---- */

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
	head[1] = qp->number | wqe->sge_count << FLAGS_SHIFT;
	head[2] = qp->requester.message_sequence | flags << FLAGS_SHIFT;
	head[3] = wqe->imm;
	head[4] = wqe->length;
}

bool transport_gather(struct qp *qp, const struct send_wqe *wqe, uint8_t *out)
{
	struct effects none;
	struct qp_call call;

	qp_call_init(&call, qp, 0, &none);
	return sge_gather(&call, wqe, 0, out, wqe->length) == SGE_OK;
}

static void message_note_progress(struct qp *qp, uint64_t now_ns) REQUIRES(qp->lock)
{
	qp->requester.loss.progress_ns = now_ns;
	qp->requester.loss.retry_left = qp->attr.retry_cnt;
}

void transport_message_sent(struct qp *qp, uint64_t token, uint64_t now_ns)
{
	struct requester *requester = &qp->requester;
	struct send_wqe *wqe = send_queue_at(&qp->sq, qp->sq.sent);

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

void transport_message_answered(struct qp *qp, uint64_t token, bool refused, uint64_t now_ns,
		      struct effects *effects)
{
	struct requester *requester = &qp->requester;
	struct send_wqe *wqe = send_queue_at(&qp->sq, qp->sq.tail + requester->refused);
	struct qp_call call;

	if (!requester->local_messages || wqe->token != token)
		return;
	qp_call_init(&call, qp, now_ns, effects);
	message_note_progress(qp, now_ns);
	requester->loss.stopped = false;
	if (refused || requester->refused) {
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
	qp_call_end(&call);
}

void transport_message_commit(struct qp *qp, uint64_t now_ns, struct effects *effects)
{
	const struct send_wqe *wqe = send_queue_at(&qp->sq, qp->sq.tail);
	struct requester *requester = &qp->requester;
	bool takes_receive = wqe_needs_receive(wqe);
	struct qp_call call;

	qp_call_init(&call, qp, now_ns, effects);
	requester->local_messages--;
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
	pairing_end(&qp->pairing);
	enter_error(&call);
	qp_call_end(&call);
}

uint64_t message_deadline(const struct qp *qp)
{
	uint64_t timeout_ns = requester_ack_timeout(qp);

	return loss_ack_deadline(&qp->requester.loss, timeout_ns);
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
	pairing_end(&call->qp->pairing);
	set_reason(call,
		   "the peer did not take %u messages out of shared memory (it may be stopped)",
		   requester->local_messages);
	requester_exceeded(call);
}

/* ---- responder ---- */

static void parse_head(const uint32_t head[MESSAGE_WORDS], struct local_message *message)
{
	message->grant = head[0];
	message->source_qpn = head[1] & QPN_MASK;
	message->piece_count = (uint8_t)(head[1] >> FLAGS_SHIFT);
	message->sequence = head[2] & PSN_MASK;
	message->flags = (uint8_t)(head[2] >> FLAGS_SHIFT);
	message->imm = head[3];
	message->length = head[4];
}

static bool are_sound(unsigned flags)
{
	if (flags & ~MESSAGE_FLAGS)
		return false;
	return !(flags & MESSAGE_INVALIDATE) || !(flags & (MESSAGE_IMM | MESSAGE_WRITE));
}

/* What the flags say comes before the data. False: it is not all there. */
static bool parse_target(struct local_message *message, uint32_t *bytes)
{
	bool xrc = message->flags & MESSAGE_XRC, write = message->flags & MESSAGE_WRITE;
	uint32_t need = (xrc ? MESSAGE_SRQ_BYTES : 0) + (write ? MESSAGE_TARGET_BYTES : 0);

	if (*bytes < need)
		return false;
	*bytes -= need;
	if (xrc) {
		memcpy(&message->srqn, message->data, MESSAGE_SRQ_BYTES);
		message->data += MESSAGE_SRQ_BYTES;
	}
	if (write) {
		memcpy(&message->target, message->data, 8);
		memcpy(&message->rkey, message->data + 8, 4);
		message->data += MESSAGE_TARGET_BYTES;
	}
	return true;
}

bool message_parse(const uint32_t head[MESSAGE_WORDS], const uint8_t *data, uint32_t bytes,
		   struct local_message *message)
{
	*message = (struct local_message){ .data = data };
	parse_head(head, message);
	if (!are_sound(message->flags) || !parse_target(message, &bytes))
		return false;
	if (message->flags & MESSAGE_RENDEZVOUS)
		return message->piece_count <= MESSAGE_PIECES_MAX &&
		       bytes == message->piece_count * sizeof(struct message_piece);
	return bytes == message->length && bytes <= MESSAGE_EAGER_MAX;
}

bool transport_between_messages(const struct qp *qp)
{
	return !qp->responder.previous || opcode_ends(qp->responder.previous);
}

/* Does it come from a QP of a type that ours serves? */
static bool is_of_its_type(const struct qp *qp, const struct local_message *message)
{
	if (qp_is(qp, QP_XRC))
		return qp->type == IBV_QPT_XRC_RECV && (message->flags & MESSAGE_XRC);
	return qp_is(qp, QP_RELIABLE) && !(message->flags & MESSAGE_XRC);
}

struct cq *transport_message_cq(const struct qp *qp, const struct local_message *message)
{
	const struct srq *srq = qp->xrcd ? responder_find_target(qp, message->srqn) : NULL;

	return srq ? srq->cq : qp->recv_cq;
}

/* XRC: does it name an SRQ of the QP's domain? The first part of a message sets it. */
static bool message_aim(struct qp *qp, const struct local_message *message) REQUIRES(qp->lock)
{
	struct srq *srq;

	if (!qp->xrcd)
		return true;
	srq = responder_find_target(qp, message->srqn);
	if (srq)
		qp->responder.target = srq;
	return srq;
}

/* Is it still there? */
static bool is_aimed(const struct qp *qp, const struct local_message *message) REQUIRES(qp->lock)
{
	const struct srq *target = qp->responder.target;

	return !qp->xrcd || (target && target->number == message->srqn);
}

/* Is it the next in sequence, with no message in progress that comes as packets? */
static bool is_next(const struct qp *qp, const struct local_message *message) REQUIRES(qp->lock)
{
	const struct responder *responder = &qp->responder;

	return is_of_its_type(qp, message) && qp->route.loopback &&
	       (qp->state == IBV_QPS_RTR || qp->state == IBV_QPS_RTS || qp->state == IBV_QPS_SQD) &&
	       qp->attr.dest_qp_num == message->source_qpn &&
	       responder->message_sequence == message->sequence && transport_between_messages(qp);
}

/* Access to the whole WRITE target, checked again for each part. */
static bool target_access_begin(struct qp_call *call, const struct local_message *message,
				struct mr_access *access) REQUIRES(call->qp->lock)
{
	struct mr_accessor accessor = mr_accessor_of(call->qp);

	return mr_access_begin(call->qp->transport->mrs, &accessor, message->rkey,
			       IBV_ACCESS_REMOTE_WRITE, message->target, message->length,
			       access) == MR_OK;
}

static bool copy_tagged(struct qp_call *call, const struct local_message *message) REQUIRES(call->qp->lock)
{
	struct tags_part part = { .data = message->data, .bytes = message->length };

	return !tags_part(&call->qp->responder, &part) ||
	       !recv_scatter(call, part.offset, part.data, part.bytes, true);
}

/* Copy the data in the message. False: the memory is not accessible. */
static bool copy_eager(struct qp_call *call, const struct local_message *message)
	REQUIRES(call->qp->lock)
{
	struct mr_access access;
	int err;

	if (!(message->flags & MESSAGE_WRITE) && call->qp->responder.tagged)
		return copy_tagged(call, message);
	if (!(message->flags & MESSAGE_WRITE))
		return !recv_scatter(call, 0, message->data, message->length, true);
	if (!target_access_begin(call, message, &access))
		return false;
	err = copy_user_ordered(access.host, message->data, message->length);
	mr_access_end(&access);
	return !err;
}

static bool message_locate(struct qp_call *call, const struct local_message *message,
			   struct message_fetch *fetch) REQUIRES(call->qp->lock)
{
	if (!(message->flags & MESSAGE_WRITE))
		return !recv_locate(call, fetch->offset, fetch->bytes, fetch);
	if (!target_access_begin(call, message, &fetch->access[0]))
		return false;
	fetch->piece[0] = (struct iovec){
		.iov_base = (uint8_t *)fetch->access[0].host + fetch->offset, .iov_len = fetch->bytes };
	fetch->pieces = 1;
	return true;
}

static bool end_message(struct qp_call *call, const struct local_message *message)
	REQUIRES(call->qp->lock)
{
	struct ibv_wc wc = { .byte_len = message->length };

	wc.opcode = message->flags & MESSAGE_WRITE ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV;
	if (message->flags & MESSAGE_IMM) {
		wc.wc_flags |= IBV_WC_WITH_IMM;
		wc.imm_data = __builtin_bswap32(message->imm);
	} else if (message->flags & MESSAGE_INVALIDATE) {
		wc.wc_flags |= IBV_WC_WITH_INV;
		wc.invalidated_rkey = message->imm;
	}
	return !responder_complete(call, &wc, message->flags & MESSAGE_SOLICITED, true);
}

/* All but WRITEs without immediate data. */
static bool takes_receive(const struct local_message *message)
{
	return !(message->flags & MESSAGE_WRITE) || (message->flags & MESSAGE_IMM);
}

/*
 * A refused message says that the key is wrong. A requester sends it as a packet then, which ends the
 * QP; one that does not, and tries other keys, ends it as well.
 */
static void note_wrong_key(struct qp_call *call) REQUIRES(call->qp->lock)
{
	count_drop(call, DROP_KEY);
	/* Without time: no requester has a second one. */
	if (!guesses_add(&call->qp->responder.wrong_keys, 0))
		return;
	set_reason(call, "%u messages named keys that they may not use: a peer may be guessing them",
		   GUESSES_MAX + 1);
	responder_fail(call, FAULT_ACCESS);
}

/* Checked before a receive is taken, as with packets: otherwise the receive would fail. */
static bool may_write(struct qp_call *call, const struct local_message *message)
	REQUIRES(call->qp->lock)
{
	struct mr_accessor accessor = mr_accessor_of(call->qp);
	struct mr_access access;

	if (!(call->qp->attr.qp_access_flags & IBV_ACCESS_REMOTE_WRITE))
		return false;
	if (!message->length)
		return true;
	if (mr_access_begin(call->qp->transport->mrs, &accessor, message->rkey,
			    IBV_ACCESS_REMOTE_WRITE, message->target, message->length,
			    &access) != MR_OK) {
		note_wrong_key(call);
		return false;
	}
	mr_access_end(&access);
	return true;
}

/*
 * The header decides what the message takes; large data, with the header, is with the sender: it comes as packets.
 * The sender can change the data while it is read, hence the copy.
 */
static bool message_take_by_tag(struct qp_call *call, const struct local_message *message)
	REQUIRES(call->qp->lock)
{
	uint8_t header[TAG_RENDEZVOUS_MAX];
	size_t bytes = message->length < sizeof(header) ? message->length : sizeof(header);

	if (message->flags & MESSAGE_RENDEZVOUS)
		return false;
	if (bytes)
		memcpy(header, message->data, bytes);
	call->qp->responder.received = 0;
	/* Longer than any request for rendezvous: then this is none. */
	if (bytes < message->length && header[0] == TAG_RENDEZVOUS)
		header[0] = TAG_NO_TAG;
	return tags_take(call, header, bytes) && tags_fit(&call->qp->responder, message->length);
}

static bool may_begin(struct qp_call *call, const struct local_message *message)
	REQUIRES(call->qp->lock)
{
	if (!(message->flags & MESSAGE_WRITE) && takes_tags(call->qp))
		return message_take_by_tag(call, message);
	if ((message->flags & MESSAGE_WRITE) && !may_write(call, message))
		return false;
	if (takes_receive(message) && !responder_take(call))
		return false;
	return (message->flags & MESSAGE_WRITE) ||
	       message->length <= call->qp->responder.recv_bytes;
}

static enum message_fate message_complete(struct qp_call *call, const struct local_message *message)
	REQUIRES(call->qp->lock)
{
	struct responder *responder = &call->qp->responder;

	if (takes_receive(message) && !end_message(call, message)) {
		note_wrong_key(call);	/* that was to be invalidated */
		return MESSAGE_REFUSED;
	}
	if (message->flags & MESSAGE_WRITE)
		qp_count(call->qp, COMP_REMOTE_WRITE, true, 1, message->length);
	responder->message_sequence = psn_add(responder->message_sequence, 1);
	return MESSAGE_EXECUTED;
}

static enum message_fate message_execute(struct qp_call *call, const struct local_message *message)
	REQUIRES(call->qp->lock)
{
	if (!may_begin(call, message))
		return MESSAGE_REFUSED;
	if (message->length && (message->flags & MESSAGE_RENDEZVOUS))
		return MESSAGE_FETCH;
	if (message->length && !copy_eager(call, message))
		return MESSAGE_REFUSED;
	return message_complete(call, message);
}

enum message_fate transport_message_receive(struct qp *qp, const struct local_message *message,
					    uint64_t now_ns, struct effects *effects)
{
	enum message_fate fate;
	struct qp_call call;

	if (!is_next(qp, message) || !message_aim(qp, message))
		return MESSAGE_REFUSED;
	qp_call_init(&call, qp, now_ns, effects);
	note_established(&call);
	qp->responder.message_done = 0;
	fate = message_execute(&call, message);
	qp_call_end(&call);
	return fate;
}

/* A bounded part, so that other messages have their turn. */
bool transport_fetch_begin(struct qp *qp, const struct local_message *message,
			   struct message_fetch *fetch)
{
	uint32_t done = qp->responder.message_done, left = message->length - done;
	struct effects none;
	struct qp_call call;

	fetch->pieces = 0;
	if (!is_next(qp, message) || !is_aimed(qp, message) || done >= message->length)
		return false;
	fetch->offset = done;
	fetch->bytes = left < FETCH_BYTES_MAX ? left : FETCH_BYTES_MAX;
	fetch->last = fetch->bytes == left;
	qp_call_init(&call, qp, 0, &none);
	if (message_locate(&call, message, fetch))
		return true;
	fetch_release(fetch);
	return false;
}

enum message_fate transport_fetched(struct qp *qp, const struct local_message *message,
				    struct message_fetch *fetch, bool fetched, uint64_t now_ns,
				    struct effects *effects)
{
	struct responder *responder = &qp->responder;
	enum message_fate fate = MESSAGE_FETCH;
	struct qp_call call;

	fetch_release(fetch);
	if (!fetched || !is_next(qp, message) || !is_aimed(qp, message) ||
	    responder->message_done != fetch->offset)
		return MESSAGE_REFUSED;
	qp_call_init(&call, qp, now_ns, effects);
	responder->message_done += fetch->bytes;
	if (responder->message_done == message->length)
		fate = message_complete(&call, message);
	qp_call_end(&call);
	return fate;
}

void transport_fetch_drop(struct message_fetch *fetch)
{
	fetch_release(fetch);
}
