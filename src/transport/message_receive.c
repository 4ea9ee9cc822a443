/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests without packets (message.h), at the receiver: parsed, judged as packets are, and
 * executed (execute.h), or refused: then they come as packets.
 */
#include "transport/message.h"

#include <string.h>

#include "object/guesses.h"
#include "transport/execute.h"
#include "wire/tag_header.h"

#define FETCH_BYTES_MAX	(1u << 20)	/* in one go */

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
	*message = (struct local_message){ .data = data,
					   .grant = head[0],
					   .source_qpn = head[1] & QPN_MASK,
					   .piece_count = (uint8_t)(head[1] >> MESSAGE_FLAGS_SHIFT),
					   .sequence = head[2] & PSN_MASK,
					   .flags = (uint8_t)(head[2] >> MESSAGE_FLAGS_SHIFT),
					   .imm = head[3],
					   .length = head[4] };
	if (message->flags & ~MESSAGE_FLAGS ||
	    (message->flags & MESSAGE_INVALIDATE && message->flags & (MESSAGE_IMM | MESSAGE_WRITE)))
		return false;
	if (!parse_target(message, &bytes))
		return false;
	if (message->flags & MESSAGE_RENDEZVOUS)
		return message->piece_count <= MESSAGE_PIECES_MAX &&
		       bytes == message->piece_count * sizeof(struct message_piece);
	return bytes == message->length && bytes <= MESSAGE_EAGER_MAX;
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
	       responder->message_sequence == message->sequence && qp_is_between_messages(qp);
}

/* The whole WRITE target, checked again for each part. */
static struct target target_of(const struct local_message *message)
{
	return (struct target){ .rkey = message->rkey, .need = IBV_ACCESS_REMOTE_WRITE,
				.address = message->target,
				.bytes = message->length };
}

/* Copy the data in the message. False: the memory is not accessible. */
static bool copy_eager(struct qp_call *call, const struct local_message *message)
	REQUIRES(call->qp->lock)
{
	const struct payload payload = { .data = message->data, .bytes = message->length,
					 .last = true };
	const struct target target = target_of(message);
	enum fault fault;

	call->qp->responder.received = 0;
	if (!(message->flags & MESSAGE_WRITE))
		return !execute_send(call, &payload);
	fault = execute_begin(call, &target);
	if (!fault)
		fault = execute_write(call, &payload);
	execute_end(call);
	return !fault;
}

/* All but WRITEs without immediate data. */
static bool takes_receive(const struct local_message *message)
{
	return !(message->flags & MESSAGE_WRITE) || (message->flags & MESSAGE_IMM);
}

/*
 * A refused message says that the key is wrong. A requester sends it as a packet then, which ends
 * the QP; one that does not, and tries other keys, ends it as well.
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
	const struct target target = target_of(message);

	if (!(call->qp->attr.qp_access_flags & IBV_ACCESS_REMOTE_WRITE))
		return false;
	if (execute_begin(call, &target)) {
		note_wrong_key(call);
		return false;
	}
	execute_end(call);
	return true;
}

/*
 * The header decides what the message takes; large data, with the header, is with the sender: it
 * comes as packets. The sender can change the data while it is read, hence the copy.
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
	const struct work work = { .bytes = message->length, .imm = message->imm,
				   .is_write = message->flags & MESSAGE_WRITE,
				   .has_imm = message->flags & MESSAGE_IMM,
				   .has_inv = message->flags & MESSAGE_INVALIDATE,
				   .solicited = message->flags & MESSAGE_SOLICITED,
				   .is_single = true };

	if (takes_receive(message) && finish_message(call, &work)) {
		note_wrong_key(call);	/* that was to be invalidated */
		return MESSAGE_REFUSED;
	}
	if (message->flags & MESSAGE_WRITE)
		qp_count(call->qp, COMP_REMOTE_WRITE, true, 1, message->length);
	responder->message_sequence = psn_add(responder->message_sequence, 1);
	return MESSAGE_EXECUTED;
}

enum message_fate transport_message_receive(struct qp *qp, const struct local_message *message,
					    uint64_t now_ns, struct effects *effects)
{
	enum message_fate fate = MESSAGE_REFUSED;
	struct qp_call call;

	qp->responder.shortcut = false;
	if (!is_next(qp, message) || !message_aim(qp, message))
		return MESSAGE_REFUSED;
	qp_call_init_on(&call, qp, now_ns, effects);
	note_established(&call);
	qp->responder.message_done = 0;
	if (may_begin(&call, message)) {
		if (message->length && message->flags & MESSAGE_RENDEZVOUS)
			fate = MESSAGE_FETCH;
		else if (!message->length || copy_eager(&call, message))
			fate = message_complete(&call, message);
	}
	qp_call_end(&call);
	return fate;
}

/* ---- in a row ---- */

/* As is_next() and may_begin(), without what each message says. */
bool transport_always_receives(const struct qp *qp)
{
	return qp->type == IBV_QPT_RC && !qp->hash && qp->route.loopback &&
	       ((qp->state == IBV_QPS_RTR && qp->responder.established) ||
		qp->state == IBV_QPS_RTS || qp->state == IBV_QPS_SQD) &&
	       qp_is_between_messages(qp) && !qp->responder.recv_taken && !takes_tags(qp) &&
	       qp->pairing.ours;
}

/* A bounded part, so that other messages have their turn. */
bool transport_fetch_begin(struct qp *qp, const struct local_message *message,
			   struct message_fetch *fetch)
{
	uint32_t done = qp->responder.message_done, left = message->length - done;
	const struct target target = target_of(message);
	struct effects none;
	struct qp_call call;

	fetch->pieces = 0;
	if (!is_next(qp, message) || !is_aimed(qp, message) || done >= message->length)
		return false;
	fetch->offset = done;
	fetch->bytes = left < FETCH_BYTES_MAX ? left : FETCH_BYTES_MAX;
	fetch->last = fetch->bytes == left;
	qp_call_init(&call, qp, 0, &none);
	if (execute_locate(&call, message->flags & MESSAGE_WRITE ? &target : NULL, fetch))
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
