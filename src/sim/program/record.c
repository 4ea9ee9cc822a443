/* SPDX-License-Identifier: BSD-2-Clause */
/* Records of a simulated run, as blocks of a pcapng file (record.h). */
#include "sim/program/record.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "trace/block.h"
#include "trace/drops.h"
#include "trace/trace.h"

/* Virtual time begins on the first day of a year: runs of one story are the same, whenever they are made. */
#define EPOCH_NS	(1767225600ull * SECOND)
#define WANTED		((uint32_t)TRACE_KINDS | TRACE_PAYLOAD)

struct block {
	uint64_t time_ns, order;
	bool arrives;			/* goes before what it causes */
	size_t bytes;
	uint8_t *data;
};

/* How often a request packet was sent: of a run there are few. */
struct repetition {
	uint32_t host, qpn, psn;
	unsigned times;
};

static struct {
	struct sim *sim;		/* NULL: nothing is recorded */
	const char *const *name;
	struct block *block;
	size_t blocks, block_room;
	struct repetition *repetition;
	size_t repetitions, repetition_room;
	bool failed;
} recording;

static uint64_t record_now_ns(void)
{
	return recording.sim ? EPOCH_NS + recording.sim->now_ns - SECOND : EPOCH_NS;
}

/* ---- blocks ---- */

static bool record_room(void **array, size_t count, size_t *room, size_t each)
{
	size_t more = *room ? 2 * *room : 64;
	void *grown;

	if (count < *room)
		return true;
	grown = realloc(*array, more * each);
	if (!grown)
		return false;
	*array = grown;
	*room = more;
	return true;
}

static void record_keep(const struct trace_record *record, const uint8_t *data, size_t bytes, bool arrives)
{
	struct block block = { .time_ns = record->time_ns, .order = recording.blocks, .arrives = arrives,
			       .bytes = bytes, .data = malloc(bytes) };

	if (!bytes || !block.data ||
	    !record_room((void **)&recording.block, recording.blocks, &recording.block_room, sizeof(block))) {
		recording.failed = true;
		free(block.data);
		return;
	}
	memcpy(block.data, data, bytes);
	recording.block[recording.blocks++] = block;
}

/* Two interfaces a host, as in a trace of programs: packets, then events. */
void trace_put(struct trace_record *record, uint32_t want, const void *data, size_t bytes)
{
	uint8_t out[TRACE_BLOCK_MAX];
	char members[TRACE_TEXT_MAX];
	bool outbound = record->flags & TRACE_OUTBOUND;
	size_t length;
	uint32_t host;

	if (!recording.sim || !recording.sim->running || !(WANTED & want))
		return;
	host = recording.sim->running->index;
	record->thread = host + 1;
	record->captured = (uint32_t)bytes;
	if (!record->time_ns)
		record->time_ns = record_now_ns();
	if (record->kind == TRACE_IS_PACKET)
		length = trace_packet_block(record, 2 * host, outbound, false, data, bytes, record->length, out);
	else
		length = trace_event_block(record, TRACE_AS_PACKETS, 2 * host + 1, members,
					   trace_event_members(record, data, members), out);
	record_keep(record, out, length, record->kind == TRACE_IS_PACKET && !outbound);
}

void trace_packet(struct trace_record *record, const uint8_t *data, size_t bytes, const char *route)
{
	record->length = (uint32_t)bytes;
	trace_put(record, TRACE_PACKETS, data, bytes);
}

unsigned trace_repetition(uint32_t qpn, uint32_t psn)
{
	uint32_t host = recording.sim->running->index;

	for (size_t i = 0; i < recording.repetitions; i++) {
		struct repetition *seen = &recording.repetition[i];

		if (seen->host == host && seen->qpn == qpn && seen->psn == psn)
			return ++seen->times;
	}
	if (record_room((void **)&recording.repetition, recording.repetitions, &recording.repetition_room,
			sizeof(struct repetition)))
		recording.repetition[recording.repetitions++] =
			(struct repetition){ .host = host, .qpn = qpn, .psn = psn };
	else
		recording.failed = true;
	return 0;
}

void trace_forget(uint32_t qpn)
{
	for (size_t i = 0; i < recording.repetitions; i++)
		if (recording.repetition[i].host == recording.sim->running->index &&
		    recording.repetition[i].qpn == qpn)
			recording.repetition[i].qpn = 0;
}

/* ---- the run ---- */

void sim_record_begin(struct sim *sim, const char *const name[SIM_HOSTS_MAX])
{
	memset(&recording, 0, sizeof(recording));
	recording.sim = sim;
	recording.name = name;
	atomic_store(&trace_wanted, WANTED);
	tracepoint_set_clock(record_now_ns);
	tracepoint_listen(trace_take);
	log_listen(trace_explanation);
}

void sim_record_process(const struct sim_host *host, const char *what)
{
	if (!strcmp(what, "end"))
		trace_counters(host->counters);
	tracepoint(process, .name = what, .pid = host->index + 1,
		   .program = recording.name[host->index]);
}

static int record_order(const void *one, const void *other)
{
	const struct block *a = one, *b = other;

	if (a->time_ns != b->time_ns)
		return a->time_ns < b->time_ns ? -1 : 1;
	if (a->arrives != b->arrives)
		return a->arrives ? -1 : 1;
	return a->order < b->order ? -1 : 1;
}

static void record_put(FILE *out, const uint8_t *data, size_t bytes)
{
	if (fwrite(data, 1, bytes, out) != bytes)
		recording.failed = true;
}

bool sim_record_write(FILE *out)
{
	uint8_t block[PCAPNG_INTERFACE_MAX + 128];
	char events[PCAPNG_NAME_MAX];

	record_put(out, block, pcapng_write_section(block));
	for (unsigned i = 0; i < recording.sim->host_count; i++) {
		snprintf(events, sizeof(events), "%s events", recording.name[i]);
		record_put(out, block, pcapng_write_interface(PCAPNG_RAW_IP, recording.name[i], block));
		record_put(out, block, pcapng_write_interface(PCAPNG_EXPORTED_PDU, events, block));
	}
	qsort(recording.block, recording.blocks, sizeof(*recording.block), record_order);
	for (size_t i = 0; i < recording.blocks; i++)
		record_put(out, recording.block[i].data, recording.block[i].bytes);
	return !recording.failed && !fflush(out);
}

void sim_record_end(void)
{
	atomic_store(&trace_wanted, 0);
	log_listen(NULL);
	tracepoint_listen(NULL);
	for (size_t i = 0; i < recording.blocks; i++)
		free(recording.block[i].data);
	free(recording.block);
	free(recording.repetition);
	memset(&recording, 0, sizeof(recording));
}
