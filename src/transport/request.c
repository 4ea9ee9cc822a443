/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A work request on the wire: opcode, headers and payload range of each of its packets, its PSNs
 * and their cost. A packet is a function of the request and the PSN alone, so a retransmission
 * needs no memory of the first transmission.
 *
 * A long READ is asked for in several READ requests, each with its own RETH and PSN range
 * (wqe->chunk_bytes), because the responder has nothing to pace its answers by. A retried request
 * asks for the rest of its piece (IBTA 9.7.5.1.9: inside the original's range).
 */
#include <assert.h>

#include "object/placement.h"
#include "transport/internal.h"

const char *wqe_name(const struct send_wqe *wqe)
{
	unsigned opcode = wqe->opcode == WR_FAULTY ? wqe->imm : (unsigned)wqe->opcode;

	return opcode < WR_FAULTY && wr_rows[opcode].name ? wr_rows[opcode].name : "request";
}

uint32_t wqe_psns(const struct qp *qp, const struct send_wqe *wqe)
{
	if (qp_is(qp, QP_DATAGRAM) || wqe_is_atomic(wqe))
		return 1;
	return packets_for(qp, wqe->length);
}

/* Where the READ request that asks for the byte at @offset ends. */
static uint64_t chunk_end_bytes(const struct send_wqe *wqe, uint64_t offset)
{
	uint64_t end = offset - offset % wqe->chunk_bytes + wqe->chunk_bytes;

	return end < wqe->length ? end : wqe->length;
}

uint32_t wqe_chunk_end(const struct qp *qp, const struct send_wqe *wqe, uint32_t psn)
{
	uint64_t offset = offset_of(qp, psn, wqe->first_psn);

	if (wqe->opcode != IBV_WR_RDMA_READ)
		return psn_add(psn, 1);
	return psn_add(wqe->first_psn, packets_for(qp, chunk_end_bytes(wqe, offset)));
}

uint32_t wqe_cost(const struct qp *qp, const struct send_wqe *wqe, uint32_t from, uint32_t to)
{
	uint32_t packets = (to - from) & PSN_MASK;
	uint64_t start, whole;

	if (wqe_is_atomic(wqe))
		return packets * packet_cost(8);
	start = offset_of(qp, from, wqe->first_psn);
	whole = (wqe->length - start) >> mtu_shift(qp);
	if (whole >= packets)
		return packets * packet_cost(qp->mtu);
	return (uint32_t)whole * packet_cost(qp->mtu) +
	       packet_cost((uint32_t)(wqe->length - start) & (qp->mtu - 1));
}

struct send_wqe *request_at(const struct qp *qp, uint32_t *number, uint32_t psn)
{
	for (; *number != qp->sq.sent; ++*number) {
		struct send_wqe *wqe = send_queue_at(&qp->sq, *number);

		if (wqe->state == WQE_FAILED)
			return NULL;
		if (!wqe_is_local(wqe) && psn_diff(psn, wqe->last_psn) <= 0)
			return wqe;
	}
	return NULL;
}

enum flavour { PLAIN, IMM, INV };

/* The RC codes: packet_begin() makes those of the service of them. */
static const uint8_t send_code[4][3] = {
	[PART_FIRST]  = { OPCODE_RC_SEND_FIRST, OPCODE_RC_SEND_FIRST, OPCODE_RC_SEND_FIRST },
	[PART_MIDDLE] = { OPCODE_RC_SEND_MIDDLE, OPCODE_RC_SEND_MIDDLE, OPCODE_RC_SEND_MIDDLE },
	[PART_LAST]   = { OPCODE_RC_SEND_LAST, OPCODE_RC_SEND_LAST_IMM, OPCODE_RC_SEND_LAST_INV },
	[PART_ONLY]   = { OPCODE_RC_SEND_ONLY, OPCODE_RC_SEND_ONLY_IMM, OPCODE_RC_SEND_ONLY_INV },
};
static const uint8_t write_code[4][2] = {
	[PART_FIRST]  = { OPCODE_RC_WRITE_FIRST, OPCODE_RC_WRITE_FIRST },
	[PART_MIDDLE] = { OPCODE_RC_WRITE_MIDDLE, OPCODE_RC_WRITE_MIDDLE },
	[PART_LAST]   = { OPCODE_RC_WRITE_LAST, OPCODE_RC_WRITE_LAST_IMM },
	[PART_ONLY]   = { OPCODE_RC_WRITE_ONLY, OPCODE_RC_WRITE_ONLY_IMM },
};

static uint32_t fill_message(const struct qp *qp, const struct send_wqe *wqe, uint32_t psn,
			     struct packet *packet) REQUIRES(qp->lock)
{
	bool first = psn == wqe->first_psn, last = psn == wqe->last_psn;
	enum part part = first ? (last ? PART_ONLY : PART_FIRST) : last ? PART_LAST : PART_MIDDLE;
	bool write = wqe_is_write(wqe);
	enum flavour flavour = wr_is(wqe->opcode, WR_HAS_IMM) ? IMM : wr_is(wqe->opcode, WR_HAS_INV) ? INV : PLAIN;
	uint64_t offset = offset_of(qp, psn, wqe->first_psn);
	uint8_t code = write ? write_code[part][flavour] : send_code[part][flavour];

	packet_begin(qp, packet, code, psn);
	packet->payload_bytes = last ? wqe->length - offset : qp->mtu;
	packet->imm_follows = !last && wqe->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
	packet->solicited = last && (wqe->flags & IBV_SEND_SOLICITED) && wqe_needs_receive(wqe);
	packet->ack_request = last && qp_is(qp, QP_RELIABLE);
	packet->imm = packet->invalidate_rkey = wqe->imm;
	packet->reth.address = wqe->remote_address;
	packet->reth.rkey = wqe->rkey;
	packet->reth.length = wqe->length;
	return psn_add(psn, 1);
}

static uint32_t fill_read(const struct qp *qp, const struct send_wqe *wqe, uint32_t psn,
			  struct packet *packet) REQUIRES(qp->lock)
{
	uint64_t offset = offset_of(qp, psn, wqe->first_psn);

	packet_begin(qp, packet, OPCODE_RC_READ_REQUEST, psn);
	packet->ack_request = true;
	packet->reth.address = wqe->remote_address + offset;
	packet->reth.rkey = wqe->rkey;
	packet->reth.length = (uint32_t)(chunk_end_bytes(wqe, offset) - offset);
	packet->imm_follows = chunk_end_bytes(wqe, offset) != wqe->length;
	return wqe_chunk_end(qp, wqe, psn);
}

static uint32_t fill_atomic(const struct qp *qp, const struct send_wqe *wqe, uint32_t psn,
			    struct packet *packet) REQUIRES(qp->lock)
{
	bool swap = wqe->opcode == IBV_WR_ATOMIC_CMP_AND_SWP;

	packet_begin(qp, packet, swap ? OPCODE_RC_COMPARE_SWAP : OPCODE_RC_FETCH_ADD, psn);
	packet->ack_request = true;
	packet->atomic.address = wqe->remote_address;
	packet->atomic.rkey = wqe->rkey;
	packet->atomic.swap_add = swap ? wqe->swap : wqe->compare_add;
	packet->atomic.compare = swap ? wqe->compare_add : 0;
	return psn_add(psn, 1);
}

static uint32_t fill_placement(const struct qp *qp, const struct send_wqe *wqe, uint32_t psn,
			       struct packet *packet) REQUIRES(qp->lock)
{
	bool flush = (int)wqe->opcode == WR_FLUSH;

	packet_begin(qp, packet, flush ? OPCODE_RC_FLUSH : OPCODE_RC_ATOMIC_WRITE, psn);
	packet->ack_request = true;
	packet->payload_bytes = flush ? 0 : PLACEMENT_WORD;
	packet->feth.type = wqe->flush.type;
	packet->feth.level = wqe->flush.level;
	packet->reth.address = wqe->remote_address;
	packet->reth.rkey = wqe->rkey;
	packet->reth.length = flush ? wqe->flush.bytes : PLACEMENT_WORD;
	return psn_add(psn, 1);
}

uint32_t wqe_packet(const struct qp *qp, const struct send_wqe *wqe, uint32_t psn,
		    struct packet *packet)
{
	uint32_t end;

	assert(!wqe_is_local(wqe));
	if (wqe->opcode == IBV_WR_RDMA_READ)
		end = fill_read(qp, wqe, psn, packet);
	else if (wqe_is_atomic(wqe))
		end = fill_atomic(qp, wqe, psn, packet);
	else if (wqe_is_placement(wqe))
		end = fill_placement(qp, wqe, psn, packet);
	else
		end = fill_message(qp, wqe, psn, packet);
	packet->srqn = wqe->remote_srqn;
	return end;
}
