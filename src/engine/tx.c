/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * From a batch of packets to datagrams: runs of packets of one size to one destination leave as one
 * datagram with segmentation offload, sealed with the ICRC for their position in it (the
 * kernel numbers the IPv4 identification of segments 0, 1, 2 ...: docs/field-notes.md).
 */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "base/inline.h"
#include "base/ip_addr.h"
#include "base/log.h"
#include "engine/internal.h"
#include "engine/out.h"
#include "engine/wake.h"
#include "engine/qp_table.h"
#include "link/udp.h"
#include "trace/trace.h"
#include "wire/icrc.h"

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
	out_address(&datagram, route, dest_qpn);
	if (udp_address_is_taken(engine->udp, route->destination) && explaining())
		explain_taken_destination(route->destination, who);
	err = udp_open_sender(engine->udp, &datagram);
	if (err != EMFILE && err != ENFILE)
		return 0;	/* no matter for what stays inside the host; a packet's otherwise */
	explain_refused(who, err, "%s: cannot open a socket to send from: %s: %s", who, strerror(err),
			err == EMFILE ? "raise ulimit -n (RLIMIT_NOFILE)" : "raise /proc/sys/fs/file-max");
	return err;
}

/* As icrc_begin() for packet @i of @datagram. */
static APART uint32_t tx_begin_icrc(const struct datagram *datagram, struct tx_kept *kept, unsigned i,
				    uint32_t bytes)
{
	struct icrc_header header = icrc_header_of(datagram, i);
	uint32_t icrc = icrc_begin(&header, bytes);

	if (i <= kept->begun && i < TX_BEGUN_MAX) {
		kept->packet[i].bytes = bytes;
		kept->packet[i].icrc = icrc;
		kept->begun += i == kept->begun;
	}
	return icrc;
}

/* @datagram is what is kept, with data. */
static void tx_seal(const struct datagram *datagram, struct tx_batch *batch, unsigned first, unsigned count)
{
	struct tx_kept *kept = &batch->kept;
	unsigned i;

	for (i = 0; i < count; i++) {
		const struct tx_packet *packet = &batch->packet[first + i];
		bool known = i < kept->begun && kept->packet[i].bytes == packet->bytes;

		icrc_seal_begun(known ? kept->packet[i].icrc : tx_begin_icrc(datagram, kept, i, packet->bytes),
				batch->data + packet->offset, packet->bytes);
	}
}

/* Addressed and prepared for @way; returns how many equal segments it may have. */
static unsigned tx_address(struct datagram *datagram, const struct tx_packet *packet, struct tx_kept *kept,
			   struct link *way, uint32_t channel)
{
	/* E2: pairs with E1 in link/udp_send.c: what was prepared before is asked for anew */
	uint32_t epoch = atomic_load_explicit(&way->epoch, memory_order_acquire);

	if (kept->way == way && epoch && kept->epoch == epoch &&
	    kept->datagram.spread == qpn_slot(packet->dest_qpn) && route_is_same(&kept->route, &packet->route)) {
		*datagram = kept->datagram;
		return kept->segments_max;
	}
	out_address(datagram, &packet->route, packet->dest_qpn);
	datagram->channel = (uint16_t)channel;
	kept->segments_max = way->ops->prepare(way, datagram);
	kept->way = way;
	kept->epoch = epoch;
	kept->route = packet->route;
	kept->datagram = *datagram;
	kept->begun = 0;
	return kept->segments_max;
}

/* Before they are sent, so that the receiver's records are later than these. */
static void tx_trace(struct engine *engine, const struct tx_batch *batch, unsigned first, unsigned count,
		     const struct datagram *datagram, struct link *way)
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

#define DATAGRAMS_MAX 64u

void tx_send(struct engine *engine, struct tx_batch *batch)
{
	struct datagram datagram[DATAGRAMS_MAX];
	struct link *link = NULL;
	unsigned first = 0, count = 0;

	while (first < batch->count) {
		struct tx_packet *packet = &batch->packet[first];
		uint32_t channel = 0;
		struct link *way = out_choose_link(engine, packet, &channel);
		struct datagram *next;
		unsigned limit, run;

		if (count == DATAGRAMS_MAX || (count && way != link)) {
			out_send(engine, link, datagram, count);
			count = 0;
		}
		link = way;
		next = &datagram[count++];
		limit = tx_address(next, packet, &batch->kept, link, channel);
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
		out_send(engine, link, datagram, count);
	tx_batch_reset(batch);
	trace_throttle();
	if (loopback_pending(engine->loopback))
		worker_wake_at(engine, 0);
}
