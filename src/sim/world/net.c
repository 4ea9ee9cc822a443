/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The network. Packets that could leave in one segmented datagram (equal sizes, one QP to
 * another) form a burst, which can be lost as a whole as the kernel loses it. Every packet
 * carries its real ICRC; one that was damaged must be thrown away by the receiver's checks.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/datagram.h"
#include "sim/world/sim.h"
#include "trace/drops.h"
#include "trace/trace.h"
#include "wire/dump.h"
#include "wire/icrc.h"

#define SOURCE_PORT	0xc001
#define BURST_BYTES_MAX	65507u
#define BURST_MAX	64u

struct sim_host *net_find_host(struct sim *sim, const uint8_t address[16])
{
	unsigned i;

	for (i = 0; i < sim->host_count; i++)
		if (!memcmp(sim->host[i]->address, address, 16))
			return sim->host[i];
	return NULL;
}

static void flight_launch(struct flight *flight, uint64_t delay_ns)
{
	size_t bytes = flight->bytes - flight->truncate_bytes;
	struct sim_event event = { .kind = EVENT_ARRIVE, .host = flight->to, .from = flight->from,
				   .at_ns = flight->sim->now_ns + delay_ns, .bytes = bytes };
	unsigned i;

	event.data = malloc(bytes ? bytes : 1);
	if (!event.data)
		abort();
	memcpy(event.data, flight->data, bytes);
	/* Flips bits that the ICRC covers: byte 4 of the BTH (FECN, BECN) is not. */
	for (i = 0; i < flight->corrupt_bits; i++) {
		size_t at = sim_below(flight->sim, (uint32_t)bytes);

		event.data[at == 4 ? 5 : at] ^= (uint8_t)(1u << sim_below(flight->sim, 8));
	}
	event.damaged = memcmp(event.data, flight->data, bytes) || bytes != flight->bytes;
	sim_event_add(flight->sim, event);
}

struct icrc_header net_icrc_header(const struct sim_host *from, const struct sim_host *to)
{
	struct icrc_header header = { .source_port = SOURCE_PORT, .destination_port = ROCE_UDP_PORT,
				      .dont_fragment = true };

	memcpy(header.source, from->address + 12, 4);
	memcpy(header.destination, to->address + 12, 4);
	return header;
}

/* What becomes of it. */
static void flight_decide(struct flight *flight)
{
	const struct sim_rates *rates = &flight->from->rates;
	struct sim *sim = flight->sim;

	flight->drop |= rates->partitioned || sim_chance(sim, rates->loss);
	flight->copies += sim_chance(sim, rates->duplicate);
	flight->delay_ns = rates->delay_ns;
	if (rates->jitter_ns)
		flight->delay_ns += sim_random(sim) % rates->jitter_ns;
	if (sim_chance(sim, rates->reorder))
		flight->delay_ns += sim_random(sim) % (rates->reorder_ns + 1);
	if (sim_chance(sim, rates->corrupt))
		flight->corrupt_bits = 1 + sim_below(sim, 3);
	if (sim_chance(sim, rates->truncate))
		flight->truncate_bytes = 1 + sim_below(sim, (uint32_t)flight->bytes);
	if (sim->rule)
		sim->rule(flight, sim->rule_argument);
}

static struct trace_record flight_record(const struct sim_host *from, const struct sim_host *to)
{
	struct datagram datagram = { .source_port = SOURCE_PORT, .hop_limit = 64 };
	struct trace_record record;

	memcpy(datagram.source, from->address, 16);
	memcpy(datagram.destination, to->address, 16);
	trace_record_init(&record, TRACE_IS_PACKET, &datagram);
	record.path = TRACE_UDP;
	record.flags = TRACE_DONT_FRAGMENT | TRACE_HAS_ICRC;
	return record;
}

static void flight_trace(const struct flight *flight, uint32_t qpn, const struct tx_note *note)
{
	struct trace_record record = flight_record(flight->from, flight->to);

	record.time_ns = tracepoint_now_ns() + flight->from->late_ns;
	record.flags |= TRACE_OUTBOUND | (note && note->has_wr_id ? TRACE_HAS_WR_ID : 0);
	record.qpn = qpn;
	record.drop = flight->drop ? TRACE_DROP_FAULT : 0;
	if (note) {
		record.state = note->state;
		record.wr_id = note->wr_id;
	}
	if (note && note->has_wr_id)
		record.retransmission = (uint16_t)trace_repetition(qpn, flight->packet.psn);
	trace_packet(&record, flight->data, flight->bytes, NULL);
}

/* What it is of: @qpn 0, @note NULL: of no QP. */
static void flight_send(struct sim_host *from, struct sim_host *to, uint8_t *data, size_t bytes,
			bool burst_lost, uint32_t qpn, const struct tx_note *note)
{
	struct flight flight = { .sim = from->sim, .from = from, .to = to, .data = data,
				 .bytes = bytes + ICRC_BYTES, .copies = 1, .drop = burst_lost };
	struct icrc_header header = net_icrc_header(from, to);
	char line[DUMP_LINE_MAX];

	icrc_seal(&header, data, bytes);
	flight.number = from->sim->sent++;
	from->statistics.packets++;
	from->statistics.bytes += flight.bytes;
	if (packet_parse(data, flight.bytes, &flight.packet) != PARSE_OK) {
		sim_fail(from->sim, "host %u sent a packet that does not parse", from->index);
		return;
	}
	flight_decide(&flight);
	if (trace_wants(TRACE_PACKETS))
		flight_trace(&flight, qpn, note);
	if (from->sim->verbose) {
		packet_dump(&flight.packet, line, sizeof(line));
		printf("%10.3f us  %u->%u #%llu %s%s\n", (double)(from->sim->now_ns - SECOND) / 1e3, from->index,
		       to->index, (unsigned long long)flight.number, line,
		       flight.drop ? "  LOST" : flight.copies > 1 ? "  TWICE" :
		       flight.corrupt_bits || flight.truncate_bytes ? "  DAMAGED" : "");
	}
	flight.delay_ns += from->late_ns;
	if (from->serial)
		from->late_ns += from->tx_packet_ns + bytes * from->tx_byte_ps / 1000;
	from->statistics.lost += flight.drop;
	if (flight.drop || to->crashed)
		return;
	while (flight.copies--)
		flight_launch(&flight, flight.delay_ns + (flight.copies ? sim_below(from->sim, 5000) : 0));
}

static unsigned flight_burst(const struct tx_batch *batch, unsigned first)
{
	const struct tx_packet *start = &batch->packet[first];
	unsigned n;

	for (n = 1; first + n < batch->count && n < BURST_MAX; n++) {
		const struct tx_packet *next = start + n;

		if (next->bytes != start->bytes || next->source_qpn != start->source_qpn ||
		    next->dest_qpn != start->dest_qpn || !route_is_same(&next->route, &start->route) ||
		    (n + 1) * (start->bytes + ICRC_BYTES) > BURST_BYTES_MAX)
			break;
	}
	return n;
}

void net_send(struct sim_host *from, struct tx_batch *batch)
{
	unsigned first = 0, n, i;

	from->late_ns = 0;
	from->statistics.batches += batch->count > 0;
	for (first = 0; first < batch->count; first += n) {
		const struct tx_packet *packet = &batch->packet[first];
		struct sim_host *to = net_find_host(from->sim, packet->route.destination);
		bool lost = sim_chance(from->sim, from->rates.burst_loss);

		n = flight_burst(batch, first);
		if (!to) {
			sim_fail(from->sim, "host %u sent to an address of no host", from->index);
			return;
		}
		for (i = 0; i < n; i++)
			flight_send(from, to, batch->data + packet[i].offset, packet[i].bytes, lost,
				    packet[i].source_qpn, tx_batch_note(batch, first + i));
	}
}

void net_send_management(struct sim_host *from, struct sim_host *to, uint8_t *data, size_t bytes)
{
	from->late_ns = 0;
	flight_send(from, to, data, bytes, false, QPN_GSI, NULL);
}

/* Into the socket buffer, if there is room; the receiver takes packets out one by one. */
void net_arrive(struct sim *sim, struct sim_event *event)
{
	struct sim_host *host = event->host;
	uint64_t charge = event->bytes + host->socket_charge;
	struct sim_event serve = *event;

	if (host->crashed || (host->socket_bytes && host->socket_used + charge > host->socket_bytes)) {
		host->statistics.tail_dropped += !host->crashed;
		free(event->data);
		return;
	}
	host->socket_used += charge;
	if (host->socket_used > host->socket_most)
		host->socket_most = host->socket_used;
	if (host->rx_free_ns < sim->now_ns)
		host->rx_free_ns = sim->now_ns;
	host->rx_free_ns += host->rx_packet_ns + event->bytes * host->rx_byte_ps / 1000;
	serve.kind = EVENT_SERVE;
	serve.marked = host->mark_bytes && host->socket_used > host->mark_bytes;
	serve.at_ns = host->rx_free_ns;
	sim_event_add(sim, serve);
}

void net_serve(struct sim *sim, struct sim_event *event)
{
	struct sim_host *host = event->host;
	struct trace_record record;
	enum drop why;

	host->socket_used -= event->bytes + host->socket_charge;
	host->marked = event->marked;
	if (host->crashed)
		return;
	if (!trace_wants(TRACE_PACKETS | TRACE_DROPS)) {
		host_receive(host, event->from, event->data, event->bytes, event->damaged);
		return;
	}
	record = flight_record(event->from, host);
	record.qpn = packet_peek_qpn(event->data, event->bytes);
	record.time_ns = tracepoint_now_ns();
	why = host_receive(host, event->from, event->data, event->bytes, event->damaged);
	record.drop = (uint16_t)why;
	trace_packet(&record, event->data, event->bytes, NULL);
	if (why && event->bytes >= BTH_BYTES && trace_wants(TRACE_DROPS))
		trace_drop(&record, event->data, why);
}
