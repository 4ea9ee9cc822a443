/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Faults on purpose, on the way out: each packet of a batch is a datagram of its own, judged before it leaves.
 * Damage shows where an ICRC is checked: by the receiver of a UDP datagram. Inside the host none is, and the
 * packet is dropped here in its stead.
 */
#include <string.h>

#include "engine/injection.h"
#include "engine/internal.h"
#include "engine/links.h"
#include "engine/wake.h"
#include "host/slot.h"
#include "platform/clock.h"
#include "trace/trace.h"

#define HELD_MAX	1024u		/* packets that are sent in one round */

/* @datagram is sealed. @note: NULL: of no QP but QP1. True: it leaves now, perhaps damaged. */
static bool tx_apply_faults(struct engine *engine, struct link *way, struct datagram *datagram,
			    const struct inject_packet *what, const struct tx_note *note)
{
	const struct tx_seen seen = { .datagram = datagram, .way = way, .data = datagram->data,
				      .bytes = datagram->bytes, .qpn = what->own_qpn, .note = note };
	uint64_t now_ns = clock_now_ns();
	struct inject_verdict verdict;

	injection_judge(engine, what, now_ns, &verdict);
	if (trace_wants(TRACE_PACKETS | TRACE_LOG))
		tx_trace_packet(engine, &seen, verdict.lost || verdict.corrupt);
	if (verdict.lost || (verdict.corrupt && way != engine->links[ROUTE_ROCE_V2]))
		return false;
	if (verdict.corrupt)
		inject_damage(&verdict, datagram->data, datagram->bytes);
	if (verdict.twice)
		injection_hold(engine, datagram, what, &verdict, true, way, now_ns);
	if (!injection_delays(&verdict, now_ns))
		return true;
	injection_hold(engine, datagram, what, &verdict, false, way, now_ns);
	return false;
}

void injection_send(struct engine *engine, struct qp *qp, struct tx_batch *batch)
{
	struct inject_packet sender = { .outbound = true };
	uint32_t first_psn[2];
	unsigned i;

	lock_acquire(&qp->lock);
	sender.qp = qp->ordinal;
	sender.own_qpn = qp->number;
	sender.is_sequenced = !qp_is(qp, QP_DATAGRAM);
	sender.peer_qpn = qp->attr.dest_qp_num;
	first_psn[false] = qp->attr.sq_psn;
	first_psn[true] = qp->attr.rq_psn;	/* answers have the PSNs of the peer's requests */
	lock_release(&qp->lock);
	for (i = 0; i < batch->count; i++) {
		struct inject_packet what;
		struct datagram datagram;
		struct packet packet;
		struct link *way = tx_prepare_one(engine, batch, i, &datagram);

		if (packet_parse(datagram.data, datagram.bytes, &packet) != PARSE_OK)
			continue;
		injection_describe(&packet, &datagram, NULL, &what);
		what.outbound = true;
		what.qp = sender.qp;
		what.own_qpn = sender.own_qpn;
		what.peer_qpn = packet.dest_qpn;
		what.is_sequenced = sender.is_sequenced;
		what.first_psn = first_psn[opcode_is_response(packet.op)];
		memcpy(what.peer, datagram.destination, 16);
		if (tx_apply_faults(engine, way, &datagram, &what, tx_batch_note(batch, i)))
			tx_send_one(engine, way, &datagram);
	}
	tx_batch_reset(batch);
	trace_throttle();
	if (loopback_pending(engine->loopback))
		worker_wake_at(engine, 0);
}

bool injection_passes_management(struct engine *engine, struct datagram *datagram)
{
	struct inject_packet what;
	struct packet packet;
	bool passes;

	if (packet_parse(datagram->data, datagram->bytes, &packet) != PARSE_OK)
		return true;
	injection_describe(&packet, datagram, NULL, &what);
	what.outbound = true;
	memcpy(what.peer, datagram->destination, 16);
	passes = tx_apply_faults(engine, links_find(engine, datagram), datagram, &what, NULL);
	engine_after_unlock(engine);
	return passes;
}

/* The channel may have gone meanwhile, and its number be another one's. */
static bool has_way(struct engine *engine, struct held *held)
{
	uint32_t channel;

	if (held->way != engine->local.channel_link)
		return true;
	channel = local_channel(&engine->local, qpn_slot(held->dest_qpn));
	held->datagram.channel = (uint16_t)channel;
	return channel != LOCAL_NO_CHANNEL;
}

void injection_send_held(struct engine *engine, uint64_t now_ns)
{
	struct held *held;
	unsigned n;

	for (n = 0; n < HELD_MAX && (held = injection_take(engine, true, now_ns)); n++) {
		if (has_way(engine, held))
			tx_send_one(engine, held->way, &held->datagram);
		injection_release(engine, held);
	}
}

void injection_flush(struct engine *engine)
{
	unsigned n;

	for (n = 0; injection_holds(engine) && n < HOLD_PACKETS / HELD_MAX; n++)
		injection_send_held(engine, TIME_NEVER - 1);
}
