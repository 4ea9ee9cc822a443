/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Flow control of a stream, one direction, as pure arithmetic. The receiver owns a ring of memory;
 * the sender writes into it (RDMA WRITE with immediate) and each write takes one posted receive.
 * So two things run out, bytes of the ring and receives, and the receiver gives both back in
 * CREDIT messages, as totals since the start, which cannot get out of step.
 *
 *	sender: sent - released <= size, messages - taken <= limit
 *
 * A CREDIT goes out when half of either has been used since the last one. So at most two CREDITs
 * caused by bytes and two caused by messages can be on their way before the sender looks at
 * them: RS_CONTROL_RESERVE receives that data never takes are enough for those and for the end.
 */
#ifndef VERBATIM_RSOCKETS_FLOW_H
#define VERBATIM_RSOCKETS_FLOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { RS_CONTROL_RESERVE = 8 };

/* What this side may still send. */
struct rs_flow_out {
	uint64_t sent, released;	/* bytes since the start */
	uint32_t size;			/* bytes of the peer's ring */
	uint32_t messages, taken;	/* since the start, modulo 2^32 */
	uint32_t limit;			/* messages that may be on their way */
};

/* What has arrived here. */
struct rs_flow_in {
	uint64_t arrived, taken, credited;	/* bytes: in the ring, read from it, in a CREDIT */
	uint32_t size;
	uint32_t messages, messages_credited;
	uint32_t limit;
};

/* Urgent data (TCP's): one byte of the stream. Positions count bytes since the start, as those above. */
struct rs_urgent {
	bool there;			/* one has come, and was not skipped */
	bool taken;			/* by MSG_OOB */
	uint64_t at;
};

static inline size_t rs_least(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* Bytes from @position of a ring of @size to its end. */
static inline size_t rs_contiguous(uint64_t position, uint32_t size)
{
	return size - (size_t)(position % size);
}

static inline bool rs_flow_out_message(const struct rs_flow_out *flow)
{
	return flow->messages - flow->taken < flow->limit;
}

/* Bytes that the next message may carry: they fit and do not wrap. */
static inline size_t rs_flow_out_room(const struct rs_flow_out *flow)
{
	if (!rs_flow_out_message(flow))
		return 0;
	return rs_least(flow->size - (size_t)(flow->sent - flow->released),
			rs_contiguous(flow->sent, flow->size));
}

static inline void rs_flow_out_sent(struct rs_flow_out *flow, size_t bytes)
{
	flow->sent += bytes;
	flow->messages++;
}

/* Totals of a CREDIT. False: no honest peer says that. */
static inline bool rs_flow_out_credit(struct rs_flow_out *flow, uint64_t bytes, uint32_t messages)
{
	if (bytes < flow->released || bytes > flow->sent)
		return false;
	if (messages - flow->taken > flow->messages - flow->taken)
		return false;
	flow->released = bytes;
	flow->taken = messages;
	return true;
}

/* A message of @bytes was written. False: it cannot lie in the ring as the sender must put it. */
static inline bool rs_flow_in_arrived(struct rs_flow_in *flow, size_t bytes)
{
	if (!bytes || bytes > flow->size - (size_t)(flow->arrived - flow->taken) ||
	    bytes > rs_contiguous(flow->arrived, flow->size))
		return false;
	flow->arrived += bytes;
	flow->messages++;
	return true;
}

static inline size_t rs_flow_in_available(const struct rs_flow_in *flow)
{
	return (size_t)(flow->arrived - flow->taken);
}

/* The last byte that has arrived is urgent; an earlier one is not any more. */
static inline void rs_urgent_arrived(struct rs_urgent *urgent, const struct rs_flow_in *flow)
{
	*urgent = (struct rs_urgent){ .there = true, .at = flow->arrived - 1 };
}

/* Can MSG_OOB read it, with @position bytes read so far? It is in the ring until a read has passed it. */
static inline bool rs_urgent_waits(const struct rs_urgent *urgent, uint64_t position)
{
	return urgent->there && !urgent->taken && urgent->at >= position;
}

/* Is @position at the mark? It is even when the byte was taken by MSG_OOB. */
static inline bool rs_urgent_is_next(const struct rs_urgent *urgent, uint64_t position)
{
	return urgent->there && urgent->at == position;
}

/* Does a read at @position begin with it, and skip it? With SO_OOBINLINE it is a byte like others. */
static inline bool rs_urgent_is_skipped(const struct rs_urgent *urgent, uint64_t position, bool in_line)
{
	return rs_urgent_is_next(urgent, position) && !in_line;
}

/* Of @available bytes from @position on: those in front of the mark, at which a read ends. */
static inline size_t rs_urgent_limit(const struct rs_urgent *urgent, uint64_t position, size_t available)
{
	return urgent->there && urgent->at > position
		       ? rs_least(available, (size_t)(urgent->at - position))
		       : available;
}

static inline bool rs_flow_in_credit_due(const struct rs_flow_in *flow)
{
	return flow->taken - flow->credited >= (flow->size + 1) / 2 ||
	       flow->messages - flow->messages_credited >= (flow->limit + 1) / 2;
}

static inline void rs_flow_in_credit_sent(struct rs_flow_in *flow)
{
	flow->credited = flow->taken;
	flow->messages_credited = flow->messages;
}

#endif
