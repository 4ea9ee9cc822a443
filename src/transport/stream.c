/* SPDX-License-Identifier: BSD-2-Clause */
/* The use of flows by one transmit of a UC or UD QP. See stream.h. */
#include "transport/stream.h"

#include "transport/ah_path.h"

void stream_end(struct stream *stream)
{
	struct qp *qp = stream->transmit->call->qp;

	lock_alias(&qp->lock);
	if (stream->path)
		flow_done(stream->path, qp->transport->run_queue, qp, stream->granted);
	if (stream->ah)
		ah_put(stream->ah);
	stream->path = NULL;
	stream->ah = NULL;
	stream->granted = 0;
	stream->begun = false;
}

static bool goes_through_memory(const struct stream *stream)
{
	return atomic_load_explicit(&stream->path->flow.memory, memory_order_relaxed);
}

/* The cost of the next packet. Equal packets in a row become one datagram, which costs less. */
static uint32_t next_cost(struct stream *stream, const struct send_wqe *wqe, uint32_t *alone)
	REQUIRES(stream->transmit->call->qp->lock)
{
	struct qp *qp = stream->transmit->call->qp;
	uint32_t psn = qp->requester.send_psn;
	uint64_t left = wqe->length - offset_of(stream->transmit->call->qp, psn, wqe->first_psn);
	uint32_t bytes = left < qp->mtu ? (uint32_t)left : qp->mtu;
	bool joins = stream->begun && stream->payload_bytes == bytes;

	lock_alias(&qp->lock);
	stream->begun = true;
	stream->payload_bytes = bytes;
	if (goes_through_memory(stream))
		return *alone = flow_cost_memory(bytes);
	*alone = flow_cost(bytes);
	return joins ? flow_cost_joined(bytes) : *alone;
}

/* As for RC: room for the rest of this message, or of the queue when messages are small. */
static uint32_t stream_is_wanted(const struct stream *stream, const struct send_wqe *wqe,
				 uint32_t cost) REQUIRES(stream->transmit->call->qp->lock)
{
	const struct transmit *transmit = stream->transmit;
	const struct qp *qp = transmit->call->qp;
	uint32_t packets = ((wqe->last_psn - qp->requester.send_psn) & PSN_MASK) + 1;

	if (packets == 1)
		packets = qp->sq.head - qp->sq.tail;
	if (packets > transmit->budget)
		packets = transmit->budget;
	return cost + (packets - 1) * (goes_through_memory(stream) ?
					       flow_cost_memory(stream->payload_bytes) :
					       flow_cost_joined(stream->payload_bytes));
}

bool stream_admits(struct stream *stream, const struct send_wqe *wqe, bool *mark)
{
	struct qp *qp = stream->transmit->call->qp;
	struct flow_ask ask = { .psn = qp->requester.send_psn,
				.now_ns = stream->transmit->call->now_ns };
	struct path *path;
	uint32_t cost, more;

	lock_alias(&qp->lock);
	*mark = false;
	if (!transmit_has_room(stream->transmit))
		return false;
	if (qp_is(qp, QP_DATAGRAM))
		path = ah_path_find(wqe->ah, wqe->remote_qpn);
	else	/* slot 0 is never a Verbatim process */
		path = qp->path && qp->path->key.slot ? qp->path : NULL;
	if (path != stream->path) {
		stream_end(stream);
		stream->path = path;
		if (path && wqe->ah) {
			stream->ah = wqe->ah;
			ah_get(stream->ah);
		}
	}
	if (!stream->path)
		return true;
	cost = next_cost(stream, wqe, &ask.alone);
	if (stream->granted < cost) {
		ask.least = cost - stream->granted;
		ask.wanted = stream_is_wanted(stream, wqe, ask.least);
		more = flow_take(stream->path, qp, &ask, mark);
		if (!more)
			return false;
		stream->granted += more;
	}
	stream->granted -= cost;
	return true;
}
