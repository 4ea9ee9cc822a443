/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages, the requester's part: sends a SEND, or a WRITE behind one, through the ring of the
 * peer's channel (transport/message.h: which requests; local/channel/ring.h: transport and answers).
 *
 * Small messages contain their data (eager). The peer fetches that of large ones (rendezvous), in
 * one copy, from our address space or from a block that it maps; the message names the place by
 * grants of the regions.
 */
#include "local/move/internal.h"

#include <errno.h>
#include <string.h>

#include "object/mr.h"
#include "platform/clock.h"
#include "trace/trace.h"
#include "transport/local.h"

_Static_assert(MESSAGE_WORDS == RING_HEAD_WORDS, "a message's head is that of a cell");

/*
 * Longer messages from mapped blocks are fetched (found by bench/run --filter inside). For others
 * the limit is MESSAGE_EAGER_MAX: a copy between address spaces takes system calls, and where it is
 * forbidden packets are as good beyond that. With 4 KiB there SENDs of 8 KiB had a third of the
 * bandwidth.
 */
#define EAGER_MAPPED_MAX 2048u
#define SGES_MAX	32u

enum way { EAGER, RENDEZVOUS, PACKETS };

uint64_t message_token(uint32_t channel, uint32_t cell)
{
	return (uint64_t)channel << 32 | cell;
}

/* Does the peer map all of the data, as blocks granted to it? */
static bool is_mapped(struct peer *peer, const struct send_wqe *wqe)
{
	uint32_t i;

	for (i = 0; i < wqe->sge_count; i++)
		if (wqe->sge[i].length &&
		    !grant_is_mapped(&peer->grants, GRANT_REGION, wqe->sge[i].lkey))
			return false;
	return true;
}

static enum way choose_way(struct peer *peer, const struct send_wqe *wqe, bool copies)
{
	if ((wqe->flags & IBV_SEND_INLINE) || wqe->length <= EAGER_MAPPED_MAX)
		return EAGER;
	if (is_mapped(peer, wqe))
		return RENDEZVOUS;
	if (wqe->length <= MESSAGE_EAGER_MAX)
		return EAGER;
	return copies ? RENDEZVOUS : PACKETS;
}

/*
 * The pieces that the SGEs name, checked as the transport does. False: a key is not valid, or there
 * is no room.
 */
static bool find_pieces(struct local *local, struct qp *qp, struct peer *peer,
			const struct send_wqe *wqe, struct message_piece *piece) REQUIRES(qp->lock)
{
	struct mr_accessor accessor = { .pd = qp_send_pd(qp), .qpn = qp->number };
	uint32_t i;

	for (i = 0; i < wqe->sge_count; i++) {
		const struct ibv_sge *sge = &wqe->sge[i];
		struct mr_access access;

		piece[i] = (struct message_piece){ .length = sge->length };
		if (!sge->length)
			continue;
		if (mr_access_begin(local->mrs, &accessor, sge->lkey, 0, sge->addr, sge->length,
				    &access) != MR_OK)
			return false;
		piece[i].address = (uintptr_t)access.host;
		piece[i].region = pairing_grant_region(local, peer, sge->lkey);
		grant_offer(local, peer, sge->lkey);
		mr_access_end(&access);
		if (!piece[i].region)
			return false;
	}
	return true;
}

/* @piece NULL: with its data. True: sent. False with @full: wait for room. */
static bool send_put(struct local *local, struct qp *qp, struct send_wqe *wqe,
		     uint32_t channel, const struct message_piece *piece, bool *full) REQUIRES(qp->lock)
{
	struct ring_room room;
	int err = piece && !ring_may_fetch(local->channel_link, channel, wqe->length)
			  ? EAGAIN
			  : ring_send_begin(local->channel_link, channel,
					    transport_message_bytes(qp, wqe, piece), &room);

	*full = err == EAGAIN;
	if (err)
		return false;
	if (!transport_message_write(qp, wqe, piece, room.head, room.data)) {
		ring_send_cancel(&room);
		return false;
	}
	room.fetched = piece ? wqe->length : 0;
	if (trace_wants(TRACE_PACKETS | TRACE_LOG))
		trace_message_sent(qp, wqe);
	ring_send_end(local->channel_link, &room, qp->number);
	transport_message_sent(qp, wqe, message_token(channel, room.number), clock_coarse_ns());
	return true;
}

bool message_send(struct local *local, struct qp *qp, struct send_wqe *wqe)
{
	struct peer *peer = peer_of_slot(local, qpn_slot(qp->attr.dest_qp_num));
	struct message_piece piece[SGES_MAX];	/* not cleared: most messages have none */
	bool full = false, sent = false;
	enum way way;

	if (peer && ring_reach(local->channel_link, peer->channel) & RING_MESSAGES &&
	    pairing_establish(local, qp, peer)) {
		way = choose_way(peer, wqe, peer_both_copy(local, peer));
		sent = way != PACKETS && (way == EAGER || find_pieces(local, qp, peer, wqe, piece)) &&
		       send_put(local, qp, wqe, peer->channel, way == EAGER ? NULL : piece, &full);
	}
	pairing_judge(qp, sent ? PAIRING_DONE : full ? PAIRING_WAITS : PAIRING_OBJECTS);
	return sent;
}

void local_check_progress(struct local *local, struct qp *qp, uint64_t now_ns)
{
	uint32_t channel = local_channel(local, qpn_slot(qp->attr.dest_qp_num));

	if (channel != LOCAL_NO_CHANNEL)
		transport_message_progress(qp, ring_progress(local->channel_link, channel), now_ns);
}

/*
 * Whatever of @qp is in the ring now was put there before ring_put_count(). A peer that is alive takes it, be it
 * to drop it: one that does not is stopped, frozen, or starved, also where the kernel does not tell which.
 */
enum presence local_presence(const struct local *local, struct qp *qp)
{
	uint32_t channel = local_channel(local, qpn_slot(qp->attr.dest_qp_num)), put;
	struct pairing *pairing = &qp->pairing;
	bool waited = pairing->presence_waits;

	pairing->presence_waits = false;
	if (channel == LOCAL_NO_CHANNEL)
		return PRESENCE_UNKNOWN;
	put = waited ? pairing->presence_put : ring_put_count(local->channel_link, channel);
	if (ring_has_taken(local->channel_link, channel, put))
		return PRESENCE_UNKNOWN;
	pairing->presence_put = put;
	pairing->presence_waits = true;
	return waited ? PRESENCE_STOPPED : PRESENCE_SLOW;
}

bool local_await_answers(struct local *local, struct qp *qp)
{
	uint32_t channel = local_channel(local, qpn_slot(qp->attr.dest_qp_num));

	return channel != LOCAL_NO_CHANNEL &&
	       (cq_is_armed(qp->send_cq) || qp->sq.sent != qp->sq.head ||
		qp->state == IBV_QPS_SQD) &&
	       ring_await_answers(local->channel_link, channel);
}

bool local_await_all(struct local *local)
{
	unsigned count, i;
	bool came = false;

	if (!local->channel_link)
		return false;
	count = ring_channels(local->channel_link);
	for (i = 0; i < count; i++)
		came |= ring_await_answers(local->channel_link, i);
	return came;
}
