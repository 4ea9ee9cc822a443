/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * From datagrams to QPs: split batches into packets, read each (arrival.h), find its QP, run the
 * transport. Packets for another process's slot are forwarded to it. A QP stays locked over the
 * packets of a batch that are for it. Where datagrams come from: receive.h.
 */
#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "base/call.h"
#include "base/inline.h"
#include "base/ip_addr.h"
#include "engine/arrival.h"
#include "engine/injection.h"
#include "engine/internal.h"
#include "engine/qp_table.h"
#include "engine/receive.h"
#include "engine/way.h"
#include "transport/drop.h"
#include "transport/refusal.h"
#include "wire/dump.h"
#include "wire/cm_message.h"
#include "wire/icrc.h"
#include "wire/mad.h"

#define PAD_MAX	3u

APART void rx_unlock_qp(struct receiver *receiver)
{
	if (receiver->qp) {
		if (receiver->received)
			transport_received(receiver->qp);
		timers_arm(receiver->engine, receiver->qp);
		lock_release(&receiver->qp->lock);
		receiver->qp = NULL;
		receiver->on_way = receiver->received = false;
	}
	effects_defer(receiver->engine, &receiver->effects);
}

/* Until rx_unlock_qp(), which is another call: receiver->qp is locked. */
static void rx_lock_qp(struct receiver *receiver, struct qp *qp) UNCHECKED_LOCKS
{
	if (receiver->qp == qp && !effects_full(&receiver->effects))
		return;
	rx_unlock_qp(receiver);
	lock_acquire(&qp->lock);
	receiver->qp = qp;
}

static APART void log_packet_line(const struct packet *packet)
{
	char line[DUMP_LINE_MAX];

	packet_dump(packet, line, sizeof(line));
	log_print(LOG_PACKET, "received %s", line);
}

/*
 * Nothing answers a request to a QP that was destroyed, and its requester finds out by its timeouts, as beside an
 * adapter: often it has ended by then, rightly. A process of this host is told why, for the explanation.
 */
static APART enum drop rx_no_qp(struct receiver *receiver, const struct datagram *datagram,
				const struct packet *packet)
{
	struct engine *engine = receiver->engine;
	const struct refusal refusal = { .why = DROP_NO_QP, .psn = packet->psn };

	drop_explain(DROP_NO_QP, NULL, packet, datagram->source);
	if (datagram->from_channel && packet->op->service == SERVICE_RC && !opcode_is_response(packet->op))
		local_dropped(&engine->local, datagram->channel, packet->dest_qpn, &refusal);
	return drop_count(engine->counters, DROP_NO_QP, 1);
}

/*
 * Before the transport looks at it, or anything is learnt from it. @qp is receiver->qp: what was right for a
 * packet of this datagram is right for the next one, as long as the lock is held. (A QP that fails meanwhile
 * takes none.)
 */
static bool rx_is_on_way(struct receiver *receiver, const struct datagram *datagram, const struct qp *qp)
	REQUIRES(qp->lock)
{
	if (!receiver->on_way)
		receiver->on_way = qp->way == datagram->way || way_is_right(receiver->engine, qp, datagram);
	return receiver->on_way;
}

/* Through memory by LID: a process sends for its own QPs. An echo does not say which one it is of. */
static bool rx_is_of_channel(struct receiver *receiver, const struct datagram *datagram,
			     const struct packet *packet, const struct qp *qp) REQUIRES(qp->lock)
{
	uint32_t source = qp_is(qp, QP_CONNECTED) ? qp->attr.dest_qp_num : packet->deth.source_qpn;

	return (!qp_is(qp, QP_CONNECTED) && !(packet->op->headers & HDR_DETH)) ||
	       local_channel_has_slot(&receiver->engine->local, datagram->channel, qpn_slot(source));
}

/* What else is known of a packet: of its datagram, and by itself. @refusal is 0. */
static const struct rx_info *rx_info_of(struct receiver *receiver, const struct datagram *datagram,
					struct refusal *refusal)
{
	const uint8_t link = datagram->link ? datagram->link : ROUTE_ROCE_V2;
	struct rx_info *info = &receiver->info;

	if (!receiver->informed) {
		*info = (struct rx_info){ .ecn_marked = (datagram->traffic_class & 3) == 3 &&
							route_rows[link].headers == ROUTE_HEADERS_UDP,
					  .memory = datagram->shared,
					  .route = { .flow_label = datagram->flow_label,
						     .traffic_class = datagram->traffic_class,
						     .hop_limit = datagram->hop_limit, .link = link & 0xf,
						     .loopback = datagram->sealed,
						     .roce.interface = datagram->interface } };
		memcpy(info->route.source, datagram->source, 16);
		memcpy(info->route.destination, datagram->destination, 16);
		if (__builtin_expect(datagram->ib.port, 0)) {
			info->route.loopback = false;
			info->route.link = ROUTE_IB;
			info->route.port = datagram->ib.port & 0xff;
			info->route.ib = datagram->ib;
		}
		receiver->informed = true;
	}
	info->deny_receive = receiver->deny_receive;
	info->refused = refusal;
	return info;
}

static APART enum drop rx_drop(struct receiver *receiver, const struct arrival *arrival, struct qp *qp,
			       enum drop why) REQUIRES(qp->lock)
{
	const struct datagram *datagram = arrival->datagram;
	struct engine *engine = receiver->engine;

	if (why == DROP_PKEY && datagram->ib.port && engine->ops->refused_key)
		engine->ops->refused_key(engine->owner, &arrival->packet, &receiver->info.route, false);
	drop_explain(why, qp, &arrival->packet, datagram->source);
	return drop_count(engine->counters, why, 1);
}

static enum drop rx_deliver(struct receiver *receiver, const struct arrival *arrival)
{
	struct engine *engine = receiver->engine;
	const struct datagram *datagram = arrival->datagram;
	const struct packet *packet = &arrival->packet;
	bool by_lid = datagram->ib.port;
	struct refusal refusal = { 0 };
	enum drop why = DROP_NONE;
	const struct rx_info *info = rx_info_of(receiver, datagram, &refusal);
	struct qp *qp = receiver->qp;

	if (log_is_on(LOG_PACKET))
		log_packet_line(packet);
	lock_assert_held(&engine->progress);
	/* One that is locked stays in the table. */
	if (!qp || qp->number != packet->dest_qpn)
		qp = qp_table_find(engine, packet->dest_qpn);
	if (!qp)
		return rx_no_qp(receiver, datagram, packet);
	rx_lock_qp(receiver, qp);
	lock_assert_held(&qp->lock);
	if (receiver->traced)
		receiver->traced->record.state = (uint8_t)(qp->state + 1);
	if (!rx_is_on_way(receiver, datagram, qp))
		why = qp->way == BY_SOURCE_PORT ? DROP_SOURCE_PORT : DROP_OTHER_WAY;
	else if (by_lid && datagram->from_channel && !rx_is_of_channel(receiver, datagram, packet, qp))
		why = DROP_FORGED;
	else if (qp->ib_port != datagram->ib.port)
		why = DROP_OTHER_PORT;
	else if (!pkey_matches(packet->pkey, qp->pkey))
		why = DROP_PKEY;
	else if (!qp_is(qp, QP_DATAGRAM) && !ip_id_check(&qp->id_streak, arrival_ip_id(arrival)))
		why = DROP_IP_ID;
	if (__builtin_expect(why != DROP_NONE, 0))
		return rx_drop(receiver, arrival, qp, why);
	receiver->received = true;
	why = transport_receive_next(qp, packet, info, receiver->now_ns, &receiver->effects);
	if (__builtin_expect(why == DROP_QKEY, 0) && by_lid && engine->ops->refused_key)
		engine->ops->refused_key(engine->owner, packet, &info->route, true);
	if (__builtin_expect(!refusal.why, 1))
		return why;
	/*
	 * Nothing answers it on a wire, and nothing does here; but a process of this host is told, so that it can
	 * explain a request that fails.
	 */
	rx_unlock_qp(receiver);
	if (datagram->from_channel)
		local_dropped(&engine->local, datagram->channel, packet->dest_qpn, &refusal);
	else if (datagram->sealed && explaining())
		qp_table_dropped(engine, packet->dest_qpn, &refusal);	/* ours, by the loopback */
	return why;
}

/* To a group. */
static enum drop rx_take_multicast(struct receiver *receiver, const struct arrival *arrival)
{
	struct engine *engine = receiver->engine;
	struct refusal refusal = { 0 };
	struct rx_info info = *rx_info_of(receiver, arrival->datagram, &refusal);

	if (log_is_on(LOG_PACKET))
		log_packet_line(&arrival->packet);
	call_shield();
	rx_unlock_qp(receiver);
	return engine->ops->multicast(engine->owner, &arrival->packet, &info, receiver->now_ns);
}

/* For QP0 or QP1. */
static enum drop rx_take_mad(struct receiver *receiver, const struct arrival *arrival)
{
	struct engine *engine = receiver->engine;
	const struct datagram *datagram = arrival->datagram;
	uint8_t source[16], copy[PACKET_HEADER_MAX + MAD_BYTES + PAD_MAX + ICRC_BYTES];
	struct cm_target target;
	struct arrival own;
	enum drop why;

	call_shield();
	rx_unlock_qp(receiver);
	/* Its sender may still write to it, and it is read several times. A longer one is no MAD. */
	if (datagram->shared && arrival->bytes <= sizeof(copy)) {
		own = *arrival;
		own.data = memcpy(copy, arrival->data, arrival->bytes);
		own.packet.payload = copy + (arrival->packet.payload - arrival->data);
		arrival = &own;
	}
	/*
	 * Through a channel a process speaks for itself, and from an address of this host to the same one. By
	 * LID others have seen to that.
	 */
	if (datagram->from_channel && !datagram->ib_end && arrival->packet.payload_bytes == MAD_BYTES) {
		cm_message_target(arrival->packet.payload, &target);
		if (memcmp(datagram->source, datagram->destination, 16) ||
		    (target.sender_id && !local_channel_has_slot(&engine->local, datagram->channel,
								 comm_id_slot(target.sender_id))))
			return drop_count(engine->counters, DROP_FORGED, 1);
	}
	why = engine->ops->management(engine->owner, arrival, receiver->now_ns);
	if (why == DROP_PKEY) {
		memcpy(source, datagram->source, sizeof(source));
		if (datagram->ib.port)		/* with a GRH it is a GID */
			ip_addr_of_lid(source, datagram->ib.lid);
		drop_explain(why, NULL, &arrival->packet, source);
	}
	return why == DROP_NO_QP ? rx_no_qp(receiver, datagram, &arrival->packet) : why;
}

/* QPs that no process has for itself. */
struct rx_special {
	uint32_t qpn;
	enum drop (*take)(struct receiver *receiver, const struct arrival *arrival);
	bool takes_faults;	/* faults on purpose for its packets are decided by take(), not here */
};

static const struct rx_special rx_specials[] = {
	{ QPN_SMI, rx_take_mad, .takes_faults = true },	/* by dropping none */
	{ QPN_GSI, rx_take_mad, .takes_faults = true }, /* where it is known whose it is (mad/dispatch.c) */
	{ QPN_MULTICAST, rx_take_multicast },
};

static inline const struct rx_special *rx_find_special(uint32_t qpn)
{
	for (unsigned i = 0; i < sizeof(rx_specials) / sizeof(rx_specials[0]); i++)
		if (__builtin_expect(qpn == rx_specials[i].qpn, 0))
			return &rx_specials[i];
	return NULL;
}

static enum drop rx_take(struct receiver *receiver, const struct arrival *arrival)
{
	const struct rx_special *special = arrival->why ? NULL : rx_find_special(arrival->packet.dest_qpn);

	receiver->taken++;
	receiver->taken_bytes += arrival->bytes;
	if (__builtin_expect(arrival->why || special, 0))
		return special ? special->take(receiver, arrival) :
				 drop_count(receiver->engine->counters, arrival->why, 1);
	return rx_deliver(receiver, arrival);
}

static APART void rx_take_traced(struct receiver *receiver, const struct arrival *arrival)
{
	bool traced = trace_wants(TRACE_PACKETS | TRACE_DROPS);
	struct rx_traced record;
	enum drop why;

	if (traced) {
		rx_trace_begin(&record, receiver->engine, arrival);
		receiver->traced = &record;
	}
	why = rx_take(receiver, arrival);
	if (traced) {
		receiver->traced = NULL;
		rx_trace_end(&record, why);
	}
}

/* ---- faults on purpose ---- */

/* False: nobody's, malformed, forged, or of a special QP that sees to its faults. */
static bool describe_arrival(struct receiver *receiver, const struct arrival *arrival,
			     struct inject_packet *what)
{
	struct engine *engine = receiver->engine;
	const struct packet *packet = &arrival->packet;
	const struct rx_special *special;
	struct qp *qp = NULL;

	if (arrival->why)
		return false;
	special = rx_find_special(packet->dest_qpn);
	if (special && special->takes_faults)
		return false;
	if (!special) {
		lock_assert_held(&engine->progress);
		qp = qp_table_find(engine, packet->dest_qpn);
		if (!qp)
			return false;
		rx_lock_qp(receiver, qp);
		lock_assert_held(&qp->lock);
		if (!rx_is_on_way(receiver, arrival->datagram, qp))
			return false;
	}
	injection_describe(packet, arrival->datagram, qp, what);
	return true;
}

static APART void rx_apply_faults(struct receiver *receiver, const struct arrival *arrival)
{
	struct engine *engine = receiver->engine;
	struct inject_verdict verdict;
	struct inject_packet what;
	struct arrival damaged;
	struct datagram one;

	if (arrival->datagram->fault_exempt || !describe_arrival(receiver, arrival, &what)) {
		rx_take_traced(receiver, arrival);
		return;
	}
	one = arrival_datagram(arrival);
	injection_judge(engine, &what, receiver->now_ns, &verdict);
	if (verdict.lost)
		return;
	if (verdict.kill) {
		struct qp *qp = receiver->qp;

		lock_assert_held(&qp->lock);
		explain_about("VERBATIM_FAULT", OF(QP, qp->number),
			"qp 0x%06x: killed on purpose (VERBATIM_FAULT, kill-qp): this QP is now in error",
			qp->number);
		qp_raise(qp, QP_EVENT_FATAL, &receiver->effects);
		transport_fail(qp, receiver->now_ns, &receiver->effects);
		return;
	}
	if (verdict.twice)
		injection_hold(engine, &one, &what, &verdict, true, NULL, receiver->now_ns);
	if (verdict.corrupt && (arrival->datagram->sealed || arrival->datagram->checked)) {
		/* Inside the host no ICRC is looked at: what is damaged is dropped as if it were. */
		drop_count(engine->counters, DROP_ICRC, 1);
	} else if (verdict.corrupt) {
		lock_assert_held(&engine->progress);
		arrival_read(&damaged, engine->rx.icrc_memo, arrival->datagram,
			     injection_damaged(engine, &verdict, arrival->data, arrival->bytes), arrival->bytes,
			     arrival->segment);
		rx_take_traced(receiver, &damaged);
	} else if (injection_delays(&verdict, receiver->now_ns)) {
		injection_hold(engine, &one, &what, &verdict, false, NULL, receiver->now_ns);
	} else {
		receiver->deny_receive = verdict.deny_receive;
		rx_take_traced(receiver, arrival);
		receiver->deny_receive = false;
	}
}

/* ---- datagrams ---- */

/* Neighbouring segments for one slot are handed on together: unix queues are short. Returns their bytes. */
static APART size_t rx_forward(struct receiver *receiver, const struct datagram *datagram, size_t start,
			 size_t segment_bytes, unsigned segment)
{
	struct engine *engine = receiver->engine;
	struct datagram run = *datagram;
	uint32_t qpn = packet_peek_qpn(datagram->data + start, datagram->bytes - start), slot = qpn_slot(qpn);
	size_t end = start + segment_bytes;
	enum drop why = DROP_NONE;

	call_shield();
	while (end < datagram->bytes &&
	       qpn_slot(packet_peek_qpn(datagram->data + end, datagram->bytes - end)) == slot)
		end += segment_bytes;
	run.data = datagram->data + start;
	run.bytes = (end < datagram->bytes ? end : datagram->bytes) - start;
	run.segment_bytes = run.bytes > segment_bytes ? segment_bytes : 0;
	run.segment_number = segment;
	if (datagram->forwarded || slot == 0 || slot == SLOT_COUNT - 1)
		why = DROP_STRANGER;
	else if (slot_forward(slot, &run))
		why = DROP_FOREIGN_LOST;
	if (why) {
		drop_count(engine->counters, why, 1);
		if (explaining() && !datagram->forwarded)
			drop_print(why, NULL, NULL, datagram->source, qpn);
		return run.bytes;
	}
	counter_add(engine->counters, COUNTER_RX_FOREIGN, 1);
	if (engine->group)
		port_group_stale(engine->group, receiver->now_ns);
	return run.bytes;
}

FLAT void rx_datagram(struct receiver *receiver, struct datagram *datagram)
{
	size_t segment_bytes = datagram->segment_bytes ? datagram->segment_bytes : datagram->bytes;
	unsigned segment = datagram->segment_number;
	struct engine *engine = receiver->engine;
	struct arrival arrival;
	size_t done = 0;

	if (datagram->ib_end &&
	    (!engine->ops->arrives_by_lid ||
	     !engine->ops->arrives_by_lid(engine->owner, datagram,
					  local_channel_slot(&engine->local, datagram->channel)))) {
		receiver->packets++;
		drop_count(engine->counters, DROP_FORGED, 1);
		return;
	}
	if (datagram->sealed && !datagram->way && !datagram->ib.port)
		datagram->way = datagram->from_channel ?
					local_way_of_channel(&receiver->engine->local, datagram->channel) :
					BY_LOOPBACK;
	if (!datagram->fault_exempt && receiver->engine->group && !datagram->checked &&
	    port_group_takes(receiver->engine->group, datagram))
		return;
	receiver->informed = receiver->on_way = false;
	receiver->taken = 0;
	receiver->taken_bytes = 0;
	while (done < datagram->bytes) {
		uint8_t *data = datagram->data + done;
		size_t left = datagram->bytes - done;
		size_t bytes = left < segment_bytes ? left : segment_bytes;
		uint32_t qpn = packet_peek_qpn(data, bytes);

		receiver->packets++;
		if (!engine_has_slot(engine, qpn_slot(qpn)) && !rx_find_special(qpn)) {
			bytes = rx_forward(receiver, datagram, done, segment_bytes, segment);
			done += bytes;
			segment += (unsigned)(bytes / segment_bytes);
			continue;
		}
		arrival_read(&arrival, engine->rx.icrc_memo, datagram, data, bytes, segment);
		if (engine->injection)
			rx_apply_faults(receiver, &arrival);
		else if (trace_wants(TRACE_PACKETS | TRACE_DROPS))
			rx_take_traced(receiver, &arrival);
		else
			rx_take(receiver, &arrival);
		done += bytes;
		segment++;
	}
	if (receiver->taken) {
		counter_add(engine->counters, COUNTER_RX_PACKETS, receiver->taken);
		counter_add(engine->counters, COUNTER_RX_BYTES, receiver->taken_bytes);
	}
}
