/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The way out (out.h): of a packet the link and the datagram, its ICRC, its line in a trace, and the
 * send. QPs come by tx.c, faults on purpose by injection_send.c, QP1 by out_send_mad().
 */
#include "engine/out.h"

#include <errno.h>
#include <string.h>

#include "base/bytes.h"
#include "base/ip_addr.h"
#include "engine/injection.h"
#include "engine/links.h"
#include "engine/qp_table.h"
#include "engine/wake.h"
#include "link/udp.h"
#include "trace/trace.h"
#include "wire/cm_message.h"
#include "wire/opcode.h"
#include "wire/psn.h"

/* How often a full socket buffer is waited for before packets are given up as lost. */
#define SEND_TRIES	2000u

void out_address(struct datagram *datagram, const struct route *route, uint32_t dest_qpn)
{
	memset(datagram, 0, sizeof(*datagram));
	memcpy(datagram->source, route->source, 16);
	memcpy(datagram->destination, route->destination, 16);
	datagram->link = route->link;
	if (__builtin_expect(route_rows[route->link].arm == ROUTE_ARM_IB, 0)) {
		datagram->ib = route->ib;
	} else {
		/* These addresses need a scope; other links than IP have no other way to know. */
		if (ip_addr_is_multicast(route->destination) ||
		    ip_addr_is_link_local_ipv6(route->destination) ||
		    route_rows[route->link].headers != ROUTE_HEADERS_UDP)
			datagram->interface = route->roce.interface;
		datagram->from_slot = route->roce.from_slot;
	}
	datagram->flow_label = route->flow_label;
	datagram->traffic_class = route->traffic_class;
	datagram->hop_limit = route->hop_limit;
	/*
	 * GRO merges packets of the same ports, and the port selector sees only the first: keep
	 * slots apart.
	 */
	datagram->spread = qpn_slot(dest_qpn);
}

struct link *out_choose_link(struct engine *engine, const struct tx_packet *packet, uint32_t *channel)
{
	uint32_t slot = qpn_slot(packet->dest_qpn);

	if (!packet->route.loopback)
		return engine->links[packet->route.link];
	if (engine_has_slot(engine, slot)) {
		/* Most processes never send to themselves, and their rounds do not look there. */
		if (__builtin_expect(!source_is_polled(&engine->source.all, &engine->source.loopback), 0))
			source_poll(&engine->source.all, &engine->source.loopback, true);
		return engine->loopback;
	}
	*channel = local_channel(&engine->local, slot);
	return *channel == LOCAL_NO_CHANNEL ? engine->links[ROUTE_ROCE_V2] : engine->local.channel_link;
}

struct icrc_header icrc_header_of(const struct datagram *datagram, unsigned segment)
{
	struct icrc_header header = { .ipv6 = !ip_addr_is_ipv4(datagram->source),
				      .source_port = datagram->source_port,
				      .destination_port = ROCE_UDP_PORT,
				      .ip_id = (uint16_t)segment,
				      .dont_fragment = true };
	size_t skip = header.ipv6 ? 0 : 12;

	memcpy(header.source, datagram->source + skip, 16 - skip);
	memcpy(header.destination, datagram->destination + skip, 16 - skip);
	return header;
}

/* Path without GSO: each packet is sealed and sent by itself. */
static void out_send_apart(struct engine *engine, struct link *link, const struct datagram *run)
{
	struct icrc_header header = icrc_header_of(run, 0);
	struct datagram one = *run;
	size_t rest = run->bytes;

	one.segment_bytes = 0;
	for (; rest; rest -= one.bytes, one.data += one.bytes) {
		one.bytes = rest < run->segment_bytes ? rest : run->segment_bytes;
		icrc_seal(&header, one.data, one.bytes - ICRC_BYTES);
		out_send(engine, link, &one, 1);
	}
}

/* What @link holds of what was sent, the worker passes on. */
static void out_held(struct engine *engine, struct link *link)
{
	if (__builtin_expect(link->ops->is_full && link->ops->is_full(link), 0))
		worker_wake_at(engine, sources_asked(&engine->source.all));
}

void out_send(struct engine *engine, struct link *link, struct datagram *datagram, unsigned count)
{
	unsigned done = 0, sent, tries = 0;

	while (done < count) {
		int err = link->ops->send(link, datagram + done, count - done, &sent);

		done += sent;
		if (!err) {
			out_held(engine, link);
			return;
		}
		if (err == EOPNOTSUPP) {
			out_send_apart(engine, link, &datagram[done++]);
			continue;
		}
		if (++tries > SEND_TRIES) {
			drop_count(engine->counters, DROP_LINK, count - done);
			return;
		}
		thread_yield();
	}
}

void tx_trace_packet(const struct engine *engine, const struct tx_seen *seen, bool lost)
{
	const struct tx_note *note = seen->note;
	struct link *way = seen->way;
	enum trace_path path = way == engine->loopback ? TRACE_LOOPBACK :
			       way == links_find(engine, seen->datagram) ?
			       links_trace_path(seen->datagram->link) :
			       way == engine->links[ROUTE_ROCE_V2] ? TRACE_UDP : TRACE_RING;
	struct link_told told = { 0 };
	struct trace_record record;

	trace_record_init(&record, TRACE_IS_PACKET, seen->datagram);
	if (way->ops->tell)
		way->ops->tell(way, seen->datagram, &told);
	if (told.lid)
		trace_record_lids(&record, told.lid, seen->datagram->ib.lid, &seen->datagram->ib);
	record.path = (uint8_t)path;
	record.flags = TRACE_OUTBOUND | TRACE_DONT_FRAGMENT | (path == TRACE_UDP ? TRACE_HAS_ICRC : 0);
	record.ip_id = (uint16_t)seen->segment;
	record.qpn = seen->qpn;
	record.drop = lost ? TRACE_DROP_FAULT : 0;
	if (note) {
		record.flags |= note->has_wr_id ? TRACE_HAS_WR_ID : 0;
		record.state = note->state;
		record.wr_id = note->wr_id;
	}
	if (note && note->has_wr_id && opcode_get(seen->data[0]))
		record.retransmission = (uint16_t)trace_repetition(seen->qpn,
								   get_be32(seen->data + 8) & PSN_MASK);
	trace_packet(&record, seen->data, seen->bytes, told.way);
}

/* ---- one packet of a QP ---- */

struct link *tx_prepare_one(struct engine *engine, struct tx_batch *batch, unsigned index,
			    struct datagram *datagram)
{
	struct tx_packet *packet = &batch->packet[index];
	uint32_t channel = 0;
	struct link *way = out_choose_link(engine, packet, &channel);

	out_address(datagram, &packet->route, packet->dest_qpn);
	datagram->channel = (uint16_t)channel;
	way->ops->prepare(way, datagram);
	datagram->data = batch->data + packet->offset;
	datagram->bytes = packet->bytes + ICRC_BYTES;
	datagram->sealed = way == engine->loopback;
	if (!way->ops->unsealed)
		out_seal(datagram, datagram->data, packet->bytes, 0);
	return way;
}

void tx_send_one(struct engine *engine, struct link *link, struct datagram *datagram)
{
	unsigned sent;

	counter_add(engine->counters, COUNTER_TX_PACKETS, 1);
	counter_add(engine->counters, COUNTER_TX_BYTES, datagram->bytes);
	if (datagram->errors_wanted) {
		link->ops->send(link, datagram, 1, &sent);	/* a refusal would be one for ever */
		out_held(engine, link);
	} else {
		out_send(engine, link, datagram, 1);
	}
}

/* ---- of QP1 ---- */

/* UD SEND Only, as Linux's rxe fills it in. Returns its bytes, with those of the ICRC. */
static size_t out_write_mad(const struct out_mad *mad, uint8_t out[PACKET_HEADER_MAX + MAD_BYTES + ICRC_BYTES])
{
	struct packet packet = { .op = opcode_get(OPCODE_UD_SEND_ONLY), .ack_request = true,
				 .pkey = mad->pkey, .dest_qpn = QPN_GSI, .psn = mad->psn & PSN_MASK,
				 .deth = { .qkey = QKEY_GSI, .source_qpn = QPN_GSI },
				 .payload = mad->bytes, .payload_bytes = MAD_BYTES };
	size_t bytes = packet_write_headers(&packet, out);

	memcpy(out + bytes, mad->bytes, MAD_BYTES);
	return bytes + MAD_BYTES + ICRC_BYTES;
}

/* By @link: as out_send_mad(). */
static int out_put_mad(struct engine *engine, struct link *link, struct datagram *datagram, const uint8_t *mad)
{
	int err = ECONNREFUSED;
	unsigned sent = 0;

	link->ops->prepare(link, datagram);
	/* A request may be handed on from there. */
	if (!link->ops->unsealed || datagram->to_slot)
		out_seal(datagram, datagram->data, datagram->bytes - ICRC_BYTES, 0);
	if (engine->injection) {
		if (!injection_passes_management(engine, datagram))
			return 0;
	} else if (trace_wants(TRACE_PACKETS | TRACE_LOG)) {
		const struct tx_seen seen = { .datagram = datagram, .way = link, .data = datagram->data,
					      .bytes = datagram->bytes, .qpn = QPN_GSI };

		tx_trace_packet(engine, &seen, false);
	}
	if (!datagram->link && link != engine->local.channel_link &&
	    udp_address_is_taken(engine->udp, datagram->destination))
		err = engine->ops->hand_over(engine->owner, mad, datagram);
	/* Of a process that is stuck, the program that has the port would say that it does not exist. */
	if (err && err != ECONNREFUSED) {
		drop_count(engine->counters, DROP_MAD_LOST, 1);
		return err;
	}
	if (err)
		err = link->ops->send(link, datagram, 1, &sent);
	if (err)
		return err;
	out_held(engine, link);
	counter_add(engine->counters, COUNTER_TX_PACKETS, 1);
	counter_add(engine->counters, COUNTER_TX_BYTES, datagram->bytes);
	counter_add(engine->counters, COUNTER_TX_MAD, 1);
	return 0;
}

int out_send_mad(struct engine *engine, struct datagram *datagram, const struct out_mad *mad)
{
	uint8_t data[PACKET_HEADER_MAX + MAD_BYTES + ICRC_BYTES];
	struct link *link = links_find(engine, datagram);
	uint32_t channel = LOCAL_NO_CHANNEL, slot = datagram->to_slot;
	struct cm_target target;

	if (!link)
		return ENETUNREACH;
	if (!datagram->link && !ip_addr_is_link_local(datagram->destination))
		datagram->interface = 0;
	if (!datagram->hop_limit)
		datagram->hop_limit = ROUTE_HOP_LIMIT;
	datagram->data = data;
	datagram->bytes = out_write_mad(mad, data);
	/*
	 * An answer goes to whom the port's selector would give it: a channel leads to who holds the
	 * slot. Who does not serve a request any more hands it on. Faults on purpose are for UDP.
	 */
	if (!datagram->link && !engine->injection && !memcmp(datagram->source, datagram->destination, 16)) {
		if (!slot && cm_message_target(mad->bytes, &target) == CM_TARGET_ID)
			slot = comm_id_slot(target.comm_id);
		channel = local_channel(&engine->local, slot);
	}
	if (channel != LOCAL_NO_CHANNEL) {
		struct datagram by_channel = *datagram;

		by_channel.channel = (uint16_t)channel;
		by_channel.flow_label = 0;	/* one route for all connections */
		if (!out_put_mad(engine, engine->local.channel_link, &by_channel, mad->bytes))
			return 0;
	}
	return out_put_mad(engine, link, datagram, mad->bytes);
}
