/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The processors are as measured on the machine of bench/results: a packet costs 150 ns and
 * 60 ps a byte to send (batched, with segmentation offload) and somewhat more to receive. So a
 * sender outruns a receiver, and only the path's window keeps the socket buffer from overflowing.
 */
#include <stdio.h>
#include <stdlib.h>

#include "measure.h"
#include "wire/opcode.h"

#define TX_PACKET_NS	150u
#define RX_PACKET_NS	250u
#define TX_BYTE_PS	60u
#define RX_BYTE_PS	100u
#define WAKE_NS		2000u
#define SENDERS_MAX	(SIM_HOSTS_MAX - 1)

static uint64_t data_packets;

static bool carries_data(const struct opcode *op)
{
	return op->verb == VERB_WRITE || op->verb == VERB_SEND || op->verb == VERB_RESPONSE;
}

static void count_data(struct flight *flight, void *argument)
{
	data_packets += carries_data(flight->packet.op);
}

static struct sim_host *create_host(struct sim *sim, const struct measure_options *options)
{
	struct sim_host *host = host_create(sim);

	host->rates.loss = options->loss;
	host->rates.burst_loss = options->burst_loss;
	host->rates.delay_ns = options->delay_ns;
	host->tx_packet_ns = TX_PACKET_NS;
	host->tx_byte_ps = TX_BYTE_PS;
	host->rx_packet_ns = RX_PACKET_NS;
	host->rx_byte_ps = RX_BYTE_PS;
	host->wake_ns = WAKE_NS;
	host->socket_bytes = options->socket_bytes;
	if (options->socket_charge)
		host->socket_charge = options->socket_charge;
	return host;
}

static struct talk *create_talk(struct sim_host *from, struct sim_host *to,
				const struct measure_options *options)
{
	struct talk_options talk_options = {
		.type = IBV_QPT_RC, .connect = connect_defaults(),
		.messages_max = options->messages, .receives_max = 1, .receive_bytes = 1,
		.memory_bytes = 4096 + (size_t)options->messages * (options->message_bytes + 64),
		.send_wrs = options->depth, .lossless_semantics = true };
	struct talk *talk;
	uint32_t i;

	talk_options.connect.mtu = options->mtu;
	talk_options.connect.rd_atomic = 16;
	talk = talk_create(from, to, &talk_options);
	for (i = 0; i < options->messages; i++)
		talk_plan(talk, 0, options->opcode, options->message_bytes, IBV_SEND_SIGNALED, 1);
	return talk;
}

static void fill_result(struct measure_result *result, const struct measure_options *options,
			const struct sim *sim, const struct talk *talk)
{
	uint32_t mtu = 128u << options->mtu;
	uint64_t packets = options->message_bytes ? (options->message_bytes + mtu - 1) / mtu : 1;
	uint64_t messages = (uint64_t)options->messages * options->qps, last_ns = SECOND + 1;
	unsigned i;

	for (; talk; talk = talk->next)
		if (talk->side[0].last_done_ns > last_ns)
			last_ns = talk->side[0].last_done_ns;
	result->seconds = (double)(last_ns - SECOND) / 1e9;
	result->goodput_gbps = (double)messages * options->message_bytes * 8 / 1e9 / result->seconds;
	result->sent = data_packets;
	result->needed = messages * packets;
	result->ratio = (double)result->sent / (double)result->needed;
	for (i = 0; i < sim->host_count; i++) {
		const struct sim_host *host = sim->host[i];

		result->tail_dropped += host->statistics.tail_dropped;
		result->retry_exceeded += counter_get(host->counters, COUNTER_RETRY_EXCEEDED);
		result->probes += counter_get(host->counters, COUNTER_PROBE);
		result->retransmits += counter_get(host->counters, COUNTER_RETRANSMIT);
		result->timeouts += counter_get(host->counters, COUNTER_TIMEOUT);
	}
}

struct measure_result measure(const struct measure_options *options)
{
	struct measure_result result = { .ok = false };
	struct sim *sim = sim_create(options->seed);
	unsigned senders = options->senders ? options->senders : 1, i;
	struct talk *first = NULL, *talk, *next;
	struct sim_host *to, *from[SENDERS_MAX];

	if (senders > SENDERS_MAX)
		abort();
	to = create_host(sim, options);
	for (i = 0; i < senders; i++)
		from[i] = create_host(sim, options);
	sim->rule = count_data;
	data_packets = 0;
	for (i = 0; i < options->qps; i++) {
		talk = create_talk(from[i % senders], to, options);
		talk->next = first;
		first = talk;
	}
	result.ok = talk_run(first);
	snprintf(result.failure, sizeof(result.failure), "%s", sim->failure);
	fill_result(&result, options, sim, first);
	for (talk = first; talk; talk = next) {
		next = talk->next;
		talk_destroy(talk);
	}
	sim_destroy(sim);
	return result;
}
