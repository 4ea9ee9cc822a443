/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One call of unreliable_transmit(): the bytes granted by a flow (flow.h) and not used yet. With UD
 * the path changes with the destination.
 */
#ifndef VERBATIM_TRANSPORT_STREAM_H
#define VERBATIM_TRANSPORT_STREAM_H

#include "transport/internal.h"

struct stream {
	struct transmit *transmit;
	struct path *path;		/* NULL: none yet, or one without flow control */
	struct ah *ah;			/* UD: held longer than the request, for @path needs it */
	uint32_t granted;		/* bytes taken and not used yet */
	bool begun;			/* @payload_bytes are those of the packet before */
	uint32_t payload_bytes;
};

/* May the next packet leave? *mark: it asks for an echo. False: no room, here or at the peer. */
bool stream_admits(struct stream *stream, const struct send_wqe *wqe, bool *mark)
	REQUIRES(stream->transmit->call->qp->lock);
/* Give back the unused bytes, and the turn. */
void stream_end(struct stream *stream) REQUIRES(stream->transmit->call->qp->lock);

#endif
