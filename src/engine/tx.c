/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * From a batch of packets to datagrams: runs of packets of one size to one destination leave as one
 * datagram with segmentation offload, sealed with the ICRC for their position in it (the
 * kernel numbers the IPv4 identification of segments 0, 1, 2 ...: docs/field-notes.md).
 */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "base/bytes.h"
#include "base/ip_addr.h"
#include "base/log.h"
#include "engine/internal.h"
#include "engine/links.h"
#include "engine/wake.h"
#include "engine/qp_table.h"
#include "link/udp.h"
#include "trace/trace.h"
#include "tracepoint/drop.h"
#include "wire/icrc.h"
#include "wire/psn.h"

/* How often a full socket buffer is waited for before packets are given up as lost. */
#define SEND_TRIES 2000u
#define UDP_PAYLOAD_MAX 65507u

static bool same_way(const struct tx_packet *a, const struct tx_packet *b)
{
	return a->source_qpn == b->source_qpn && a->dest_qpn == b->dest_qpn && route_is_same(&a->route, &b->route);
}

/* How many packets from @first on fit one datagram: equal sizes, the last may be shorter. */
static unsigned run_length(const struct tx_batch *batch, unsigned first, unsigned limit)
{
	const struct tx_packet *start = &batch->packet[first];
	size_t bytes = start->bytes + ICRC_BYTES;
	unsigned n = 1;

	while (n < limit && first + n < batch->count) {
		const struct tx_packet *next = &batch->packet[first + n];

		if (next->bytes > start->bytes || !same_way(start, next) ||
		    next->offset != batch->packet[first + n - 1].offset + start->bytes + ICRC_BYTES ||
		    bytes + next->bytes + ICRC_BYTES > UDP_PAYLOAD_MAX)
			break;
		bytes += next->bytes + ICRC_BYTES;
		n++;
		if (next->bytes < start->bytes)
			break;
	}
	return n;
}

static bool needs_scope(const uint8_t address[16])
{
	return ip_addr_is_multicast(address) || ip_addr_is_link_local_ipv6(address);
}

static void fill_datagram(struct datagram *datagram, const struct route *route, uint32_t dest_qpn)
{
	memset(datagram, 0, sizeof(*datagram));
	memcpy(datagram->source, route->source, 16);
	memcpy(datagram->destination, route->destination, 16);
	datagram->link = route->link;
	if (__builtin_expect(route_rows[route->link].arm == ROUTE_ARM_IB, 0)) {
		datagram->ib = route->ib;
	} else {
		/* Other links than IP have no other way to know. */
		if (needs_scope(route->destination) || route_rows[route->link].headers != ROUTE_HEADERS_UDP)
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

static void explain_taken_destination(const uint8_t address[16], const char *who)
{
	bool ipv4 = ip_addr_is_ipv4(address);
	char text[INET6_ADDRSTRLEN];

	inet_ntop(ipv4 ? AF_INET : AF_INET6, address + (ipv4 ? 12 : 0), text, sizeof(text));
	explain("%s: another program has UDP port 4791 of %s, an address of this host: it gets the packets that "
		"are sent there (counter %s), and the peer does not: name another address of the peer, or end "
		"that program ('ss -lunp sport = 4791')", who, text, counter_name(COUNTER_TX_TAKEN));
}

int engine_open_sender(struct engine *engine, const struct route *route, uint32_t dest_qpn, const char *who)
{
	struct datagram datagram;
	int err;

	if (route->link != ROUTE_ROCE_V2)
		return 0;
	fill_datagram(&datagram, route, dest_qpn);
	if (udp_address_is_taken(engine->udp, route->destination) && explaining())
		explain_taken_destination(route->destination, who);
	err = udp_open_sender(engine->udp, &datagram);
	if (err != EMFILE && err != ENFILE)
		return 0;	/* no matter for what stays inside the host; a packet's otherwise */
	explain_refused(who, err, "%s: cannot open a socket to send from: %s: %s", who, strerror(err),
			err == EMFILE ? "raise ulimit -n (RLIMIT_NOFILE)" : "raise /proc/sys/fs/file-max");
	return err;
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

static void tx_seal(struct datagram *datagram, struct tx_batch *batch, unsigned first,
		    unsigned count)
{
	struct icrc_header header = icrc_header_of(datagram, 0);
	unsigned i;

	for (i = 0; i < count; i++) {
		const struct tx_packet *packet = &batch->packet[first + i];

		header.ip_id = (uint16_t)i;
		icrc_seal(&header, batch->data + packet->offset, packet->bytes);
	}
}

static void send_all(struct engine *engine, struct link *link, struct datagram *datagram, unsigned count);

/* Path without GSO: each packet is sealed and sent by itself. */
static void send_apart(struct engine *engine, struct link *link, const struct datagram *run)
{
	struct icrc_header header = icrc_header_of(run, 0);
	struct datagram one = *run;
	size_t rest = run->bytes;

	one.segment_bytes = 0;
	for (; rest; rest -= one.bytes, one.data += one.bytes) {
		one.bytes = rest < run->segment_bytes ? rest : run->segment_bytes;
		icrc_seal(&header, one.data, one.bytes - ICRC_BYTES);
		send_all(engine, link, &one, 1);
	}
}

/* Send all, with a bounded wait for room; then the rest is lost, as on any wire. */
static void send_all(struct engine *engine, struct link *link, struct datagram *datagram, unsigned count)
{
	unsigned done = 0, sent, tries = 0;

	while (done < count) {
		int err = link->ops->send(link, datagram + done, count - done, &sent);

		done += sent;
		if (!err)
			return;
		if (err == EOPNOTSUPP) {
			send_apart(engine, link, &datagram[done++]);
			continue;
		}
		if (++tries > SEND_TRIES) {
			drop_count(engine->counters, DROP_LINK, count - done);
			return;
		}
		thread_yield();
	}
}

static enum trace_path path_of(const struct engine *engine, const struct datagram *datagram,
			       const struct link *way)
{
	return way == engine->loopback			? TRACE_LOOPBACK :
	       way == links_find(engine, datagram)	? links_trace_path(datagram->link) :
	       way == engine->links[ROUTE_ROCE_V2]	? TRACE_UDP : TRACE_RING;
}

void tx_trace_packet(const struct engine *engine, const struct tx_seen *seen, bool lost)
{
	const struct tx_note *note = seen->note;
	struct trace_record record;

	trace_record_init(&record, TRACE_IS_PACKET, seen->datagram);
	record.path = (uint8_t)path_of(engine, seen->datagram, seen->way);
	record.flags = TRACE_OUTBOUND | TRACE_DONT_FRAGMENT | (record.path == TRACE_UDP ? TRACE_HAS_ICRC : 0);
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
	trace_packet(&record, seen->data, seen->bytes);
}

/* Before they are sent, so that the receiver's records are later than these. */
static void tx_trace(struct engine *engine, const struct tx_batch *batch, unsigned first, unsigned count,
		     const struct datagram *datagram, const struct link *way)
{
	struct tx_seen seen = { .datagram = datagram, .way = way };

	for (seen.segment = 0; seen.segment < count; seen.segment++) {
		const struct tx_packet *packet = &batch->packet[first + seen.segment];

		seen.note = tx_batch_note(batch, first + seen.segment);
		seen.data = batch->data + packet->offset;
		seen.bytes = packet->bytes + ICRC_BYTES;
		seen.qpn = packet->source_qpn;
		tx_trace_packet(engine, &seen, false);
	}
}

void engine_trace_management(const struct engine *engine, const struct datagram *datagram)
{
	const struct tx_seen seen = { .datagram = datagram, .way = links_find(engine, datagram),
				      .data = datagram->data,
				      .bytes = datagram->bytes, .qpn = QPN_GSI };

	if (trace_wants(TRACE_PACKETS | TRACE_LOG))
		tx_trace_packet(engine, &seen, false);
}

static struct link *choose_link(struct engine *engine, const struct tx_packet *packet, uint32_t *channel)
{
	uint32_t slot = qpn_slot(packet->dest_qpn);

	if (!packet->route.loopback)
		return engine->links[packet->route.link];
	if (engine_has_slot(engine, slot))
		return engine->loopback;
	*channel = local_channel(&engine->local, slot);
	return *channel == LOCAL_NO_CHANNEL ? engine->links[ROUTE_ROCE_V2] : engine->local.channel_link;
}

#define DATAGRAMS_MAX 64u

void tx_send(struct engine *engine, struct tx_batch *batch)
{
	struct datagram datagram[DATAGRAMS_MAX];
	struct link *link = NULL;
	unsigned first = 0, count = 0;

	while (first < batch->count) {
		struct tx_packet *packet = &batch->packet[first];
		uint32_t channel = 0;
		struct link *way = choose_link(engine, packet, &channel);
		struct datagram *next;
		unsigned limit, run;

		if (count == DATAGRAMS_MAX || (count && way != link)) {
			send_all(engine, link, datagram, count);
			count = 0;
		}
		link = way;
		next = &datagram[count++];
		fill_datagram(next, &packet->route, packet->dest_qpn);
		next->channel = (uint16_t)channel;
		limit = link->ops->prepare(link, next);
		run = run_length(batch, first, limit);
		next->data = batch->data + packet->offset;
		next->segment_bytes = run > 1 ? packet->bytes + ICRC_BYTES : 0;
		next->bytes = (run - 1) * (packet->bytes + ICRC_BYTES) +
			      batch->packet[first + run - 1].bytes + ICRC_BYTES;
		next->sealed = link == engine->loopback;
		if (!way->ops->unsealed)
			tx_seal(next, batch, first, run);
		if (trace_wants(TRACE_PACKETS | TRACE_LOG))
			tx_trace(engine, batch, first, run, next, way);
		counter_add(engine->counters, COUNTER_TX_PACKETS, run);
		counter_add(engine->counters, COUNTER_TX_BYTES, next->bytes);
		first += run;
	}
	if (count)
		send_all(engine, link, datagram, count);
	tx_batch_reset(batch);
	trace_throttle();
	if (loopback_pending(engine->loopback))
		worker_wake_at(engine, 0);
}

struct link *tx_prepare_one(struct engine *engine, struct tx_batch *batch, unsigned index,
			    struct datagram *datagram)
{
	struct tx_packet *packet = &batch->packet[index];
	uint32_t channel = 0;
	struct link *way = choose_link(engine, packet, &channel);

	fill_datagram(datagram, &packet->route, packet->dest_qpn);
	datagram->channel = (uint16_t)channel;
	way->ops->prepare(way, datagram);
	datagram->data = batch->data + packet->offset;
	datagram->bytes = packet->bytes + ICRC_BYTES;
	datagram->sealed = way == engine->loopback;
	if (!way->ops->unsealed)
		tx_seal(datagram, batch, index, 1);
	return way;
}

void tx_send_one(struct engine *engine, struct link *link, struct datagram *datagram)
{
	unsigned sent;

	counter_add(engine->counters, COUNTER_TX_PACKETS, 1);
	counter_add(engine->counters, COUNTER_TX_BYTES, datagram->bytes);
	if (datagram->errors_wanted)
		link->ops->send(link, datagram, 1, &sent);	/* a refusal would be one for ever */
	else
		send_all(engine, link, datagram, 1);
}
