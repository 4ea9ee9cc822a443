/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The checkers of a conversation. They know nothing of packets: only what was posted, what
 * completed, and what memory holds.
 */
#include <arpa/inet.h>
#include <string.h>

#include "object/placement.h"
#include "oracle.h"

#define fail(side, format, ...) \
	sim_fail((side)->talk->sim, "side %u: " format, (side)->index, ##__VA_ARGS__)

static bool is_write(const struct message *message)
{
	return message->opcode == IBV_WR_RDMA_WRITE ||
	       message->opcode == IBV_WR_RDMA_WRITE_WITH_IMM || (int)message->opcode == WR_ATOMIC_WRITE;
}

static bool is_atomic(const struct message *message)
{
	return message->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
	       message->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

static bool is_reliable(const struct side *side)
{
	return side->talk->options.type == IBV_QPT_RC;
}

/* The receive that a message of @side takes is known in advance. */
static bool receives_in_order(const struct side *side)
{
	return is_reliable(side) && !side->peer->srq;
}

static uint32_t consumed_before(const struct side *side, uint32_t number)
{
	uint32_t i, n = 0;

	for (i = 0; i < number; i++)
		n += message_consumes(&side->messages[i]);
	return n;
}

/* From now on the message may change memory. */
void oracle_posted(struct side *side, struct message *message)
{
	struct side *peer = side->peer;

	if (is_write(message))
		span_set(&peer->memory, &message->remote, CONTENT_EITHER, message->key);
	if (message->opcode == IBV_WR_RDMA_READ)
		span_set(&side->memory, &message->local, CONTENT_EITHER, message->key);
	if (is_atomic(message))
		span_set(&side->memory, &message->local, CONTENT_ANY, 0);
	if (message_consumes(message) && !is_write(message) && receives_in_order(side)) {
		uint32_t i = consumed_before(side, message->number);

		if (i < peer->receives_planned)
			span_set(&peer->memory, &peer->receives[i].span, CONTENT_EITHER, message->key);
	}
}

/* ---- send completions ---- */

static enum ibv_wc_opcode wc_opcode_of(const struct message *message)
{
	switch ((int)message->opcode) {
	case WR_FLUSH:
		return (enum ibv_wc_opcode)WC_FLUSH;
	case WR_ATOMIC_WRITE:
		return (enum ibv_wc_opcode)WC_ATOMIC_WRITE;
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		return IBV_WC_RDMA_WRITE;
	case IBV_WR_RDMA_READ:
		return IBV_WC_RDMA_READ;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
		return IBV_WC_COMP_SWAP;
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		return IBV_WC_FETCH_ADD;
	case IBV_WR_LOCAL_INV:
		return IBV_WC_LOCAL_INV;
	case IBV_WR_BIND_MW:
		return IBV_WC_BIND_MW;
	default:
		return IBV_WC_SEND;
	}
}

static void verify_span(struct side *side, struct side *where, struct message *message,
			struct span *span)
{
	long at = span_mismatch(&where->memory, span, message->key, message->length);

	if (at >= 0)
		fail(side, "message %u (opcode %d, %u bytes) completed, but its data differs at %ld",
		     message->number, (int)message->opcode, message->length, at);
	span_set(&where->memory, span, CONTENT_EXACT, message->key);
}

static void verify_success(struct side *side, struct message *message)
{
	if (!is_reliable(side))
		return;
	if (message->opcode == IBV_WR_RDMA_READ)
		verify_span(side, side, message, &message->local);
	if (is_write(message))
		verify_span(side, side->peer, message, &message->remote);
	if (is_atomic(message) && span_read64(&side->memory, &message->local) != message->original)
		fail(side, "atomic %u returned %llu instead of %llu", message->number,
		     (unsigned long long)span_read64(&side->memory, &message->local),
		     (unsigned long long)message->original);
}

static void succeed(struct side *side, struct message *message)
{
	message->done = true;
	message->status = IBV_WC_SUCCESS;
	side->sends_ok++;
	side->last_done_ns = side->talk->sim->now_ns;
	verify_success(side, message);
}

/* The message that @wc completes. Unsignaled ones before it are known to have succeeded now. */
static struct message *find_message(struct side *side, const struct ibv_wc *wc)
{
	for (; side->completed < side->posted; side->completed++) {
		struct message *message = &side->messages[side->completed];

		if (message->number == wc->wr_id)
			return message;
		if ((message->flags & IBV_SEND_SIGNALED) || side->failed)
			break;
		succeed(side, message);
	}
	fail(side, "send completion of message %llu (status %d), expected was %u of %u posted",
	     (unsigned long long)wc->wr_id, (int)wc->status, side->completed, side->posted);
	return NULL;
}

static void check_send_wc(struct side *side, const struct message *message, const struct ibv_wc *wc)
{
	bool answers = message->opcode == IBV_WR_RDMA_READ || is_atomic(message);

	if (wc->qp_num != side->qpn)
		fail(side, "completion says qp 0x%06x", wc->qp_num);
	if (wc->status != IBV_WC_SUCCESS)
		return;
	if (!(message->flags & IBV_SEND_SIGNALED))
		fail(side, "message %u is unsignaled and completed all the same", message->number);
	if (wc->opcode != wc_opcode_of(message))
		fail(side, "message %u: completion opcode %d", message->number, (int)wc->opcode);
	if (answers && wc->byte_len != message->length)
		fail(side, "message %u: byte_len %u instead of %u", message->number, wc->byte_len,
		     message->length);
}

void oracle_sent(struct side *side, const struct ibv_wc *wc)
{
	struct message *message = find_message(side, wc);

	if (!message)
		return;
	side->completed++;
	check_send_wc(side, message, wc);
	if (wc->status == IBV_WC_SUCCESS) {
		if (side->failed)
			fail(side, "message %u succeeded after a failure", message->number);
		succeed(side, message);
	} else {
		if (side->failed && wc->status != IBV_WC_WR_FLUSH_ERR)
			fail(side, "message %u: status %d after the first failure", message->number,
			     (int)wc->status);
		if (!side->failed)
			side->send_status = wc->status;
		side->failed = message->done = true;
		message->status = wc->status;
		side->flushed += wc->status == IBV_WC_WR_FLUSH_ERR;
		if (side->talk->options.lossless_semantics)
			fail(side, "message %u failed with status %d", message->number, (int)wc->status);
	}
	if (side->on_completion)
		side->on_completion(side, wc, false);
}

/* ---- receive completions ---- */

static bool is_sent_data(const struct side *side, const struct receive *receive,
			 const struct message *message, const struct ibv_wc *wc, uint32_t bytes)
{
	bool imm = message->opcode == IBV_WR_SEND_WITH_IMM ||
		   message->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;

	if (!message_consumes(message) || message->length != bytes ||
	    imm != !!(wc->wc_flags & IBV_WC_WITH_IMM) ||
	    is_write(message) != (wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM))
		return false;
	if (imm)
		return ntohl(wc->imm_data) == message->imm;
	/* What a dropped message left behind the end is nobody's. */
	return span_starts(&side->memory, &receive->span, message->key, bytes);
}

/* UC, UD: which of the peer's messages is this? Any that it looks exactly like. */
static struct message *recognise(struct side *side, const struct receive *receive,
				 const struct ibv_wc *wc, uint32_t bytes)
{
	const struct side *peer = side->peer;
	struct message *again = NULL;
	uint32_t i;

	for (i = 0; i < peer->posted; i++) {
		struct message *message = &peer->messages[i];

		if (!is_sent_data(side, receive, message, wc, bytes))
			continue;
		if (!message->delivered)
			return message;
		again = message;
	}
	if (again && !side->talk->sim->rule && !peer->host->rates.duplicate)
		fail(side, "message %u was received twice", again->number);
	if (!again)
		fail(side, "received %u bytes that no message of the peer's is", bytes);
	return again;
}

/* RC: the next of the peer's messages that takes a receive. */
static struct message *next_consuming(struct side *side)
{
	struct side *peer = side->peer;

	while (side->matched < peer->posted) {
		struct message *message = &peer->messages[side->matched++];

		if (message_consumes(message))
			return message;
	}
	fail(side, "a receive completed that no message of the peer's can have consumed");
	return NULL;
}

static void check_received_data(struct side *side, struct receive *receive,
				struct message *message)
{
	uint32_t bytes = is_write(message) ? 0 : message->length;
	bool exact = is_reliable(side) ?
		span_mismatch(&side->memory, &receive->span, message->key, bytes) < 0 :
		span_starts(&side->memory, &receive->span, message->key, bytes);

	if (!exact)
		fail(side, "message %u: the receive holds something else", message->number);
	span_freeze(&side->memory, &receive->span);
	if (is_write(message) && is_reliable(side))
		verify_span(side, side, message, &message->remote);
}

static void check_recv_wc(struct side *side, const struct message *message, const struct ibv_wc *wc,
			  uint32_t bytes)
{
	bool imm = message->opcode == IBV_WR_SEND_WITH_IMM ||
		   message->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
	bool inv = message->opcode == IBV_WR_SEND_WITH_INV;

	if (wc->opcode != (is_write(message) ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV))
		fail(side, "message %u: receive completion has opcode %d", message->number,
		     (int)wc->opcode);
	if (bytes != message->length)
		fail(side, "message %u of %u bytes: receive completion has byte_len %u",
		     message->number, message->length, wc->byte_len);
	if (imm != !!(wc->wc_flags & IBV_WC_WITH_IMM) || (imm && ntohl(wc->imm_data) != message->imm))
		fail(side, "message %u: immediate data is wrong", message->number);
	if (inv != !!(wc->wc_flags & IBV_WC_WITH_INV) || (inv && wc->invalidated_rkey != message->rkey))
		fail(side, "message %u: invalidated rkey is wrong", message->number);
}

/* IPv4: the header sits in the last 20 of the 40 bytes (annex A17). */
static void check_grh(struct side *side, const struct receive *receive, const struct ibv_wc *wc)
{
	const uint8_t *grh = side->memory.data + receive->grh.piece[0]->offset;

	if (!(wc->wc_flags & IBV_WC_GRH))
		fail(side, "UD receive without IBV_WC_GRH");
	if (wc->src_qp != side->peer->qpn)
		fail(side, "UD receive from qp 0x%06x", wc->src_qp);
	if (memcmp(grh + 32, side->peer->host->address + 12, 4) ||
	    memcmp(grh + 36, side->host->address + 12, 4))
		fail(side, "UD receive: addresses in the GRH space are wrong");
}

static void received_well(struct side *side, struct receive *receive, const struct ibv_wc *wc)
{
	bool is_ud = side->talk->options.type == IBV_QPT_UD;
	uint32_t bytes = wc->byte_len - (is_ud ? 40 : 0);
	struct message *message = is_reliable(side) ? next_consuming(side) :
						      recognise(side, receive, wc, bytes);

	if (side->recv_failed)
		fail(side, "a receive succeeded after one had failed");
	if (!message)
		return;
	if (is_ud)
		check_grh(side, receive, wc);
	check_recv_wc(side, message, wc, bytes);
	check_received_data(side, receive, message);
	message->delivered = true;
	side->recvs_ok++;
	side->last_done_ns = side->talk->sim->now_ns;
}

/* Of an SRQ: a message of UC that has no end gives it back in error, and the QP goes on (class E). */
static bool is_broken_message(const struct side *side, const struct ibv_wc *wc)
{
	return side->talk->options.type == IBV_QPT_UC && side->srq && side->qp->state != IBV_QPS_ERR &&
	       (wc->status == IBV_WC_REM_INV_REQ_ERR || wc->status == IBV_WC_LOC_LEN_ERR);
}

static void received_badly(struct side *side, const struct ibv_wc *wc)
{
	if (is_broken_message(side, wc))
		return;
	if (side->recv_failed && wc->status != IBV_WC_WR_FLUSH_ERR)
		fail(side, "receive %llu: status %d after the first failure",
		     (unsigned long long)wc->wr_id, (int)wc->status);
	if (!side->recv_failed)
		side->recv_status = wc->status;
	side->recv_failed = true;
	side->flushed += wc->status == IBV_WC_WR_FLUSH_ERR;
	if (side->talk->options.lossless_semantics)
		fail(side, "receive %llu failed with status %d", (unsigned long long)wc->wr_id,
		     (int)wc->status);
}

void oracle_received(struct side *side, const struct ibv_wc *wc)
{
	struct receive *receive = &side->receives[wc->wr_id];

	if (wc->wr_id >= side->receives_posted || receive->done) {
		fail(side, "completion of receive %llu, which %s", (unsigned long long)wc->wr_id,
		     wc->wr_id >= side->receives_posted ? "was not posted" : "is completed already");
		return;
	}
	if (!side->srq && wc->wr_id != side->receives_done)
		fail(side, "receive %llu completed before receive %u", (unsigned long long)wc->wr_id,
		     side->receives_done);
	if (wc->qp_num != side->qpn)
		fail(side, "receive completion says qp 0x%06x", wc->qp_num);
	receive->done = true;
	side->receives_done++;
	if (wc->status == IBV_WC_SUCCESS)
		received_well(side, receive, wc);
	else
		received_badly(side, wc);
	if (side->on_completion)
		side->on_completion(side, wc, true);
}

/* ---- the end ---- */

/* What the peer's atomics may have left: the value after one of them, none that completed undone. */
static void check_counter(struct side *side)
{
	const struct side *peer = side->peer;
	uint64_t value = span_read64(&side->memory, &side->counter);
	bool legal = value == 1000;
	uint32_t i;

	for (i = 0; i < peer->posted; i++) {
		const struct message *message = &peer->messages[i];

		if (!is_atomic(message))
			continue;
		if (message->done && message->status == IBV_WC_SUCCESS)
			legal = false;
		legal |= value == message->after;
	}
	if (!legal)
		fail(side, "the counter is %llu, not what the atomics make of it",
		     (unsigned long long)value);
}

static void check_completeness(struct side *side)
{
	if (side->completed != side->posted)
		fail(side, "%u of %u posted messages completed, and nothing goes on (qp in %s)",
		     side->completed, side->posted, qp_state_name(side->qp->state));
	if (side->qp->state == IBV_QPS_ERR && !side->srq &&
	    side->receives_done != side->receives_posted)
		fail(side, "%u of %u receives completed, though the qp is in ERR",
		     side->receives_done, side->receives_posted);
	if (side->qp->state != IBV_QPS_ERR && (side->failed || side->recv_failed))
		fail(side, "a request failed, but the qp is in %s", qp_state_name(side->qp->state));
	if (!side->failed && is_reliable(side) &&
	    consumed_before(side, side->completed) > side->peer->recvs_ok && !side->peer->destroyed &&
	    !side->peer->deaf && !side->peer->host->crashed)
		fail(side, "%u sends succeeded, the peer received %u",
		     consumed_before(side, side->completed), side->peer->recvs_ok);
}

static void check_side(struct side *side)
{
	if (side->destroyed || side->host->crashed || side->deaf)
		return;
	if (side->qp->state != IBV_QPS_RESET)
		check_completeness(side);
	if (side->talk->options.lossless_semantics &&
	    (side->completed != side->planned || side->qp->state != IBV_QPS_RTS))
		fail(side, "%u of %u planned messages completed, qp in %s", side->completed,
		     side->planned, qp_state_name(side->qp->state));
}

void talk_check_end(struct talk *talk)
{
	unsigned i;

	for (i = 0; i < 2; i++) {
		struct side *side = &talk->side[i];

		check_side(side);
		check_counter(side);
		memory_judge(&side->memory, i ? "side 1" : "side 0");
		if (!side->host->crashed)
			host_check_idle(side->host);
	}
}
