/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * From datagrams to QPs: split batches into packets, read each (arrival.h), find its QP, run the
 * transport. Packets for another process's slot are forwarded to
 * it. A QP stays locked over the packets of a batch that are for it.
 */
#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "base/call.h"
#include "engine/arrival.h"
#include "engine/injection.h"
#include "engine/internal.h"
#include "engine/qp_table.h"
#include "engine/steer.h"
#include "engine/way.h"
#include "local/channel/ring.h"
#include "trace/file.h"
#include "transport/drop.h"
#include "transport/refusal.h"
#include "wire/dump.h"
#include "wire/icrc.h"

#define RECEIVE_BATCH	16u
#define RECEIVE_ROUNDS	8u	/* batches per round, so that timers and transmitting get a turn */
#define SLOTS_SELDOM	64u	/* rounds between looks at the slot sockets (the worker is told) */
#define SLOTS_OFTEN	8u	/* the same while packets come there */
#define SLOTS_BUSY	4096u	/* rounds for which a packet makes them busy */
#define SLOT_BUFFER	65536u
#define SOCKETS_EVERY_NS 20000u
#define RINGS_FIRST	64u	/* rounds of batches that may precede others */
#define FABRIC_BUSY	64u	/* rounds for which a packet by the fabric's process makes it busy */
#define HELD_MAX	1024u	/* packets that were held back, in a round */

struct receiver {
	struct engine *engine;
	uint64_t now_ns;
	struct qp *qp;		/* locked, or NULL */
	struct effects effects;
	unsigned packets;
	bool deny_receive;	/* the packet is to find none (VERBATIM_FAULT=rnr) */
	struct rx_traced *traced;	/* of the packet at hand; NULL: it is not traced */
};

/* Field by field: zeroing all effects would cost more than most rounds. */
static void rx_init_receiver(struct receiver *receiver, struct engine *engine, uint64_t now_ns)
{
	receiver->engine = engine;
	receiver->now_ns = now_ns;
	receiver->qp = NULL;
	receiver->packets = 0;
	receiver->deny_receive = false;
	receiver->traced = NULL;
	effects_init(&receiver->effects);
}

/* Unlock the QP of the last packets: its lock is held from packet to packet. */
static void rx_unlock_qp(struct receiver *receiver) UNCHECKED_LOCKS
{
	if (receiver->qp) {
		timers_arm(receiver->engine, receiver->qp);
		lock_release(&receiver->qp->lock);
		receiver->qp = NULL;
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

static void rx_forward(struct receiver *receiver, const struct datagram *datagram, uint32_t qpn)
{
	struct engine *engine = receiver->engine;
	uint32_t slot = qpn_slot(qpn);
	enum drop why = DROP_NONE;

	if (datagram->forwarded || slot == 0 || slot == SLOT_COUNT - 1)
		why = DROP_STRANGER;
	else if (slot_forward(slot, datagram))
		why = DROP_FOREIGN_LOST;
	if (why) {
		drop_count(engine->counters, why, 1);
		if (explaining() && !datagram->forwarded)
			drop_print(why, NULL, NULL, datagram->source, qpn);
		return;
	}
	counter_add(engine->counters, COUNTER_RX_FOREIGN, 1);
	if (engine->group)
		port_group_stale(engine->group, receiver->now_ns);
}

static void log_packet_line(const struct packet *packet)
{
	char line[DUMP_LINE_MAX];

	packet_dump(packet, line, sizeof(line));
	log_print(LOG_PACKET, "received %s", line);
}

/*
 * Nothing answers a request to a QP that was destroyed, and its requester finds out by its timeouts, as beside an
 * adapter: often it has ended by then, rightly. A process of this host is told why, for the explanation.
 */
static enum drop rx_no_qp(struct receiver *receiver, const struct datagram *datagram, const struct packet *packet)
{
	struct engine *engine = receiver->engine;
	const struct refusal refusal = { .why = DROP_NO_QP, .psn = packet->psn };

	drop_explain(DROP_NO_QP, NULL, packet, datagram->source);
	if (datagram->from_channel && packet->op->service == SERVICE_RC && !opcode_is_response(packet->op))
		local_dropped(&engine->local, datagram->channel, packet->dest_qpn, &refusal);
	return drop_count(engine->counters, DROP_NO_QP, 1);
}

/*
 * Nothing answers it on a wire, and nothing does here; but a process of this host is told, so that it can
 * explain a request that fails.
 */
static void rx_dropped(struct receiver *receiver, const struct datagram *datagram, uint32_t qpn,
		       const struct refusal *refusal)
{
	struct engine *engine = receiver->engine;

	rx_unlock_qp(receiver);
	lock_assert_held(&engine->progress);
	if (datagram->from_channel)
		local_dropped(&engine->local, datagram->channel, qpn, refusal);
	else if (datagram->sealed && explaining())
		qp_table_dropped(engine, qpn, refusal);	/* ours, by the loopback */
}

/* Before the transport looks at it, or anything is learnt from it. */
static bool rx_is_on_way(struct receiver *receiver, const struct datagram *datagram, const struct qp *qp)
	REQUIRES(qp->lock)
{
	return __builtin_expect(qp->way == datagram->way, 1) || way_is_right(receiver->engine, qp, datagram);
}

/* Through memory by LID: a process sends for its own QPs. An echo does not say which one it is of. */
static bool rx_is_of_channel(struct receiver *receiver, const struct datagram *datagram,
			     const struct packet *packet, const struct qp *qp) REQUIRES(qp->lock)
{
	uint32_t source = qp_is(qp, QP_CONNECTED) ? qp->attr.dest_qp_num : packet->deth.source_qpn;

	return (!qp_is(qp, QP_CONNECTED) && !(packet->op->headers & HDR_DETH)) ||
	       local_channel_has_slot(&receiver->engine->local, datagram->channel, qpn_slot(source));
}

static enum drop rx_deliver(struct receiver *receiver, const struct arrival *arrival)
{
	struct engine *engine = receiver->engine;
	const struct datagram *datagram = arrival->datagram;
	const struct packet *packet = &arrival->packet;
	const uint8_t link = datagram->link ? datagram->link : ROUTE_ROCE_V2;
	struct rx_info info = { .ecn_marked = (datagram->traffic_class & 3) == 3 &&
					      route_rows[link].headers == ROUTE_HEADERS_UDP,
				.deny_receive = receiver->deny_receive,
				.memory = datagram->shared,
				.route = { .flow_label = datagram->flow_label,
					   .traffic_class = datagram->traffic_class,
					   .hop_limit = datagram->hop_limit, .link = link & 0xf,
					   .loopback = datagram->sealed,
					   .roce.interface = datagram->interface } };
	bool by_lid = datagram->ib.port;
	struct refusal refusal = { 0 };
	enum drop why = DROP_NONE;
	struct qp *qp;

	info.refused = &refusal;
	memcpy(info.route.source, datagram->source, 16);
	memcpy(info.route.destination, datagram->destination, 16);
	if (__builtin_expect(by_lid, 0)) {
		info.route.loopback = false;
		info.route.link = ROUTE_IB;
		info.route.port = datagram->ib.port & 0xff;
		info.route.ib = datagram->ib;
	}
	if (log_is_on(LOG_PACKET))
		log_packet_line(packet);
	if (packet->dest_qpn == QPN_MULTICAST) {
		call_shield();
		rx_unlock_qp(receiver);
		return engine->ops->multicast(engine->owner, packet, &info, receiver->now_ns);
	}
	lock_assert_held(&engine->progress);
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
	if (why) {
		if (why == DROP_PKEY && by_lid && engine->ops->refused_key)
			engine->ops->refused_key(engine->owner, packet, &info.route, false);
		drop_explain(why, qp, packet, datagram->source);
		return drop_count(engine->counters, why, 1);
	}
	why = transport_receive(qp, packet, &info, receiver->now_ns, &receiver->effects);
	if (__builtin_expect(why == DROP_QKEY, 0) && by_lid && engine->ops->refused_key)
		engine->ops->refused_key(engine->owner, packet, &info.route, true);
	if (__builtin_expect(refusal.why, 0))
		rx_dropped(receiver, datagram, packet->dest_qpn, &refusal);
	return why;
}

static enum drop rx_take_untraced(struct receiver *receiver, const struct arrival *arrival)
{
	struct engine *engine = receiver->engine;

	counter_add(engine->counters, COUNTER_RX_PACKETS, 1);
	counter_add(engine->counters, COUNTER_RX_BYTES, arrival->bytes);
	if (arrival->why)
		return drop_count(engine->counters, arrival->why, 1);
	if (arrival->packet.dest_qpn == QPN_GSI) {
		/* That of a fabric is any of its port's: the fabric has looked. */
		if (!arrival->datagram->ib.port && !pkey_matches(arrival->packet.pkey, PKEY_DEFAULT)) {
			drop_explain(DROP_PKEY, NULL, &arrival->packet, arrival->datagram->source);
			return drop_count(engine->counters, DROP_PKEY, 1);
		}
		call_shield();
		rx_unlock_qp(receiver);
		return engine->ops->management(engine->owner, arrival, receiver->now_ns);
	}
	return rx_deliver(receiver, arrival);
}

static void rx_take(struct receiver *receiver, const struct arrival *arrival)
{
	struct rx_traced traced;
	enum drop why;

	if (!trace_wants(TRACE_PACKETS | TRACE_DROPS)) {
		rx_take_untraced(receiver, arrival);
		return;
	}
	rx_trace_begin(&traced, receiver->engine, arrival);
	receiver->traced = &traced;
	why = rx_take_untraced(receiver, arrival);
	receiver->traced = NULL;
	rx_trace_end(&traced, why);
}

/* ---- faults on purpose ---- */

/* False: nobody's, malformed, forged, or QP1's, which is judged where it is known whose it is (mad/dispatch.c). */
static bool describe_arrival(struct receiver *receiver, const struct arrival *arrival,
			     struct inject_packet *what)
{
	struct engine *engine = receiver->engine;
	const struct packet *packet = &arrival->packet;
	struct qp *qp = NULL;

	if (arrival->why || packet->dest_qpn == QPN_GSI)
		return false;
	if (packet->dest_qpn != QPN_MULTICAST) {
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

static void kill_qp(struct receiver *receiver)
{
	struct qp *qp = receiver->qp;

	lock_assert_held(&qp->lock);
	explain_about("VERBATIM_FAULT", OF(QP, qp->number),
		"qp 0x%06x: killed on purpose (VERBATIM_FAULT, kill-qp): this QP is "
		      "now in error", qp->number);
	qp_raise(qp, QP_EVENT_FATAL, &receiver->effects);
	transport_fail(qp, receiver->now_ns, &receiver->effects);
}

/* Inside the host no ICRC is looked at: what is damaged is dropped as if it were. */
static void receive_damaged(struct receiver *receiver, const struct arrival *whole,
			    const struct inject_verdict *verdict)
{
	struct engine *engine = receiver->engine;
	struct arrival arrival;
	uint8_t *data;

	lock_assert_held(&engine->progress);
	if (whole->datagram->sealed || whole->datagram->checked) {
		drop_count(engine->counters, DROP_ICRC, 1);
		return;
	}
	data = injection_damaged(engine, verdict, whole->data, whole->bytes);
	arrival_read(&arrival, whole->datagram, data, whole->bytes, whole->segment);
	rx_take(receiver, &arrival);
}

static void rx_apply_faults(struct receiver *receiver, const struct arrival *arrival)
{
	struct engine *engine = receiver->engine;
	struct inject_verdict verdict;
	struct inject_packet what;
	struct datagram one;

	if (arrival->datagram->fault_exempt || !describe_arrival(receiver, arrival, &what)) {
		rx_take(receiver, arrival);
		return;
	}
	one = arrival_datagram(arrival);
	injection_judge(engine, &what, receiver->now_ns, &verdict);
	if (verdict.lost)
		return;
	if (verdict.kill) {
		kill_qp(receiver);
		return;
	}
	if (verdict.twice)
		injection_hold(engine, &one, &what, &verdict, true, NULL, receiver->now_ns);
	if (verdict.corrupt) {
		receive_damaged(receiver, arrival, &verdict);
	} else if (injection_delays(&verdict, receiver->now_ns)) {
		injection_hold(engine, &one, &what, &verdict, false, NULL, receiver->now_ns);
	} else {
		receiver->deny_receive = verdict.deny_receive;
		rx_take(receiver, arrival);
		receiver->deny_receive = false;
	}
}

/* ---- datagrams ---- */

static bool is_foreign(const struct engine *engine, uint32_t qpn)
{
	return qpn != QPN_MULTICAST && qpn > QPN_GSI && !engine_has_slot(engine, qpn_slot(qpn));
}

/* Neighbouring segments for one slot are handed on together: unix queues are short. */
static size_t forward_run(struct receiver *receiver, const struct datagram *datagram, size_t start,
			  size_t segment_bytes, unsigned segment)
{
	struct datagram run = *datagram;
	uint32_t qpn = packet_peek_qpn(datagram->data + start, datagram->bytes - start);
	size_t end = start + segment_bytes;

	while (end < datagram->bytes &&
	       qpn_slot(packet_peek_qpn(datagram->data + end, datagram->bytes - end)) ==
	       qpn_slot(qpn))
		end += segment_bytes;
	run.data = datagram->data + start;
	run.bytes = (end < datagram->bytes ? end : datagram->bytes) - start;
	run.segment_bytes = run.bytes > segment_bytes ? segment_bytes : 0;
	run.segment_number = segment;
	rx_forward(receiver, &run, qpn);
	return run.bytes;
}

static void receive_datagram(struct receiver *receiver, struct datagram *datagram)
{
	size_t segment_bytes = datagram->segment_bytes ? datagram->segment_bytes : datagram->bytes;
	unsigned first = datagram->segment_number;
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
	while (done < datagram->bytes) {
		uint8_t *data = datagram->data + done;
		size_t left = datagram->bytes - done;
		size_t bytes = left < segment_bytes ? left : segment_bytes;
		unsigned segment = first + (unsigned)(done / segment_bytes);

		receiver->packets++;
		if (is_foreign(receiver->engine, packet_peek_qpn(data, bytes))) {
			done += forward_run(receiver, datagram, done, segment_bytes, segment);
			continue;
		}
		arrival_read(&arrival, datagram, data, bytes, segment);
		if (receiver->engine->injection)
			rx_apply_faults(receiver, &arrival);
		else
			rx_take(receiver, &arrival);
		done += bytes;
	}
}

static void receive_link(struct receiver *receiver, struct link *link);

/*
 * What was sent through memory before the packets at hand were given to the fabric's process
 * precedes them: a sender changes over to it at once.
 */
static void receive_rings_first(struct receiver *receiver)
{
	struct link *rings = receiver->engine->local.channel_link;
	unsigned before, n = 0;

	if (!rings || !ring_has_channels(rings))
		return;
	do {
		before = receiver->packets;
		receive_link(receiver, rings);
	} while (receiver->packets != before && ++n < RINGS_FIRST);
	ring_done(rings);
}

static void receive_link(struct receiver *receiver, struct link *link)
{
	struct datagram datagram[RECEIVE_BATCH];
	unsigned round, received, i;

	for (round = 0; round < RECEIVE_ROUNDS; round++) {
		if (link->ops->receive(link, datagram, RECEIVE_BATCH, &received) || !received)
			return;
		if (link == receiver->engine->links[ROUTE_ROCE_V2])
			call_shield();		/* it may be a MAD, another process's, a probe */
		if (link == receiver->engine->links[ROUTE_IB])
			receive_rings_first(receiver);
		for (i = 0; i < received; i++)
			receive_datagram(receiver, &datagram[i]);
		rx_unlock_qp(receiver);
		if (trace_wants(TRACE_FILE))
			trace_file_relieve();
		if (received < RECEIVE_BATCH)
			return;
	}
}

static void receive_slots(struct receiver *receiver)
{
	struct engine *engine = receiver->engine;
	struct slot_proof proof;
	struct datagram datagram;
	unsigned i, n;

	call_shield();
	for (i = 0; i < engine->qps.slot_count; i++)
		for (n = 0; n < RECEIVE_BATCH * RECEIVE_ROUNDS; n++) {
			int err = slot_receive(&engine->qps.slot[i], &datagram, engine->rx.slot_buffer,
					       SLOT_BUFFER, &proof);

			if (err == EAGAIN)
				break;
			if (err == EPERM)
				drop_count(engine->counters, DROP_FORGED, 1);
			if (err == ENOMSG)
				local_note_proof(&engine->local, &proof);
			if (err)
				continue;
			datagram.forwarded = true;
			engine->rx.slots_busy = SLOTS_BUSY;
			receive_datagram(receiver, &datagram);
		}
	rx_unlock_qp(receiver);
}

/* Requests for a service of this process that other processes received. */
static void receive_services(struct receiver *receiver)
{
	struct engine *engine = receiver->engine;
	struct datagram datagram;
	unsigned n;
	int err = 0;

	call_shield();
	for (n = 0; err != EAGAIN && n < RECEIVE_BATCH * RECEIVE_ROUNDS; n++) {
		err = engine->ops->receive_service(engine->owner, &datagram, engine->rx.slot_buffer,
						   SLOT_BUFFER);
		if (err == EPERM)
			drop_count(engine->counters, DROP_FORGED, 1);
		if (!err)
			receive_datagram(receiver, &datagram);
	}
	rx_unlock_qp(receiver);
}

/* Packets that were held back on purpose and are due, in both directions. */
static void receive_held(struct receiver *receiver)
{
	struct engine *engine = receiver->engine;
	struct held *held;
	unsigned n;

	call_shield();
	lock_assert_held(&engine->progress);
	for (n = 0; n < HELD_MAX && (held = injection_take(engine, false, receiver->now_ns)); n++) {
		receive_datagram(receiver, &held->datagram);
		injection_release(engine, held);
	}
	rx_unlock_qp(receiver);
	injection_send_held(engine, receiver->now_ns);
}

static bool slots_are_due(struct engine *engine)
{
	unsigned every = engine->rx.slots_busy ? SLOTS_OFTEN : SLOTS_SELDOM;

	if (engine->rx.slots_busy)
		engine->rx.slots_busy--;
	return engine->rx.rounds % every == 0 ||
	       (atomic_load_explicit(&engine->rx.slots_due, memory_order_relaxed) &&
		atomic_exchange(&engine->rx.slots_due, false));
}

/*
 * Reading the sockets is a system call, as long as several messages through memory: beside peers
 * that share memory the sockets are read only every SOCKETS_EVERY_NS.
 */
static bool sockets_are_due(struct receiver *receiver)
{
	struct engine *engine = receiver->engine;

	if (engine->without_udp)
		return false;
	if (engine->local.channel_link && ring_has_channels(engine->local.channel_link) &&
	    receiver->now_ns - engine->rx.udp_looked_ns < SOCKETS_EVERY_NS)
		return false;
	engine->rx.udp_looked_ns = receiver->now_ns;
	return true;
}

/*
 * A channel was opened while QPs were sending: packets sent by UDP precede those in memory. RC
 * would repair the order; UD would deliver the wrong one (and UC stays with UDP:
 * device/qp_modify.c).
 */
static void receive_udp_first(struct receiver *receiver)
{
	unsigned before, n = 0;

	do {
		before = receiver->packets;
		receive_link(receiver, receiver->engine->links[ROUTE_ROCE_V2]);
	} while (receiver->packets != before && ++n < RECEIVE_ROUNDS);
}

/* Likewise beside peers of the fabric that share memory, unless something has just come by its process. */
static bool fabric_is_due(struct receiver *receiver)
{
	struct engine *engine = receiver->engine;

	if (engine->rx.fabric_busy)
		engine->rx.fabric_busy--;
	else if (engine->local.channel_link && ring_has_channels(engine->local.channel_link) &&
		 receiver->now_ns - engine->rx.fabric_looked_ns < SOCKETS_EVERY_NS)
		return false;
	engine->rx.fabric_looked_ns = receiver->now_ns;
	return true;
}

static void receive_fabric(struct receiver *receiver)
{
	unsigned before = receiver->packets;

	call_shield();
	receive_link(receiver, receiver->engine->links[ROUTE_IB]);
	if (receiver->packets != before)
		receiver->engine->rx.fabric_busy = FABRIC_BUSY;
}

void rx_drain_fabric(struct engine *engine, uint64_t now_ns)
{
	struct receiver receiver;
	unsigned before, n = 0;

	if (!engine->links[ROUTE_IB])
		return;
	rx_init_receiver(&receiver, engine, now_ns);
	do {
		before = receiver.packets;
		receive_fabric(&receiver);
	} while (receiver.packets != before && ++n < RINGS_FIRST);
}

unsigned rx_poll(struct engine *engine, uint64_t now_ns)
{
	struct receiver receiver;
	unsigned i;

	rx_init_receiver(&receiver, engine, now_ns);
	if (engine->injection)
		receive_held(&receiver);
	if (engine->local.channel_link && ring_pending(engine->local.channel_link)) {
		if (now_ns < atomic_load_explicit(&engine->local.udp_first_until_ns, memory_order_relaxed))
			receive_udp_first(&receiver);
		receive_link(&receiver, engine->local.channel_link);
		ring_done(engine->local.channel_link);
	}
	if (sockets_are_due(&receiver)) {
		receive_link(&receiver, engine->links[ROUTE_ROCE_V2]);
		for (i = ROUTE_ROCE_V2 + 1; i < ROUTE_LINK_COUNT; i++)
			if (engine->links[i] && i != ROUTE_IB) {
				call_shield();
				receive_link(&receiver, engine->links[i]);
			}
	}
	if (engine->links[ROUTE_IB] && fabric_is_due(&receiver))
		receive_fabric(&receiver);
	if (loopback_pending(engine->loopback))
		receive_link(&receiver, engine->loopback);
	if (!list_empty(&engine->rx.ethernet_ports)) {
		call_shield();
		receiver.packets += steer_receive(engine, now_ns);
	}
	if (slots_are_due(engine))
		receive_slots(&receiver);
	if (atomic_load_explicit(&engine->rx.services_due, memory_order_relaxed)) {
		atomic_store(&engine->rx.services_due, false);
		receive_services(&receiver);
	}
	if (receiver.packets && trace_wants(TRACE_FILE))
		trace_file_flush();
	return receiver.packets;
}
