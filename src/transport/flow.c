/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Marks, echoes, turns and patience: see flow.h.
 *
 * The three counters only grow, except when unused bytes are given back. So a mark that another QP
 * made between a take and its return may lie beyond taken_bytes: it is clamped.
 */
#include "transport/flow.h"

#include <assert.h>

#include "object/qp.h"
#include "transport/path.h"
#include "transport/run_queue.h"

#define DEAF_CHUNKS 16u		/* chunks between marks while no QP waits for them */
/*
 * Linux accounts a datagram with its struct sk_buff and a buffer that also holds its headers and
 * struct skb_shared_info, of 576 bytes or of a power of two (measured, 6.18; older ones alike).
 */
#define SKB_BYTES	256u
#define SKB_BUFFER_MIN	576u
#define SKB_OVERHEAD	448u	/* in the buffer, beside the payload of the packet */
#define SEGMENT_OVERHEAD 128u	/* of a further segment, its headers included */
#define CELL_OVERHEAD	128u	/* headers, and what is rounded up */
#define MEMORY_COST_MIN	1024u	/* for fewer small packets than receivers have receives */

uint32_t flow_cost(uint32_t payload_bytes)
{
	uint32_t needed = payload_bytes + SKB_OVERHEAD;

	if (needed <= SKB_BUFFER_MIN)
		return SKB_BYTES + SKB_BUFFER_MIN;
	return SKB_BYTES + (1u << (32 - __builtin_clz(needed - 1)));
}

uint32_t flow_cost_joined(uint32_t payload_bytes)
{
	return payload_bytes + SEGMENT_OVERHEAD;
}

uint32_t flow_cost_memory(uint32_t payload_bytes)
{
	uint32_t needed = payload_bytes + CELL_OVERHEAD;

	return needed < MEMORY_COST_MIN ? MEMORY_COST_MIN : needed;
}

void flow_init(struct flow *flow)
{
	list_init(&flow->waiting);
	flow->patience_ns = FLOW_PATIENCE_UNHEARD_NS;
}

/* RC's share of the same socket buffer is bounded by its own window; this leaves room for it. */
static uint32_t limit_of(const struct path *path) REQUIRES(path->lock)
{
	if (!path->flow.heard)
		return FLOW_LIMIT_UNHEARD;
	if (atomic_load_explicit(&path->flow.memory, memory_order_relaxed))
		return FLOW_LIMIT_MEMORY;
	if (path->in_flight_bytes > FLOW_LIMIT - FLOW_LIMIT_MIN)
		return FLOW_LIMIT_MIN;
	return FLOW_LIMIT - path->in_flight_bytes;
}

static uint64_t in_flight(const struct flow *flow)
{
	return flow->taken_bytes - flow->released_bytes;
}

/* An idle flow has room for one packet, whatever its cost. */
static bool flow_has_room(const struct path *path, uint32_t bytes) REQUIRES(path->lock)
{
	uint64_t used = in_flight(&path->flow);

	return path->flow.deaf || used == 0 || used + bytes <= limit_of(path);
}

static void flow_wake_next(struct path *path, struct run_queue *queue) REQUIRES(path->lock)
{
	struct flow *flow = &path->flow;
	struct qp *qp;

	if (list_empty(&flow->waiting))
		return;
	qp = list_entry(flow->waiting.next, struct qp, wait_node);
	if (!flow_has_room(path, qp->requester.blocked_bytes))
		return;
	list_remove(&qp->wait_node);
	qp->requester.path_turn = true;
	run_queue_add(queue, qp);
}

/* A QP that had its turn but found too little room keeps its place. */
static void flow_wait_for_room(struct path *path, struct qp *qp, const struct flow_ask *ask)
	REQUIRES(qp->lock)
{
	struct flow *flow = &path->flow;
	bool keeps_place = qp->requester.path_turn && qp->requester.blocked;

	if (list_empty(&flow->waiting))
		flow->stalled_ns = ask->now_ns;
	if (list_empty(&qp->wait_node))
		list_add_tail(keeps_place ? flow->waiting.next : &flow->waiting, &qp->wait_node);
	qp->requester.path_turn = false;
	qp->requester.blocked = path;
	qp->requester.blocked_bytes = ask->alone;
	qp->requester.blocked_until_ns = flow->stalled_ns + flow->patience_ns;
}

/* How much of the bytes asked for has room. */
static uint32_t room_for(const struct path *path, const struct flow_ask *ask) REQUIRES(path->lock)
{
	uint32_t limit = limit_of(path), chunk = limit / FLOW_CHUNKS;
	uint32_t most = ask->wanted < chunk ? ask->wanted : chunk;
	uint64_t used = in_flight(&path->flow);

	if (!flow_has_room(path, ask->least))
		return 0;
	if (!path->flow.deaf && used < limit && most > limit - used)
		most = (uint32_t)(limit - used);
	return most > ask->least ? most : ask->least;
}

/* Mark the very first packet, to learn early whether the peer echoes. */
static bool needs_mark(const struct path *path) REQUIRES(path->lock)
{
	const struct flow *flow = &path->flow;
	uint32_t every = limit_of(path) / FLOW_CHUNKS;

	if (flow->deaf)
		every *= DEAF_CHUNKS;
	return !flow->marks || flow->taken_bytes - flow->marked_bytes >= every;
}

uint32_t flow_take(struct path *path, struct qp *qp, const struct flow_ask *ask, bool *mark)
{
	struct flow *flow = &path->flow;
	uint32_t granted = 0;

	*mark = false;
	lock_acquire(&path->lock);
	if (qp->requester.path_turn || list_empty(&flow->waiting))
		granted = room_for(path, ask);
	if (granted) {
		*mark = needs_mark(path);
		if (*mark) {
			flow->marked_bytes = flow->taken_bytes + ask->least;
			flow->mark[flow->marks++ % FLOW_MARKS] = (struct flow_mark){
				.qpn = qp->number, .psn = ask->psn, .upto = flow->marked_bytes };
		}
		flow->taken_bytes += granted;
		if (flow->deaf)
			flow->released_bytes = flow->taken_bytes;
		qp->requester.blocked = NULL;
	} else {
		flow_wait_for_room(path, qp, ask);
	}
	lock_release(&path->lock);
	return granted;
}

void flow_done(struct path *path, struct run_queue *queue, struct qp *qp, uint32_t unused_bytes)
{
	bool turn_ends = !qp->requester.blocked && qp->requester.path_turn;
	struct flow *flow = &path->flow;

	if (!unused_bytes && !turn_ends)
		return;
	lock_acquire(&path->lock);
	assert(unused_bytes <= flow->taken_bytes);
	flow->taken_bytes -= unused_bytes;
	if (flow->released_bytes > flow->taken_bytes)
		flow->released_bytes = flow->taken_bytes;
	if (flow->marked_bytes > flow->taken_bytes)	/* see above */
		flow->marked_bytes = flow->taken_bytes;
	if (turn_ends)
		qp->requester.path_turn = false;
	flow_wake_next(path, queue);
	lock_release(&path->lock);
}

void flow_leave(struct run_queue *queue, struct qp *qp)
{
	struct path *path = qp->requester.blocked;

	if (!path)
		return;
	lock_acquire(&path->lock);
	if (!list_empty(&qp->wait_node))
		list_remove(&qp->wait_node);
	qp->requester.blocked = NULL;
	if (qp->requester.path_turn) {
		qp->requester.path_turn = false;
		flow_wake_next(path, queue);
	}
	lock_release(&path->lock);
}

static const struct flow_mark *find_mark(const struct flow *flow, uint32_t qpn, uint32_t psn)
{
	unsigned i;

	for (i = 0; i < FLOW_MARKS; i++)
		if (flow->mark[i].qpn == qpn && flow->mark[i].psn == psn)
			return &flow->mark[i];
	return NULL;
}

static void release_upto(struct flow *flow, uint64_t upto)
{
	if (upto > flow->taken_bytes)
		upto = flow->taken_bytes;
	if (upto > flow->released_bytes)
		flow->released_bytes = upto;
}

bool flow_echoed(struct path *path, struct run_queue *queue, uint32_t qpn, uint32_t psn, bool memory,
		 uint64_t now_ns)
{
	struct flow *flow = &path->flow;
	const struct flow_mark *mark;

	lock_acquire(&path->lock);
	mark = qpn ? find_mark(flow, qpn, psn) : NULL;
	if (mark) {
		/* Nothing is known about bytes sent to a deaf peer. */
		release_upto(flow, flow->deaf ? flow->taken_bytes : mark->upto);
		flow->heard = true;
		atomic_store_explicit(&flow->memory, memory, memory_order_relaxed);
		flow->deaf = false;
		flow->patience_ns = FLOW_PATIENCE_NS;
		flow->stalled_ns = now_ns;
		flow_wake_next(path, queue);
	}
	lock_release(&path->lock);
	return mark;
}

bool flow_expire(struct run_queue *queue, struct qp *qp, uint64_t now_ns)
{
	struct path *path = qp->requester.blocked;
	struct flow *flow = &path->flow;
	bool expired;

	lock_acquire(&path->lock);
	expired = !qp->requester.path_turn && now_ns - flow->stalled_ns >= flow->patience_ns;
	if (expired) {
		release_upto(flow, flow->taken_bytes);
		flow->stalled_ns = now_ns;
		flow->patience_ns *= 2;
		flow->deaf = flow->patience_ns > FLOW_PATIENCE_MAX_NS;
		flow_wake_next(path, queue);
	}
	qp->requester.blocked_until_ns = qp->requester.path_turn ?
		now_ns + flow->patience_ns : flow->stalled_ns + flow->patience_ns;
	lock_release(&path->lock);
	return expired;
}
